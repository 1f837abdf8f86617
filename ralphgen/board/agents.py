"""The agents at work, their cost, and the nights before."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.transcripts import SessionStream, Streams
from ralphgen.board.charts import spending
from ralphgen.board.diff import FileChanges, merge_diff, tree_diff
from ralphgen.board.inbox import MOST_SESSIONS, items_of, ready_tasks
from ralphgen.board.live import Board, has_tables_alone, in_thread, stream_name, tree_name
from ralphgen.board.nights import loop_spans, nights, working_sessions
from ralphgen.board.record import changed_columns, check_view, work_session
from ralphgen.board.render import Desk, took
from ralphgen.board.starts import (
    LIMITS,
    StartedProcesses,
    address_of,
    agents_of,
    ask_loop,
    doubted,
    end_of,
    recipes_here,
    start_summary,
    stop_session,
    valid_options,
)
from ralphgen.board.text import form_of, line, moment, query_of, wants_json
from ralphgen.errors import RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import (
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
from ralphgen.loop.record import StoredLoop, course_of, read_events, stored_loops
from ralphgen.loop.trees import worktree_notes
from ralphgen.project.database import open_database
from ralphgen.project.model import Schema
from ralphgen.project.root import sessions_folder
from ralphgen.runtime.engine.ledger import DONE
from ralphgen.runtime.session import ROWS
from ralphgen.sessions.store import StoredSession, launcher_of, stored_session, stored_sessions

TEMPLATE = "agents.html.jinja"
HERE = 200  # sessions of a list, at first
SHOWN_WORDS, SHOWN_ALL = 60, 2_000  # entries of a session's page, at first and by request
ON_CARD = 3  # entries
CHANGES, RUNS = 100, 50  # of a session's page
OVER = "the session is over, and its directory may contain later work"
TASK = re.compile("[0-9]{1,18}")
LARGEST_ID = 2**63 - 1
FACTS = ("recipe", "discipline", ROWS["feature"])  # of a session's files
MERGING = "merging"
SESSIONS = "record status sessions loop"  # changes of sessions
OPEN = "SELECT COUNT(*) FROM tasks WHERE status IN ('pending', 'in_progress')"
FIELDS = ("agent", *LIMITS, "worktrees")
"""The fields of the form that starts a loop."""
KINDS = dict.fromkeys((DONE, "merged", "ended"), "done")
KINDS |= {MERGING: "wait", "at work": "run", "asked": "ask", "no end on record": ""}
"""The mark of an outcome; that of another one is `stop`."""
OUTCOMES = {"open": "left open", "asked": "asks a question"}


class SessionLine(NamedTuple):
    """A session; unknown values are empty.

    `record` is its row, or as much of one as its files have. `outcome` is in words, such as
    `merged`, and `kind` its mark. `runs` is what runs in it on this machine: "agent", "server", or
    nothing. `seconds` is its duration, and `key` the id of its elements.
    """

    record: SessionRecord
    title: str
    outcome: str
    kind: str
    runs: str
    containment: str
    cost: str
    seconds: float | None
    address: str
    key: str


@contextmanager
def reading(root: Path) -> Iterator[tuple[Rows, Schema]]:
    """Read a project at one moment: its tasks and ledger, or of tables alone only the ledger."""
    project = Project(root)
    with open_database(root) as connection:
        schema = project.schema_in(connection)
        if project.serves_any_database:
            yield Rows(connection, {}, state_of(connection).version is not None), schema
        else:
            yield reading_rows(connection, schema), schema


def read_sessions(root: Path, most: int = HERE) -> tuple[SessionLine, ...]:
    """Return the sessions on record and on this machine without users' decisions, newest first."""
    stored = {one.session_id: one for one in stored_sessions(root) if not one.dry_run}
    with reading(root) as (rows, _):
        return _lines(rows, newest_sessions(rows, most) if rows.has_ledger else (), stored)[:most]


def find_session(root: Path, session_id: str) -> SessionLine | None:
    """Return one session of the project in `root`, or None if the id is unknown."""
    if not session_id.isprintable():
        return None
    stored, records = stored_session(root, session_id), recorded_sessions(root, [session_id])
    with reading(root) as (rows, _):
        found = _lines(rows, [*records.values()], {session_id: stored} if stored else {})
        return found[0] if found else None


