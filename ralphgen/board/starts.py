"""The agents and loops that the board starts, asks and stops.

Only recipes that run without the user are offered; no text of a browser is used as a command.
"""

import math
import os
import re
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

from ralphgen.agents.adapters import agents_here
from ralphgen.agents.agent import prints
from ralphgen.agents.calls import read_policy
from ralphgen.board.text import ActionResult, FieldProblem, Form, fieldless, line, paragraph
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.kits.registry import read_settings
from ralphgen.loop.cost import cost_words
from ralphgen.loop.record import StoredLoop, ask_loops, stored_loops
from ralphgen.loop.run import LEAST_COST, MOST_PARALLEL, parse_duration, parse_until
from ralphgen.project.model import Names
from ralphgen.project.root import sessions_folder
from ralphgen.sessions.end import end_session
from ralphgen.sessions.store import MARK, ask_to_stop, has_stopped, launcher_of, stored_session

HINT = "hint: "
SAYS = "error: "  # before the first sentence of a refusal
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
HIGHEST = 1e9  # of a number in a loop's file
PATIENCE = 20.0  # seconds to wait for a start
LOOK = 0.05  # seconds between checks for its begin
SLOW_LOOK = 0.5  # the same, after a while
SAID = 8_000  # bytes of the output of a command that are shown
MOST_KEPT = 64  # starts, and streams, that are remembered
Find = Callable[[int], str]
"""Returns the id of the session or loop of a process, "" before it has one."""


def limit_problems(name: str, given: str) -> tuple[FieldProblem, ...]:
    """Return why an option cannot have this value, in the words of the form; empty if it can."""
    label, shown = LABELS[name], line(given)
    if name == "max_time":
        is_clock = CLOCK.fullmatch(given) is not None
        try:
            parse_until(given, time.time()) if is_clock else parse_duration(given)
        except UsageError as error:
            text = f'"{label}": {error.problems[0].text}'
            return (FieldProblem(name, text if is_clock else f"{text}, or a time such as 07:00"),)
        return ()
    if name == "max_cost":
        text = f'"{label}" must be at least {LEAST_COST}, such as 20 or 7.5, not "{shown}"'
        return () if _amount(given) >= LEAST_COST else (FieldProblem(name, text),)
    if re.fullmatch("[0-9]{1,9}", given) and 1 <= int(given) <= MOST_PARALLEL:
        return ()
    text = f'"{label}" must be a whole number from 1 to {MOST_PARALLEL}, not "{shown}"'
    return (FieldProblem(name, text),)


def known_options(found: object) -> Mapping[str, str]:
    """Return the valid options in a loop's first event, by the fields of the form.

    Agents can write to that file: values that no loop can be started with are left out.
    """
    given = dict(found) if isinstance(found, dict) else {}
    given["max_time"] = given.get("max_time") or given.get("until")
    valid: dict[str, str] = {}
    for name in LIMITS:
        value = given.get(name)
        text = value if isinstance(value, str) else ""
        if isinstance(value, int | float) and value <= HIGHEST:
            text = f"{value:.15g}"
        if text and not limit_problems(name, text):
            valid[name] = text
    if isinstance(given.get("agent"), str):
        valid["agent"] = line(given["agent"])
    if given.get("worktrees") is True:
        valid["worktrees"] = "1"
    return valid


def start_summary(typed: Mapping[str, str], ready: int, usual: float | None) -> str:
    """Return a sentence on a loop with the values of the form."""
    valid = {name: typed[name].strip() for name in LIMITS if typed.get(name, "").strip()}
    valid = {name: text for name, text in valid.items() if not limit_problems(name, text)}
    parallel = int(valid.get("parallel", "1"))
    words = ["1 agent" if parallel == 1 else f"Up to {parallel} agents"]
    if "max_cost" in valid:
        words.append(f"at most {cost_words(float(valid['max_cost']))}")
    if limit := valid.get("max_time"):
        words.append(f"until {limit}" if CLOCK.fullmatch(limit) else f"for at most {limit}")
    tasks = "1 task is ready" if ready == 1 else f"{ready or 'no'} tasks are ready"
    about = ""
    if usual is not None and ready:
        sum_of_all = usual * ready
        cost = cost_words(sum_of_all, digits=0 if sum_of_all >= 1 else 2)
        about = f", about {cost} by last night's median"
    return f"{', '.join(words)}; {tasks}{about}."


