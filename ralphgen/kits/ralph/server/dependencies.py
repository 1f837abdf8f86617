"""Which tasks wait for which: what is met, what is missing, what would go round in a circle."""

from __future__ import annotations

from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks.rows import decode_integers, plain
from ralphgen.runtime.values.arguments import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from ralphgen.runtime.engine.closing import Moved

    from .workspace import Workspace

CHUNK = 500  # ids in one statement
LIMIT = 2**63  # of the ids that SQLite can hold
LISTED = 20  # ids in a refusal
SHOWN = 1_000  # dependents of one task
EXAMINED = 5_000  # dependents of which it is found out whether they still wait: a tenth of a second
UNKNOWN = "unknown"
INFERRED = {
    "draft": "draft",
    "blocked": "externally_blocked",
    "in_progress": "in_progress",
    "done": "done",
    "skipped": "skipped",
}


def unknown_cursor(cursor: str) -> ToolError:
    """Return the error for a cursor that no page of a list has given."""
    return ToolError(
        f'invalid cursor {shortened(cursor)}: use "next_cursor" of a page, or '
        "omit it to start at the beginning"
    )


def prerequisites(stored: object) -> list[int]:
    """Return the ids in a stored `depends_on`; text that cannot be read names none."""
    return list(decode_integers(stored).values)


def found(workspace: Workspace, ids: Iterable[int], columns: Sequence[str]) -> dict[int, Any]:
    """Return the columns of those tasks that exist, by id; one statement for every 500 ids."""
    tasks = workspace.tables.tasks
    wanted = sorted({task for task in ids if -LIMIT <= task < LIMIT})
    rows: dict[int, Any] = {}
    for at in range(0, len(wanted), CHUNK):
        part = wanted[at : at + CHUNK]
        marks = ", ".join("?" * len(part))
        sql = tasks.select(["id", *columns], f"WHERE id IN ({marks})")
        rows.update({row[0]: row[1:] for row in workspace.database.rows(sql, part)})
    return rows


def unmerged_tasks(workspace: Workspace, among: Iterable[int] | None = None) -> set[int]:
    """Return the tasks, all or `among` some, that a session in a work tree has not merged yet.

    Done as it may be, for others that wait for one of them it is as if it were not.
    """
    if not workspace.tables.ledger:
        return set()
    from ralphgen.runtime.engine.ledger import NOT_MERGED, UNMERGED

    database = workspace.database
    # The login of a session may not read the journal, and goes by the claims alone.
    sees_all = database.sql.may_read(database, "ralphgen_journal", "after")
    chosen = f"SELECT task_id FROM ({NOT_MERGED if sees_all else UNMERGED}) AS one"
    if among is None:
        return {row[0] for row in database.each(chosen)}
    wanted, left = sorted(among), set[int]()
    for at in range(0, len(wanted), CHUNK):
        part = wanted[at : at + CHUNK]
        marks = ", ".join("?" * len(part))
        left.update(row[0] for row in database.each(f"{chosen} WHERE task_id IN ({marks})", part))
    return left


def met(workspace: Workspace, ids: Iterable[int]) -> set[int]:
    """Return the done and skipped ones among the tasks; a missing one is neither."""
    rows = found(workspace, ids, ["status"])
    done = {task for task, (status,) in rows.items() if status in MET}
    return done - unmerged_tasks(workspace, done)


def inferred(status: str, *, waits: bool) -> str:
    """Return the inferred state: a pending task is ready, or waits for others."""
    if status == "pending":
        return "waiting_on_deps" if waits else "ready"
    return INFERRED.get(status, UNKNOWN)


def dependents(
    workspace: Workspace, task: int, status: str | None = None, first: int = -LIMIT
) -> Iterator[dict[str, Any]]:
    """Yield the tasks that name this one in `depends_on`, by id, with their prerequisites.

    With a `status`, those that have it; with `first`, none of a smaller id.
    """
    for row in _naming(workspace, task, status, first):
        needed = prerequisites(row[3])
        if task in needed:
            title, found_status = plain(row[1]), plain(row[2])
            yield {"id": row[0], "title": title, "status": found_status, "depends_on": needed}


