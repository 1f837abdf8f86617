"""The web server of the board: its screens, assets and events, on a socket of this machine."""

import asyncio
import logging
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board import actions, agents, inbox, project, review, tasks
from ralphgen.board.guard import LOOPBACK, MOST_WAITING, AccessGuard, BoundedConnection, end_waiting
from ralphgen.board.live import Board, Events
from ralphgen.board.render import Desk, environment
from ralphgen.errors import ProjectError, RalphgenError, plain
from ralphgen.kits.registry import project_config
from ralphgen.project.config import FILE as CONFIG
from ralphgen.runtime.errors import ToolError
from ralphgen.terminal.console import say, show_crash

ASSETS = Path(__file__).parent / "assets"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SCREENS = (inbox, actions, tasks, review, agents, project)
LARGEST_BODY = 256 * 1024  # bytes of a form
SWITCH_INTERVAL = 0.001
"""Seconds until a rendering thread yields to another, which may hold a lock of the database."""
LOGGERS = ("uvicorn.error", "asyncio")
LAST_WORDS = 2
"""Seconds that a running action gets when the board ends."""


class Site:
    """The screens, assets and events of a board; all of it belongs to the event loop."""

    def __init__(self, board: Board) -> None:
        events, desk = Events(board), Desk(board, inbox.badge)
        self.close = events.close
        self.app = Starlette(
            routes=[
                *(one for screen in SCREENS for one in screen.routes(desk)),
                Route("/assets/{name}", _asset),
                Route("/events", events.answer),
            ],
            exception_handlers=dict.fromkeys(
                (HTTPException, RalphgenError, ToolError, Exception), desk.refused
            ),
            max_body_size=LARGEST_BODY,
        )


async def _asset(request: Request) -> Response:
    """Return a file of the assets, without indents and comments; a name leads nowhere else."""
    name = request.path_params["name"]
    found = {path.name: path for path in ASSETS.iterdir() if path.suffix in KINDS}
    if name not in found:
        raise HTTPException(404)
    lines = map(str.strip, found[name].read_text(encoding="utf-8").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    return Response(text, media_type=KINDS[found[name].suffix])


def serve(root: Path, *, announce: Callable[[str], None], browse: bool) -> None:
    """Serve the board of the project in `root` until Ctrl-C or a request to terminate.

    `announce` is called with an address that lets one browser in, and again whenever one was used.
    Raises `ProjectError` if the config's port is taken.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    quiet_log()
    with _listening(root) as listening:
        server = BoardServer(root, listening, announce)
        for number in (signal.SIGINT, signal.SIGTERM):  # before the address is announced
            signal.signal(number, server.handle_exit)
        announce(server.address)
        if browse:
            own = server.guard.opening(announced=False)
            Thread(target=webbrowser.open, args=(own,), daemon=True).start()
        server.run([listening])


def _listening(root: Path) -> socket.socket:
    """Listen on the port in the config, or on any; an invalid config has none."""
    port = 0
    try:
        port = project_config(root).values.board.port or 0
    except ProjectError as error:
        say(f"warning: {plain(error.problems[0].text)}: the board uses any free port")
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        text = f"the board cannot listen on port {port}: {(error.strerror or str(error)).lower()}"
        hint = f"end the program that uses it, or change [board] port in {CONFIG}"
        raise ProjectError(text, hint) from error


class BoardServer(uvicorn.Server):
    """Serves the board on a socket; `address` lets one browser in, and then leads nowhere."""

    def __init__(
        self, root: Path, listening: socket.socket, announce: Callable[[str], None]
    ) -> None:
        self._site = Site(Board(root))
        self.guard = AccessGuard(self._site.app, listening.getsockname()[1], announce)
        self.address = self.guard.opening(announced=True)
        environment().get_template("inbox.html.jinja")  # its first page comes without a wait
        config = uvicorn.Config(
            self.guard,
            loop="asyncio",
            http=BoundedConnection,
            backlog=MOST_WAITING,  # so many are taken at once, before any of them is counted
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LAST_WORDS,
        )
        super().__init__(config)

    async def on_tick(self, counter: int) -> bool:
        """End connections that keep the board waiting; it ticks ten times a second."""
        end_waiting(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams, which their clients would never leave, and then the server."""
        self._site.close()
        await super().shutdown(sockets)


def quiet_log() -> None:
    """Show only unexplained errors of uvicorn and asyncio, in two lines each."""
    for logger in map(logging.getLogger, LOGGERS):
        logger.handlers = [_Crashes()]
        logger.propagate = False


class _Crashes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Show the exception of a record; records without one are about invalid requests."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, asyncio.CancelledError):
            show_crash(type(error), error, error.__traceback__)
