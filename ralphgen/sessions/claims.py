"""The claims of sessions on their tasks, and the computed state of each task."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, RalphgenError, plain
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import stored_tables, writing_tasks
from ralphgen.ledger.tables import now
from ralphgen.project.database import LockedError, open_database, opened_database
from ralphgen.project.model import Schema
from ralphgen.project.root import has_database
from ralphgen.runtime.engine.ledger import MARKER, MET, close_session
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tasks import assignment, claims, needed_tasks
from ralphgen.runtime.tasks.assignment import (
    ASKED,
    BROKEN,
    INTERRUPTED,
    NO_ATTEMPT,
    NOT_MADE,
    RATE_LIMITED,
    RUN_ENDED,
    UNAVAILABLE,
)
from ralphgen.runtime.tasks.claims import NO_FILTER, Claim, TaskFilter, all_claims, is_live
from ralphgen.runtime.tasks.merges import QueuedMerge
from ralphgen.sessions.decide import Request
from ralphgen.sessions.model import PreparedSession, TaskClaim
from ralphgen.sessions.store import CHANCE, new_id, session_folder

__all__ = [
    "ASKED",
    "BROKEN",
    "INTERRUPTED",
    "NOT_MADE",
    "NO_ATTEMPT",
    "RATE_LIMITED",
    "RUN_ENDED",
    "UNAVAILABLE",
]

_TOKEN = re.compile("-[0-9a-f]{16}$")  # ends the id of a session with a token
COLUMNS = ("id", "title", "status", "feature", "discipline", "blocked_by", "depends_on")


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task with the reason why it is blocked, which is empty if none is stored.

    `depends_on` has the ids of the tasks to finish first; empty if they are unreadable.
    """

    id: int
    title: str
    status: str
    feature: str
    discipline: str
    reason: str
    depends_on: tuple[int, ...]

    @property
    def is_open(self) -> bool:
        """Whether work on the task can continue."""
        return self.status in {"pending", "in_progress"}


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task with its computed state and its last claim, or None if it has none."""

    task: StoredTask
    state: str
    claim: Claim | None


def next_tasks(root: Path, schema: Schema, wanted: TaskFilter = NO_FILTER) -> list[int]:
    """Return the ready tasks of a project, the next one first."""
    with open_database(root) as connection:
        return claims.next_tasks(connection, stored_tables(schema), wanted)


def task_states(root: Path) -> list[TaskState]:
    """Return all tasks by id, none in a project of tables alone.

    Raises `ProjectError` if the database cannot be read.
    """
    if Project(root).serves_any_database:
        return []
    with open_database(root) as connection:
        tables = stored_tables(Project(root).schema_in(connection))
        columns = tables.tasks.available_columns(COLUMNS)
        rows = connection.rows(tables.tasks.select(columns, "ORDER BY id"))
        tasks = [_stored(dict(zip(columns, row, strict=True))) for row in rows]
        ready = {*claims.next_tasks(connection, tables)}
        known = all_claims(connection) if tables.ledger else {}
    holders = {task.id: known.get(task.id) if task.is_open else None for task in tasks}
    return [
        TaskState(task, _state(task, holders[task.id], ready), holders[task.id]) for task in tasks
    ]


def task_state(root: Path, task: int) -> str:
    """Return the computed state of a task; "gone" if it does not exist."""
    return next((one.state for one in task_states(root) if one.task.id == task), "gone")


def why_none_is_ready(root: Path, feature: str = "", discipline: str = "") -> Problem:
    """Return why no task can be started, with the command that changes that.

    With a feature or a discipline, only its tasks count. The reason is read after the tasks: it is
    unknown if another program has locked the database since.
    """
    try:
        states = task_states(root)
    except ProjectError:
        return Problem("no task is ready", 'see "ralphgen task list"')
    found = [
        one
        for one in states
        if feature in ("", one.task.feature) and discipline in ("", one.task.discipline)
    ]
    if not found:
        return Problem("no task is ready: no tasks yet", 'create one with "ralphgen task add"')
    by_state: dict[str, list[TaskState]] = {}
    for one in found:
        by_state.setdefault(one.state, []).append(one)
    reasons = ", ".join(_reasons(by_state)) or f"{len(found)} closed"
    return Problem(f"no task is ready: {reasons}", _hint(root, by_state))


def _stored(row: Mapping[str, Any]) -> StoredTask:
    texts = {name: "" if row.get(name) is None else str(row[name]) for name in COLUMNS}
    return StoredTask(
        row["id"],
        texts["title"],
        texts["status"],
        texts["feature"],
        texts["discipline"],
        texts["blocked_by"],
        tuple(needed_tasks(row.get("depends_on")) or ()),
    )


def _state(task: StoredTask, claim: Claim | None, ready: set[int]) -> str:
    is_claimed = claim is not None and is_live(claim)
    if task.status == "in_progress":
        return "claimed" if is_claimed else "stale" if task.id in ready else "in progress"
    if task.status != "pending":
        return task.status
    if task.id in ready:
        return "ready"
    return "claimed" if is_claimed else "waiting"


def _reasons(by_state: dict[str, list[TaskState]]) -> Iterator[str]:
    for state in ("draft", "claimed", "waiting", "blocked", "in progress"):
        tasks = by_state.get(state, ())
        if not tasks:
            continue
        first, text = (
            tasks[0],
            f"{len(tasks)} {state}{'s' if state == 'draft' and len(tasks) > 1 else ''}",
        )
        if state == "claimed" and first.claim is not None:
            text += f" by session {first.claim.session}"
        elif state == "waiting" and first.task.depends_on:
            text += f" for task {_unmet(first, by_state)}"
        elif state == "blocked" and first.task.reason:
            text += f": {first.task.reason}"
        yield plain(text)


def _unmet(waiting: TaskState, by_state: dict[str, list[TaskState]]) -> int:
    """Return the first dependency that is not closed."""
    closed = {one.task.id for state in MET for one in by_state.get(state, ())}
    needed = waiting.task.depends_on
    return next((task for task in needed if task not in closed), needed[0])


def _hint(root: Path, by_state: dict[str, list[TaskState]]) -> str:
    def first(state: str) -> TaskState | None:
        tasks: Sequence[TaskState] = by_state.get(state, ())
        return tasks[0] if tasks else None

    if draft := first("draft"):
        return f'make a draft ready with "ralphgen task status {draft.task.id} pending"'
    if (claimed := first("claimed")) and claimed.claim is not None:
        return ending_hint(root, claimed.claim)
    if left := first("blocked") or first("in progress"):
        return f'make it ready with "ralphgen task status {left.task.id} pending"'
    if waiting := first("waiting"):
        return f'see "ralphgen task show {waiting.task.id}"'
    return 'add one with "ralphgen task add"'


def ending_hint(root: Path, claim: Claim) -> str:
    """Return the command that releases a claimed task from this machine.

    `session end` requires the directory of the session, which a token or another machine's session
    does not have.
    """
    session = plain(str(claim.session))
    if session_folder(root, session) is not None:
        return f'end the session with "ralphgen session end {session}"'
    if _TOKEN.search(session):
        return f'end the session with "ralphgen session revoke {session}"'
    force = f"ralphgen task status {claim.task} pending --force"
    return f'wait for the session, or release its task with "{force}"'


NO_LEDGER = "claims require the ledger, which this project does not have"
TRIES = 3  # to renew a claim in a third of its lease, if the database cannot be written


class ClaimedError(RalphgenError):
    """Another session holds the task (exit code 4)."""

    exit_code = 4


class NothingReadyError(RalphgenError):
    """No task can be begun (exit code 8); with `waits`, running sessions may make one ready."""

    exit_code = 8

    def __init__(self, text: str, hint: str = "", *, waits: bool = False) -> None:
        super().__init__(text, hint)
        self.waits = waits


def claim_task(project: Project, session_id: str, task: int) -> TaskClaim | None:
    """Claim a task for a session; None if the project has no ledger for claims.

    Raises `ClaimedError` if another session has claimed it.
    """
    if project.schema.table(MARKER) is None:
        return None
    lease = project.settings.claims.lease
    with writing_tasks(project.root, project.schema) as (database, tables):
        try:
            token = assignment.claim_task(database, tables, session_id, task, lease)
        except claims.HeldError as error:
            raise claimed(project.root, error.claim) from error
        except claims.MergingError as error:
            raise ClaimedError(str(error), error.hint) from error
    return TaskClaim(project, session_id, task, token)


def claim_next(project: Project, request: Request, chance: int = CHANCE) -> TaskClaim:
    """Take the next task for a new session of the request, whose id it then has.

    `chance` is how many bytes of it the id has. Raises `NothingReadyError`, and
    `ProjectError` in a project without a ledger.
    """
    refuse_without_ledger(project.schema)
    wanted = TaskFilter(request.feature, request.discipline, request.behind)
    lease, attempts = project.settings.claims.lease, project.settings.loop.attempts

    def name(task: int) -> str:
        return new_id(project.root, request.recipe, str(task), chance)

    with writing_tasks(project.root, project.schema) as (database, tables):
        taken = assignment.claim_next(database, tables, wanted, name, lease, attempts)
    if taken is None:
        raise nothing_ready(project, request)
    task, session_id, token = taken
    return TaskClaim(project, session_id, task, token)


def next_task(project: Project, request: Request) -> int:
    """Return the task that would be taken next; raises as `claim_next`, and takes none."""
    refuse_without_ledger(project.schema)
    wanted = TaskFilter(request.feature, request.discipline, request.behind)
    found = next_tasks(project.root, project.schema, wanted)
    if not found:
        raise nothing_ready(project, request)
    return found[0]


def drop_claim(claim: TaskClaim) -> None:
    """Release a task whose session could not be created; this does not count as an attempt.

    If the session took over an earlier claim, it is on record already, and its end is recorded.
    """
    release_claim(claim, NOT_MADE)
    facts = {"ended": now(), "outcome": "failed"}
    with opened_database(claim.root) as database:
        database.writing(lambda: close_session(database, claim.session_id, facts))


def hand_over(claim: TaskClaim) -> None:
    """Let the session's server take over the claim, whichever process starts it."""
    with opened_database(claim.root) as database:
        database.writing(lambda: claims.hand_over(database, claim.task, claim.session_id))