def unreadable_dependents(workspace: Workspace, task: int) -> Iterator[int]:
    """Yield the other tasks whose `depends_on` cannot be read and may name this one."""
    rows = _naming(workspace, task, None, -LIMIT)
    return (row[0] for row in rows if not decode_integers(row[3]).readable)


def _naming(
    workspace: Workspace, task: int, status: str | None, first: int
) -> Iterator[tuple[Any, ...]]:
    """Yield id, title, status and `depends_on` of the other tasks that may name this one, by id.

    The text holds the number alone, or numbers that are spelled in another way (1e1).
    """
    tasks = workspace.tables.tasks
    if "depends_on" not in tasks:
        return iter(())
    wanted = "" if status is None else "AND status = ? "
    may_name, values = workspace.database.sql.naming(workspace.database, task)
    where = f"WHERE id >= ? AND {may_name} AND id <> ? {wanted}ORDER BY id"
    sql = tasks.select(["id", "title", "status", "depends_on"], where)
    more = [] if status is None else [status]
    return workspace.database.each(sql, [first, *values, task, *more])


def refuse_skipped(workspace: Workspace, moved: Moved) -> None:
    """Raise `ToolError` where a session that is not the user's skips a task that others need."""
    from ralphgen.runtime.processes.launched import is_below_launch
    from ralphgen.runtime.tasks import status

    if workspace.session.is_users and not is_below_launch():
        return

    def waiting(task: int) -> Iterator[tuple[int, str]]:
        return ((one["id"], one["status"]) for one in dependents(workspace, task))

    status.refuse_skipped(moved, waiting)


def unblocked(workspace: Workspace, task: int) -> tuple[list[int], bool]:
    """Return the pending tasks that waited for this one and now wait for nothing.

    Of the tasks that waited for it, so many are looked at as can be in a moment; the second value
    says whether those are all.
    """
    waiting = dependents(workspace, task, "pending")
    free: list[int] = []
    for _ in range(0, EXAMINED, CHUNK):
        part = [row for row, _ in zip(waiting, range(CHUNK), strict=False)]
        done = met(workspace, [needed for row in part for needed in row["depends_on"]])
        free += [row["id"] for row in part if done.issuperset(row["depends_on"])]
        if len(part) < CHUNK:
            return free, True
    return free, next(waiting, None) is None


def checked(workspace: Workspace, task: int, ids: Sequence[int]) -> list[int]:
    """Return the ids without repeats.

    Raises `ToolError` where one is the task itself, does not exist, or waits for the task.
    """
    wanted = list(dict.fromkeys(ids))
    rows = found(workspace, wanted, ["depends_on"])
    missing = [needed for needed in wanted if needed not in rows]
    if missing:
        raise ToolError(f'"depends_on" names tasks that do not exist: {_listed(missing)}')
    if task in wanted:
        raise ToolError(f'task {task} cannot depend on itself: remove {task} from "depends_on"')
    circle = _circle(workspace, task, wanted)
    if circle:
        raise ToolError(f'"depends_on" would create a cycle: {_listed(circle, " → ")}')
    return wanted


def _listed(ids: Sequence[int], between: str = ", ") -> str:
    """Return the ids, without their middle where there are very many."""
    shown = [shortened(task) for task in ids]
    return between.join(shown if len(shown) <= LISTED else [*shown[:-2][:LISTED], "…", shown[-1]])


def _circle(workspace: Workspace, task: int, wanted: Sequence[int]) -> list[int]:
    """Return the path from the task over stored prerequisites back to itself, or an empty list."""
    came_from: dict[int, int] = dict.fromkeys(wanted, task)
    frontier = list(wanted)
    while frontier:
        rows = found(workspace, frontier, ["depends_on"])
        frontier = []
        for step, (stored,) in rows.items():
            for needed in prerequisites(stored):
                if needed == task:
                    way = [task, step]
                    while way[-1] != task:
                        way.append(came_from[way[-1]])
                    return way[::-1]
                if needed not in came_from:
                    came_from[needed] = step
                    frontier.append(needed)
    return []
