"""Rows that go by a name: what listing, adding, changing and deleting share for all of them."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.paging import PAGE, page

from .changes import Changes, refuse_blank
from .tables import plain, quoted, today

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .tables import Table
    from .workspace import Workspace

# Names sort by their bytes and then by what they are stored as: every name has a place, though
# old tables hold names that are no UTF-8, no text, or nothing.
KEY = "hex(name) || '.' || substr(typeof(name), 1, 1)"
LONG_KEY = 400
PAST = "G"  # stands after every hexadecimal digit, so behind all that begins like a cut key
_CURSOR = rf"[0-9A-F]{{0,{LONG_KEY}}}(?:\.[bint]|\.r|{PAST})"
REQUIRED = ("display_name", "icon")  # texts that must say something


def listed(
    workspace: Workspace,
    table: Table,
    columns: Sequence[str],
    arguments: dict[str, Any],
    key: str,
) -> dict[str, Any]:
    """Return a page of the rows under `key`, in the order of their names."""
    limit = arguments.get("limit", PAGE)
    shown = table.chosen([*columns, *table.added])
    after = _after(arguments)
    names = ", ".join(quoted(column) for column in shown)
    where = f"WHERE {KEY} > ?" if after else ""
    sql = f"SELECT {KEY}, {names} FROM {table.quoted} {where} ORDER BY 1 LIMIT ?"
    rows = workspace.database.rows(sql, [*after, limit + 1])
    total = workspace.database.rows(f"SELECT COUNT(*) FROM {table.quoted}")[0][0]
    records = [table.decoded(shown, row[1:]) for row in rows]
    cursors = [row[0] if len(row[0]) <= LONG_KEY else row[0][:LONG_KEY] + PAST for row in rows]
    return page(key, records, cursors, limit=limit, total=total)


def created(
    workspace: Workspace, table: Table, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Add a named row; answers its name, its acronym and names that are much like it.

    Raises `ToolError` for a name that is taken or malformed, and for an acronym that is taken.
    """
    name = arguments["name"]
    refuse_blank(arguments, *REQUIRED)
    from .names import name_problem, similar

    problem = name_problem(name)
    if problem:
        raise ToolError(problem)
    names = workspace.names(table)
    if name in names:
        raise ToolError(
            f"the {kind} {shortened(name)} exists already: change it, or take another name"
        )
    changes = Changes(workspace, table, arguments)
    answer: dict[str, Any] = {"name": name}
    if "acronym" in table:
        answer["acronym"] = _acronym(workspace, table, arguments)
    table.insert(workspace.database, {"created": today(), **changes.values, **answer})
    near = similar(name, names)
    return changes.answer({**answer, "similar": near} if near else answer)


def updated(
    workspace: Workspace, table: Table, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Change the given fields of a named row; answers the names of those that differ now."""
    name = arguments["name"]
    workspace.known(table, name, kind)
    refuse_blank(arguments, *REQUIRED)
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], name)
    changes = Changes(workspace, table, arguments, key="name")
    return changes.answer({"name": name, "changed": changes.apply("name", name, stamps={})})


def deleted(
    workspace: Workspace, table: Table, name: str, kind: str, still_named_by: Sequence[str]
) -> dict[str, Any]:
    """Delete a named row; raises `ToolError` while a task belongs to it.

    `still_named_by` says in words what goes on naming the row.
    """
    tasks = workspace.tables.tasks
    sql = tasks.select(["id", "title"], f"WHERE {kind} = ? ORDER BY id LIMIT 1")
    row = workspace.database.row(sql, [name])
    if row:
        title = shortened(plain(row[1]))
        raise ToolError(
            f"the {kind} {shortened(name)} cannot be deleted: task {row[0]} {title} belongs to it"
        )
    workspace.database.change(f"DELETE FROM {table.quoted} WHERE name = ?", [name])
    answer: dict[str, Any] = {"deleted": name}
    return {**answer, "still_named_by": still_named_by} if still_named_by else answer


def _after(arguments: dict[str, Any]) -> list[str]:
    """Return the key after which the page begins; none on the first page."""
    cursor = arguments.get("cursor")
    if cursor is None:
        return []
    if not re.fullmatch(_CURSOR, cursor):
        raise ToolError(
            f'the cursor {shortened(cursor)} is none of this list: take "next_cursor" of a page, '
            "or leave it out to begin at the start"
        )
    return [cursor]


def _acronym(workspace: Workspace, table: Table, arguments: dict[str, Any]) -> str:
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], arguments["name"])
        return str(arguments["acronym"])
    taken = {row[0] for row in workspace.database.rows(table.select(["acronym"]))}
    from .names import acronym

    return acronym(arguments["name"], arguments.get("display_name", ""), taken)


def _refuse_taken(workspace: Workspace, table: Table, wanted: str, name: str) -> None:
    sql = table.select(["name"], "WHERE acronym = ? AND name IS NOT ?")
    row = workspace.database.row(sql, [wanted, name])
    if row:
        raise ToolError(
            f'the acronym "{wanted}" belongs to {shortened(plain(row[0]))}: take another, or leave '
            "it out"
        )
