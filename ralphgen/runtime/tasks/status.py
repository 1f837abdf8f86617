"""Writes the status of a task; no other code does.

A task becomes done only here, by a caller that has found it proved or has the user's reason: every
other write that sets a task to done is refused, whatever statement, trigger or key makes it.
"""

from __future__ import annotations

from ..engine.closing import DONE, MET, SKIPPED, is_done
from ..errors import ToolError
from ..system import is_below_launch
from .claims import dependents, follow_status, forget, unblocked
from .comments import delete_all, write
from .rows import plain, today
from .tables import task_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..engine import Database
    from ..engine.closing import Moved
    from .proof import Look
    from .tables import Actor, StoredTable, Tables

BLOCKED = "blocked"


def move(
    database: Database,
    tables: Tables,
    actor: Actor,
    task: int,
    new: str,
    *,
    force: Callable[[], bool],
    reason: str | None = None,
    summary: str | None = None,
    look: Look | None = None,
    advice: str = "",
    because: str | None = None,
) -> dict[str, Any]:
    """Move a task to a status, in an open transaction, and return the facts of an answer.

    `reason` is why it is blocked, and `summary` becomes a comment. With a `look` at the files, a
    task becomes done only if it is proved on them, or `because` of the user's reason; `advice` is
    how the actor runs the checks. If `force` returns True, the claim of another session
    ends. Raises `ToolError` if a rule forbids the move.
    """
    (old,) = task_row(database, tables, task, ["status"])
    notes: list[str] = []
    if look is not None and not is_done(old):
        from .proof import prove

        notes = prove(database, tables, actor, task, look, advice, because)
    follow_status(database, tables, actor, task, new, force=force())
    if old == BLOCKED != new and tables.ledger:
        from .questions import withdraw

        withdraw(database, actor, task)
    set_status(database, tables.tasks, task, (old, new), date=today(), reason=reason)
    answer: dict[str, Any] = {"id": task, "old": plain(old), "new": new}
    if notes:
        answer["told"] = notes
    bodies: list[str] = []
    if reason is not None and "blocked_by" not in tables.tasks:
        bodies.append(f"Blocked: {reason}")
    if summary is not None:
        bodies.append("\n\n".join([summary, *notes]))
    for body in bodies:
        answer["comment"] = write(database, tables, actor, task, {"body": body})
    if new in MET and old not in MET:
        answer["unblocked"], are_all = unblocked(database, tables, task)
        if not are_all:
            answer["cut"] = ["unblocked"]
    return answer


def set_status(
    database: Database,
    tasks: StoredTable,
    task: int,
    statuses: tuple[Any, str],
    *,
    date: str,
    reason: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Move a task from one of the `statuses` to the other, in a transaction that is open.

    `reason` is why it is blocked, and `more` has other columns. The caller has found that a task
    which becomes done may.
    """
    old, new = statuses
    closes = is_done(new)
    values = {**(more or {}), "status": new, "updated": date}
    if not (closes and is_done(old)):
        values["completed"] = date if closes else None
    if reason is not None or (old == BLOCKED and new != BLOCKED):
        values["blocked_by"] = reason

    def write() -> None:
        tasks.update(database, "id", task, values)

    if closes:
        database.closing(lambda one: one == task, write)
    else:
        write()


def add_task(database: Database, tasks: StoredTable, values: Mapping[str, Any]) -> None:
    """Add a task of these values, in a transaction that is open; as `set_status`."""
    if is_done(values["status"]):
        closed = {**values, "completed": values.get("created")}
        database.closing(lambda one: one == values["id"], lambda: tasks.insert(database, closed))
    else:
        tasks.insert(database, values)


def delete_task(database: Database, tables: Tables, task: int) -> None:
    """Delete a task with its comments and its claim, in an open transaction."""
    if tables.comments is not None:  # not every schema does so by itself, and ids come back
        delete_all(database, tables.comments, task)
    database.change(f"DELETE FROM {tables.tasks.quoted} WHERE id = ?", [task])
    forget(database, tables, task)


def drop_dependency(database: Database, tables: Tables, task: int, needed: Sequence[int]) -> None:
    """Let a task wait for the `needed` ones alone, in an open transaction."""
    values = {"depends_on": tables.tasks.stored("depends_on", needed), "updated": today()}
    tables.tasks.update(database, "id", task, values)


def refuse_skipped(database: Database, tables: Tables, actor: Actor, moved: Moved) -> None:
    """Raise `ToolError` if an actor that is not the user skipped a task that another waits for.

    A skipped dependent counts: it could be opened again.
    """
    if actor.is_users and not is_below_launch():
        return
    for task, status in moved:
        waiting = dependents(database, tables, task) if status == SKIPPED else iter(())
        other = next((one["id"] for one in waiting if one["status"] != DONE), None)
        if other is not None:
            raise ToolError(
                f"task {task} cannot be skipped: task {other} depends on it, and only the user can "
                'skip such a task; set it to "blocked" with a "reason"'
            )
