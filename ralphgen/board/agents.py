"""The agents at work, their cost, the nights before, and the start and stop of agents."""

import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Lock, Thread
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from ralphgen.agents.adapters import agents_here
from ralphgen.agents.agent import prints
from ralphgen.agents.calls import read_policy
from ralphgen.agents.transcripts import SessionStream, Streams
from ralphgen.board.charts import spending
from ralphgen.board.diff import FileChanges
from ralphgen.board.inbox import (
    MOST_SESSIONS,
    items_of,
    loop_spans,
    nights,
    ready_tasks,
    working_sessions,
)
from ralphgen.board.live import Board, has_tables_alone, reading, tree_name
from ralphgen.board.render import Desk, took
from ralphgen.board.review import (
    WorkSession,
    changed_columns,
    check_view,
    session_address,
    session_changes,
    work_session,
)
from ralphgen.board.text import ActionResult, Form, line, moment, paragraph
from ralphgen.errors import Problem, RalphgenError, UsageError
from ralphgen.kits.ralph.rows import Rows
from ralphgen.kits.registry import read_settings
from ralphgen.ledger import record as ledger
from ralphgen.ledger.tables import read_state
from ralphgen.loop.cost import LARGEST, Costs, cost_words
from ralphgen.loop.record import StoredLoop, ask_loops, course_of, read_events, stored_loops
from ralphgen.loop.run import LEAST_COST, MOST_PARALLEL, parse_duration, parse_until
from ralphgen.loop.trees import worktree_notes
from ralphgen.project.model import Names
from ralphgen.project.root import sessions_folder
from ralphgen.runtime.engine.ledger import DONE
from ralphgen.runtime.session import ROWS
from ralphgen.sessions import store
from ralphgen.sessions.end import end_session

LIMITS = ("parallel", "max_cost", "max_time")
"""The options of a loop that take a value, as the form's fields."""
LABELS = {
    "agent": "Agent",
    "parallel": "At once",
    "max_cost": "Budget in $",
    "max_time": "For at most, or until",
    "until": "For at most, or until",
    "worktrees": "One worktree per agent",
    "task": "Task",
    "recipe": "Recipe",
}
"""By the name of an option of a command, the label of its field."""
WORDS = {
    "--task N, or --next": '"Task"',
    '"ralphgen task list" lists them': '"Tasks" lists them',
    '"ralphgen loop" starts one': '"Start agents" starts one',
}
"""Texts of commands, with their replacements on pages."""
OPTION = re.compile(r'"?--([a-z][a-z-]*)"?')
CLOCK = re.compile(r"\d{1,2}:\d\d", re.ASCII)
ERROR, HINT = "error: ", "hint: "
PATIENCE = 20.0  # seconds to wait for a start
STOP_PATIENCE = 15.0  # seconds for an agent to clean up and to release its task
KEPT = re.compile("^transcript: (.+)$", re.MULTILINE)  # in the output of a session that has ended
LOOK = 0.1  # seconds between checks for its begin
SAID = 8_000  # bytes of the output of a command that are shown
ASKED = {
    "pause": "Paused: running sessions continue, and no new ones start",
    "resume": "The loop continues",
    "stop": "The loop ends after the running sessions",
    "stop-now": "Stopping the agents; their tasks are released",
}
"""The result of each request to a loop."""


def end_of(limit: str, begin: float) -> float:
    """Return when a limit such as 8h or 07:00 ends; raises `UsageError` for other texts."""
    return parse_until(limit, begin) if CLOCK.fullmatch(limit) else begin + parse_duration(limit)


def limit_problem(name: str, given: str) -> str:
    """Return why an option cannot have this value, in the words of the form; empty if it can."""
    label, amount = f'"{LABELS[name]}"', math.nan
    with suppress(ValueError):
        amount = float(given)
    if name == "max_cost":
        text = f'{label} must be at least {LEAST_COST}, such as 20 or 7.5, not "{line(given)}"'
        return "" if LEAST_COST <= amount <= LARGEST else text
    if name == "parallel":
        text = f'{label} must be a whole number from 1 to {MOST_PARALLEL}, not "{line(given)}"'
        return "" if re.fullmatch("[0-9]{1,9}", given) and 1 <= amount <= MOST_PARALLEL else text
    try:
        end_of(given, time.time())
    except UsageError as error:
        more = "" if CLOCK.fullmatch(given) else ", or a time such as 07:00"
        return f"{label}: {error.problems[0].text}{more}"
    return ""


