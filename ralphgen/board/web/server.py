"""Runs the board on loopback until it is asked to end, and shows it in a browser."""

import ctypes
import logging
import secrets
import signal
import socket
import webbrowser
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import uvicorn

from ralphgen.board.project import Board
from ralphgen.board.web.app import Site
from ralphgen.board.web.guard import Guard
from ralphgen.terminal.console import show_crash

LOOPBACK = "127.0.0.1"
SECRET_BYTES = 32
ARENA_MAX = -8  # glibc's M_ARENA_MAX
LAST_WORDS = 2
"""Seconds that an action has to come to its end in when the board ends."""


def serve(root: Path, *, announce: Callable[[str], None], browse: bool) -> None:
    """Serve the board of the project in `root` until Ctrl-C or a request to terminate.

    `announce` is told its address as soon as it answers there.
    """
    _share_one_heap()  # before the first thread
    site = Site(Board(root))
    with socket.create_server((LOOPBACK, 0)) as listening:
        port = listening.getsockname()[1]
        token, door = (secrets.token_urlsafe(SECRET_BYTES) for _ in range(2))
        config = uvicorn.Config(
            Guard(site.app, port, token, door if browse else ""),
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
        server = _Server(config, site)
        _log_quietly()
        for number in (signal.SIGINT, signal.SIGTERM):  # before anybody knows that we run
            signal.signal(number, server.handle_exit)
        announce(f"http://{LOOPBACK}:{port}/{token}/")
        if browse:
            address = f"http://{LOOPBACK}:{port}/{door}/"
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server.run([listening])


def _share_one_heap() -> None:
    """Let no thread keep a heap of its own, a third of the memory, where the C library does so."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(ARENA_MAX, 1)


class _Server(uvicorn.Server):
    """Ends the open streams with itself: their clients would never leave of their own."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is open and then the server."""
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


def _log_quietly() -> None:
    """Say what uvicorn has to say in our own words."""
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(_Crashes())
    logger.propagate = False
