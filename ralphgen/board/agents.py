"""The agents at work, their cost, and the nights before."""

import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.transcripts import SessionStream, StreamEntry, Streams
from ralphgen.board.charts import Picture, spending
from ralphgen.board.diff import FileChanges, merge_diff, tree_diff
from ralphgen.board.inbox import MOST_SESSIONS, items_of, ready_tasks
from ralphgen.board.live import (
    Board,
    has_tables_alone,
    in_thread,
    read_claims,
    stream_name,
    tree_name,
)
from ralphgen.board.nights import Night, loop_spans, nights
from ralphgen.board.record import shown_check
from ralphgen.board.render import Desk, took
from ralphgen.board.starts import (
    CLOCK,
    LIMITS,
    StartedProcesses,
    agents_of,
    ask_loop,
    doubted,
    known_options,
    recipes_here,
    start_summary,
    stop_session,
)
from ralphgen.board.text import (
    ActionResult,
    Form,
    form_of,
    line,
    moment,
    paragraph,
    query_of,
    wants_json,
)
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import (
    CheckRecord,
    JournalEntry,
    SessionRecord,
    base_of,
    changes_by,
    holding_sessions,
    newest_sessions,
    recorded_sessions,
    runs_by,
)
from ralphgen.ledger.tables import read_state, state_of
from ralphgen.loop.cost import Costs, cost_words
from ralphgen.loop.record import StoredLoop, read_events, stored_loops
from ralphgen.loop.run import Event, parse_duration, parse_until
from ralphgen.loop.trees import worktree_notes
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.root import sessions_folder
from ralphgen.runtime.session import ROWS
from ralphgen.runtime.tasks.claims import is_live
from ralphgen.sessions.store import (
    StoredSession,
    launcher_of,
    stored_session,
    stored_sessions,
)

MOST_WORKERS = 100  # to show
HERE = 200  # sessions of a list, at first
SHOWN_WORDS, SHOWN_ALL = 60, 2_000  # entries of a session's page, at first and by request
ON_CARD = 3  # entries
CHANGES, RUNS = 100, 50  # of a session's page
LONGEST_ID = 200  # characters
LONGEST_VALUE = 300  # characters of a changed value
OVER = "the session is over, and its directory may contain later work"
TASK = re.compile("[0-9]{1,18}")
LARGEST_ID = 2**63 - 1
MERGING = "merging"
SESSIONS = "record status sessions loop"  # changes of sessions
COUNTS = "SELECT status, COUNT(*) FROM tasks GROUP BY status"
OPEN = ("pending", "in_progress")
KINDS: Mapping[str, str] = {
    "done": "done",
    "merged": "done",
    "ended": "done",
    MERGING: "wait",
    "at work": "run",
    "asked": "ask",
    "no end on record": "",
}
"""The mark of an outcome; that of another one is `stop`."""
OUTCOMES = {"open": "left open", "asked": "asks a question"}
STATES = {"begin": "running", "held": "paused", "resumed": "running", "stopping": "stopping"}
"""By an event of a loop, the state of the loop from then on."""


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session; unknown values are empty.

    `record` is its row, or as much of one as its files have. `task` is None without one. `outcome`
    is in words, such as `merged`, `kind` its mark; `works` is whether an agent or a server is
    running in it on this machine, and `agent_runs` whether the board can stop an agent. `merge` is
    about the work of a loop with worktrees.
    """

    record: SessionRecord
    title: str
    outcome: str
    kind: str
    works: bool
    agent_runs: bool
    containment: str
    merge: str

    @property
    def session_id(self) -> str:
        """Return its id."""
        return self.record.session_id

    @property
    def task(self) -> int | None:
        """Return its task."""
        return self.record.task_id

    @property
    def recipe(self) -> str:
        """Return its recipe on one line."""
        return line(self.record.recipe)

    @property
    def discipline(self) -> str:
        """Return its discipline on one line."""
        return line(self.record.discipline)

    @property
    def seconds(self) -> float | None:
        """Return how long it took; None while it works."""
        began, ended = moment(self.record.started), moment(self.record.ended)
        return (ended - began).total_seconds() if began and ended and ended > began else None

    @property
    def tokens(self) -> str:
        """Return its tokens in words."""
        counts = (self.record.input_tokens, self.record.output_tokens)
        return "" if None in counts else "{:,} in, {:,} out".format(*counts)

    @property
    def worktree(self) -> str:
        """Return the name of its worktree."""
        return line(Path(self.record.worktree).name) if self.record.worktree else ""

    @property
    def cost(self) -> str:
        """Return its cost in words; empty while it works, and without an agent."""
        known, estimated = self.record.cost_usd, self.record.estimated_usd
        is_unknown = known is None and estimated is None
        return cost_words(known, estimated, int(is_unknown and self.record.agent is not None)) * (
            not is_unknown or self.record.ended is not None
        )

    @property
    def address(self) -> str:
        """Return the address of its page."""
        return address_of(self.session_id)

    @property
    def key(self) -> str:
        """Return the id of its elements."""
        return stream_name(self.session_id)


def address_of(session_id: str) -> str:
    """Return the address of a session's page."""
    return f"/agents/{quote(session_id, safe='', errors='surrogateescape')}"


