"""Lets only known browsers in to the board, and ends connections that keep it waiting."""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_WAITING = 32
"""Connections without a request; a browser has six. Further ones end the oldest."""
PATIENCE = 10.0
"""Seconds for a client to send the head of a request, or to read a response."""


class BoundedConnection(H11Protocol):
    """A connection that ends if its client keeps it waiting: see `end_waiting`.

    Connecting does not require the board's secret: without limits, any user of this machine could
    take all the connections that the board can have.
    """

    since = 0.0  # when it was last the board's turn

    @property
    def is_waiting(self) -> bool:
        """Return whether it is the client's turn: to send the head of a request, or to read."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request; too many connections end the ones that wait longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        self.since = self.loop.time()
        end_waiting(self.connections, self.since)

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self.since = self.loop.time()
        super().on_response_complete()


def end_waiting(connections: Iterable[object], now: float) -> None:
    """End the connections that wait too long, and the oldest of too many, without the rest."""
    known = [one for one in connections if isinstance(one, BoundedConnection)]
    for one in known:
        one.since = one.since if one.is_waiting else now
    waiting = sorted((one for one in known if one.is_waiting), key=lambda one: one.since)
    late = sum(now - one.since > PATIENCE for one in waiting)
    for one in waiting[: max(late, len(waiting) - MOST_WAITING)]:
        one.transport.abort()


LOOPBACK = "127.0.0.1"
SECRET_BYTES = 32
OPEN, SAFE = "open", ("GET", "HEAD")
CLOSED = """\
this board admits only known browsers: open the address that "ralphgen board" printed last,
or run "ralphgen board" in the project, which opens it
"""
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
OWN_END, OTHER_END, STATE, USER, INODE = 1, 2, 3, 7, 9
"""The positions of the words of a row; both ends are an address and a port, in hex."""
LISTENS, NOBODY = "0A", -1
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
"""The headers of each response, also of a refusal."""


class AccessGuard:
    """Protects the app, which does not see refused requests.

    Opening a one-time address sets a cookie, and the cookie grants access, unless another user
    sends it: every user of the machine can read the command line of a browser, and a browser sends
    its cookies for an address to every port of it. `announce` receives a new address after one is
    used.
    """

    def __init__(self, app: ASGIApp, port: int, announce: Callable[[str], None]) -> None:
        self._app = app
        self._port = port
        self._announce = announce
        self._hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
        self._cookie = f"ralphgen_board_{port}"
        self._pass = secrets.token_urlsafe(SECRET_BYTES)
        self._openings: dict[str, bool] = {}

    def opening(self, *, announced: bool) -> str:
        """Return a new address that lets one browser in; `announced` is whether people see it."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._openings[secret] = announced
        return f"http://{LOOPBACK}:{self._port}/{OPEN}/{secret}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request; only HTTP is supported."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not be passed on."""
        headers, method = Headers(scope=scope), scope["method"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("forbidden", 403)
        raw: bytes = scope["raw_path"]  # as sent: percent signs hide nothing
        place, _, secret = raw.decode("latin-1").removeprefix("/").partition("/")
        if place == OPEN and method == "GET" and self._opens(secret, scope):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._pass, path="/", httponly=True, samesite="strict")
            return answer
        if not self._is_let_in(headers) or self._is_another(scope):
            return PlainTextResponse(CLOSED, 403)
        if place == OPEN:
            return RedirectResponse("/", 303)
        if method not in SAFE and not _from_own_page(headers, hosts[0]):
            return PlainTextResponse("forbidden", 403)
        return None

    def _opens(self, given: str, scope: Scope) -> bool:
        """Return whether this is the one request that an opening is for; it works only once."""
        found = [secret for secret in self._openings if _same(given, secret)]
        if not found or self._is_another(scope):
            return False
        if self._openings.pop(found[0]):
            with suppress(OSError):  # the reader is gone
                self._announce(self.opening(announced=True))
        return True

    def _is_let_in(self, headers: Headers) -> bool:
        """Return whether the request has the cookie, also among others of the same name."""
        pairs = ";".join(headers.getlist("cookie")).split(";")
        wanted = f"{self._cookie}={self._pass}"
        return any(_same(pair.strip(), wanted) for pair in pairs)

    def _is_another(self, scope: Scope) -> bool:
        """Return whether another user of the machine sends the request, if that is known."""
        if scope["client"] is None:  # the connection was reset by an unknown user
            return True
        users = _users_at(scope["client"][1], self._port)
        return users is not None and not (users and users <= {os.getuid(), ROOT})


def _same(found: str, secret: str) -> bool:
    """Return whether a text is the secret, in constant time."""
    return secrets.compare_digest(found.encode(), secret.encode())


def _from_own_page(headers: Headers, host: str) -> bool:
    """Return whether a page of the board sends this.

    Without a referrer, a form has no origin or "null"; then the browser reports the page's site.
    """
    origins = headers.getlist("origin")
    if origins in ([], ["null"]):
        return headers.getlist("sec-fetch-site") == ["same-origin"]
    return origins == [f"http://{host}"]


def _users_at(port: int, own: int) -> set[int] | None:
    """Return the users of the sockets at `port` that are connected to `own`, None if unknown."""
    rows: list[list[str]] = []
    for table in TABLES:
        with suppress(OSError):
            rows += map(str.split, Path(table).read_text(encoding="ascii").splitlines()[1:])
    here, there = f":{own:04X}", f":{port:04X}"
    if not any(row[OWN_END].endswith(here) and row[STATE] == LISTENS for row in rows):
        return None
    return {
        int(row[USER]) if row[INODE] != "0" else NOBODY
        for row in rows
        if row[OWN_END].endswith(there) and row[OTHER_END].endswith(here)
    }
