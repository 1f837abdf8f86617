"""The tasks in groups: the next ones in the order of agents, and the reasons of the others."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.inbox import items_of
from ralphgen.board.live import LOOPS, Hold, holds_of, read_claims
from ralphgen.board.render import Desk
from ralphgen.board.text import line, natural, number_of, query_of
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.engine.ledger import MET, WAITING
from ralphgen.runtime.tasks.claims import (
    BLOCKED,
    IN_PROGRESS,
    LIMIT,
    PENDING,
    PRIORITIES,
    in_order,
    next_tasks,
    prerequisite_lists,
    unmerged_tasks,
    waiting,
)
from ralphgen.runtime.tasks.rows import plain

NEXT, PROGRESS, NEEDS, WAITS = "next", "progress", "needs", "waiting"
OTHER, DRAFTS, DONE = "other", "drafts", "done"
STALE, ADRIFT, UNREADABLE, CIRCLE = "stale", "adrift", "unreadable", "circle"


@dataclass(frozen=True, slots=True)
class Kind:
    """A group of tasks; a tile that is dropped on its column gets its `status`."""

    title: str
    mark: str
    status: str = ""
    hint: str = ""


KINDS: Mapping[str, Kind] = {
    NEXT: Kind("Up next", "ready", PENDING, "the order agents take them"),
    PROGRESS: Kind("In progress", "run", IN_PROGRESS),
    NEEDS: Kind("Needs you", "stuck", BLOCKED),
    WAITS: Kind("Waiting", "wait", PENDING, "for other tasks"),
    OTHER: Kind("Other", "other", "", "with a status that agents do not take"),
    DRAFTS: Kind("Drafts", "draft", "draft"),
    DONE: Kind("Done", "done", "done"),
}
COLUMNS = (DRAFTS, WAITS, NEXT, PROGRESS, NEEDS, DONE, OTHER)
STATES: Mapping[str, str] = {
    **{name: kind.title for name, kind in KINDS.items()},
    STALE: "Stale",
    ADRIFT: "Waiting for a missing task",
    UNREADABLE: "Unreadable dependencies",
    CIRCLE: "Waiting in a circle",
}
FILTERS = ("feature", "discipline", "priority")
LONGEST, LONGEST_TITLE = 200, 120  # characters of a search or a name; of a title in a row
A_GROUP, A_COLUMN, A_PAGE = 50, 25, 100  # rows of a group, of a column, of a group alone
MOST_ROWS, MOST_NAMES, NAMED = 200, 200, 2  # rows of a page; options of a filter; tasks in a row
MOST_KEPT = 8  # queries with their rows, until the next change
IS_OPEN = f"WHERE status IS NULL OR STATUS NOT IN {MET}"
IS_CLOSED = f"{{}} AND STATUS IN {MET} AND NOT {{}}"
GROUPS = {PENDING: WAITS, IN_PROGRESS: PROGRESS, BLOCKED: NEEDS, "draft": DRAFTS}  # by status
DISTINCT = "SELECT DISTINCT NAME FROM tasks LIMIT ?"
COUNT = "SELECT COUNT(*) FROM tasks WHERE GIVEN"
AGENTS = "SELECT id, agent FROM ralphgen_sessions WHERE "


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """The query in an address; unspecified texts are empty.

    `q` is looked for in titles and descriptions, or is an id. `state` is one of `STATES`, and
    shows one group alone, in pages that count from 1.
    """

    q: str = ""
    feature: str = ""
    discipline: str = ""
    priority: str = ""
    state: str = ""
    layout: str = ""
    page: int = 1

    @property
    def is_filtered(self) -> bool:
        """Return whether only some tasks of each group are asked for."""
        return bool(self.q or self.feature or self.discipline or self.priority)

    def address(self, **changes: str | int) -> str:
        """Return the address of the list with some changes; by default of its first page."""
        usual = TaskQuery()
        found = {name: getattr(self, name) for name in self.__slots__} | {"page": 1, **changes}
        fields = {name: value for name, value in found.items() if value != getattr(usual, name)}
        return f"/tasks?{urlencode(fields)}" if fields else "/tasks"


def task_query(fields: Mapping[str, str]) -> TaskQuery:
    """Return the query in the fields of an address; invalid values are ignored."""
    names = {name: line(fields.get(name, "")[:LONGEST]) for name in FILTERS}
    state, layout = fields.get("state", ""), fields.get("layout", "")
    return TaskQuery(
        q=line(fields.get("q", "")[:LONGEST].strip()),
        **names,
        state=state if state in STATES else "",
        layout=layout if layout == "board" else "",
        page=max(1, number_of(fields.get("page", ""))),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """The group of each open task, and its reasons, as read at one moment.

    `groups` hold ids in the order of display, `next` as agents take them. Of the closed tasks they
    hold only the `moved` ones, which wait for a merge or for the user. `waits_for` are open or
    unmerged tasks, `missing` ids without a task, and `circles` tasks that wait for each other.
    `holds_up` counts the tasks that wait for a task, also by way of others. `holds` are the claims
    of sessions, and `states` the tasks in each state that is no group. `needs` has the kind and the
    reason of tasks that wait for the user. `names` are the values of the filters.
    """

    groups: Mapping[str, tuple[int, ...]]
    waits_for: Mapping[int, tuple[int, ...]]
    missing: Mapping[int, tuple[int, ...]]
    circles: Mapping[int, tuple[int, ...]]
    holds_up: Mapping[int, int]
    unmerged: frozenset[int]
    merging: frozenset[int]
    moved: tuple[int, ...]
    holds: Mapping[int, Hold]
    states: Mapping[str, Collection[int]]
    needs: Mapping[int, tuple[str, str]]
    names: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]
    has_ledger: bool


def read_standing(rows: Rows, needs: Mapping[int, tuple[str, str]]) -> Standing:
    """Read the group of each open task, given the tasks that wait for the user."""
    columns = ["id", "status", *rows.chosen("tasks", "priority", "depends_on")]
    read = rows.read("tasks", columns, IS_OPEN.replace("STATUS", rows.exactly("status")))
    stored = dict(
        zip(columns, zip(*read, strict=True) if read else [()] * len(columns), strict=True)
    )
    nothing = [None] * len(read)
    status = {
        task: str(plain(one)) for task, one in zip(stored["id"], stored["status"], strict=True)
    }
    lists = prerequisite_lists(stored.get("depends_on", nothing))
    needed = {task: dict.fromkeys(found or ()) for task, found in zip(status, lists, strict=True)}
    missing = {*chain.from_iterable(needed.values())} - status.keys()
    if missing:
        sure = [one for one in missing if abs(one) < LIMIT]
        missing -= {task for (task,) in rows.named("tasks", ["id"], dumps(sure))}
    unmerged = frozenset(unmerged_tasks(rows.connection, rows.stored))
    links = {
        task: tuple(one for one in found if one in status or one in unmerged)
        for task, found in needed.items()
    }
    merging = {one for (one,) in rows.execute(WAITING)} if rows.has_ledger else set[int]()
    holds = holds_of(read_claims(rows), anywhere=False)
    live = {task for task, hold in holds.items() if hold.live}
    holds_up = waiting({**dict.fromkeys(unmerged, ()), **links}, {*unmerged, *links})
    groups: dict[str, list[int]] = {name: [] for name in KINDS}
    groups[NEXT] = next_tasks(rows.connection, rows.stored)
    moved = {*merging, *needs} - status.keys()
    ranks = {name: rank for rank, name in enumerate(PRIORITIES)}
    priorities = zip(status, stored.get("priority", nothing), strict=True)
    urgency = {task: ranks.get(str(plain(one)), len(ranks)) for task, one in priorities}
    left = (status.keys() | moved).difference(groups[NEXT])
    for task in sorted(left, key=lambda one: (urgency.get(one, 0), -holds_up.get(one, 0), one)):
        if task in merging or (task in live and task not in needs):
            groups[PROGRESS].append(task)
        else:
            groups[NEEDS if task in needs else GROUPS.get(status[task], OTHER)].append(task)
    first = {task: at for at, task in enumerate(needs)}
    groups[NEEDS].sort(key=lambda task: first.get(task, len(first)))
    adrift = {
        task: tuple(one for one in found if one in missing)
        for task, found in needed.items()
        if not missing.isdisjoint(found)
    }
    circles = _circles(links)
    stale = {one for one, hold in holds.items() if hold.begun and not hold.live}
    return Standing(
        groups={name: tuple(tasks) for name, tasks in groups.items()},
        waits_for={task: found for task, found in links.items() if found},
        missing=adrift,
        circles=circles,
        holds_up={task: count for task, count in holds_up.items() if count},
        unmerged=unmerged,
        merging=frozenset(merging),
        moved=tuple(moved),
        holds=holds,
        states={
            STALE: {task for task in stale if status.get(task) == IN_PROGRESS},
            ADRIFT: adrift.keys(),
            UNREADABLE: {task for task, one in zip(status, lists, strict=True) if one is None},
            CIRCLE: circles.keys(),
        },
        needs=needs,
        names={name: _names(rows, name) for name in rows.chosen("tasks", *FILTERS)},
        titles=_titles(rows),
        has_ledger=rows.has_ledger,
    )


def _circles(links: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """Return the tasks that wait for each other, or for themselves, with their whole circle."""
    ids = [*links]
    places = {task: at for at, task in enumerate(ids)}
    needs = [[places[one] for one in found if one in places] for found in links.values()]
    circles = (
        tuple(sorted(one)) for one in in_order(needs)[1] if len(one) > 1 or one[0] in needs[one[0]]
    )
    return {ids[at]: tuple(ids[one] for one in circle) for circle in circles for at in circle}


def _names(rows: Rows, column: str) -> tuple[str, ...]:
    """Return the values of a column of all tasks in order, but not those that no form can hold."""
    found = rows.execute(DISTINCT.replace("NAME", rows.exactly(column)), MOST_NAMES)
    names = {name for (name,) in found if name and line(name) == name}
    if column == "priority":
        return (*(one for one in PRIORITIES if one in names), *sorted(names.difference(PRIORITIES)))
    return tuple(sorted(names, key=lambda name: (natural(name), name)))


def _titles(rows: Rows) -> dict[str, str]:
    """Return the display names of features that have one."""
    if rows.lacks("features", "display_name"):
        return {}
    found = rows.read("features", ["name", "display_name"])
    return {name: line(title) for name, title in found if isinstance(name, str) and title}


Known = Mapping[int, Mapping[str, Any]]  # stored columns by task


class Reason(NamedTuple):
    """Why a task is in its group: words, the tasks that they name, and what comes after these."""

    words: str
    links: tuple[tuple[int, str], ...] = ()
    more: str = ""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in the list.

    `number` is its place among the next tasks, with the places `up` and `down` of its neighbours
    in the list, 0 for others. `session` works on it, or left it, `since`.
    """

    id: int
    title: str
    status: str
    mark: str
    feature: str
    discipline: str
    priority: str
    changed: str
    number: int
    up: int
    down: int
    reason: Reason
    holds_up: int
    session: str
    agent: str
    since: str


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The rows of a group that are shown, and the number of all; `more` leads to others."""

    name: str
    kind: Kind
    total: int
    rows: tuple[TaskRow, ...]
    before: str
    more: str


def read_groups(rows: Rows, standing: Standing, query: TaskQuery) -> tuple[TaskGroup, ...]:
    """Return the groups with the tasks that a query asks for; no more are read than are shown."""
    where, values = _condition(rows, query)
    chosen = standing.states.get(query.state)
    if query.is_filtered:
        found = {task for (task,) in rows.read("tasks", ["id"], f"WHERE {where}", *values)}
        chosen = found if chosen is None else found.intersection(chosen)
    ids: dict[str, Sequence[int]] = {
        name: tasks if chosen is None else [task for task in tasks if task in chosen]
        for name, tasks in standing.groups.items()
        if query.state in ("", name, *standing.states)
    }
    totals = {name: len(tasks) for name, tasks in ids.items()}
    closed = IS_CLOSED.replace("STATUS", rows.exactly("status"))
    closed = closed.format(where, rows.connection.sql.among("id"))
    values = (*values, dumps(standing.moved))
    if query.state in ("", DONE):
        ((totals[DONE],),) = rows.execute(COUNT.replace("GIVEN", closed), *values)
    most = A_COLUMN if query.layout else A_PAGE if query.state else A_GROUP
    while sum(min(most, total) for total in totals.values()) > MOST_ROWS:
        most -= 1
    last = max(totals.values(), default=0) // most
    start = most * min(query.page - 1, last) if query.state and not query.layout else 0
    shown = {name: tasks[start : start + most] for name, tasks in ids.items()}
    if totals.get(DONE):
        dates = ", ".join(map(rows.exactly, rows.chosen("tasks", "completed", "updated")))
        newest = f"coalesce({dates}, '', '') DESC, id DESC" if dates else "id DESC"
        rest = f"WHERE {closed} ORDER BY {newest} LIMIT ? OFFSET ?"
        shown[DONE] = [one for (one,) in rows.read("tasks", ["id"], rest, *values, most, start)]
    known = _read(rows, standing, chain.from_iterable(shown.values()))
    numbers = {task: at for at, task in enumerate(standing.groups[NEXT], 1)}
    agents = _agents(rows, standing, shown)
    kept = COLUMNS[:-1] if query.layout else () if query.is_filtered else (query.state or NEXT,)
    groups = list[TaskGroup]()
    for name in COLUMNS if query.layout else KINDS:
        if totals.get(name) or name in kept:
            shown_rows = tuple(_rows(standing, name, shown.get(name, ()), known, numbers, agents))
            before = query.address(page=start // most) if start else ""
            whole = query.address(state=name, layout="")
            more = query.address(page=query.page + 1) if query.state and not query.layout else whole
            more *= totals.get(name, 0) > start + most
            groups.append(
                TaskGroup(name, KINDS[name], totals.get(name, 0), shown_rows, before, more)
            )
    return tuple(groups)


def _condition(rows: Rows, query: TaskQuery) -> tuple[str, tuple[object, ...]]:
    """Return the filters of a query as an SQL condition with its values."""
    clauses, values = ["1 = 1"], list[object]()
    for column in FILTERS:
        if given := getattr(query, column):
            if rows.lacks("tasks", column):
                clauses.append("1 = 0")
                continue
            clauses.append(f"{rows.exactly(column)} = ?")
            values.append(given)
    if query.q:
        forms = [query.q]
        if not query.q.isascii():  # SQLite takes Ü and ü for different letters
            forms += [query.q.lower(), query.q.upper(), query.q.capitalize()]
        texts = (text.replace("!", "!!").replace("%", "!%").replace("_", "!_") for text in forms)
        patterns = [f"%{text}%" for text in dict.fromkeys(texts)]
        columns = rows.chosen("tasks", "title", "description")
        found = [rows.connection.sql.holds(column) for column in columns for _ in patterns]
        values += patterns * len(columns)
        number = re.fullmatch("#?([0-9]{1,19})", query.q)
        if number and int(number[1]) < LIMIT:
            found.append("id = ?")
            values.append(int(number[1]))
        clauses.append(f"({' OR '.join(found)})")
    return " AND ".join(clauses), tuple(values)


def _read(rows: Rows, standing: Standing, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the stored columns of some tasks and of the tasks in their reasons."""
    wanted = {*ids}
    for task in [*wanted]:
        wanted.update(standing.waits_for.get(task, ())[:NAMED])
        wanted.update(standing.circles.get(task, ())[: NAMED + 1])
    columns = ["id", "title", "status", "feature", "discipline"]
    columns += rows.chosen("tasks", "priority", "blocked_by", "updated", "created")
    found = rows.named("tasks", columns, dumps([*wanted]))
    return {row[0]: dict(zip(columns, row, strict=True)) for row in found}