@contextmanager
def keep_claim(claim: TaskClaim | None) -> Iterator[threading.Event]:
    """Renew the claim of a session, if it has one, every third of its lease in the block.

    Yields an event that is set when the claim is lost: the session can no longer write.
    """
    lost = threading.Event()
    if claim is None:
        yield lost
        return
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(claim, over, lost), daemon=True)
    renewing.start()
    try:
        yield lost
    finally:
        over.set()
        renewing.join()


@contextmanager
def claim_during_creation(claim: TaskClaim | None) -> Iterator[None]:
    """Keep a claim, if there is one, while its session is created; drop it if that fails.

    Preparing a worktree may take longer than a lease.
    """
    try:
        with keep_claim(claim):
            yield
    except BaseException:
        if claim is not None:
            with suppress(ProjectError):  # expires with its lease
                drop_claim(claim)
        raise


def end_claim(
    session: PreparedSession,
    outcome: str,
    comment: str = "",
    *,
    reopens: bool = False,
    reason: str = "",
) -> str | None:
    """Release the task of a session that ended with this outcome; return the task's status.

    An in_progress task becomes pending, with a comment; with `reopens`, a done one does too. Unless
    a rate limit ended the session, it counts as an attempt, and the last attempt leaves the task
    blocked. A `reason` blocks the task. Returns None if the session has no claim, or if its task is
    gone. Raises `ProjectError` if the database cannot be written; the claim is then lost with its
    lease.
    """
    claim = session.claim
    if claim is None:
        return None
    return release_claim(claim, outcome, comment, reopens=reopens, reason=reason)


