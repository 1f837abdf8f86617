"""The list of tasks: its query, the states of open tasks, and their graph."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from heapq import heappush, heappushpop
from itertools import chain
from json import dumps
from typing import Any
from urllib.parse import urlencode

from ralphgen.board.project import Hold, holds_of, read_claims
from ralphgen.board.record import ShownPage, page_number, page_of, typed_task
from ralphgen.board.text import days_since, line, natural
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.engine.ledger import MET
from ralphgen.runtime.tasks.claims import (
    PRIORITIES,
    UNKNOWN,
    in_order,
    inferred,
    met,
    prerequisite_lists,
    waiters,
)
from ralphgen.runtime.tasks.rows import STATUSES, plain

ADDRESS = "/tasks"
OPEN = "open"
"""The value of the filter for all statuses that are not closed."""
STATES: Mapping[str, str] = {
    "ready": "ready",
    "held": "claimed by a session",
    "stale": "stale",
    "blocked": "blocked",
    "waiting": "waits for tasks",
    "adrift": "waits for what is not there",
    "unreadable": "waits for what cannot be read",
}
"""What a task can come to, by the word in an address, as people say it."""
SORTS: Mapping[str, str] = {
    "id": "Id",
    "title": "Title",
    "status": "Status",
    "priority": "Priority",
    "feature": "Feature",
    "discipline": "Discipline",
    "updated": "Updated",
}
"""The columns by which the list can be put in order, as people say them."""
COLUMNS = "columns"
"""The view that has a column for each status; any other is the table."""
LONGEST = 200  # characters of a search, or of a name in a filter


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """The query of the list; unspecified texts are empty.

    `search` is looked for in titles and descriptions, or is an id. `state` is one of `STATES`,
    `sort` one of `SORTS`, and `down` reverses the order. Pages count from 1.
    """

    search: str = ""
    status: str = ""
    feature: str = ""
    discipline: str = ""
    state: str = ""
    sort: str = "id"
    down: bool = False
    view: str = ""
    page: int = 1

    def is_plain(self) -> bool:
        """Return whether only the order and the view are specified."""
        return self == TaskQuery(sort=self.sort, down=self.down, view=self.view)

    def address(self, **changes: str | int | bool) -> str:
        """Return the address of the list with some changes; by default of its first page."""
        usual = TaskQuery()
        asked = {name: getattr(self, name) for name in self.__slots__}
        asked |= {"page": 1, **changes}
        said = {name: value for name, value in asked.items() if value != getattr(usual, name)}
        if said.pop("down", False):
            said["order"] = "down"
        if "search" in said:
            said["q"] = said.pop("search")
        return f"{ADDRESS}?{urlencode(said)}" if said else ADDRESS

    def sorted_by(self, column: str) -> str:
        """Return the address of the list in another order; of the same, the other way round."""
        return self.address(sort=column, down=self.sort == column and not self.down)


def task_query(fields: Mapping[str, str]) -> TaskQuery:
    """Return the query in the fields of an address; invalid values are ignored."""
    page, sort, state = fields.get("page", ""), fields.get("sort", ""), fields.get("state", "")
    words = {name: fields.get(name, "")[:LONGEST] for name in ("status", "feature", "discipline")}
    return TaskQuery(
        search=fields.get("q", "")[:LONGEST].strip(),
        **words,
        state=state if state in STATES else "",
        sort=sort if sort in SORTS else "id",
        down=fields.get("order") == "down",
        view=COLUMNS if fields.get("view") == COLUMNS else "",
        page=max(1, int(page)) if re.fullmatch("[0-9]{1,7}", page) else 1,
    )


Needs = Sequence[Sequence[int]]
"""Task by task, the others that it waits for; a task is its place in a list."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The consequences of the tasks' dependencies.

    `circles` are tasks that wait for each other, or for themselves, and so never become ready.
    `behind` holds, for each task, a number with one bit for each other task that waits for it,
    directly or indirectly.
    """

    needs: Needs
    circles: tuple[tuple[int, ...], ...]
    behind: Sequence[int]

    def held_up(self, task: int) -> int:
        """Return how many other tasks wait for a task, also by way of others."""
        return self.behind[task].bit_count()

    def most(self, count: int) -> list[int]:
        """Return the tasks that hold up the most others, worst first, if they hold up any.

        Counting the bits of all tasks would take as long as everything else. Only tasks that may
        exceed the ones found so far are counted.
        """
        found: list[tuple[int, int]] = []
        lengths = [number.bit_length() for number in self.behind]
        for task in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            if not lengths[task] or (len(found) == count and lengths[task] < found[0][0]):
                break
            add = heappushpop if len(found) == count else heappush
            add(found, (self.held_up(task), -task))
        return [-task for _, task in sorted(found, reverse=True)]


def waiting(needs: Needs) -> Waiting:
    """Return circles and dependents, given the tasks that each task waits for."""
    order, groups = in_order(needs)
    circles = sorted(
        tuple(sorted(group)) for group in groups if len(group) > 1 or group[0] in needs[group[0]]
    )
    return Waiting(needs, tuple(circles), waiters(needs, order, groups))


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
    """The open tasks, by id; they are referred to by their position in `ids`.

    `states` are the states of their statuses, in the words of the tools; a text in `blocked_by`
    also blocks a ready task. `missing` holds the ids of missing tasks, by the task that waits for
    them; `unreadable` are tasks with an invalid `depends_on`. `urgencies` rank priorities, most
    urgent first. `holds` are the claims by task. `lacks` names the missing columns of the database.
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
        """Return the relevant claim of a task: a current one, or one that makes it stale."""
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
    `status` the stored status. `held_up` counts the open tasks that wait for it, directly or
    indirectly; `waits_for` names open tasks and `missing` unknown ids, the first of each. `words`
    are the reason for a block, `since` is the time of its last change, `age_days` days ago. `hold`
    is its current claim, or the abandoned one that makes it stale.
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
    """The open tasks as read once, by column: the first `MOST_OPEN`, by id.

    `counts` are the numbers of all tasks of the project, by stored feature and status.
    """

    columns: Mapping[str, tuple[Any, ...]]
    counts: Mapping[tuple[Any, Any], int]

    @property
    def open_total(self) -> int:
        """Return the number of open tasks, including those that were not read."""
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
    """Return the tasks in a state, longest untouched first."""
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
    """Return which of these tasks are closed, and which are open."""
    found = rows.named("tasks", ["id"], dumps([*named])) if named else []
    closed = frozenset(met(rows.connection, rows.stored, named))
    return closed, frozenset(one for (one,) in found) - closed


