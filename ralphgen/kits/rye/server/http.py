"""Sends the HTTP requests of items, to checked addresses and within limits."""

from __future__ import annotations

import _thread
import json
import re
import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.loader import add_packages
from ralphgen.runtime.processes import FullError, Latch

from .commands import too_many
from .values import (
    EXECUTION_FAILED,
    TIMEOUT,
    VALIDATION_FAILED,
    as_text,
    choice_at,
    count_at,
    mapping_at,
    scalar_at,
    text_at,
    timeout_of,
    unknown_keys,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from socket import socket
    from typing import Any

    from ralphgen.runtime.processes import Jobs

    from .values import Filling
    from .workspace import Rye

PORTS = {"http": 80, "https": 443}  # by scheme
USER_FILE = '"rye.toml" in the user space'
PROJECT_FILE = '[rye] in .ralph/ralphgen.toml, and run "ralphgen regen"'
SAFE = "!$%&'()*+,/:;=?@[]~"  # characters of a path and query that are not percent-encoded
# Missing in the standard library: tunnels to IPv4 addresses, and site-local networks.
FURTHER = ("2002::/16", "2001::/32", "64:ff9b:1::/48", "fec0::/10")
TRANSLATED = "64:ff9b::/96"  # NAT64: an IPv4 address inside an IPv6 address
OLD_BITS = (1 << 32) - 1
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")
MOST = 1 << 20  # bytes of a response body


class Target:
    """The parts of a URL: normalized host, port, and path with query."""

    __slots__ = ("host", "path", "port", "scheme")

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path = path

    @property
    def authority(self) -> str:
        """Return the host, with the port unless it is the default of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Parse a URL; raises `CodedError`."""
    from urllib.parse import quote, urlsplit

    if _CONTROL.search(url):
        raise _unfit("contains a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
        path = quote(parts.path or "/", safe=SAFE)
        query = quote(parts.query, safe=SAFE)
    except ValueError as error:
        raise _unfit("has an invalid host or port") from error
    if parts.scheme not in PORTS:
        raise _unfit('must begin with "http://" or "https://"')
    if "@" in parts.netloc:
        raise _unfit(
            'contains a user name or a password: use "auth" or "headers" of the tool\'s config'
        )
    if port == 0:
        raise _unfit("has the invalid port 0")
    spelled = host_of(host or "")
    if not spelled:
        raise _unfit("has no valid host")
    target = f"{path}?{query}" if query else path
    return Target(parts.scheme, spelled, port or PORTS[parts.scheme], target)


def host_of(text: str) -> str:
    """Return the normalized host, an address or a lower-case ASCII name; "" if invalid."""
    from ipaddress import IPv6Address

    try:
        if ":" in text:
            return "" if "%" in text else str(IPv6Address(text))
        name = text.encode("idna").decode().lower().removesuffix(".")
    except ValueError:
        return ""
    return name if _NAME.fullmatch(name) else ""


def check_allowed(target: Target, hosts: Sequence[str], file: str = USER_FILE) -> None:
    """Raise `CodedError` if a file restricts the hosts and does not list this one.

    An entry without a port allows the default ports of both schemes.
    """
    ports = (str(target.port), "") if target.port == PORTS[target.scheme] else (str(target.port),)
    if hosts and not {(target.host, port) for port in ports} & {*map(_entry, hosts)}:
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.authority}" is not an allowed host: ask the user to add it to "hosts" in '
            f"{file}",
        )


def check_public(target: Target, addresses: Sequence[str]) -> None:
    """Raise `CodedError` if any address of a host is not public."""
    if not all(map(is_public, addresses)):
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.host}" is not a public host: ask the user to add "{target.authority}" to '
            f'"hosts" in {USER_FILE}; this then allows only the listed hosts',
        )


