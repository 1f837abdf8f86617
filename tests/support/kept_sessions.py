"""Sessions that are kept, and how old they look."""

import os
import time
from pathlib import Path

from driving import create_project, query

DAY = 24 * 60 * 60
HOSTILE = "../..\\Ä b/\n;$(rm -rf ~)'\"{{ x }}\u2028" + "z" * 300
FILES = {"context.json", "lock", "mcp.json", "system.md"}


def sessions_project(root: Path) -> Path:
    """A project with a feature of a hostile name."""
    create_project(root)
    sql = "INSERT INTO features (name, display_name, acronym) VALUES (?, 'H', 'HOST')"
    query(root, sql, HOSTILE)
    (root / ".ralph" / "recipes").mkdir()
    return root


def aged(folder: Path, seconds: float) -> None:
    """Let a session look as if it had been started that long ago."""
    then = time.time() - seconds
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then))
