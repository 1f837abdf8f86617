"""Starts agents from the board, as processes of the command line that live on without it.

What may be started is what config and machine name: recipes that run without a person, agents whose
programs are there, and the options of the commands. Nothing that a browser sends is a command.
"""

import os
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

from ralphgen.board.requests import ActionResult, FieldProblem, Form, fieldless
from ralphgen.board.views.stored_text import paragraph
from ralphgen.board.views.task_record import titles_of
from ralphgen.calls.context import read_policy
from ralphgen.errors import RalphgenError
from ralphgen.kits.ralph.rows import project_rows
from ralphgen.kits.registry import KITS
from ralphgen.launch.agent import prints
from ralphgen.launch.agents import agents_here
from ralphgen.loop.record import read_events, stored_loops
from ralphgen.project.connection import open_database
from ralphgen.project.inspect import read_schema
from ralphgen.project.model import Names
from ralphgen.project.rows import open_rows
from ralphgen.runtime.database.ledger import MARKER
from ralphgen.sessions.claims import next_tasks
from ralphgen.sessions.items import read_settings
from ralphgen.sessions.launched import launcher_of
from ralphgen.sessions.store import stored_sessions

PATIENCE = 20.0  # seconds that a start is waited for
LOOK = 0.05  # seconds between two looks at whether it has begun
SAID = 8_000  # bytes of what a command has said that are shown
MOST_KEPT = 64  # starts that are remembered
READY = 20  # tasks that are named where an agent is to be started
HINT = "hint: "
SIDE = "│"  # of the frame in which a command says how it was misused
LOOP_OPTIONS = ("parallel", "max_tasks", "max_cost", "max_time", "review_every")
"""The options of a loop that take a value, as the form's fields."""


@dataclass(frozen=True, slots=True)
class StartChoices:
    """What a person can choose from where an agent is to be started.

    `recipes` are those that go without a person; of a task those that are about one.
    """

    recipes: Names
    disciplines: Names
    agents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """What came of a start: `begun` is the id of the session or loop, "" where there is none.

    `outcome` says what a person is told.
    """

    begun: str
    outcome: ActionResult


