"""The ASGI app: who requests something, by its bearer token (RFC 7519), and the answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from contextlib import contextmanager
from functools import lru_cache

import jwt

from .. import protocol
from ..encoding import write_json
from ..engine.ledger import SESSION_ID
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ContextError,
    RefusedError,
    StartError,
    log,
    log_exception,
    one_line,
)
from ..protocol import (
    CALL,
    CAPABILITIES_KEY,
    HANDSHAKES,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    cancelled,
    read_message,
    unsupported,
)
from ..protocol.calls import refused, unreadable
from .metrics import RequestLog
from .sessions import TOKEN_IDS, BusyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
    from typing import Any

    from ..engine import Revocations
    from .fleet import Fleet
    from .metrics import Metrics
    from .sessions import OpenSession, OpenSessions

    Message = MutableMapping[str, Any]

    Receive = Callable[[], Awaitable[Message]]

    Send = Callable[[Message], Awaitable[None]]

    Headers = dict[bytes, bytes]

    Known = tuple[str, dict[str, Any]]  # a token and its claims

JSON = b"application/json"
WRONG, FAILED = 400, 500  # the first status of errors, and of server errors


class HttpError(Exception):
    """An answer without the protocol: a status, a sentence, and further headers."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Exchange:
    """One request on its way: who asks for what, for the log, and the status of its answer."""

    __slots__ = ("_receive", "_scope", "_send", "begun", "session", "status", "unread", "what")

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._scope = scope
        self._send = send
        self.begun = time.monotonic()
        self.session = ""
        self.status = 0  # as long as no answer has begun
        self.unread = True  # as long as its body may still come
        self.what = ""

    async def send(self, message: Message) -> None:
        """Send a part of the answer, and take note of its status."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def answer(
        self, status: int, body: bytes, kind: bytes = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer, and close the connection if the request's body does not come."""
        more = [(name.encode(), text.encode()) for name, text in (headers or {}).items()]
        if self.unread and not await _is_read(self._scope, self._receive):
            more.append((b"connection", b"close"))
        length = str(len(body)).encode()
        fields = [(b"content-type", kind), (b"content-length", length), *more]
        await self.send({"type": "http.response.start", "status": status, "headers": fields})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: HttpError) -> None:
        """Send an error as a message of the protocol that answers no certain request."""
        code = INTERNAL_ERROR if error.status >= FAILED else INVALID_REQUEST
        told = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": error.text}}
        await self.answer(error.status, protocol.encode_line(told), JSON, error.headers)

    def line(self, method: str, path: str, seconds: float) -> str:
        """Return the log line of a request: who asked for what, without any content."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": method[:20],
            "path": one_line(path[:100]),
            "status": self.status,
            "ms": round(seconds * 1000, 1),
            "session": self.session,
            "request": one_line(self.what),
        }
        return f"{write_json(line)}\n"


# Headers that must not occur twice, because two readers could disagree about the request.
SINGLE = frozenset((b"authorization", b"host", b"origin", b"content-type", b"content-length"))
ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
DOUBLED = b"doubled"  # our own header: the name of a routing header that occurs twice
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
BLANKS = b" \t"  # around a header's value, which the parser leaves there and RFC 9110 does not mean
LINGER = 1.0  # seconds for the rest of a refused request's body to come
LEFT = 1 << 25  # bytes of it that are read: a client that sends more would not read the answer
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
# The status of an answer that is an error, in the stateless version; of any other, it is 200.
STATUS = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}


class HttpApp:
    """Answers the requests to one process.

    `routes` are the paths of the kits, with their names. `places` limits the concurrent requests of
    a session. `ready` returns the reason why this server should get no requests, in a sentence, and
    is empty if it should. `limits` are the most bytes of a request, and the most seconds. `fleet`
    answers workers at the paths that begin with `fleet_path`. `log` has the lines that are still to
    be written.
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
        fleet: Fleet | None = None,
        fleet_path: str = "",
    ) -> None:
        self._fleet = fleet
        self._fleet_path = fleet_path
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
        """Answer a request; every failure becomes an answer without internal details."""
        exchange = Exchange(scope, receive, send)
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
            if exchange.session or exchange.status >= WRONG:
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
        if kit is None and (self._fleet is None or not path.startswith(self._fleet_path)):
            raise HttpError(404, "there is nothing at this address")
        token, claims = self._bearer.token_of(headers.get(b"authorization", b""))
        exchange.session = claims["jti"]
        if ("rec" in claims) is (kit is None):
            raise HttpError(403, "this token is for another address of this server")
        if method != "POST":
            raise HttpError(405, "only POST is allowed here", allow="POST")
        if not self._rates.takes(claims["jti"]):
            raise HttpError(429, "this session makes too many requests", **{"retry-after": "1"})
        with self._places.counted_request(claims["jti"]):
            body = await self._body(headers, receive)
            exchange.unread = False
            if kit is None:
                await self._report(path.removeprefix(self._fleet_path), headers, body, exchange)
                return
            session = await self._session(kit, token, claims)
            self._bearer.token_of(headers[b"authorization"])  # it may have ended meanwhile
            session.begin()
            try:
                await self._reply(session, headers, body, receive, exchange)
            finally:
                session.users -= 1

    async def _report(self, verb: str, headers: Headers, body: bytes, exchange: Exchange) -> None:
        """Answer a worker."""
        if self._fleet is None or not _is_json(headers.get(b"content-type", b"")):
            raise HttpError(415, "the content type must be application/json")
        _, claims = self._bearer.token_of(headers[b"authorization"])  # it may have ended meanwhile
        exchange.what = f"worker {verb}" if verb in self._fleet.verbs else "of no worker"
        answer = await asyncio.to_thread(self._fleet.answer, verb, body, claims)
        await exchange.answer(200, write_json(answer).encode())

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body; raises `HttpError` if it is too long or does not come."""
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
                session = self._sessions.open_session(kit, token)
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

    async def _reply(
        self,
        session: OpenSession,
        headers: Headers,
        body: bytes,
        receive: Receive,
        exchange: Exchange,
    ) -> None:
        """Answer the message in a body; raises `HttpError` for media that are not served."""
        version = headers.get(ROUTING[0], b"").decode("latin-1")
        modern = version not in ("", *HANDSHAKES)
        if not _takes_json(headers.get(b"accept", b"")):
            raise HttpError(406, "the client must accept application/json")
        if not _is_json(headers.get(b"content-type", b"")):
            raise HttpError(415, "the content type must be application/json")
        frame = read_message(body)
        if frame is None:
            await exchange.answer(400, refused(body) or unreadable(body))
            return
        if type(frame.get("method")) is not str or "id" not in frame:
            status, line = _accepted(session, frame, version, modern=modern)
            await exchange.answer(status, line)
            return
        requests = session.requests[modern]
        outcome: dict[str, Any] | RefusedError
        try:
            if modern:
                _check_routing(headers, frame)
            request = requests.read(frame)
            exchange.what = request.method
            if request.method == CALL:
                name = request.params["name"]
                exchange.what += f" {name}" if name in session.tools else " of no tool"
                session.refuse_relayed(name)
            outcome = await session.answer(request, receive)
            line = requests.answer(request, outcome)
        except RefusedError as error:
            status = STATUS.get(error.code, 200) if modern else 200
            await exchange.answer(status, protocol.refusal_line(frame["id"], error))
            return
        if outcome.get("isError"):
            self._metrics.add("failed_calls")
        try:
            self._bearer.token_of(headers[b"authorization"])  # it may have ended during the call
        except HttpError as error:
            if error.status < FAILED:  # without the list, the answer is still true
                text = f"{error.text}; the call may have been carried out"
                raise HttpError(error.status, text, **error.headers) from error
        await exchange.answer(200, line)


def _accepted(
    session: OpenSession, frame: dict[str, Any], version: str, *, modern: bool
) -> tuple[int, bytes]:
    """Take a notification or a response; return the status and body of the reply."""
    is_response = type(frame.get("method")) is not str
    if modern and is_response:
        error = RefusedError(INVALID_REQUEST, "this server sent no request to respond to")
        return 400, protocol.refusal_line(None, error)
    if modern and version != protocol.MODERN:
        return 400, protocol.refusal_line(None, unsupported(version))
    identity = None if is_response else cancelled(frame)
    if identity is not None:
        session.cancel(identity)
    return 202, b""


def _check_routing(headers: Headers, frame: dict[str, Any]) -> None:
    """Raise `RefusedError` if the headers of a stateless request contradict its body.

    The reader refuses a request whose envelope lacks keys.
    """
    if DOUBLED in headers:
        text = f"{headers[DOUBLED].decode()} header appears more than once"
        raise RefusedError(HEADER_MISMATCH, text)
    params, method = frame.get("params") or {}, frame["method"]
    meta = params.get("_meta")
    if type(meta) is not dict or VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
        return
    version, routed = (headers.get(name, b"").decode("latin-1") for name in ROUTING[:2])
    key = NAMED_BY.get(method)
    wrong = ""
    if version != meta[VERSION_KEY]:
        wrong = "mcp-protocol-version header does not match the request envelope's protocol version"
    elif routed != method:
        wrong = "mcp-method header does not match the request body's method"
    elif key and params.get(key) is not None and _decoded_name(headers) != params[key]:
        wrong = f"mcp-name header does not match the request body's '{key}' parameter"
    if wrong:
        raise RefusedError(HEADER_MISMATCH, wrong)


def _decoded_name(headers: Headers) -> str | None:
    """Return the text that the header `mcp-name` spells, plain or as `=?base64?…?=`, or None."""
    if ROUTING[2] not in headers:
        return None
    value = headers[ROUTING[2]].decode("latin-1")
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    spelled = value[len("=?base64?") : -len("?=")]
    try:
        found = base64.b64decode(spelled, validate=True)
        return found.decode() if base64.b64encode(found).decode() == spelled else None
    except (binascii.Error, UnicodeDecodeError):
        return None


async def _is_read(scope: Message, receive: Receive) -> bool:
    """Return whether the rest of an unread body has come, soon and not too long."""
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
    """Return headers by name; raises `HttpError` for a repeated header that must occur once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = {name for name in found if names.count(name) > 1}
        if twice & SINGLE:
            raise HttpError(400, "the request repeats a header that must occur once")
        if doubled := [name for name in ROUTING if name in twice]:
            found[DOUBLED] = doubled[0]
    return found


