"""Takes turns on a kit's workspace: calls that take time, each on a thread of its own."""

from __future__ import annotations

import _thread
import time

from ..deferred import DeferredResult, Waiter, wait_as
from ..errors import CONNECTION_CLOSED, INTERNAL_ERROR, DeferError, RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")
    Outcome = dict[str, Any] | RefusedError | None

MOST = 8  # calls that may wait for other programs at once; the next ones wait for their turn
CLOSED = "the connection was closed before the call came to an end"


class Call(Waiter):
    """One call, from its arrival to its outcome.

    `work` answers it, or begins to; `reads` says that it changes nothing. `tell` is called once,
    on some thread: with the result, with what refuses it, or with None where nobody wants it.
    `uses_workspace` is false where the call needs no turn. `identity` is that of the request, and
    `tell_progress` takes how far it is, where anybody wants to know. `waiting` is what waits for
    the answer of a work that has begun already.
    """

    __slots__ = (
        "_begun",
        "_over",
        "_tell",
        "_tell_progress",
        "_waiting",
        "_worker",
        "identity",
        "reads",
        "uses_workspace",
        "wanted",
        "work",
    )
    longest_wait = 1.0

    def __init__(
        self,
        worker: Worker,
        work: Callable[[], dict[str, Any] | DeferredResult | None],
        tell: Callable[[Outcome], None],
        *,
        reads: bool,
        uses_workspace: bool = True,
        identity: int | str | None = None,
        tell_progress: Callable[[int, int, str], None] | None = None,
        waiting: DeferredResult | None = None,
    ) -> None:
        self._begun = time.monotonic()
        self._over = _thread.allocate_lock()
        self._tell = tell
        self._tell_progress = tell_progress
        self._waiting = waiting
        self._worker = worker
        self.identity = identity
        self.reads = reads
        self.uses_workspace = uses_workspace
        self.wanted = True
        self.work = work

    def since(self) -> float:
        """Return when the call arrived."""
        return self._begun

    def pause(self, seconds: float) -> None:
        """Wait for other programs, while those calls run that only read.

        Raises `RefusedError` where nobody waits for the call any longer.
        """
        if not self.wanted or self._worker.closing:
            raise RefusedError(CONNECTION_CLOSED, CLOSED)
        if self.uses_workspace:
            self._worker.pause(seconds)
        else:
            time.sleep(seconds)

    def report(self, done: int, total: int, message: str) -> None:
        """Tell how far the call is, to who wants to know and still waits for it."""
        if self._tell_progress is not None and self.wanted and not self._worker.closing:
            self._tell_progress(done, total, message)

    @property
    def finishes(self) -> bool:
        """Whether it waits for an answer that comes soon."""
        return self._waiting is not None and self._waiting.finishes

    def leave(self) -> None:
        """Want no answer any longer; what has not begun to write will not."""
        self.wanted = False
        if self._waiting is not None:
            self._waiting.leave()

    def close(self) -> None:
        """Come to an end with the connection, where it waits for an answer that takes time."""
        if self.finishes:
            return
        if self._waiting is not None or not self.uses_workspace:
            self.leave()
            self.tell(RefusedError(CONNECTION_CLOSED, CLOSED))

    def tell(self, outcome: Outcome) -> None:
        """Say what came of the call, once."""
        if self._over.acquire(blocking=False):
            self._tell(outcome)
            self._worker.calls.remove(self)

    def begin(self) -> DeferredResult | None:
        """Run the work; returns what waits for the answer where it is not there yet."""
        answer: Any = RefusedError(INTERNAL_ERROR, "cancelled before it began")
        if self.wanted:
            try:
                answer = self.work()
            except RefusedError as error:
                answer = error
        if not isinstance(answer, DeferredResult):
            self.tell(answer if self.wanted else None)
            return None
        self._waiting = answer
        if not self.wanted:
            answer.leave()
        if self._worker.closing:
            self.close()
        return answer

    def wait(self, waiting: DeferredResult) -> None:
        """Wait for the answer of the work, and tell it."""
        outcome: Outcome
        try:
            outcome = waiting.outcome()
        except RefusedError as error:
            outcome = error
        self.tell(outcome if self.wanted else None)


