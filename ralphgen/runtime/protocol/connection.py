"""Carries one connection: has each line answered, by the fast path or by the SDK, to its end."""

from __future__ import annotations

import gc
import sys
import time

from ..deferred import DeferredResult, Reader, wait_as
from ..errors import INTERNAL_ERROR, DeferError, RefusedError, StartError, one_line
from ..modules import add_packages
from ..values.encoding import read_json
from .fast_path import CALL, CANCELLED, DoubtError, FastPath
from .messages import AT_ONCE, TASKS, progress, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .fast_path import PlainRequest
    from .handlers import Handlers
    from .long_calls import LongCall, LongCalls
    from .questions import OpenQuestions
    from .sdk_server import SdkServer
    from .stdio import Ending, Wire
    from .subscriptions import Subscriptions
    from .tools import Answer
    from .worker import Outcome, Worker

# Seconds without an answer, after which what has begun is given up when the client says no more.
DRAIN = 1.0
# The same for requests of the SDK, or of a child process: either may have been loaded just before.
SDK_DRAIN = 3.0
LOOK = 0.002  # seconds between two looks whether it has


class Connection:
    """One client's connection; `folder` is the emitted server's.

    `ending` ends the process where the client reads no more. One thread reads all lines. A plain
    request is answered there and then; what takes time is answered on a thread of its own, and what
    is not plain by the SDK, which is loaded for it.
    """

    __slots__ = (
        "_ending",
        "_fast_path",
        "_folder",
        "_handlers",
        "_long_calls",
        "_questions",
        "_sdk",
        "_subscriptions",
        "_wire",
        "_worker",
    )

    def __init__(self, handlers: Handlers, folder: str, wire: Wire, ending: Ending) -> None:
        self._fast_path = FastPath(handlers)
        self._folder = folder
        self._ending = ending
        self._handlers = handlers
        self._long_calls: LongCalls | None = None
        self._questions: OpenQuestions | None = None
        self._sdk: SdkServer | None = None
        self._subscriptions: Subscriptions | None = None
        self._wire = wire
        self._worker: Worker | None = None

    def run(self) -> None:
        """Answer until the client has said all, and then what has begun.

        Raises OSError where the client is gone, and `StartError` where the SDK is needed and
        cannot be loaded.
        """
        wait_as(Reader())
        for line in self._wire.lines():
            self._take(line)
        self._close()

    def _take(self, line: bytes) -> None:
        """Have a line answered, by whoever can."""
        try:
            request = self._fast_path.read(line)
        except (DoubtError, ValueError, RecursionError):
            if self._questions is None or not self._questions.take(line):
                self._leave(line)
            return
        if request is None:
            self._tell_sdk(line)
        elif request.method == CANCELLED:
            self._cancel(request.params["requestId"])
            self._tell_sdk(line)
        else:
            self._answer(request)

    def _answer(self, request: PlainRequest) -> None:
        """Answer a plain request, or have it answered where that takes time."""
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

    def _work(self, request: PlainRequest) -> Callable[[], Answer | None]:
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

    def _send(self, request: PlainRequest, outcome: dict[str, Any] | RefusedError) -> None:
        """Write the answer to a request, or ask the client first what it needs."""
        if type(outcome) is dict and "inputRequests" in outcome and self._fast_path.is_handshake:
            if self._questions is None:
                from .questions import OpenQuestions

                self._started_worker()
                self._questions = OpenQuestions(self._wire.send, self._again)
            self._questions.ask(request, outcome["inputRequests"])
        else:
            self._wire.send(self._fast_path.frame(request, outcome))

    def _again(self, request: PlainRequest) -> None:
        """Have a request answered that a person was asked for, in its turn."""
        self._defer(request, self._work(request), beside=False)

    def _defer(
        self,
        request: PlainRequest,
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

    def _task(self, request: PlainRequest) -> LongCall | None:
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

    def _listen(self, request: PlainRequest) -> Answer | None:
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
        """Answer a request no more; the SDK takes "7" for 7 here, and so does this."""
        if self._worker is not None:
            for call in [*self._worker.calls]:
                if str(call.identity) == str(identity):
                    call.leave()
        if self._subscriptions is not None:
            self._subscriptions.leave(identity)
        if self._questions is not None:
            self._questions.leave(identity)

    def _leave(self, line: bytes) -> None:
        """Refuse a line that is no message, or leave it to the SDK.

        Raises `StartError` where there is no SDK, once the client knows.
        """
        from .malformed import refused

        answer = refused(line)
        if answer:
            self._wire.send(answer)
        elif answer is not None:
            self._tell_sdk(line)
        else:
            if self._sdk is None:
                try:
                    self._sdk = self._loaded_sdk()
                except StartError as error:
                    told = RefusedError(INTERNAL_ERROR, one_line(str(error)))
                    self._wire.send(refusal(read_json(line.decode("utf-8", "replace"))["id"], told))
                    raise
            self._fast_path.left(line)
            self._sdk.give(line)

    def _tell_sdk(self, line: bytes) -> None:
        """Give a notification to the SDK where it is loaded; it is not worth loading it."""
        if self._sdk is not None:
            self._sdk.give(line)

    def _loaded_sdk(self) -> SdkServer:
        """Return the SDK's server, told of all that was said before.

        Raises `StartError` where the SDK cannot be imported.
        """
        add_packages()
        gc.disable()  # the SDK makes thousands of classes, none of them garbage
        try:
            from .sdk_server import SdkServer
        except ImportError as error:
            raise StartError(
                f'cannot load the MCP SDK ({error}) with "{sys.executable}": run "ralphgen doctor"'
            ) from error
        gc.freeze()
        gc.enable()
        return SdkServer(
            self._handlers,
            self._started_worker(),
            self._opened_subscriptions() if self._handlers.listening else None,
            self._wire,
            self._ending.end,
            self._fast_path.replay,
        )

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
        owed, since = self._owed(), time.monotonic()
        while any(owed) and time.monotonic() - since < self._drain(owed[1]):
            time.sleep(LOOK)
            left = self._owed()
            if left != owed:
                owed, since = left, time.monotonic()

    def _drain(self, by_sdk: int) -> float:
        """Return for how many seconds the next answer is waited for."""
        starting = self._worker is not None and any(one.finishes for one in [*self._worker.calls])
        return SDK_DRAIN if by_sdk or starting else DRAIN

    def _owed(self) -> tuple[int, int]:
        """Return how many answers are still to come: ours, and those of the SDK."""
        calls = [] if self._worker is None else self._worker.calls
        return len(calls), 0 if self._sdk is None else self._sdk.owed()
