"""Calls of a project's tools: the processes that run them, and the requests of these processes.

A process has no database: it asks the server for rows, queries and checks. It is stopped if a call
takes too long.
"""

from __future__ import annotations

import _thread
import json
import os
import re
import sys
import time

from ..deferred import DeferredResult, settled
from ..errors import ToolError, log, log_exception
from ..processes import Jobs, Latch, NotRunningError, Pipes
from ..processes.secrets import Masker, passed_on
from ..statements import in_child
from ..values import MAX_CHARACTERS, check_arguments, fitted, misfits, nearest, shortened
from .child import LONGEST_LINE, OPTION, TOO_LONG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from queue import SimpleQueue
    from typing import Any

    from ..processes import Job
    from . import OwnFunction


MOST_ROWS = 10_000
_WORDS = {
    "rows": ("SELECT", "VALUES", "WITH", "EXPLAIN"),
    "write": ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"),
}
_FIRST_WORD = r"(?s)(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]*)"
_SQL_PARTS = r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)|\?"


def answer_request(workspace: Any, tool: OwnFunction, asked: dict[str, Any]) -> Any:
    """Return the answer to a tool's request, or a `DeferredResult`.

    Raises `ToolError` if the request is forbidden or unknown.
    """
    what = asked.get("ask")
    if what in _WORDS:
        return run_statement(tool)(workspace, asked)
    if what == "query":
        return _query(workspace, tool, asked)
    if what == "run":
        # Run a check of the project, by a service of the kit that has them.
        name = str(asked.get("check"))
        if tool.reads:
            raise ToolError(
                f'"{tool.name}" is declared read-only, but a check runs commands: ask the user to '
                "declare it as writing"
            )
        run = _service(workspace, "run_check")
        if run is None:
            raise ToolError("the project has no checks")
        return run(workspace, {"check": name})
    raise ToolError(f"a tool cannot ask for {shortened(what)}")


def place_parameters(sql: str, parameters: Mapping[str, object]) -> tuple[str, list[object]]:
    """Return a statement with "?" for each `:name`, and the values in their order.

    Raises `ToolError` for a name that has no value, and for a value that nothing asks for.
    """
    values: list[object] = []
    used: set[str] = set()

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if found[0] == "?":
            raise ToolError('the statement contains "?": use named parameters, such as ":name"')
        if name is None:
            return " " if found[0].startswith(("--", "/*")) else found[0]
        if name not in parameters:
            raise ToolError(f'the statement uses ":{name}", but no such parameter was passed')
        used.add(name)
        values.append(_parameter(parameters[name]))
        return "?"

    text = re.sub(_SQL_PARTS, place, sql)
    if left := sorted({*parameters} - used):
        raise ToolError(f'the statement does not use the parameter ":{left[0]}"')
    return text, values


def _parameter(given: object) -> object:
    if isinstance(given, dict) and [*given] == ["bytes in hex"]:
        return bytes.fromhex(given["bytes in hex"])
    if given is None or isinstance(given, str | int | float):
        return given
    raise ToolError(f"a parameter is {shortened(given)}: expected a string, a number or None")


@in_child
def run_statement(tool: OwnFunction) -> Callable[[Any, dict[str, Any]], Any]:
    """Return a function that runs a statement of a tool."""
    return lambda workspace, asked: _statement(workspace, tool, str(asked["ask"]), asked)


def _statement(workspace: Any, tool: OwnFunction, what: str, asked: dict[str, Any]) -> Any:
    """Run one statement that reads or writes."""
    sql = str(asked.get("sql"))
    first = re.match(_FIRST_WORD, sql)
    if first is None or first[1].upper() not in _WORDS[what]:
        expected = ", ".join(_WORDS[what])
        raise ToolError(f"project.{what} requires one statement of these: {expected}")
    text, values = place_parameters(sql, asked.get("parameters") or {})
    if what == "write":
        return _write_rows(workspace, tool, text, values)
    return _read_rows(workspace, text, values)


