"""Finds the ready tasks and their order, and manages the claims of sessions.

A claim is a row of `ralphgen_claims`, which remains after its release: the token only grows, so an
old one identifies a session that lost its claim. No caller waits for a claim.
"""

from __future__ import annotations

import os
import re
import time

from ..deferred import take_time
from ..encoding import read_json
from ..engine.ledger import MET
from ..errors import StartError, ToolError, one_line
from ..policy import FULL
from ..system import is_below_launch
from ..values import shortened
from . import CHUNK, LIMIT, decode_integers, needed_tasks, plain, prerequisites, rows_by_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..engine import Database, Snapshot
    from . import Actor, Tables

    Place = tuple[str, str, str]  # host, boot and pid namespace; empty if unknown
    Needs = Sequence[Sequence[int]]  # for each task, the tasks that it waits for
    Order = tuple[int, int, int]  # the position of a task among the ready ones

COLUMNS = (
    "task_id, session, token, taken, expires, host, boot, namespace, pid, started, began, attempts"
)
UNRELEASED = f"SELECT {COLUMNS} FROM ralphgen_claims WHERE session IS NOT NULL"
_LAST = f"{UNRELEASED} ORDER BY coalesce(expires, '') DESC LIMIT ?"
_PLACES = ", ".join("?" * len(COLUMNS.split()))
_TAKEN = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS.split(", ")[1:])
MOST = 2**63 - 1  # in a column
_NOBODY = (None, None, None, None, None)  # host, boot, namespace, pid and start of no process
BLOCKED, PENDING, IN_PROGRESS = "blocked", "pending", "in_progress"
CLOSED = (*MET, BLOCKED)
TRIES = 3  # to renew in a third of a lease, while the database is locked
_ENDED = (b"Z", b"X")  # states of a process that has ended
_STARTED_AT = 19  # among the words behind the name in /proc/N/stat


class Claim:
    """The row of one task.

    `session` claims the task, None after a release. `taken` and `expires` are ISO 8601 in UTC.
    `pid` is the process of the claim, if any, on the machine of `host`, `boot` and `namespace`, and
    `started` its start. `began` is when the session set the task in_progress, if it did. `attempts`
    counts sessions that ended without closing the task.
    """

    __slots__ = (
        "attempts",
        "began",
        "boot",
        "expires",
        "host",
        "namespace",
        "pid",
        "session",
        "started",
        "taken",
        "task",
        "token",
    )

    def __init__(
        self,
        task: int,
        session: str | None,
        token: int,
        taken: str | None,
        expires: str | None,
        host: str | None,
        boot: str | None,
        namespace: str | None,
        pid: int | None,
        started: str | None,
        began: str | None,
        attempts: int,
    ) -> None:
        self.task = task
        self.session = session
        self.token = token
        self.taken = taken
        self.expires = expires
        self.host = host
        self.boot = boot
        self.namespace = namespace
        self.pid = pid
        self.started = started
        self.began = began
        self.attempts = attempts