def valid_options(found: object) -> Mapping[str, str]:
    """Return the valid options in a loop's first event, which agents can write, by field."""
    given = dict(found) if isinstance(found, dict) else {}
    given["max_time"] = given.get("max_time") or given.get("until")
    texts = {
        name: f"{value:.15g}" if isinstance(value, float) else str(value)
        for name in LIMITS
        if isinstance(value := given.get(name), int | str | float)
    }
    valid = {name: text for name, text in texts.items() if not limit_problem(name, text)}
    if isinstance(given.get("agent"), str):
        valid["agent"] = line(given["agent"])
    return valid | ({"worktrees": "1"} if given.get("worktrees") is True else {})


def start_summary(typed: Mapping[str, str], ready: int, usual: float | None) -> str:
    """Return a sentence on a loop with the values of the form."""
    given = {name: typed.get(name, "").strip() for name in LIMITS}
    valid = {name: text for name, text in given.items() if not limit_problem(name, text)}
    parallel = int(valid.get("parallel", "1"))
    words = ["1 agent" if parallel == 1 else f"Up to {parallel} agents"]
    if "max_cost" in valid:
        words.append(f"at most {cost_words(float(valid['max_cost']))}")
    if limit := valid.get("max_time"):
        words.append(f"until {limit}" if CLOCK.fullmatch(limit) else f"for at most {limit}")
    tasks = "1 task is ready" if ready == 1 else f"{ready or 'no'} tasks are ready"
    if usual is not None and ready:
        cost = cost_words(usual * ready, digits=0 if usual * ready >= 1 else 2)
        tasks += f", about {cost} by last night's median"
    return f"{', '.join(words)}; {tasks}."


def recipes_here(root: Path, task: str = "") -> Names:
    """Return the recipes that run without the user; for a task, those that work on a task."""
    policy = read_policy(root, trust_edited=True)
    recipes = [name for name in policy.recipes if prints(policy.profile(name))]
    return tuple(name for name in recipes if ("task" in policy.targets(name)) == bool(task))


def agents_of(root: Path) -> tuple[tuple[str, str], ...]:
    """Return the names and titles of the agents of this machine."""
    return tuple((one.name, one.title) for one in agents_here(read_settings(root)))


def in_words_of_page(text: str) -> str:
    """Return a text of a command with the names of fields in place of options and commands."""
    for said, shown in WORDS.items():
        text = text.replace(said, shown)

    labels = {name.replace("_", "-"): f'"{label}"' for name, label in LABELS.items()}
    return OPTION.sub(lambda found: labels.get(found[1], found[0]), text)


def _problems_of(error: RalphgenError) -> tuple[Problem, ...]:
    return tuple(Problem(*map(in_words_of_page, (one.text, one.hint))) for one in error.problems)


def _refusals(said: str) -> tuple[Problem, ...]:
    """Return the reasons for a refusal in the output of a command."""
    begin = re.search(f"^{ERROR}", said, re.MULTILINE)
    problems: list[Problem] = []
    for one in in_words_of_page(said[begin.start() if begin else 0 :]).splitlines():
        if one.startswith(HINT) and problems:
            problems[-1] = replace(problems[-1], hint=one.removeprefix(HINT))
        else:
            problems.append(Problem(one.removeprefix(ERROR)))
    return tuple(problems)


def doubted(stored: StoredLoop) -> Problem:
    """Return why a file that looks like a running loop may not be one, with the remedy."""
    text = f'"{stored.path}" is locked as if a loop were running, but {stored.doubt}'
    return Problem(text, "remove the file; a running loop creates it again")


def _refused(problems: Iterable[Problem]) -> ActionResult:
    return ActionResult(False, "Nothing was started", (), tuple(problems))


