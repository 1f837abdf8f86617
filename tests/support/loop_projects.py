"""Projects whose tasks a loop does, with agents that follow a plan."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import RALPHGEN, Result, ralphgen, started_beside
from driving import query
from engines import move
from planned_agent import Steps, claude_program, log_of, write_plan
from proved_projects import proved_project

PATIENCE = 60.0
IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""What makes the terminal on its standard input its own, and becomes a command."""


class LoopProject:
    """A project with a ledger, independent tasks 1 to N, and a `claude` on its PATH."""

    def __init__(
        self,
        folder: Path,
        tasks: int,
        plan: Mapping[str, Sequence[Steps]],
        *,
        config: str = "",
        repository: bool = False,
        cost: float | None = 0.25,
        dsn: str = "",
    ) -> None:
        self.root = proved_project(folder / "p", config, repository=repository)
        if dsn:
            move_rows(self.root, dsn, config)
        self.plan = folder / "plan.json"
        self.follow(plan, cost=cost)
        claude_program(folder, self.plan)
        query(self.root, "DELETE FROM tasks")
        for task in range(1, tasks + 1):
            query(
                self.root,
                "INSERT INTO tasks (id, feature, discipline, title, status) "
                "VALUES (?, 'auth', 'backend', ?, 'pending')",
                task,
                f"Task {task}",
            )
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path}

    def follow(self, plan: Mapping[str, Sequence[Steps]], *, cost: float | None = 0.25) -> None:
        """Let agents follow another plan from now on."""
        write_plan(self.plan, plan, cost=cost)

    def attempts(self, task: int) -> int:
        """Return the number of agents that have started on a task."""
        return sum(line["task"] == task for line in self.log("begin"))

    def loop(self, *options: str) -> Result:
        """A loop from its start to its end."""
        return ralphgen("loop", *options, "--project", self.root, more=self.environment)

    def started(self, *options: str, terminal: int | None = None) -> "subprocess.Popen[str]":
        """A loop that runs; with pipes, or in a terminal."""
        return self._started("loop", *options, terminal=terminal)

    def launched(self, *options: str) -> "subprocess.Popen[str]":
        """A `launch` that runs, with pipes."""
        return self._started("launch", *options, terminal=None)

    def _started(self, *words: str, terminal: int | None) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}
        options: dict[str, Any] = {
            "env": {**environment, **self.environment},
            "start_new_session": True,
        }
        command = [*words, "--project", str(self.root)]
        if terminal is None:
            return started_beside(*command, stdin=subprocess.DEVNULL, **options)
        options |= dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
        own = [sys.executable, "-c", IN_TERMINAL, str(RALPHGEN)]
        return subprocess.Popen([*own, *command], encoding="utf-8", **options)

    def log(self, event: str) -> list[dict[str, Any]]:
        """The lines of this kind that agents have written."""
        return [line for line in log_of(self.plan) if line["event"] == event]

    def wait_for(self, event: str, number: int) -> None:
        """Wait until agents have written so many lines of a kind."""
        end = time.monotonic() + PATIENCE
        while len(self.log(event)) < number:
            assert time.monotonic() < end, log_of(self.plan)
            time.sleep(0.02)

    def statuses(self) -> dict[int, str]:
        """The status of each task."""
        return dict(query(self.root, "SELECT id, status FROM tasks"))

    def outcomes(self) -> dict[int, list[str]]:
        """The outcomes of each task's sessions, in order."""
        found: dict[int, list[str]] = {}
        sql = "SELECT task_id, outcome FROM ralphgen_sessions ORDER BY started, rowid"
        for task, outcome in query(self.root, sql):
            found.setdefault(task, []).append(outcome)
        return found

    def held(self) -> list[int]:
        """The tasks that a session holds."""
        sql = "SELECT task_id FROM ralphgen_claims WHERE session IS NOT NULL ORDER BY task_id"
        return [task for (task,) in query(self.root, sql)]


def move_rows(root: Path, dsn: str, config: str) -> None:
    """Let the rows of a project be in the database of a DSN, which has its tables."""
    shutil.rmtree(root / ".ralph/db", ignore_errors=True)
    move(root, dsn, config)


def is_running(pid: int) -> bool:
    """Whether a process lives, and is not only waiting to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


def processes_of(root: Path) -> list[int]:
    """The processes whose command lines name the project: its servers and agents."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(str(root)) in words and is_running(int(entry.name)):
                found.append(int(entry.name))
    return found


def wait_until_gone(root: Path, pids: Sequence[int] = ()) -> None:
    """Wait until nothing runs any more that works on the project."""
    end = time.monotonic() + PATIENCE
    while processes_of(root) or any(map(is_running, pids)):
        assert time.monotonic() < end, processes_of(root)
        time.sleep(0.05)


def kill(process: "subprocess.Popen[str]") -> None:
    """End a loop as a crash of the machine's memory does."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
