"""Creating, changing, enriching, closing and deleting tasks."""

from __future__ import annotations

from ralphgen.runtime.access.row_scope import OWN
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened

from . import comments
from .changes import Changes, refuse_blank
from .dates import today
from .dependencies import MET, checked, dependents, unblocked, unreadable_dependents
from .feature_knowledge import mentions
from .tables import plain
from .workspace import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace


def existing(workspace: Workspace, task: int, columns: list[str]) -> tuple[Any, ...]:
    """Those columns of a task; raises `ToolError` where there is no such task."""
    row = workspace.database.row(workspace.tables.tasks.select(columns, "WHERE id = ?"), [task])
    if row is None:
        raise ToolError(f"there is no task {shortened(task)}")
    return row


def refuse_unknown_homes(workspace: Workspace, arguments: dict[str, Any]) -> None:
    """Raise `ToolError` for a `feature` or a `discipline` that there is not."""
    workspace.known(workspace.tables.features, arguments["feature"], "feature")
    workspace.known(workspace.tables.disciplines, arguments["discipline"], "discipline")


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
    existing(workspace, task, ["id"])
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
    existing(workspace, task, ["id"])
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
    (old,) = existing(workspace, task, ["status"])
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
    (status,) = existing(workspace, task, ["status"])
    if status != "draft":
        raise ToolError(f"task {task} is {shortened(plain(status))}: only a draft can be enriched")
    refuse_blank(arguments, "pseudocode")
    changes = Changes(workspace, workspace.tables.tasks, arguments, key="id")
    stamps = {"status": "pending", "enriched_at": today(), "updated": today()}
    workspace.tables.tasks.update(workspace.database, "id", task, {**changes.values, **stamps})
    return changes.answer({"id": task, "status": "pending"})


def _needs_reason(workspace: Workspace) -> bool:
    """Whether the session is about this very task, and can say a reason."""
    session, tasks = workspace.session, workspace.tables.tasks
    tie = session.ties("set_task_status").get("id")
    own = tie is not None and tie.reach == OWN
    return own and "blocked_by" in tasks and session.leaves("set_task_status", "reason")


def _same_title(workspace: Workspace, arguments: dict[str, Any]) -> list[str]:
    sql = workspace.tables.tasks.select(
        ["id"], "WHERE feature = ? AND title = ? COLLATE NOCASE ORDER BY id LIMIT 1"
    )
    row = workspace.database.row(sql, [arguments["feature"], arguments["title"]])
    return [f"task {row[0]} of this feature has the same title"] if row else []
