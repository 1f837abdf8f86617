"""Reading tasks: the list, and one task with all that hangs on it."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.paging import PAGE, fitted, page

from . import comments
from .dependencies import LIMIT, MET, UNKNOWN, dependents, found, inferred, met
from .tables import plain
from .task_changes import (
    create_task,
    delete_task,
    enrich_task,
    existing,
    set_task_status,
    update_task,
)
from .workspace import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tables import Table
    from .workspace import Workspace

__all__ = [
    "create_task",
    "delete_task",
    "enrich_task",
    "get_task",
    "list_tasks",
    "set_task_status",
    "update_task",
]

_CURSOR = "-?[0-9]{1,19}"
LISTED = ("id", "title", "status", "priority", "feature", "discipline", "depends_on")


@reading
def list_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """A page of tasks by id; filters by status, feature and discipline (SPEC-070, category 1)."""
    tasks = workspace.tables.tasks
    clauses, values = _filters(workspace, arguments)
    limit = arguments.get("limit", PAGE)
    columns = tasks.chosen([*LISTED, *tasks.added])
    counted = f"SELECT COUNT(*) FROM {tasks.quoted} {_where(clauses)}"
    total = workspace.database.row(counted, values)
    after, more = _after(arguments)
    rows = workspace.database.rows(
        tasks.select(columns, f"{_where([*clauses, *after])} ORDER BY id LIMIT ?"),
        [*values, *more, limit + 1],
    )
    records = [tasks.decoded(columns, row) for row in rows]
    done = met(workspace, [task for record in records for task in record.get("depends_on", [])])
    for record in records:
        _infer(record, done)
    ids = [record["id"] for record in records]
    return page("tasks", records, ids, limit=limit, total=total[0] if total else 0)


@reading
def get_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every field of a task, its dependencies, dependents and newest comments (SPEC-070)."""
    return fitted(described(workspace, arguments["id"], comments.NEWEST))


def described(workspace: Workspace, task: int, most_comments: int) -> dict[str, Any]:
    """A task as it is, nothing cut, inside a transaction that is open.

    Raises `ToolError` where there is no such task.
    """
    tasks = workspace.tables.tasks
    columns = list(tasks.columns)
    record = tasks.decoded(columns, existing(workspace, task, columns))
    needed = record.get("depends_on", [])
    rows = found(workspace, needed, ["title", "status"])
    _infer(record, {other for other, (_, status) in rows.items() if status in MET})
    more = {
        "dependencies": _dependencies(workspace, needed, rows),
        "dependents": [
            {key: row[key] for key in ("id", "title", "status")}
            for row in dependents(workspace, task)
        ],
        **comments.newest(workspace, task, most_comments),
    }
    return {**record, **{key: value for key, value in more.items() if value}}


def _filters(workspace: Workspace, arguments: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """The conditions; raises `ToolError` for a feature or discipline that does not exist."""
    tables = workspace.tables
    for argument, table in (("feature", tables.features), ("discipline", tables.disciplines)):
        if f"filter_{argument}" in arguments:
            _refuse_unused(workspace, table, arguments[f"filter_{argument}"], argument)
    columns = [
        name for name in ("status", "feature", "discipline") if f"filter_{name}" in arguments
    ]
    values = [arguments[f"filter_{name}"] for name in columns]
    return [f"{column} = ?" for column in columns], values


def _refuse_unused(workspace: Workspace, table: Table, name: str, argument: str) -> None:
    """A name without a row may be looked for all the same, where old tasks still bear it."""
    sql = workspace.tables.tasks.select(["id"], f"WHERE {argument} = ? LIMIT 1")
    if workspace.database.row(sql, [name]) is None:
        workspace.known(table, name, argument)


def _after(arguments: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The condition for what comes after the cursor; none on the first page."""
    text = arguments.get("cursor")
    if text is None:
        return [], []
    if not re.fullmatch(_CURSOR, text) or abs(int(text)) >= LIMIT:
        raise ToolError(
            f'the cursor {shortened(text)} is none of this list: take "next_cursor" of a page, or '
            "leave it out to begin at the start"
        )
    return ["id > ?"], [int(text)]


def _where(clauses: list[str]) -> str:
    return f"WHERE {' AND '.join(clauses)}" if clauses else ""


def _infer(record: dict[str, Any], done: set[int]) -> None:
    """Add to a record what its status comes to, where nobody needs to wait for the tasks `done`."""
    status = record.get("status", "")
    waits = not done.issuperset(record.get("depends_on", []))
    known = status != "pending" or "depends_on" not in record.get("unreadable", {})
    record["inferred"] = inferred(status, waits=waits) if known else UNKNOWN


def _dependencies(
    workspace: Workspace, ids: list[int], rows: dict[int, Any]
) -> list[dict[str, Any]]:
    """Each prerequisite with title, status and last comment; one that is not in `rows` is gone."""
    last = comments.last(workspace, list(rows))
    described: list[dict[str, Any]] = []
    for task in ids:
        if task not in rows:
            described.append({"id": task, "missing": True})
            continue
        title, status = (plain(value) for value in rows[task])
        described.append({"id": task, "title": title, "status": status, **last.get(task, {})})
    return described