@lru_cache(maxsize=1)  # it is half of the work
def _links(
    ids: tuple[Any, ...], stored: tuple[Any, ...], others: frozenset[Any]
) -> tuple[Waiting, Mapping[int, tuple[int, ...]], tuple[int, ...]]:
    """Return the dependencies of tasks, the ids without a task, and the unreadable tasks.

    `others` are referenced tasks that are not among these.
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


NODES = 60
CIRCLES = 5
NEIGHBOURS = 6
"""Of a task that holds up others, so many before it and behind it are drawn at first."""

WIDTH, HEIGHT = 180, 40
BETWEEN_LAYERS, BETWEEN_NODES, MARGIN = 60, 14, 10
NAMED = 8  # ids in a sentence


@dataclass(frozen=True, slots=True)
class Node:
    """A task as a box; `x` and `y` are its upper left corner.

    `layer` counts the tasks to be done before it: a task in layer 0 waits for no drawn one.
    `sentence` describes the drawing for users who cannot see it.
    """

    task: TaskLine
    layer: int
    x: int
    y: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from the right side of a task to the left side of a task that waits for it.

    `circle` is set if the two wait for each other, directly or indirectly: they never become ready.
    """

    needed: int | str
    waits: int | str
    x1: int
    y1: int
    x2: int
    y2: int
    circle: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing of `width` by `height`; nodes by layer, from the top.

    `left_out` counts the open tasks that wait or are waited for and have no place in it.
    """

    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int


def drawn_tasks(waiting: Waiting, most: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the tasks to draw, by position, and the number of other linked tasks.

    If there are few linked tasks, all are drawn; else some of the cycles, and the tasks that hold
    up the most others, with their neighbours.
    """
    needs = waiting.needs
    linked = {task for task, needed in enumerate(needs) if needed}
    linked.update(chain.from_iterable(needs))
    if len(linked) <= NODES:
        return tuple(sorted(linked)), 0
    circles = chain.from_iterable(circle[:2] for circle in waiting.circles[:CIRCLES])
    heads = dict.fromkeys((*circles, *most))
    behind: dict[int, list[int]] = {head: [] for head in heads}
    for task, needed in enumerate(needs):
        if needed and not heads.keys().isdisjoint(needed):
            for head in heads.keys() & needed:
                behind[head].append(task)
    chosen: dict[int, None] = {}
    for head in heads:
        around = (_nearest(waiting, needs[head]), _nearest(waiting, behind[head]))
        chosen.update(dict.fromkeys((head, *chain(*around))))
        if len(chosen) >= NODES:
            break
    drawn = sorted([*chosen][:NODES])
    return tuple(drawn), len(linked) - len(drawn)


