"""The tools on the project's rows, asked as a person: commands and the board do it by the same."""

import getpass
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ralphgen.calls.connection import ServerConnection
from ralphgen.errors import Problem, RalphgenError, UsageError
from ralphgen.runtime.processes.launched import launched_session

COLUMN = re.compile(r'column "(.+)"')
MISSING = re.compile(r'argument "([a-z_]+)" is missing')
UNPROVED = re.compile(r"task (\d+) is not done: ")
CALL = re.compile(
    r": (?:call run_checks(?: with task \d+)?, then set it to done|ask the user to run .*)$"
)
Record = dict[str, Any]
Properties = Mapping[str, Mapping[str, Any]]
"""The arguments of a tool, with their schemas."""


class RefusalError(RalphgenError):
    """A tool refuses what was asked of it (exit code 1)."""


class RowTools:
    """The tools on the project's rows, as a person or the session that this shell belongs to."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    def ask(self, tool: str, **arguments: object) -> Record:
        """Return a tool's answer; raise `RefusalError` for a refusal."""
        answer = self._server.call(tool, arguments)
        if answer.refused:
            raise refusal(answer.text)
        found: Record = json.loads(answer.text)
        return found

    def tools(self) -> Mapping[str, Record]:
        """Return the input schema of each tool, by its name."""
        return {one["name"]: one["inputSchema"] for one in self._server.tools()}

    def properties(self, tool: str) -> Properties:
        """Return the arguments of a tool, with their schemas; none where it is not there."""
        found: Properties = self.tools().get(tool, {}).get("properties", {})
        return found

    def pages(self, tool: str, **arguments: object) -> Iterator[Record]:
        """Yield the answers of a tool that lists, page by page."""
        answer = self.ask(tool, **arguments)
        yield answer
        while "next_cursor" in answer:
            answer = self.ask(tool, **arguments, cursor=answer["next_cursor"])
            yield answer

    def set_status(
        self, task: int, new: str, words: Mapping[str, str], *, force: bool = False
    ) -> Record:
        """Set a task's status; return the tool's answer.

        `words` are its `reason`, `summary` and `because`, those that are said. A claim is ended by
        `force`, and with `because` a task is done without proof. Raises `UsageError` where one of
        them lacks the other, and `RefusalError` for a refusal.
        """
        said: dict[str, object] = {name: text for name, text in words.items() if text}
        because = "because" in said
        if because and not force:
            raise UsageError('"--because" requires "--force"', "pass both, or neither")
        known = self.properties("set_task_status") if force else {}
        if because and "because" not in known:
            text = "no checks are configured, so closing a task needs no reason"
            raise UsageError(text, "leave out --force and --because")
        if because and "summary" in known:
            said.setdefault("summary", "Closed by the user.")  # whose reason the server adds
        if force and not because and "force" not in known:
            raise UsageError('"--force" requires "--because" here', "pass both, or neither")
        if "force" in known:
            said["force"] = True
        return self.ask("set_task_status", id=task, status=new, **said)

    def comment(self, task: int, body: str, *, author: str = "", priority: str = "") -> Record:
        """Add a comment to a task, by the user of the system where no author is named."""
        given: Record = {"task_id": task, "body": body}
        if author or "author" in self.properties("add_task_comment"):
            given["author"] = author or login_name()
        if priority:
            given["priority"] = priority
        return self.ask("add_task_comment", **given)


def stored_column(name: str, rule: Mapping[str, Any]) -> str:
    """Return the column that an argument sets, by its schema: its own name may be no legal one."""
    found = COLUMN.fullmatch(str(rule.get("description", "")))
    return found[1] if found else name


def refusal(text: str) -> RalphgenError:
    """Return the error for a refusal, line by line, with the command that lists what there is."""
    lines = text.splitlines() or ["refused"]
    return RefusalError.of([Problem(CALL.sub("", line), _hint(line)) for line in lines])


def _hint(line: str) -> str:
    if unproved := UNPROVED.match(line):
        check = f'run "ralphgen task check {unproved[1]}"; ' if CALL.search(line) else ""
        force = "" if launched_session() else "to close it anyway: --force --because REASON"
        return f"{check}{force}".removesuffix("; ")
    if missing := MISSING.match(line):
        name = missing[1]
        listing = (
            f'; "ralphgen {name} list" lists them' if name in ("feature", "discipline") else ""
        )
        return f'give it with "--{name.replace("_", "-")}"{listing}'
    kinds = [kind for kind in ("task", "feature", "discipline") if f"there is no {kind} " in line]
    if kinds and line.endswith(": there is none yet"):
        return f'add one with "ralphgen {kinds[0]} add"'
    return f'"ralphgen {kinds[0]} list" lists them' if kinds else ""


def login_name() -> str:
    """Return the name of the user, as the system knows it."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "human"