class HeldError(ToolError):
    """Another session claims the task, by `claim`."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"task {claim.task} is claimed by {holder_of(claim)}")
        self.claim = claim


class MergingError(ToolError):
    """The work of the task waits in the merge queue, as the entry `merge`, or `is_landing`."""

    def __init__(self, task: int, merge: int, *, is_landing: bool = False) -> None:
        state = "may have been merged already" if is_landing else "waits to be merged"
        super().__init__(f"task {task} {state}, as merge {merge}: nothing was changed")
        self.task = task
        self.merge = merge
        self.hint = f"ralphgen merges drop {merge}"


def waiting_merge(database: Snapshot, task: int) -> int | None:
    """Return the number of the waiting entry of a task in the merge queue, or None."""
    sql = "SELECT number FROM ralphgen_merges WHERE task_id = ? AND state = 'waiting'"
    row = database.row(sql, [task])
    return None if row is None else int(row[0])


def drop_merge(database: Database, number: int | None, reason: str) -> bool:
    """Drop a waiting entry of the merge queue; return False if none of this number waits.

    An entry that is landing does not count. The caller is in a transaction. The branch of the entry
    remains.
    """
    sql = (
        "UPDATE ralphgen_merges SET state = 'dropped', ended = ?, reason = ? "
        "WHERE number = ? AND state = 'waiting' AND landing IS NULL"
    )
    return number is not None and database.change(sql, [moment(), reason, number]) > 0


def drop_merge_of(database: Database, task: int, reason: str) -> None:
    """Drop the waiting entry of a task, if it has one; raise `MergingError` if it is landing."""
    number = waiting_merge(database, task)
    if number is not None and not drop_merge(database, number, reason):
        raise MergingError(task, number, is_landing=True)


def claim_of(database: Snapshot, task: int) -> Claim | None:
    """Return the row of a task, None if it was never claimed."""
    sql = f"SELECT {COLUMNS} FROM ralphgen_claims WHERE task_id = ?"
    row = database.row(sql, [task])
    return None if row is None else Claim(*row)


def claims(database: Snapshot, most: int | None = None) -> dict[int, Claim]:
    """Return the claims that were not released, live or not, by task.

    With `most`, no more of them, and those whose leases end last.
    """
    rows = database.rows(UNRELEASED) if most is None else database.rows(_LAST, [most])
    return {row[0]: Claim(*row) for row in rows}


def all_claims(database: Snapshot) -> dict[int, Claim]:
    """Return the row of each task that a session has ever claimed, by task."""
    return {row[0]: Claim(*row) for row in database.rows(f"SELECT {COLUMNS} FROM ralphgen_claims")}


def live_claims(database: Snapshot) -> dict[int, Claim]:
    """Return the live claims, by task."""
    return {task: claim for task, claim in claims(database).items() if is_live(claim)}


def is_live(claim: Claim) -> bool:
    """Return whether the claim is live: its lease has not ended, nor its process.

    For a process on another or an unknown machine, the lease alone counts.
    """
    if claim.session is None or is_over(claim):
        return False
    here = this_machine()
    if claim.pid is None or "" in here or here != (claim.host, claim.boot, claim.namespace):
        return True
    return not _is_gone(claim.pid, claim.started)


def is_over(claim: Claim) -> bool:
    """Return whether the lease has ended."""
    return claim.expires is None or claim.expires <= moment()


def holder_of(claim: Claim) -> str:
    """Return the session of a claim and the end of its lease, as text."""
    return f'the session "{one_line(str(claim.session))}" until {claim.expires}'


def take(
    database: Database, task: int, session: str, lease: float, *, in_progress: bool = False
) -> int:
    """Claim a task for a session of this process, in an open transaction; return the token.

    `lease` is in seconds; `in_progress` is whether the task has that status. An unreleased earlier
    claim counts as an attempt. Raises `HeldError` if another session claims the task, and
    `MergingError` if its work waits to be merged.
    """
    old = claim_of(database, task)
    if old is not None and is_live(old):
        raise HeldError(old)
    if (merge := waiting_merge(database, task)) is not None:
        raise MergingError(task, merge)
    token = 1 if old is None else old.token % MOST + 1
    attempts = 0 if old is None else min(old.attempts + (old.session is not None), MOST)
    began = moment() if in_progress else None
    values = (task, session, token, moment(), moment(lease), *_this_process(), began, attempts)
    database.change(
        f"INSERT INTO ralphgen_claims ({COLUMNS}) VALUES ({_PLACES}) "
        f"ON CONFLICT (task_id) DO UPDATE SET {_TAKEN}",
        values,
    )
    return token


def renew(
    database: Database, task: int, session: str, token: int, lease: float, *, anywhere: bool = False
) -> bool:
    """Let a claim end `lease` seconds from now; return False if the session has lost it.

    If the process of the claim has ended, this one replaces it, unless the session is served
    `anywhere`. A claim of a process is lost with its lease. The caller is in a transaction.
    """
    claim = claim_of(database, task)
    if claim is None or claim.token != token:
        return False
    if claim.session is None:
        return True  # the task is closed
    if claim.session != session:
        return False
    if claim.pid is not None and is_over(claim):
        return False
    sql = "UPDATE ralphgen_claims SET expires = ? WHERE task_id = ?"
    database.change(sql, [moment(lease), task])
    if not anywhere and (claim.pid is None or not is_live(claim)):
        hold(database, task, _this_process())
    return True


def hand_over(database: Database, task: int, session: str) -> None:
    """Remove the process of a session's claim, until one of its servers renews it."""
    claim = claim_of(database, task)
    if claim is not None and claim.session == session:
        hold(database, task, _NOBODY)