class StartedCommand:
    """A command of ralphgen that outlives the board, without a terminal.

    `begun` is the id of its session or loop, and `result` that of its start.
    """

    def __init__(self, words: Sequence[str], root: Path) -> None:
        self._root = root
        self.is_loop = words[0] == "loop"
        self.name = "The loop" if self.is_loop else "The session"
        self.begun = ""
        self.result: Future[ActionResult] = Future()
        self.over = Event()
        self._file = TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ralphgen", *words],  # no module of the project
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._file,
            start_new_session=True,
        )
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Note the begin and the end of the command; also a failure of that ends the start."""
        try:
            with self._file as file:
                while not self.begun and self.process.poll() is None:
                    self._note(next(self._find(), ""))
                    time.sleep(LOOK)
                code = self.process.wait()
                file.seek(-min(SAID, file.seek(0, os.SEEK_END)), os.SEEK_END)
                said = paragraph(file.read().decode(errors="replace"), SAID)
            if not self.begun and (kept := KEPT.findall(said)):
                self._note(Path(kept[-1]).parent.name)  # it has ended between two looks
            if not self.begun:
                text = f"{self.name} has ended already"
                ended = ActionResult(True, text, tuple(said.splitlines()))
                self.result.set_result(_refused(_refusals(said)) if code else ended)
        finally:
            if not self.result.done():
                hint = f"end process {self.process.pid} if it is still running"
                self.result.set_result(_refused([Problem("the start cannot be watched", hint)]))
            self.process.wait()
            self.over.set()

    def _note(self, begun: str) -> None:
        if begun:
            self.begun = begun
            then = "/agents" if self.is_loop else session_address(begun)
            self.result.set_result(ActionResult(True, f"{self.name} has started", then=then))

    def _find(self) -> Iterator[str]:
        """Yield the running loop of the process, and its sessions."""
        pid = self.process.pid
        yield from (one.loop_id for one in stored_loops(self._root) if one.pid == pid)
        with suppress(OSError):
            folders = sessions_folder(self._root).iterdir()
            yield from (one.name for one in folders if store.launcher_of(one) == pid)


class StartedProcesses:
    """The processes that this board has started in a project, for any thread; they outlive it.

    `tell` is called with the result of a failed start that no request waits for any more.
    """

    def __init__(self, root: Path, tell: Callable[[ActionResult], None]) -> None:
        self._root = root
        self._tell = tell
        self._commands: Sequence[StartedCommand] = ()
        self._starting = Lock()

    def _active(self) -> list[StartedCommand]:
        return [one for one in self._commands if not one.over.is_set()]

    def running(self, begun: str) -> StartedCommand | None:
        """Return the running command that began this session, or None."""
        return next((one for one in self._active() if one.begun == begun), None)

    def start(self, form: Form) -> ActionResult:
        """Start a session by its recipe, or a loop, and wait until it has begun or was refused."""
        is_loop = not form.texts("recipe")
        try:
            words, problems = self._loop(form) if is_loop else self._session(form)
        except RalphgenError as error:
            return _refused(_problems_of(error))
        if any("\0" in word for word in words):
            problems.append(Problem("an option contains a NUL character"))
        with self._starting:
            if is_loop and not problems:
                problems = self._looping_already()
            if problems:
                return _refused(problems)
            command = StartedCommand(words, self._root)
            self._commands = [*self._active(), command]
        try:
            return command.result.result(PATIENCE)
        except TimeoutError:
            command.result.add_done_callback(lambda _: self._tell_of(command))
            return ActionResult(True, f"{command.name} is starting", then="/agents")

    def _tell_of(self, command: StartedCommand) -> None:
        """Report a slow command that has ended before it began."""
        if not command.begun:
            self._tell(command.result.result())

    def _unknown(self, form: Form, **known: Names) -> list[Problem]:
        return [
            Problem(f"there is no {name} with this name", "choose another", field=name)
            for name, names in {**known, "agent": tuple(dict(agents_of(self._root)))}.items()
            if form.text(name) not in names
        ]

    def _session(self, form: Form) -> tuple[list[str], list[Problem]]:
        recipe, task, agent = (form.text(name) for name in ("recipe", "task", "agent"))
        words = ["launch", recipe, f"--agent={agent}", *([f"--task={task}"] if task else [])]
        return words, self._unknown(form, recipe=recipes_here(self._root, task))

    def _loop(self, form: Form) -> tuple[list[str], list[Problem]]:
        """Return the command for a loop, and problems of the form."""
        problems, words = self._unknown(form), ["loop", f"--agent={form.text('agent')}"]
        for name in LIMITS:
            if text := form.text(name).strip():
                is_clock = name == "max_time" and CLOCK.fullmatch(text)
                words.append(f"--{'until' if is_clock else name.replace('_', '-')}={text}")
                if problem := limit_problem(name, text):
                    problems.append(Problem(problem, field=name))
        return [*words, *["--worktrees"] * bool(form.texts("worktrees"))], problems

    def _looping_already(self) -> list[Problem]:
        """Return why no loop can be started now, with a remedy."""
        if any(one.is_loop and not one.begun for one in self._active()):
            return [Problem("a loop is starting", "wait until it has started")]
        for running in (one for one in stored_loops(self._root) if one.running):
            text = doubted(running).text if running.doubt else "a loop is running"
            hint = f'stop it first; if it does not stop, remove "{running.path}"'
            return [Problem(text, f"{hint}; a running loop creates it again")]
        return []


def ask_loop(root: Path, form: Form) -> ActionResult:
    """Pass a request of the user on to a running loop."""
    word = form.text("ask")
    try:
        ask_loops(root, word, form.text("loop"))
    except RalphgenError as error:
        return ActionResult(False, "The loop received no request", (), _problems_of(error))
    return ActionResult(True, ASKED[word])


def stop_session(root: Path, session_id: str, started: StartedProcesses) -> ActionResult:
    """Stop the agent of a session and release its task, or end the servers that run without one.

    Without the mark of an agent, a process that this board started is ended.
    """
    stored, over = store.stored_session(root, session_id), True
    command = started.running(session_id)
    if stored is not None and store.ask_to_stop(stored.folder):
        over = store.has_stopped(stored.folder, STOP_PATIENCE)
    elif command is not None:
        command.process.terminate()  # and with it the agent that it watches
    elif stored is not None and stored.running:
        return ActionResult(True, end_session(root, session_id, stops_servers=True).sentence)
    else:
        text = "no agent works in this session" if stored is not None else "there is no session"
        problem = Problem(text, "end it in its terminal or client")
        return ActionResult(False, "Nothing was stopped", (), (problem,))
    if over and (command is None or command.over.wait(STOP_PATIENCE)):
        return ActionResult(True, "The agent has ended, and its task is released")
    late = "The agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    remedy = f'if it does not end, remove "{stored.folder / store.MARK}"'
    return ActionResult(True, late, (f"{remedy}: a running agent creates it again",))


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


def read_sessions(root: Path, most: int = HERE) -> tuple[WorkSession, ...]:
    """Return the sessions on record and on this machine without users' decisions, newest first."""
    stored = {one.session_id: one for one in store.stored_sessions(root) if not one.dry_run}
    with reading(root) as (rows, _):
        recorded = ledger.newest_sessions(rows, most) if rows.has_ledger else ()
        return _lines(rows, recorded, stored)[:most]


