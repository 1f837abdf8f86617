"""Assigns tasks to new sessions, and releases the claims of ended sessions."""

from __future__ import annotations

from ..engine.ledger import DONE, close_session, evidence_of, moment
from ..errors import one_line
from . import Ralphgen, needed_tasks, task_row, today
from .claims import (
    BLOCKED,
    CLOSED,
    IN_PROGRESS,
    PENDING,
    Claim,
    add_attempt,
    claim_of,
    is_live,
    met,
    next_tasks,
    release,
    take,
    waiting_merge,
)
from .comments import write
from .merges import send_back
from .status import set_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..engine import Database
    from ..engine.ledger import Evidence
    from . import Tables
    from .claims import TaskFilter
    from .merges import QueuedMerge

LONGEST = 1_500  # characters of a check's output in a comment
RATE_LIMITED = "rate limited"
NOT_MADE = "it could not be created"
BROKEN = "environment failed"
UNAVAILABLE = "unavailable"
ASKED = "asked"  # its task waits for the user's answer
RUN_ENDED, INTERRUPTED = "the run ended", "interrupted"  # a loop ended before its session
# outcomes that the task did not cause
NO_ATTEMPT = frozenset({RATE_LIMITED, UNAVAILABLE, NOT_MADE, BROKEN, ASKED, RUN_ENDED, INTERRUPTED})


def claim_task(database: Database, tables: Tables, session: str, task: int, lease: float) -> int:
    """Claim a task for a new session; return the token.

    Raises `HeldError` if another session claims it.
    """

    def work() -> int:
        (status,) = task_row(database, tables, task, ["status"])
        return _take_over(database, tables, session, task, lease, in_progress=status == IN_PROGRESS)

    return database.writing(work)


def claim_next(
    database: Database,
    tables: Tables,
    wanted: TaskFilter,
    name: Callable[[int], str],
    lease: float,
    attempts: int,
    revoke: Callable[[str], None] | None = None,
) -> tuple[int, str, int] | None:
    """Claim the next task; return it, its session and the token, or None if none is ready.

    `name` returns the id of a session on a task. A task that so many `attempts` have left is
    blocked instead. The order is computed before the transaction, so that no writer waits for it,
    and each task is checked again when it is claimed. After each transaction, `revoke` gets the
    sessions that have lost their claim.
    """
    seen: list[int] = []
    lost: list[str] = []
    while candidates := database.reading(lambda: next_tasks(database, tables, wanted)):
        if candidates == seen:
            break
        seen = candidates

        def work(candidates: list[int] = candidates) -> tuple[int, str, int] | None:
            lost.clear()
            for task in candidates:
                old = claim_of(database, task)
                status = _free_status(database, tables, task, old)
                if not status:
                    continue
                if old is not None and old.session:
                    lost.append(old.session)
                if old is not None and old.session and old.attempts + 1 >= attempts:
                    _give_up(database, tables, old, attempts)
                    continue
                session, begun = name(task), status == IN_PROGRESS
                token = _take_over(database, tables, session, task, lease, in_progress=begun)
                return task, session, token
            return None

        taken = database.writing(work)
        if revoke is not None:
            for session in lost:
                revoke(session)
        if taken is not None:
            return taken
    return None


def end_claim(
    database: Database,
    tables: Tables,
    session: str,
    task: int,
    comment: str,
    *,
    attempts: int,
    counts: bool,
    reopens: bool,
    reason: str = "",
) -> str | None:
    """Release the task of a session that has ended; return the task's status, None if it is gone.

    A task in progress becomes pending, with a `comment`, and if it `reopens` also a done one. If it
    `counts`, that was an attempt, and the last of so many `attempts` leaves the task blocked. With
    a `reason` it is blocked for that reason. A session without the claim changes nothing. The
    caller is in a transaction.
    """
    row = database.row(tables.tasks.select(["status"], "WHERE id = ?"), [task])
    status = None if row is None else str(row[0])
    if not release(database, task, session) or status is None:
        return status
    if status in CLOSED and not (reopens and status == DONE):
        return status
    _journal(database, session, task, "give_back")
    made = add_attempt(database, task) if counts else 0
    if reason or made >= attempts:
        why = reason or _all_ended(database, session, task, made)
        return _block(database, tables, session, task, status, why, comment)
    if status == IN_PROGRESS or reopens:
        _set_status(database, tables, task, status, PENDING)
        _comment(database, tables, session, task, comment)
        return PENDING
    return status


