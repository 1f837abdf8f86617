"""The agents and loops that a board starts: options, choices, processes, the page of loops.

Only recipes that run without the user are offered; no input of a browser is used as a command.
"""

import math
import os
import re
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.adapters import agents_here
from ralphgen.agents.agent import prints
from ralphgen.agents.calls import read_policy
from ralphgen.board.page import BoardPlace, PageDesk, html, in_thread
from ralphgen.board.project import LOOPS
from ralphgen.board.record import titles_of
from ralphgen.board.text import (
    ActionResult,
    FieldProblem,
    Form,
    fieldless,
    form_of,
    line,
    moment,
    paragraph,
    query_of,
)
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import read_settings
from ralphgen.loop.cost import Costs
from ralphgen.loop.record import StoredLoop, ask_loops, read_events, stored_loops
from ralphgen.loop.run import (
    LEAST_COST,
    MOST_PARALLEL,
    Event,
    duration,
    event_lines,
    parse_duration,
)
from ralphgen.loop.trees import worktree_notes
from ralphgen.project.model import Names
from ralphgen.project.root import sessions_folder
from ralphgen.project.schema import open_rows
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.sessions.claims import next_tasks
from ralphgen.sessions.store import launcher_of

HINT = "hint: "
SAYS = "error: "  # before the first sentence of a refusal
LIMITS = ("parallel", "max_tasks", "max_cost", "max_time", "review_every")
"""The options that take a value, as the form's fields."""
LABELS = {
    "agent": "Agent",
    "parallel": "Agents at once",
    "max_tasks": "Sessions on tasks at most",
    "max_cost": "US dollars at most",
    "max_time": "Time at most",
    "review_every": "A review after so many tasks",
    "worktrees": "Each agent in a work tree of its own",
    "task": "Task",
    "recipe": "Recipe",
    "discipline": "Discipline, if not the task's own",
}
"""By the name of an option of a command, what stands beside its field."""
WORDS = {
    "--task N, or --next": '"Task"',
    '"ralphgen task list" lists them': '"Tasks" lists them',
    '"ralphgen loop" starts one': "the form below starts one",
}
"""Text of commands, with its replacement on pages."""
OPTION = re.compile(r'"?--([a-z][a-z-]*)"?')


def limit_problems(name: str, given: str) -> tuple[FieldProblem, ...]:
    """Return why an option cannot have this value, in the words of the form; empty if it can."""
    label, shown = LABELS[name], line(given)
    if name == "max_time":
        try:
            parse_duration(given)
        except UsageError as error:
            return (FieldProblem(name, f'"{label}": {error.problems[0].text}'),)
        return ()
    if name == "max_cost":
        text = f'"{label}" must be at least {LEAST_COST}, such as 20 or 7.5, not "{shown}"'
        return () if _amount(given) >= LEAST_COST else (FieldProblem(name, text),)
    most = MOST_PARALLEL if name == "parallel" else 0
    number = int(given) if re.fullmatch("[0-9]{1,9}", given) else 0
    if number and (not most or number <= most):
        return ()
    until = f"from 1 to {most}" if most else "of at least 1"
    return (FieldProblem(name, f'"{label}" must be a whole number {until}, not "{shown}"'),)


def known_options(found: object) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the options in a loop's first event as the form has them, and those no loop writes."""
    given = found if isinstance(found, dict) else {}
    named = {name: given[name] for name in ("agent", *LIMITS, "worktrees") if name in given}
    said = {name: value for name, value in named.items() if value not in (None, "", False)}
    odd = [name for name, value in said.items() if not _can_be(name, value)]
    return {name: line(value) for name, value in said.items() if name not in odd}, odd


def refusals(said: Sequence[str]) -> tuple[FieldProblem, ...]:
    """Return a command's reasons for a refusal, in the words of the page."""
    first = next((at for at, one in enumerate(said) if one.startswith(SAYS)), 0)
    problems: list[FieldProblem] = []
    for one in said[first:]:
        if one.startswith(HINT) and problems:
            problems[-1] = FieldProblem("", problems[-1].text, one.removeprefix(HINT))
        else:
            problems.append(FieldProblem("", one.removeprefix(SAYS)))
    return in_words_of_page(problems)


