"""A task that moves to a status: what has to hold for that, and what follows."""

from __future__ import annotations

from ralphgen.runtime.engine.closing import is_done
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.tasks.claims import other_claim
from ralphgen.runtime.tasks.rows import plain, refuse_blank
from ralphgen.runtime.tasks.status import move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.tasks.proof import Look

    from .workspace import Workspace


def moved(workspace: Workspace, arguments: dict[str, Any], look: Look | None) -> dict[str, Any]:
    """Move a task to a status, inside a transaction, and return the answer of the tool.

    `look` is the tree that has to be proved, None where nothing has to be. Raises `ToolError` where
    something lacks.
    """
    task, new = arguments["id"], arguments["status"]
    (old,) = workspace.task(task, ["status"])
    refuse_wrong_words(arguments)
    if new == "blocked":
        reason, answer = _said_of_block(workspace, arguments)
        if answer:
            return {"id": task, "old": plain(old), "new": plain(old), **answer}
        arguments = {**arguments, **reason}
    advice = ""
    if look is not None:
        from .proof import advice_of

        advice = advice_of(workspace, task)
    return move(
        *(workspace.database, workspace.tables, workspace.session, task, new),
        force=lambda: _force(workspace, arguments),
        reason=arguments.get("reason"),
        summary=arguments.get("summary"),
        look=look,
        advice=advice,
        because=arguments.get("because"),
    )


def refuse_wrong_words(arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for words that the new status has no use for, or that are blank."""
    new = arguments["status"]
    if "reason" in arguments and new != "blocked":
        raise ToolError('"reason" is only for the status "blocked"')
    if "because" in arguments and not is_done(new):
        raise ToolError('"because" is only for the status "done"')
    refuse_blank(arguments, "reason", "summary", "because")


def _said_of_block(
    workspace: Workspace, arguments: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a reason for a task to be blocked, where a person gives what lacks, and their answer.

    Where there is an answer to the question in the reason, the task need not be blocked; nobody is
    asked it of a task that another session holds, where the claim comes first: a client tells the
    answer to the last question alone. Raises `ToolError` where the session has to give a reason,
    and nobody does.
    """
    task, reason = arguments["id"], arguments.get("reason", "")
    if reason.rstrip().endswith("?") and _is_free(workspace, task):
        from .people import answer_to

        return {}, answer_to(workspace, task, reason)
    takes_reason = workspace.tables.takes_reason
    if takes_reason and not reason and workspace.session.leaves("set_task_status", "reason"):
        from .people import asked_reason

        refusal = '"blocked" needs a "reason": state what keeps this task from being done'
        return {"reason": asked_reason(workspace, task, refusal)}, {}
    return {}, {}


def _force(workspace: Workspace, arguments: Mapping[str, Any]) -> bool:
    """Return whether the claim of another session may be ended: a person's session says so."""
    force = bool(arguments.get("force", False))
    if workspace.session.profile != FULL or not workspace.tables.ledger:
        return force
    from .people import may_force

    return may_force(workspace, arguments["id"], force=force)


def _is_free(workspace: Workspace, task: int) -> bool:
    claim = other_claim(workspace.database, workspace.tables, workspace.session, task)
    return claim is None