def find_session(root: Path, session_id: str) -> WorkSession | None:
    """Return one session of the project in `root`, or None if the id is unknown."""
    if not session_id.isprintable():
        return None
    stored = store.stored_session(root, session_id)
    records = ledger.recorded_sessions(root, [session_id])
    with reading(root) as (rows, _):
        found = _lines(rows, [*records.values()], {session_id: stored} if stored else {})
        return found[0] if found else None


def _lines(
    rows: Rows, recorded: Sequence[ledger.SessionRecord], stored: Mapping[str, store.StoredSession]
) -> tuple[WorkSession, ...]:
    known = {one.session_id for one in recorded}
    records = [*recorded, *(_record_of(one) for name, one in stored.items() if name not in known)]
    titles = _titles(rows, [one.task_id for one in records])
    ids = [one.session_id for one in records] if rows.has_ledger else []
    holding = ledger.holding_sessions(rows, ids) if ids else frozenset()
    live = working_sessions(rows) if ids else frozenset()  # also on other machines

    def session_line(record: ledger.SessionRecord) -> WorkSession:
        name, outcome = record.session_id, record.outcome or ""
        own, work = stored.get(name), work_session(record)
        runs = what_runs(own)
        if not outcome:
            outcome = "at work" if runs or name in live else "no end on record"
        elif outcome == DONE and (record.merged or record.worktree):
            outcome = "merged" if record.merged else MERGING if name in holding else "not merged"
        return work._replace(
            record=replace(work.record, session_id=name, worktree=record.worktree),
            title=titles.get(record.task_id or 0, ""),
            outcome=line(OUTCOMES.get(outcome, outcome)),
            kind=KINDS.get(outcome, "stop"),
            runs=runs,
            containment=own.containment if own and own.facts else "",
        )

    return tuple(
        sorted(map(session_line, records), key=lambda one: one.record.started, reverse=True)
    )


def _record_of(stored: store.StoredSession) -> ledger.SessionRecord:
    facts, task = stored.facts, stored.facts.get(ROWS["task"])
    task = task if type(task) is int and abs(task) <= LARGEST_ID else None
    begin = f"{datetime.now(UTC) - timedelta(seconds=stored.age):%Y-%m-%dT%H:%M:%SZ}"
    recipe, discipline, feature = (line(facts.get(name)) for name in FACTS)
    named = (stored.session_id, recipe, discipline, task, feature)
    return ledger.SessionRecord(*named, None, None, begin, *(None,) * 10)


