"""Keeps the merge queue: finished work that waits to be merged into a branch, and its runs.

A task with waiting work cannot be claimed, and its dependents wait. Call the functions that write
in a transaction of `database.writing`.
"""

from __future__ import annotations

import json

from ..engine.ledger import moment
from ..errors import ToolError
from .claims import drop_merge, release, waiting_merge
from .claims import moment as moment_ahead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..engine import Database, Snapshot

COLUMNS = (
    *("number", "task", "session", "worker", "work", "tree", "target", "state", "entered"),
    *("ended", "batch", "runner", "landing", "merged", "reason", "tail"),
)
WAITING, MERGED, RETURNED = "waiting", "merged", "returned"
LEASE = 60.0  # seconds that a runner keeps a queue without a sign
REVOKED = "its worker was revoked"  # why an entry is dropped
MOST_WAITING = 256  # entries that wait before workers take no more tasks
_NAMES = ", ".join("task_id" if name == "task" else name for name in COLUMNS)
_SELECT = f"SELECT {_NAMES} FROM ralphgen_merges"
_ADD = "INSERT INTO ralphgen_merges (task_id, session, worker, work, tree, target, entered)"
_END = (
    "UPDATE ralphgen_merges SET state = ?, ended = ?, batch = ?, runner = ?, merged = ?, "
    "reason = ?, tail = ? WHERE number = ? AND state = 'waiting'"
)
_ADD_RUN = (
    "INSERT INTO ralphgen_runs (batch, target, base, head, tree, members, started, worker) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RUNNER = (
    "INSERT INTO ralphgen_runner (target, owner, expires) VALUES (?, ?, ?) "
    "ON CONFLICT (target) DO UPDATE SET owner = excluded.owner, expires = excluded.expires"
)
_BATCH = (
    "INSERT INTO ralphgen_runner (target, owner, expires, batch) VALUES (?, '', '', ?) "
    "ON CONFLICT (target) DO UPDATE SET batch = excluded.batch"
)
_OPEN = (
    "SELECT number FROM ralphgen_runs WHERE ended IS NULL AND batch = ? AND target = ? "
    "AND base = ? AND head = ? AND tree = ? AND members = ? AND coalesce(worker, '') = ?"
)
RUN_COLUMNS = "number, batch, target, base, head, tree, members, started, ended, passed, worker"


class QueuedMerge:
    """An entry of the queue: the commit `work` waits to be merged into the branch `target`.

    `tree` is its tree if the session proved it, and `worker` the worker that entered it, None for a
    session of this database's own loops. `state` is waiting, merged, returned or dropped. `batch`
    and `merged` are the batch and the commit that merged it. `landing` is the merge commit that the
    queue made for it, empty if it changes nothing. It is recorded before the branch moves; from
    then on the entry cannot be dropped. `runner` is who ran the queue then: a worker, or a machine
    and a process. `reason` is why it was returned or dropped, or why it still waits, and `tail` the
    end of the failing output.
    """

    __slots__ = COLUMNS

    number: int
    task: int | None
    session: str | None
    worker: str | None
    work: str
    tree: str | None
    target: str
    state: str
    entered: str
    ended: str | None
    batch: int | None
    runner: str | None
    landing: str | None
    merged: str | None
    reason: str | None
    tail: str | None

    def __init__(self, row: Sequence[object]) -> None:
        for name, value in zip(COLUMNS, row, strict=True):
            setattr(self, name, value)


def waiting(database: Snapshot, target: str | None = None) -> list[QueuedMerge]:
    """Return the waiting entries for a branch, by default for any, in order."""
    where = "WHERE state = 'waiting' AND target = coalesce(?, target) ORDER BY number"
    return [QueuedMerge(row) for row in database.rows(f"{_SELECT} {where}", [target])]


def newest(database: Snapshot, most: int) -> list[QueuedMerge]:
    """Return at most so many entries of any state, newest first."""
    rows = database.rows(f"{_SELECT} ORDER BY number DESC LIMIT ?", [most])
    return [QueuedMerge(row) for row in rows]


def merge_of(database: Snapshot, number: int) -> QueuedMerge | None:
    """Return the entry with a number, or None."""
    row = database.row(f"{_SELECT} WHERE number = ?", [number])
    return None if row is None else QueuedMerge(row)