def is_public(text: str) -> bool:
    """Return whether an address is public and does not tunnel to a private one."""
    from ipaddress import IPv4Address, ip_address, ip_network

    address = ip_address(text)
    if address in ip_network(TRANSLATED):
        address = IPv4Address(int(address) & OLD_BITS)
    if any(address in ip_network(network) for network in FURTHER):
        return False
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    return address.is_global and not special


def _entry(text: str) -> tuple[str, str]:
    """Return the host and port of an allowlist entry; the port may be empty."""
    if text.count(":") > 1 and not text.startswith("["):
        return host_of(text), ""
    host, _, port = text.removeprefix("[").partition("]:" if "[" in text else ":")
    return host_of(host.removesuffix("]")), port


def _unfit(why: str) -> CodedError:
    return CodedError(VALIDATION_FAILED, f"the URL {why}")


class UnreachableError(CodedError):
    """No connection was made; a retry is safe, because nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(EXECUTION_FAILED, message)


class TimedConnection:
    """A connection with a deadline, which another thread can shut down."""

    __slots__ = ("_deadline", "_is_cut", "_socket")

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._socket: socket | None = None
        self._is_cut = False

    def seconds(self) -> float:
        """Return the remaining seconds, negative after the deadline."""
        return self._deadline - time.monotonic()

    def remaining_seconds(self) -> float:
        """Return the remaining seconds; raises TimeoutError if there are none."""
        left = self.seconds()
        if left <= 0 or self._is_cut:
            raise TimeoutError
        return left

    def hold(self, connection: socket) -> None:
        """Set the connection that `cut` shuts down."""
        self._socket = connection
        self.remaining_seconds()

    def cut(self) -> None:
        """Shut the connection down, which wakes a blocked reader or writer."""
        import socket

        self._is_cut = True
        if self._socket is not None:
            try:
                # shutdown() of an SSLSocket would drop state that another thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except OSError:  # already closed, or not connected yet
                return

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()

    def read(self, most: int, **_timeout: Any) -> bytes:
        """Return received bytes, or none at the end."""
        connection = self._open()
        connection.settimeout(self.remaining_seconds())
        return connection.recv(most)

    def write(self, data: bytes, **_timeout: Any) -> None:
        """Send all of the bytes."""
        from httpcore2 import WriteError

        connection = self._open()
        connection.settimeout(self.remaining_seconds())
        try:
            connection.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:  # the host may have answered early
            raise WriteError(str(error)) from error

    def _open(self) -> socket:
        if self._socket is None:
            raise ConnectionError("not connected")
        return self._socket


class HostAnswer:
    """A raw response: the header lines, and the body up to `MOST` bytes."""

    __slots__ = ("body", "headers", "status", "truncated")

    def __init__(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = headers
        self.body = bytearray()
        self.truncated = False


def connect(target: Target, line: TimedConnection, *, anywhere: bool) -> None:
    """Connect to a host; `anywhere` allows hosts that are not public.

    Resolves the name once, so the checked addresses are the ones used. Raises
    `UnreachableError`, `CodedError` and TimeoutError.
    """
    import socket

    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnreachableError(f'unknown host "{target.host}"') from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    if not anywhere:
        check_public(target, addresses)
    connection = _connection(target, addresses, line)
    line.hold(connection)
    if target.scheme == "https":
        _secure(target, connection, line)


def ask(
    target: Target, line: TimedConnection, method: str, headers: dict[str, str], body: bytes
) -> HostAnswer:
    """Send a request and return the response; raises OSError and the errors of httpcore."""
    from httpcore2 import URL, HTTP11Connection, Origin, Request

    scheme, host = target.scheme.encode(), target.host.encode()
    stream: Any = line
    connection = HTTP11Connection(Origin(scheme, host, target.port), stream)
    url = URL(scheme=scheme, host=host, port=target.port, target=target.path.encode())
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        response = connection.handle_request(Request(method, url, headers=fields, content=body))
        answer = HostAnswer(response.status, response.headers)
        chunks = response.iter_stream()
        for chunk in chunks:
            answer.body += chunk
            if len(answer.body) > MOST:
                break
    finally:
        connection.close()
    answer.truncated = len(answer.body) > MOST
    del answer.body[MOST:]
    return answer


def _connection(target: Target, addresses: list[str], line: TimedConnection) -> socket:
    """Return a connection to the first address that accepts one."""
    import socket

    problem = ""
    for index, address in enumerate(addresses):
        seconds = line.remaining_seconds() / (len(addresses) - index)
        try:
            connection = socket.create_connection((address, target.port), seconds)
        except OSError as error:
            problem = (error.strerror or "timed out").lower()
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    line.remaining_seconds()
    raise UnreachableError(f'cannot connect to "{target.authority}": {problem}')


def _secure(target: Target, connection: socket, line: TimedConnection) -> None:
    """Start TLS on the connection and verify the host name."""
    import ssl

    from httpcore2 import default_ssl_context

    context = default_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    secured = context.wrap_socket(
        connection, server_hostname=target.host, do_handshake_on_connect=False
    )
    line.hold(secured)
    secured.settimeout(line.remaining_seconds())
    try:
        secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        message = f'the certificate of "{target.host}" is not trusted: {error.verify_message}'
        raise CodedError(EXECUTION_FAILED, message) from error
    except TimeoutError:
        raise
    except OSError as error:
        reason = (getattr(error, "reason", None) or error.strerror or "connection closed").lower()
        message = f'cannot start TLS with "{target.authority}": {reason.replace("_", " ")}'
        raise CodedError(EXECUTION_FAILED, message) from error


WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
# Headers that frame or route a request; tools cannot set them.
OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect")
COMMON = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "ralphgen"}
JSON = "application/json"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BREAK = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_JSON = re.compile(r"\s*application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_ATTEMPTS = 5
PAUSE = 1.0  # seconds before the second attempt
EXPONENTIAL = "exponential"


def headers_to_send(own: Mapping[str, str], host: str, body: bytes | None) -> dict[str, str]:
    """Return all headers of a request, including the tool's; raises `CodedError`."""
    headers = {"host": host, **COMMON}
    for name, value in own.items():
        if not _TOKEN.fullmatch(name):
            raise CodedError(VALIDATION_FAILED, f'invalid header name "{name}"')
        if name.lower() in OURS:
            message = f'the header "{name}" is set by the server: remove it'
            raise CodedError(VALIDATION_FAILED, message)
        if _BREAK.search(value):
            message = f'the header "{name}" contains a line break or a control character'
            raise CodedError(VALIDATION_FAILED, message)
        headers[name.lower()] = value.strip()
    if body is not None:
        headers["content-length"] = str(len(body))
        if body:
            headers.setdefault("content-type", JSON)
    return {**headers, "connection": "close"}


