"""Writes the server anew whenever what it is made from changes, until it is stopped."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ralphgen.errors import RalphgenError, Say
from ralphgen.generate.workflows import regenerate
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.own_tools import FOLDER as TOOLS
from ralphgen.project.queries.files import FOLDER as QUERIES
from ralphgen.project.root import DATABASE, RECIPES, database_path, project_home

PAUSE = 0.5  # seconds between two looks


def watch(root: Path, say: Say, wait: Callable[[float], None] = time.sleep) -> None:
    """Write the server of the project in `root` anew after each change of what it is made from.

    These are its config, its recipes, its queries, its tools and its database. What cannot be
    written is said, and tried again after the next change. No edit by hand is overwritten, nothing
    is taken away, and what was said the last time is not said again. `wait` waits some seconds, and
    ends this by an exception.
    """
    seen: object = None
    said: list[str] = []
    while True:
        stamps = [*_stamps(root)]
        if stamps != seen:
            seen = stamps
            lines = _written(root)
            if lines != said:
                said = lines
                say("\n".join(lines))
        wait(PAUSE)


def _written(root: Path) -> list[str]:
    """Write the server; return what there is to say of it."""
    lines: list[str] = []
    try:
        regenerate(root, force=False, say=lines.append, records=False)
    except RalphgenError as error:
        lines.append(f"error: {error}")
    return lines


def _stamps(root: Path) -> Iterator[object]:
    """Yield what changes with each of the files."""
    try:
        database = database_path(root)
    except RalphgenError:  # of the config, which is told when it is read
        database = project_home(root) / DATABASE
    log = database.with_name(f"{database.name}-wal")
    written = [*(root / RECIPES).glob("*.toml"), *(root / QUERIES).glob("*.sql")]
    written += (root / TOOLS).glob("*.py")
    for path in (root / CONFIG, database, log, *sorted(written)):
        try:
            found = path.stat()
        except OSError as error:
            yield path, error.errno
        else:
            yield path, found.st_mtime_ns, found.st_size, found.st_ino
