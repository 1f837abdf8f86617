"""The tools on tasks: listing, reading, creating, changing, closing and deleting them."""

from __future__ import annotations

import re

from ralphgen.runtime.access.row_scope import OWN
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.paging import PAGE, fitted, page

from . import comments
from .changes import Changes, refuse_blank
from .dependencies import (
    LIMIT,
    MET,
    UNKNOWN,
    checked,
    dependents,
    found,
    inferred,
    met,
    unblocked,
    unreadable_dependents,
)
from .features import mentions
from .tables import plain, today
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tables import Table
    from .workspace import Workspace

_CURSOR = "-?[0-9]{1,19}"
LISTED = ("id", "title", "status", "priority", "feature", "discipline", "depends_on")


@reading
def list_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of tasks by id, filtered by status, feature and discipline (SPEC-070)."""
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
    """Return every field of a task, its dependencies, dependents and newest comments (SPEC-070)."""
    return fitted(described(workspace, arguments["id"], comments.NEWEST))


@writing
def create_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a task, a draft unless said otherwise; answers its id (SPEC-070, category 1)."""
    tables, tasks = workspace.tables, workspace.tables.tasks
    refuse_blank(arguments, "title")
    refuse_unknown_homes(workspace, arguments)
    changes = Changes(workspace, tasks, arguments)
    (highest,) = workspace.database.rows(f"SELECT COALESCE(MAX(id), 0) FROM {tasks.quoted}")[0]
    task = highest + 1
    if "depends_on" in arguments:
        needed = checked(workspace, task, arguments["depends_on"])
        changes.values["depends_on"] = tasks.stored("depends_on", needed)
    same_title = _same_title(workspace, arguments)
    stamps = {"id": task, "created": today(), "provenance": "agent"}
    values = {"status": tables.first_status, **changes.values, **stamps}
    tasks.insert(workspace.database, values)
    answer: dict[str, Any] = {"id": task, "status": values["status"]}
    warnings = [*changes.warnings, *same_title]
    return {**answer, "warnings": warnings} if warnings else answer


@writing
def update_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a task and no other; answers their names (SPEC-070)."""
    task = arguments["id"]
    _existing(workspace, task, ["id"])
    refuse_blank(arguments, "title")
    changes = Changes(workspace, workspace.tables.tasks, arguments, key="id")
    if "depends_on" in arguments:
        needed = checked(workspace, task, arguments["depends_on"])
        changes.values["depends_on"] = workspace.tables.tasks.stored("depends_on", needed)
    changed = changes.apply("id", task, stamps={"updated": today()})
    return changes.answer({"id": task, "changed": changed})


@writing
def delete_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a task that no other waits for; names what still mentions it (SPEC-070)."""
    task = arguments["id"]
    _existing(workspace, task, ["id"])
    waiting = dependents(workspace, task)
    if waiting:
        other, title = waiting[0]["id"], shortened(waiting[0]["title"])
        raise ToolError(
            f"task {task} cannot be deleted: task {other} {title} depends on it; take {task} out "
            'of its "depends_on" first'
        )
    unclear = unreadable_dependents(workspace, task)
    if unclear:
        raise ToolError(
            f'task {task} cannot be deleted: the "depends_on" of task {unclear[0]} cannot be read '
            "and may name it; set it anew first"
        )
    dangling = [*comments.written_for(workspace, task), *mentions(workspace, task)]
    tasks = workspace.tables.tasks
    comments.delete_all(workspace, task)  # ids come back: the next task must not inherit them
    workspace.database.change(f"DELETE FROM {tasks.quoted} WHERE id = ?", [task])
    answer: dict[str, Any] = {"deleted": task}
    return {**answer, "still_named_by": dangling} if dangling else answer


