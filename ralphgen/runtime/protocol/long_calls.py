"""Calls that take long, as the tasks extension of the protocol has them.

A client of the stateless version that declares the extension gets a handle for a call that is not
over in a moment, and asks after it: `tasks/get`, `tasks/update`, `tasks/cancel`, as
https://github.com/modelcontextprotocol/ext-tasks has them (SEP-2663). What runs is this process's
own, and so are the handles.
"""

from __future__ import annotations

import _thread
import time

from ..errors import INVALID_PARAMS, RefusedError
from ..system import os
from ..values import shortened
from .messages import TASKS_EXTENSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .requests import RpcRequest
    from .worker import Call, Outcome

    Send = Callable[[RpcRequest, dict[str, Any] | RefusedError], None]

MISSING = -32021  # the client did not declare what the request needs
PATIENCE = 2.0  # seconds in which a call may be over before it becomes a task
KEPT = 3_600.0  # seconds for which the outcome of one is there
POLL = 1_000  # milliseconds between two looks
WORKING = "working"  # until it is completed, failed or cancelled


class LongCall:
    """One call that may become a task: it is answered at once where it is over soon enough."""

    __slots__ = (
        *("_begun", "_created", "_ended", "_facts", "_lock", "_message", "_over", "_send"),
        *("_updated", "call", "handle", "is_task", "request", "status"),
    )

    def __init__(self, request: RpcRequest, send: Send) -> None:
        self._begun = time.monotonic()
        self._created = self._updated = _moment()
        self._ended = 0.0
        self._facts: dict[str, Any] = {}  # what the status brings along
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
        """Become a task, which is kept then, where the call is not over in a moment.

        A call that nobody wants any longer becomes none: its request gets no answer.
        """
        if self._over.acquire(timeout=PATIENCE):
            return
        with self._lock:
            if not self._over.locked() or not self._is_wanted():
                return
            self.is_task = True
            keep(self)
            if self.call is not None:
                self.call.identity = None  # the request has its answer
            try:
                self._send(self.request, {"resultType": "task", **self._told()})
            except OSError:
                return  # the client is gone, and whoever reads knows

    def tell(self, outcome: Outcome) -> None:
        """Answer the request, or keep the outcome for whoever asks after it."""
        with self._lock:
            if self.is_task:
                self._take(outcome)
                return
            self._over.release()
        if outcome is not None:
            self._send(self.request, outcome)

    def note(self, message: str) -> None:
        """Keep how far it is, as long as it is not over."""
        with self._lock:
            if self.status == WORKING:
                self._message, self._updated = message, _moment()

    def seen(self) -> dict[str, Any]:
        """Return the task as it stands, with what came of it."""
        with self._lock:
            return {**self._told(), **self._facts}

    def cancel(self) -> None:
        """Want nothing of it any longer, where it is not over."""
        with self._lock:
            if self.status == WORKING:
                self._become("cancelled", {})
        if self.call is not None and self.status == "cancelled":
            self.call.leave()

    def is_past(self) -> bool:
        """Return whether what came of it is not kept any longer."""
        return bool(self._ended) and time.monotonic() - self._ended > KEPT

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

    def _is_wanted(self) -> bool:
        return self.call is None or self.call.wanted

    def _told(self) -> dict[str, Any]:
        lifetime = int((self._ended - self._begun + KEPT) * 1000) if self._ended else None
        told = {
            "taskId": self.handle,
            "status": self.status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttlMs": lifetime,
            "pollIntervalMs": POLL,
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
            return task.seen()
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
        raise RefusedError(MISSING, text, {"requiredCapabilities": needed})


def _moment() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