def in_words_of_page(problems: Iterable[FieldProblem]) -> tuple[FieldProblem, ...]:
    """Return problems with fields and pages where a command names its options and others."""
    return tuple(FieldProblem(one.field, _worded(one.text), _worded(one.hint)) for one in problems)


def _worded(text: str) -> str:
    for said, told in WORDS.items():
        text = text.replace(said, told)
    return OPTION.sub(_field, text)


def _field(found: re.Match[str]) -> str:
    label = LABELS.get(found[1].replace("-", "_"))
    return found[0] if label is None else f'"{label}"'


def _amount(given: str) -> float:
    """Return an amount, or negative infinity if the text is not one."""
    try:
        amount = float(given)
    except ValueError:
        return -math.inf
    return amount if math.isfinite(amount) else -math.inf


def _can_be(name: str, value: object) -> bool:
    """Return whether a loop can have been started with this."""
    if name == "worktrees":
        return value is True
    if name in ("agent", "max_time"):
        return isinstance(value, str) and (name == "agent" or not limit_problems(name, value))
    kind = int | float if name == "max_cost" else int
    return isinstance(value, kind) and not limit_problems(name, str(value))


READY = 20  # tasks to list in the form that starts an agent


@dataclass(frozen=True, slots=True)
class StartChoices:
    """The choices in the form that starts an agent.

    `recipes` are those that run without the user; for a task, those that work on a task.
    """

    recipes: Names
    disciplines: Names
    agents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """The result of a start: `begun` is the id of the session or loop, or "".

    `outcome` is the message for the user.
    """

    begun: str
    outcome: ActionResult


def start_choices(root: Path, task: str) -> StartChoices:
    """Return the choices for a start in the project in `root`; for a task, if one is named.

    Raises `ProjectError` if the project cannot be read.
    """
    policy = read_policy(root, trust_edited=True)
    recipes = [name for name in policy.recipes if prints(policy.profile(name))]
    if task:
        recipes = [name for name in recipes if "task" in policy.targets(name)]
    with open_rows(root) as rows:
        disciplines = tuple(rows.names("disciplines"))
    agents = tuple((one.name, one.title) for one in agents_here(read_settings(root)))
    return StartChoices(tuple(recipes), disciplines, agents)


def ready_tasks(root: Path) -> tuple[tuple[int, str], ...]:
    """Return the first ready tasks, each with its title; none without a ledger.

    Raises `ProjectError` if the project cannot be read.
    """
    project = Project(root)
    if project.schema.table(MARKER) is None:
        return ()
    first = next_tasks(root, project.schema)[:READY]
    with project.task_rows() as (rows, _):
        titles = titles_of(rows, first)
    return tuple((task, titles.get(task, "")) for task in first)


def refused_choice(given: str, known: Names, what: str) -> StartedAgent | None:
    """Return the refusal of an unknown choice, or None for a known one."""
    if given in known:
        return None
    problem = FieldProblem(what, f"there is no {what} with this name", "choose another")
    return StartedAgent("", ActionResult(False, "nothing was started", (), (problem,)))


def refused_agent(given: str, choices: StartChoices) -> StartedAgent | None:
    """Return the refusal of an unavailable agent, or None for an available one."""
    return refused_choice(given, tuple(name for name, _ in choices.agents), "agent")


def not_started(error: RalphgenError) -> StartedAgent:
    """Return that an error keeps everything from being started."""
    return StartedAgent(
        "",
        ActionResult(False, "nothing was started", (), in_words_of_page(fieldless(error.problems))),
    )


PATIENCE = 20.0  # seconds to wait for a start
LOOK = 0.05  # seconds between checks for its begin
SLOW_LOOK = 0.5  # the same, if no request waits any more
SAID = 8_000  # bytes of what a command has said that are shown
MOST_KEPT = 64  # starts that are remembered
Find = Callable[[int], str]
"""Returns the id of what a process has begun, "" as long as that is nothing."""


