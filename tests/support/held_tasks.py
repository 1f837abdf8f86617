"""Projects whose tasks are claimed: with a ledger, and pending tasks that wait for nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driving import create_project, query
from engines import project_on
from making_sessions import opened
from proved_projects import LEDGER, MARKER

from ralphgen.sessions.model import PreparedSession

GONE = 2**22 + 5  # more than any process has for a number
READY = "UPDATE tasks SET status = 'pending', depends_on = '[]', priority = 'low'"
THIRD = "INSERT INTO tasks (id, feature, discipline, title) VALUES (3, 'auth', 'backend', 'Out')"


ATTEMPTS = "[loop]\nattempts = 2\n"


def held_project(root: Path, config: str = ATTEMPTS) -> Path:
    """A project with three tasks that can be begun."""
    ledger = LEDGER.read_text(encoding="utf-8")
    return create_project(root, ledger, MARKER, THIRD, READY, config=config)


@contextmanager
def held_on(engine: str, root: Path, config: str = ATTEMPTS) -> Iterator[Path]:
    """The same on an engine."""
    ledger = LEDGER.read_text(encoding="utf-8")
    with project_on(engine, root, ledger, MARKER, THIRD, READY, config=config) as project:
        yield project


def claim_task(
    root: Path, task: int | None = None, *, feature: str = "", discipline: str = ""
) -> PreparedSession:
    """A session that holds a task, in the hands of this process."""
    return opened(
        root, "task_execution", task=task, next=task is None, feature=feature, discipline=discipline
    )


def row(root: Path, task: int) -> tuple[object, ...]:
    """Session, token and attempts of a task's claim."""
    (found,) = query(
        root, f"SELECT session, token, attempts FROM ralphgen_claims WHERE task_id = {task}"
    )
    return found


def status(root: Path, task: int) -> str:
    """The status of a task."""
    ((found,),) = query(root, f"SELECT status FROM tasks WHERE id = {task}")
    return str(found)


def comments(root: Path, task: int) -> list[str]:
    """The texts of a task's comments."""
    sql = f"SELECT body FROM task_comments WHERE task_id = {task} ORDER BY id"
    return [body for (body,) in query(root, sql)]


def leave(root: Path, task: int, *, began: bool = True) -> None:
    """As if the process that holds a task had ended, which its session may have begun."""
    moment = "taken" if began else "NULL"
    query(
        root, f"UPDATE ralphgen_claims SET pid = {GONE}, began = {moment} WHERE task_id = ?", task
    )
    if began:
        query(root, "UPDATE tasks SET status = 'in_progress' WHERE id = ?", task)