@writing
def set_task_status(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Move a task to a status; `reason` says why it is blocked, `summary` becomes a comment.

    Answers the old and the new status and the tasks that wait for nothing any more (SPEC-070).
    """
    task, new = arguments["id"], arguments["status"]
    (old,) = _existing(workspace, task, ["status"])
    if "reason" in arguments and new != "blocked":
        raise ToolError('"reason" tells why a task is blocked: leave it out for any other status')
    if new == "blocked" and "reason" not in arguments and _needs_reason(workspace):
        raise ToolError('"blocked" needs a "reason": say what keeps this task from being done')
    refuse_blank(arguments, "reason", "summary")
    values: dict[str, Any] = {"status": new, "updated": today()}
    values["completed"] = today() if new == "done" else None
    if "reason" in arguments or (old == "blocked" and new != "blocked"):
        values["blocked_by"] = arguments.get("reason")
    if new == old == "done":
        del values["completed"]
    workspace.tables.tasks.update(workspace.database, "id", task, values)
    answer: dict[str, Any] = {"id": task, "old": plain(old), "new": new}
    if "summary" in arguments:
        answer["comment"] = comments.write(workspace, task, {"body": arguments["summary"]})
    if new in MET and old not in MET:
        answer["unblocked"] = unblocked(workspace, task)
    return answer


@writing
def enrich_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Give a draft its pseudocode and make it pending; lists left out are kept (SPEC-070)."""
    task = arguments["id"]
    (status,) = _existing(workspace, task, ["status"])
    if status != "draft":
        raise ToolError(f"task {task} is {shortened(plain(status))}: only a draft can be enriched")
    refuse_blank(arguments, "pseudocode")
    changes = Changes(workspace, workspace.tables.tasks, arguments, key="id")
    stamps = {"status": "pending", "enriched_at": today(), "updated": today()}
    workspace.tables.tasks.update(workspace.database, "id", task, {**changes.values, **stamps})
    return changes.answer({"id": task, "status": "pending"})


def described(workspace: Workspace, task: int, most_comments: int) -> dict[str, Any]:
    """Return a task as it is, nothing cut, inside a transaction that is open.

    Raises `ToolError` where there is no such task.
    """
    tasks = workspace.tables.tasks
    columns = list(tasks.columns)
    record = tasks.decoded(columns, _existing(workspace, task, columns))
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


def refuse_unknown_homes(workspace: Workspace, arguments: dict[str, Any]) -> None:
    """Raise `ToolError` for a `feature` or a `discipline` that there is not."""
    workspace.known(workspace.tables.features, arguments["feature"], "feature")
    workspace.known(workspace.tables.disciplines, arguments["discipline"], "discipline")


def _existing(workspace: Workspace, task: int, columns: list[str]) -> tuple[Any, ...]:
    """Return these columns of a task; raises `ToolError` where there is no such task."""
    row = workspace.database.row(workspace.tables.tasks.select(columns, "WHERE id = ?"), [task])
    if row is None:
        raise ToolError(f"there is no task {shortened(task)}")
    return row


def _filters(workspace: Workspace, arguments: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the conditions; raises `ToolError` for a feature or discipline that does not exist."""
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
    """Raise `ToolError` for a name without a row, unless old tasks still bear it."""
    sql = workspace.tables.tasks.select(["id"], f"WHERE {argument} = ? LIMIT 1")
    if workspace.database.row(sql, [name]) is None:
        workspace.known(table, name, argument)


def _after(arguments: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Return the condition for what comes after the cursor; none on the first page."""
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
    """Return each prerequisite with title, status and last comment, or as missing."""
    last = comments.last(workspace, list(rows))
    described: list[dict[str, Any]] = []
    for task in ids:
        if task not in rows:
            described.append({"id": task, "missing": True})
            continue
        title, status = (plain(value) for value in rows[task])
        described.append({"id": task, "title": title, "status": status, **last.get(task, {})})
    return described


def _needs_reason(workspace: Workspace) -> bool:
    """Return whether the session is about this very task, and can say a reason."""
    session, tasks = workspace.session, workspace.tables.tasks
    bound = session.bound_arguments("set_task_status").get("id")
    own = bound is not None and bound.reach == OWN
    return own and "blocked_by" in tasks and session.leaves("set_task_status", "reason")


def _same_title(workspace: Workspace, arguments: dict[str, Any]) -> list[str]:
    sql = workspace.tables.tasks.select(
        ["id"], "WHERE feature = ? AND title = ? COLLATE NOCASE ORDER BY id LIMIT 1"
    )
    row = workspace.database.row(sql, [arguments["feature"], arguments["title"]])
    return [f"task {row[0]} of this feature has the same title"] if row else []