@lru_cache(256)
def _is_json(kind: bytes) -> bool:
    return kind.partition(b";")[0].strip().lower() == JSON


@lru_cache(256)
def _takes_json(accepted: bytes) -> bool:
    kinds = [kind.partition(b";")[0].strip().lower() for kind in accepted.split(b",")]
    return JSON in kinds or b"*/*" in kinds or b"application/*" in kinds


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PORT = re.compile(r":[0-9]+\Z")  # of a host, behind its name or its closing bracket
BURST = 2.0  # seconds of its rate that a session may use at once
MOST_BUCKETS = 10_000


class Hosts:
    """The accepted values of `Host` and `Origin`, against pages that rebind a name (DNS).

    `named` are hosts, each with a port or for every port. This machine's own names count with
    `port`, the port that the server listens on: no page of another site has them.
    """

    __slots__ = ("_hosts", "_origins")

    def __init__(self, named: Collection[str], origins: Collection[str], port: int) -> None:
        self._hosts = {host.lower() for host in named} | {f"{host}:{port}" for host in LOOPBACK}
        self._origins = {origin.lower() for origin in origins}

    def takes_host(self, host: str) -> bool:
        """Return whether the server goes by this name."""
        host = host.lower()
        if host in self._hosts:
            return True
        name, _, port = host.rpartition(":")
        return port.isdigit() and name in self._hosts and not PORT.search(name)

    def takes_origin(self, origin: str | None) -> bool:
        """Return whether a page of this origin may call; programs other than browsers send none."""
        return origin is None or origin.lower() in self._origins


