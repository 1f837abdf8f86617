"""Work outside the thread that reads: slow calls, tasks, questions and subscriptions.

Calls that take time have turns on a kit's workspace, each on a separate thread. A client of the
stateless version that declares the tasks extension gets a handle for a call that is not over in a
moment, and asks after it: `tasks/get`, `tasks/update`, `tasks/cancel`, as
https://github.com/modelcontextprotocol/ext-tasks has them (SEP-2663). Running calls and their
handles belong to this process alone.
"""

from __future__ import annotations

import _thread
import time

from .. import protocol
from ..deferred import DeferredResult, Waiter, settled, take_time, wait_as
from ..encoding import sha256_hex
from ..errors import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    DeferError,
    NotThereError,
    RefusedError,
)
from ..system import os
from ..values import shortened
from . import TASKS_EXTENSION, encode_line
from .handlers import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from ..kit import Resources
    from . import RpcRequest
    from .handlers import Handlers

    Result = TypeVar("Result")
    Outcome = dict[str, Any] | RefusedError | None
    Send = Callable[[RpcRequest, dict[str, Any] | RefusedError], None]

CALLS_AT_ONCE = (
    8  # calls that may wait for other programs at once; the next ones wait for their turn
)
CLOSED_TOO_EARLY = "the connection was closed before the call came to an end"


