"""Serves one client on the standard streams, until it leaves or a signal ends the server."""

from __future__ import annotations

import _thread
import sys
import time

from ..deferred import DeferredResult, Reader, wait_as
from ..errors import DeferError, RefusedError, StartError
from ..system import os
from . import (
    CALL,
    STATIC_METHODS,
    TASK_METHODS,
    RequestReader,
    cancelled,
    progress_line,
    read_message,
    refusal_line,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from ..kit import Workspace
    from . import RpcRequest
    from .background import LongCall, LongCalls, OpenQuestions, Outcome, Subscriptions, Worker
    from .handlers import Answer, Handlers


signal = __import__("_signal")  # all of `signal` but its enumerations, which import `enum`
READ_SIZE = 1 << 16
HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, HANG_UP)


class Ending:
    """How the process ends on SIGINT, SIGTERM and SIGHUP: at once, cleanly, with exit code 0.

    Claude Code sends SIGINT, and SIGTERM 100 ms later; a terminal that is closed sends SIGHUP.
    Threads may wait for anything then, so that the interpreter cannot end by itself.
    """

    def __init__(self) -> None:
        self._ending: set[int] = set()  # threads that end the process
        self._last = _thread.allocate_lock()  # held by the thread that does
        self._thread = _thread.get_ident()
        self._watching = False
        self._workspace: Workspace | None = None
        for number in END_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN or number != HANG_UP:  # set by `nohup`
                signal.signal(number, self._stop)
        if hasattr(signal, "SIGCHLD"):  # ignored by a client, it would be so here: no exit codes
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def hold(self, workspace: Workspace) -> None:
        """Close the workspace before the end."""
        self._workspace = workspace

    def watch(self) -> None:
        """End on signals from a separate thread too, from now on.

        A signal may reach any thread. If it reaches the first one just before a read, it does not
        interrupt the read.
        """
        if self._watching:
            return
        self._watching = True
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell)

        def wait() -> None:
            os.read(told, 1)
            self.end()

        _thread.start_new_thread(wait, ())

    def end(self) -> NoReturn:
        """Let go of everything and leave; a further signal no longer interrupts this.

        Any thread may call this; whichever comes second waits for the end.
        """
        thread = _thread.get_ident()
        self._ending.add(thread)
        self._last.acquire()
        if thread == self._thread:
            for number in END_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
        if self._workspace is not None:
            self._workspace.close()
        os._exit(0)

    def _stop(self, _signal: int, _frame: object) -> None:
        if self._workspace is None:
            raise SystemExit(0)  # a database that is being opened is closed on the way out
        if _thread.get_ident() not in self._ending:
            self.end()


class Wire:
    """Keeps the protocol's two streams from everything else that runs in this process.

    `source` and `sink` are the streams, as private file descriptors. Modules print to standard
    error, and child processes read nothing.
    """

    def __init__(self) -> None:
        # If one was closed at the start, its number may be that of a file of ours by now.
        if sys.stdin is None or sys.stdout is None:
            text = "standard input or output is closed: an MCP client must start this server"
            raise StartError(text)
        self.source, self.sink = os.dup(0), os.dup(1)
        self._writing = _thread.allocate_lock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def lines(self) -> Iterator[bytes]:
        """Yield each line that is not empty, without its end: a line feed or a carriage return."""
        begun: list[bytes] = []
        while chunk := os.read(self.source, READ_SIZE):
            *ends, last = chunk.replace(b"\r", b"\n").split(b"\n")
            for end in ends:
                line = b"".join((*begun, end)) if begun else end
                begun.clear()
                if line:
                    yield line
            if last:
                begun.append(last)
        if begun:
            yield b"".join(begun)

    def send(self, line: bytes) -> None:
        """Write a line of the protocol, whole; raises OSError if the client is gone."""
        with self._writing:
            while line:
                line = line[os.write(self.sink, line) :]

    def write(self, text: str) -> None:
        """Write text that is not the protocol's to where it would go."""
        with os.fdopen(self.sink, "w", encoding="utf-8") as stream:
            stream.write(text)


