"""The tasks that are neither done nor skipped: what state they are in, and which wait for which."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain
from json import dumps
from typing import Any

from ralphgen.board.claims import Hold, holds_of, read_claims
from ralphgen.board.stored_text import days_since, line
from ralphgen.board.views.waiting import Waiting, waiting
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.tasks.claims import PRIORITIES, UNKNOWN, inferred, met, prerequisite_lists
from ralphgen.runtime.tasks.rows import plain

MOST_OPEN = 20_000
"""Open tasks that are looked at; what follows from all of many more would fill the memory."""
IS_OPEN = f"(status IS NULL OR STATUS NOT IN {MET})"
OPEN_TASKS = f"WHERE {IS_OPEN} ORDER BY id LIMIT ?"
COUNT_BY_FEATURE = "SELECT FEATURE, STATUS, COUNT(*) FROM tasks GROUP BY 1, 2"
WORDED = f"WHERE trim(blocked_by) <> '' AND {IS_OPEN} ORDER BY id LIMIT ?"
READY, WAITS, BLOCKED = "ready", "waiting_on_deps", "externally_blocked"
IN_PROGRESS, DRAFT = "in_progress", "draft"
URGENCY: Mapping[object, int] = {name: rank for rank, name in enumerate(PRIORITIES)}
NO_URGENCY = len(URGENCY)
PENDING = (READY, WAITS, UNKNOWN)
NEEDED = 20
"""Ids that a line names of each kind."""


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """The open tasks, by id; they are named by their place in `ids`.

    `states` are what their statuses come to, in the words of the tools, where words in
    `blocked_by` block a task that can be done too. `missing` holds the ids of tasks that do not
    exist, by the task that waits for them; `unreadable` are those whose `depends_on` cannot be
    read. `urgencies` rank priorities, the most urgent first. `holds` are the claims by task.
    `lacks` says what the database has no column for.
    """

    ids: Sequence[Any]
    states: Sequence[str]
    urgencies: Sequence[int]
    missing: Mapping[int, tuple[int, ...]]
    unreadable: tuple[int, ...]
    waiting: Waiting
    holds: Mapping[int, Hold]
    lacks: str

    def hold(self, task: int) -> Hold | None:
        """Return the claim that says something of a task: it is held now, or it is stale."""
        found = self.holds.get(self.ids[task])
        if found is None or found.live:
            return found
        return found if found.begun and self.states[task] == IN_PROGRESS else None

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
    `hold` is the claim of who holds it, or of who left it, which makes it stale.
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
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class ReadTasks:
    """The open tasks as they were read once, by column: the first `MOST_OPEN`, by id.

    `counts` are those of all tasks of the project, by feature and status as they are stored.
    """

    columns: Mapping[str, tuple[Any, ...]]
    counts: Mapping[tuple[Any, Any], int]

    @property
    def open_total(self) -> int:
        """Return how many open tasks there are, those that were not read too."""
        return sum(count for (_, status), count in self.counts.items() if status not in MET)


def read_tasks(rows: Rows) -> ReadTasks:
    """Read the columns that all lists need."""
    columns = ["id", "status", "feature", *rows.chosen("tasks", "depends_on", "priority")]
    read = rows.read(
        "tasks", columns, OPEN_TASKS.replace("STATUS", rows.exactly("status")), MOST_OPEN
    )
    by_column = [*zip(*read, strict=True)] or [()] * len(columns)
    counted = COUNT_BY_FEATURE.replace("FEATURE", rows.exactly("feature"))
    counts = Counter[tuple[Any, Any]]()
    for feature, status, count in rows.execute(counted.replace("STATUS", rows.exactly("status"))):
        counts[feature, status] += count
    return ReadTasks(dict(zip(columns, by_column, strict=True)), counts)


def open_tasks(rows: Rows, read: ReadTasks, *, anywhere: bool = False) -> OpenTasks:
    """Return the open tasks of the project; `anywhere` judges claims by their leases alone."""
    ids = read.columns["id"]
    nothing = (None,) * len(ids)
    stored = read.columns.get("depends_on", nothing)
    closed, unread = _others(rows, _named(ids, stored))
    links, missing, unreadable = _links(ids, stored, closed | unread)
    waits = {*missing, *(task for task, needed in enumerate(links.needs) if needed)}
    if unread:
        known = enumerate(_prerequisites(stored))
        waits.update(task for task, needed in known if not unread.isdisjoint(needed or ()))
    states = _states(read.columns["status"], waits, unreadable)
    for task in _worded(rows, ids):
        states[task] = BLOCKED if states[task] in PENDING else states[task]
    priorities = read.columns.get("priority", nothing)
    return OpenTasks(
        ids=ids,
        states=states,
        urgencies=[URGENCY.get(name, NO_URGENCY) for name in priorities],
        missing=missing,
        unreadable=unreadable,
        waiting=links,
        holds=holds_of(read_claims(rows), anywhere=anywhere),
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
    read = rows.named("tasks", columns, _json(tasks, places))
    known = {row[0]: dict(zip(columns, row, strict=True)) for row in read}
    return {task: _line(tasks, task, known.get(tasks.ids[task], {}), today) for task in places}


def last_changed(rows: Rows, tasks: OpenTasks, state: str) -> list[int]:
    """Return the tasks in a state, those first that nobody has touched for longest."""
    found = tasks.of(state)
    columns = ["id", *rows.chosen("tasks", "updated", "created")]
    read = rows.named("tasks", columns, _json(tasks, found))
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
        hold=tasks.hold(task),
    )


def _json(tasks: OpenTasks, places: Iterable[int]) -> str:
    """Return the ids of some tasks, for `Rows.named`."""
    ids = (tasks.ids[task] for task in places)
    return dumps([one for one in ids if isinstance(one, int | str)])


_prerequisites = lru_cache(maxsize=1)(prerequisite_lists)  # most writes of agents change none of it


@lru_cache(maxsize=1)
def _named(ids: tuple[Any, ...], stored: tuple[Any, ...]) -> frozenset[int]:
    """Return the ids that tasks wait for and that are not among them."""
    needed = chain.from_iterable(found or () for found in _prerequisites(stored))
    return frozenset(needed).difference(ids)


def _others(rows: Rows, named: Collection[int]) -> tuple[frozenset[Any], frozenset[Any]]:
    """Return which of these tasks nobody waits for any more, and which are open."""
    found = rows.named("tasks", ["id"], dumps([*named])) if named else []
    closed = frozenset(met(rows.connection, rows.stored, named))
    return closed, frozenset(one for (one,) in found) - closed


@lru_cache(maxsize=1)  # it is half of the work
def _links(
    ids: tuple[Any, ...], stored: tuple[Any, ...], others: frozenset[Any]
) -> tuple[Waiting, Mapping[int, tuple[int, ...]], tuple[int, ...]]:
    """Return which tasks wait for which, the ids that are no task's, and the unreadable tasks.

    `others` are the tasks that are named and not among these.
    """
    known = _prerequisites(stored)
    places = {one: task for task, one in enumerate(ids)}
    lists = [needed or [] for needed in known]
    needs = [[places[one] for one in needed if one in places] for needed in lists]
    gone = {*chain.from_iterable(lists)} - places.keys() - others
    missing = {
        task: tuple(dict.fromkeys(one for one in needed if one in gone))
        for task, needed in enumerate(lists)
        if gone and not gone.isdisjoint(needed)
    }
    unreadable = tuple(task for task, needed in enumerate(known) if needed is None)
    return waiting(needs), missing, unreadable


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
    open_ones = WORDED.replace("STATUS", rows.exactly("status"))
    worded = {one for (one,) in rows.read("tasks", ["id"], open_ones, MOST_OPEN)}
    return [task for task, one in enumerate(ids) if one in worded] if worded else []