def hold(database: Database, task: int, process: tuple[object, ...]) -> None:
    """Set the process of a claim: host, boot, namespace, pid and start."""
    names = "host = ?, boot = ?, namespace = ?, pid = ?, started = ?"
    database.change(f"UPDATE ralphgen_claims SET {names} WHERE task_id = ?", [*process, task])


def require_claim(database: Database, task: int, session: str, token: int) -> None:
    """Raise `ToolError` with the reason if a session has lost its claim; in a transaction.

    A session that released its task by closing it may write until another session claims the task.
    """
    claim = claim_of(database, task)
    if claim is None or claim.token != token:
        now = "it was ended"
        if claim is not None and claim.session is not None:
            now = f"it is claimed by {holder_of(claim)}"
    elif claim.session == session and claim.pid is not None and is_over(claim):
        now = f"its lease ended at {claim.expires}"
    else:
        return
    raise ToolError(
        f"this session has lost its claim on task {task}: {now}. Nothing was changed: stop "
        "working on it; its next session continues"
    )


def take_again(database: Database, task: int, session: str, token: int, lease: float) -> None:
    """Restore the claim of a session that has closed its task, unless another claimed it since."""
    claim = claim_of(database, task)
    if claim is not None and claim.session is None and claim.token == token:
        sql = "UPDATE ralphgen_claims SET session = ?, taken = ?, expires = ? WHERE task_id = ?"
        database.change(sql, [session, moment(), moment(lease), task])


def begin(database: Database, task: int, *, in_progress: bool) -> None:
    """Record whether the session of the claim has the task in progress."""
    sql = "UPDATE ralphgen_claims SET began = ? WHERE task_id = ?"
    database.change(sql, [moment() if in_progress else None, task])


def release(
    database: Database, task: int, session: str | None = None, *, fence: bool = True
) -> bool:
    """Release the claim of `session`, or of any session, on a task; return whether one existed.

    With `fence`, the session cannot write any more. The caller is in a transaction.
    """
    names = ("taken", "expires", "host", "boot", "namespace", "pid", "started", "began")
    emptied = ", ".join(f"{name} = NULL" for name in ("session", *names))
    token = f"token % {MOST} + 1" if fence else "token"
    sql = f"UPDATE ralphgen_claims SET {emptied}, token = {token} WHERE task_id = ?"
    owner = "session IS NOT NULL" if session is None else "session = ?"
    values = [task, *([] if session is None else [session])]
    return database.change(f"{sql} AND {owner}", values) > 0


def add_attempt(database: Database, task: int) -> int:
    """Count an attempt that ended without closing the task; return the new number."""
    sql = "UPDATE ralphgen_claims SET attempts = attempts + 1 WHERE task_id = ? AND attempts < ?"
    database.change(sql, [task, MOST])
    claim = claim_of(database, task)
    return 0 if claim is None else claim.attempts


def forget_attempts(database: Database, task: int) -> None:
    """Count attempts on a task from zero again."""
    database.change("UPDATE ralphgen_claims SET attempts = 0 WHERE task_id = ?", [task])


def stale_tasks(database: Snapshot, tasks: str = '"tasks"') -> dict[int, Claim]:
    """Return the claims of sessions that have ended and left their task in progress, by task.

    `tasks` is the quoted name of the table.
    """
    begun = {task: claim for task, claim in claims(database).items() if claim.began is not None}
    found: dict[int, Claim] = {}
    for task, claim in begun.items():
        row = database.row(f"SELECT status FROM {tasks} WHERE id = ?", [task])
        if row is not None and row[0] == "in_progress" and not is_live(claim):
            found[task] = claim
    return found


