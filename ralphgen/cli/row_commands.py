"""What the commands on tasks, features and disciplines share: asking the server of the rows."""

import getpass
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ralphgen.calls.caller import open_server
from ralphgen.calls.connection import ServerConnection
from ralphgen.errors import Problem, RalphgenError
from ralphgen.project.root import project_place
from ralphgen.terminal.console import print_json, say

KIT = "ralph"
MISSING = re.compile(r'argument "([a-z_]+)" is missing')
PAGE = 200  # rows of a page, the most that a tool gives
Record = dict[str, Any]
Clear = Annotated[
    list[str] | None, typer.Option("--clear", metavar="FIELD", help="Empty a field; repeatable.")
]


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

    def properties(self, tool: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the arguments of a tool, with their schemas; none where it is not there."""
        listed = {one["name"]: one["inputSchema"]["properties"] for one in self._server.tools()}
        found: Mapping[str, Mapping[str, Any]] = listed.get(tool, {})
        return found

    def pages(self, tool: str, **arguments: object) -> Iterator[Record]:
        """Yield the answers of a tool that lists, page by page."""
        answer = self.ask(tool, **arguments)
        yield answer
        while "next_cursor" in answer:
            answer = self.ask(tool, **arguments, cursor=answer["next_cursor"])
            yield answer


@contextmanager
def row_tools(project: Path, tool: str, *, trust_edited: bool = False) -> Iterator[RowTools]:
    """The tools of the project around a folder; raises `UsageError` where it has no such `tool`."""
    place = project_place(project)
    with open_server(place, KIT, tool, None, trust_edited=trust_edited, say=say) as server:
        yield RowTools(server)


def refusal(text: str) -> RalphgenError:
    """Return the error for a refusal, line by line, with the command that lists what there is."""
    return RefusalError.of(
        [Problem(line, _hint(line)) for line in text.splitlines() or ["refused"]]
    )


def _hint(line: str) -> str:
    if missing := MISSING.match(line):
        name = missing[1]
        listing = (
            f'; "ralphgen {name} list" lists them' if name in ("feature", "discipline") else ""
        )
        return f'give it with "--{name.replace("_", "-")}"{listing}'
    kinds = [kind for kind in ("task", "feature", "discipline") if f"there is no {kind} " in line]
    return f'"ralphgen {kinds[0]} list" lists them' if kinds else ""


def listed(tools: RowTools, tool: str, rows: str, limit: int, **arguments: object) -> Record:
    """Return the first rows of a list as one answer of its tool, `limit` at most."""
    whole: Record = {rows: []}
    for answer in tools.pages(tool, limit=min(limit, PAGE), **arguments):
        kept = [*whole[rows], *answer[rows]]
        names = whole.get("display_names", {})
        for column, called in answer.get("display_names", {}).items():
            names = {**names, column: {**names.get(column, {}), **called}}
        whole = {**answer, rows: kept, **({"display_names": names} if names else {})}
        if len(kept) >= limit:
            break
    if len(whole[rows]) > limit:  # the last page went beyond it, and so does its cursor
        whole.pop("next_cursor", None)
        whole[rows] = whole[rows][:limit]
    return whole


def show_change(answer: Record, words: str, *, as_json: bool) -> None:
    """Print what a tool that writes has answered: for programs as it is, else in words."""
    if as_json:
        print_json(answer)
        return
    for warning in answer.get("warnings", ()):
        say(f"warning: {warning}")
    print(words)


def show_list(project: Path, rows: str, limit: int, *, trust_edited: bool, as_json: bool) -> None:
    """Print the first features or disciplines, as `rows` says."""
    tool = f"list_{rows}"
    with row_tools(project, tool, trust_edited=trust_edited) as tools:
        answer = listed(tools, tool, rows, limit)
    if as_json:
        print_json(answer)
        return
    from ralphgen.cli.row_tables import NAMED_COLUMNS, show_rows

    if not answer[rows]:
        say(f"there are no {rows} yet")
        return
    show_rows(answer[rows], NAMED_COLUMNS)
    left = answer["total"] - len(answer[rows])
    if left:
        say(f"and {left:,} more: see them with --limit {answer['total']}")


def show_row(project: Path, kind: str, name: str, *, trust_edited: bool, as_json: bool) -> None:
    """Print all of a feature or a discipline."""
    tool = f"get_{kind}"
    with row_tools(project, tool, trust_edited=trust_edited) as tools:
        record = tools.ask(tool, name=name)
    if as_json:
        print_json(record)
        return
    from ralphgen.cli.row_tables import show_record

    show_record({key: one for key, one in record.items() if key != "name"}, f"{kind} {name}")


def titled(tools: RowTools, text: str, limit: int, filters: Mapping[str, object]) -> Record:
    """Return the tasks in whose titles a text stands, in whatever case, as an answer."""
    found = [
        task
        for answer in tools.pages("list_tasks", limit=200, **filters)
        for task in answer["tasks"]
        if text.casefold() in str(task.get("title", "")).casefold()
    ]
    return {"tasks": found[:limit], "total": len(found)}


def login_name() -> str:
    """Return the name of the user, as the system knows it."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "human"
