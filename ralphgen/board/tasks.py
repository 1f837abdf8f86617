"""The tasks in groups: the next ones in the order of agents, and the reasons of the others."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.inbox import items_of
from ralphgen.board.live import LOOPS, holds_of, read_claims
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


class Kind(NamedTuple):
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
LONGEST, LONGEST_TITLE = 200, 120  # characters of a search or a name; of a text in a row
A_GROUP, A_COLUMN, A_PAGE = 50, 25, 100  # rows of a group, of a column, of a group alone
MOST_ROWS, MOST_NAMES, NAMED = 200, 200, 2  # rows of a page; options of a filter; tasks in a row
RANKS = {name: rank for rank, name in enumerate(PRIORITIES)}
MOST_KEPT = 8  # queries with their rows, until the next change
IS_OPEN = f"WHERE status IS NULL OR STATUS NOT IN {MET}"
IS_CLOSED = f"{{}} AND STATUS IN {MET} AND NOT {{}}"
GROUPS = {PENDING: WAITS, IN_PROGRESS: PROGRESS, BLOCKED: NEEDS, "draft": DRAFTS}  # by status
DISTINCT = "SELECT DISTINCT NAME FROM tasks LIMIT ?"
COUNT = "SELECT COUNT(*) FROM tasks WHERE GIVEN"
AGENTS = "SELECT id, agent FROM ralphgen_sessions WHERE "
Record = Mapping[str, Any]


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

    def address(self, **changes: Any) -> str:
        """Return the address of the list with some changes; by default of its first page."""
        other = replace(self, **{"page": 1, **changes})
        values = {one.name: (getattr(other, one.name), one.default) for one in fields(other)}
        sent = {name: value for name, (value, usual) in values.items() if value != usual}
        return f"/tasks?{urlencode(sent)}" if sent else "/tasks"


def task_query(sent: Mapping[str, str]) -> TaskQuery:
    """Return the query in the fields of an address; invalid values are ignored."""
    texts = {name: line(sent.get(name, "")[:LONGEST].strip()) for name in ("q", *FILTERS)}
    state, layout = sent.get("state", ""), sent.get("layout", "")
    return TaskQuery(
        **texts,
        state=state if state in STATES else "",
        layout=layout if layout == "board" else "",
        page=max(1, number_of(sent.get("page", ""))),
    )


class Reason(NamedTuple):
    """Why a task is in its group: words, the tasks that they name, and what comes after these."""

    words: str
    links: tuple[tuple[int, str], ...] = ()
    more: str = ""


class TaskGroup(NamedTuple):
    """The rows of a group that are shown, and the number of all; `more` leads to others.

    A row has the texts of the task and its `mark`, its `reason`, its `number` among the next tasks
    with the numbers `up` and `down` of its neighbours, the number of tasks that it `holds_up`, and
    the `session` of an `agent` that works on it, or left it, `since`.
    """

    name: str
    kind: Kind
    total: int
    rows: Sequence[Record]
    before: str
    more: str


class TaskList:
    """The group of each open task, and its reasons, as read at one moment.

    `groups` hold ids in the order of display. Of the closed tasks, they hold only the `moved` ones,
    which wait for a merge or for the user: `needs` has the kind and the reason of the latter.
    `titles` are the display names of features, and `names` the values of the filters.
    """

    def __init__(self, rows: Rows, needs: Mapping[int, tuple[str, str]]) -> None:
        """Read the open tasks."""
        self.needs, self.has_ledger = needs, rows.has_ledger
        self.names = {name: _names(rows, name) for name in rows.chosen("tasks", *FILTERS)}
        names = ["name", *rows.chosen("features", "display_name")]
        titles = rows.read("features", names)
        self.titles = {line(row[0]): line(row[-1]) for row in titles if row[-1]}
        columns = ["id", "status", *rows.chosen("tasks", "priority", "depends_on")]
        open_tasks = rows.read("tasks", columns, IS_OPEN.replace("STATUS", rows.exactly("status")))
        status = {row[0]: str(plain(row[1])) for row in open_tasks}
        stored = dict(zip(columns, zip(*open_tasks, strict=True), strict=False))
        nothing = [None] * len(status)
        lists = prerequisite_lists(stored.get("depends_on", nothing))
        needed = {task: dict.fromkeys(one or ()) for task, one in zip(status, lists, strict=True)}
        self.merging = {one for (one,) in rows.execute(WAITING)} if rows.has_ledger else set[int]()
        self.unmerged = frozenset(unmerged_tasks(rows.connection, rows.stored))
        missing = {*chain.from_iterable(needed.values())} - status.keys()
        if missing:
            sure = [one for one in missing if abs(one) < LIMIT]
            missing -= {task for (task,) in rows.named("tasks", ["id"], dumps(sure))}
        self.missing = {
            task: [one for one in found if one in missing]
            for task, found in needed.items()
            if not missing.isdisjoint(found)
        }
        self.waits_for = {
            task: [one for one in found if one in status or one in self.unmerged]
            for task, found in needed.items()
        }
        waits = {**dict.fromkeys(self.unmerged, ()), **self.waits_for}
        self.holds_up = waiting(waits, waits.keys())
        self.circles = _circles(self.waits_for)
        self.holds = holds_of(read_claims(rows), anywhere=False)
        stale = {one for one, hold in self.holds.items() if hold.begun and not hold.live}
        self.states = {
            STALE: {task for task in stale if status.get(task) == IN_PROGRESS},
            ADRIFT: self.missing.keys(),
            UNREADABLE: {task for task, one in zip(status, lists, strict=True) if one is None},
            CIRCLE: self.circles.keys(),
        }
        self.moved = {*self.merging, *needs} - status.keys()
        self.groups: dict[str, list[int]] = {name: [] for name in KINDS}
        self.groups[NEXT] = next_tasks(rows.connection, rows.stored)
        self.numbers = {task: at for at, task in enumerate(self.groups[NEXT], 1)}
        priorities = zip(status, stored.get("priority", nothing), strict=True)
        urgency = {task: RANKS.get(str(plain(one)), len(RANKS)) for task, one in priorities}
        left = (status.keys() | self.moved) - self.numbers.keys()
        for task in sorted(left, key=lambda one: (urgency.get(one, 0), -self.held_up(one), one)):
            live = task in self.holds and self.holds[task].live
            if task in self.merging or (live and task not in needs):
                self.groups[PROGRESS].append(task)
            else:
                group = NEEDS if task in needs else GROUPS.get(status[task], OTHER)
                self.groups[group].append(task)
        first = {task: at for at, task in enumerate(needs)}
        self.groups[NEEDS].sort(key=lambda task: first.get(task, len(first)))

    def held_up(self, task: int) -> int:
        """Return the number of tasks that wait for a task, also by way of others."""
        return self.holds_up.get(task, 0)

    def read(self, rows: Rows, query: TaskQuery) -> tuple[TaskGroup, ...]:
        """Return the groups of a query; no more tasks are read than are shown."""
        where, values = _condition(rows, query)
        chosen = self.states.get(query.state)
        if query.is_filtered:
            found = {task for (task,) in rows.read("tasks", ["id"], f"WHERE {where}", *values)}
            chosen = found if chosen is None else found.intersection(chosen)
        ids: dict[str, Sequence[int]] = {
            name: tasks if chosen is None else [task for task in tasks if task in chosen]
            for name, tasks in self.groups.items()
            if query.state in ("", name, *self.states)
        }
        totals = {name: len(tasks) for name, tasks in ids.items()}
        closed = IS_CLOSED.replace("STATUS", rows.exactly("status"))
        closed = closed.format(where, rows.connection.sql.among("id"))
        values = (*values, dumps([*self.moved]))
        if query.state in ("", DONE):
            ((totals[DONE],),) = rows.execute(COUNT.replace("GIVEN", closed), *values)
        most = A_COLUMN if query.layout else A_PAGE if query.state else A_GROUP
        while sum(min(most, total) for total in totals.values()) > MOST_ROWS:
            most -= 1
        in_pages = bool(query.state and not query.layout)
        last = max(totals.values(), default=0) // most
        start = most * min(query.page - 1, last) * in_pages
        shown = {name: tasks[start : start + most] for name, tasks in ids.items()}
        if totals.get(DONE):
            dates = ", ".join(map(rows.exactly, rows.chosen("tasks", "completed", "updated")))
            newest = f"coalesce({dates}, '', '') DESC, id DESC" if dates else "id DESC"
            rest = f"WHERE {closed} ORDER BY {newest} LIMIT ? OFFSET ?"
            shown[DONE] = [one for (one,) in rows.read("tasks", ["id"], rest, *values, most, start)]
        known = self._records(rows, {*chain.from_iterable(shown.values())})
        kept = COLUMNS[:-1] if query.layout else () if query.is_filtered else (query.state or NEXT,)
        return tuple(
            TaskGroup(
                name,
                KINDS[name],
                total,
                [*self._rows(name, shown.get(name, ()), known)],
                query.address(page=start // most) if start else "",
                (
                    query.address(page=query.page + 1)
                    if in_pages
                    else query.address(state=name, layout="")
                )
                * (total > start + most),
            )
            for name in (COLUMNS if query.layout else KINDS)
            for total in [totals.get(name, 0)]
            if total or name in kept
        )

    def _records(self, rows: Rows, ids: set[int]) -> Mapping[int, Record]:
        """Return the texts of some tasks, of the tasks in their reasons, and of their agents."""
        for task in [*ids]:
            ids.update(self.waits_for.get(task, ())[:NAMED])
            ids.update(self.circles.get(task, ())[: NAMED + 1])
        columns = ["title", "status", "feature", "discipline"]
        columns += rows.chosen("tasks", "priority", "blocked_by", "updated", "created")
        sessions = {task: self.holds[task].session for task in ids if task in self.holds}
        agents = dict[str, str]()
        if sessions:
            sql = f"{AGENTS}{rows.connection.sql.among('id', 'text')}"
            agents = dict(rows.execute(sql, dumps([*sessions.values()])))
        return {
            task: {
                "id": task,
                "priority": "",
                "agent": line(agents.get(sessions.get(task, ""))) or "a session",
                **dict(zip(columns, (line(one, LONGEST_TITLE) for one in row), strict=True)),
            }
            for task, *row in rows.named("tasks", ["id", *columns], dumps([*ids]))
        }

    def _rows(
        self, group: str, tasks: Sequence[int], known: Mapping[int, Record]
    ) -> Iterator[Record]:
        """Yield the rows of a group; tasks that were deleted meanwhile are left out."""
        for at, task in enumerate(tasks):
            if (record := known.get(task)) is None:
                continue
            number = self.numbers.get(task, 0) if group == NEXT else 0
            before = self.numbers[tasks[at - 1]] if number and at else number - 1
            after = self.numbers[tasks[at + 1]] if number and tasks[at + 1 :] else number + 1
            hold = self.holds.get(task)
            works = hold and (hold.live or task in self.states[STALE])
            in_needs = group == NEEDS and task in self.needs
            yield {
                **record,
                "title": record["title"] or "(no title)",
                "feature": self.titles.get(record["feature"]) or record["feature"],
                "changed": record.get("updated") or record.get("created") or "",
                "mark": self.needs[task][0] if in_needs else KINDS[group].mark,
                "number": number,
                "up": max(before, 1),
                "down": min(after, len(self.numbers)),
                "reason": self._waits(task, known)
                if group == WAITS
                else self._words(group, record),
                "holds_up": self.held_up(task),
                "session": hold.session if hold and works else "",
                "since": hold.since if hold and works else "",
            }

    def _words(self, group: str, record: Record) -> Reason:
        """Return why a task is in its group, in a few words; empty if the group says it all."""
        task, status = record["id"], record["status"]
        reason = record.get("blocked_by", "")
        by_group = {
            NEXT: reason,
            NEEDS: reason,
            PROGRESS: "no session has it" * (self.has_ledger and task not in self.holds),
            OTHER: f"has the status “{status}”" if status else "has no status",
            DONE: "not merged yet" if task in self.unmerged else status.removeprefix("done"),
        }
        words = "merging" if task in self.merging else by_group.get(group, "")
        if task in self.needs:
            words = self.needs[task][1] or reason
        return Reason("stale: left by" if task in self.states[STALE] else words)

    def _waits(self, task: int, known: Mapping[int, Record]) -> Reason:
        """Return why a task waits for others."""
        if task in self.states[UNREADABLE]:
            return Reason("waits: its dependencies cannot be read")
        circle = self.circles.get(task, ())
        named = [one for one in circle or self.waits_for.get(task, ()) if one != task]
        links = tuple(
            (one, f"{title} (not merged yet)" if one in self.unmerged else title)
            for one in named[:NAMED]
            for title in [known[one]["title"] if one in known else ""]
        )
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        if missing := ", ".join(f"#{one}" for one in self.missing.get(task, ())[:NAMED]):
            more += f"{', and ' * bool(links)}for {missing}, which is not there"
        words = "waits for" if links else "waits "
        if circle:
            words = "waits in a circle with" if links else "waits for itself"
        return Reason(words, links, more)


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
    ranks = RANKS if column == "priority" else {}
    return tuple(sorted(names, key=lambda one: (ranks.get(one, len(ranks)), natural(one), one)))


def _condition(rows: Rows, query: TaskQuery) -> tuple[str, tuple[object, ...]]:
    """Return the filters of a query as an SQL condition with its values."""
    clauses, values = ["1 = 1"], list[object]()
    for column in FILTERS:
        if given := getattr(query, column):
            has_column = not rows.lacks("tasks", column)
            clauses.append(f"{rows.exactly(column)} = ?" if has_column else "1 = 0")
            values += [given] * has_column
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


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    def read_tasks(root: Path) -> tuple[TaskList, dict[TaskQuery, tuple[TaskGroup, ...]]]:
        items = items_of(desk.board)
        found = {**items.questions, **items.conflicts, **items.stuck}
        needs = {task: (item.kind, item.why) for task, item in found.items()}
        with Project(root).task_rows() as (rows, _):
            return TaskList(replace(rows, has_ledger=items.has_ledger), needs), {}

    async def show(request: Request) -> Response:
        query = task_query(query_of(request))

        def values() -> Mapping[str, object]:
            tasks, known = desk.board.kept(f"status {LOOPS}", read_tasks)
            if (groups := known.get(query)) is None:
                with Project(desk.root).task_rows() as (rows, _):
                    groups = tasks.read(rows, query)
                known.update({query: groups} if len(known) < MOST_KEPT else {})
            shown = {"query": query, "groups": groups, "tasks": tasks, "states": STATES}
            return {**shown, "everything": TaskQuery(layout=query.layout).address()}

        return await desk.page(request, "tasks.html.jinja", values, title="Tasks")

    return [Route("/tasks", show, methods=["GET"])]