def follow_status(
    database: Database, tables: Tables, actor: Actor, task: int, new: str, *, force: bool
) -> None:
    """Let the claim on a task follow its new status, in an open transaction.

    A session that closes its task releases it, and has it again when it opens it. Any other claim
    ends, with `force` also a live one. Raises `ToolError` for a live one without.
    """
    if not tables.ledger:
        return
    own = actor.claim
    if own is not None and own["task"] == task:
        if new in CLOSED and not own["kept"]:
            release(database, task, actor.session_id, fence=False)
        else:
            take_again(database, task, actor.session_id, own["token"], own["lease"])
            begin(database, task, in_progress=new == IN_PROGRESS)
        return
    if (merge := waiting_merge(database, task)) is not None:
        if not actor.is_users or is_below_launch():
            raise MergingError(task, merge)
        drop_merge_of(database, task, f"the task was set to {new}")
    if not force:
        refuse_claimed(database, tables, actor, task)
    elif is_below_launch():
        raise ToolError('"force" is for the user, and this is an agent\'s session')
    release(database, task)
    if new == PENDING and actor.profile == FULL:
        forget_attempts(database, task)


def other_claim(database: Snapshot, tables: Tables, actor: Actor, task: int) -> Claim | None:
    """Return the live claim of another session on a task, or None."""
    claim = claim_of(database, task) if tables.ledger else None
    if claim is None or claim.session == actor.session_id or not is_live(claim):
        return None
    return claim


def refuse_claimed(database: Snapshot, tables: Tables, actor: Actor, task: int) -> None:
    """Raise `ToolError` if another session claims a task."""
    claim = other_claim(database, tables, actor, task)
    if claim is not None:
        raise ToolError(refusal_of(claim, actor))


def refusal_of(claim: Claim, actor: Actor) -> str:
    """Return the refusal of a task that another session claims."""
    text = f"task {claim.task} is claimed by {holder_of(claim)}: nothing was changed"
    if actor.is_users:
        text += '; the user can end that claim with "force"'
    return text


def forget(database: Database, tables: Tables, task: int) -> None:
    """Remove what the ledger has on a deleted or new task, in an open transaction."""
    if tables.ledger:
        drop_merge_of(database, task, "the task was deleted")
        release(database, task)
        forget_attempts(database, task)
        sql = "UPDATE ralphgen_questions SET task_id = NULL, answered = coalesce(answered, ?)"
        database.change(f"{sql} WHERE task_id = ?", [moment(), task])
        if database.sql.may_add(database, "ralphgen_order"):  # else its id does not come back
            database.change("UPDATE ralphgen_reviews SET task_id = NULL WHERE task_id = ?", [task])
            database.change("DELETE FROM ralphgen_order WHERE task_id = ?", [task])


def add_holders(database: Snapshot, tables: Tables, records: Sequence[dict[str, Any]]) -> None:
    """Add to records of tasks who claims them, and which are stale: their session is gone."""
    found = claims(database) if tables.ledger else {}
    for record in records:
        claim = found.get(record["id"])
        if claim is None:
            continue
        status = record.get("status")
        if is_live(claim):
            record["held_by"] = claim.session
            record["inferred"] = "held" if status == PENDING else record["inferred"]
        elif status == IN_PROGRESS and claim.began is not None:
            record |= {"held_by": claim.session, "inferred": "stale"}


def keep(connect: Callable[[], Database], session: str, claim: Mapping[str, int]) -> None:
    """Renew a session's claim now and every third of its lease, until it is lost."""
    database: Database | None = None
    while True:
        pause = claim["lease"] / 3
        try:
            if database is None:  # one for all: to close one would end the locks of the others
                database = connect()
            if not _renewed(database, session, claim):
                return
        except (StartError, ToolError):  # the next try may succeed before the lease ends
            pause /= TRIES
        time.sleep(pause)


def _renewed(database: Database, session: str, claim: Mapping[str, int]) -> bool:
    task, token, lease = claim["task"], claim["token"], claim["lease"]
    return database.writing(lambda: renew(database, task, session, token, lease))


def moment(ahead: float = 0.0) -> str:
    """Return the time so many seconds ahead, in UTC to the millisecond."""
    when = time.time() + ahead
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))
    return f"{text}.{int(when * 1000) % 1000:03d}Z"


def _this_process() -> tuple[str, str, str, int, str]:
    """Return host, boot, namespace, pid and start of this process."""
    pid = os.getpid()
    return *this_machine(), pid, _start_of(pid)