def _agents(rows: Rows, standing: Standing, shown: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return the agents of the sessions that work on tasks."""
    tasks = chain(shown.get(PROGRESS, ()), shown.get(NEXT, ()))
    sessions = [standing.holds[task].session for task in tasks if task in standing.holds]
    if not sessions:
        return {}
    sql = f"{AGENTS}{rows.connection.sql.among('id', 'text')}"
    return {session: line(agent) for session, agent in rows.execute(sql, dumps(sessions))}


def _rows(
    standing: Standing,
    group: str,
    tasks: Sequence[int],
    known: Known,
    numbers: Mapping[int, int],
    agents: Mapping[str, str],
) -> Iterable[TaskRow]:
    """Yield the rows of a group; tasks that were deleted meanwhile are left out."""
    for at, task in enumerate(tasks):
        record = known.get(task)
        if record is None:
            continue
        number = numbers.get(task, 0) if group == NEXT else 0
        before = numbers[tasks[at - 1]] if number and at else number - 1
        after = numbers[tasks[at + 1]] if number and at + 1 < len(tasks) else number + 1
        hold = standing.holds.get(task)
        if hold and not hold.live and task not in standing.states[STALE]:
            hold = None
        yield TaskRow(
            id=task,
            title=line(record["title"], LONGEST_TITLE) or "(no title)",
            status=line(record["status"]),
            mark=standing.needs[task][0]
            if group == NEEDS and task in standing.needs
            else KINDS[group].mark,
            feature=standing.titles.get(record["feature"]) or line(record["feature"]),
            discipline=line(record["discipline"]),
            priority=line(record.get("priority")),
            changed=line(record.get("updated") or record.get("created")),
            number=number,
            up=max(before, 1),
            down=min(after, len(numbers)),
            reason=_waits(standing, task, known)
            if group == WAITS
            else Reason(_words(standing, group, record)),
            holds_up=standing.holds_up.get(task, 0),
            session=hold.session if hold else "",
            agent=(agents.get(hold.session) or "a session") if hold else "",
            since=hold.since if hold else "",
        )


def _words(standing: Standing, group: str, record: Mapping[str, Any]) -> str:
    """Return why a task is in its group, in a few words; empty if the group says it all."""
    task, status = record["id"], line(record["status"])
    reason = line(record.get("blocked_by"), LONGEST_TITLE)
    by_group = {
        NEXT: reason,
        NEEDS: reason,
        PROGRESS: "no session has it" * (standing.has_ledger and task not in standing.holds),
        OTHER: f"has the status “{status}”" if status else "has no status",
        DONE: "not merged yet" if task in standing.unmerged else status.removeprefix("done"),
    }
    if task in standing.states[STALE]:
        return "stale: left by"
    if task in standing.needs:
        return standing.needs[task][1] or reason
    return "merging" if task in standing.merging else by_group.get(group, "")


def _waits(standing: Standing, task: int, known: Known) -> Reason:
    """Return why a task waits for others."""
    if task in standing.states[UNREADABLE]:
        return Reason("waits: its dependencies cannot be read")
    circle = standing.circles.get(task, ())
    named = [one for one in circle or standing.waits_for.get(task, ()) if one != task]
    titles = [(one, line(known.get(one, {}).get("title"), LONGEST_TITLE)) for one in named[:NAMED]]
    unmerged = standing.unmerged
    links = tuple(
        (one, f"{text} (not merged yet)" * (one in unmerged) or text) for one, text in titles
    )
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    if missing := ", ".join(f"#{one}" for one in standing.missing.get(task, ())[:NAMED]):
        more += f"{', and ' * bool(links)}for {missing}, which is not there"
    words = "waits for" if links else "waits "
    if circle:
        words = "waits in a circle with" if links else "waits for itself"
    return Reason(words, links, more)


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    def read_tasks(root: Path) -> tuple[Standing, dict[TaskQuery, tuple[TaskGroup, ...]]]:
        items = items_of(desk.board)
        found = {**items.questions, **items.conflicts, **items.stuck}
        needs = {task: (item.kind, item.why) for task, item in found.items()}
        with Project(root).task_rows() as (rows, _):
            return read_standing(replace(rows, has_ledger=items.has_ledger), needs), {}

    async def show(request: Request) -> Response:
        query = task_query(query_of(request))

        def values() -> Mapping[str, object]:
            standing, known = desk.board.kept(f"status {LOOPS}", read_tasks)
            if (groups := known.get(query)) is None:
                with Project(desk.root).task_rows() as (rows, _):
                    groups = read_groups(rows, standing, query)
                known.update({query: groups} if len(known) < MOST_KEPT else {})
            shown = {"query": query, "groups": groups, "standing": standing, "states": STATES}
            return {**shown, "everything": TaskQuery(layout=query.layout).address()}

        return await desk.page(request, "tasks.html.jinja", values, title="Tasks")

    return [Route("/tasks", show, methods=["GET"])]
