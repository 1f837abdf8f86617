"""The ASGI app: whose request it is, and its answer by the fast path or else by the SDK's app."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache

from ..errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    ContextError,
    RefusedError,
    StartError,
    log,
    log_exception,
    one_line,
)
from ..protocol import messages
from ..protocol.fast_path import DoubtError
from .exchange import FAILED, JSON, WRONG, Exchange, HttpError
from .request_log import RequestLog
from .sessions import BusyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..protocol.fast_path import FastPath, PlainRequest
    from .bearer import Bearer
    from .exchange import Message, Receive, Send
    from .limits import Hosts, Places, Rates
    from .metrics import Metrics
    from .sessions import OpenSession, OpenSessions

    Headers = dict[bytes, bytes]

# Headers of which two would let two readers disagree on what a request is.
SINGLE = frozenset((b"authorization", b"host", b"origin", b"content-type", b"content-length"))
ROUTING = frozenset((b"mcp-protocol-version", b"mcp-method", b"mcp-name"))
DOUBLED = b"doubled"  # a header of ours: a routing header stands there twice, or one of arguments
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
BLANKS = b" \t"  # around a header's value, which the parser leaves there and RFC 9110 does not mean
LINGER = 1.0  # seconds in which the body of a refused request may still come
LEFT = 1 << 25  # bytes of it that are read: who goes on sending would not read the answer
# The status of an answer that is an error, in the stateless version (SDK: `shared/inbound.py`).
STATUS = {INVALID_REQUEST: 400, INVALID_PARAMS: 400}


class HttpApp:
    """Answers what comes to one worker.

    `routes` are the paths of the kits, with their names. `places` bounds the requests of a session
    that are answered at once. `ready` says in a sentence why this server
    should get no requests, and is empty where it should; `limits` are the most bytes of a request,
    and the most seconds. `log` has the lines that are still to be written.
    """

    def __init__(
        self,
        routes: Mapping[str, str],
        bearer: Bearer,
        sessions: OpenSessions,
        *,
        hosts: Hosts,
        places: Places,
        rates: Rates,
        metrics: Metrics,
        ready: Callable[[], str],
        limits: tuple[int, int],
    ) -> None:
        self._bearer = bearer
        self._hosts = hosts
        self._max_body, self._timeout = limits
        self._metrics = metrics
        self._places = places
        self._rates = rates
        self._ready = ready
        self._routes = routes
        self._sessions = sessions
        self.log = RequestLog()

    def leave(self) -> None:
        """Be ready no more: the server ends."""
        self._ready = lambda: "the server ends"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; whatever goes wrong is an answer that says nothing of the inside."""
        exchange = Exchange(send)
        self._metrics.add("in_flight")
        try:
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    await self._answer(scope, receive, exchange)
            except TimeoutError:
                if not limit.expired():  # one from within, as of a connection to elsewhere
                    raise
                text = (
                    f"it took longer than {self._timeout} seconds: it may or may not have been done"
                )
                raise HttpError(504, text) from None
        except HttpError as error:
            if not exchange.status:
                if exchange.unread and not await _is_read(scope, receive):
                    error.headers["connection"] = "close"
                await exchange.refuse(error)
        except Exception:
            log_exception("http", path=one_line(scope["path"][:100]))
            if not exchange.status:
                await exchange.refuse(HttpError(FAILED, "the server failed; see its log"))
        finally:
            self._metrics.add("in_flight", -1)
            seconds = time.monotonic() - exchange.begun
            self._metrics.answered(exchange.status, seconds)
            self._metrics.set("sessions", len(self._sessions))
            if scope["path"] in self._routes or exchange.status >= WRONG:
                self.log.add(exchange.line(scope["method"], scope["path"], seconds))

    async def _answer(self, scope: Message, receive: Receive, exchange: Exchange) -> None:
        scope["headers"] = [(name, value.strip(BLANKS)) for name, value in scope["headers"]]
        headers = _headers(scope["headers"])
        path, method = scope["path"], scope["method"]
        if path == "/healthz":
            await exchange.answer(200, b"ok\n", b"text/plain")
            return
        if path == "/readyz":
            problem = await asyncio.to_thread(self._ready)
            text = f"{problem or 'ready'}\n".encode()
            await exchange.answer(503 if problem else 200, text, b"text/plain; charset=utf-8")
            return
        if not self._hosts.takes_host(headers.get(b"host", b"").decode("latin-1")):
            raise HttpError(421, "this server does not accept requests for that host name")
        origin = headers.get(b"origin")
        if not self._hosts.takes_origin(None if origin is None else origin.decode("latin-1")):
            raise HttpError(403, "this server does not accept requests from that origin")
        if path == "/metrics":
            await exchange.answer(200, self._metrics.text().encode(), b"text/plain; version=0.0.4")
            return
        kit = self._routes.get(path)
        if kit is None:
            raise HttpError(404, "there is nothing at this address")
        token, claims = self._bearer.token_of(headers.get(b"authorization", b""))
        exchange.session = claims["jti"]
        if method != "POST":
            raise HttpError(405, "only POST is allowed here", allow="POST")
        if not self._rates.takes(claims["jti"]):
            raise HttpError(429, "this session makes too many requests", **{"retry-after": "1"})
        with self._places.taken(claims["jti"]):
            body = await self._body(headers, receive)
            exchange.unread = False
            session = await self._session(kit, token, claims)
            self._bearer.token_of(headers[b"authorization"])  # it may have ended meanwhile
            session.begin()
            try:
                if not await self._answered_fast(session, headers, body, receive, exchange):
                    await self._answer_by_sdk(session, scope, receive, body, exchange)
            finally:
                session.users -= 1

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body; raises `HttpError` where it is too long or does not come."""
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._max_body:
            raise HttpError(413, f"a request can have at most {self._max_body:,} bytes")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise HttpError(400, "the client closed the request")
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_body:
                raise HttpError(413, f"a request can have at most {self._max_body:,} bytes")
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _session(self, kit: str, token: str, claims: dict[str, Any]) -> OpenSession:
        """Return the session of a token, opened if need be; raises `HttpError` if it cannot."""
        try:
            while True:
                session = self._sessions.held(kit, token)
                if session is not None and session.is_lost:
                    await self._sessions.drop(kit, token)
                    session = None
                if session is None:
                    session = await self._sessions.opened(kit, token, claims)
                if not session.closed:  # it may have had to go before it was used
                    return session
        except ContextError as error:
            log("error", kit, f"the session {claims['jti']} cannot be opened: {error}")
            text = (
                "the session of this token cannot be opened (see the server's log): make "
                'a new one with "ralphgen session create RECIPE --token"'
            )
            raise HttpError(403, text) from error
        except (StartError, OSError) as error:
            log("error", kit, f"no session can be opened now: {error}")
            text = "cannot open a session now (see the server's log): try again"
            raise HttpError(503, text, **{"retry-after": "5"}) from error
        except BusyError as error:
            text = "as many sessions are open as may be: try again"
            raise HttpError(503, text, **{"retry-after": "1"}) from error

    async def _answered_fast(
        self,
        session: OpenSession,
        headers: Headers,
        body: bytes,
        receive: Receive,
        exchange: Exchange,
    ) -> bool:
        """Answer a plain request without the SDK; return whether it was one."""
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        modern = version == messages.MODERN
        fast_path = session.fast_paths.get(version)
        request = _plain_request(fast_path, headers, body, modern=modern)
        if fast_path is None or request is None:
            return False
        if request.identity is None:
            session.cancel(request.params["requestId"])
            return False
        exchange.what = request.method
        if request.method == "tools/call":
            name = request.params["name"]
            exchange.what += f" {name}" if name in session.tools else " of no tool"
        outcome: dict[str, Any] | RefusedError
        try:
            outcome = await session.answer(request, receive)
        except RefusedError as error:
            outcome = error
        status = 200
        if isinstance(outcome, RefusedError):
            status = STATUS.get(outcome.code, 200) if modern else 200
        elif outcome.get("isError"):
            self._metrics.add("failed_calls")
        self._metrics.add("fast_path")
        await exchange.answer(status, fast_path.frame(request, outcome))
        return True

    async def _answer_by_sdk(
        self,
        session: OpenSession,
        scope: Message,
        receive: Receive,
        body: bytes,
        exchange: Exchange,
    ) -> None:
        """Have the SDK's app answer a request whose body was read."""
        unread = [body]

        async def replay() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        self._metrics.add("sdk")
        sdk = await session.sdk()
        await sdk.app(scope, replay, exchange.send)