def this_machine() -> Place:
    """Return the identity of this machine: empty if the system does not support it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return os.uname().nodename, boot, os.readlink("/proc/self/ns/pid")
    except (OSError, AttributeError):  # not Linux
        return "", "", ""


def _is_gone(pid: int, started: str | None) -> bool:
    """Return whether a process of this machine has ended, although its number may be reused."""
    if pid < 1:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is another user's
        pass
    now = _start_of(pid)
    return now == "ended" or (bool(now) and now != started)


def _start_of(pid: int) -> str:
    """Return when a process started, "ended" for a zombie, "" if unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "ended" if words[0] in _ENDED else words[_STARTED_AT].decode("ascii")


LISTED = 20  # ids in a refusal
SHOWN = 1_000  # dependents of one task
EXAMINED = 5_000  # dependents to examine for whether they still wait: a tenth of a second
UNKNOWN = "unknown"
INFERRED = {
    "draft": "draft",
    "blocked": "externally_blocked",
    "in_progress": "in_progress",
    "done": "done",
    "skipped": "skipped",
}
PRIORITIES = ("critical", "high", "medium", "low")  # any other, and none, comes after them
MANY = 2_000  # tasks: to order more of them takes a while
_PLAIN_LIST = r"\[[0-9, ]*\]"
_CURSOR = r"(-1|[0-9])\.([0-9]{1,9})\.(-?[0-9]{1,19})"
AT_ONCE = 4_000  # tasks that are counted at once: half a kilobyte for each task that holds any up


def ready(database: Snapshot, tables: Tables) -> list[Order]:
    """Return the place of each task that can be begun, the next one first.

    A pending task is ready if no session claims it and every dependency is done or skipped; a stale
    task, if the same holds. A task with an unreadable `depends_on` is not ready. A place is the
    rank of the priority (stale before ready), the negative number of tasks that wait for it, also
    through others, and the id. Before these come the tasks that the user put in order: rank -1, the
    position, and the id.
    """
    tasks = tables.tasks
    held, left_behind = _holders(database, tables)
    columns = tasks.available_columns(["id", "status", "priority", "depends_on"])
    every = database.each(tasks.select(columns))
    rows = [dict(zip(columns, row, strict=True)) for row in every]
    if len(rows) > MANY:
        take_time()
    unmerged = unmerged_tasks(database, tables)
    done = {row["id"] for row in rows if row["status"] in MET and row["id"] not in unmerged}
    left: dict[int, list[int]] = {}
    free: dict[int, int] = {}
    unfinished = [row for row in rows if row["id"] not in done]
    lists = prerequisite_lists([row.get("depends_on") for row in unfinished])
    for row, needed in zip(unfinished, lists, strict=True):
        left[row["id"]] = [] if needed is None else [one for one in needed if one not in done]
        stale = row["status"] == "in_progress" and row["id"] in left_behind
        waits = needed is None or left[row["id"]] or row["id"] in held
        if (stale or row["status"] == "pending") and not waits:
            free[row["id"]] = 2 * _rank(row.get("priority")) + (not stale)
    counts = waiting(left, free)
    placed = user_order(database, tables)
    return sorted(
        (-1, placed[task], task) if task in placed else (rank, -counts[task], task)
        for task, rank in free.items()
    )


class TaskFilter:
    """The tasks to choose from: of a feature and a discipline, unless empty.

    Tasks in `behind` come last.
    """

    __slots__ = ("behind", "discipline", "feature")

    def __init__(
        self, feature: str = "", discipline: str = "", behind: Collection[int] = ()
    ) -> None:
        self.feature = feature
        self.discipline = discipline
        self.behind = behind


NO_FILTER = TaskFilter()


def next_tasks(database: Snapshot, tables: Tables, wanted: TaskFilter = NO_FILTER) -> list[int]:
    """Return the tasks that can be begun, the next one first."""
    ordered = [place[2] for place in ready(database, tables)]
    places = sorted(ordered, key=lambda task: task in wanted.behind)
    named = {"feature": wanted.feature, "discipline": wanted.discipline}
    given = {column: name for column, name in named.items() if name}
    if not given:
        return places
    where = " AND ".join(f"{column} = ?" for column in given)
    sql = tables.tasks.select(["id"], f"WHERE {where}")
    matching = {row[0] for row in database.rows(sql, [*given.values()])}
    return [task for task in places if task in matching]