async def outcome_of(
    loop: asyncio.AbstractEventLoop,
    worker: Worker,
    work: Callable[[], dict[str, Any] | DeferredResult | None],
    *,
    reads: bool,
    uses_workspace: bool = True,
    tell_progress: Callable[[int, int, str], None] | None = None,
) -> Outcome:
    """Return what comes of a call, to who awaits it in a loop; once cancelled, nobody wants it."""
    awaited: asyncio.Future[Outcome] = loop.create_future()

    def settle(outcome: Outcome) -> None:
        if not awaited.done():
            awaited.set_result(outcome)

    def tell(outcome: Outcome) -> None:
        loop.call_soon_threadsafe(settle, outcome)

    call = Call(
        worker,
        work,
        tell,
        reads=reads,
        uses_workspace=uses_workspace,
        tell_progress=tell_progress,
    )
    worker.add(call)
    try:
        return await awaited
    except BaseException:  # that it was cancelled
        call.leave()
        raise


class Worker:
    """The queue before one workspace, which belongs to one call at a time.

    Calls have their turns in the order in which they came; while one waits for other programs,
    those that only read go on. `gone` is called where no answer can be written any more.
    """

    __slots__ = ("_active", "_gone", "_lock", "_paused", "_queue", "_turn", "calls", "closing")

    def __init__(self, gone: Callable[[], None]) -> None:
        self._active = 0  # calls that have had their turn and have not given it back
        self._gone = gone
        self._lock = _thread.allocate_lock()  # for the fields of this object
        self._paused = 0  # calls among the active ones that wait for other programs
        self._queue: list[Call] = []
        self._turn = _thread.allocate_lock()  # held by whoever uses the workspace
        self.calls: list[Call] = []  # all that have no outcome yet
        self.closing = False

    def at_once(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, on this thread, which reads requests.

        Raises `DeferError` where it would have to wait, for others or for its turn.
        """
        with self._lock:
            if self._active or self._queue:
                raise DeferError
            self._active = 1
        try:
            with self._turn:
                return work()
        finally:
            self._end()

    def add(self, call: Call) -> None:
        """Have the call run when its turn has come; at once, where it needs none."""
        self.calls.append(call)
        if not call.uses_workspace:
            _thread.start_new_thread(self._run, (call,))
            return
        with self._lock:
            self._queue.append(call)
            self._start_next()

    def pause(self, seconds: float) -> None:
        """Wait for other programs within a call that has its turn, and let others have it."""
        with self._lock:
            self._paused += 1
            self._turn.release()
            self._start_next()
        time.sleep(seconds)
        self._turn.acquire()
        with self._lock:
            self._paused -= 1

    def close(self) -> None:
        """Let what runs come to an end, and nothing wait any longer."""
        self.closing = True
        for call in [*self.calls]:
            call.close()

    def _start_next(self) -> None:
        """Start the next call that may run now: any, or one that reads where others wait."""
        if self._active > self._paused or self._active >= MOST:
            return
        chosen = next((call for call in self._queue if call.reads or not self._active), None)
        if chosen is not None:
            self._queue.remove(chosen)
            self._active += 1
            _thread.start_new_thread(self._run, (chosen,))

    def _end(self) -> None:
        with self._lock:
            self._active -= 1
            self._start_next()

    def _run(self, call: Call) -> None:
        """Answer a call on this thread."""
        wait_as(call)
        try:
            if call.uses_workspace:
                try:
                    with self._turn:
                        begun = call.begin()
                finally:
                    self._end()
            else:
                begun = call.begin()
            if begun is not None:
                call.wait(begun)
        except OSError:
            self._gone()
        finally:
            wait_as(None)
