"""Calls that take time: answers that are not there yet, and waiting for others within a call."""

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
    """What a call returns whose answer is not there yet.

    `outcome` waits for the answer and returns it, or raises what the call would have raised;
    `leave` says that its caller is gone, and never waits itself. A call that `finishes`
    soon is not left when its connection ends.
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
    """Return an answer that is there, waited for where it takes time."""
    if isinstance(answer, DeferredResult):
        found: Result = answer.outcome()
        return found
    return answer


def then(answer: Any, follow: Callable[[Any], Any]) -> Any:
    """Return `follow(answer)`, or if the answer is not there yet, what waits for both."""
    if not isinstance(answer, DeferredResult):
        return follow(answer)
    outcome = answer.outcome
    return DeferredResult(lambda: follow(outcome()), answer.leave, finishes=answer.finishes)


class Waiter:
    """How a thread waits for others within a call: it sleeps."""

    __slots__ = ()
    longest = float("inf")  # seconds that a call may run here
    longest_wait = float("inf")  # seconds that it may wait before it lets others have their turn

    def take_time(self) -> None:
        """Let what comes next take long."""

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def since(self) -> float:
        """Return when the call began, by the monotonic clock."""
        return time.monotonic()

    def report(self, done: int, total: int, message: str) -> None:
        """Tell whoever waits for the call how far it is."""

    def limit(self, seconds: float) -> None:
        """Let what follows exceed neither these seconds nor the memory of a call; 0 ends that."""


class Reader(Waiter):
    """The thread that reads requests: it waits for nobody, since all others wait for it."""

    __slots__ = ()
    longest = 0.4

    def take_time(self) -> None:
        """Raise `DeferError`."""
        raise DeferError

    def pause(self, _seconds: float) -> None:
        """Raise `DeferError`."""
        raise DeferError


_PLAIN = Waiter()
_waiters: dict[int, Waiter] = {}  # by thread, where it waits in a way of its own


def wait_as(waiter: Waiter | None) -> None:
    """Let this thread wait so from now on; None for plainly."""
    if waiter is None:
        _waiters.pop(_thread.get_ident(), None)
    else:
        _waiters[_thread.get_ident()] = waiter


def take_time() -> None:
    """Say that what comes next in this call may take long.

    Raises `DeferError` on the thread that reads requests, before anything was done: the call is
    then made again, on a thread of its own.
    """
    _waiters.get(_thread.get_ident(), _PLAIN).take_time()


def pause(seconds: float) -> None:
    """Wait for other programs; calls that only read are answered meanwhile.

    Raises `DeferError` on the thread that reads requests, as `take_time` does, and `RefusedError`
    where nobody waits for the call any longer. No state of the workspace may be half changed.
    """
    _waiters.get(_thread.get_ident(), _PLAIN).pause(seconds)


def report_progress(done: int, total: int, message: str) -> None:
    """Tell the client, where it wants to know, how much of a call is done and what comes next."""
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