def entered_sessions(database: Snapshot) -> set[str]:
    """Return the sessions whose work entered the queue, whatever came of it."""
    sql = "SELECT session FROM ralphgen_merges WHERE session IS NOT NULL"
    return {session for (session,) in database.rows(sql)}


def merge_targets(database: Snapshot) -> dict[str, str]:
    """Return the branch that the work of each merged session is in, by session."""
    sql = "SELECT session, target FROM ralphgen_merges WHERE session IS NOT NULL AND state = ?"
    return dict(database.rows(sql, [MERGED]))


def enter(
    database: Database,
    *,
    work: str,
    target: str,
    task: int | None = None,
    session: str | None = None,
    worker: str | None = None,
    tree: str | None = None,
) -> int:
    """Enter a commit into the queue of a branch, and release the session's claim; return a number.

    A commit that waits already keeps its number. Raises `ToolError` if other work of the task
    waits.
    """
    same = "work = ? AND target = ? AND coalesce(task_id, -1) = coalesce(?, -1)"
    row = database.row(
        f"{_SELECT} WHERE state = 'waiting' AND {same} OR session = ? AND work = ?",
        [work, target, task, session, work],
    )
    if row is not None:
        number = QueuedMerge(row).number
    else:
        other = None if task is None else waiting_merge(database, task)
        if other is not None:
            raise ToolError(f"task {task} waits to be merged already, as merge {other}")
        returning = database.sql.returning("number")
        values = (task, session, worker, work, tree, target, moment())
        number = database.insert(f"{_ADD} VALUES (?, ?, ?, ?, ?, ?, ?){returning}", values)
    if task is not None and session is not None:
        release(database, task, session)
    return number


def claim_landing(database: Database, commits: Mapping[int, str], batch: int) -> bool:
    """Record the merge commits of waiting entries before the branch moves to the last one.

    Returns False if one of them no longer waits. Nothing is recorded then.
    """
    sql = "UPDATE ralphgen_merges SET landing = ?, batch = ? WHERE number = ? AND state = 'waiting'"
    values = [[commit, batch, number] for number, commit in sorted(commits.items())]
    is_claimed = all(database.change(sql, own) for own in values)
    if not is_claimed:
        release_landing(database, commits)
    return is_claimed


def release_landing(database: Database, numbers: Iterable[int]) -> None:
    """Let entries wait again whose merge commits are not in the branch.

    Entries of workers that were revoked meanwhile are dropped.
    """
    revoked = "SELECT name FROM ralphgen_workers WHERE revoked IS NOT NULL"
    gone = {name for (name,) in database.rows(revoked)}
    released = {*numbers}
    for number in released:
        sql = (
            "UPDATE ralphgen_merges SET landing = NULL, batch = NULL "
            "WHERE number = ? AND state = 'waiting'"
        )
        database.change(sql, [number])
    for one in waiting(database):
        if one.number in released and one.worker in gone:
            drop_merge(database, one.number, REVOKED)


def finish(
    database: Database,
    merge: QueuedMerge,
    commit: str,
    batch: int | None,
    runner: str,
    *,
    flaky: str = "",
) -> bool:
    """Record the commit that merged an entry; return False if it does not wait any more.

    `runner` is who runs the queue. `flaky` names a check that failed on it once.
    """
    why = f"flaky: {flaky}" if flaky else None
    values = [MERGED, moment(), batch, runner, commit, why, None, merge.number]
    is_new = database.change(_END, values) > 0
    if is_new and merge.session is not None:
        sql = "UPDATE ralphgen_sessions SET merged = ? WHERE id = ?"
        database.change(sql, [commit, merge.session])
    return is_new


def send_back(
    database: Database,
    merge: QueuedMerge,
    batch: int | None,
    runner: str,
    reason: str,
    tail: str = "",
) -> bool:
    """Record that an entry was returned; return False if it does not wait any more."""
    values = [RETURNED, moment(), batch, runner, None, reason, tail, merge.number]
    return database.change(_END, values) > 0


def was_returned(database: Snapshot, task: int) -> bool:
    """Return whether work of a task was returned since the last one that was merged."""
    sql = (
        "SELECT state FROM ralphgen_merges WHERE task_id = ? AND state IN ('merged', 'returned') "
        "ORDER BY number DESC LIMIT 1"
    )
    return database.row(sql, [task]) == (RETURNED,)


