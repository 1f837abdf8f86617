"""Answers the lines of one connection, to its end."""

from __future__ import annotations

import time

from ..deferred import DeferredResult, Reader, wait_as
from ..errors import DeferError, RefusedError
from .messages import AT_ONCE, TASKS, progress, refusal
from .requests import CALL, RequestReader, cancelled, read_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .handlers import Handlers
    from .long_calls import LongCall, LongCalls
    from .questions import OpenQuestions
    from .requests import RpcRequest
    from .stdio import Ending, Wire
    from .subscriptions import Subscriptions
    from .tools import Answer
    from .worker import Outcome, Worker

# Seconds without an answer, after which what has begun is given up when the client says no more.
DRAIN = 1.0
CHILD_DRAIN = 3.0  # the same for a call in a child process, which may have been started just before
LOOK = 0.002  # seconds between two looks whether it has


class Connection:
    """One client's connection; `folder` is the emitted server's.

    `ending` ends the process where the client reads no more. One thread reads all lines. A request
    is answered there and then, or on a thread of its own if it takes time.
    """

    __slots__ = (
        "_ending",
        "_folder",
        "_handlers",
        "_long_calls",
        "_questions",
        "_requests",
        "_subscriptions",
        "_wire",
        "_worker",
    )

    def __init__(self, handlers: Handlers, folder: str, wire: Wire, ending: Ending) -> None:
        self._folder = folder
        self._ending = ending
        self._handlers = handlers
        self._long_calls: LongCalls | None = None
        self._questions: OpenQuestions | None = None
        self._requests = RequestReader(handlers)
        self._subscriptions: Subscriptions | None = None
        self._wire = wire
        self._worker: Worker | None = None

    def run(self) -> None:
        """Answer until the client has said all, and then what has begun.

        Raises OSError if the client is gone.
        """
        wait_as(Reader())
        for line in self._wire.lines():
            self._take(line)
        self._close()

    def _take(self, line: bytes) -> None:
        """Answer a line, or refuse it."""
        frame = read_message(line)
        if frame is None:
            from .malformed import refused, unreadable

            answer = refused(line)
            if answer != b"":
                self._wire.send(unreadable(line) if answer is None else answer)
            return
        if type(frame.get("method")) is not str:
            if self._questions is not None:
                self._questions.take(frame)
            return
        if "id" not in frame:
            identity = cancelled(frame)
            if identity is not None:
                self._cancel(identity)
            return
        try:
            request = self._requests.read(frame)
        except RefusedError as error:
            self._wire.send(refusal(frame["id"], error))
        else:
            self._answer(request)

    def _answer(self, request: RpcRequest) -> None:
        """Answer a request, or have it answered where that takes time."""
        answer: Answer | RefusedError | None
        beside = request.method in self._handlers.listening or request.method in TASKS
        work = self._work(request)
        try:
            known = request.result is not None
            if self._worker is None or known or beside or request.method in AT_ONCE:
                answer = work()
            else:
                answer = self._worker.at_once(work)
        except RefusedError as error:
            answer = error
        except DeferError:
            self._defer(request, work, beside=beside)
            return
        if isinstance(answer, DeferredResult):
            begun = answer
            self._defer(request, lambda: begun, beside=True, waiting=begun)
        elif answer is not None:
            self._send(request, answer)

    def _work(self, request: RpcRequest) -> Callable[[], Answer | None]:
        """Return what answers a request, or begins to."""
        if request.method in self._handlers.listening:
            return lambda: self._listen(request)
        if request.method in TASKS:
            return lambda: self._opened_long_calls().answer(request)

        def work() -> Answer:
            if request.result is not None:
                return request.result
            return self._handlers.methods[request.method](request.params)

        return work

    def _send(self, request: RpcRequest, outcome: dict[str, Any] | RefusedError) -> None:
        """Write the answer to a request, or ask the client first what it needs."""
        if type(outcome) is dict and "inputRequests" in outcome and not request.modern:
            if self._questions is None:
                from .questions import OpenQuestions

                self._started_worker()
                self._questions = OpenQuestions(self._wire.send, self._again)
            self._questions.ask(request, outcome["inputRequests"])
        else:
            self._wire.send(self._requests.answer(request, outcome))

    def _again(self, request: RpcRequest) -> None:
        """Have a request answered that a person was asked for, in its turn."""
        self._defer(request, self._work(request), beside=False)

    def _defer(
        self,
        request: RpcRequest,
        work: Callable[[], Answer | None],
        *,
        beside: bool,
        waiting: DeferredResult | None = None,
    ) -> None:
        """Have a request answered on a thread of its own: in its turn, or beside all others."""
        from .worker import Call

        worker = self._started_worker()
        task = self._task(request)

        def tell(outcome: Outcome) -> None:
            if task is not None:
                task.tell(outcome)
            elif outcome is not None:
                self._send(request, outcome)

        def tell_progress(done: int, total: int, message: str) -> None:
            if task is not None and task.is_task:
                task.note(message)
            elif request.token is not None:
                self._wire.send(progress(request.token, done, total, message))

        reads = self._handlers.only_reads(request.method, request.params)
        call = Call(
            worker,
            work,
            tell,
            reads=reads,
            uses_workspace=not beside,
            identity=request.identity,
            tell_progress=tell_progress,
            waiting=waiting,
        )
        if task is not None:
            task.call = call
        worker.add(call)

    def _task(self, request: RpcRequest) -> LongCall | None:
        """Return what may become a task of a call that takes time; None where none may."""
        may = request.takes_tasks and request.method == CALL
        if may and request.task is None and request.params["name"] in self._handlers.long_tools:
            request.task = self._opened_long_calls().begin(request)
        return request.task

    def _opened_long_calls(self) -> LongCalls:
        if self._long_calls is None:
            from .long_calls import LongCalls

            self._started_worker()
            self._long_calls = LongCalls(self._send)
        return self._long_calls

    def _listen(self, request: RpcRequest) -> Answer | None:
        """Return the answer to a request by which clients hear of changes; None where it waits."""
        params, subscriptions = request.params, self._opened_subscriptions()
        if request.method == "resources/subscribe":
            return subscriptions.subscribe(params["uri"])
        if request.method == "resources/unsubscribe":
            return subscriptions.unsubscribe(params["uri"])
        if "taskIds" in params["notifications"] and self._handlers.long_tools:
            from .long_calls import refuse_undeclared

            refuse_undeclared(request)
        subscriptions.listen(request.identity or 0, params["notifications"])
        return None

    def _cancel(self, identity: int | str) -> None:
        """Answer a request no more; "7" counts as 7 here, as in the official SDK."""
        if self._worker is not None:
            for call in [*self._worker.calls]:
                if str(call.identity) == str(identity):
                    call.leave()
        if self._subscriptions is not None:
            self._subscriptions.leave(identity)
        if self._questions is not None:
            self._questions.leave(identity)

    def _started_worker(self) -> Worker:
        if self._worker is None:
            from .worker import Worker

            self._ending.watch()
            self._worker = Worker(self._ending.end)
        return self._worker

    def _opened_subscriptions(self) -> Subscriptions:
        if self._subscriptions is None:
            from .subscriptions import Subscriptions

            self._ending.watch()
            self._subscriptions = Subscriptions(
                self._handlers, self._folder, self._wire.send, self._ending.end
            )
        return self._subscriptions

    def _close(self) -> None:
        """Wait for what has begun; what would have to wait for others is refused."""
        if self._worker is None:
            return
        if self._questions is not None:
            self._questions.close()
        self._worker.close()
        owed, since = len(self._worker.calls), time.monotonic()
        while owed and time.monotonic() - since < self._drain():
            time.sleep(LOOK)
            left = len(self._worker.calls)
            if left != owed:
                owed, since = left, time.monotonic()

    def _drain(self) -> float:
        """Return for how many seconds the next answer is waited for."""
        calls = [] if self._worker is None else [*self._worker.calls]
        return CHILD_DRAIN if any(call.finishes for call in calls) else DRAIN
