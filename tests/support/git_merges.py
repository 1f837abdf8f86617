"""Projects with two branches, each with a migration, that git merges."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from command_line import run_sql
from driving import create_project, quiet

from ralphgen.emit.workflows import regenerate

MCP = ".ralph/mcp"
MANIFEST = f"{MCP}/manifest.json"
RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT"
DUE = "ALTER TABLE tasks ADD COLUMN due TEXT"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.example")
GIT = shutil.which("git") or "git"
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
Edit = Callable[[Path], object]


def git(root: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [GIT, *IDENTITY, *words],
        cwd=root,
        env={**os.environ, **ALONE},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert code == done.returncode, done.stdout + done.stderr
    return done.stdout


def commit(root: Path, branch: str) -> None:
    git(root, "checkout", "-q", "-B", branch)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", branch)


def append(path: str, text: str) -> Edit:
    def edit(root: Path) -> None:
        with (root / path).open("a", encoding="utf-8") as file:
            file.write(text)

    return edit


def nothing(_root: Path) -> None:
    """Edit nothing."""


def conflict(
    top: Path,
    *,
    theirs: Edit = nothing,
    ours: Edit = nothing,
    operation: str = "merge",
    place: str = "",
) -> Path:
    """A project that merges `risk` into `due`; its database has one of both columns, `due`."""
    root = create_project(top / place)
    (top / ".gitignore").write_text(".ralph/db/\n", encoding="utf-8")
    git(top, "init", "-q", "-b", "main")
    commit(top, "main")
    kept = top.with_name("kept.db")
    shutil.copy(root / ".ralph/db/ralph.db", kept)
    for branch, statement, edit in (("risk", RISK, theirs), ("due", DUE, ours)):
        git(top, "checkout", "-q", "main")
        shutil.copy(kept, root / ".ralph/db/ralph.db")
        run_sql(root, statement)
        regenerate(root, force=False, say=quiet)
        edit(root)
        commit(top, branch)
    git(top, *operation.split(), "risk", code=1)
    return root
