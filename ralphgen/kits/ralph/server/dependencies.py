"""Which tasks wait for which: what is met, what is missing, what would go round in a circle."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened

from .json_columns import decode_integers
from .tables import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .workspace import Workspace

MET = ("done", "skipped")
CHUNK = 500  # ids in one statement
LIMIT = 2**63  # of the ids that SQLite can hold
LISTED = 20  # ids in a refusal
UNKNOWN = "unknown"
# A ";" list may write 7 as 007; what a text that matches means is read afterwards.
# Every row is read, so what rules most of them out comes first, and costs a fifth of GLOB.
_NAMING = (
    "(instr(depends_on, ?) AND ';' || depends_on || ';' GLOB ? "
    "OR depends_on LIKE '%e%' AND depends_on GLOB ?) AND id <> ?"
)
INFERRED = {
    "draft": "draft",
    "blocked": "externally_blocked",
    "in_progress": "in_progress",
    "done": "done",
    "skipped": "skipped",
}


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


def met(workspace: Workspace, ids: Iterable[int]) -> set[int]:
    """Return the done and skipped ones among the tasks; a missing one is neither."""
    return {task for task, (status,) in found(workspace, ids, ["status"]).items() if status in MET}


def inferred(status: str, *, waits: bool) -> str:
    """Return the inferred state: a pending task is ready, or waits for others."""
    if status == "pending":
        return "waiting_on_deps" if waits else "ready"
    return INFERRED.get(status, UNKNOWN)


def dependents(workspace: Workspace, task: int) -> list[dict[str, Any]]:
    """Return the tasks that name this one in `depends_on`, by id, with their prerequisites."""
    described = [
        {
            "id": row[0],
            "title": plain(row[1]),
            "status": plain(row[2]),
            "depends_on": prerequisites(row[3]),
        }
        for row in _naming(workspace, task)
    ]
    return [row for row in described if task in row["depends_on"]]


def unreadable_dependents(workspace: Workspace, task: int) -> list[int]:
    """Return the other tasks whose `depends_on` cannot be read and may name this one."""
    rows = _naming(workspace, task)
    return [row[0] for row in rows if not decode_integers(row[3]).readable]


def _naming(workspace: Workspace, task: int) -> list[tuple[Any, ...]]:
    """Return id, title, status and `depends_on` of the other tasks that may name this one, by id.

    The text holds the number alone, or numbers that are spelled in another way (1e1).
    """
    tasks = workspace.tables.tasks
    if "depends_on" not in tasks:
        return []
    sql = tasks.select(["id", "title", "status", "depends_on"], f"WHERE {_NAMING} ORDER BY id")
    number = str(task)
    patterns = [number, f"*[^1-9]{number}[^0-9]*", "*[0-9][eE]*"]
    return workspace.database.rows(sql, [*patterns, task])


def unblocked(workspace: Workspace, task: int) -> list[int]:
    """Return the pending tasks that waited for this one and now wait for nothing."""
    waiting = [row for row in dependents(workspace, task) if row["status"] == "pending"]
    done = met(workspace, [needed for row in waiting for needed in row["depends_on"]])
    return [row["id"] for row in waiting if done.issuperset(row["depends_on"])]


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
        raise ToolError(f'task {task} cannot wait for itself: leave {task} out of "depends_on"')
    circle = _circle(workspace, task, wanted)
    if circle:
        raise ToolError(f'"depends_on" would go round in a circle: {_listed(circle, " → ")}')
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
                    return _way(came_from, task, step)
                if needed not in came_from:
                    came_from[needed] = step
                    frontier.append(needed)
    return []


def _way(came_from: dict[int, int], task: int, last: int) -> list[int]:
    way = [task, last]
    while way[-1] != task:
        way.append(came_from[way[-1]])
    return way[::-1]
