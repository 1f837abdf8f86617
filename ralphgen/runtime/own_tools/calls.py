"""Calls of a project's own tools: each in a process, which is stopped where it takes too long."""

from __future__ import annotations

import _thread
import os
import time

from ..deferred import DeferredResult, settled
from ..errors import ToolError, log, log_exception
from ..processes import Latch
from ..processes.secrets import Masker
from ..values import MAX_CHARACTERS, fitted, misfits
from .child import TOO_LONG
from .processes import LOOK, Children
from .requests import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .processes import Child
    from .tools import OwnFunction

ENDING = 0.5  # seconds for a tool that was stopped to be gone


def begin(workspace: Any, tool: OwnFunction, arguments: dict[str, Any]) -> DeferredResult:
    """Begin a call, and return what waits for its answer."""
    call = OwnCall(_children(workspace), workspace, tool, arguments)
    _thread.start_new_thread(call.run, ())
    return DeferredResult(call.outcome, call.leave)


def _children(workspace: Any) -> Children:
    """Return the processes of a session, which end with its workspace."""
    found = [one for one in workspace.beside if isinstance(one, Children)]
    if not found:
        found = [Children(workspace)]
        workspace.beside.append(found[0])
    return found[0]


class OwnCall:
    """One call, on a thread of its own, which has the process ask for what it needs.

    `whole` says that the process has answered, and can be asked again.
    """

    __slots__ = (
        "_answer",
        "_arguments",
        "_child",
        "_children",
        "_done",
        "_paused",
        "_problem",
        "_statement",
        "_stopped",
        "_tool",
        "_workspace",
        "whole",
    )

    def __init__(
        self, children: Children, workspace: Any, tool: OwnFunction, arguments: dict[str, Any]
    ) -> None:
        self._children = children
        self._workspace = workspace
        self._tool = tool
        self._arguments = arguments
        self._child: Child | None = None
        self._done = Latch()
        self._paused = 0.0  # when it began to wait for a check, 0 where it does not
        self._answer: Any = None
        self._problem: Exception | None = None
        self._statement: DeferredResult | None = None  # what the tool has asked for
        self._stopped = ""
        self.whole = False

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        return bool(self._stopped)

    def run(self) -> None:
        """Have the tool called; to be run on a thread of its own."""
        try:
            child = self._children.take(lambda: self.over)
            if child is not None:
                self._child = child
                try:
                    if not self.over:  # it may have been stopped while the process started
                        self._converse(child)
                finally:
                    self._child = None  # from here on it is another call's
                    self._children.give_back(child, whole=self.whole and not self.over)
        except ToolError as error:
            self._problem = error
        except Exception:
            log_exception(self._workspace.session.kit, tool=self._tool.name)
            self._problem = ToolError(self._failed("failed"))
        finally:
            self._done.open()

    def outcome(self) -> Any:
        """Wait for the answer and return it; raises `ToolError`, also where it takes too long."""
        left = float(self._tool.seconds)
        while not self._done.wait(min(left, LOOK)) and left > 0:
            if not self._paused:
                left -= LOOK
        if not self._done.is_open:
            seconds = "1 second" if self._tool.seconds == 1 else f"{self._tool.seconds} seconds"
            self._stopped = (
                f'"{self._tool.name}" took longer than {seconds} and was stopped; its earlier '
                "writes remain"
            )
            _thread.start_new_thread(self._stop, ())
            self._done.wait(ENDING)
        if self._stopped:
            raise ToolError(self._stopped)
        if self._problem is not None:
            raise self._problem
        return self._fitting(self._answer)

    def leave(self) -> None:
        """Stop the tool, since its caller is gone."""
        self._stopped = self._stopped or "its caller is gone"
        _thread.start_new_thread(self._stop, ())

    def _stop(self) -> None:
        statement = self._statement
        if statement is not None:
            statement.leave()
        child = self._child
        if child is not None and not self._done.is_open:
            self._children.stop(child)

    def _converse(self, child: Child) -> None:
        """Send the call, answer what the tool asks for, and keep what it comes to."""
        session = self._workspace.session
        number = os.urandom(8).hex()  # what else the process writes is no message of this call
        request = {
            "call": number,
            "tool": self._tool.name,
            "file": self._tool.file,
            "sha256": self._tool.sha256,
            "arguments": self._arguments,
            "root": self._workspace.work_tree,
            "session": {
                "session_id": session.session_id,
                "recipe": session.recipe,
                "discipline": session.discipline,
                "task": session.task,
                "feature": session.feature,
                "target": session.target,
            },
        }
        try:
            child.channel.send(request)
            while (message := child.next()) is not None and message.get("call") == number:
                if "ask" not in message:
                    break
                child.channel.send(self._answered(message))
        except OSError:
            message = None
        message = Masker().value(message)
        if message is None or message.get("call") != number:
            raise ToolError(self._failed("ended its process or wrote an invalid answer"))
        self.whole = "failed" not in message  # else nobody knows in what state it is
        if "refused" in message:
            raise ToolError(str(message["refused"]))
        if "failed" in message:
            log("error", session.kit, {"tool": self._tool.name, **message})
            raise ToolError(self._failed(str(message["failed"])))
        self._answer = message.get("result")

    def _answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._paused = time.monotonic() if asked.get("ask") == "run" else 0.0
        try:
            found = answer(self._workspace, self._tool, asked)
            if isinstance(found, DeferredResult):
                self._statement = found
                if self.over:
                    found.leave()
            return {"answer": settled(found)}
        except ToolError as error:
            return {"refused": str(error)}
        finally:
            self._paused = 0.0
            self._statement = None

    def _failed(self, how: str) -> str:
        """Return the one line that an agent reads of what nobody foresaw."""
        return (
            f'"{self._tool.name}" {how}: continue without it and tell the user; '
            "see the server's log"
        )

    def _fitting(self, result: Any) -> Any:
        """Return an answer as long as one may be, and still what the tool says that it answers."""
        answers = self._tool.answers
        if problems := misfits(answers, result, "result"):
            log("error", self._workspace.session.kit, {"tool": self._tool.name, "wrong": problems})
            raise ToolError(self._failed("returned a value that is not of its declared type"))
        if isinstance(result, dict):
            return fitted(result)
        if isinstance(result, str) and answers.get("type") in (None, "string"):
            return _cut(result)
        found = fitted({"result": result})
        if "result" not in found:
            raise ToolError(TOO_LONG.format(self._tool.name))
        return found


def _cut(text: str) -> str:
    """Return a text as an answer holds it, cut where it is too long."""
    whole = text.encode("utf-8", "replace").decode()
    if len(whole) <= MAX_CHARACTERS:
        return whole
    return f"{whole[: MAX_CHARACTERS - 100]}…\n(cut: it has {len(whole):,} characters)"
