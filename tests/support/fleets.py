"""A server with the database, and workers in clones of its project, each of another user."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_line import Result, ralphgen, started_beside
from driving import ROWS, query, quiet
from engines import ENGINES, for_postgresql
from http_servers import KEY, URL, HttpServer, serving
from loop_projects import move_rows
from merging_projects import merging_project, with_origin
from planned_agent import Steps, claude_program, log_of, write_plan
from postgresql import database, template_of
from proved_projects import INIT_SCHEMA, LEDGER, MARKER, check, git, python

from ralphgen.emit.workflows import regenerate

__all__ = ["ENGINES", "Fleet", "Machine", "engine_dsn", "fleet"]
TEST = check("tests", *python("pass"))
BASE = f'[loop]\nremote = "origin"\n[http]\nurl = "{URL}"\nrate = 100000\n'


@dataclass
class Machine:
    """A worker's machine: its user's home, its clone, and its agents."""

    folder: Path
    root: Path
    plan: Path
    token: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def follow(self, plan: Mapping[str, Sequence[Steps]]) -> None:
        """Let agents follow a plan from now on."""
        write_plan(self.plan, plan)

    def loop(self, server: HttpServer, *options: str) -> Result:
        """Return the end of a loop of the worker."""
        return ralphgen(*self._words(server, *options), more=self._variables)

    def started(self, server: HttpServer, *options: str) -> "subprocess.Popen[str]":
        """A loop of the worker that runs."""
        return started_beside(
            *self._words(server, *options),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self._variables},
            start_new_session=True,
        )

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of this kind that agents have written."""
        return [line for line in log_of(self.plan) if line["event"] == event]

    @property
    def _variables(self) -> dict[str, str]:
        return {**self.environment, "RALPH_WORKER_TOKEN": self.token}

    def _words(self, server: HttpServer, *options: str) -> list[Any]:
        url = f"http://127.0.0.1:{server.port}/mcp"
        return ["loop", "--server", url, "--worktrees", *options, "--project", self.root]


@dataclass
class Fleet:
    """A project with its server, and its bare remote."""

    root: Path
    server: HttpServer
    origin: Path

    def machine(self, name: str, *options: str) -> Machine:
        """Add a worker: a user's home with a clone, an agent and a token."""
        folder = self.root.parent / name
        home = folder / "home"
        home.mkdir(parents=True)
        subprocess.run(
            ["git", "clone", "--quiet", str(self.origin), str(folder / "clone")],  # noqa: S607
            check=True,
        )
        root = folder / "clone"
        git(root, "config", "user.name", name)
        git(root, "config", "user.email", f"{name}@example.org")
        plan = folder / "plan.json"
        claude_program(folder, plan)
        environment = {
            "HOME": str(home),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "RALPH_DSN": "",
            "RALPH_KEY": "",
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_STATE_HOME": str(home / ".local/state"),
        }
        found = Machine(folder, root, plan, self.added(name, *options), environment)
        done = ralphgen("trust", "--yes", "--project", root, more=environment)
        assert 0 == done.returncode, done.stderr
        return found

    def added(self, name: str, *options: str) -> str:
        """Return the token of a new worker."""
        done = ralphgen("worker", "add", name, *options, "--project", self.root)
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip()

    def statuses(self) -> dict[int, str]:
        """Return the status of each task."""
        return dict(query(self.root, "SELECT id, status FROM tasks"))


@contextmanager
def fleet(
    engine: str, folder: Path, tasks: int, *, checks: str = TEST, lease: int = 30
) -> Iterator[Fleet]:
    """A project with so many tasks on an engine, its remote, and its server."""
    with pytest.MonkeyPatch.context() as patched, engine_dsn(engine, patched) as dsn:
        patched.setenv("RALPH_KEY", KEY)
        config = f"[claims]\nlease = {lease}\n{BASE}{checks}"
        root = merging_project(folder / "server", config)
        if dsn:
            move_rows(root, dsn, config)
        regenerate(root, force=False, say=quiet)
        query(root, "DELETE FROM tasks")
        for task in range(1, tasks + 1):
            sql = "INSERT INTO tasks (id, feature, discipline, title, status) "
            query(root, f"{sql}VALUES (?, 'auth', 'backend', ?, 'pending')", task, f"Task {task}")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--allow-empty", "--message", "settings")
        with_origin(root)
        with serving(root) as server:
            yield Fleet(root, server, folder / "origin")


@contextmanager
def engine_dsn(engine: str, patched: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the DSN of a new database of the engine with its tables; empty for SQLite."""
    if engine == "sqlite":
        yield ""
        return
    ledger = LEDGER.read_text(encoding="utf-8")
    schema = ";\n".join((INIT_SCHEMA.read_text(encoding="utf-8"), ledger, MARKER, ROWS))
    with database(template_of(for_postgresql(schema))) as dsn:
        patched.setenv("RALPH_DSN", dsn)
        yield dsn