def drop_worker(database: Database, worker: str) -> int:
    """Drop the waiting entries of a worker, and its leases on queues; return how many entries."""
    database.change("UPDATE ralphgen_runner SET expires = '' WHERE owner = ?", [lease_of(worker)])
    mine = [one.number for one in waiting(database) if one.worker == worker]
    return sum(drop_merge(database, number, REVOKED) for number in mine)


def lease_of(worker: str) -> str:
    """Return the owner of the leases of a worker."""
    return f"worker {worker}"


def note_obstacle(database: Database, number: int, reason: str) -> None:
    """Record why an entry still waits."""
    sql = "UPDATE ralphgen_merges SET reason = ? WHERE number = ? AND state = 'waiting'"
    database.change(sql, [reason, number])


class MergeRun:
    """A run of checks on the commit `head`, on top of `base`, for the entries `members`.

    `passed` is None while it runs, or if it was killed.
    """

    __slots__ = (
        *("base", "batch", "ended", "head", "members", "number", "passed", "started", "target"),
        *("tree", "worker"),
    )

    def __init__(self, row: Sequence[object]) -> None:
        for name, value in zip(RUN_COLUMNS.split(", "), row, strict=True):
            setattr(self, name, value)
        self.members: list[int] = json.loads(str(row[6]))
        self.passed: bool | None = None if row[9] is None else bool(row[9])

    number: int
    batch: int
    target: str
    base: str
    head: str
    tree: str
    started: str
    ended: str | None
    worker: str | None


def next_batch(database: Database, target: str) -> int:
    """Return a new number for a batch, which no other batch of the database gets."""
    row = database.row("SELECT max(batch) FROM ralphgen_runner")
    batch = 1 if row is None or row[0] is None else int(row[0]) + 1
    database.change(_BATCH, [target, batch])
    return batch


def open_run(
    database: Database,
    *,
    batch: int,
    target: str,
    base: str,
    head: str,
    tree: str,
    members: Sequence[int],
    worker: str | None = None,
) -> int:
    """Record the start of a run; return its number, the same one if it has started already."""
    facts = (batch, target, base, head, tree, json.dumps([*members]))
    if (row := database.row(_OPEN, [*facts, worker or ""])) is not None:
        return int(row[0])
    values = (*facts, moment(), worker)
    return database.insert(f"{_ADD_RUN}{database.sql.returning('number')}", values)


def close_run(database: Database, number: int, *, passed: bool) -> bool:
    """Record the end of a run; return False if it has ended already."""
    sql = "UPDATE ralphgen_runs SET ended = ?, passed = ? WHERE number = ? AND ended IS NULL"
    return database.change(sql, [moment(), int(passed), number]) > 0


def end_stale_runs(database: Database, target: str) -> None:
    """End the open runs of a branch, whose runner was killed."""
    sql = "UPDATE ralphgen_runs SET ended = ? WHERE target = ? AND ended IS NULL"
    database.change(sql, [moment(), target])


def runs(database: Snapshot, most: int) -> list[MergeRun]:
    """Return at most so many runs, newest first."""
    sql = f"SELECT {RUN_COLUMNS} FROM ralphgen_runs ORDER BY number DESC LIMIT ?"
    return [MergeRun(row) for row in database.rows(sql, [most])]


def run_of(database: Snapshot, number: int) -> MergeRun | None:
    """Return the run with a number, or None."""
    row = database.row(f"SELECT {RUN_COLUMNS} FROM ralphgen_runs WHERE number = ?", [number])
    return None if row is None else MergeRun(row)


def runner_of(database: Snapshot, target: str) -> str | None:
    """Return the owner of the queue of a branch, or None if no lease on it is valid."""
    sql = "SELECT owner FROM ralphgen_runner WHERE target = ? AND expires > ?"
    row = database.row(sql, [target, moment()])
    return None if row is None else str(row[0])


def lease_runner(database: Database, target: str, owner: str, seconds: float = LEASE) -> bool:
    """Take or renew the lease on the queue of a branch; return False if another has it."""
    if runner_of(database, target) not in (None, owner):
        return False
    database.change(_RUNNER, [target, owner, moment_ahead(seconds)])
    return True


def end_lease(database: Database, target: str, owner: str) -> None:
    """End the lease of an owner on the queue of a branch; the row keeps the last batch."""
    sql = "UPDATE ralphgen_runner SET expires = '' WHERE target = ? AND owner = ?"
    database.change(sql, [target, owner])