def may_block(schema: Schema) -> bool:
    """Return whether the tasks of a project have a status "blocked"."""
    return stored_tables(schema).may_block


def release_claim(
    claim: TaskClaim,
    outcome: str,
    comment: str = "",
    *,
    reopens: bool = False,
    attempts: int | None = None,
    reason: str = "",
) -> str | None:
    """Let a task go that a session holds; as `end_claim`.

    `attempts` replaces the number of attempts in the settings.
    """
    ended = f'The session "{one_line(claim.session_id)}" ended: {one_line(outcome)}.'
    try:
        project = claim.project
        with writing_tasks(project.root, project.schema) as (database, tables):
            most = attempts or project.settings.loop.attempts
            return database.writing(
                lambda: assignment.end_claim(
                    database,
                    tables,
                    claim.session_id,
                    claim.task,
                    f"{ended} {comment}".strip(),
                    attempts=most,
                    counts=outcome not in NO_ATTEMPT,
                    reopens=reopens,
                    reason=reason,
                )
            )
    except LockedError:  # its next session takes the task over
        raise
    except ProjectError:  # the row of the task cannot be changed: release it at least
        with opened_database(claim.root) as database:
            database.writing(lambda: claims.release(database, claim.task, claim.session_id))
        raise


def return_work(
    project: Project,
    merge: QueuedMerge,
    why: str,
    *,
    batch: int | None,
    runner: str,
    tail: str,
    reason: str,
) -> None:
    """Return an entry of the merge queue to its task, as `return_merge`."""
    facts: dict[str, Any] = {"batch": batch, "runner": runner, "tail": tail, "reason": reason}
    with writing_tasks(project.root, project.schema) as (database, tables):
        database.writing(
            lambda: assignment.return_merge(database, tables, merge, why, **facts),
        )