def body_to_send(method: str, own: Mapping[str, str], body: Any) -> bytes | None:
    """Return the encoded body, or None for a method without one; raises `CodedError`."""
    if method not in WITH_BODY:
        if body is not None:
            message = f"a {method} request cannot have a body: remove it"
            raise CodedError(VALIDATION_FAILED, message)
        return None
    if body is None:
        return b""
    kinds = [value for name, value in own.items() if name.lower() == "content-type"]
    try:
        if isinstance(body, str) and kinds and not is_json(kinds[0]):
            return body.encode()
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CodedError(VALIDATION_FAILED, "the body cannot be sent as JSON") from error


def headers_received(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return response headers by lower-case name; repeated headers are joined."""
    headers: dict[str, str] = {}
    for name, value in lines:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def value_received(body: bytes | bytearray, kind: str) -> Any:
    """Return the JSON value of a body with a JSON content type, otherwise its text.

    Decodes text in the given character set, or as UTF-8 if that is unknown.
    """
    if is_json(kind):
        try:
            value = json.loads(body)
            # Values that JSON output cannot represent, such as NaN, remain text.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            pass
        else:
            return value
    named = _CHARSET.search(kind)
    try:
        text = body.decode(named.group(1) if named else "utf-8-sig", "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8-sig", "replace")
    return text.encode("utf-8", "replace").decode()  # some character sets decode to lone surrogates


def is_json(kind: str) -> bool:
    """Return whether a content type means JSON."""
    return bool(_JSON.fullmatch(kind))


class HttpRequest:
    """A request to send; `body` is a JSON value or None, `timeout` the total in seconds.

    A string body is sent unchanged if the headers set another content type than JSON. `retry` has
    `max_attempts` and `backoff`, "exponential" or "linear".
    """

    __slots__ = ("body", "headers", "method", "retry", "timeout", "url")

    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Any,
        timeout: float,
        retry: Mapping[str, Any],
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.retry = retry


class Response:
    """The response to a request: `body` is a JSON value or text, by content type.

    The names in `headers` are in lower case. If `truncated`, the body is cut.
    """

    __slots__ = ("body", "headers", "status_code", "truncated")

    def __init__(self, answer: HostAnswer) -> None:
        self.status_code = answer.status
        self.headers = headers_received(answer.headers)
        self.body: Any = value_received(answer.body, self.headers.get("content-type", ""))
        self.truncated = answer.truncated


class PendingRequest:
    """A request in progress on a separate thread."""

    __slots__ = (
        "_body",
        "_done",
        "_headers",
        "_hosts",
        "_jobs",
        "_line",
        "_lock",
        "_request",
        "_settled",
        "_target",
    )

    def __init__(self, jobs: Jobs, request: HttpRequest, hosts: Sequence[str]) -> None:
        if request.method not in METHODS:
            message = f'unknown method "{request.method}": use {", ".join(METHODS)}'
            raise CodedError(VALIDATION_FAILED, message)
        self._jobs = jobs
        self._request = request
        self._hosts = hosts
        self._target = target_of(request.url)
        check_allowed(self._target, hosts)
        self._body = body_to_send(request.method, request.headers, request.body)
        self._headers = headers_to_send(request.headers, self._target.authority, self._body)
        self._line = TimedConnection(request.timeout)
        self._lock = _thread.allocate_lock()
        self._done = Latch()
        self._settled: Response | CodedError | None = None

    def outcome(self) -> Response:
        """Wait for the response; raises `CodedError` if it fails or times out."""
        self._done.wait(self._line.seconds())
        self._settle(self._late())
        if isinstance(self._settled, Response):
            return self._settled
        raise self._settled or self._late()

    def leave(self) -> None:
        """Cancel the request without waiting."""
        self._settle(CodedError(EXECUTION_FAILED, "the request was cancelled"))
        self._line.cut()

    def work(self) -> None:
        """Send the request, with retries, and release its slot at the end."""
        result: Response | CodedError = self._broken()
        try:
            import httpcore2

            self._connect()
            method, body = self._request.method, self._body or b""
            result = Response(ask(self._target, self._line, method, self._headers, body))
        except CodedError as error:
            result = error
        except TimeoutError:
            result = self._late()
        except (httpcore2.ProtocolError, httpcore2.NetworkError, OSError):
            result = self._broken()
        finally:
            self._line.close()
            self._jobs.give_back()
            self._settle(result)

    def _connect(self) -> None:
        """Connect, and retry an unreachable host until the deadline."""
        most = min(self._request.retry.get("max_attempts", 1), MOST_ATTEMPTS)
        backoff = self._request.retry.get("backoff", EXPONENTIAL)
        attempt = 0
        while True:
            attempt += 1
            try:
                connect(self._target, self._line, anywhere=bool(self._hosts))
            except UnreachableError:
                pause = pause_after(attempt, backoff)
                if (
                    attempt >= most
                    or pause >= self._line.remaining_seconds()
                    or self._done.wait(pause)
                ):
                    raise
            else:
                return

    def _settle(self, result: Response | CodedError) -> None:
        """Record the first result; ignore later ones."""
        with self._lock:
            if self._settled is None:
                self._settled = result
                self._done.open()

    def _late(self) -> CodedError:
        message = (
            f'"{self._target.authority}" did not respond within {self._request.timeout:g} seconds: '
            "try again, or increase the tool's timeout"
        )
        return CodedError(TIMEOUT, message)

    def _broken(self) -> CodedError:
        message = (
            f'"{self._target.authority}" closed the connection or sent an invalid HTTP response'
        )
        return CodedError(EXECUTION_FAILED, message)


def pause_after(attempt: int, backoff: str) -> float:
    """Return the seconds before the next attempt: 1, 2, 4, 8, or 1, 2, 3, 4 if linear."""
    return PAUSE * (2 ** (attempt - 1) if backoff == EXPONENTIAL else attempt)


def begin(jobs: Jobs, request: HttpRequest, hosts: Sequence[str]) -> PendingRequest:
    """Start a request, which counts as one of the jobs; empty `hosts` allows all public hosts.

    Raises `CodedError` if the request is invalid, not allowed or exceeds the limit of jobs.
    """
    from threading import Thread

    add_packages()
    call = PendingRequest(jobs, request, hosts)
    try:
        jobs.take()
    except FullError as error:
        raise too_many(jobs) from error
    try:
        Thread(target=call.work, name="request", daemon=True).start()
    except RuntimeError as error:
        jobs.give_back()
        message = "cannot start the request: too many are running"
        raise CodedError(EXECUTION_FAILED, message) from error
    return call


KEYS = ("method", "url", "headers", "body", "timeout", "auth", "retry")
BEARER, API_KEY = "bearer", "api_key"
API_KEY_HEADER = "X-API-Key"
BACKOFFS = ("exponential", "linear")
# The URL up to its path; later text cannot change the host.
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\\@\s]+[/?#]")
_WHOLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_-]*\}")
SUCCESSFUL = range(200, 400)  # status codes


class ReadyRequest:
    """A request ready to be sent, restricted to `hosts` if there are any.

    `shown` describes it for answers, with the names of variables in place of their values, which
    may be secrets.
    """

    __slots__ = ("_hosts", "request", "shown", "warnings")

    def __init__(
        self,
        request: HttpRequest,
        hosts: tuple[str, ...],
        shown: dict[str, Any],
        warnings: list[str],
    ) -> None:
        self.request = request
        self._hosts = hosts
        self.shown = shown
        self.warnings = warnings

    def begin(self, rye: Rye) -> tuple[Callable[[], Any], Callable[[], None]]:
        """Send it; return a function that waits for the data and one that cancels it.

        Raises `CodedError` if it cannot start; the first function does if the request fails.
        """
        call = begin(rye.jobs(), self.request, self._hosts)
        return lambda: data_of_response(call.outcome()), call.leave


def ready_request(
    config: Mapping[str, Any],
    filling: Filling,
    *,
    hosts: tuple[str, ...],
    within: tuple[str, ...] = (),
    max_timeout: float,
) -> ReadyRequest:
    """Return the request of a config with all placeholders filled; raises `CodedError`.

    `hosts` are allowed by the user; `within`, set by the project, restricts them further.
    """
    limit, warnings = timeout_of(config, max_timeout)
    method = config.get("method", "GET")
    if isinstance(method, str):
        method = method.upper()
    url = text_at("config.url", config.get("url"))
    request = HttpRequest(
        method=choice_at("config.method", method, METHODS),
        url=url_of(url, filling, hosts),
        headers=_headers(config, filling),
        # A body that is only an omitted parameter becomes None.
        body=next(iter(filling.value([config.get("body")])), None),
        timeout=limit,
        retry=_retry(config.get("retry")),
    )
    target = target_of(request.url)
    check_allowed(target, hosts)
    check_allowed(target, within, PROJECT_FILE)
    shown = {"method": request.method, "url": filling.filled_text(url), "timeout": limit}
    return ReadyRequest(
        request, hosts, shown, [*unknown_keys(config, KEYS, "http_client"), *warnings]
    )


def url_of(author: str, filling: Filling, hosts: tuple[str, ...]) -> str:
    """Return the URL with all placeholders filled; parameters are percent-encoded.

    The caller of a tool must not choose the host, because the request may carry the author's keys.
    So parameters are allowed only after the host. If the user lists the allowed hosts, one
    parameter may be the whole URL.
    """
    from urllib.parse import quote

    if hosts and _WHOLE.fullmatch(author):
        return filling.text(author)
    url = ""
    for value, given in filling.pieces(author):
        if given and not _HOST.match(url):
            raise CodedError(
                VALIDATION_FAILED,
                '"config.url" has a parameter before its path: write the host, such as '
                '"https://example.com/{name}"; the whole URL can be one parameter only if '
                '"rye.toml" in the user space sets "hosts"',
            )
        url += quote(as_text(value), safe="", errors="replace") if given else value
    path = re.split("[?#]", url, maxsplit=1)[0]
    if {".", ".."} & set(path.split("/")):
        raise CodedError(
            VALIDATION_FAILED,
            'the path of "config.url" contains "." or ".." after substitution: use another value',
        )
    return url


def _headers(config: Mapping[str, Any], filling: Filling) -> dict[str, str]:
    """Return the headers, without those that are only an omitted parameter."""
    headers: dict[str, str] = {}
    for name, text in mapping_at("config.headers", config.get("headers")).items():
        value = filling.argument(scalar_at(f"config.headers.{name}", text))
        if value is not None:
            headers[name] = _header_value(f"config.headers.{name}", value)
    return headers | _credentials(config.get("auth"), filling)


def _credentials(said: object, filling: Filling) -> dict[str, str]:
    """Return the authentication header."""
    if said is None:
        return {}
    auth = mapping_at("config.auth", said)
    if choice_at("config.auth.type", auth.get("type"), (BEARER, API_KEY)) == BEARER:
        return {"Authorization": f"Bearer {_secret(auth, 'token', filling)}"}
    name = text_at("config.auth.header", auth.get("header", API_KEY_HEADER))
    return {name: _secret(auth, "key", filling)}


def _secret(auth: Mapping[str, Any], key: str, filling: Filling) -> str:
    where = f"config.auth.{key}"
    value = filling.text(text_at(where, auth.get(key)))
    if not value.strip():
        raise CodedError(
            VALIDATION_FAILED,
            f'"{where}" is empty after substitution: ask the user to set its variable, add it to '
            '"env" in [rye] of .ralph/ralphgen.toml and run "ralphgen regen"',
        )
    return _header_value(where, value)


def _header_value(where: str, value: str) -> str:
    """Return the value; raises `CodedError` for a line break, which could add a header."""
    if not value.replace("\t", " ").isprintable():
        raise CodedError(
            VALIDATION_FAILED, f'"{where}" contains a line break or a control character'
        )
    return value


def _retry(said: object) -> dict[str, Any]:
    """Return the number of attempts and the backoff."""
    retry = mapping_at("config.retry", said)
    attempts = retry.get("max_attempts", 1)
    backoff = retry.get("backoff", BACKOFFS[0])
    return {
        "max_attempts": count_at("config.retry.max_attempts", attempts, MOST_ATTEMPTS),
        "backoff": choice_at("config.retry.backoff", backoff, BACKOFFS),
    }


def data_of_response(response: Response) -> dict[str, Any]:
    """Return the response as data; raises `CodedError` with it in `details` for an error status."""
    data: dict[str, Any] = {
        "status_code": response.status_code,
        "headers": dict(response.headers),
        "body": response.body,
    }
    if response.truncated:
        data["truncated"] = True
    if response.status_code not in SUCCESSFUL:
        text = f"the response has the status {response.status_code}"
        raise CodedError(EXECUTION_FAILED, text, details=data)
    return data