class StartedCommand:
    """A command of ralphgen that lives on without us; `code` is its exit code, None until then."""

    def __init__(self, words: Sequence[str], root: Path) -> None:
        """Start it in the project in `root`, without a terminal."""
        self.code: int | None = None
        self._said = ""
        self._file = TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ralphgen", *words],  # no module of the project
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._file,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._reading = Lock()
        Thread(target=self._bury, daemon=True).start()

    def said(self) -> str:
        """Return the end of its standard error output."""
        with self._reading:
            return self._said if self._file.closed else _end_of(self._file)

    def end(self) -> None:
        """Terminate it, and with it the agent or loop that it watches."""
        self._process.terminate()

    def _bury(self) -> None:
        code = self._process.wait()
        with self._reading:
            self._said = _end_of(self._file)
            self._file.close()
        self.code = code


class StartedProcesses:
    """The processes that this board has started; they outlive it.

    `tell` is called with the result of a failed start that no request waits for any more. Every
    method may be called in any thread.
    """

    def __init__(self, root: Path, tell: Callable[[ActionResult], None]) -> None:
        """Start none in the project in `root`."""
        self._root = root
        self._tell = tell
        self._keeping = Lock()
        self._known: OrderedDict[str, StartedCommand] = OrderedDict()
        self._looping = Lock()
        self._loop: StartedCommand | None = None  # one that had not begun at the last check

    def launch(self, form: Form) -> StartedAgent:
        """Start an agent in a session, as `ralphgen launch` does, with the same refusals."""
        recipe, task, agent = (form.text(name) for name in ("recipe", "task", "agent"))
        try:
            choices = start_choices(self._root, task)
        except RalphgenError as error:
            return not_started(error)
        refusal = refused_choice(recipe, choices.recipes, "recipe") or refused_agent(agent, choices)
        if refusal:
            return refusal
        words = ["launch", recipe, f"--agent={agent}"]
        words += [
            f"--{name}={form.text(name)}" for name in ("task", "discipline") if form.text(name)
        ]
        before = {one.name for one in _folders(self._root)}

        def find(pid: int) -> str:
            new = (one for one in _folders(self._root) if one.name not in before)
            return next((one.name for one in new if launcher_of(one) == pid), "")

        return self._start(words, find, "the session")[1]

    def loop(self, form: Form) -> StartedAgent:
        """Start a loop, as `ralphgen loop` does, with its refusals; a second one is refused."""
        agent = form.text("agent")
        try:
            choices = start_choices(self._root, "")
        except RalphgenError as error:
            return not_started(error)
        if refusal := refused_agent(agent, choices):
            return refusal
        given = {name: value for name in LIMITS if (value := form.text(name).strip())}
        if wrong := [one for name, value in given.items() for one in limit_problems(name, value)]:
            return StartedAgent("", ActionResult(False, "no loop was started", (), tuple(wrong)))
        words = ["loop", f"--agent={agent}"]
        words += [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        words += ["--worktrees"] * bool(form.texts("worktrees"))
        with self._looping:
            if problem := self._looping_already():
                outcome = ActionResult(False, "no loop was started", (), (problem,))
                return StartedAgent("", outcome)
            self._loop, started = self._start(words, self._loop_of, "the loop")
            return started

    def said(self, begun: str) -> str:
        """Return the end of the output of the command that began this; empty if it is unknown."""
        command = self._of(begun)
        return "" if command is None else command.said()

    def runs(self, begun: str) -> bool:
        """Return whether the command lives that began this."""
        command = self._of(begun)
        return command is not None and command.code is None

    def end(self, begun: str) -> bool:
        """End the command that began this, and its agent or loop; False if none is running."""
        command = self._of(begun)
        if command is None or command.code is not None:
            return False
        command.end()
        return True

    def _of(self, begun: str) -> StartedCommand | None:
        with self._keeping:
            return self._known.get(begun)

    def _looping_already(self) -> FieldProblem | None:
        """Return why no loop can be started now, with a remedy."""
        running = [one for one in stored_loops(self._root) if one.running]
        if running:
            text = f'the loop "{running[0].loop_id}" is running'
            if running[0].doubt:
                path, doubt = running[0].path, running[0].doubt
                text = f'"{path}" is locked as if a loop were running, but {doubt}'
            hint = f'stop it first; if it does not stop, remove "{running[0].path}"'
            return FieldProblem("", text, f"{hint}; a running loop creates it again")
        if self._loop is not None and self._loop.code is None:
            return FieldProblem("", "a loop is starting", "wait until it has started")
        return None

    def _loop_of(self, pid: int) -> str:
        found = (one.loop_id for one in stored_loops(self._root) if one.running and one.pid == pid)
        return next(found, "")

    def _start(
        self, words: Sequence[str], find: Find, what: str
    ) -> tuple[StartedCommand | None, StartedAgent]:
        """Run a command until it has begun, or has ended before that; it is given if it is slow."""
        if any("\0" in word for word in words):
            refused = ActionResult(
                False, f"{what} was not started: an option contains a NUL character"
            )
            return None, StartedAgent("", refused)
        command = StartedCommand(words, self._root)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            code = command.code
            if begun := find(command.pid):
                self._keep(begun, command)
                return None, StartedAgent(begun, ActionResult(True, f"{what} has started"))
            if code is not None:
                return None, StartedAgent("", _ended(command.said(), code, what))
            time.sleep(LOOK)
        Thread(target=self._wait_for, args=(command, find, what), daemon=True).start()
        said = tuple(command.said().splitlines())
        return command, StartedAgent("", ActionResult(True, f"{what} is starting", said))

    def _wait_for(self, command: StartedCommand, find: Find, what: str) -> None:
        """Keep a slow command once it has begun; report it if it ends before that."""
        while True:
            code = command.code
            if begun := find(command.pid):
                self._keep(begun, command)
                return
            if code is not None:
                self._tell(_ended(command.said(), code, what))
                return
            time.sleep(SLOW_LOOK)

    def _keep(self, begun: str, command: StartedCommand) -> None:
        with self._keeping:
            self._known[begun] = command
            if len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)