def graph(waiting: Waiting, lines: Mapping[int, TaskLine], left_out: int = 0) -> Graph:
    """Return the drawing of the tasks in `lines`, by their places; the same for the same ones."""
    circle = {task: at for at, tasks in enumerate(waiting.circles) for task in tasks}
    needs = {
        task: [other for other in dict.fromkeys(waiting.needs[task]) if other in lines]
        for task in sorted(lines)
    }
    layers = _layers(needs, circle)
    columns = _columns(needs, layers, [line.held_up for line in map(lines.get, needs) if line])
    places = {
        task: (MARGIN + at * (WIDTH + BETWEEN_LAYERS), MARGIN + row * (HEIGHT + BETWEEN_NODES))
        for at, column in enumerate(columns)
        for row, task in enumerate(column)
    }
    nodes = tuple(
        Node(lines[task], layers[task], *places[task], _sentence(task, needs, lines))
        for task in chain.from_iterable(columns)
    )
    edges = tuple(
        Edge(
            needed=lines[other].id,
            waits=lines[task].id,
            x1=places[other][0] + WIDTH,
            y1=places[other][1] + HEIGHT // 2,
            x2=places[task][0],
            y2=places[task][1] + HEIGHT // 2,
            circle=_together(circle, task, other),
        )
        for task in needs
        for other in needs[task]
    )
    right = max((x for x, _ in places.values()), default=-WIDTH - MARGIN) + WIDTH + MARGIN
    lower = max((y for _, y in places.values()), default=-HEIGHT - MARGIN) + HEIGHT + MARGIN
    return Graph(right, lower, nodes, edges, left_out)


def _nearest(waiting: Waiting, tasks: Sequence[int]) -> list[int]:
    """Return the first few of the tasks that hold up most."""
    return sorted(tasks, key=lambda task: (-waiting.held_up(task), task))[:NEIGHBOURS]


def _together(circle: Mapping[int, int], task: int, other: int) -> bool:
    return task in circle and circle[task] == circle.get(other)


def _layers(needs: Mapping[int, Sequence[int]], circle: Mapping[int, int]) -> dict[int, int]:
    """Return the longest path to each task; tasks of one circle are in one layer."""
    layers = dict.fromkeys(needs, 0)
    changed = True
    while changed:
        changed = False
        for task, needed in needs.items():
            least = max(
                (layers[other] + (not _together(circle, task, other)) for other in needed),
                default=0,
            )
            if least > layers[task]:
                layers[task], changed = least, True
    return layers


def _columns(
    needs: Mapping[int, Sequence[int]], layers: Mapping[int, int], held_up: Sequence[int]
) -> list[list[int]]:
    """Return the tasks of each layer from the top, close to their dependencies."""
    weight = dict(zip(needs, held_up, strict=True))
    rows: dict[int, float] = {}
    columns: list[list[int]] = []
    for layer in range(max(layers.values(), default=-1) + 1):
        column = [task for task in needs if layers[task] == layer]
        above = {task: [rows[one] for one in needs[task] if one in rows] for task in column}
        middle = {task: sum(found) / len(found) if found else 0.0 for task, found in above.items()}
        column.sort(key=lambda task: (middle[task], -weight[task], task))
        rows.update({task: row for row, task in enumerate(column)})
        columns.append(column)
    return columns


def _sentence(task: int, needs: Mapping[int, Sequence[int]], lines: Mapping[int, TaskLine]) -> str:
    """Return a sentence on everything that is drawn of a task."""
    line = lines[task]
    dependents = [other for other, needed in needs.items() if task in needed]
    parts = [f'task {line.id} "{line.title}" is {line.status}']
    if needs[task]:
        parts.append(f"waits for {_task_names(needs[task], lines)}")
    if dependents:
        parts.append(f"is waited for by {_task_names(dependents, lines)}")
    if line.held_up > len(dependents):
        parts.append(f"holds up {line.held_up} in all")
    return ", ".join(parts)


def _task_names(tasks: Sequence[int], lines: Mapping[int, TaskLine]) -> str:
    names = [str(lines[task].id) for task in tasks[:NAMED]]
    more = [f"{len(tasks) - NAMED} more"] if len(tasks) > NAMED else []
    *first, last = [*names, *more]
    return f"{', '.join(first)} and {last}" if first else last


