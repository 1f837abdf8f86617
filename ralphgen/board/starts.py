"""The agents and loops that the board starts, asks and stops.

Only recipes that run without the user are offered; no text of a browser is used as a command.
"""

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Lock, Thread
from urllib.parse import quote

from ralphgen.agents.adapters import agents_here
from ralphgen.agents.agent import prints
from ralphgen.agents.calls import read_policy
from ralphgen.board.text import ActionResult, FieldProblem, Form, line, paragraph
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.kits.registry import read_settings
from ralphgen.loop.cost import LARGEST, cost_words
from ralphgen.loop.record import StoredLoop, ask_loops, stored_loops
from ralphgen.loop.run import LEAST_COST, MOST_PARALLEL, parse_duration, parse_until
from ralphgen.project.model import Names
from ralphgen.project.root import sessions_folder
from ralphgen.sessions.end import end_session
from ralphgen.sessions.store import MARK, ask_to_stop, has_stopped, launcher_of, stored_session

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


def address_of(session_id: str) -> str:
    """Return the address of a session's page."""
    return f"/agents/{quote(session_id, safe='', errors='surrogateescape')}"


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
    """Return the valid options in a loop's first event, by the fields of the form.

    Agents can write to that file: values that no loop can be started with are left out.
    """
    given = dict(found) if isinstance(found, dict) else {}
    given["max_time"] = given.get("max_time") or given.get("until")
    valid: dict[str, str] = {}
    for name in LIMITS:
        value = given.get(name)
        text = f"{value:.15g}" if isinstance(value, float) else str(value)
        if isinstance(value, int | str | float) and not limit_problem(name, text):
            valid[name] = text
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

    def labelled(found: re.Match[str]) -> str:
        label = LABELS.get(found[1].replace("-", "_"))
        return found[0] if label is None else f'"{label}"'

    return OPTION.sub(labelled, text)


def _problems_of(error: RalphgenError) -> tuple[FieldProblem, ...]:
    texts = ((in_words_of_page(one.text), in_words_of_page(one.hint)) for one in error.problems)
    return tuple(FieldProblem("", text, hint) for text, hint in texts)


def _refusals(said: str) -> tuple[FieldProblem, ...]:
    """Return the reasons for a refusal in the output of a command."""
    begin = re.search(f"^{ERROR}", said, re.MULTILINE)
    problems: list[FieldProblem] = []
    for one in in_words_of_page(said[begin.start() if begin else 0 :]).splitlines():
        if one.startswith(HINT) and problems:
            problems[-1] = replace(problems[-1], hint=one.removeprefix(HINT))
        else:
            problems.append(FieldProblem("", one.removeprefix(ERROR)))
    return tuple(problems)


def doubted(stored: StoredLoop) -> FieldProblem:
    """Return why a file that looks like a running loop may not be one, with the remedy."""
    text = f'"{stored.path}" is locked as if a loop were running, but {stored.doubt}'
    return FieldProblem("", text, "remove the file; a running loop creates it again")


def _refused(problems: Iterable[FieldProblem]) -> ActionResult:
    return ActionResult(False, "Nothing was started", (), tuple(problems))


class StartedCommand:
    """A command of ralphgen that outlives the board, without a terminal.

    `begun` is the id of its session or loop, empty before it has one. `result` is that of its
    start: it has begun, or has ended before.
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
            ended = ActionResult(True, f"{self.name} has ended already", tuple(said.splitlines()))
            self.result.set_result(_refused(_refusals(said)) if code else ended)
        self.over.set()

    def _note(self, begun: str) -> None:
        if begun:
            self.begun = begun
            then = "/agents" if self.is_loop else address_of(begun)
            self.result.set_result(ActionResult(True, f"{self.name} has started", then=then))

    def _find(self) -> Iterator[str]:
        """Yield the running loop of the process, and its sessions."""
        pid = self.process.pid
        yield from (one.loop_id for one in stored_loops(self._root) if one.pid == pid)
        with suppress(OSError):
            folders = sessions_folder(self._root).iterdir()
            yield from (one.name for one in folders if launcher_of(one) == pid)


class StartedProcesses:
    """The processes that this board has started in the project in `root`; they outlive it.

    `tell` is called with the result of a failed start that no request waits for any more. Every
    method may be called in any thread.
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
            problems.append(FieldProblem("", "an option contains a NUL character"))
        with self._starting:
            if is_loop and not problems:
                problems = [*self._looping_already()][:1]
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

    def _unknown(self, form: Form, **known: Names) -> list[FieldProblem]:
        return [
            FieldProblem(name, f"there is no {name} with this name", "choose another")
            for name, names in {**known, "agent": tuple(dict(agents_of(self._root)))}.items()
            if form.text(name) not in names
        ]

    def _session(self, form: Form) -> tuple[list[str], list[FieldProblem]]:
        recipe, task, agent = (form.text(name) for name in ("recipe", "task", "agent"))
        words = ["launch", recipe, f"--agent={agent}", *([f"--task={task}"] if task else [])]
        return words, self._unknown(form, recipe=recipes_here(self._root, task))

    def _loop(self, form: Form) -> tuple[list[str], list[FieldProblem]]:
        """Return the command for a loop, and problems of the form."""
        problems, words = self._unknown(form), ["loop", f"--agent={form.text('agent')}"]
        for name in LIMITS:
            if text := form.text(name).strip():
                is_clock = name == "max_time" and CLOCK.fullmatch(text)
                words.append(f"--{'until' if is_clock else name.replace('_', '-')}={text}")
                if problem := limit_problem(name, text):
                    problems.append(FieldProblem(name, problem))
        return [*words, *["--worktrees"] * bool(form.texts("worktrees"))], problems

    def _looping_already(self) -> Iterator[FieldProblem]:
        """Yield why no loop can be started now, with a remedy."""
        if any(one.is_loop and not one.begun for one in self._active()):
            yield FieldProblem("", "a loop is starting", "wait until it has started")
        for running in (one for one in stored_loops(self._root) if one.running):
            text = doubted(running).text if running.doubt else "a loop is running"
            hint = f'stop it first; if it does not stop, remove "{running.path}"'
            yield FieldProblem("", text, f"{hint}; a running loop creates it again")


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

    If the mark of an agent is missing, the process that watches it is ended, if this board started
    that.
    """
    stored, command, over = stored_session(root, session_id), started.running(session_id), True
    if stored is not None and ask_to_stop(stored.folder):
        over = has_stopped(stored.folder, STOP_PATIENCE)
    elif command is not None:
        command.process.terminate()  # and with it the agent that it watches
    elif stored is not None and stored.running:
        return ActionResult(True, end_session(root, session_id, stops_servers=True).sentence)
    else:
        text = "no agent works in this session" if stored is not None else "there is no session"
        problem = FieldProblem("", text, "end it in its terminal or client")
        return ActionResult(False, "Nothing was stopped", (), (problem,))
    if over and (command is None or command.over.wait(STOP_PATIENCE)):
        return ActionResult(True, "The agent has ended, and its task is released")
    late = "The agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    remedy = f'if it does not end, remove "{stored.folder / MARK}"'
    return ActionResult(True, late, (f"{remedy}: a running agent creates it again",))