class Call(Waiter):
    """One call, from its arrival to its outcome.

    `work` answers it, or begins to; `reads` marks a call that changes nothing. `tell` is called
    once, on some thread: with the result, with the refusal, or with None if the call was abandoned.
    `uses_workspace` is false if the call needs no turn. `identity` is that of the request, and
    `tell_progress` reports progress, if the client asked for it. `waiting` is the deferred result
    of work that has begun already.
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
        """Wait for other programs, while read-only calls run.

        Raises `RefusedError` if the call was abandoned.
        """
        if not self.wanted or self._worker.closing:
            raise RefusedError(CONNECTION_CLOSED, CLOSED_TOO_EARLY)
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
        """True if it waits for an answer that comes soon."""
        return self._waiting is not None and self._waiting.finishes

    def leave(self) -> None:
        """Abandon the call; it writes nothing unless it has begun to."""
        self.wanted = False
        if self._waiting is not None:
            self._waiting.leave()

    def close(self) -> None:
        """End with the connection, if the call waits for an answer that takes time."""
        if self.finishes:
            return
        if self._waiting is not None or not self.uses_workspace:
            self.leave()
            self.tell(RefusedError(CONNECTION_CLOSED, CLOSED_TOO_EARLY))

    def tell(self, outcome: Outcome) -> None:
        """Report the outcome of the call, once."""
        if self._over.acquire(blocking=False):
            self._tell(outcome)
            self._worker.calls.remove(self)

    def begin(self) -> DeferredResult | None:
        """Run the work; returns the deferred result if the answer is still pending."""
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
    """Return the outcome of a call to a coroutine of a loop; cancelling it abandons the call."""
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
    except BaseException:  # such as a cancellation
        call.leave()
        raise


class Worker:
    """The queue before one workspace, which belongs to one call at a time.

    Calls have their turns in order of arrival; while one waits for other programs, read-only calls
    continue. `gone` is called if no answer can be written any more.
    """

    __slots__ = ("_active", "_gone", "_lock", "_paused", "_queue", "_turn", "calls", "closing")

    def __init__(self, gone: Callable[[], None]) -> None:
        self._active = 0  # calls that have begun their turn and not ended it
        self._gone = gone
        self._lock = _thread.allocate_lock()  # for the fields of this object
        self._paused = 0  # active calls that wait for other programs
        self._queue: list[Call] = []
        self._turn = _thread.allocate_lock()  # held by the thread that uses the workspace
        self.calls: list[Call] = []  # calls without an outcome yet
        self.closing = False

    def at_once(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, on this thread, which reads requests.

        Raises `DeferError` if it would have to wait, for others or for its turn.
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
        """Run the call when its turn has come; immediately if it needs none."""
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
        """Let running calls come to an end, and no call wait any longer."""
        self.closing = True
        for call in [*self.calls]:
            call.close()

    def _start_next(self) -> None:
        """Start the next call that may run now: any call, or a read-only one while others wait."""
        if self._active > self._paused or self._active >= CALLS_AT_ONCE:
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


MISSING_CAPABILITY = -32021  # the client did not declare a capability that the request needs
TASK_AFTER = 2.0  # seconds for a call to end before it becomes a task
KEEP_TASK = 3_600.0  # seconds that the outcome of a task is kept
POLL_INTERVAL = 1_000  # milliseconds between two looks
WORKING = "working"  # until it is completed, failed or cancelled


class LongCall:
    """One call that may become a task; it is answered directly if it is over soon enough."""

    __slots__ = (
        *("_begun", "_created", "_ended", "_facts", "_lock", "_message", "_over", "_send"),
        *("_updated", "call", "handle", "is_task", "request", "status"),
    )

    def __init__(self, request: RpcRequest, send: Send) -> None:
        self._begun = time.monotonic()
        self._created = self._updated = _moment()
        self._ended = 0.0
        self._facts: dict[str, Any] = {}  # further fields of the status
        self._lock = _thread.allocate_lock()
        self._message = ""
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self._send = send
        self.call: Call | None = None
        self.handle = os.urandom(16).hex()
        self.is_task = False
        self.request = request
        self.status = WORKING

    def wait(self, keep: Callable[[LongCall], None]) -> None:
        """Become a task, and call `keep`, unless the call is over in a moment.

        An abandoned call does not become a task: its request gets no answer.
        """
        if self._over.acquire(timeout=TASK_AFTER):
            return
        with self._lock:
            if not self._over.locked() or not (self.call is None or self.call.wanted):
                return
            self.is_task = True
            keep(self)
            if self.call is not None:
                self.call.identity = None  # the request has its answer
            try:
                self._send(self.request, {"resultType": "task", **self._task_state()})
            except OSError:
                return  # the client is gone, which the reading thread notices

    def tell(self, outcome: Outcome) -> None:
        """Answer the request, or keep the outcome of a task."""
        with self._lock:
            if self.is_task:
                self._take(outcome)
                return
            self._over.release()
        if outcome is not None:
            self._send(self.request, outcome)

    def note(self, message: str) -> None:
        """Keep the progress of the call until it is over."""
        with self._lock:
            if self.status == WORKING:
                self._message, self._updated = message, _moment()

    def state(self) -> dict[str, Any]:
        """Return the current state of the task, with its outcome."""
        with self._lock:
            return {**self._task_state(), **self._facts}

    def cancel(self) -> None:
        """Abandon the call, if it is not over."""
        with self._lock:
            if self.status == WORKING:
                self._become("cancelled", {})
        if self.call is not None and self.status == "cancelled":
            self.call.leave()

    def is_past(self) -> bool:
        """Return whether its outcome is no longer kept."""
        return bool(self._ended) and time.monotonic() - self._ended > KEEP_TASK

    def _take(self, outcome: Outcome) -> None:
        if self.status != WORKING:
            return
        if outcome is None:
            self._become("cancelled", {})
        elif isinstance(outcome, RefusedError):
            error: dict[str, Any] = {"code": outcome.code, "message": outcome.message}
            if outcome.data is not None:
                error["data"] = outcome.data
            self._become("failed", {"error": error}, outcome.message)
        else:
            self._become("completed", {"result": outcome})

    def _become(self, status: str, facts: dict[str, Any], message: str = "") -> None:
        self.status, self._facts, self._message = status, facts, message
        self._updated, self._ended = _moment(), time.monotonic()

    def _task_state(self) -> dict[str, Any]:
        lifetime = int((self._ended - self._begun + KEEP_TASK) * 1000) if self._ended else None
        told = {
            "taskId": self.handle,
            "status": self.status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttlMs": lifetime,
            "pollIntervalMs": POLL_INTERVAL,
        }
        return {**told, "statusMessage": self._message} if self._message else told


class LongCalls:
    """The tasks of one connection; `send` answers a request."""

    __slots__ = ("_send", "_tasks")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._tasks: dict[str, LongCall] = {}

    def begin(self, request: RpcRequest) -> LongCall:
        """Return what answers a call that takes time, at once or as a task."""
        for task in [*self._tasks.values()]:
            if task.is_past():
                del self._tasks[task.handle]
        begun = LongCall(request, self._send)
        _thread.start_new_thread(begun.wait, (self._keep,))
        return begun

    def answer(self, request: RpcRequest) -> dict[str, Any]:
        """Return the answer to a request on a task.

        Raises `RefusedError` for a client that does not declare the extension, and for no task.
        """
        refuse_undeclared(request)
        handle = request.params.get("taskId")
        task = self._tasks.get(handle) if type(handle) is str else None
        if task is None or task.is_past():
            text = f"there is no task {shortened(handle)}"
            raise RefusedError(INVALID_PARAMS, text, "Use the taskId of a running call")
        answers = request.params.get("inputResponses")
        if request.method == "tasks/update" and type(answers) is not dict:
            text = '"inputResponses" must be an object'
            raise RefusedError(
                INVALID_PARAMS, text, "Send an object with each answer under the id of its question"
            )
        if request.method == "tasks/get":
            return task.state()
        if request.method == "tasks/cancel":
            task.cancel()
        return {}  # to an update too: no task waits for anything that a client could tell

    def _keep(self, task: LongCall) -> None:
        self._tasks[task.handle] = task


def refuse_undeclared(request: RpcRequest) -> None:
    """Raise `RefusedError` for the request of a client that does not declare the extension."""
    if not request.takes_tasks:
        needed: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
        text = "Missing required client capability"
        raise RefusedError(MISSING_CAPABILITY, text, {"requiredCapabilities": needed})


def _moment() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


QUESTION_PREFIX = "ralphgen:question-"  # begins the id of each
ANSWER_WITHIN = 600.0  # seconds for the user to answer
NO_ANSWER = {"action": "cancel"}


class OpenQuestions:
    """Questions that have no answer yet.

    `send` writes a line. `again` has a request answered, with the user's answer in its parameters,
    on any thread.
    """

    __slots__ = ("_again", "_closed", "_count", "_open", "_send")

    def __init__(self, send: Callable[[bytes], None], again: Callable[[RpcRequest], None]) -> None:
        self._again = again
        self._closed = False
        self._count = 0
        self._open: dict[str, tuple[RpcRequest, str, Any]] = {}
        self._send = send

    def ask(self, request: RpcRequest, asked: Mapping[str, Any]) -> None:
        """Ask the client one question for a request, in the form of `inputRequests`."""
        ((key, question),) = asked.items()
        self._count += 1
        identity = f"{QUESTION_PREFIX}{self._count}"
        over = _thread.allocate_lock()
        over.acquire()
        self._open[identity] = request, key, over
        if self._closed:
            self._settle(identity, NO_ANSWER)
            return

        def wait() -> None:
            if over.acquire(timeout=ANSWER_WITHIN) or identity not in self._open:
                return
            try:
                self._take_back(identity)
            except OSError:
                return  # the client is gone, which the reading thread notices
            self._settle(identity, NO_ANSWER)

        _thread.start_new_thread(wait, ())
        self._send(encode_line({"jsonrpc": "2.0", "id": identity, **question}))

    def take(self, frame: Mapping[str, Any]) -> None:
        """Take a client's response; if it answers one of the questions, the request continues."""
        identity, answer = frame.get("id"), frame.get("result")
        if type(identity) is str:
            self._settle(identity, answer if type(answer) is dict else NO_ANSWER)

    def leave(self, request: int | str) -> None:
        """Abandon the questions of a request: the client no longer waits for its answer."""
        for identity, (asking, _, over) in [*self._open.items()]:
            is_its = str(asking.identity) == str(request)
            if is_its and self._open.pop(identity, None) is not None:
                over.release()
                self._take_back(identity)

    def close(self) -> None:
        """Leave open and later questions without an answer: the client has left."""
        self._closed = True
        for identity in [*self._open]:
            self._settle(identity, NO_ANSWER)

    def _take_back(self, identity: str) -> None:
        params = {"requestId": identity}
        self._send(
            encode_line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        )

    def _settle(self, identity: str, answer: Mapping[str, Any]) -> None:
        found = self._open.pop(identity, None)
        if found is None:
            return  # too late, or never asked
        request, key, over = found
        over.release()
        said = {**request.params.get("inputResponses", {}), key: answer}
        request.params["inputResponses"] = said
        self._again(request)