def start_choices(root: Path, task: str) -> StartChoices:
    """Return what can be started in the project in `root`; about a task, where one is named.

    Raises `ProjectError` where the project cannot be read.
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
    """Return the first tasks that can be begun, each with its title; none without a ledger.

    Raises `ProjectError` where the project cannot be read.
    """
    with open_database(root) as connection:
        schema = read_schema(connection, root, KITS)
    if schema.table(MARKER) is None:
        return ()
    first = next_tasks(root, schema)[:READY]
    with project_rows(root, KITS) as (rows, _):
        titles = titles_of(rows, first)
    return tuple((task, titles.get(task, "")) for task in first)


class StartedCommand:
    """A command of ralphgen that lives on without us; `code` is its exit code, None until then."""

    def __init__(self, words: Sequence[str], root: Path) -> None:
        """Start it in the project in `root`, without a terminal."""
        self.code: int | None = None
        self._said = ""
        self._file = TemporaryFile()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ralphgen", *words],  # no module of the project
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._file,
            start_new_session=True,
        )
        self.pid = process.pid
        self._reading = Lock()
        Thread(target=self._bury, args=(process,), daemon=True).start()

    def said(self) -> str:
        """Return the end of what it has written to its standard error."""
        with self._reading:
            return self._said if self._file.closed else _end_of(self._file)

    def _bury(self, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        with self._reading:
            self._said = _end_of(self._file)
            self._file.close()
        self.code = code


class StartedProcesses:
    """The processes that this board has started; they live on when it ends."""

    def __init__(self, root: Path) -> None:
        """Start none in the project in `root`."""
        self._root = root
        self._known: OrderedDict[str, StartedCommand] = OrderedDict()
        self._looping = Lock()

    def launch(self, form: Form) -> StartedAgent:
        """Start an agent in a session, as `ralphgen launch` does; refuses what that refuses."""
        recipe, task, agent = (form.text(name) for name in ("recipe", "task", "agent"))
        try:
            choices = start_choices(self._root, task)
        except RalphgenError as error:
            return _refused(error)
        if refusal := _unknown(recipe, choices.recipes, "recipe") or _unknown_agent(agent, choices):
            return refusal
        words = ["launch", recipe, f"--agent={agent}"]
        words += [
            f"--{name}={form.text(name)}" for name in ("task", "discipline") if form.text(name)
        ]
        return self._start(words, lambda pid: _session_of(self._root, pid), "the session")

    def loop(self, form: Form) -> StartedAgent:
        """Start a loop, as `ralphgen loop` does; refuses a second one, and what that refuses."""
        agent = form.text("agent")
        try:
            choices = start_choices(self._root, "")
        except RalphgenError as error:
            return _refused(error)
        if refusal := _unknown_agent(agent, choices):
            return refusal
        given = [(name, form.text(name).strip()) for name in LOOP_OPTIONS]
        words = ["loop", f"--agent={agent}"]
        words += [f"--{name.replace('_', '-')}={value}" for name, value in given if value]
        words += ["--worktrees"] * bool(form.texts("worktrees"))
        with self._looping:
            if running := [one.loop_id for one in stored_loops(self._root) if one.running]:
                problem = FieldProblem("", f'the loop "{running[0]}" runs', "stop it first")
                return StartedAgent("", ActionResult(False, "no loop was started", (), (problem,)))
            return self._start(words, lambda pid: _loop_of(self._root, pid), "the loop")

    def said(self, begun: str) -> str:
        """Return the end of what the command has said that began this; empty where nobody knows."""
        command = self._known.get(begun)
        return "" if command is None else command.said()

    def _start(self, words: Sequence[str], find: Callable[[int], str], what: str) -> StartedAgent:
        """Run a command until it has begun, or has ended before that."""
        if any("\0" in word for word in words):
            return StartedAgent(
                "", ActionResult(False, f"{what} was not started: a NUL is no word")
            )
        command = StartedCommand(words, self._root)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            code = command.code
            if begun := find(command.pid):
                self._keep(begun, command)
                return StartedAgent(begun, ActionResult(True, f"{what} has begun"))
            if code is not None:
                return StartedAgent("", _ended(command.said(), code, what))
            time.sleep(LOOK)
        said = tuple(command.said().splitlines())
        return StartedAgent("", ActionResult(True, f"{what} is being made ready", said))

    def _keep(self, begun: str, command: StartedCommand) -> None:
        self._known[begun] = command
        if len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)


def _session_of(root: Path, pid: int) -> str:
    """Return the session in which a process watches an agent."""
    found = [one.session_id for one in stored_sessions(root) if launcher_of(one.folder) == pid]
    return found[0] if found else ""


def _loop_of(root: Path, pid: int) -> str:
    """Return the loop that a process runs."""
    for one in stored_loops(root):
        events = read_events(one) if one.running else ()
        if events and events[0].get("pid") == pid:
            return one.loop_id
    return ""


def _end_of(file: IO[bytes]) -> str:
    """Return the end of what a process has written, whose place in the file is not moved."""
    size = os.fstat(file.fileno()).st_size
    begin = max(0, size - SAID)
    return paragraph(os.pread(file.fileno(), SAID, begin).decode(errors="replace"), SAID)


def _ended(said: str, code: int, what: str) -> ActionResult:
    """Return what a command has said that ended before it was seen that anything had begun."""
    lines = said.splitlines()
    if code == 0:
        return ActionResult(True, f"{what} has ended already", tuple(lines))
    framed = [one.strip(f"{SIDE} ") for one in lines if one.startswith(SIDE)]
    if framed:  # a misuse, as typer draws it: the sentence alone is for a page
        lines = [" ".join(framed)]
    problems: list[FieldProblem] = []
    for one in lines:
        if one.startswith(HINT) and problems:
            problems[-1] = FieldProblem("", problems[-1].text, one.removeprefix(HINT))
        else:
            problems.append(FieldProblem("", one))
    return ActionResult(False, f"{what} was not started", (), tuple(problems))


def _unknown(given: str, known: Names, what: str) -> StartedAgent | None:
    """Return the refusal of what nobody can choose."""
    if given in known:
        return None
    problem = FieldProblem(what, f"there is no {what} of this name to choose", "choose another")
    return StartedAgent("", ActionResult(False, "nothing was started", (), (problem,)))


def _unknown_agent(given: str, choices: StartChoices) -> StartedAgent | None:
    return _unknown(given, tuple(name for name, _ in choices.agents), "agent")


def _refused(error: RalphgenError) -> StartedAgent:
    return StartedAgent(
        "", ActionResult(False, "nothing was started", (), fieldless(error.problems))
    )