def _read_rows(workspace: Any, sql: str, values: list[object]) -> list[dict[str, Any]]:
    statements = workspace.database.statements
    database = statements.reader(workspace, workspace.hidden)

    def work() -> list[dict[str, Any]]:
        workspace.refuse_moved_schema()
        rows = statements.read_records(database, sql, values, MOST_ROWS + 1, workspace.hidden)
        return [{name: _json_value(value) for name, value in row.items()} for row in rows]

    found: list[dict[str, Any]] = _with_tool_name_in_errors(database.reading, work)
    if len(found) > MOST_ROWS:
        raise ToolError(f"there are more than {MOST_ROWS:,} rows: ask for fewer with LIMIT")
    return found


def _write_rows(
    workspace: Any, tool: OwnFunction, sql: str, values: list[object]
) -> dict[str, Any]:
    if tool.reads:
        raise ToolError(
            f'"{tool.name}" is declared read-only: ask the user to declare it as writing'
        )
    database = workspace.database

    def work() -> dict[str, Any]:
        workspace.refuse_moved_schema()
        workspace.tool = tool.name
        write_records = database.statements.write_records
        rows, changed = write_records(database, sql, values, MOST_ROWS, workspace.hidden)
        shown = [{name: _json_value(value) for name, value in row.items()} for row in rows]
        return {"changed": max(changed, 0), "rows": shown}

    by_rules = _service(workspace, "write_by_rules")

    def transaction(write: Callable[[], Any]) -> Any:
        if by_rules is None:
            return database.writing(write)
        return by_rules(workspace, {"write": write})

    done: dict[str, Any] = _with_tool_name_in_errors(transaction, work)
    return done


def _with_tool_name_in_errors(
    transaction: Callable[[Callable[[], Any]], Any], work: Callable[[], Any]
) -> Any:
    """Return the result of a transaction; its refusal quotes an error in the tool's own SQL."""
    told: list[str] = []

    def noting() -> Any:
        try:
            return work()
        except ToolError:
            raise
        except Exception as error:
            told[:] = [str(error).partition("\n")[0]]
            raise

    try:
        return transaction(noting)
    except ToolError as error:
        if told and "doctor" in str(error):  # the error gives no other cause
            raise ToolError(f"the database refuses this statement: {told[0]}") from error
        raise


def _json_value(value: object) -> object:
    """Return a value of a column as JSON can hold it."""
    if value is None or isinstance(value, str | int | float | list | dict):
        return value
    if isinstance(value, bytes | memoryview):
        return {"bytes in hex": bytes(value).hex()}
    return str(value)


def _query(workspace: Any, tool: OwnFunction, asked: dict[str, Any]) -> Any:
    """Return the answer of a named query."""
    name = str(asked.get("name"))
    try:
        tools = __import__(f"{workspace.session.kit}.queries", None, None, ["TOOLS"]).TOOLS
    except ImportError:
        tools = ()
    queries = {one.name: one for one in tools}
    if name not in queries:
        near = nearest(name, queries)
        hint = f': did you mean "{near}"?' if near else ""
        raise ToolError(f"there is no query {shortened(name)}{hint}")
    query = queries[name]
    if tool.reads and not query.hints.get("readOnlyHint"):
        raise ToolError(f'"{tool.name}" is declared read-only, but the query "{name}" writes')
    given = check_arguments(query.input_schema(), asked.get("parameters"))
    return query.function()(workspace, given)


def _service(workspace: Any, name: str) -> Callable[[Any, dict[str, Any]], Any] | None:
    """Return a service of the session's kit, None if it has no such service."""
    found: Callable[[Any, dict[str, Any]], Any] | None
    found = __import__(workspace.session.kit).KIT.import_services().get(name)
    return found


PROCESSES = 4  # calls of a session that run at once; the next ones wait
LONGEST_PRINTED = 2_000  # characters of a line that a tool prints
MOST_PRINTED = 1_000  # lines of a process that are logged
START_WAIT = 20  # seconds for a process to be there
POLL = 0.5  # seconds between two checks for an abandoned call


