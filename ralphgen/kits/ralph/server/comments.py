"""The tools on comments: adding, changing and deleting one."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.policy import WITHIN
from ralphgen.runtime.tasks import comments
from ralphgen.runtime.tasks.rows import Changes, refuse_blank
from ralphgen.runtime.values import shortened

from .workspace import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace


@writing
def add_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a comment to a task; answers its id (SPEC-070, category 2)."""
    database, tables, task = workspace.database, workspace.tables, arguments["task_id"]
    workspace.task(task, ["id"])
    _refuse_foreign(workspace, "add_task_comment", task)
    refuse_blank(arguments, "body", "author")
    if tables.comments is not None:
        arguments = Changes(workspace.work_tree, tables.comments, arguments, key="task_id").values
    comment = comments.write(database, tables, workspace.session, task, arguments)
    return {"id": comment, "task_id": task}


@writing
def update_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the text of a comment of a task (SPEC-070, category 2)."""
    database, tables = workspace.database, workspace.tables
    task, comment = arguments["task_id"], arguments["comment_id"]
    comments.refuse_missing(database, tables, task, comment)
    _refuse_foreign(workspace, "update_task_comment", task)
    comments.refuse_other_authors(database, tables, workspace.session, comment)
    refuse_blank(arguments, "body")
    comments.change(database, tables, comment, arguments["body"])
    return {"id": comment, "task_id": task}


@writing
def delete_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a comment of a task (SPEC-070, category 2)."""
    task, comment = arguments["task_id"], arguments["comment_id"]
    comments.refuse_missing(workspace.database, workspace.tables, task, comment)
    _refuse_foreign(workspace, "delete_task_comment", task)
    comments.delete(workspace.database, workspace.tables, comment)
    return {"deleted": comment, "task_id": task}


def _refuse_foreign(workspace: Workspace, tool: str, task: int) -> None:
    """Raise `ToolError` for a task outside the feature that the session is bound to."""
    session = workspace.session
    bound = session.bound_arguments(tool).get("task_id")
    if bound is None or bound.reach != WITHIN or task == bound.value:
        return
    if workspace.task(task, ["feature"]) != (session.feature,):
        raise ToolError(
            f"task {shortened(task)} belongs to another feature: this session can comment only on "
            f"tasks of {shortened(session.feature)}"
        )