def _lines(
    rows: Rows, recorded: Sequence[SessionRecord], stored: Mapping[str, StoredSession]
) -> tuple[SessionLine, ...]:
    known = {one.session_id for one in recorded}
    records = [*recorded, *(_record_of(one) for name, one in stored.items() if name not in known)]
    titles = _titles(rows, [one.task_id for one in records])
    ids = [one.session_id for one in records] if rows.has_ledger else []
    holding = holding_sessions(rows, ids) if ids else frozenset()
    live = working_sessions(rows) if ids else frozenset()  # also on other machines

    def session_line(record: SessionRecord) -> SessionLine:
        name, outcome = record.session_id, record.outcome or ""
        own, work = stored.get(name), work_session(record)
        runs = what_runs(own)
        if not outcome:
            outcome = "at work" if runs or name in live else "no end on record"
        elif outcome == DONE and (record.merged or record.worktree):
            outcome = "merged" if record.merged else MERGING if name in holding else "not merged"
        return SessionLine(
            replace(work.record, session_id=name, worktree=record.worktree),
            titles.get(record.task_id or 0, ""),
            line(OUTCOMES.get(outcome, outcome)),
            KINDS.get(outcome, "stop"),
            runs,
            own.containment if own and own.facts else "",
            work.cost,
            work.seconds,
            address_of(name),
            stream_name(name),
        )

    return tuple(
        sorted(map(session_line, records), key=lambda one: one.record.started, reverse=True)
    )


def _record_of(stored: StoredSession) -> SessionRecord:
    facts, task = stored.facts, stored.facts.get(ROWS["task"])
    task = task if type(task) is int and abs(task) <= LARGEST_ID else None
    begin = f"{datetime.now(UTC) - timedelta(seconds=stored.age):%Y-%m-%dT%H:%M:%SZ}"
    recipe, discipline, feature = (line(facts.get(name)) for name in FACTS)
    named = (stored.session_id, recipe, discipline, task, feature)
    return SessionRecord(*named, None, None, begin, *(None,) * 10)


def what_runs(stored: StoredSession | None) -> str:
    """Return what runs in a session on this machine: "agent", "server", or nothing."""
    if stored is not None and launcher_of(stored.folder) is not None:
        return "agent"
    return "server" if stored is not None and stored.running else ""


def _titles(rows: Rows, tasks: Iterable[int | None]) -> dict[int, str]:
    named = [one for one in {*tasks} if one is not None]
    if not named or rows.lacks("tasks", "id", "title"):
        return {}
    return {
        task: line(title) for task, title in rows.rows_by_id("tasks", ["id", "title"], str(named))
    }


def read_loop(stored: StoredLoop) -> dict[str, Any]:
    """Return a loop by the events of its file, which agents can write to.

    `options` are its valid options by the fields of the form. `per_task` is its cost for each
    closed task, `stops` the time when it ends, and `left` the time until then.
    """
    events = read_events(stored)
    course = course_of(events, running=stored.running)
    start, last = (events[0], events[-1]) if events else ({}, {})
    options = valid_options(start.get("options"))
    spent = (course.costs.known or 0.0) + (course.costs.estimated or 0.0)
    budget = float(options["max_cost"]) if "max_cost" in options else None
    began, now = moment(start.get("time")), datetime.now(UTC)
    stops = picture = None
    if began is not None and began <= now:
        with suppress(RalphgenError, OverflowError, ValueError, OSError):
            end = end_of(options.get("max_time", ""), began.timestamp())
            stops = datetime.fromtimestamp(end, UTC)
        each = ((moment(one.get("time")), Costs.of([one])) for one in course.ends)
        points = [(at, cost.known, cost.estimated) for at, cost in each if at is not None]
        picture = spending(points, budget, began, max(stops or now, now), now)
    return {
        "loop_id": stored.loop_id,
        "course": course,
        "reason": line(course.stop.get("reason"), 500),
        "began": line(start.get("time")),
        "last": line(last.get("time")),
        "options": options,
        "per_task": cost_words(spent / course.done) if spent and course.done else "",
        "budget": budget,
        "stops": stops,
        "left": took(max(0.0, (stops - now).total_seconds())) if stops else "",
        "picture": picture,
    }


