"""Makes a request over HTTP within a total time: its headers and body, attempts, and its answer."""

from __future__ import annotations

import _thread
import json
import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.modules import add_packages
from ralphgen.runtime.processes.jobs import FullError
from ralphgen.runtime.processes.pipes import Latch

from ..values import EXECUTION_FAILED, TIMEOUT, VALIDATION_FAILED
from .http_connection import (
    TimedConnection,
    UnreachableError,
    ask,
    check_allowed,
    connect,
    target_of,
)
from .processes import too_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.processes.jobs import Jobs

    from .http_connection import HostAnswer

WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
# What says where a request ends and whom it is for is not the tool's.
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
    """Return all headers of a request, those of the tool among them; raises `CodedError`."""
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
    """Return the bytes of a body; None for a method that has none. Raises `CodedError`."""
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
    """Return an answer's headers, joined where they share a name, by names in small letters."""
    headers: dict[str, str] = {}
    for name, value in lines:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def value_received(body: bytes | bytearray, kind: str) -> Any:
    """Return the JSON value that a body is, where its content type says so and it is one.

    Else its text, in its own character set where that is known.
    """
    if is_json(kind):
        try:
            value = json.loads(body)
            # It goes on as JSON: what that does not allow, as a NaN, stays text.
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
    return text.encode("utf-8", "replace").decode()  # some character sets know halves of one


def is_json(kind: str) -> bool:
    """Return whether a content type says that a body is JSON."""
    return bool(_JSON.fullmatch(kind))


class HttpRequest:
    """A request to send; `body` is a JSON value or None, `timeout` is in seconds, for everything.

    A body of text is sent as it is where the headers name a content type that is not JSON. `retry`
    has `max_attempts` and `backoff`, "exponential" or "linear".
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
    """The answer to a request: `body` is a JSON value where the answer says so, else text.

    The names of `headers` are in small letters. `truncated` says that the body is only its begin.
    """

    __slots__ = ("body", "headers", "status_code", "truncated")

    def __init__(self, answer: HostAnswer) -> None:
        self.status_code = answer.status
        self.headers = headers_received(answer.headers)
        self.body: Any = value_received(answer.body, self.headers.get("content-type", ""))
        self.truncated = answer.truncated


class PendingRequest:
    """A request that is under way, on a thread of its own."""

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
        """Wait for the answer; raises `CodedError` where there is none, or none in time."""
        self._done.wait(self._line.seconds())
        self._settle(self._late())
        if isinstance(self._settled, Response):
            return self._settled
        raise self._settled or self._late()

    def leave(self) -> None:
        """Give the request up, without waiting for that."""
        self._settle(CodedError(EXECUTION_FAILED, "the request was cancelled"))
        self._line.cut()

    def work(self) -> None:
        """Ask, as often as may be; when that is known, it counts no longer."""
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
        """Connect, and try again where nobody is there, as long as there is time for it."""
        most = min(self._request.retry.get("max_attempts", 1), MOST_ATTEMPTS)
        backoff = self._request.retry.get("backoff", EXPONENTIAL)
        attempt = 0
        while True:
            attempt += 1
            try:
                connect(self._target, self._line, anywhere=bool(self._hosts))
            except UnreachableError:
                pause = pause_after(attempt, backoff)
                if attempt >= most or pause >= self._line.left() or self._done.wait(pause):
                    raise
            else:
                return

    def _settle(self, result: Response | CodedError) -> None:
        """Take what comes first for the end of it."""
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
    """Return the seconds before the next attempt: 1, 2, 4, 8, or 1, 2, 3, 4 where it is linear."""
    return PAUSE * (2 ** (attempt - 1) if backoff == EXPONENTIAL else attempt)


def begin(jobs: Jobs, request: HttpRequest, hosts: Sequence[str]) -> PendingRequest:
    """Begin to ask; no hosts are all public ones. It counts as one of the jobs until it is over.

    Raises `CodedError` for a request that cannot be made, or may not, or is one too many.
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
