"""Clones of a project that keep their rows on a branch of a bare repository."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from command_line import Result, ralphgen
from driving import create_project, query, quiet
from engines import LEDGER, MARKER
from git_merges import git

from ralphgen.exchange.branch import sync
from ralphgen.exchange.move import export_text

BRANCH = "ralphgen/rows"
CONFIG = f'[git]\nrows = "{BRANCH}"\n'
OWN = """
CREATE TABLE customers (
    number INTEGER PRIMARY KEY,
    email TEXT UNIQUE,
    task INTEGER REFERENCES tasks (id),
    boss INTEGER REFERENCES customers (number)
)
"""
TABLES = "\n[tables.customers]\n"


def first_clone(folder: Path, *statements: str, config: str = "") -> Path:
    """A project in a repository, whose commits are in the bare repository `origin` beside it."""
    own = (LEDGER.read_text(encoding="utf-8"), MARKER, *statements)
    root = create_project(folder / "a", *own, config=CONFIG + config)
    (root / ".gitignore").write_text(".ralph/db/\n.ralph/sessions/\n", encoding="utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=x")
    git(folder, "clone", "--quiet", "--bare", str(root), "origin")
    git(root, "remote", "add", "origin", str(folder / "origin"))
    return trusted(root)


def trusted(root: Path) -> Path:
    """The clone, whose remote the user has accepted: it is a path, and may have programs."""
    done = ralphgen("trust", "--yes", "--project", root)
    assert 0 == done.returncode, done.stderr
    return root


def clone(first: Path, name: str) -> Path:
    """Another clone, as a user makes it."""
    folder = first.parent
    git(folder, "clone", "--quiet", str(folder / "origin"), name)
    done = ralphgen("init", folder / name, "--yes", "--no-install", "--quiet")
    assert 0 == done.returncode, done.stderr
    return trusted(folder / name)


@cache
def model_pair() -> Path:
    """A folder with a clone whose rows are on the remote, the remote, and another clone."""
    folder = Path(tempfile.mkdtemp(prefix="ralphgen-rows-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    first = first_clone(folder)
    merge_rows(first)
    clone(first, "b")
    return folder


def pair(folder: Path) -> tuple[Path, Path]:
    """Copies of two clones whose rows are on the remote."""
    shutil.copytree(model_pair(), folder, dirs_exist_ok=True)
    roots = folder / "a", folder / "b"
    for root in roots:
        git(root, "remote", "set-url", "origin", str(folder / "origin"))
        trusted(root)
    return roots


def synced(root: Path) -> Result:
    """The result of the command, which must succeed."""
    done = ralphgen("sync", "--project", root)
    assert 0 == done.returncode, done.stderr
    return done


def merge_rows(root: Path) -> list[str]:
    """Sync in this process; return the changes."""
    return [str(one) for one in sync(root, quiet, ask=lambda _shown: False).changes]


def add_task(root: Path, title: str, *needed: int) -> int:
    """Add a task, and return its number."""
    sql = (
        "INSERT INTO tasks (feature, discipline, title, depends_on) "
        "VALUES ('auth', 'backend', ?, ?)"
    )
    query(root, sql, title, json.dumps(needed))
    return number(root, title)


def add_comment(root: Path, task: int, text: str) -> None:
    """Add a comment to a task."""
    query(root, "INSERT INTO task_comments (task_id, author, body) VALUES (?, 'me', ?)", task, text)


def number(root: Path, title: str) -> int:
    """Return the number of the task of a title."""
    ((found,),) = query(root, "SELECT id FROM tasks WHERE title = ?", title)
    return int(found)


def needed(root: Path, title: str) -> list[int]:
    """Return what a task waits for."""
    ((found,),) = query(root, "SELECT depends_on FROM tasks WHERE title = ?", title)
    return [*json.loads(found)]


def rows_of(root: Path) -> str:
    """Return the rows of a clone."""
    return export_text(root)


def tip(root: Path, ref: str = BRANCH) -> str:
    """Return the commit of a branch."""
    return git(root, "rev-parse", ref).strip()


def files(root: Path, ref: str = BRANCH) -> dict[str, str]:
    """Return the files of the branch."""
    names = git(root, "ls-tree", "--name-only", ref).split()
    return {name: git(root, "show", f"{ref}:{name}") for name in names}
