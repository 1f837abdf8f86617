"""Calls that take time: pending results, and waiting for other programs within a call."""

from __future__ import annotations

import _thread
import time

from .errors import DeferError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")


class DeferredResult:
    """The result of a call that is still running.

    `outcome` waits for the answer and returns it, or raises the error of the call. `leave` reports
    that the caller is gone and never waits. If `finishes` is set, the call ends soon and continues
    when its connection ends.
    """

    __slots__ = ("finishes", "leave", "outcome")

    def __init__(
        self,
        outcome: Callable[[], Any],
        leave: Callable[[], None],
        *,
        finishes: bool = False,
    ) -> None:
        self.finishes = finishes
        self.outcome = outcome
        self.leave = leave


def settled(answer: Result | DeferredResult) -> Result:
    """Return an answer; waits for it if it is a `DeferredResult`."""
    if isinstance(answer, DeferredResult):
        found: Result = answer.outcome()
        return found
    return answer


def then(answer: Any, follow: Callable[[Any], Any]) -> Any:
    """Return `follow(answer)`, or a `DeferredResult` of both if the answer is still pending."""
    if not isinstance(answer, DeferredResult):
        return follow(answer)
    outcome = answer.outcome
    return DeferredResult(lambda: follow(outcome()), answer.leave, finishes=answer.finishes)


class Waiter:
    """Default way for a thread to wait within a call: it sleeps."""

    __slots__ = ()
    longest = float("inf")  # seconds that a call may run here
    longest_wait = float("inf")  # seconds that it may wait before it lets others have their turn

    def take_time(self) -> None:
        """Allow the next part of the call to be slow."""

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def since(self) -> float:
        """Return when the call began, by the monotonic clock."""
        return time.monotonic()

    def report(self, done: int, total: int, message: str) -> None:
        """Report the progress of the call to its client."""

    def limit(self, seconds: float) -> None:
        """Limit the time and memory of the work that follows; 0 removes the limit."""


class Reader(Waiter):
    """The thread that reads requests. It never waits, because every other thread depends on it."""

    __slots__ = ()
    longest = 0.4

    def take_time(self) -> None:
        """Raise `DeferError`."""
        raise DeferError

    def pause(self, _seconds: float) -> None:
        """Raise `DeferError`."""
        raise DeferError


_PLAIN = Waiter()
_waiters: dict[int, Waiter] = {}  # by thread; a thread without an entry waits plainly


def wait_as(waiter: Waiter | None) -> None:
    """Use this waiter on the current thread from now on; None selects the plain one."""
    if waiter is None:
        _waiters.pop(_thread.get_ident(), None)
    else:
        _waiters[_thread.get_ident()] = waiter


def take_time() -> None:
    """Announce that the next part of this call may be slow.

    Raises `DeferError` on the thread that reads requests, before anything was done. The call is
    then repeated on a separate thread.
    """
    _waiters.get(_thread.get_ident(), _PLAIN).take_time()


def pause(seconds: float) -> None:
    """Wait for other programs; read-only calls are answered meanwhile.

    Raises `DeferError` on the thread that reads requests, as `take_time` does, and `RefusedError`
    if no client waits for the call any longer. No state of the workspace may be half changed.
    """
    _waiters.get(_thread.get_ident(), _PLAIN).pause(seconds)


def report_progress(done: int, total: int, message: str) -> None:
    """Report the progress of a call and its next step to the client, if the client asked for it."""
    _waiters.get(_thread.get_ident(), _PLAIN).report(done, total, message)


def longest_run() -> float:
    """Return for how many seconds a call may run on this thread, before it should `take_time`."""
    return _waiters.get(_thread.get_ident(), _PLAIN).longest


def longest_wait() -> float:
    """Return for how many seconds a call may wait on this thread before it should `pause`."""
    return _waiters.get(_thread.get_ident(), _PLAIN).longest_wait


def limit(seconds: float) -> None:
    """Limit the statements that follow, if this process runs nothing else; 0 ends that."""
    _waiters.get(_thread.get_ident(), _PLAIN).limit(seconds)


def call_began() -> float:
    """Return when the call of this thread arrived, by the monotonic clock."""
    return _waiters.get(_thread.get_ident(), _PLAIN).since()