def ready_page(
    database: Snapshot,
    tables: Tables,
    matching: str,
    values: Sequence[object],
    cursor: str | None,
    most: int,
) -> tuple[list[int], list[str], int]:
    """Return at most `most` tasks that can be begun, from the cursor on, the next one first.

    Returns their ids, the cursor after each, and the total number. `matching` is SQL for the ids to
    include, with its `values`; empty for all. Raises `ToolError` for an invalid cursor.
    """
    places = ready(database, tables)
    if matching:
        wanted = {row[0] for row in database.each(matching, values)}
        places = [place for place in places if place[2] in wanted]
    last = _place(cursor)
    shown = [place for place in places if place > last][:most]
    return [place[2] for place in shown], [_cursor(place) for place in shown], len(places)


def waiting(needs: Mapping[int, Sequence[int]], wanted: Iterable[int]) -> dict[int, int]:
    """Return the number of other tasks that wait for each task in `wanted`, even indirectly.

    `needs` are, by task, the tasks that it waits for.
    """
    counts, places = dict.fromkeys(wanted, 0), {task: at for at, task in enumerate(needs)}
    links = [[places[one] for one in needed if one in places] for needed in needs.values()]
    order, circles = in_order(links)
    for first in range(0, sum(map(bool, links)), AT_ONCE):
        behind = waiters(links, order, circles, first, AT_ONCE)
        for task in counts:
            counts[task] += behind[places[task]].bit_count()
    return counts


def in_order(needs: Needs) -> tuple[Sequence[int], list[list[int]]]:
    """Return the tasks in topological order, prerequisites first; a task is an index in `needs`.

    The second value has the tasks of circles and after them, in groups that wait for each other:
    Kosaraju's strongly connected components.
    """
    if all(max(needed) < task for task, needed in enumerate(needs) if needed):
        return range(len(needs)), []
    dependents: list[list[int]] = [[] for _ in needs]
    for task, needed in enumerate(needs):
        for other in needed:
            dependents[other].append(task)
    left = [len(needed) for needed in needs]
    order = [task for task, count in enumerate(left) if not count]
    for task in order:  # the loop appends to it
        for other in dependents[task]:
            left[other] -= 1
            if not left[other]:
                order.append(other)
    rest = {*range(len(needs))}.difference(order)
    free, finished, circles = set(rest), list[int](), list[list[int]]()
    for task in sorted(rest):
        if task in free:
            finished += _walked(task, dependents, free)
    free = set(rest)
    for task in reversed(finished):
        if task in free:
            circles.append(_walked(task, needs, free))
    return order, circles


def _walked(start: int, ways: Needs, free: set[int]) -> list[int]:
    """Return the free tasks that can be reached, in post-order; they are free no longer.

    Without recursion: a way may be of any length.
    """
    free.remove(start)
    path, walked = [(start, iter(ways[start]))], list[int]()
    while path:
        step = next((task for task in path[-1][1] if task in free), None)
        if step is None:
            walked.append(path.pop()[0])
        else:
            free.remove(step)
            path.append((step, iter(ways[step])))
    return walked


def waiters(
    needs: Needs,
    order: Sequence[int],
    circles: Sequence[Sequence[int]],
    first: int = 0,
    most: float = float("inf"),
) -> list[int]:
    """Return for each task a number with one bit for each task that waits for it.

    `order` and `circles` are the results of `in_order`. `most` of the waiting tasks have a bit,
    starting at the `first`. They are numbered from the end, so the length of a number grows with
    the tasks that come after its task.
    """
    behind, number = [0] * len(needs), -first

    def bit() -> int:
        nonlocal number
        number += 1
        return 1 << number - 1 if 0 < number <= most else 0

    for group in reversed(circles):
        own = {task: bit() for task in group}
        whole = 0
        for task in group:
            whole |= behind[task] | own[task]
        for task in group:
            for other in needs[task]:
                behind[other] |= whole
        for task in group:
            behind[task] = whole ^ own[task]
    for task in reversed(order):
        if needs[task]:
            whole = behind[task] | bit()
            for other in needs[task]:
                before = behind[other]
                behind[other] = before | whole if before else whole
    return behind


