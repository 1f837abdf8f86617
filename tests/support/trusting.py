"""Local and foreign projects, for a user who trusts nothing yet."""

import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from command_line import ralphgen, started_beside
from proved_projects import git

MODE = '\n[launch]\npermission_mode = "bypassPermissions"\nallow = ["Bash(rm:*)"]\n'

TOOL = ".ralph/tools/own.py"
CODE = 'def own(project: Project) -> str:\n    """Say so."""\n    return "{}"\n'

REFUSED = "the database is outside the project"
# They need no record: the facts of the database are in the project.
FROM_FACTS = [("regen", "--no-install"), ("regen", "--dry-run"), ("check",), ("inspect",)]
COMMANDS = [
    *FROM_FACTS,
    ("init", "--no-install"),
    ("doctor",),
    ("export",),
    ("sync",),
    ("task", "list"),
    ("task", "add", "x", "--feature", "f", "--discipline", "testing"),
    ("undo", "s"),
    ("db", "backup"),
    ("call", "ralph:list_tasks"),
    ("session", "create", "interactive"),
    ("loop", "--dry-run"),
    ("serve", "ralph"),
]


def add(root: Path, sql: str) -> None:
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as database, database:
        database.execute(sql)


def configure(root: Path, text: str) -> None:
    path = root / ".ralph/ralphgen.toml"
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(kept + text, encoding="utf-8")


def task_session(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Make a session of a task that no other one holds."""
    if (root / ".ralph/db/ralph.db").is_file():
        add(root, "DELETE FROM ralphgen_claims")
    return ralphgen(
        "session", "create", "task_execution", "--task", "1", *options, "--project", root
    )


def commit(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "add", "-f", ".ralph/ralphgen.toml")
    git(root, "commit", "-qm", "x")


def commit_all(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def pull(root: Path) -> None:
    git(root, "pull", "-q", "--ff-only", "origin", "main")


def braindump(root: Path) -> int:
    return ralphgen("session", "create", "braindump", "--project", root).returncode


def at_terminal(answer: str, *command: str | Path) -> tuple[str, int]:
    """Return a command's terminal output, and its exit code; every question gets the answer."""
    primary, secondary = pty.openpty()
    shown = b""
    wide = {**os.environ, "COLUMNS": "1000"}
    options: dict[str, Any] = {"env": wide, **dict.fromkeys(("stdin", "stdout"), secondary)}
    with started_beside(*command, **options, stderr=secondary) as process:
        os.close(secondary)
        try:
            while text := os.read(primary, 4096):
                shown += text
                if shown.endswith(b"y/N "):
                    os.write(primary, f"{answer}\n".encode())
        except OSError:  # the other side is closed
            pass
        os.close(primary)
    return shown.decode().replace("\r\n", "\n"), process.returncode
