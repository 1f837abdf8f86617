"""The processes that a board starts and knows, each a command of ours that lives on without it."""

import os
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

from ralphgen.board.agents.options import LIMITS, limit_problems, refusals
from ralphgen.board.agents.start import (
    StartedAgent,
    not_started,
    refused_agent,
    refused_choice,
    start_choices,
)
from ralphgen.board.requests import ActionResult, FieldProblem, Form
from ralphgen.board.stored_text import paragraph
from ralphgen.errors import RalphgenError
from ralphgen.loop.record import stored_loops
from ralphgen.project.root import sessions_folder
from ralphgen.sessions.store import launcher_of

PATIENCE = 20.0  # seconds that a start is waited for
LOOK = 0.05  # seconds between two looks at whether it has begun
SLOW_LOOK = 0.5  # and at one that nobody waits for any more
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
        """Return the end of what it has written to its standard error."""
        with self._reading:
            return self._said if self._file.closed else _end_of(self._file)

    def end(self) -> None:
        """Let it end, and before that what it watches."""
        self._process.terminate()

    def _bury(self) -> None:
        code = self._process.wait()
        with self._reading:
            self._said = _end_of(self._file)
            self._file.close()
        self.code = code


class StartedProcesses:
    """The processes that this board has started; they live on when it ends.

    `tell` is called with what came of a start that has failed after nobody waited for it any more.
    Every method may be called in any thread.
    """

    def __init__(self, root: Path, tell: Callable[[ActionResult], None]) -> None:
        """Start none in the project in `root`."""
        self._root = root
        self._tell = tell
        self._keeping = Lock()
        self._known: OrderedDict[str, StartedCommand] = OrderedDict()
        self._looping = Lock()
        self._loop: StartedCommand | None = None  # that has not begun when we last looked

    def launch(self, form: Form) -> StartedAgent:
        """Start an agent in a session, as `ralphgen launch` does; refuses what that refuses."""
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
        """Start a loop, as `ralphgen loop` does; refuses a second one, and what that refuses."""
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
        """Return the end of what the command has said that began this; empty where nobody knows."""
        command = self._of(begun)
        return "" if command is None else command.said()

    def runs(self, begun: str) -> bool:
        """Return whether the command lives that began this."""
        command = self._of(begun)
        return command is not None and command.code is None

    def end(self, begun: str) -> bool:
        """End the command that began this, and what it watches; False where none lives."""
        command = self._of(begun)
        if command is None or command.code is not None:
            return False
        command.end()
        return True

    def _of(self, begun: str) -> StartedCommand | None:
        with self._keeping:
            return self._known.get(begun)

    def _looping_already(self) -> FieldProblem | None:
        """Return why no loop can be started now, and what a person does about it."""
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
        """Keep a command that takes its time once it has begun; tell where it ends before that."""
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
    """Return the end of what a process has written, whose place in the file is not moved."""
    size = os.fstat(file.fileno()).st_size
    begin = max(0, size - SAID)
    return paragraph(os.pread(file.fileno(), SAID, begin).decode(errors="replace"), SAID)


def _ended(said: str, code: int, what: str) -> ActionResult:
    """Return what a command has said that ended before it was seen that anything had begun."""
    lines = said.splitlines()
    if code == 0:
        return ActionResult(True, f"{what} has ended already", tuple(lines))
    return ActionResult(False, f"{what} was not started", (), refusals(lines))