def _holders(database: Snapshot, tables: Tables) -> tuple[set[int], set[int]]:
    """Return the tasks that are claimed or in the merge queue, and the ones left in progress."""
    if not tables.ledger:
        return set(), set()

    from ..engine.ledger import WAITING

    found = claims(database)
    held = {task for task, claim in found.items() if is_live(claim)}
    held.update(task for (task,) in database.rows(WAITING))
    begun = {task for task, claim in found.items() if claim.began is not None}
    return held, begun - held


def user_order(database: Snapshot, tables: Tables) -> dict[int, int]:
    """Return the positions of the tasks that the user put in order."""
    if not tables.ledger:
        return {}
    from ..engine.ledger import ORDERED

    return dict(database.rows(ORDERED))


def _cursor(place: Order) -> str:
    rank, second, task = place
    return f"{rank}.{abs(second)}.{task}"


def _place(cursor: str | None) -> Order:
    """Return the place of a cursor; without one, a place before all others."""
    if cursor is None:
        return -2, 0, 0
    found = re.fullmatch(_CURSOR, cursor)
    if found is None:
        raise unknown_cursor(cursor)
    rank, second = int(found[1]), int(found[2])
    return rank, second if rank < 0 else -second, int(found[3])


def _rank(priority: object) -> int:
    name = str(plain(priority)).lower()
    return PRIORITIES.index(name) if name in PRIORITIES else len(PRIORITIES)


def unknown_cursor(cursor: str) -> ToolError:
    """Return the error for a cursor that is not from a page of a list."""
    return ToolError(
        f'invalid cursor {shortened(cursor)}: use "next_cursor" of a page, or '
        "omit it to start at the beginning"
    )


def prerequisite_lists(stored: Sequence[object]) -> list[list[int] | None]:
    """Return the ids in each stored `depends_on`, None if it is unreadable.

    Plain JSON lists of numbers are read all at once: one by one, 20,000 take a tenth of a second.
    """
    texts = {
        at: text
        for at, text in enumerate(stored)
        if isinstance(text, str) and re.fullmatch(_PLAIN_LIST, text)
    }
    try:
        lists = read_json(f"[{','.join(texts.values())}]")
    except ValueError:
        texts, lists = {}, []
    known: dict[int, list[int]] = dict(zip(texts, lists, strict=True))
    return [known[at] if at in known else needed_tasks(text) for at, text in enumerate(stored)]


def unmerged_tasks(
    database: Snapshot, tables: Tables, among: Iterable[int] | None = None
) -> set[int]:
    """Return the tasks, all or `among` some, whose work in a worktree is not merged yet.

    They meet no dependency, even if they are done.
    """
    if not tables.ledger:
        return set()
    from ..engine.ledger import NOT_MERGED, UNMERGED, WAITING

    # The login of a session may not read the journal, and goes by claims and the merge queue.
    sees_all = database.sql.can_read(database, "ralphgen_journal", "after")
    unclosed = f"SELECT task_id FROM ({UNMERGED}) AS claimed UNION {WAITING}"
    chosen = f"SELECT task_id FROM ({NOT_MERGED if sees_all else unclosed}) AS one"
    if among is None:
        return {row[0] for row in database.each(chosen)}
    wanted, left = sorted(among), set[int]()
    for at in range(0, len(wanted), CHUNK):
        part = wanted[at : at + CHUNK]
        marks = ", ".join("?" * len(part))
        left.update(row[0] for row in database.each(f"{chosen} WHERE task_id IN ({marks})", part))
    return left


def met(database: Snapshot, tables: Tables, ids: Iterable[int]) -> set[int]:
    """Return the tasks among `ids` that meet a dependency: done or skipped, and merged."""
    rows = rows_by_id(database, tables, ids, ["status"])
    done = {task for task, (status,) in rows.items() if status in MET}
    return done - unmerged_tasks(database, tables, done)


def inferred(status: str, *, waits: bool) -> str:
    """Return the inferred state: a pending task is ready, or waits for others."""
    if status == "pending":
        return "waiting_on_deps" if waits else "ready"
    return INFERRED.get(status, UNKNOWN)


