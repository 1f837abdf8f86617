"""The tasks in groups: the next ones in the order of agents, and the reasons of the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.inbox import items_of
from ralphgen.board.live import LOOPS, read_claims
from ralphgen.board.render import Desk
from ralphgen.board.text import line, natural, number_of, query_of
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.engine.ledger import MET, WAITING
from ralphgen.runtime.tasks import claims
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
    NEXT: Kind("Up next", "ready", claims.PENDING, "the order agents take them"),
    PROGRESS: Kind("In progress", "run", claims.IN_PROGRESS),
    NEEDS: Kind("Needs you", "stuck", claims.BLOCKED),
    WAITS: Kind("Waiting", "wait", claims.PENDING, "for other tasks"),
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
TEXTS = (
    *("title", "status", "feature", "discipline"),
    *("priority", "blocked_by", "created", "updated"),
)
"""The columns of a row."""
RANKS = {name: rank for rank, name in enumerate(claims.PRIORITIES)}
GROUPS = {
    claims.PENDING: WAITS,
    claims.IN_PROGRESS: PROGRESS,
    claims.BLOCKED: NEEDS,
    "draft": DRAFTS,
}
GROUPS |= dict.fromkeys(MET, DONE)
"""The groups by status; ready tasks, tasks of sessions and tasks for the user have others."""
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
    texts = {name: line(sent.get(name, "")[:LONGEST]) for name in FILTERS}
    state, layout = sent.get("state", ""), sent.get("layout", "")
    return TaskQuery(
        line(sent.get("q", "")[:LONGEST].strip()),
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
    """The group of each task, and its reasons, as read at one moment.

    `groups` hold ids in the order of display. `needs` has the kind and the reason of tasks that
    wait for the user, `titles` the display names of features, and `names` the values of filters.
    """

    def __init__(self, rows: Rows, needs: Mapping[int, tuple[str, str]]) -> None:
        """Read the tasks."""
        self.needs, self.has_ledger = needs, rows.has_ledger
        names = ["name", *rows.chosen("features", "display_name")]
        titles = rows.read("features", names)
        self.titles = {line(row[0]): line(row[-1]) for row in titles if row[-1]}
        columns = ["id", *rows.chosen("tasks", *TEXTS, "depends_on", "completed")]
        self._places = {name: at for at, name in enumerate(columns)}
        self._stored = {row[0]: row for row in rows.read("tasks", columns, "ORDER BY id")}
        self.names = {name: self._names(name) for name in FILTERS if name in columns}
        status = {task: str(plain(self._value(task, "status"))) for task in self._stored}
        open_tasks = [task for task, one in status.items() if one not in MET]
        lists = claims.prerequisite_lists([self._value(task, "depends_on") for task in open_tasks])
        unreadable = {task for task, one in zip(open_tasks, lists, strict=True) if one is None}
        needed = {
            task: [*dict.fromkeys(one or ())] for task, one in zip(open_tasks, lists, strict=True)
        }
        missing = {task: [one for one in ids if one not in status] for task, ids in needed.items()}
        self.missing = {task: ids for task, ids in missing.items() if ids}
        self.merging = {one for (one,) in rows.execute(WAITING)} if rows.has_ledger else set[int]()
        self.unmerged = claims.unmerged_tasks(rows.connection, rows.stored) & status.keys()
        self.waits_for = {
            task: [one for one in ids if one in needed or one in self.unmerged]
            for task, ids in needed.items()
        }
        waits = {**dict.fromkeys(self.unmerged, ()), **self.waits_for}
        self._waiting = claims.waiting(waits, waits.keys())
        self.circles = _circles(self.waits_for)
        self.holds = read_claims(rows)
        self.live = {task for task, hold in self.holds.items() if claims.is_live(hold)}
        sessions = dumps([line(hold.session) for hold in self.holds.values()])
        sql = f"{AGENTS}{rows.connection.sql.among('id', 'text')}"
        self._agents = dict(rows.execute(sql, sessions)) if self.holds else {}
        stale = {one for one in self.holds.keys() - self.live if self.holds[one].began is not None}
        self.states: Mapping[str, Collection[int]] = {
            STALE: {task for task in stale if status.get(task) == claims.IN_PROGRESS},
            ADRIFT: self.missing,
            UNREADABLE: unreadable,
            CIRCLE: self.circles,
        }
        self.groups: dict[str, list[int]] = {name: [] for name in KINDS}
        self.groups[NEXT] = claims.next_tasks(rows.connection, rows.stored)
        self.numbers = {task: at for at, task in enumerate(self.groups[NEXT], 1)}
        for task in sorted(status.keys() - self.numbers.keys(), key=self._urgency):
            group = GROUPS.get(status[task], OTHER)
            if task in self.merging or (task in self.live and task not in needs and group != DONE):
                group = PROGRESS
            elif task in needs:
                group = NEEDS
            self.groups[group].append(task)
        first = {task: at for at, task in enumerate(needs)}
        self.groups[NEEDS].sort(key=lambda task: first.get(task, len(first)))
        self.groups[DONE].sort(key=self._closed, reverse=True)

    def _value(self, task: int, column: str) -> Any:
        """Return a stored value; None without the column."""
        return self._stored[task][self._places[column]] if column in self._places else None

    def _names(self, column: str) -> Sequence[str]:
        """Return the values of a column in order, but not those that no form can hold."""
        found = {self._value(task, column) for task in self._stored}
        names = [name for name in found if name and line(name) == name]
        ranks = RANKS if column == "priority" else {}
        names.sort(key=lambda one: (ranks.get(one, len(ranks)), natural(one), one))
        return names[:MOST_NAMES]

    def _urgency(self, task: int) -> tuple[int, int, int]:
        rank = RANKS.get(str(plain(self._value(task, "priority"))), len(RANKS))
        return rank, -self._waiting.get(task, 0), task

    def _closed(self, task: int) -> tuple[str, int]:
        """Return when a task was closed, as far as it is known."""
        times = (self._value(task, name) for name in ("completed", "updated"))
        return next((str(plain(one)) for one in times if one is not None), ""), task

    def read(self, query: TaskQuery, matches: Collection[int] | None) -> list[TaskGroup]:
        """Return the groups of a query; `matches` are the tasks with its text, None without one."""
        filters = {name: value for name in FILTERS if (value := getattr(query, name))}
        chosen = {
            task
            for task in (self._stored if matches is None else matches)
            if task in self._stored and task in self.states.get(query.state, self._stored)
            if all(self._value(task, name) == value for name, value in filters.items())
        }
        ids = {
            name: [task for task in tasks if task in chosen]
            for name, tasks in self.groups.items()
            if query.state in ("", name, *self.states)
        }
        most = A_COLUMN if query.layout else A_PAGE if query.state else A_GROUP
        while sum(min(most, len(tasks)) for tasks in ids.values()) > MOST_ROWS:
            most -= 1
        in_pages = bool(query.state and not query.layout)
        last = max(map(len, ids.values()), default=0) // most
        start = most * min(query.page - 1, last) * in_pages
        kept = COLUMNS[:-1] if query.layout else () if query.is_filtered else (query.state or NEXT,)
        groups = []
        for name in COLUMNS if query.layout else KINDS:
            tasks = ids.get(name, [])
            if tasks or name in kept:
                shown = tasks[start : start + most]
                rows = [self._row(name, shown, at) for at in range(len(shown))]
                before = query.address(page=start // most) if start else ""
                change = {"page": query.page + 1} if in_pages else {"state": name, "layout": ""}
                more = query.address(**change) if tasks[start + most :] else ""
                groups.append(TaskGroup(name, KINDS[name], len(tasks), rows, before, more))
        return groups

    def _row(self, group: str, tasks: Sequence[int], at: int) -> Record:
        """Return the row of a task, one of those that its group shows."""
        task = tasks[at]
        record = {name: line(self._value(task, name), LONGEST_TITLE) for name in TEXTS}
        number = self.numbers.get(task, 0) if group == NEXT else 0
        before = self.numbers[tasks[at - 1]] if number and at else number - 1
        after = self.numbers[tasks[at + 1]] if number and tasks[at + 1 :] else number + 1
        is_held = task in self.live or task in self.states[STALE]
        hold = self.holds[task] if is_held else None
        session = line(hold.session) if hold else ""
        in_needs = group == NEEDS and task in self.needs
        return {
            **record,
            "id": task,
            "title": record["title"] or "(no title)",
            "feature": self.titles.get(record["feature"]) or record["feature"],
            "changed": record["updated"] or record["created"],
            "mark": self.needs[task][0] if in_needs else KINDS[group].mark,
            "number": number,
            "up": max(before, 1),
            "down": min(after, len(self.numbers)),
            "reason": self._waits(task) if group == WAITS else self._words(group, task, record),
            "holds_up": self._waiting.get(task, 0),
            "session": session,
            "agent": (line(self._agents.get(session)) or "a session") if hold else "",
            "since": line(hold.taken) if hold else "",
        }

    def _words(self, group: str, task: int, record: Record) -> Reason:
        """Return why a task is in its group, in a few words; empty if the group says it all."""
        reason, status = record["blocked_by"], record["status"]
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

    def _waits(self, task: int) -> Reason:
        """Return why a task waits for others."""
        if task in self.states[UNREADABLE]:
            return Reason("waits: its dependencies cannot be read")
        circle = self.circles.get(task, ())
        named = [one for one in circle or self.waits_for.get(task, ()) if one != task]
        links = tuple(
            (one, f"{title} (not merged yet)" if one in self.unmerged else title)
            for one in named[:NAMED]
            for title in [line(self._value(one, "title"), LONGEST_TITLE)]
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
        tuple(sorted(one))
        for one in claims.in_order(needs)[1]
        if len(one) > 1 or one[0] in needs[one[0]]
    )
    return {ids[at]: tuple(ids[one] for one in circle) for circle in circles for at in circle}


def search(rows: Rows, text: str) -> set[int]:
    """Return the tasks with a text in their titles or descriptions, or with this number."""
    columns = ["id", *rows.chosen("tasks", "title", "description")]
    found = {
        task
        for task, *texts in rows.read("tasks", columns)
        if any(text.casefold() in str(plain(one)).casefold() for one in texts if one)
    }
    number = text.removeprefix("#")
    return {*found, int(number)} if number.isdecimal() else found


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    def read_tasks(root: Path) -> TaskList:
        items = items_of(desk.board)
        found = {**items.questions, **items.conflicts, **items.stuck}
        needs = {task: (item.kind, item.why) for task, item in found.items()}
        with Project(root).task_rows() as (rows, _):
            return TaskList(replace(rows, has_ledger=items.has_ledger), needs)

    async def show(request: Request) -> Response:
        query = task_query(query_of(request))

        def values() -> Mapping[str, object]:
            tasks, matches = desk.board.kept(f"status {LOOPS}", read_tasks), None
            if query.q:
                with Project(desk.root).task_rows() as (rows, _):
                    matches = search(rows, query.q)
            shown = {"query": query, "groups": tasks.read(query, matches), "tasks": tasks}
            everything = TaskQuery(layout=query.layout).address()
            return {**shown, "states": STATES, "everything": everything}

        return await desk.page(request, "tasks.html.jinja", values, title="Tasks")

    return [Route("/tasks", show, methods=["GET"])]
