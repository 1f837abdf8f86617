"""Runs the board on loopback, and lets in only who knows the token, from a page of its own."""

import logging
import os
import secrets
import signal
import socket
import webbrowser
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ralphgen.board.project import Board
from ralphgen.board.web.app import Site
from ralphgen.board.web.connections import MOST_WAITING, BoundedConnection
from ralphgen.terminal.console import show_crash

LOOPBACK = "127.0.0.1"
SECRET_BYTES = 32
LAST_WORDS = 2
"""Seconds that an action has to come to its end in when the board ends."""
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
OWN_END, OTHER_END, USER = 1, 2, 7
"""The places of the words of a row; both ends are written as an address and a port, in hex."""
SAFE = ("GET", "HEAD")
ROOT = 0  # who may do everything anyway, and passes on what comes from outside of a container
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What every answer says, a refusal too."""


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
            AccessGuard(self._site.app, port, token, once if one_time else ""),
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams, which their clients would never leave, and then the server."""
        self._site.close()
        await super().shutdown(sockets)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Show of the logs of uvicorn and asyncio only what nothing has explained, in our own words."""
    loggers, crashes = (
        [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")],
        _Crashes(),
    )
    for logger in loggers:
        logger.addHandler(crashes)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(crashes)
            logger.propagate = True


class _Crashes(logging.Handler):
    """Says in two lines what nothing has explained, as the command line does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show the exception of a record, but for what the end has cut off.

        The rest is about requests that no browser sends.
        """
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, CancelledError):
            show_crash(type(error), error, error.__traceback__)


class AccessGuard:
    """Stands before the app, which sees nothing that is refused here.

    The app finds itself below the token. `one_time` leads to it once, and no other user: what
    a browser is started with can be read by every user of the machine.
    """

    def __init__(self, app: ASGIApp, port: int, token: str, one_time: str) -> None:
        """`token` and `one_time` are secrets, written as they stand in a URL."""
        self._app = app
        self._port = port
        self._hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
        self._token = token
        self._one_time = one_time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request; there is nothing but HTTP here."""
        if scope["type"] != "http":
            return
        answer = self._refusal(scope) or self._app

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await answer({**scope, "root_path": f"/{self._token}"}, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not be passed on."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("forbidden", 403)
        first = _first_segment(scope)
        if self._opens(first, scope):
            return RedirectResponse(f"/{self._token}/", 303)
        if not _same(first, self._token):
            return PlainTextResponse("not found", 404)
        if scope["method"] not in SAFE and not _from_own_page(headers, hosts[0]):
            return PlainTextResponse("forbidden", 403)
        return None

    def _opens(self, first: str, scope: Scope) -> bool:
        """Return whether this is the one request that the one_time is for."""
        if not self._one_time or scope["method"] != "GET" or not _same(first, self._one_time):
            return False
        users = _users_at(scope["client"][1], self._port)
        if any(user not in {os.getuid(), ROOT} for user in users):
            return False
        self._one_time = ""
        return True


def _first_segment(scope: Scope) -> str:
    """Return the first segment of the path as it was sent, where percent signs hide nothing."""
    raw: bytes = scope["raw_path"]
    return raw.split(b"/", 2)[1].decode("latin-1") if raw.startswith(b"/") else ""


def _same(found: str, secret: str) -> bool:
    """Return whether a text is the secret; how long this takes says nothing."""
    return secrets.compare_digest(found.encode(), secret.encode())


def _from_own_page(headers: Headers, host: str) -> bool:
    """Return whether a page of the board sends this.

    A form sends no origin, or "null", where the page gives no referrer; then the browser itself
    says whose it is.
    """
    origins = headers.getlist("origin")
    if origins in ([], ["null"]):
        return headers.getlist("sec-fetch-site") == ["same-origin"]
    return origins == [f"http://{host}"]


def _users_at(port: int, own: int) -> set[int]:
    """Return the users of the sockets at `port` that are connected to `own`, where /proc tells."""
    found: set[int] = set()
    for table in TABLES:
        with suppress(OSError):
            for row in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                words = row.split()
                ends = words[OWN_END][-5:], words[OTHER_END][-5:]
                if ends == (f":{port:04X}", f":{own:04X}"):
                    found.add(int(words[USER]))
    return found
