"""Reading tasks: the list, and one task with all that hangs on it."""

from __future__ import annotations

from ..errors import ToolError
from ..results import PAGE, fitted, page
from . import comments
from .dependencies import dependents, found, inferred, met
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

LISTED = ("id", "title", "status", "priority", "feature", "discipline", "depends_on")


@reading
def list_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """A page of tasks by id; filters by status, feature and discipline (SPEC-070, category 1)."""
    tasks = workspace.tables.tasks
    where, values = _filters(workspace, arguments)
    limit = arguments.get("limit", PAGE)
    columns = tasks.chosen([*LISTED, *tasks.added])
    total = workspace.database.row(f"SELECT COUNT(*) FROM {tasks.quoted} {where}", values)
    rows = workspace.database.rows(
        tasks.select(columns, f"{where} {'AND' if where else 'WHERE'} id > ? ORDER BY id LIMIT ?"),
        [*values, _cursor(arguments), limit + 1],
    )
    records = [tasks.decoded(columns, row) for row in rows]
    _infer(workspace, records)
    ids = [record["id"] for record in records]
    return page("tasks", records, ids, limit=limit, total=total[0] if total else 0)


@reading
def get_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every field of a task, its dependencies, dependents and newest comments (SPEC-070)."""
    task = arguments["id"]
    tasks = workspace.tables.tasks
    columns = list(tasks.columns)
    record = tasks.decoded(columns, existing(workspace, task, columns))
    _infer(workspace, [record])
    more = {
        "dependencies": _dependencies(workspace, record.get("depends_on", [])),
        "dependents": [
            {key: row[key] for key in ("id", "title", "status")}
            for row in dependents(workspace, task)
        ],
        **comments.newest(workspace, task),
    }
    return fitted({**record, **{key: value for key, value in more.items() if value}})


def _filters(workspace: Workspace, arguments: dict[str, Any]) -> tuple[str, list[Any]]:
    """The WHERE clause; raises `ToolError` for a feature or discipline that does not exist."""
    tables = workspace.tables
    for argument, table in (("feature", tables.features), ("discipline", tables.disciplines)):
        if f"filter_{argument}" in arguments:
            workspace.known(table, arguments[f"filter_{argument}"], argument)
    columns = [
        column for column in ("status", "feature", "discipline") if f"filter_{column}" in arguments
    ]
    clauses = " AND ".join(f"{column} = ?" for column in columns)
    values = [arguments[f"filter_{column}"] for column in columns]
    return (f"WHERE {clauses}" if clauses else "", values)


def _cursor(arguments: dict[str, Any]) -> int:
    text = arguments.get("cursor", "0")
    if not text.isascii() or not text.isdigit():
        raise ToolError(f'"cursor" is "{text}": give the "next_cursor" of the page before')
    return min(int(text), 2**63 - 1)


def _infer(workspace: Workspace, records: list[dict[str, Any]]) -> None:
    """Add to each record what its status comes to, with one statement for all prerequisites."""
    needed = [task for record in records for task in record.get("depends_on", [])]
    done = met(workspace, needed)
    for record in records:
        waits = not done.issuperset(record.get("depends_on", []))
        record["inferred"] = inferred(record["status"], waits=waits)


def _dependencies(workspace: Workspace, ids: list[int]) -> list[dict[str, Any]]:
    """Each prerequisite with title, status and last comment; one that is gone is marked."""
    rows = found(workspace, ids, ["title", "status"])
    last = comments.last(workspace, list(rows))
    described: list[dict[str, Any]] = []
    for task in ids:
        if task not in rows:
            described.append({"id": task, "missing": True})
            continue
        title, status = rows[task]
        described.append({"id": task, "title": title, "status": status, **last.get(task, {})})
    return described
