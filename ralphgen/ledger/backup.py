"""Copies a project's database while others use it."""

import os
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkstemp

from ralphgen.errors import ProjectError
from ralphgen.files import WRITE_HINT, put, refuse_irregular
from ralphgen.project.database import ALONE, no_database
from ralphgen.project.root import (
    database_name,
    database_path,
    database_place,
    place_name,
    project_home,
)

FOLDER = ".ralph/backups"
KEPT = 5
OWN_NAME = re.compile(r"ralph-\d{8}T\d{6}Z(-\d+)?\.db")
PAGES = 1000  # copied between two looks whether others wait


def backed_up(root: Path) -> str:
    """Copy the database before a change, and return a line with the location of the copy.

    A database on a server is not copied: the line names the command for that. Raises the errors of
    `make_backup`.
    """
    dump = dump_command(root)
    return (
        f"no backup was made; to make one, run: {dump}" if dump else f"backup: {make_backup(root)}"
    )


def dump_command(root: Path) -> str:
    """Return the command that makes a backup of a database on a server; empty for a file."""
    place = database_place(root)
    if place is None:
        return ""
    schema = shlex.quote(f'"{place.schema}"')
    return f'pg_dump --format=custom --file=ralph.dump --schema={schema} "${place.dsn_env}"'


def make_backup(root: Path, target: Path | None = None) -> Path:
    """Copy the database of the project in `root` to `target`, and return the path of the copy.

    Without a target the copy goes to `.ralph/backups`, which keeps the newest five. The file
    appears complete or not at all. Raises `ProjectError` if the target exists or cannot be written,
    and if the database is on a server.
    """
    if dump := dump_command(root):
        text = f"{place_name(database_place(root))} cannot be copied as a file"
        raise ProjectError(text, f"make a backup with: {dump}")
    paths = _own_targets(root) if target is None else iter([target])
    path = next(paths)
    if target is not None and os.path.lexists(path):
        raise ProjectError(f'"{path}" already exists', "choose a new file name")
    unfinished: Path | None = None
    try:
        if not database_path(root).is_file():
            raise no_database(database_name(root))
        descriptor, name = mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(descriptor)
        unfinished = Path(name)
        _copy(database_path(root), unfinished)
        path = _linked(unfinished, path, paths)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        text = f'the backup "{path}" cannot be written: {(reason or str(error)).lower()}'
        raise ProjectError(text, WRITE_HINT) from error
    finally:
        if unfinished is not None:
            unfinished.unlink(missing_ok=True)
    if target is None:
        _drop_oldest(path)
    return path


def _own_targets(root: Path) -> Iterator[Path]:
    """Return the names of this second that no file has."""
    folder = project_home(root) / FOLDER
    refuse_irregular(folder, [".gitignore"])  # a link in a clone may lead anywhere
    if not (folder / ".gitignore").exists():
        put(folder / ".gitignore", "*\n")
    stem = time.strftime("ralph-%Y%m%dT%H%M%SZ", time.gmtime())
    names = (f"{stem}.db", *(f"{stem}-{number}.db" for number in range(1, 1000)))
    return (folder / name for name in names if not os.path.lexists(folder / name))


def _linked(unfinished: Path, path: Path, others: Iterator[Path]) -> Path:
    """Link a file to a name without overwriting; try `others` if it is taken; return the name."""
    while True:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            following = next(others, None)
            if following is None:
                raise
            path = following
        else:
            return path


def _copy(database: Path, unfinished: Path) -> None:
    source = f"{database.resolve().as_uri()}?mode=rw"
    with (
        ALONE,
        closing(sqlite3.connect(source, uri=True, timeout=20)) as opened,
        closing(sqlite3.connect(unfinished)) as copy,
    ):
        opened.backup(copy, pages=PAGES)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a separate log
    descriptor = os.open(unfinished, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_oldest(made: Path) -> None:
    """Remove our own backups except the newest, including the one just made.

    The new one is kept even if the clock went backwards. Files of other names are not removed.
    """
    ours = (path for path in made.parent.iterdir() if OWN_NAME.fullmatch(path.name))
    ages: dict[Path, int] = {}
    for path in ours:
        with suppress(FileNotFoundError):  # another process has removed it
            ages[path] = path.stat().st_mtime_ns
    others = sorted(ages.keys() - {made}, key=lambda path: (ages[path], path.name))
    for path in others[: 1 - KEPT]:
        with suppress(OSError):
            path.unlink()
