"""The rule that each engine applies to every write: no task becomes done unless it may.

An engine detects such a change with temporary triggers, or compares the tasks before the commit.
Then it calls `MayClose`, no matter which statement, trigger or foreign key wrote the row.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    MayClose = Callable[[int], bool]  # returns whether a task may become done now
    Moved = Sequence[tuple[int, str]]  # ids of tasks with their new status, done or skipped

DONE, SKIPPED = "done", "skipped"
MET = (DONE, SKIPPED)  # statuses that satisfy a dependency


def is_done(status: object) -> bool:
    """Return whether a status is done, in any case: the vocabulary of a project may have "Done"."""
    return isinstance(status, str) and status.lower() == DONE


def nobody(_task: int) -> bool:
    """Let no task become done."""
    return False


def refused(task: object) -> str:
    """Return why a write is refused that sets a task to done."""
    return (
        f"task {task} cannot become done by this write: nothing was changed; close it with "
        f'set_task_status, or the user with "ralphgen task status {task} done"'
    )


FORGED = (
    "a trigger of the database writes what ralphgen keeps for itself: nothing was changed; ask the "
    "user to remove the trigger, rule or function"
)