def cost_so_far(stream: SessionStream | None) -> str:
    """Return the cost that a running agent has reported, in words; most report it at their end."""
    cost = stream.usage.cost if stream else None
    return cost_words(cost, unknown=int(cost is None))


def read_now(board: Board, streams: Streams) -> Mapping[str, object]:
    """Return the agents at work in a project, and announce their messages from then on.

    `loops` are the running loops, each with the cards of its workers, `others` the cards of other
    sessions, `last` the last ended loop. `notes` are sentences on worktrees and kept branches.
    """
    root, stored, heeds = board.root, stored_loops(board.root), ["loop status sessions"]
    lines = {
        one.record.session_id: one._replace(runs=what_runs(stored_session(root, folder.name)))
        for one in board.cached(SESSIONS, read_sessions)
        for folder in [sessions_folder(root) / one.record.session_id]
        if one.runs or launcher_of(folder) is not None
    }

    def card(name: str, session: SessionLine) -> Mapping[str, object]:
        board.follow(session.record.session_id)
        heeds.append(session.key)
        stream = streams.of(session.record.session_id, session.record.agent or "")
        said = tuple(stream.entries)[-ON_CARD:] if stream else ()
        more = {"stream": stream, "said": said, "cost": cost_so_far(stream)}
        return {"name": name, "session": session, **more}

    loops = []
    for loop in (read_loop(one) for one in stored if one.running and not one.doubt):
        workers = sorted(loop["course"].workers.items())
        own = [(number, lines.pop(name)) for number, name in workers if name in lines]
        loops.append((loop, [card(f"Agent {number}", session) for number, session in own]))
    return {
        "loops": loops,
        "others": [card("", one) for one in lines.values() if one.runs],
        "last": next((read_loop(one) for one in stored if not one.running), None),
        "doubts": [doubted(one) for one in stored if one.doubt],
        "ready": 0 if has_tables_alone(root) else board.cached("status", ready_tasks),
        "left": board.cached("status", open_tasks),
        "merges": len(items_of(board).waits),
        "notes": board.cached("record loop", retained_work),
        "heeds": " ".join(heeds),
    }


def open_tasks(root: Path) -> int:
    """Return how many tasks are pending or in progress."""
    with reading(root) as (rows, _):
        return 0 if rows.lacks("tasks", "status") else int(rows.execute(OPEN)[0][0])


def retained_work(root: Path) -> tuple[str, ...]:
    """Return sentences on worktrees and kept branches; none without git or a ledger."""
    with suppress(RalphgenError):
        return tuple(worktree_notes(root))
    return ()


def read_nights(board: Board, sessions: Sequence[SessionLine]) -> Mapping[str, Any]:
    """Return the nights of sessions, the newest first, with the sessions by id."""
    active = [one.record.session_id for one in sessions if one.kind == "run"]
    merging = [one.record.task_id or 0 for one in sessions if one.outcome == MERGING]
    records, spans = [one.record for one in sessions], loop_spans(board.root)
    return {
        "nights": nights(records, spans, active, merging),
        "lines": {one.record.session_id: one for one in sessions},
        "recorded": read_state(board.root).version is not None,
        "cut": len(sessions) == HERE,
        "needs": items_of(board).stopping,
    }