def _amount(given: str) -> float:
    """Return an amount, or negative infinity if the text is not one."""
    try:
        amount = float(given)
    except ValueError:
        return -math.inf
    return amount if math.isfinite(amount) else -math.inf


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
    """Return problems with the names of fields in place of options and commands."""
    return tuple(FieldProblem(one.field, _worded(one.text), _worded(one.hint)) for one in problems)


def _worded(text: str) -> str:
    for said, told in WORDS.items():
        text = text.replace(said, told)

    def labelled(found: re.Match[str]) -> str:
        label = LABELS.get(found[1].replace("-", "_"))
        return found[0] if label is None else f'"{label}"'

    return OPTION.sub(labelled, text)


def recipes_here(root: Path, task: str = "") -> Names:
    """Return the recipes that run without the user; for a task, those that work on a task.

    Raises `ProjectError` if the project cannot be read.
    """
    policy = read_policy(root, trust_edited=True)
    recipes = [name for name in policy.recipes if prints(policy.profile(name))]
    return tuple(name for name in recipes if ("task" in policy.targets(name)) == bool(task))


def agents_of(root: Path) -> tuple[tuple[str, str], ...]:
    """Return the names and titles of the agents of this machine."""
    return tuple((one.name, one.title) for one in agents_here(read_settings(root)))


Started = tuple[str, ActionResult]
"""The id of the session or loop that has begun, or "", and the result of the start."""


def _refused(problems: Iterable[FieldProblem]) -> Started:
    return "", ActionResult(False, "Nothing was started", (), tuple(problems))


def _unknown(given: str, known: Iterable[str], what: str) -> tuple[FieldProblem, ...]:
    """Return the problem of an unknown choice, if it is one."""
    if given in known:
        return ()
    return (FieldProblem(what, f"there is no {what} with this name", "choose another"),)


class StartedCommand:
    """A command of ralphgen that outlives the board; `code` is its exit code, None until then."""

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
        self._loop: StartedCommand | None = None  # a loop that had not begun at the last check

    def start(self, form: Form) -> Started:
        """Start a session by its recipe, or a loop; with the refusals of the command."""
        try:
            return self._launch(form) if form.texts("recipe") else self._start_loop(form)
        except RalphgenError as error:
            return _refused(in_words_of_page(fieldless(error.problems)))

    def _launch(self, form: Form) -> Started:
        recipe, task, agent = (form.text(name) for name in ("recipe", "task", "agent"))
        if problems := (
            *_unknown(recipe, recipes_here(self._root, task), "recipe"),
            *_unknown(agent, dict(agents_of(self._root)), "agent"),
        ):
            return _refused(problems)
        words = ["launch", recipe, f"--agent={agent}", *([f"--task={task}"] if task else [])]
        before = {one.name for one in _folders(self._root)}

        def find(pid: int) -> str:
            new = (one for one in _folders(self._root) if one.name not in before)
            return next((one.name for one in new if launcher_of(one) == pid), "")

        return self._start(words, find, "The session")[1]

    def _start_loop(self, form: Form) -> Started:
        """Start a loop, unless one is running."""
        agent = form.text("agent")
        given = {name: value for name in LIMITS if (value := form.text(name).strip())}
        if problems := (
            *_unknown(agent, dict(agents_of(self._root)), "agent"),
            *(one for name, value in given.items() for one in limit_problems(name, value)),
        ):
            return _refused(problems)
        words = ["loop", f"--agent={agent}"]
        for name, value in given.items():
            is_clock = name == "max_time" and CLOCK.fullmatch(value)
            words.append(f"--{'until' if is_clock else name.replace('_', '-')}={value}")
        words += ["--worktrees"] * bool(form.texts("worktrees"))
        with self._looping:
            if problem := self._looping_already():
                return _refused([problem])
            self._loop, started = self._start(words, self._loop_of, "The loop")
            return started

    def runs(self, begun: str) -> bool:
        """Return whether the command that began this is running."""
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
            text = "a loop is running" if not running[0].doubt else doubted(running[0]).text
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
    ) -> tuple[StartedCommand | None, Started]:
        """Run a command until it has begun, or has ended before; it is returned if it is slow."""
        if any("\0" in word for word in words):
            return None, _refused([FieldProblem("", "an option contains a NUL character")])
        command = StartedCommand(words, self._root)
        if started := self._begun(command, find, what, PATIENCE):
            return None, started
        Thread(target=self._wait_for, args=(command, find, what), daemon=True).start()
        said = tuple(command.said().splitlines())
        return command, ("", ActionResult(True, f"{what} is starting", said))

    def _begun(
        self, command: StartedCommand, find: Find, what: str, patience: float
    ) -> Started | None:
        """Keep a command once it has begun; None if it neither begins nor ends in time."""
        end, pace = time.monotonic() + patience, LOOK
        while time.monotonic() < end:
            code = command.code  # before the look: what has begun may end at once
            if begun := find(command.pid):
                with self._keeping:
                    self._known[begun] = command
                    if len(self._known) > MOST_KEPT:
                        self._known.popitem(last=False)
                return begun, ActionResult(True, f"{what} has started")
            if code is not None:
                return "", _ended(command.said(), code, what)
            time.sleep(pace)
            pace = min(1.05 * pace, SLOW_LOOK)
        return None

    def _wait_for(self, command: StartedCommand, find: Find, what: str) -> None:
        """Report a slow command if it ends before it has begun."""
        started = self._begun(command, find, what, math.inf)
        if started is not None and not started[0]:
            self._tell(started[1])