def _folders(root: Path) -> list[Path]:
    with suppress(OSError):
        return [*sessions_folder(root).iterdir()]
    return []


def _end_of(file: IO[bytes]) -> str:
    """Return the end of a process's output, without moving the file's position."""
    size = os.fstat(file.fileno()).st_size
    begin = max(0, size - SAID)
    return paragraph(os.pread(file.fileno(), SAID, begin).decode(errors="replace"), SAID)


def _ended(said: str, code: int, what: str) -> ActionResult:
    """Return the result of a command that ended before anything had begun."""
    lines = said.splitlines()
    if code == 0:
        return ActionResult(True, f"{what} has ended already", tuple(lines))
    return ActionResult(False, f"{what} was not started", (), refusals(lines))


LINES = 200  # the newest events to show
OLDER = 5  # loops to list before the newest
MOST_WORKERS = 1_000  # to show
LAST = 64 * 1024  # bytes at the end of a loop before it


@dataclass(frozen=True, slots=True)
class LoopWorker:
    """The work of a worker: `session` is empty while it waits, and `task` also for a review."""

    number: int
    session: str = ""
    task: str = ""
    title: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class ToldLine:
    """A line about an event."""

    number: int
    time: str
    text: str


@dataclass(frozen=True, slots=True)
class LoopView:
    """A loop: `state` is preparing, running, paused, stopping, ended or cut off, `reason` why.

    `options` are its start options, as a form has them, and `odd` names invalid ones among them.
    `outcomes` counts its sessions, `spent` is their known cost, and `took` the loop's duration.
    """

    loop_id: str
    state: str
    reason: str
    running: bool
    began: str
    took: str
    options: Mapping[str, str]
    odd: tuple[str, ...]
    workers: tuple[LoopWorker, ...]
    outcomes: tuple[tuple[str, int], ...]
    spent: str
    lines: tuple[ToldLine, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Loops:
    """The running loop, else the last one, None before the first; `older` are the others.

    `trees` describes the worktrees, and the work in them that waits for the user. `problems` are
    invalid parts of the loops' files.
    """

    now: LoopView | None
    older: tuple[LoopView, ...]
    trees: tuple[str, ...]
    problems: tuple[FieldProblem, ...]


@dataclass(slots=True)
class _Course:
    """Accumulates the events of a loop."""

    state: str = "preparing"
    reason: str = ""
    workers: dict[int, LoopWorker] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    costs: Costs = field(default_factory=Costs)

    def take(self, told: Event) -> None:
        """Take note of an event."""
        match told:
            case {"event": "begin", "workers": int(workers)}:
                self.state = "running"
                numbers = range(1, min(workers, MOST_WORKERS) + 1)
                self.workers = {number: LoopWorker(number) for number in numbers}
            case {"event": "session", "worker": int(worker), "session": session, "task": task}:
                about = "" if task is None else line(task)
                facts = (line(session), about, line(told.get("title")), line(told.get("time")))
                self.workers[worker] = LoopWorker(worker, *facts)
            case {"event": "end", "worker": int(worker), "outcome": str(outcome)}:
                self.workers[worker] = LoopWorker(worker)
                self.outcomes[line(outcome)] = self.outcomes.get(line(outcome), 0) + 1
                with suppress(OverflowError):
                    self.costs.take(told)
            case {"event": "held"}:
                self.state = "paused"
            case {"event": "resumed"}:
                self.state = "running"
            case {"event": "stopping"}:
                self.state = "stopping"
            case {"event": "stop", "reason": reason}:
                self.state, self.reason = "ended", line(reason, 500)
                self.total(told)

    def total(self, told: Event) -> None:
        """Use the totals in a loop's last event, since its earlier events may be incomplete."""
        match told:
            case {"outcomes": dict(outcomes), "cost_usd": int(cost) | float(cost)}:
                counts = {line(word): count for word, count in outcomes.items()}
                if counts and all(type(count) is int for count in counts.values()):
                    self.outcomes = {word: count for word, count in counts.items() if count}
                unknown = told.get("cost_unknown")
                with suppress(OverflowError):
                    if isinstance(unknown, int):
                        self.costs = Costs()
                        for one in (
                            {"cost_usd": told.get("known_usd")},
                            {"estimated_usd": told.get("estimated_usd")},
                        ):
                            self.costs.take(one)
                        self.costs.unknown = unknown
                    elif cost:
                        self.costs.known = float(cost)


def read_loops(root: Path) -> Loops:
    """Return the loops of the project in `root` on this machine."""
    stored = stored_loops(root)
    stored.sort(key=lambda one: (not one.running, bool(one.doubt)))  # the newest that runs first
    shown = [one for one in stored if not one.doubt][: OLDER + 1]
    views = [_view(one, read_events(one) if one is shown[0] else _ends(one)) for one in shown]
    problems = [_doubted(one) for one in stored if one.doubt]
    if views:
        problems += _odd(shown[0], views[0].odd)
    trees: tuple[str, ...] = ()
    with suppress(RalphgenError):  # no git, or no ledger
        trees = tuple(worktree_notes(root))
    now = views[0] if views else None
    return Loops(now, tuple(views[1:]), trees, tuple(problems))


def _doubted(stored: StoredLoop) -> FieldProblem:
    text = f'"{stored.path}" is locked as if a loop were running, but {stored.doubt}'
    return FieldProblem("", text, "remove the file; a running loop creates it again")


def _odd(stored: StoredLoop, names: Sequence[str]) -> Iterator[FieldProblem]:
    if names:
        labels = ", ".join(f'"{LABELS[name]}"' for name in names)
        text = f'"{stored.path}" has invalid values: {labels}'
        yield FieldProblem(
            "", text, "they are ignored; if you did not start this loop, remove the file"
        )


def _ends(stored: StoredLoop) -> Sequence[Event]:
    """Return the first and last events of a loop, or all if it was cut off."""
    events = read_events(stored, LAST)
    return events if events and events[-1]["event"] == "stop" else read_events(stored)


def _view(stored: StoredLoop, events: Sequence[Event]) -> LoopView:
    course = _Course()
    for told in events:
        course.take(told)
    if not stored.running and course.state != "ended":
        course.state, course.reason = "cut off", "its process ended without a reason"
        course.workers = {}
    start = events[0] if events else {}
    lines = [*_lines(events)]
    options, odd = known_options(start.get("options"))
    return LoopView(
        loop_id=stored.loop_id,
        state=course.state,
        reason=course.reason,
        running=stored.running,
        began=line(start.get("time")),
        took=_took(events, running=stored.running),
        options=options,
        odd=tuple(odd),
        workers=tuple(course.workers.values()) if course.state != "ended" else (),
        outcomes=tuple(course.outcomes.items()),
        spent=str(course.costs),
        lines=tuple(lines[: -LINES - 1 : -1]),
        left_out=max(0, len(lines) - LINES),
    )


def _lines(events: Sequence[Event]) -> Iterator[ToldLine]:
    number = 0
    for told in events:
        with suppress(LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            for text in event_lines(told):
                number += 1
                yield ToldLine(number, line(told.get("time")), line(text, 1_000))


def _took(events: Sequence[Event], *, running: bool) -> str:
    times = [moment(told.get("time")) for told in (*events[:1], *events[-1:])]
    known = [one.timestamp() for one in times if one is not None]
    if not known:
        return ""
    return duration(max(0.0, (time.time() if running else known[-1]) - known[0]))


PLACE = BoardPlace("/loop", "Loop")
FIELDS = ("agent", *LIMITS, "worktrees")
"""The fields of the form that starts one."""
DONE = {
    "pause": "it starts no new sessions; running sessions continue",
    "resume": "it continues",
    "stop": "it starts no new sessions, and ends when the running ones have ended",
    "stop-now": "its agents end, and their tasks are released",
}
"""What is told of each word that is asked of a loop."""


def loop_area(desk: PageDesk, started: StartedProcesses) -> Sequence[Route]:
    """Return the routes of the loop."""
    pages = LoopPages(desk, started)
    return [
        Route(PLACE.address, pages.page, methods=["GET"]),
        Route("/loop/start", pages.start, methods=["POST"]),
        Route("/loop/ask", pages.ask, methods=["POST"]),
    ]


class LoopPages:
    """The responses at the addresses of the loop."""

    def __init__(self, desk: PageDesk, started: StartedProcesses) -> None:
        """Draw at the desk."""
        self._desk = desk
        self._root = desk.board.root
        self._started = started

    async def page(self, request: Request) -> Response:
        """Show the loop; if none is running, the start form with the typed values."""
        query = query_of(request)
        typed = tuple((name, query[name]) for name in FIELDS if name in query)

        def draw() -> Markup:
            loops = read_loops(self._root)
            now = loops.now
            running = now is not None and now.running
            again = dict(now.options) if now is not None else {}
            return html(
                "loop.html.jinja",
                view=loops,
                heeds=f"{LOOPS} record",
                choices=None if running else start_choices(self._root, ""),
                typed=dict.fromkeys(FIELDS, "") | (dict(typed) or again),
                labels=LABELS,
            )

        return await self._desk.page(PLACE, {"loop": draw}, typed, query.get("notice", ""))

    async def start(self, request: Request) -> Response:
        """Start a loop; if that fails, keep the typed values."""
        form = await form_of(request)
        started = await in_thread(partial(self._started.loop, form))
        typed = [] if started.outcome.ok else [(name, "".join(form.texts(name))) for name in FIELDS]
        return self._desk.answered(request, started.outcome, "/loop#loop", typed)

    async def ask(self, request: Request) -> Response:
        """Pass on the user's request to a loop."""
        form = await form_of(request)
        outcome = await in_thread(partial(_asked, self._root, form.text("loop"), form.text("ask")))
        return self._desk.answered(request, outcome, "/loop#loop")


def _asked(root: Path, loop_id: str, word: str) -> ActionResult:
    try:
        ask_loops(root, word, loop_id)
    except RalphgenError as error:
        problems = in_words_of_page(fieldless(error.problems))
        return ActionResult(False, "the loop received no request", (), problems)
    return ActionResult(True, DONE[word])