def read_sessions(root: Path, most: int = HERE) -> tuple[SessionLine, ...]:
    """Return the sessions on record and on this machine, newest first.

    Users' own decisions are left out. Raises `ProjectError` if they cannot be read.
    """
    stored = {one.session_id: one for one in stored_sessions(root) if not one.dry_run}
    with open_database(root) as connection:
        records: list[SessionRecord] = []
        if state_of(connection).version is not None:
            records = newest_sessions(Rows(connection, {}), most)
        known = {one.session_id for one in records}
        records += [_record_of(one) for name, one in stored.items() if name not in known]
        rows = _rows(root, connection)
        found = _lines(rows, records, stored)
    return tuple(sorted(found, key=lambda one: one.record.started, reverse=True))[:most]


def _rows(root: Path, connection: Snapshot) -> Rows:
    """Return the rows of a project with tasks, or only the ledger of one of tables alone."""
    project = Project(root)
    if project.serves_any_database:
        return Rows(connection, {}, state_of(connection).version is not None)
    return reading_rows(connection, project.schema_in(connection))


def _record_of(stored: StoredSession) -> SessionRecord:
    """Return a record made of a session's files."""
    facts, task = stored.facts, stored.facts.get(ROWS["task"])
    begin = datetime.now(UTC) - timedelta(seconds=stored.age)
    return SessionRecord(
        stored.session_id,
        line(facts.get("recipe")),
        line(facts.get("discipline")),
        task if type(task) is int and abs(task) <= LARGEST_ID else None,
        line(facts.get(ROWS["feature"])),
        *(None, None),
        f"{begin:%Y-%m-%dT%H:%M:%SZ}",
        *(None,) * 10,
    )


def _lines(
    rows: Rows, records: Sequence[SessionRecord], stored: Mapping[str, StoredSession]
) -> list[SessionLine]:
    titles = _titles(rows, [one.task_id for one in records])
    ids = [one.session_id for one in records]
    holding: Collection[str] = ()
    live: set[object] = set()  # also on other machines
    if ids and rows.has_ledger:
        holding = holding_sessions(rows, ids)
        live = {one.session for one in read_claims(rows).values() if is_live(one)}
    return [
        _line(one, stored.get(name), titles, holds=name in holding, lives=name in live)
        for one, name in zip(records, ids, strict=True)
    ]


def _titles(rows: Rows, tasks: Iterable[int | None]) -> dict[int, str]:
    """Return the titles of the tasks that exist, by id."""
    named = [one for one in {*tasks} if one is not None and abs(one) <= LARGEST_ID]
    if not named or rows.lacks("tasks", "id", "title"):
        return {}
    return {task: line(title) for task, title in rows.named("tasks", ["id", "title"], str(named))}


def _line(
    record: SessionRecord,
    stored: StoredSession | None,
    titles: Mapping[int, str],
    *,
    holds: bool,
    lives: bool,
) -> SessionLine:
    launched = stored is not None and launcher_of(stored.folder) is not None
    works = launched or (stored is not None and stored.running)
    merge = f"merged as {line(record.merged[:10])}" if record.merged else ""
    if not merge and record.worktree and record.outcome == "done":
        merge = "waits in the merge queue" if holds else "not merged"
    outcome = record.outcome or ("at work" if works or lives else "no end on record")
    if outcome == "done" and merge:
        outcome = "merged" if record.merged else MERGING if holds else "not merged"
    return SessionLine(
        record=record,
        title=titles.get(record.task_id or 0, ""),
        outcome=line(OUTCOMES.get(outcome, outcome)),
        kind=KINDS.get(outcome, "stop"),
        works=works,
        agent_runs=launched,
        containment=stored.containment if stored is not None and stored.facts else "",
        merge=merge,
    )


