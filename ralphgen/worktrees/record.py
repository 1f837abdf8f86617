"""What the ledger says of merges: which are done, and which still wait."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.ledger.opened import opened_database
from ralphgen.ledger.tables import state_of
from ralphgen.project.connection import open_database
from ralphgen.runtime.engine.ledger import UNMERGED

_DONE = "SELECT id FROM tasks WHERE status = 'done'"
_DISCIPLINES = "SELECT id, discipline FROM tasks WHERE id IN ({marks}) ORDER BY id"


@dataclass(frozen=True, slots=True)
class Unmerged:
    """A task that a session has done in a work tree, and whose merge is not on record."""

    task: int
    session_id: str
    worktree: Path


def record_merge(root: Path, session_id: str, commit: str) -> None:
    """Put on record by which commit the work of a session came into the base branch."""
    sql = "UPDATE ralphgen_sessions SET merged = ? WHERE id = ?"
    with opened_database(root) as database:
        database.writing(lambda: database.change(sql, (commit, session_id)))


def unmerged(root: Path) -> tuple[Unmerged, ...]:
    """Return the tasks that are done but for their merge, by number.

    Raises `ProjectError` where the database cannot be read.
    """
    try:
        with open_database(root) as connection:
            if state_of(connection).version is None:
                return ()
            found = connection.execute(UNMERGED).fetchall()
            done = {task for (task,) in connection.execute(_DONE)}
    except sqlite3.Error as error:
        raise ProjectError(f"the database cannot be read: {error}") from error
    return tuple(Unmerged(row[0], row[1], Path(row[2])) for row in sorted(found) if row[0] in done)


def one_of_each(root: Path, tasks: Iterable[int]) -> list[int]:
    """Return the first of the tasks of each discipline, which have the same checks to pass."""
    wanted = [*tasks]
    sql = _DISCIPLINES.format(marks=", ".join("?" * len(wanted)))
    try:
        with open_database(root) as connection:
            rows = connection.execute(sql, wanted).fetchall()
    except sqlite3.Error as error:
        raise ProjectError(f"the database cannot be read: {error}") from error
    first: dict[object, int] = {}
    for task, discipline in rows:
        first.setdefault(discipline, task)
    return [*first.values()]
