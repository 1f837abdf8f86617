"""Computes the state of every task: ready, waiting, claimed, and why no task is ready."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, plain
from ralphgen.init.scaffold import serves_any_database
from ralphgen.kits.ralph.rows import stored_tables
from ralphgen.kits.registry import KITS
from ralphgen.project.database import open_database
from ralphgen.project.inspect import read_schema
from ralphgen.project.model import Schema
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.tasks import readiness
from ralphgen.runtime.tasks.claims import Claim, all_claims, is_live
from ralphgen.runtime.tasks.readiness import NO_FILTER, TaskFilter, needed_tasks

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
        """Whether the task can still be worked on."""
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
        return readiness.next_tasks(connection, stored_tables(schema), wanted)


def task_states(root: Path) -> list[TaskState]:
    """Return all tasks by id, none in a project of tables alone.

    Raises `ProjectError` if the database cannot be read.
    """
    if serves_any_database(root):
        return []
    with open_database(root) as connection:
        tables = stored_tables(read_schema(connection, root, KITS))
        columns = tables.tasks.chosen(COLUMNS)
        rows = connection.rows(tables.tasks.select(columns, "ORDER BY id"))
        tasks = [_stored(dict(zip(columns, row, strict=True))) for row in rows]
        ready = {*readiness.next_tasks(connection, tables)}
        known = all_claims(connection) if tables.ledger else {}
    claims = {task.id: known.get(task.id) if task.is_open else None for task in tasks}
    return [
        TaskState(task, _state(task, claims[task.id], ready), claims[task.id]) for task in tasks
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
    return Problem(f"no task is ready: {reasons}", _hint(by_state))


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


def _hint(by_state: dict[str, list[TaskState]]) -> str:
    def first(state: str) -> TaskState | None:
        tasks: Sequence[TaskState] = by_state.get(state, ())
        return tasks[0] if tasks else None

    if draft := first("draft"):
        return f'make a draft ready with "ralphgen task status {draft.task.id} pending"'
    if (claimed := first("claimed")) and claimed.claim is not None:
        return f'end the session with "ralphgen session end {plain(str(claimed.claim.session))}"'
    if left := first("blocked") or first("in progress"):
        return f'make it ready with "ralphgen task status {left.task.id} pending"'
    if waiting := first("waiting"):
        return f'see "ralphgen task show {waiting.task.id}"'
    return 'add one with "ralphgen task add"'