def at_work(agents: int) -> str:
    """Return in words how many agents are at work."""
    return f"{agents or 'no'} {'agent' if agents == 1 else 'agents'} at work"


CostPoint = tuple[datetime, float | None, float | None]


@dataclass(slots=True)
class LoopView:
    """A loop by its events: `state` is preparing, running, paused, stopping, ended or cut off.

    `options` are its valid options by the fields of the form. `workers` have the sessions of busy
    workers by number. `done` is the number of tasks that it has closed, and `points` are the costs
    of its sessions, reported and estimated, each with the time of the end.
    """

    loop_id: str
    options: Mapping[str, str]
    began: str
    last: str
    state: str = "preparing"
    reason: str = ""
    workers: dict[int, str] = field(default_factory=dict)
    done: int = 0
    costs: Costs = field(default_factory=Costs)
    points: list[CostPoint] = field(default_factory=list)

    def take(self, told: Event) -> None:
        """Take note of an event."""
        match told:
            case {"event": "session", "worker": int(number), "session": session}:
                if len(self.workers) < MOST_WORKERS:
                    self.workers[number] = line(session)
            case {"event": "end", "worker": int(number), "outcome": str(outcome)}:
                self.workers.pop(number, None)
                self.done += outcome in ("done", "skipped")
                cost = Costs()
                with suppress(OverflowError):
                    cost.take(told)
                    self.costs.take(told)
                ended = moment(told.get("time"))
                if ended is not None and math.isfinite((cost.known or 0) + (cost.estimated or 0)):
                    self.points.append((ended, cost.known, cost.estimated))
            case {"event": "stop", "reason": reason}:
                self.state, self.reason, self.workers = "ended", line(reason, 500), {}
            case {"event": str(name)} if name in STATES:
                self.state = STATES[name]

    @property
    def headline(self) -> str:
        """Return its state in a few words."""
        agents = at_work(len(self.workers))
        return {
            "preparing": "Agents are starting",
            "paused": f"Paused, {agents}",
            "stopping": f"Stopping, {agents}",
        }.get(self.state, agents.capitalize())

    @property
    def budget(self) -> float | None:
        """Return its budget in US dollars."""
        return float(self.options["max_cost"]) if "max_cost" in self.options else None

    @property
    def per_task(self) -> str:
        """Return its known cost for each task that it has closed, in words."""
        spent = (self.costs.known or 0.0) + (self.costs.estimated or 0.0)
        return cost_words(spent / self.done) if spent and self.done else ""

    @property
    def stops(self) -> datetime | None:
        """Return when its time is up; None without a limit."""
        began, limit = moment(self.began), self.options.get("max_time", "")
        with suppress(UsageError, OverflowError, ValueError, OSError):
            if began is not None and limit:
                first = began.timestamp()
                is_clock = CLOCK.fullmatch(limit)
                end = parse_until(limit, first) if is_clock else first + parse_duration(limit)
                return datetime.fromtimestamp(end, UTC)
        return None

    @property
    def time_left(self) -> str:
        """Return its remaining time in words; empty without a limit."""
        end = self.stops
        return took(max(0.0, (end - datetime.now(UTC)).total_seconds())) if end else ""

    @property
    def picture(self) -> Picture | None:
        """Return its costs over time, up to the end of its time; None if they are unreadable."""
        began, now = moment(self.began), datetime.now(UTC)
        if began is None or began > now:
            return None
        return spending(self.points, self.budget, began, max(self.stops or now, now), now)


def read_loop(stored: StoredLoop) -> LoopView:
    """Return a loop by the events of its file."""
    events = read_events(stored)
    start, end = (events[0], events[-1]) if events else ({}, {})
    options = known_options(start.get("options"))
    loop = LoopView(stored.loop_id, options, line(start.get("time")), line(end.get("time")))
    for told in events:
        loop.take(told)
    if not stored.running and loop.state != "ended":
        loop.state, loop.reason, loop.workers = "cut off", "its process was killed", {}
    return loop


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """An agent at work: its session, and what its stream has until now, if it is here."""

    name: str
    session: SessionLine
    stream: SessionStream | None

    @property
    def said(self) -> Sequence[StreamEntry]:
        """Return the last entries, the newest last."""
        return tuple(self.stream.entries)[-ON_CARD:] if self.stream else ()

    @property
    def cost(self) -> str:
        """Return the reported cost in words; most agents report it at their end."""
        return cost_so_far(self.stream)


