"""The primitive that makes a request over HTTP: to allowed hosts only, within a total time."""

from __future__ import annotations

import _thread

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.packages import add_packages
from ralphgen.runtime.processes.jobs import FullError
from ralphgen.runtime.processes.latch import Latch

from ..failures import EXECUTION_FAILED, TIMEOUT, VALIDATION_FAILED
from .http_connection import TimedConnection, UnreachableError, ask, connect
from .http_messages import body_to_send, headers_received, headers_to_send, value_received
from .http_targets import check_allowed, target_of
from .processes import too_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.processes.jobs import Jobs

    from .http_connection import Answer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_ATTEMPTS = 5
PAUSE = 1.0  # seconds before the second attempt
EXPONENTIAL = "exponential"


class Request:
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

    def __init__(self, answer: Answer) -> None:
        self.status_code = answer.status
        self.headers = headers_received(answer.headers)
        self.body: Any = value_received(answer.body, self.headers.get("content-type", ""))
        self.truncated = answer.truncated


class Call:
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

    def __init__(self, jobs: Jobs, request: Request, hosts: Sequence[str]) -> None:
        if request.method not in METHODS:
            message = f'the method "{request.method}" is none of {", ".join(METHODS)}'
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
        self._settle(CodedError(EXECUTION_FAILED, "nobody waits for the answer any longer"))
        self._line.cut()

    def work(self) -> None:
        """Ask, as often as may be; when that is known, it counts no longer."""
        result: Response | CodedError = self._broken()
        try:
            result = self._response()
        except CodedError as error:
            result = error
        except TimeoutError:
            result = self._late()
        finally:
            self._line.close()
            self._jobs.give_back()
            self._settle(result)

    def _response(self) -> Response:
        import httpcore2

        self._connect()
        method, body = self._request.method, self._body or b""
        try:
            answer = ask(self._target, self._line, method, self._headers, body)
        except TimeoutError:
            raise
        except (httpcore2.ProtocolError, httpcore2.NetworkError, OSError) as error:
            raise self._broken() from error
        return Response(answer)

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
            f'"{self._target.authority}" did not answer within {self._request.timeout:g} seconds: '
            "try again, or let the tool wait longer"
        )
        return CodedError(TIMEOUT, message)

    def _broken(self) -> CodedError:
        message = f'"{self._target.authority}" broke off, or answered what is no HTTP'
        return CodedError(EXECUTION_FAILED, message)


def pause_after(attempt: int, backoff: str) -> float:
    """Return the seconds between an attempt and the next.

    1, 2, 4, 8, or 1, 2, 3, 4 where it is linear.
    """
    return PAUSE * (2 ** (attempt - 1) if backoff == EXPONENTIAL else attempt)


def begin(jobs: Jobs, request: Request, hosts: Sequence[str]) -> Call:
    """Begin to ask; no hosts are all public ones. It counts as one of the jobs until it is over.

    Raises `CodedError` for a request that cannot be made, or may not, or is one too many.
    """
    from threading import Thread

    add_packages()
    call = Call(jobs, request, hosts)
    try:
        jobs.take()
    except FullError as error:
        raise too_many(jobs) from error
    try:
        Thread(target=call.work, name="request", daemon=True).start()
    except RuntimeError as error:
        jobs.give_back()
        message = "the request cannot be begun: too many are under way"
        raise CodedError(EXECUTION_FAILED, message) from error
    return call
