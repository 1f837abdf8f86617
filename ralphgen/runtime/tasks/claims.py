"""Claims on tasks, with a lease and a token: who may take, keep and release one.

A claim is a row of `ralphgen_claims`, which remains after its release: the token only grows, so an
old one identifies a session that lost its claim. No caller waits for a claim.
"""

from __future__ import annotations

import os
import time

from ..engine.closing import MET
from ..errors import StartError, ToolError, one_line
from ..policy import FULL
from ..system import is_below_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..engine import Database, Snapshot
    from .rows import Actor, Tables

    Place = tuple[str, str, str]  # host, boot and pid namespace; empty if unknown

COLUMNS = (
    "task_id, session, token, taken, expires, host, boot, namespace, pid, started, began, attempts"
)
UNRELEASED = f"SELECT {COLUMNS} FROM ralphgen_claims WHERE session IS NOT NULL"
_LAST = f"{UNRELEASED} ORDER BY coalesce(expires, '') DESC LIMIT ?"
_PLACES = ", ".join("?" * len(COLUMNS.split()))
_TAKEN = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS.split(", ")[1:])
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
    here = _here()
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
    claim counts as an attempt. Raises `HeldError` if another session claims the task.
    """
    old = claim_of(database, task)
    if old is not None and is_live(old):
        raise HeldError(old)
    token = 1 if old is None else old.token + 1
    attempts = 0 if old is None else old.attempts + (old.session is not None)
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


def refuse_lost(database: Database, task: int, session: str, token: int) -> None:
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
    sql = f"UPDATE ralphgen_claims SET {emptied}, token = token + ? WHERE task_id = ?"
    owner = "session IS NOT NULL" if session is None else "session = ?"
    values = [int(fence), task, *([] if session is None else [session])]
    return database.change(f"{sql} AND {owner}", values) > 0


def add_attempt(database: Database, task: int) -> int:
    """Count an attempt that ended without closing the task; return the new number."""
    sql = "UPDATE ralphgen_claims SET attempts = attempts + 1 WHERE task_id = ?"
    database.change(sql, [task])
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
    """Remove the claim and the attempts of a task that is deleted or new, in a transaction."""
    if tables.ledger:
        release(database, task)
        forget_attempts(database, task)


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
    return *_here(), pid, _start_of(pid)


def _here() -> Place:
    """Return the identity of this machine: empty if the system does not support it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return os.uname().nodename, boot, os.readlink("/proc/self/ns/pid")
    except (OSError, AttributeError):  # it is no Linux
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