def cost_so_far(stream: SessionStream | None) -> str:
    """Return the cost that a running agent has reported, in words."""
    cost = stream.usage.cost if stream else None
    return cost_words(cost, unknown=int(cost is None))


def read_screen(board: Board, streams: Streams) -> Mapping[str, Any]:
    """Return the agents at work in a project, and announce their messages from then on.

    `loops` are the running loops, each with the cards of its workers, `others` the cards of other
    sessions, `last` the last ended loop. `notes` are sentences on worktrees and kept branches.
    Raises `ProjectError` if the project cannot be read.
    """
    root, loops = board.root, stored_loops(board.root)
    folder = sessions_folder(root)
    lines = {
        one.session_id: _as_now(root, one)
        for one in board.kept(SESSIONS, read_sessions)
        if one.works or launcher_of(folder / one.session_id) is not None
    }
    running = [read_loop(one) for one in loops if one.running and not one.doubt]
    own = {session for loop in running for session in loop.workers.values()}
    ended = next((one for one in loops if not one.running), None)
    alone = has_tables_alone(root)

    def card(name: str, session: SessionLine) -> WorkerCard:
        board.follow(session.session_id)
        stream = streams.of(session.session_id, session.record.agent or "")
        return WorkerCard(name, session, stream)

    def cards(loop: LoopView) -> list[WorkerCard]:
        known = ((number, lines.get(session)) for number, session in sorted(loop.workers.items()))
        return [card(f"Agent {number}", session) for number, session in known if session]

    others = [card("", one) for name, one in lines.items() if one.works and name not in own]
    return {
        "loops": [(loop, cards(loop)) for loop in running],
        "others": others,
        "headline": at_work(len(others)).capitalize(),
        "last": None if ended is None else read_loop(ended),
        "problems": [doubted(one) for one in loops if one.doubt],
        "ready": 0 if alone else board.kept("status", ready_tasks),
        "left": 0 if alone else board.kept("status", open_tasks),
        "merges": len(items_of(board).waits),
        "notes": board.kept("record loop", kept_work),
    }


def _as_now(root: Path, session: SessionLine) -> SessionLine:
    """Return a session of the last change with its current state."""
    stored = stored_session(root, session.session_id)
    launched = stored is not None and launcher_of(stored.folder) is not None
    works = launched or (stored is not None and stored.running)
    return replace(session, works=works, agent_runs=launched)


def open_tasks(root: Path) -> int:
    """Return how many tasks are pending or in progress."""
    with open_database(root) as connection:
        rows = _rows(root, connection)
        if rows.lacks("tasks", "status"):
            return 0
        return sum(count for status, count in rows.execute(COUNTS) if status in OPEN)


def kept_work(root: Path) -> tuple[str, ...]:
    """Return sentences on worktrees and kept branches; none without git or a ledger."""
    with suppress(RalphgenError):
        return tuple(worktree_notes(root))
    return ()


@dataclass(frozen=True, slots=True)
class NightLines:
    """A night with its sessions, newest first; times are ISO 8601."""

    night: Night
    sessions: tuple[SessionLine, ...]

    @property
    def began(self) -> str:
        """Return when it began."""
        return self.night.begin.isoformat()

    @property
    def ended(self) -> str:
        """Return when it ended; empty while it runs."""
        return "" if self.night.is_running else self.night.end.isoformat()


