"""Lets in only those who know the token, from a page of the board itself, on this machine."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Guard:
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