def _plain_request(
    fast_path: FastPath | None, headers: Headers, body: bytes, *, modern: bool
) -> PlainRequest | None:
    """Return the request that a body surely is; None for what only the SDK knows an answer to."""
    if fast_path is None or DOUBLED in headers:
        return None
    kind, accepted = headers.get(b"content-type", b""), headers.get(b"accept", b"")
    if not _is_json(kind) or not _takes_json(accepted):
        return None
    try:
        request = fast_path.read(body)
    except (DoubtError, ValueError, RecursionError):
        return None
    if request is None or not modern:
        return request
    routed = request.identity is not None and _is_routed(headers, request.method, request.params)
    return request if routed else None


async def _is_read(scope: Message, receive: Receive) -> bool:
    """Return whether what is left of a body that nobody wants has come, soon and not too long."""
    if any(name == b"expect" for name, _ in scope["headers"]):  # it comes only when it is asked for
        return False
    size = 0
    try:
        async with asyncio.timeout(LINGER):
            while size <= LEFT:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False


def _headers(pairs: list[tuple[bytes, bytes]]) -> Headers:
    """Return headers by name; raises `HttpError` where one stands twice that may not."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = {name for name in found if names.count(name) > 1}
        if twice & SINGLE:
            raise HttpError(400, "the request repeats a header that must occur once")
        if twice & ROUTING:
            found[DOUBLED] = b""
    return found


@lru_cache(256)
def _is_json(kind: bytes) -> bool:
    return kind.partition(b";")[0].strip().lower() == JSON


@lru_cache(256)
def _takes_json(accepted: bytes) -> bool:
    kinds = [kind.partition(b";")[0].strip().lower() for kind in accepted.split(b",")]
    return JSON in kinds or b"*/*" in kinds or b"application/*" in kinds


def _is_routed(headers: Headers, method: str, params: Mapping[str, Any]) -> bool:
    """Return whether the headers of a stateless request surely say what its body says."""
    if headers.get(b"mcp-method") != method.encode():
        return False
    if any(name.startswith(b"mcp-param-") for name in headers):
        return False
    key = NAMED_BY.get(method)
    if key is None:
        return True
    name: str = params[key]
    plain = name.isascii() and not name.startswith("=?")  # others are spelled in another way
    return plain and headers.get(b"mcp-name") == name.encode()
