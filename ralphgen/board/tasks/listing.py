"""The list of tasks: the database searches, filters, sorts and cuts it into pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from ralphgen.board.claims import Hold, holds_of, read_claims
from ralphgen.board.stored_text import line, natural
from ralphgen.board.tasks.query import COLUMNS, OPEN, SORTS, TaskQuery
from ralphgen.board.views.open_tasks import (
    BLOCKED,
    IN_PROGRESS,
    IS_OPEN,
    NO_URGENCY,
    READY,
    URGENCY,
    WAITS,
    open_tasks,
    read_tasks,
    shown_id,
)
from ralphgen.board.views.task_record import ShownPage, page_number, page_of, typed_task
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.tasks.claims import inferred, met, prerequisite_lists
from ralphgen.runtime.tasks.rows import STATUSES, plain

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
    """A task in the list; `state` says in a word more than its status, if there is more.

    A text is empty where nothing is known; `link` is whether it has a page of its own.
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
    """What was found: a `page` of it, or `columns` where those were asked for.

    The names are what the filters offer, and `sorts` the columns that the table has.
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
    """Return what a task has to be like, as SQL with its values."""
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
        patterns = _patterns(asked.search)
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


def _patterns(search: str) -> list[str]:
    """Return what a text is looked for as: SQLite takes Ü and ü for different letters."""
    forms = [search]
    if not search.isascii():
        forms += [search.lower(), search.upper(), search.capitalize()]
    texts = (text.replace("!", "!!").replace("%", "!%").replace("_", "!_") for text in forms)
    return [f"%{text}%" for text in dict.fromkeys(texts)]


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
    waits = _waiting(rows, records)
    return tuple(_task(record, held, record["id"] in waits) for record in records)


def _waiting(rows: Rows, records: Sequence[Mapping[str, Any]]) -> set[object]:
    """Return the ids of those of some tasks that wait for others."""
    needs = prerequisite_lists([record.get("depends_on") for record in records])
    wanted = {one for needed in needs for one in needed or ()}
    done = met(rows.connection, rows.stored, wanted)
    both = zip(records, needs, strict=True)
    return {record["id"] for record, needed in both if not done.issuperset(needed or ())}


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
