"""Calls of tools in child processes, which are started when needed and kept for later calls."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

from ..deferred import DeferredResult, wait_as
from ..errors import NotThereError, ToolError
from .child import OPTION, made_of
from .processes import ENDING, LEFT, LOOK, StatementProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .processes import StatementProcess
    from .tools import Make

SECONDS = 20  # for a call without a limit of its own
AT_ONCE = 0.05  # seconds in which an answer is waited for before others are served
TURN = 0.3  # seconds after which a call does not wait for the one before it
WAITING = 20.0  # seconds that a call waits for other writers, besides its own limit
STARTING = 20.0  # seconds for a child to be ready
ENDED = "the process that ran this ended: nothing was changed; try again"
LOST = "the process that ran this did not answer: look whether it was done before you try again"
TOO_LONG = (
    "this took longer than {} and was stopped: nothing was changed; ask for less, or have a user "
    "look for a trigger or a view that does not end"
)


def begin(
    workspace: Any, make: Make, about: Any, arguments: dict[str, Any]
) -> dict[str, Any] | DeferredResult:
    """Begin a call of the tool that `make` makes, and return its answer if that comes at once."""
    # Without process groups, a child could not be ended with all that it started.
    if OPTION in sys.argv or not hasattr(os, "killpg"):
        answer: dict[str, Any] = make(about)(workspace, arguments)
        return answer
    call = StatementCall(_children(workspace), make, about, arguments)
    if call.is_answered_at_once():
        return call.outcome()
    return DeferredResult(call.outcome, call.leave, finishes=True)


def _children(workspace: Any) -> StatementProcesses:
    """Return the processes of a session, which end with its workspace."""
    found = [one for one in workspace.beside if isinstance(one, StatementProcesses)]
    if not found:
        found = [StatementProcesses(workspace)]
        workspace.beside.append(found[0])
    return found[0]


class StatementCall:
    """One call, which is answered, refused, left or stopped."""

    __slots__ = (
        "_before",
        "_begun",
        "_child",
        "_children",
        "_is_awaited",
        "_lock",
        "_request",
        "_seconds",
        "_took_too_long",
        "done",
        "is_left",
    )

    def __init__(
        self, children: StatementProcesses, make: Make, about: Any, arguments: dict[str, Any]
    ) -> None:
        from threading import Event

        self._seconds = float(getattr(about, "seconds", SECONDS))
        self._took_too_long = str(getattr(about, "took_too_long", ""))
        self._request = {"make": made_of(make, about), "arguments": arguments}
        self._begun = time.monotonic()
        self._child: StatementProcess | None = None
        self._children = children
        self._is_awaited = False
        self._lock = _thread.allocate_lock()  # held while the child becomes or ends being its own
        self.done = Event()
        self.is_left = False
        self._before, children.latest = children.latest, self

    def left(self) -> float:
        """Return the seconds that are left of its limit if it begins now."""
        return self._begun + self._seconds - time.monotonic()

    def is_answered_at_once(self) -> bool:
        """Begin it if a child is idle; return whether the answer is there in a moment."""
        if self._before is not None and not self._before.done.is_set():
            return False
        child = self._children.idle()
        if child is None:
            return False
        self._send(child)
        return child.is_there(AT_ONCE)

    def outcome(self) -> dict[str, Any]:
        """Wait for the answer and return it; raises `ToolError`."""
        with self._lock:
            if self._is_awaited:
                raise ToolError(LEFT)
            self._is_awaited = True
        try:
            return self._outcome()
        finally:
            self._before = None
            self.done.set()

    def leave(self) -> None:
        """Want no answer any longer: what runs is rolled back."""
        with self._lock:
            self.is_left = True
            if self._child is not None:
                self._child.interrupt()
            is_awaited = self._is_awaited
        if not is_awaited:  # and may never be
            _thread.start_new_thread(self._give_up, ())

    def _give_up(self) -> None:
        """Give the child back."""
        try:
            self.outcome()
        except (RuntimeError, ToolError):
            return

    def _outcome(self) -> dict[str, Any]:
        child = self._child
        if child is None:
            wait_as(None)  # this thread has no turn on the workspace that it could give to others
            if self._before is not None:
                self._before.done.wait(TURN)
                self._begun = time.monotonic()
            child = self._children.take(self)
            self._send(child)
        deadline = time.monotonic() + self._seconds + WAITING + STARTING
        is_there = child.is_there(LOOK)
        while not is_there and not self.is_left and time.monotonic() < deadline:
            is_there = child.is_there(LOOK)
        if self.is_left:
            child.is_there(ENDING)
        answer = child.take()
        with self._lock:
            self._child = None
        keep = answer is not None and "ends" not in answer
        code = self._children.give_back(child, keep=keep)
        if answer is None:
            raise ToolError(self._ended(code) if is_there else LOST)
        if "refused" in answer:
            kind = NotThereError if answer.get("missing") else ToolError
            raise kind(str(answer["refused"]))
        if "failed" in answer:
            raise RuntimeError("a statement failed in its process; see the server's log")
        found: dict[str, Any] = answer["answer"]
        return found

    def _send(self, child: StatementProcess) -> None:
        with self._lock:
            self._child = child
            if self.is_left:
                child.interrupt()
        child.send({**self._request, "seconds": max(self.left(), AT_ONCE)})

    def _ended(self, code: int | None) -> str:
        """Return why the process has ended."""
        if self.is_left:
            return LEFT
        if code == -signal.SIGALRM and self._took_too_long:
            return self._took_too_long
        if code == -signal.SIGALRM:
            seconds = f"{self._seconds:g}"
            return TOO_LONG.format("1 second" if seconds == "1" else f"{seconds} seconds")
        return ENDED