def dependents(
    database: Database, tables: Tables, task: int, status: str | None = None, first: int = -LIMIT
) -> Iterator[dict[str, Any]]:
    """Yield the tasks that depend on this one, by id, with their prerequisites.

    Only tasks with this `status`, if given, and from the id `first` on.
    """
    for row in _naming(database, tables, task, status, first):
        needed = prerequisites(row[3])
        if task in needed:
            title, found_status = plain(row[1]), plain(row[2])
            yield {"id": row[0], "title": title, "status": found_status, "depends_on": needed}


def unreadable_dependents(database: Database, tables: Tables, task: int) -> Iterator[int]:
    """Yield the other tasks with an unreadable `depends_on` that may name this one."""
    rows = _naming(database, tables, task, None, -LIMIT)
    return (row[0] for row in rows if not decode_integers(row[3]).readable)


def _naming(
    database: Database, tables: Tables, task: int, status: str | None, first: int
) -> Iterator[tuple[Any, ...]]:
    """Yield id, title, status and `depends_on` of the other tasks that may name this one, by id.

    Numbers may be spelled in another way (1e1).
    """
    tasks = tables.tasks
    if "depends_on" not in tasks:
        return iter(())
    wanted = "" if status is None else "AND status = ? "
    may_name, values = database.sql.naming(database, task)
    where = f"WHERE id >= ? AND {may_name} AND id <> ? {wanted}ORDER BY id"
    sql = tasks.select(["id", "title", "status", "depends_on"], where)
    more = [] if status is None else [status]
    return database.each(sql, [first, *values, task, *more])


def unblocked(database: Database, tables: Tables, task: int) -> tuple[list[int], bool]:
    """Return the pending tasks that waited for this one and now wait for nothing.

    At most `EXAMINED` dependents are examined; the second value is whether that was all.
    """
    waiting = dependents(database, tables, task, "pending")
    free: list[int] = []
    for _ in range(0, EXAMINED, CHUNK):
        part = [row for row, _ in zip(waiting, range(CHUNK), strict=False)]
        done = met(database, tables, [needed for row in part for needed in row["depends_on"]])
        free += [row["id"] for row in part if done.issuperset(row["depends_on"])]
        if len(part) < CHUNK:
            return free, True
    return free, next(waiting, None) is None


def checked(database: Snapshot, tables: Tables, task: int, ids: Sequence[int]) -> list[int]:
    """Return the ids without repeats.

    Raises `ToolError` if one is the task itself, does not exist, or waits for the task.
    """
    wanted = list(dict.fromkeys(ids))
    rows = rows_by_id(database, tables, wanted, ["depends_on"])
    missing = [needed for needed in wanted if needed not in rows]
    if missing:
        raise ToolError(f'"depends_on" names tasks that do not exist: {_id_list(missing)}')
    if task in wanted:
        raise ToolError(f'task {task} cannot depend on itself: remove {task} from "depends_on"')
    circle = _circle(database, tables, task, wanted)
    if circle:
        raise ToolError(f'"depends_on" would create a cycle: {_id_list(circle, " → ")}')
    return wanted


def _id_list(ids: Sequence[int], between: str = ", ") -> str:
    """Return the ids as text; the middle of a long list is left out."""
    shown = [shortened(task) for task in ids]
    return between.join(shown if len(shown) <= LISTED else [*shown[:-2][:LISTED], "…", shown[-1]])


def _circle(database: Snapshot, tables: Tables, task: int, wanted: Sequence[int]) -> list[int]:
    """Return the path from the task over stored prerequisites back to itself, or an empty list."""
    came_from: dict[int, int] = dict.fromkeys(wanted, task)
    frontier = list(wanted)
    while frontier:
        rows = rows_by_id(database, tables, frontier, ["depends_on"])
        frontier = []
        for step, (stored,) in rows.items():
            for needed in prerequisites(stored):
                if needed == task:
                    way = [task, step]
                    while way[-1] != task:
                        way.append(came_from[way[-1]])
                    return way[::-1]
                if needed not in came_from:
                    came_from[needed] = step
                    frontier.append(needed)
    return []