def nights_of(root: Path, sessions: Sequence[SessionLine]) -> tuple[NightLines, ...]:
    """Return the nights of sessions, the newest first."""
    lines = {one.session_id: one for one in sessions}
    active = [name for name, one in lines.items() if one.kind == "run"]
    merging = {one.task for one in lines.values() if one.outcome == MERGING}
    found = nights(
        [one.record for one in lines.values()],
        loop_spans(root),
        active,
        [task for task in merging if task is not None],
    )
    return tuple(
        NightLines(one, tuple(lines[record.session_id] for record in reversed(one.sessions)))
        for one in found
    )


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A changed row: `what` is made, changed or deleted, `where` its table and key.

    `columns` have a name, and the values before and after.
    """

    what: str
    where: str
    columns: tuple[tuple[str, str, str], ...]


def find_session(root: Path, session_id: str) -> SessionLine | None:
    """Return one session of the project in `root`, or None if the id is unknown."""
    if not session_id.isprintable() or len(session_id) > LONGEST_ID:
        return None
    stored = stored_session(root, session_id)
    record = recorded_sessions(root, [session_id]).get(session_id)
    if record is None and stored is None:
        return None
    with open_database(root) as connection:
        rows = _rows(root, connection)
        records = [record] if record is not None else [_record_of(one) for one in (stored,) if one]
        return _lines(rows, records, {session_id: stored} if stored else {})[0]


def read_session(root: Path, session: SessionLine, *, ours: bool) -> Mapping[str, object]:
    """Return the work of a session; `ours` is whether this board started its agent, which runs.

    `stops` is what the board can stop in it: an agent, a server, or nothing. `undo` is the command
    that takes its rows back, empty if they are not on record. `changes` and `checks` have the
    newest first. Raises `ProjectError` if the database cannot be read.
    """
    changes: Sequence[JournalEntry] = ()
    runs: Sequence[CheckRecord] = ()
    with open_database(root) as connection:
        schema = Project(root).schema_in(connection)
        if state_of(connection).version is not None:
            rows = Rows(connection, {})
            changes = changes_by(rows, session.session_id, CHANGES)
            if session.task is not None:
                runs = runs_by(rows, session.session_id, session.task, RUNS)
    return {
        "stops": "agent" if session.agent_runs or ours else "server" if session.works else "",
        "undo": f"ralphgen undo {shlex.quote(session.session_id)}" if changes else "",
        "changes": [_changed(one, schema.hidden) for one in changes],
        "checks": [*map(shown_check, runs)],
    }


def session_diff(root: Path, session: SessionLine) -> FileChanges:
    """Return the changed files of a session: of its merge, or the current ones while it runs.

    The folder of another session can contain later work.
    """
    if session.record.merged:
        return merge_diff(root, session.record.merged)
    if not session.works:
        return FileChanges("", problem=OVER)
    with open_database(root) as connection:
        known = state_of(connection).version is not None
        base = base_of(Rows(connection, {}), session.session_id) if known else None
    return tree_diff(root, session.record.worktree, base)


def _changed(entry: JournalEntry, is_hidden: Callable[[str, str], bool]) -> ChangedRow:
    """Return a changed row; of hidden columns only the names are shown."""
    before, after = _columns(entry.before), _columns(entry.after)

    def value(side: Mapping[str, object], name: str) -> str:
        found = side.get(name)
        if found is None:
            return ""
        if is_hidden(entry.table, name):
            return "(hidden)"
        return paragraph(found if isinstance(found, str) else json.dumps(found), LONGEST_VALUE)

    return ChangedRow(
        what="made" if entry.before is None else "deleted" if entry.after is None else "changed",
        where=f"{line(entry.table)} {line(entry.key)}",
        columns=tuple(
            (line(name), value(before, name), value(after, name))
            for name in dict.fromkeys([*before, *after])
        ),
    )


def _columns(stored: str | None) -> Mapping[str, object]:
    """Return the columns of one side of a change; other text is shown literally."""
    with suppress(ValueError, RecursionError):
        found = json.loads(stored or "{}")
        return found if isinstance(found, dict) else {"": stored}
    return {"": stored}


FIELDS = ("agent", *LIMITS, "worktrees")
"""The fields of the form that starts a loop."""


def read_start(board: Board, typed: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the form with the typed values, by default the options of the last loop.

    With a task, it is `single`: it starts one session by a recipe, and `title` is that of the task.
    `summary` is a sentence on the values. Raises `ProjectError` if the project cannot be read.
    """
    root, items = board.root, items_of(board)
    single, task, title = "task" in typed, typed.get("task", ""), ""
    if TASK.fullmatch(task):
        with Project(root).task_rows() as (rows, _):
            title = _titles(rows, [int(task)]).get(int(task), "")
    if not single and not any(name in typed for name in FIELDS):
        last = next(iter(stored_loops(root)), None)
        events = read_events(last, 0) if last is not None else ()
        typed = known_options(events[0].get("options")) if events else {}
    given = dict.fromkeys((*FIELDS, "recipe", "task"), "") | dict(typed)
    usual = next((one.median for one in items.nights if one.median is not None), None)
    ready = 0 if single else board.kept("status", ready_tasks)
    return {
        "recipes": recipes_here(root, task),
        "agents": agents_of(root),
        "typed": given,
        "single": single,
        "title": title,
        "summary": "" if single else start_summary(given, ready, usual),
    }


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""
    own = AgentsScreen(desk)
    return [
        Route("/agents", own.show, methods=["GET"]),
        Route("/agents/start", own.start_form, methods=["GET"]),
        Route("/agents/start", own.start, methods=["POST"]),
        Route("/loop/ask", own.ask, methods=["POST"]),
        Route("/agents/{session_id}", own.session, methods=["GET"]),
        Route("/agents/{session_id}/stop", own.stop, methods=["POST"]),
    ]