def release_claim_of(root: Path, session_id: str, outcome: str) -> int | None:
    """Release the task that a session claims, as `end_claim`; return it, or None if it has none."""
    if not has_database(root):
        return None
    project = Project(root)
    if project.schema.table(MARKER) is None:
        return None
    with opened_database(root) as database:
        found = database.reading(lambda: claims.claims(database))
    for task, held in found.items():
        if held.session == session_id:
            release_claim(TaskClaim(project, session_id, task, held.token), outcome)
            return task
    return None


def claimed(root: Path, claim: Claim) -> ClaimedError:
    """Return the error of a task that a session holds."""
    text = f"task {claim.task} is claimed by {claims.holder_of(claim)}"
    return ClaimedError(text, ending_hint(root, claim))


def nothing_ready(project: Project, request: Request) -> NothingReadyError:
    """Return the error of a project without a ready task: it names the reason."""
    problem = why_none_is_ready(project.root, request.feature, request.discipline)
    return NothingReadyError(problem.text, problem.hint)


def refuse_without_ledger(schema: Schema) -> None:
    """Raise `ProjectError` for a project without a ledger, where no task can be claimed."""
    if schema.table(MARKER) is None:
        raise ProjectError(NO_LEDGER, 'add it with "ralphgen db ledger on"')


def _renew(claim: TaskClaim, over: threading.Event, lost: threading.Event) -> None:
    third = claim.lease / 3
    pause = third
    while not over.wait(pause):
        try:
            kept = _renewed(claim)
        except ProjectError:  # the next try may go through before the lease ends
            pause = third / TRIES
            continue
        pause = third
        if not kept:
            lost.set()
            return


def _renewed(claim: TaskClaim) -> bool:
    """Return whether a claim is renewed, or its task closed; False if it is lost."""
    with opened_database(claim.root) as database:
        return database.writing(
            lambda: claims.renew(database, claim.task, claim.session_id, claim.token, claim.lease)
        )