# Seconds without an answer until running calls are given up, once the client has sent everything.
DRAIN = 1.0
CHILD_DRAIN = 3.0  # the same for a call in a child process, which may have been started just before
POLL = 0.002  # seconds between two looks for answers


class Connection:
    """One client's connection; `folder` is the emitted server's.

    `ending` ends the process if the client reads no more. One thread reads all lines. It answers
    requests itself, or on a separate thread if an answer takes time.
    """

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
        """Answer until the client has sent everything, and finish the running calls.

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
            from .calls import refused, unreadable

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
            self._wire.send(refusal_line(frame["id"], error))
        else:
            self._answer(request)

    def _answer(self, request: RpcRequest) -> None:
        """Answer a request, or defer it if that takes time."""
        answer: Answer | RefusedError | None
        beside = request.method in self._handlers.listening or request.method in TASK_METHODS
        work = self._work(request)
        try:
            known = request.result is not None
            if self._worker is None or known or beside or request.method in STATIC_METHODS:
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
        if request.method in TASK_METHODS:
            return lambda: self._opened_long_calls().answer(request)

        def work() -> Answer:
            if request.result is not None:
                return request.result
            return self._handlers.methods[request.method](request.params)

        return work

    def _send(self, request: RpcRequest, outcome: dict[str, Any] | RefusedError) -> None:
        """Write the answer to a request, or first ask the client its question."""
        if type(outcome) is dict and "inputRequests" in outcome and not request.modern:
            if self._questions is None:
                from .background import OpenQuestions

                self._started_worker()
                self._questions = OpenQuestions(self._wire.send, self._again)
            self._questions.ask(request, outcome["inputRequests"])
        else:
            self._wire.send(self._requests.answer(request, outcome))

    def _again(self, request: RpcRequest) -> None:
        """Have a request answered in its turn, after the answer of the user."""
        self._defer(request, self._work(request), beside=False)

    def _defer(
        self,
        request: RpcRequest,
        work: Callable[[], Answer | None],
        *,
        beside: bool,
        waiting: DeferredResult | None = None,
    ) -> None:
        """Have a request answered on a separate thread: in its turn, or outside the queue."""
        from .background import Call

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
                self._wire.send(progress_line(request.token, done, total, message))

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
        """Return a potential task for a call that takes time; None if it cannot become one."""
        may = request.takes_tasks and request.method == CALL
        if may and request.task is None and request.params["name"] in self._handlers.long_tools:
            request.task = self._opened_long_calls().begin(request)
        return request.task

    def _opened_long_calls(self) -> LongCalls:
        if self._long_calls is None:
            from .background import LongCalls

            self._started_worker()
            self._long_calls = LongCalls(self._send)
        return self._long_calls

    def _listen(self, request: RpcRequest) -> Answer | None:
        """Return the answer to a request about notifications; None if the request remains open."""
        params, subscriptions = request.params, self._opened_subscriptions()
        if request.method == "resources/subscribe":
            return subscriptions.subscribe(params["uri"])
        if request.method == "resources/unsubscribe":
            return subscriptions.unsubscribe(params["uri"])
        if "taskIds" in params["notifications"] and self._handlers.long_tools:
            from .background import refuse_undeclared

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
            from .background import Worker

            self._ending.watch()
            self._worker = Worker(self._ending.end)
        return self._worker

    def _opened_subscriptions(self) -> Subscriptions:
        if self._subscriptions is None:
            from .background import Subscriptions

            self._ending.watch()
            self._subscriptions = Subscriptions(
                self._handlers, self._folder, self._wire.send, self._ending.end
            )
        return self._subscriptions

    def _close(self) -> None:
        """Wait for running calls; calls that would have to wait for others are refused."""
        if self._worker is None:
            return
        if self._questions is not None:
            self._questions.close()
        self._worker.close()
        owed, since = len(self._worker.calls), time.monotonic()
        while owed and time.monotonic() - since < self._drain():
            time.sleep(POLL)
            left = len(self._worker.calls)
            if left != owed:
                owed, since = left, time.monotonic()

    def _drain(self) -> float:
        """Return for how many seconds the next answer is waited for."""
        calls = [] if self._worker is None else [*self._worker.calls]
        return CHILD_DRAIN if any(call.finishes for call in calls) else DRAIN
