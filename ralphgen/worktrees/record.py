"""What the ledger says of merges: which are done, and which still wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.ledger.tables import state_of
from ralphgen.project.database import open_database, opened_database
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


def merge_commits(root: Path) -> set[str]:
    """Return the commits by which loops have merged the work of sessions."""
    with open_database(root) as connection:
        found = connection.rows("SELECT merged FROM ralphgen_sessions WHERE merged IS NOT NULL")
    return {commit for (commit,) in found}


def unmerged(root: Path) -> tuple[Unmerged, ...]:
    """Return the tasks that are done but for their merge, by number.

    Raises `ProjectError` where the database cannot be read.
    """
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return ()
        found = connection.rows(UNMERGED)
        done = {task for (task,) in connection.rows(_DONE)}
    return tuple(Unmerged(row[0], row[1], Path(row[2])) for row in sorted(found) if row[0] in done)


def one_of_each(root: Path, tasks: Iterable[int]) -> list[int]:
    """Return the first of the tasks of each discipline, which have the same checks to pass."""
    wanted = [*tasks]
    sql = _DISCIPLINES.format(marks=", ".join("?" * len(wanted)))
    with open_database(root) as connection:
        rows = connection.rows(sql, wanted)
    first: dict[object, int] = {}
    for task, discipline in rows:
        first.setdefault(discipline, task)
    return [*first.values()]