LOOK_INTERVAL = 0.25  # seconds between two looks, while a client listens
AFTER_FAILURE = 1.0  # seconds more after a look that failed
MISSING_TEXT = ""  # stands for the text of a missing resource
MOST_STREAMS = 1024
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Subscriptions:
    """The resources of a kit that a client listens to, and the last known state of each.

    They are read in a separate workspace, because a connection never notices its own writes. `send`
    writes a line, and `gone` is called if that fails on one of our threads. Both ways of the
    protocol to listen, one for each version, are served. `folder` is the emitted server's.
    """

    __slots__ = (
        "_gone",
        "_looking",
        "_moved",
        "_name",
        "_resources",
        "_seen",
        "_send",
        "_streams",
        "_telling",
        "_watched",
        "_watching",
        "_workspace",
    )

    def __init__(
        self,
        handlers: Handlers,
        folder: str,
        send: Callable[[bytes], None],
        gone: Callable[[], None],
    ) -> None:
        resources: Any = handlers.kit.import_resources()
        self._gone = gone
        self._looking = _thread.allocate_lock()  # for the workspace and its last known state
        self._moved: object = None
        self._name = handlers.kit.server_name
        self._resources: Resources = resources
        self._seen: dict[str, str] = {}  # by URI, the digest of its text
        self._send = send
        # By the id of a stream, the URIs in it; the URIs of a handshake connection have None.
        self._streams: dict[int | str | None, list[str]] = {None: []}
        self._telling = _thread.allocate_lock()  # for the streams, and for the messages in them
        self._watched: Callable[[], Any] = lambda: resources.watched(folder, handlers.workspace)
        self._watching = False
        self._workspace: Any = None

    def subscribe(self, uri: str) -> dict[str, Any]:
        """Listen to a resource from its current state on; returns the result of the request.

        Raises `RefusedError` if there is no such resource, and `DeferError`.
        """
        self._open(None, [uri], lambda: {uri: self._digest(uri)}, {"uri": uri})
        return {}

    def unsubscribe(self, uri: str) -> dict[str, Any]:
        """Listen to a resource no more; returns the result of the request."""
        with self._telling:
            self._streams[None] = [other for other in self._streams[None] if other != uri]
        return {}

    def listen(self, identity: int | str, notifications: Mapping[str, Any]) -> None:
        """Open a stream of updates of resources; updates of lists never occur.

        `identity` is the request's, which is not answered as long as the stream is open. Raises
        `RefusedError` and `DeferError`.
        """
        if len(self._streams) > MOST_STREAMS:
            raise RefusedError(INTERNAL_ERROR, "Subscription limit reached")
        uris = [*dict.fromkeys(notifications.get("resourceSubscriptions") or ())]
        self._open(identity, uris, lambda: self._digests(uris) if uris else {}, {})

    def leave(self, identity: int | str) -> None:
        """Close the stream of a request; "7" counts as 7, as in the official SDK."""
        with self._telling:
            for stream in [*self._streams]:
                if stream is not None and str(stream) == str(identity):
                    del self._streams[stream]

    def _open(
        self,
        stream: int | str | None,
        uris: list[str],
        look: Callable[[], dict[str, str]],
        params: Mapping[str, Any],
    ) -> None:
        """Listen to resources from how they read now on, in a stream that may be there."""
        if not self._looking.acquire(blocking=False):
            take_time()
            self._looking.acquire()
        try:
            found = guarded(self._name, "updates", lambda _: look())(params)
            with self._telling:
                known = self._required_abilities()
                self._seen.update({uri: found[uri] for uri in uris if uri not in known})
                self._streams[stream] = [*dict.fromkeys((*self._streams.get(stream, ()), *uris))]
                if stream is not None:
                    honoured = {"resourceSubscriptions": uris} if uris else {}
                    self._tell(ACKNOWLEDGED, stream, {"notifications": honoured})
                if not self._watching and uris:
                    self._watching = True
                    _thread.start_new_thread(self._watch, ())
        finally:
            self._looking.release()

    def _watch(self) -> None:
        """Look, as long as a client listens, and announce changes."""
        notices = self._resources.notices(self._workspace)
        try:
            while True:
                if notices is None:
                    time.sleep(LOOK_INTERVAL)
                else:
                    notices.wait(LOOK_INTERVAL)
                with self._telling:
                    self._watching = bool(self._required_abilities())
                    if not self._watching:
                        return
                try:
                    changed = self._changed()
                except RefusedError:  # locked for long, or migrated: fixed by the next look, maybe
                    time.sleep(AFTER_FAILURE)
                    continue
                with self._telling:
                    for stream, uris in self._streams.items():
                        for uri in uris:
                            if uri in changed:
                                self._tell(UPDATED, stream, {"uri": uri})
        except OSError:
            self._gone()
        finally:
            if notices is not None:
                notices.close()

    def _changed(self) -> list[str]:
        """Return the URIs with listeners that read differently since they were last seen."""
        with self._looking:
            with self._telling:
                uris = self._required_abilities()
            found = guarded(self._name, "updates", lambda _: self._look(uris))({})
            changed = [uri for uri, digest in found.items() if self._seen[uri] != digest]
            self._seen.update({uri: found[uri] for uri in changed})
        return changed

    def _required_abilities(self) -> list[str]:
        return [*dict.fromkeys(uri for uris in self._streams.values() for uri in uris)]

    def _tell(self, method: str, stream: int | str | None, params: dict[str, Any]) -> None:
        if stream is not None:
            params["_meta"] = {f"{protocol.PREFIX}subscriptionId": stream}
        self._send(protocol.encode_line({"jsonrpc": "2.0", "method": method, "params": params}))

    def _look(self, uris: Iterable[str]) -> dict[str, str]:
        """Return the digests of the resources, or no digests if nothing was written since."""
        moved = self._resources.moved(self._opened())
        if moved == self._moved:
            return {}
        found = self._digests(uris)
        self._moved = moved
        return found

    def _digests(self, uris: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for uri in uris:
            try:
                found[uri] = self._digest(uri)
            except NotThereError:
                found[uri] = MISSING_TEXT
        return found

    def _digest(self, uri: str) -> str:
        take_time()  # a row may take long
        _, text = settled(self._resources.read(self._opened(), uri))
        return sha256_hex(text.encode())

    def _opened(self) -> Any:
        if self._workspace is None:
            self._workspace = self._watched()
        return self._workspace
