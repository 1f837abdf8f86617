"""The tasks in groups: the next ones in the order of agents, and the reasons of the others."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.routing import Route

from ralphgen.board.inbox import items_of
from ralphgen.board.live import LOOPS, names_in, read_claims
from ralphgen.board.render import Desk
from ralphgen.board.text import line, natural
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.engine.ledger import MET, WAITING
from ralphgen.runtime.tasks import claims, plain

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
BOARD = (DRAFTS, WAITS, NEXT, PROGRESS, NEEDS, DONE, OTHER)
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
"""The columns that a row shows."""
COLUMNS = (*TEXTS, "depends_on", "completed")
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


class TaskQuery(NamedTuple):
    """The query in an address: `q` is a text or an id, and `state` one of `STATES`, in pages."""

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
        return any(self[:4])

    def address(self, **changes: Any) -> str:
        """Return the address of the list with some changes; by default of its first page."""
        values = self._replace(**{"page": 1, **changes})._asdict()
        sent = {name: one for name, one in values.items() if one != self._field_defaults[name]}
        return f"/tasks?{urlencode(sent)}" if sent else "/tasks"


def task_query(sent: Mapping[str, str]) -> TaskQuery:
    """Return the query in the fields of an address; invalid values are ignored."""
    texts = {name: line(sent.get(name, "")[:LONGEST]) for name in ("q", *FILTERS)}
    state = sent.get("state", "") if sent.get("state", "") in STATES else ""
    layout = "board" if sent.get("layout") == "board" else ""
    texts["q"] = texts["q"].strip()
    page = sent.get("page", "")
    number = max(1, int(page)) if re.fullmatch("[0-9]{1,9}", page) else 1
    return TaskQuery(**texts, state=state, layout=layout, page=number)


class Reason(NamedTuple):
    """Why a task is in its group: words, the tasks that they name, and what comes after these."""

    words: str
    links: tuple[tuple[int, str], ...] = ()
    more: str = ""


class TaskGroup(NamedTuple):
    """The rows of a group that are shown, and the number of all; `more` leads to others."""

    name: str
    kind: Kind
    total: int
    rows: Sequence[Record]
    before: str
    more: str


class TaskList:
    """The group of each task, and its reasons, as read at one moment.

    `needs` has the kind and the reason of tasks that wait for the user, `titles` the display names
    of features, and `names` the values of filters.
    """

    def __init__(self, rows: Rows, needs: Mapping[int, tuple[str, str]]) -> None:
        """Read the tasks."""
        self._needs, self.has_ledger = needs, rows.has_ledger
        self.titles = {line(name): title for name, title in names_in(rows, "features").items()}
        columns = rows.available_columns("tasks", *COLUMNS)
        lacking = dict.fromkeys(COLUMNS)
        self._stored: dict[int, Record] = {
            task: lacking | dict(zip(columns, row, strict=True))
            for task, *row in rows.read("tasks", ["id", *columns], "ORDER BY id")
        }
        self.names = {name: self._names(name) for name in FILTERS if name in columns}
        status = {task: str(plain(row["status"])) for task, row in self._stored.items()}
        open_tasks = [task for task, one in status.items() if one not in MET]
        lists = claims.prerequisite_lists([self._stored[one]["depends_on"] for one in open_tasks])
        needed = {
            task: [*dict.fromkeys(one or ())] for task, one in zip(open_tasks, lists, strict=True)
        }
        missing = {task: [one for one in ids if one not in status] for task, ids in needed.items()}
        self._missing = {task: ids for task, ids in missing.items() if ids}
        self._merging = {one for (one,) in rows.execute(WAITING)} if rows.has_ledger else set[int]()
        self._unmerged = claims.unmerged_tasks(rows.connection, rows.stored) & status.keys()
        self._waits_for = {
            task: [one for one in ids if one in needed or one in self._unmerged]
            for task, ids in needed.items()
        }
        waits = {**dict.fromkeys(self._unmerged, ()), **self._waits_for}
        self._waiting = claims.waiting(waits, waits.keys())
        self._circles = _circles(self._waits_for)
        holds = read_claims(rows)
        live = {task for task, hold in holds.items() if claims.is_live(hold)}
        left = {task for task, hold in holds.items() if hold.began is not None} - live
        stale = {task for task in left if status.get(task) == claims.IN_PROGRESS}
        self._holds = {task: hold for task, hold in holds.items() if task in live | stale}
        sessions = dumps([line(hold.session) for hold in self._holds.values()])
        sql = f"{AGENTS}{rows.connection.sql.among('id', 'text')}"
        self._agents = dict(rows.execute(sql, sessions)) if self._holds else {}
        self._states: Mapping[str, Collection[int]] = {
            STALE: stale,
            ADRIFT: self._missing,
            UNREADABLE: {task for task, one in zip(open_tasks, lists, strict=True) if one is None},
            CIRCLE: self._circles,
        }
        self._groups: dict[str, list[int]] = {name: [] for name in KINDS}
        self._groups[NEXT] = claims.next_tasks(rows.connection, rows.stored)
        self._numbers = {task: at for at, task in enumerate(self._groups[NEXT], 1)}
        for task in sorted(status.keys() - self._numbers.keys(), key=self._urgency):
            group = GROUPS.get(status[task], OTHER)
            if task in self._merging or (task in live and task not in needs and group != DONE):
                group = PROGRESS
            elif task in needs:
                group = NEEDS
            self._groups[group].append(task)
        first = {task: at for at, task in enumerate(needs)}
        self._groups[NEEDS].sort(key=lambda task: first.get(task, len(first)))
        self._groups[DONE].sort(key=self._closed, reverse=True)

    def _names(self, column: str) -> Sequence[str]:
        """Return the values of a column in order, but not those that no form can hold."""
        found = {row[column] for row in self._stored.values()}
        names = [name for name in found if name and line(name) == name]
        ranks = RANKS if column == "priority" else {}
        names.sort(key=lambda one: (ranks.get(one, len(ranks)), natural(one), one))
        return names[:MOST_NAMES]

    def _urgency(self, task: int) -> tuple[int, int, int]:
        rank = RANKS.get(str(plain(self._stored[task]["priority"])), len(RANKS))
        return rank, -self._waiting.get(task, 0), task

    def _closed(self, task: int) -> tuple[str, int]:
        """Return when a task was closed, as far as it is known."""
        times = (self._stored[task][name] for name in ("completed", "updated"))
        return next((str(plain(one)) for one in times if one is not None), ""), task

    def read(self, query: TaskQuery, matches: Collection[int] | None) -> list[TaskGroup]:
        """Return the groups of a query; `matches` are the tasks with its text, None without one."""
        filters = {name: value for name in FILTERS if (value := getattr(query, name))}
        chosen = {
            task
            for task, row in self._stored.items()
            if matches is None or task in matches
            if task in self._states.get(query.state, self._stored)
            if all(row[name] == value for name, value in filters.items())
        }
        ids = {
            name: [task for task in tasks if task in chosen]
            for name, tasks in self._groups.items()
            if query.state in ("", name, *self._states)
        }
        most = A_COLUMN if query.layout else A_PAGE if query.state else A_GROUP
        while sum(min(most, len(tasks)) for tasks in ids.values()) > MOST_ROWS:
            most -= 1
        in_pages = bool(query.state and not query.layout)
        last = max(map(len, ids.values()), default=0) // most
        start = most * min(query.page - 1, last) * in_pages
        kept = BOARD[:-1] if query.layout else () if query.is_filtered else (query.state or NEXT,)
        groups = []
        for name in BOARD if query.layout else KINDS:
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
        task, hold = tasks[at], self._holds.get(tasks[at])
        record = {name: line(self._stored[task][name], LONGEST_TITLE) for name in TEXTS}
        number = self._numbers.get(task, 0)
        before = self._numbers[tasks[at - 1]] if number and at else number - 1
        after = self._numbers[tasks[at + 1]] if number and tasks[at + 1 :] else number + 1
        session = line(hold.session) if hold else ""
        return {
            **record,
            "id": task,
            "title": record["title"] or "(no title)",
            "feature": self.titles.get(record["feature"]) or record["feature"],
            "changed": record["updated"] or record["created"],
            "mark": self._needs[task][0] if task in self._needs else KINDS[group].mark,
            "number": number,
            "up": max(before, 1),
            "down": min(after, len(self._numbers)),
            "reason": self._waits(task) if group == WAITS else self._words(group, task, record),
            "holds_up": self._waiting.get(task, 0),
            "session": session,
            "agent": (line(self._agents.get(session)) or "a session") if hold else "",
            "since": line(hold.taken) if hold else "",
        }

    def _words(self, group: str, task: int, record: Record) -> Reason:
        """Return why a task is in its group, in a few words; empty if the group says it all."""
        reason, status = record["blocked_by"], record["status"]
        if task in self._states[STALE]:
            return Reason("stale: left by")
        if task in self._needs or task in self._merging:
            return Reason(self._needs.get(task, ("", "merging"))[1] or reason)
        by_group = {
            NEXT: reason,
            NEEDS: reason,
            PROGRESS: "no session has it" * (self.has_ledger and task not in self._holds),
            OTHER: f"has the status “{status}”" if status else "has no status",
            DONE: "not merged yet" if task in self._unmerged else status.removeprefix("done"),
        }
        return Reason(by_group.get(group, ""))

    def _waits(self, task: int) -> Reason:
        """Return why a task waits for others."""
        if task in self._states[UNREADABLE]:
            return Reason("waits: its dependencies cannot be read")
        circle = self._circles.get(task, ())
        named = [one for one in circle or self._waits_for.get(task, ()) if one != task]
        titles = {one: line(self._stored[one]["title"], LONGEST_TITLE) for one in named[:NAMED]}
        links = tuple(
            (one, f"{title} (not merged yet)" if one in self._unmerged else title)
            for one, title in titles.items()
        )
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        if missing := ", ".join(f"#{one}" for one in self._missing.get(task, ())[:NAMED]):
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
    columns = ["id", *rows.available_columns("tasks", "title", "description")]
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
        needs = {task: (item.kind, item.why) for task, item in items.stopping.items()}
        with Project(root).task_rows() as (rows, _):
            return TaskList(replace(rows, has_ledger=items.has_ledger), needs)

    def values(request: Request) -> Mapping[str, object]:
        query = task_query(request.state.query)
        tasks, matches = desk.board.cached(f"status {LOOPS}", read_tasks), None
        if query.q:
            with Project(desk.root).task_rows() as (rows, _):
                matches = search(rows, query.q)
        shown = {"query": query, "groups": tasks.read(query, matches), "tasks": tasks}
        everything = TaskQuery(layout=query.layout).address()
        return {**shown, "states": STATES, "everything": everything}

    return [desk.screen("/tasks", "tasks.html.jinja", "Tasks", values)]