class Places:
    """How many requests of each session are being answered: `most` at once."""

    __slots__ = ("_most", "_taken")

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, int] = {}

    @contextmanager
    def counted_request(self, session: str) -> Iterator[None]:
        """Count one more request while it is answered; raises `HttpError` if there are too many."""
        number = self._taken.get(session, 0)
        if number >= self._most:
            text = f"{self._most} requests of this session are being answered: wait for one"
            raise HttpError(429, text, **{"retry-after": "1"})
        self._taken[session] = number + 1
        try:
            yield
        finally:
            self._taken[session] -= 1
            if not self._taken[session]:
                del self._taken[session]


class Rates:
    """How many requests each session has made: `rate` in a second, and more at once for a while."""

    __slots__ = ("_buckets", "_most", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = float(rate)
        self._most = rate * BURST
        self._buckets: dict[str, tuple[float, float]] = {}  # requests left, with the time

    def takes(self, session: str) -> bool:
        """Return whether a session may make one more request now, and count it."""
        now = time.monotonic()
        left, since = self._buckets.pop(session, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        taken = left >= 1
        self._buckets[session] = (left - taken, now)  # the latest is last
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return taken


LONGEST_LIFE = 24 * 60 * 60  # seconds
LONGEST_TOKEN = 8_192  # characters
LEEWAY = 5  # seconds that the clocks of two machines may differ
LEAST_KEY = 32  # bytes
# The claims of RFC 7519, and the session's: its recipe, its discipline, the rows that it is about,
# the number and the seconds of its claim on the task, the tools that remain of the recipe's (each
# as "kit:tool"), the digest of the policy. A worker's token has `wrk`, its name, and no recipe; the
# token of a session on a worker has both, and `wti`, the id of the worker's token.
CLAIMS: Mapping[str, tuple[type, ...]] = {
    "iss": (str,),
    "aud": (str,),
    "sub": (str,),
    "jti": (str,),
    "iat": (int,),
    "nbf": (int,),
    "exp": (int,),
    "rec": (str,),
    "dis": (str,),
    "fea": (str,),
    "tsk": (int,),
    "tgt": (str,),
    "cla": (int,),
    "lea": (int,),
    "tools": (list,),
    "pol": (str,),
    "wrk": (str,),
    "wti": (str,),
}
REQUIRED = ("iss", "aud", "sub", "jti", "iat", "nbf", "exp")
OF_SESSION = ("rec", "pol")  # and of no worker
WORKER = r"[a-z0-9][a-z0-9-]{0,39}"  # the name of a worker
# Claims that the token's maker sets.
SUBJECT = ("jti", "sub", "rec", "dis", "fea", "tsk", "tgt", "cla", "lea", "tools", "wrk", "wti")
CLAIM = ("tsk", "cla", "lea")  # a claim on a task needs all of them


class TokenError(Exception):
    """A token that grants no access; the text gives the reason, without any part of the token."""


class Keys:
    """Signs and verifies: `algorithm` is HS256 or EdDSA, `text` the value of the key's variable.

    For HS256 the key is the bytes of any text. For EdDSA it is a private key as PEM, or a public
    one if tokens are only verified. Raises `StartError` for an invalid key.
    """

    __slots__ = ("_private", "_public", "algorithm")

    def __init__(self, algorithm: str, text: str, variable: str) -> None:
        self.algorithm = algorithm
        self._private: Any = None
        if algorithm == "EdDSA":
            self._private, self._public = _pair(text, variable)
            return
        key = text.encode()
        if len(key) < LEAST_KEY:
            raise StartError(
                f'the key in the variable "{variable}" has {len(key)} bytes, but HS256 requires at '
                f"least {LEAST_KEY}"
            )
        if b"-----BEGIN" in key:
            raise StartError(
                f'the key in the variable "{variable}" is a PEM key, which requires algorithm = '
                '"EdDSA"'
            )
        self._private = self._public = key

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token of the claims; raises `StartError` where only the public key is here."""
        if self._private is None:
            raise StartError("this is a public key, but signing tokens requires the private key")
        return jwt.encode(dict(claims), self._private, algorithm=self.algorithm)

    def verified(self, token: str, issuer: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token for this server; raises `TokenError`.

        Each token has one spelling, so the limits of its session cannot be avoided by another.
        """
        if not _is_canonical(token.rpartition(".")[2]):
            raise TokenError("it is not a token")
        try:
            if jwt.get_unverified_header(token).keys() - {"alg", "typ"}:
                raise TokenError("it has an unknown header")
            found: dict[str, Any] = jwt.decode(
                token,
                self._public,
                algorithms=[self.algorithm],
                audience=audience,
                issuer=issuer,
                leeway=LEEWAY,
                options={"require": [*REQUIRED], "strict_aud": True},
            )
        except jwt.PyJWTError as error:
            raise TokenError(_reason(error)) from error
        return found


class Verifier:
    """Identifies the session of a token: the one function to replace for another kind of token.

    `policy` is the digest of the policy that the server has.
    """

    __slots__ = ("_audience", "_issuer", "_keys", "_policy")

    def __init__(self, keys: Keys, issuer: str, audience: str, policy: str) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._policy = policy

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is good now; raises `TokenError` for any other."""
        if len(token) > LONGEST_TOKEN:
            raise TokenError("it is too long")
        claims = self._keys.verified(token, self._issuer, self._audience)
        problem = claims_problem(claims)
        if not problem and claims.get("pol", self._policy) != self._policy:
            problem = "it was created for another policy"
        if problem:
            raise TokenError(problem)
        return claims

    def signed(self, subject: Mapping[str, Any], life: int, now: int | None = None) -> str:
        """Return a token for a session or a worker; raises `StartError` for an invalid subject.

        It is good for `life` seconds from `now` on, in seconds since 1970.
        """
        now = int(time.time()) if now is None else now
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "iat": now,
            "nbf": now,
            "exp": now + life,
            **({"pol": self._policy} if "rec" in subject else {}),
            **{key: subject[key] for key in SUBJECT if subject.get(key) is not None},
        }
        problem = claims_problem(claims)
        if problem:
            raise StartError(f"the session is invalid: {problem}")
        return self._keys.sign(claims)


def claims_problem(claims: Mapping[str, Any]) -> str:
    """Return the problem with the shape of claims; empty if there is none."""
    for key, value in claims.items():
        if key not in CLAIMS:
            return "it has a claim that is not known"
        if not isinstance(value, CLAIMS[key]) or isinstance(value, bool):
            return f'its claim "{key}" has the wrong type'
    if not re.fullmatch(WORKER, claims.get("wrk", "a")):
        return 'its claim "wrk" is not the name of a worker'
    of_worker = "wrk" in claims and "rec" not in claims
    if of_worker and not {*claims} <= {*REQUIRED, "wrk"}:
        return "it names a worker and a session"
    required = (*REQUIRED, *(() if of_worker else OF_SESSION))
    missing = [key for key in required if key not in claims]
    if missing:
        return f'its claim "{missing[0]}" is missing'
    return _value_problem(claims)


def _value_problem(claims: Mapping[str, Any]) -> str:
    """Return which value of claims, which are all there, is none; empty for nothing."""
    for key in TOKEN_IDS:
        if key in claims and not re.fullmatch(SESSION_ID, claims[key]):
            return f'its claim "{key}" is not a session id'
    if not 0 < claims["exp"] - claims["iat"] <= LONGEST_LIFE:
        return "it is good for more than a day"
    if "cla" in claims or "lea" in claims:
        if any(claims.get(key) is None for key in CLAIM):
            return "it holds a task by half"
        if claims["cla"] < 1 or claims["lea"] < 1:
            return 'its claim "cla" or "lea" is none'
    if not all(isinstance(tool, str) and tool.count(":") == 1 for tool in claims.get("tools", ())):
        return 'its claim "tools" is not a list of kit:tool'
    return ""


def _pair(text: str, variable: str) -> tuple[Any, Any]:
    """Return the private key, or None without one, and the public key of a PEM text."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )

    try:
        if "PRIVATE KEY" in text:
            private = load_pem_private_key(text.encode(), password=None)
            if isinstance(private, Ed25519PrivateKey):
                return private, private.public_key()
        else:
            public = load_pem_public_key(text.encode())
            if isinstance(public, Ed25519PublicKey):
                return None, public
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise StartError(f'the variable "{variable}" does not contain an Ed25519 key in PEM format')


def _is_canonical(signature: str) -> bool:
    """Return whether a text is as base64url encodes it, without padding (RFC 7515)."""
    try:
        decoded = base64.urlsafe_b64decode(f"{signature}==")
    except ValueError:
        return False
    return base64.urlsafe_b64encode(decoded).rstrip(b"=") == signature.encode()


def _reason(error: jwt.PyJWTError) -> str:
    """Return why a token is refused, in words that repeat nothing of it."""
    reasons: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
        (jwt.ExpiredSignatureError, "it has expired"),
        (jwt.ImmatureSignatureError, "it is not good yet"),
        (jwt.InvalidAudienceError, "it was created for another server"),
        (jwt.InvalidIssuerError, "it was created for another project"),
        (jwt.MissingRequiredClaimError, "a claim is missing"),
        (jwt.InvalidAlgorithmError, "it is signed in another way"),
        (jwt.InvalidSignatureError, "its signature is wrong"),
    )
    return next((text for kind, text in reasons if isinstance(error, kind)), "it is not a token")


MOST = 4_096  # tokens that are known to be good


class Bearer:
    """The tokens that were verified, each known to its end, and the sessions that were ended."""

    __slots__ = ("_known", "_revocations", "_verifier")

    def __init__(self, verifier: Verifier, revocations: Revocations) -> None:
        self._known: dict[bytes, Known] = {}  # by the header
        self._revocations = revocations
        self._verifier = verifier

    def token_of(self, header: bytes) -> Known:
        """Return the token of a header `Authorization`, and its claims.

        Raises `HttpError` unless the header has a token that is valid now.
        """
        try:
            known = self._known.get(header) or self._verified(header)
            self._refuse_ended(header, known[1])
        except TokenError as error:
            why = str(error).replace('"', "'")
            challenge = f'Bearer error="invalid_token", error_description="{why}"'
            text = f"the token opens nothing: {error}"
            raise HttpError(401, text, **{"www-authenticate": challenge}) from error
        except OSError as error:
            log("error", "http", f"the list of ended sessions cannot be read: {error.strerror}")
            raise HttpError(503, "cannot determine whether this session has ended") from error
        return known

    def _refuse_ended(self, header: bytes, claims: dict[str, Any]) -> None:
        """Raise `TokenError` for a token that has expired, or was revoked with its worker's."""
        if claims["exp"] <= time.time():
            self._known.pop(header, None)
            raise TokenError("it has expired")
        if any(self._revocations.holds(claims[key]) for key in TOKEN_IDS if key in claims):
            raise TokenError("its session was ended")

    def _verified(self, header: bytes) -> Known:
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            text = 'a token is needed: "ralphgen session create RECIPE --token" makes one'
            raise HttpError(401, text, **{"www-authenticate": "Bearer"})
        known = (token, self._verifier.claims(token))
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[header] = known
        return known