def what_runs(stored: store.StoredSession | None) -> str:
    """Return what runs in a session on this machine: "agent", "server", or nothing."""
    if stored is not None and store.launcher_of(stored.folder) is not None:
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

    `per_task` is its cost for each closed task, `stops` when it ends, and `left` the time until
    then.
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
    """Return the agents at work in a project, and announce their messages from then on."""
    root, stored, heeds = board.root, stored_loops(board.root), ["loop status sessions"]
    lines = {
        one.record.session_id: one._replace(runs=what_runs(store.stored_session(root, folder.name)))
        for one in board.cached(SESSIONS, read_sessions)
        for folder in [sessions_folder(root) / one.record.session_id]
        if one.runs or store.launcher_of(folder) is not None
    }

    def card(name: str, session: WorkSession) -> Mapping[str, object]:
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
        "notes": board.cached("record loop", notes_on_kept_work),
        "heeds": " ".join(heeds),
    }


def open_tasks(root: Path) -> int:
    """Return how many tasks are pending or in progress."""
    with reading(root) as (rows, _):
        return 0 if rows.lacks("tasks", "status") else int(rows.execute(OPEN)[0][0])


def notes_on_kept_work(root: Path) -> tuple[str, ...]:
    """Return sentences on worktrees and kept branches; none without git or a ledger."""
    with suppress(RalphgenError):
        return tuple(worktree_notes(root))
    return ()


def read_nights(board: Board, sessions: Sequence[WorkSession]) -> Mapping[str, Any]:
    """Return the nights of sessions, the newest first, with the sessions by id."""
    active = [one.record.session_id for one in sessions if one.kind == "run"]
    merging = [one.record.task_id or 0 for one in sessions if one.outcome == MERGING]
    records, spans = [one.record for one in sessions], loop_spans(board.root)
    return {
        "nights": nights(records, spans, active, merging),
        "lines": {one.record.session_id: one for one in sessions},
        "recorded": read_state(board.root).version is not None,
        "cut": len(sessions) == HERE,
        "needs": len(items_of(board).stopping),
    }


def read_session(
    board: Board, streams: Streams, session_id: str, query: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return what the requested parts of a session show, and announce its messages."""
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
            changes = ledger.changes_by(rows, session_id, CHANGES) if rows.has_ledger else []
            has_runs = rows.has_ledger and task is not None
            runs = ledger.runs_by(rows, session_id, task or 0, RUNS) if has_runs else []
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
        values["files"] = FileChanges("", problem=OVER)
        if session.record.merged or session.runs:
            values["files"] = session_changes(board.root, session.record)
    return values


def read_start(board: Board, typed: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the form with the typed values, by default the options of the last loop.

    With a task, it is `single`: it starts one session by a recipe.
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

    def read(request: Request) -> Mapping[str, object]:
        query = request.state.query
        part, values = query.get("part", ""), dict[str, object](view="agents")
        if part in ("", "now"):
            values |= read_now(board, streams)
        if part in ("", "nights"):
            sessions = board.cached(SESSIONS, read_sessions)
            if "all" in query:
                sessions = read_sessions(root, MOST_SESSIONS)
            values |= read_nights(board, sessions)
        return values

    def read_one(request: Request) -> Mapping[str, object]:
        name = str(request.path_params["session_id"])
        values = read_session(board, streams, name, request.state.query)
        ours = started.running(name) is not None
        return {**values, "stops": "agent" if ours else values["session"].runs}

    def read_form(request: Request, form: Form | None, _: object) -> Mapping[str, object]:
        typed = request.state.query
        if form is not None:
            typed = {name: "".join(form.texts(name)) for name in form.names}
        return {"view": "start", "form": read_start(board, typed)}

    def start(_: Request, form: Form) -> ActionResult:
        return started.start(form)

    def stop(request: Request, _: Form) -> ActionResult:
        return stop_session(root, str(request.path_params["session_id"]), started)

    one = "/agents/{session_id}"
    return [
        desk.screen("/agents", TEMPLATE, "Agents", read),
        desk.form("/agents/start", TEMPLATE, "Start agents", start, "/agents", read_form),
        desk.decision("/loop/ask", lambda _, form: ask_loop(root, form), "/agents"),
        desk.screen(one, TEMPLATE, "A session", read_one),
        desk.decision(f"{one}/stop", stop, one),
    ]