TEMPLATE = "agents.html.jinja"


class AgentsScreen:
    """Answers the requests for this screen."""

    def __init__(self, desk: Desk) -> None:
        """Begin with nothing started."""
        self._desk = desk
        self._root = desk.root
        self._streams = Streams(desk.root)
        self._started = StartedProcesses(desk.root, desk.tell)

    async def show(self, request: Request) -> Response:
        """Show the agents at work, and the nights."""
        query = query_of(request)
        part = query.get("part", "")

        def read() -> Mapping[str, object]:
            values: dict[str, object] = {"view": "agents"}
            if part in ("", "now"):
                screen = read_screen(self._desk.board, self._streams)
                cards = [*(card for _, own in screen["loops"] for card in own), *screen["others"]]
                streams = [card.session.key for card in cards]
                values |= {"screen": screen, "heeds": " ".join(["loop status sessions", *streams])}
                values["tables_alone"] = has_tables_alone(self._root)
            if part in ("", "nights"):
                sessions = self._desk.board.kept(SESSIONS, read_sessions)
                if "all" in query:
                    sessions = read_sessions(self._root, MOST_SESSIONS)
                values["nights"] = nights_of(self._root, sessions)
                values["recorded"] = read_state(self._root).version is not None
                values["cut"] = len(sessions) == HERE
                alone = has_tables_alone(self._root)
                values["needs"] = 0 if alone else items_of(self._desk.board).stopping
            return values

        return await self._desk.page(request, TEMPLATE, read, title="Agents")

    async def session(self, request: Request) -> Response:
        """Show one session."""
        session_id: str = request.path_params["session_id"]
        query = query_of(request)
        part = query.get("part", "")

        def read() -> Mapping[str, object]:
            found = find_session(self._root, session_id)
            if found is None:
                raise HTTPException(404, "there is no such session")
            self._desk.board.follow(session_id)
            values: dict[str, object] = {
                "view": "session",
                "title": f"#{found.task} {found.title}" if found.task is not None else "A session",
                "session": found,
                "stream": stream_name(session_id),
                "tree": tree_name(session_id),
            }
            if part in ("", "facts", "work"):
                ours = self._started.runs(session_id)
                values["page"] = read_session(self._root, found, ours=ours)
            if part in ("", "facts", "words"):
                stream = self._streams.of(session_id, found.record.agent or "")
                entries = () if stream is None else tuple(stream.entries)
                most = SHOWN_ALL if "all" in query else SHOWN_WORDS
                values["entries"] = entries[-most:]
                values["hidden"] = max(0, len(entries) - most)
                values |= {"log": stream, "cost_now": cost_so_far(stream)}
            if part in ("", "files"):
                values["files"] = session_diff(self._root, found)
            return values

        return await self._desk.page(request, TEMPLATE, read, title="A session")

    async def start_form(self, request: Request) -> Response:
        """Show the form that starts agents."""
        return await self._start_form(request, query_of(request), None)

    async def _start_form(
        self, request: Request, typed: Mapping[str, str], outcome: ActionResult | None
    ) -> Response:
        def read() -> Mapping[str, object]:
            return {"view": "start", "form": read_start(self._desk.board, typed)}

        return await self._desk.page(request, TEMPLATE, read, title="Start agents", outcome=outcome)

    async def start(self, request: Request) -> Response:
        """Start agents; a refused form keeps its values."""
        form = await form_of(request)
        begun, outcome = await in_thread(lambda: self._started.start(form))
        then = address_of(begun) if begun and form.texts("recipe") else "/agents"
        if outcome.ok or wants_json(request):
            outcome = replace(outcome, then=then) if outcome.ok else outcome
            return self._desk.answered(request, outcome, then)
        typed = {name: "".join(form.texts(name)) for name in form.names}
        return await self._start_form(request, typed, outcome)

    async def ask(self, request: Request) -> Response:
        """Pass a request on to a loop."""

        def act(form: Form) -> ActionResult:
            return ask_loop(self._root, form.text("loop"), form.text("ask"))

        return await self._desk.decide(request, act, "/agents")

    async def stop(self, request: Request) -> Response:
        """Stop the agent or the servers of a session."""
        session_id: str = request.path_params["session_id"]

        def act(_: Form) -> ActionResult:
            return stop_session(self._root, session_id, self._started)

        return await self._desk.decide(request, act, address_of(session_id))
