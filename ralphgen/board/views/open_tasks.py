"""The tasks that are neither done nor skipped: what they are ready for, and what they wait for."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain
from json import dumps
from operator import itemgetter
from typing import Any

from ralphgen.board.views.stored_text import days_since, line
from ralphgen.board.views.waiting_tasks import Waiting, waiting
from ralphgen.kits.ralph.rows import MET, PRIORITIES, UNKNOWN, Rows, inferred, plain, prerequisites

WORDED = "WHERE trim(blocked_by) <> ''"
NAMED = "WHERE id IN (SELECT value FROM json_each(?))"
READY, WAITS, BLOCKED = "ready", "waiting_on_deps", "externally_blocked"
IN_PROGRESS, DRAFT = "in_progress", "draft"
URGENCY: Mapping[object, int] = {name: rank for rank, name in enumerate(reversed(PRIORITIES))}
NO_URGENCY = len(URGENCY)
PENDING = (READY, WAITS, UNKNOWN)


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """The open tasks, by id; they are named by their place in `ids`.

    `states` are what their statuses come to, in the words of the tools, where words in
    `blocked_by` block a task that can be done too. `missing` holds the ids of tasks that do not
    exist, by the task that waits for them; `unreadable` are those whose `depends_on` cannot be
    read. `urgencies` rank priorities, the most urgent first. `lacks` says what the database has
    no column for.
    """

    ids: Sequence[Any]
    states: Sequence[str]
    urgencies: Sequence[int]
    missing: Mapping[int, tuple[int, ...]]
    unreadable: tuple[int, ...]
    waiting: Waiting
    lacks: str

    def of(self, state: str) -> list[int]:
        """Return the tasks in a state."""
        return [task for task, found in enumerate(self.states) if found == state]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """An open task as a line.

    `state` is ready, waiting_on_deps, externally_blocked, in_progress, draft or unknown, and
    `status` what the database says. `held_up` counts the open tasks that wait for it, also by way
    of others; `waits_for` names open tasks and `missing` ids that do not exist, the first of
    each. `words` say what blocks it, `since` is when it was last changed, `age_days` days ago.
    """

    id: int | str
    title: str
    status: str
    state: str
    feature: str
    discipline: str
    priority: str
    held_up: int
    waits_for: tuple[int | str, ...]
    missing: tuple[int, ...]
    words: str
    since: str
    age_days: int | None


NEEDED = 20
"""Ids that a line names of each kind."""


@dataclass(frozen=True, slots=True)
class ReadTasks:
    """All tasks as they were read once: the open ones by id and by column, and the other ids.

    `counts` are those of the whole project, by feature and status as they are stored.
    """

    columns: Mapping[str, tuple[Any, ...]]
    closed: frozenset[Any]
    counts: Mapping[tuple[Any, Any], int]


def read_tasks(rows: Rows) -> ReadTasks:
    """Read the columns that all lists need, of every task."""
    columns = ["id", "status", "feature", *rows.chosen("tasks", "depends_on", "priority")]
    read = rows.read("tasks", columns, "ORDER BY id")
    still_open = [row for row in read if row[1] not in MET]
    by_column = [*zip(*still_open, strict=True)] or [()] * len(columns)
    return ReadTasks(
        columns=dict(zip(columns, by_column, strict=True)),
        closed=frozenset([row[0] for row in read if row[1] in MET]),
        counts=Counter(map(itemgetter(2, 1), read)),
    )


def open_tasks(rows: Rows, read: ReadTasks) -> OpenTasks:
    """Return the open tasks of the project."""
    ids = read.columns["id"]
    nothing = (None,) * len(ids)
    links = _links(ids, read.columns.get("depends_on", nothing), read.closed)
    waits = {*links.missing, *(task for task, needed in enumerate(links.waiting.needs) if needed)}
    states = _states(read.columns["status"], waits, links.unreadable)
    for task in _worded(rows, ids):
        states[task] = BLOCKED if states[task] in PENDING else states[task]
    priorities = read.columns.get("priority", nothing)
    return OpenTasks(
        ids=ids,
        states=states,
        urgencies=[URGENCY.get(name, NO_URGENCY) for name in priorities],
        missing=links.missing,
        unreadable=links.unreadable,
        waiting=links.waiting,
        lacks=rows.lacks("tasks", "depends_on"),
    )


def task_lines(
    rows: Rows, tasks: OpenTasks, wanted: Iterable[int], today: date
) -> dict[int, TaskLine]:
    """Return the lines of some tasks, by place."""
    places = sorted({*wanted})
    columns = ["id", "title", "status", "feature", "discipline"]
    optional = ["priority", "blocked_by", "updated", "created"]
    columns += rows.chosen("tasks", *optional)
    read = rows.read("tasks", columns, NAMED, _json(tasks, places))
    known = {row[0]: dict(zip(columns, row, strict=True)) for row in read}
    return {task: _line(tasks, task, known.get(tasks.ids[task], {}), today) for task in places}


def last_changed(rows: Rows, tasks: OpenTasks, state: str) -> list[int]:
    """Return the tasks in a state, those first that nobody has touched for longest."""
    found = tasks.of(state)
    columns = ["id", *rows.chosen("tasks", "updated", "created")]
    read = rows.read("tasks", columns, NAMED, _json(tasks, found))
    changed = {one: str(next(filter(None, dates), "")) for one, *dates in read}
    day = {task: changed.get(tasks.ids[task], "") for task in found}
    return sorted(found, key=lambda task: (not day[task], day[task], task))


def shown_id(task_id: object) -> int | str:
    """Return the id of a task; text in a table that allows any."""
    return task_id if isinstance(task_id, int) else line(task_id)


def _line(tasks: OpenTasks, task: int, row: dict[str, Any], today: date) -> TaskLine:
    since = row.get("updated") or row.get("created")
    needed = [*dict.fromkeys(tasks.waiting.needs[task])][:NEEDED]
    return TaskLine(
        id=shown_id(tasks.ids[task]),
        title=line(row.get("title")),
        status=line(row.get("status")),
        state=tasks.states[task],
        feature=line(row.get("feature")),
        discipline=line(row.get("discipline")),
        priority=line(row.get("priority")),
        held_up=tasks.waiting.held_up(task),
        waits_for=tuple(shown_id(tasks.ids[other]) for other in needed),
        missing=tasks.missing.get(task, ())[:NEEDED],
        words=line(row.get("blocked_by")).strip(),
        since=line(since),
        age_days=days_since(since, today),
    )


def _json(tasks: OpenTasks, places: Iterable[int]) -> str:
    """Return the ids of some tasks, for `NAMED`."""
    ids = (tasks.ids[task] for task in places)
    return dumps([one for one in ids if isinstance(one, int | str)])


@dataclass(frozen=True, slots=True)
class _Links:
    """What follows from the ids of tasks and from what they depend on, whatever else changes."""

    waiting: Waiting
    missing: Mapping[int, tuple[int, ...]]
    unreadable: tuple[int, ...]


@lru_cache(maxsize=1)  # most writes of agents change none of it, and it is half of the work
def _links(ids: tuple[Any, ...], stored: tuple[Any, ...], closed: frozenset[Any]) -> _Links:
    """Return the links between open tasks, and the ids that belong to no task."""
    known = prerequisites(stored)
    places = {one: task for task, one in enumerate(ids)}
    lists = [needed or [] for needed in known]
    needs = [[places[one] for one in needed if one in places] for needed in lists]
    gone = {*chain.from_iterable(lists)} - places.keys() - closed
    missing = {
        task: tuple(dict.fromkeys(one for one in needed if one in gone))
        for task, needed in enumerate(lists)
        if gone and not gone.isdisjoint(needed)
    }
    unreadable = tuple(task for task, needed in enumerate(known) if needed is None)
    return _Links(waiting(needs), missing, unreadable)


def _states(
    statuses: Sequence[object], waits: Collection[int], unreadable: Iterable[int]
) -> list[str]:
    """Return the state of each task, as the tools infer it."""
    free = {status: inferred(str(plain(status)), waits=False) for status in {*statuses}}
    held = {status: inferred(str(plain(status)), waits=True) for status in free}
    states = [free[status] for status in statuses]
    for task in waits:
        states[task] = held[statuses[task]]
    for task in unreadable:
        states[task] = UNKNOWN if states[task] == READY else states[task]
    return states


def _worded(rows: Rows, ids: Sequence[Any]) -> list[int]:
    """Return the tasks that have words on what blocks them."""
    if rows.lacks("tasks", "blocked_by"):
        return []
    worded = {one for (one,) in rows.read("tasks", ["id"], WORDED)}
    return [task for task, one in enumerate(ids) if one in worded] if worded else []