def doubted(stored: StoredLoop) -> FieldProblem:
    """Return why a file that looks like a running loop may not be one, with the remedy."""
    text = f'"{stored.path}" is locked as if a loop were running, but {stored.doubt}'
    return FieldProblem("", text, "remove the file; a running loop creates it again")


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
    return ActionResult(False, "Nothing was started", (), refusals(lines))


STOP_PATIENCE = 15.0  # seconds for an agent to clean up and to release its task
ASKED = {
    "pause": "Paused: running sessions continue, and no new ones start",
    "resume": "The loop continues",
    "stop": "The loop ends after the running sessions",
    "stop-now": "Stopping the agents; their tasks are released",
}
"""The result of each request to a loop."""


def ask_loop(root: Path, loop_id: str, word: str) -> ActionResult:
    """Pass a request of the user on to a running loop."""
    try:
        ask_loops(root, word, loop_id)
    except RalphgenError as error:
        problems = in_words_of_page(fieldless(error.problems))
        return ActionResult(False, "The loop received no request", (), problems)
    return ActionResult(True, ASKED[word])


def stop_session(root: Path, session_id: str, started: StartedProcesses) -> ActionResult:
    """Stop the agent of a session and release its task, or end the servers that run without one.

    If the mark of an agent is missing, the process that watches it is ended, if this board started
    that.
    """
    stored = stored_session(root, session_id)
    if stored is not None and ask_to_stop(stored.folder):
        over = has_stopped(stored.folder, STOP_PATIENCE) and _is_over(session_id, started)
    elif started.end(session_id):
        over = _is_over(session_id, started)
    elif stored is not None and stored.running:
        return ActionResult(True, end_session(root, session_id, stops_servers=True).sentence)
    else:
        text = "no agent works in this session" if stored is not None else "there is no session"
        problem = FieldProblem("", text, "end it in its terminal or client")
        return ActionResult(False, "Nothing was stopped", (), (problem,))
    if over:
        return ActionResult(True, "The agent has ended, and its task is released")
    late = "The agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    remedy = f'if it does not end, remove "{stored.folder / MARK}"'
    return ActionResult(True, late, (f"{remedy}: a running agent creates it again",))


def _is_over(session_id: str, started: StartedProcesses) -> bool:
    end = time.monotonic() + STOP_PATIENCE
    while started.runs(session_id) and time.monotonic() < end:
        time.sleep(LOOK)
    return not started.runs(session_id)
