"""Runs the board on loopback until it is asked to end, and shows it in a browser."""

import logging
import secrets
import signal
import socket
import webbrowser
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uvicorn

from ralphgen.board.project import Board
from ralphgen.board.web.app import Site
from ralphgen.board.web.guard import Guard
from ralphgen.terminal.console import show_crash

LOOPBACK = "127.0.0.1"
SECRET_BYTES = 32
LAST_WORDS = 2
"""Seconds that an action has to come to its end in when the board ends."""


def serve(root: Path, *, announce: Callable[[str], None], browse: bool) -> None:
    """Serve the board of the project in `root` until Ctrl-C or a request to terminate.

    `announce` is called with its address as soon as it answers there.
    """
    with socket.create_server((LOOPBACK, 0)) as listening, quiet_log():
        server = BoardServer(root, listening, one_time=browse)
        for number in (signal.SIGINT, signal.SIGTERM):  # before anybody knows that we run
            signal.signal(number, server.handle_exit)
        announce(server.address)
        if browse:
            Thread(target=webbrowser.open, args=(server.one_time_address,), daemon=True).start()
        server.run([listening])


class BoardServer(uvicorn.Server):
    """Serves the board on a socket; `address` is the page, behind a token of its own.

    `one_time_address` leads there once, empty where none is wanted.
    """

    def __init__(self, root: Path, listening: socket.socket, *, one_time: bool = False) -> None:
        """Make the tokens; nothing is answered before it runs."""
        port = listening.getsockname()[1]
        token, once = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(2))
        self.address = f"http://{LOOPBACK}:{port}/{token}/"
        self.one_time_address = f"http://{LOOPBACK}:{port}/{once}/" if one_time else ""
        self._site = Site(Board(root))
        config = uvicorn.Config(
            Guard(self._site.app, port, token, once if one_time else ""),
            loop="asyncio",
            http="h11",
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams, which their clients would never leave, and then the server."""
        self._site.close()
        await super().shutdown(sockets)


class _Crashes(logging.Handler):
    """Says in two lines what nothing has explained, as the command line does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show the exception of a record, but for what the end has cut off.

        The rest is about requests that no browser sends.
        """
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, CancelledError):
            show_crash(type(error), error, error.__traceback__)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Show of uvicorn's log only what nothing has explained, in our own words."""
    logger, crashes = logging.getLogger("uvicorn.error"), _Crashes()
    logger.addHandler(crashes)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(crashes)