class Replies:
    """Makes messages of the lines that a process writes, for one thread that waits for them."""

    weight = 0

    def __init__(self) -> None:
        from queue import SimpleQueue

        self._data = bytearray()
        self.lines: SimpleQueue[bytes | None] = SimpleQueue()

    def add(self, data: bytes) -> None:
        """Take the next bytes; too many without an end are the end."""
        self._data += data
        *whole, rest = self._data.split(b"\n")
        for line in whole:
            self.lines.put(bytes(line))
        self._data = bytearray(rest)
        if len(self._data) > LONGEST_LINE:
            self._data = bytearray()
            self.lines.put(None)

    def end(self) -> None:
        """Say that nothing more comes."""
        self.lines.put(None)

    def drop(self) -> None:
        """Keep nothing."""


class PrintedLines:
    """Logs the lines that a tool prints, up to limits."""

    weight = 0

    def __init__(self, kit: str) -> None:

        self._kit = kit
        self._data = b""
        self._lines = 0
        self._masker = Masker()

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, self._data = (self._data + data).split(b"\n")
        for line in whole:
            self._log(line)
        if len(self._data) > LONGEST_PRINTED:
            self._log(self._data)
            self._data = b""

    def end(self) -> None:
        """Log an unfinished last line."""
        if self._data:
            self._log(self._data)
            self._data = b""

    def drop(self) -> None:
        """Keep nothing."""

    def _log(self, line: bytes) -> None:
        self._lines += 1
        if self._lines <= MOST_PRINTED:
            text = self._masker.text(line.decode("utf-8", "replace"))[:LONGEST_PRINTED]
            log("info", self._kit, {"printed by a tool": text})
        elif self._lines == MOST_PRINTED + 1:
            log("warning", self._kit, "a tool prints more than is logged")


