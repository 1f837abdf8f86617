"""Writes the status of a task; no other code does.

A task becomes done only here, by a caller that has found it proved or has the user's reason: every
other write that sets a task to done is refused, whatever statement, trigger or key makes it.
"""

from __future__ import annotations

from ..engine.closing import DONE, SKIPPED, is_done
from ..engine.ledger import Evidence, add_evidence
from ..errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine import Database
    from ..engine.closing import Moved
    from .rows import Actor, StoredTable, Tables

BLOCKED = "blocked"
IMPORTED = "(imported)"  # in place of a check's name, in the evidence of a command of the user
RESTORED = "(restored)"


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


def refuse_skipped(database: Database, tables: Tables, actor: Actor, moved: Moved) -> None:
    """Raise `ToolError` if an actor that is not the user skipped a task that another waits for.

    A skipped dependent counts: it could be opened again.
    """
    from ..processes.launched import is_below_launch
    from .readiness import dependents

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


def record_reason(database: Database, session: str, check: str, moved: Moved, why: str) -> None:
    """Store as evidence that a command of the user, and no check, has made tasks done.

    The database has a ledger.
    """
    from ..engine.entries import moment

    for task, status in moved:
        if status == DONE:
            evidence = Evidence(
                task=task,
                session=session,
                check=check,
                definition="",
                exit_code=None,
                started=moment(),
                seconds=0.0,
                tree="",
                tail=why,
            )
            add_evidence(database, evidence)