A_PAGE = 50
A_COLUMN = 20
MOST_COLUMNS = 12
MOST_NAMES = 500
"""Features or disciplines that the filter offers."""
SEARCHED = ("title", "description")
LISTED = ("id", "title", "status", "feature", "discipline")
OPTIONAL = ("priority", "depends_on", "blocked_by", "updated", "created")
RANKED = (
    "CASE PRIORITY "
    + " ".join(f"WHEN '{name}' THEN {rank}" for name, rank in URGENCY.items())
    + f" ELSE {NO_URGENCY} END"
)
COUNT_BY_STATUS = "SELECT STATUS, COUNT(*) FROM tasks WHERE GIVEN GROUP BY 1"
DISTINCT = "SELECT DISTINCT NAME FROM tasks LIMIT ?"
Condition = tuple[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task in the list; `state` adds a word to its status, if needed.

    Unknown values are empty; `link` is whether it has its own page.
    """

    id: int | str
    title: str
    status: str
    state: str
    feature: str
    discipline: str
    priority: str
    updated: str
    holder: str
    link: bool


@dataclass(frozen=True, slots=True)
class StatusColumn:
    """The first tasks of a status, and how many have it."""

    status: str
    total: int
    tasks: tuple[ListedTask, ...]


@dataclass(frozen=True, slots=True)
class TaskListing:
    """The results: a `page` of them, or `columns` if these were requested.

    The names are the options of the filters, and `sorts` the columns of the table.
    """

    total: int
    page: ShownPage[ListedTask] | None
    columns: tuple[StatusColumn, ...]
    statuses: tuple[str, ...]
    features: tuple[str, ...]
    disciplines: tuple[str, ...]
    sorts: tuple[str, ...]


def task_listing(rows: Rows, asked: TaskQuery) -> TaskListing:
    """Return the tasks that are asked for; no more of them are read than are shown."""
    known = _counted(rows, ("1 = 1", ()))
    condition = _condition(rows, asked)
    counts = known if condition == _condition(rows, TaskQuery()) else _counted(rows, condition)
    total = sum(counts.values())
    page, columns = None, tuple[StatusColumn, ...]()
    if asked.view == COLUMNS:
        columns = tuple(
            StatusColumn(line(status), counts[status], _read(rows, asked, condition, status))
            for status in _in_order(counts)[:MOST_COLUMNS]
        )
    else:
        number = page_number(asked.page, total, A_PAGE)
        found = _listed(rows, asked, condition, A_PAGE, (number - 1) * A_PAGE)
        page = page_of(number, total, A_PAGE, found)
    return TaskListing(
        total=total,
        page=page,
        columns=columns,
        statuses=tuple(dict.fromkeys([*STATUSES, *map(line, _in_order(known))])),
        features=_names(rows, "feature"),
        disciplines=_names(rows, "discipline"),
        sorts=tuple(rows.chosen("tasks", *SORTS)),
    )


def _read(
    rows: Rows, asked: TaskQuery, condition: Condition, status: object
) -> tuple[ListedTask, ...]:
    """Return the first tasks of a column."""
    where, values = condition
    own: Condition = (f"{where} AND {rows.exactly('status')} = ?", (*values, status))
    if status is None:
        own = (f"{where} AND status IS NULL", values)
    return _listed(rows, asked, own, A_COLUMN, 0)


def _condition(rows: Rows, asked: TaskQuery) -> Condition:
    """Return the query as an SQL condition with its values."""
    clauses, values = ["1 = 1"], list[object]()
    if asked.status == OPEN:
        clauses.append(IS_OPEN.replace("STATUS", rows.exactly("status")))
    for column in ("status", "feature", "discipline"):
        given = getattr(asked, column)
        if given and (column, given) != ("status", OPEN):
            clauses.append(f"{rows.exactly(column)} = ?")
            values.append(given)
    if asked.search:
        likes = rows.connection.sql.holds("{}")
        columns = rows.chosen("tasks", *SEARCHED)
        forms = [asked.search]
        if not asked.search.isascii():  # SQLite takes Ü and ü for different letters
            forms += [asked.search.lower(), asked.search.upper(), asked.search.capitalize()]
        texts = (text.replace("!", "!!").replace("%", "!%").replace("_", "!_") for text in forms)
        patterns = [f"%{text}%" for text in dict.fromkeys(texts)]
        found = [likes.format(column) for column in columns for _ in patterns]
        values += patterns * len(columns)
        task = typed_task(asked.search)
        if task is not None:
            found.append("id = ?")
            values.append(task)
        clauses.append(f"({' OR '.join(found)})")
    if asked.state:
        clauses.append(rows.connection.sql.among("id"))
        values.append(dumps(_in_state(rows, asked.state)))
    return " AND ".join(clauses), tuple(values)


def _in_state(rows: Rows, state: str) -> list[object]:
    """Return the ids of the open tasks in a state: the same as the lists below name."""
    tasks = open_tasks(rows, read_tasks(rows))
    holds = {
        task: hold
        for task, one in enumerate(tasks.ids)
        if one in tasks.holds
        for hold in [tasks.hold(task)]
        if hold is not None
    }
    held = {task for task, hold in holds.items() if hold.live}
    found: Mapping[str, Sequence[int]] = {
        "ready": [task for task in tasks.of(READY) if task not in held],
        "held": [*held],
        "stale": [task for task in holds if task not in held],
        "blocked": tasks.of(BLOCKED),
        "waiting": tasks.of(WAITS),
        "adrift": [*tasks.missing],
        "unreadable": tasks.unreadable,
    }
    ids = (tasks.ids[task] for task in found[state])
    return [one for one in ids if isinstance(one, int)]


def _counted(rows: Rows, condition: Condition) -> dict[Any, int]:
    where, values = condition
    sql = COUNT_BY_STATUS.replace("STATUS", rows.exactly("status")).replace("GIVEN", where)
    counts: dict[Any, int] = {}
    for status, count in rows.execute(sql, *values):
        counts[status] = counts.get(status, 0) + count
    return counts


def _in_order(counts: Mapping[Any, int]) -> list[Any]:
    """Return statuses: the known ones in their order, then others, the most frequent first."""
    others = sorted(set(counts) - {*STATUSES}, key=lambda one: (-counts[one], str(one)))
    return [*(status for status in STATUSES if status in counts), *others]


def _names(rows: Rows, column: str) -> tuple[str, ...]:
    """Return the features or disciplines of all tasks, as people put them in order."""
    sql = DISTINCT.replace("NAME", rows.exactly(column))
    found = (name for (name,) in rows.execute(sql, MOST_NAMES) if isinstance(name, str) and name)
    return tuple(sorted(found, key=lambda name: (natural(name), name)))


def listed_tasks(rows: Rows, ids: Sequence[int]) -> tuple[ListedTask, ...]:
    """Return those tasks that there are of these ids, by id."""
    condition = rows.connection.sql.among("id"), (dumps([*ids]),)
    return _listed(rows, TaskQuery(), condition, len(ids), 0)


def _listed(
    rows: Rows, asked: TaskQuery, condition: Condition, most: int, offset: int
) -> tuple[ListedTask, ...]:
    """Return some of the tasks, in the order that is asked for."""
    columns = [*LISTED, *rows.chosen("tasks", *OPTIONAL)]
    where, values = condition
    by = asked.sort if asked.sort in columns else "id"
    ranked = RANKED.replace("PRIORITY", rows.exactly("priority"))
    key = {"id": "id", "priority": ranked}.get(by, rows.exactly(by))
    way = "DESC" if asked.down else "ASC"
    ordered = f"{key} {way}" if by == "id" else f"{key} {way}, id {way}"
    rest = f"WHERE {where} ORDER BY {ordered} LIMIT ? OFFSET ?"
    read = rows.read("tasks", columns, rest, *values, most, offset)
    records = [dict(zip(columns, row, strict=True)) for row in read]
    held = holds_of(read_claims(rows), anywhere=False) if records else {}
    needs = prerequisite_lists([record.get("depends_on") for record in records])
    wanted = {one for needed in needs for one in needed or ()}
    done = met(rows.connection, rows.stored, wanted)
    both = zip(records, needs, strict=True)
    waits = {record["id"] for record, needed in both if not done.issuperset(needed or ())}
    return tuple(_task(record, held, record["id"] in waits) for record in records)


def _task(record: Mapping[str, Any], held: Mapping[int, Hold], waits: bool) -> ListedTask:
    task, stored = record["id"], record["status"]
    status = line(stored)
    state = inferred(str(plain(stored)), waits=waits)
    hold = held.get(task) if isinstance(task, int) else None
    word = {READY: "ready", WAITS: "waits"}.get(state, "")
    if record.get("blocked_by") and word:
        word = "blocked"
    if hold is not None and hold.live:
        word = "held"
    elif hold is not None and hold.begun and state == IN_PROGRESS:
        word = "stale"
    return ListedTask(
        id=shown_id(task),
        title=line(record["title"]),
        status=status,
        state=word,
        feature=line(record["feature"]),
        discipline=line(record["discipline"]),
        priority=line(record.get("priority")),
        updated=line(record.get("updated") or record.get("created")),
        holder=hold.session if hold is not None and word in ("held", "stale") else "",
        link=isinstance(task, int) and task >= 0,
    )