class Channel(Pipes):
    """The streams of a process that is asked repeatedly: its input remains open."""

    __slots__ = ("_requests", "replies")

    def __init__(self, kit: str) -> None:
        self.replies = Replies()
        self._requests = -1
        super().__init__(self.replies, PrintedLines(kit))

    def _make(self) -> None:
        super()._make()
        os.close(self.stdin)
        self.stdin, self._requests = os.pipe()

    def send(self, message: dict[str, Any]) -> None:
        """Write a message; raises OSError if the process no longer reads."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._requests, data) :]

    def close(self) -> None:
        """Let the process read its end."""
        requests, self._requests = self._requests, -1
        if requests >= 0:
            os.close(requests)


class Child:
    """A process that runs tools, and its messages in both directions."""

    __slots__ = ("channel", "job")

    def __init__(self, channel: Channel, job: Job) -> None:
        self.channel = channel
        self.job = job

    def next(self, seconds: float | None = None) -> dict[str, Any] | None:
        """Return its next message, None if it has ended or is late."""
        from queue import Empty

        try:
            line = self.channel.replies.lines.get(timeout=seconds)
            message: Any = None if line is None else json.loads(line)
        except (Empty, ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None


class Children:
    """The processes of one session; each runs one call at a time."""

    __slots__ = ("_folder", "_idle", "_jobs", "_kit", "_root", "_slots")

    def __init__(self, workspace: Any) -> None:
        self._folder = workspace.folder
        self._kit = workspace.session.kit
        self._root = workspace.work_tree
        self._jobs = Jobs(most=PROCESSES)
        self._idle: list[Child] = []
        from queue import SimpleQueue

        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(PROCESSES):
            self._slots.put(None)

    def take(self, is_over: Callable[[], bool]) -> Child | None:
        """Return a process for a call, after waiting for its turn; None if `is_over` first.

        Raises `ToolError` if no process can be started.
        """
        from queue import Empty

        while not is_over():
            try:
                self._slots.get(timeout=POLL)
            except Empty:
                continue
            try:
                return self._ready()
            except ToolError:
                self._slots.put(None)
                raise
        return None

    def give_back(self, child: Child, *, whole: bool) -> None:
        """Keep a process for the next call, or end it if it did not answer."""
        try:
            if whole and not child.job.ended.is_open:
                self._idle.append(child)
            else:
                self.stop(child)
        finally:
            self._slots.put(None)

    def stop(self, child: Child) -> None:
        """End a process and everything that it has started."""
        child.channel.replies.end()  # a blocked log keeps its pipes unread
        try:
            self._jobs.stop(child.job, 0)
        except NotRunningError:
            child.job.wait(POLL)
        child.channel.close()
        self._jobs.forget(child.job)

    def close(self) -> None:
        """End all of them."""
        self._jobs.close()

    def _ready(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if not child.job.ended.is_open:
                return child
            self.stop(child)
        channel = Channel(self._kit)
        trusting = [word for word in sys.argv if word == "--trust-edited"]
        program = os.path.join(self._folder, "server.py")
        try:
            job = self._jobs.start(
                [sys.executable, "-I", "-S", program, self._kit, OPTION, *trusting],
                pipes=channel,
                cwd=self._root,
                environment=passed_on(self._folder),
            )
        except OSError as error:
            raise ToolError(f"cannot start a process for it: {error}") from error
        child = Child(channel, job)
        if child.next(START_WAIT) is None:
            self.stop(child)
            raise ToolError("its process does not start; see the server's log")
        return child


STOP_WAIT = 0.5  # seconds for a tool that was stopped to be gone


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
    """One call, on a separate thread, that answers the requests of its process.

    `whole` is true once the process has answered and can take another call.
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
        self._paused = 0.0  # when it began to wait for a check, else 0
        self._answer: Any = None
        self._problem: Exception | None = None
        self._statement: DeferredResult | None = None  # the request of the tool
        self._stopped = ""
        self.whole = False

    @property
    def over(self) -> bool:
        """True if the call was stopped."""
        return bool(self._stopped)

    def run(self) -> None:
        """Call the tool; run this on a separate thread."""
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
        """Wait for the answer and return it; raises `ToolError`, also after a timeout."""
        left = float(self._tool.seconds)
        while not self._done.wait(min(left, POLL)) and left > 0:
            if not self._paused:
                left -= POLL
        if not self._done.is_open:
            seconds = "1 second" if self._tool.seconds == 1 else f"{self._tool.seconds} seconds"
            self._stopped = (
                f'"{self._tool.name}" took longer than {seconds} and was stopped; its earlier '
                "writes remain"
            )
            _thread.start_new_thread(self._stop, ())
            self._done.wait(STOP_WAIT)
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
        """Send the call, answer the requests of the tool, and keep the result."""
        session = self._workspace.session
        number = os.urandom(8).hex()  # marks the messages of this call
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
        self.whole = "failed" not in message  # otherwise its state is unknown
        if "refused" in message:
            raise ToolError(str(message["refused"]))
        if "failed" in message:
            log("error", session.kit, {"tool": self._tool.name, **message})
            raise ToolError(self._failed(str(message["failed"])))
        self._answer = message.get("result")

    def _answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._paused = time.monotonic() if asked.get("ask") == "run" else 0.0
        try:
            found = answer_request(self._workspace, self._tool, asked)
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
        """Return the one line for an agent about an unforeseen failure."""
        return (
            f'"{self._tool.name}" {how}: continue without it and tell the user; '
            "see the server's log"
        )

    def _fitting(self, result: Any) -> Any:
        """Return an answer within the maximum size that still has the declared type."""
        answers = self._tool.answers
        if problems := misfits(answers, result, "result"):
            log("error", self._workspace.session.kit, {"tool": self._tool.name, "wrong": problems})
            raise ToolError(self._failed("returned a value that is not of its declared type"))
        if isinstance(result, dict):
            return fitted(result)
        if isinstance(result, str) and answers.get("type") in (None, "string"):
            # Return a text as an answer holds it, cut if it is too long.
            whole = result.encode("utf-8", "replace").decode()
            if len(whole) <= MAX_CHARACTERS:
                return whole
            return f"{whole[: MAX_CHARACTERS - 100]}…\n(cut: it has {len(whole):,} characters)"
        found = fitted({"result": result})
        if "result" not in found:
            raise ToolError(TOO_LONG.format(self._tool.name))
        return found
