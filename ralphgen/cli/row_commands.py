"""What the commands on tasks, features and disciplines share: asking the server of the rows."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.calls.caller import open_server
from ralphgen.calls.rows import KIT, Record, RowTools
from ralphgen.project.root import project_place
from ralphgen.terminal.console import print_json, say

PAGE = 200  # rows of a page, the most that a tool gives
Clear = Annotated[
    list[str] | None, typer.Option("--clear", metavar="FIELD", help="Empty a field; repeatable.")
]


@contextmanager
def row_tools(project: Path, tool: str, *, trust_edited: bool = False) -> Iterator[RowTools]:
    """The tools of the project around a folder; raises `UsageError` where it has no such `tool`."""
    place = project_place(project)
    with open_server(place, KIT, tool, None, trust_edited=trust_edited, say=say) as server:
        yield RowTools(server)


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