def read_session(
    board: Board, streams: Streams, session_id: str, query: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return a session with what the requested parts of its page show, and announce its messages.

    `undo` is the command that takes its rows back, empty if they are not on record.
    """
    session, part = find_session(board.root, session_id), query.get("part", "")
    if session is None:
        raise HTTPException(404, "there is no such session")
    board.follow(session_id)
    task = session.record.task_id
    values: dict[str, object] = {
        "view": "session",
        "title": f"#{task} {session.title}" if task is not None else "A session",
        "session": session,
        "tree": tree_name(session_id),
        "worktree": Path(session.record.worktree or "").name,
    }
    if part in ("", "facts", "work"):
        with reading(board.root) as (rows, schema):
            changes = changes_by(rows, session_id, CHANGES) if rows.has_ledger else []
            has_runs = rows.has_ledger and task is not None
            runs = runs_by(rows, session_id, task or 0, RUNS) if has_runs else []
        values["undo"] = f"ralphgen undo {shlex.quote(session_id)}" if changes else ""
        values["changes"] = [(one, changed_columns(one, schema.hidden)) for one in changes]
        values["checks"] = [*map(check_view, runs)]
    if part in ("", "facts", "words"):
        stream = streams.of(session_id, session.record.agent or "")
        entries = () if stream is None else tuple(stream.entries)
        most = SHOWN_ALL if "all" in query else SHOWN_WORDS
        values |= {"log": stream, "cost_now": cost_so_far(stream)}
        values |= {"entries": entries[-most:], "hidden": max(0, len(entries) - most)}
    if part in ("", "files"):
        values["files"] = session_diff(board.root, session)
    return values


def session_diff(root: Path, session: SessionLine) -> FileChanges:
    """Return the changed files of a session: of its merge, or the current ones while it runs."""
    if session.record.merged:
        return merge_diff(root, session.record.merged)
    if not session.runs:
        return FileChanges("", problem=OVER)
    with reading(root) as (rows, _):
        base = base_of(rows, session.record.session_id) if rows.has_ledger else None
    return tree_diff(root, session.record.worktree, base)


def read_start(board: Board, typed: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the form with the typed values, by default the options of the last loop.

    With a task, it is `single`: it starts one session by a recipe, and `title` is that of the task.
    `summary` is a sentence on the values.
    """
    root, single, task, title, summary = board.root, "task" in typed, typed.get("task", ""), "", ""
    if TASK.fullmatch(task):
        with reading(root) as (rows, _):
            title = _titles(rows, [int(task)]).get(int(task), "")
    if not single and not typed.keys() & {*FIELDS}:
        last = next(iter(stored_loops(root)), None)
        events = read_events(last, 0) if last is not None else ()
        typed = valid_options(events[0].get("options")) if events else {}
    given = dict.fromkeys((*FIELDS, "recipe", "task"), "") | dict(typed)
    if not single:
        medians = (one.median for one in items_of(board).nights if one.median is not None)
        summary = start_summary(given, board.cached("status", ready_tasks), next(medians, None))
    return {
        "recipes": recipes_here(root, task),
        "agents": agents_of(root),
        "typed": given,
        "single": single,
        "title": title,
        "summary": summary,
    }


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""
    board, root, streams = desk.board, desk.root, Streams(desk.root)
    started = StartedProcesses(root, desk.tell)

    async def show(request: Request) -> Response:
        query = query_of(request)
        part = query.get("part", "")

        def read() -> Mapping[str, object]:
            values: dict[str, object] = {"view": "agents"}
            if part in ("", "now"):
                values |= read_now(board, streams)
            if part in ("", "nights"):
                sessions = board.cached(SESSIONS, read_sessions)
                if "all" in query:
                    sessions = read_sessions(root, MOST_SESSIONS)
                values |= read_nights(board, sessions)
            return values

        return await desk.page(request, TEMPLATE, read, title="Agents")

    async def session(request: Request) -> Response:
        query, name = query_of(request), str(request.path_params["session_id"])

        def read() -> Mapping[str, object]:
            values = read_session(board, streams, name, query)
            ours = started.running(name) is not None
            return {**values, "stops": "agent" if ours else values["session"].runs}

        return await desk.page(request, TEMPLATE, read, title="A session")

    async def start(request: Request) -> Response:
        """Start agents, or show the form for that; a refused form keeps its values."""
        typed, outcome = query_of(request), None
        if request.method == "POST":
            form = await form_of(request)
            outcome = await in_thread(lambda: started.start(form))
            if outcome.ok or wants_json(request):
                return desk.answered(request, outcome, outcome.then)
            typed = {name: "".join(form.texts(name)) for name in form.names}

        def read() -> Mapping[str, object]:
            return {"view": "start", "form": read_start(board, typed)}

        return await desk.page(request, TEMPLATE, read, title="Start agents", outcome=outcome)

    async def ask(request: Request) -> Response:
        return await desk.decide(request, partial(ask_loop, root), "/agents")

    async def stop(request: Request) -> Response:
        name = str(request.path_params["session_id"])
        return await desk.decide(
            request, lambda _: stop_session(root, name, started), address_of(name)
        )

    return [
        Route("/agents", show, methods=["GET"]),
        Route("/agents/start", start, methods=["GET", "POST"]),
        Route("/loop/ask", ask, methods=["POST"]),
        Route("/agents/{session_id}", session, methods=["GET"]),
        Route("/agents/{session_id}/stop", stop, methods=["POST"]),
    ]