def return_merge(
    database: Database,
    tables: Tables,
    merge: QueuedMerge,
    why: str,
    *,
    batch: int | None,
    runner: str,
    tail: str = "",
    reason: str = "",
) -> bool:
    """Return work of the merge queue, and make its task pending; False if it no longer waits.

    The task gets a comment with `why` and the end of the output `tail`, and with a `reason` it is
    blocked. `runner` is who runs the queue. The caller is in a transaction.
    """
    if not send_back(database, merge, batch, runner, why, tail):
        return False
    if merge.task is None:
        return True
    row = database.row(tables.tasks.select(["status"], "WHERE id = ?"), [merge.task])
    if row is None:
        return True
    text = f"It was not merged: {one_line(why)}."
    if merge.session:
        text = f'The session "{one_line(merge.session)}" ended: not merged. {text}'
    comment = f"{text}\n\n{tail[-LONGEST:]}" if tail else text
    status, session = str(row[0]), merge.session or "ralphgen"
    _journal(database, session, merge.task, "give_back")
    if status == DONE:
        add_attempt(database, merge.task)
        if reason:
            _block(database, tables, session, merge.task, status, reason, comment)
            return True
        _set_status(database, tables, merge.task, status, PENDING)
    _comment(database, tables, session, merge.task, comment)
    return True


def _journal(database: Database, session: str, task: int, what: str) -> None:
    """Journal the rest of this transaction as an act of a session."""
    facts = {"recipe": Ralphgen.recipe, "task_id": task}
    database.journal(session, facts, lambda: what).begin()


def _free_status(database: Database, tables: Tables, task: int, claim: Claim | None) -> str:
    """Return the status of a task that may be begun now; empty if it may not."""
    columns = tables.tasks.available_columns(["status", "depends_on"])
    row = database.row(tables.tasks.select(columns, "WHERE id = ?"), [task])
    if row is None or (claim is not None and is_live(claim)):
        return ""
    if waiting_merge(database, task) is not None:
        return ""
    status, stored = row[0], row[1] if len(row) > 1 else None
    stale = status == IN_PROGRESS and claim is not None and claim.began and claim.session
    needed = needed_tasks(stored)
    if needed is None or not (stale or status == PENDING):
        return ""
    return str(status) if met(database, tables, needed).issuperset(needed) else ""


def _take_over(
    database: Database, tables: Tables, session: str, task: int, lease: float, *, in_progress: bool
) -> int:
    """Claim a task, also from a session that left it; return the token."""
    old = claim_of(database, task)
    token = take(database, task, session, lease, in_progress=in_progress)
    if old is not None and old.session is not None:
        close_session(database, old.session, {"ended": moment(), "outcome": "failed"})
        if in_progress and old.began:
            left = f'session "{one_line(old.session)}" left it in progress'
            _journal(database, session, task, "take")
            text = f'Session "{session}" took this task over: {left}.'
            _comment(database, tables, session, task, text)
    return token


def _give_up(database: Database, tables: Tables, old: Claim, attempts: int) -> None:
    """Block a task whose last attempt was that of a session which left it."""
    session = str(old.session)
    close_session(database, session, {"ended": moment(), "outcome": "failed"})
    release(database, old.task)
    made = max(add_attempt(database, old.task), attempts)
    _journal(database, session, old.task, "give_back")
    (status,) = task_row(database, tables, old.task, ["status"])
    text = f'Session "{one_line(session)}" left it.'
    why = _all_ended(database, session, old.task, made)
    _block(database, tables, session, old.task, status, why, text)


def _block(
    database: Database,
    tables: Tables,
    session: str,
    task: int,
    old: str,
    reason: str,
    comment: str,
) -> str:
    status = BLOCKED if tables.may_block else PENDING
    _set_status(database, tables, task, old, status, reason)
    _comment(database, tables, session, task, f"{comment} Blocked: {reason}.")
    return status


def _all_ended(database: Database, session: str, task: int, attempts: int) -> str:
    """Return the reason of a task without attempts left, with what the last session lacked."""
    sessions = "1 session" if attempts == 1 else f"{attempts} sessions"
    last: dict[str, Evidence] = {}
    for run in evidence_of(database, task):  # newest first
        if run.session == session:
            last.setdefault(run.check, run)
    protected = next((run.protected[0] for run in last.values() if run.protected), "")
    checks = [run for run in last.values() if not run.check.startswith("(")]
    failed = next((run.check for run in checks if run.exit_code != 0), "")
    cause = f': "{one_line(failed)}" failed' if failed else ""
    if protected:
        cause = f": it changed {one_line(protected)}, which is protected"
    return f"{sessions} ended without closing it{cause}"


def _set_status(
    database: Database, tables: Tables, task: int, old: str, new: str, reason: str | None = None
) -> None:
    set_status(database, tables.tasks, task, (old, new), date=today(), reason=reason)


def _comment(database: Database, tables: Tables, session: str, task: int, body: str) -> None:
    if tables.comments is not None:
        write(database, tables, Ralphgen(session), task, {"body": body})
