"""Holds what a project's own tools write to the rules of tasks: proof, and claims.

They are held by what the rows are before and after, however a statement, or a trigger, has made
them so.
"""

from __future__ import annotations

from ralphgen.runtime.engine.closing import is_done
from ralphgen.runtime.tasks.rows import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralphgen.runtime.tasks.proof import Look

    from .workspace import Workspace


class _NotLookedError(Exception):
    """A task becomes done, and nobody has looked yet at the files that have to prove it."""


def write_by_rules(workspace: Workspace, arguments: dict[str, Any]) -> Any:
    """Return what `write` does in one transaction, or not at all.

    A task that becomes done has to be proved, as for `set_task_status`, and claims follow. Raises
    `ToolError` where that lacks, and for a task that another session holds.
    """
    write: Callable[[], Any] = arguments["write"]
    look: Look | None = None

    def work() -> Any:
        before = _statuses(workspace)
        done = write()
        _hold(workspace, before, _statuses(workspace), look)
        return done

    try:
        return workspace.database.writing(work)
    except _NotLookedError:  # which takes a while, in which nobody else should wait for the lock
        from .proof import look_at_tree

        look = look_at_tree(workspace)
        return workspace.database.writing(work)


def _hold(
    workspace: Workspace, before: dict[int, str], after: dict[int, str], look: Look | None
) -> None:
    """Raise `ToolError` for the first task whose status may not have become what it is."""
    moved = [task for task in before.keys() | after.keys() if before.get(task) != after.get(task)]
    if not moved:
        return
    claimed = _claimed(workspace)
    for task in sorted(moved):
        new = after.get(task)
        if task in claimed:
            _follow(workspace, task, before.get(task), new)
        if is_done(new) and workspace.looks_at_tree:
            if look is None:
                raise _NotLookedError
            from ralphgen.runtime.tasks.proof import refuse_unproved

            from .proof import advice_of

            refuse_unproved(
                *(workspace.database, workspace.tables, workspace.session),
                *(task, look, advice_of(workspace, task)),
            )


def _follow(workspace: Workspace, task: int, old: str | None, new: str | None) -> None:
    """Let the claim on a task follow what has become of it; raises `ToolError` for another's."""
    from ralphgen.runtime.tasks.claims import follow_status, forget, refuse_claimed

    database, tables, session = workspace.database, workspace.tables, workspace.session
    if old is not None and new is not None:
        follow_status(database, tables, session, task, new, force=False)
    else:
        refuse_claimed(database, tables, session, task)
        forget(database, tables, task)


def _statuses(workspace: Workspace) -> dict[int, str]:
    sql = workspace.tables.tasks.select(["id", "status"])
    return {task: str(plain(status)) for task, status in workspace.database.rows(sql)}


def _claimed(workspace: Workspace) -> set[int]:
    """Return the tasks that anybody has ever held."""
    if not workspace.tables.ledger:
        return set()
    return {task for (task,) in workspace.database.rows("SELECT task_id FROM ralphgen_claims")}
