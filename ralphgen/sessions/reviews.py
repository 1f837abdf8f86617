"""Accepts finished work for the user, sends it back, records its undo, and orders tasks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import UsageError
from ralphgen.kits.ralph.rows import new_statuses, stored_tables, writing_tasks
from ralphgen.ledger.record import FINISHED
from ralphgen.project.database import open_database
from ralphgen.runtime.engine.ledger import DONE, MET, moment
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import Tables, comments, rows_by_id, task_row
from ralphgen.runtime.tasks.claims import (
    PENDING,
    next_tasks,
    other_claim,
    unmerged_tasks,
    user_order,
)
from ralphgen.runtime.tasks.comments import ACCEPTED, SENT_BACK
from ralphgen.runtime.tasks.status import move
from ralphgen.sessions.questions import User, schema_of_tasks

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

UNDONE = "undone"  # a verdict; the others are in `comments`
LONGEST_NOTE = 4_000  # characters
_LAST = (
    "SELECT verdict, session FROM ralphgen_reviews WHERE task_id = ? ORDER BY number DESC LIMIT 1"
)
_ADD = (
    "INSERT INTO ralphgen_reviews (task_id, session, verdict, author, time, note, reverts, by) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_PLACE = "INSERT INTO ralphgen_order (task_id, position) VALUES (?, ?)"


def accept(root: Path, tasks: Sequence[int]) -> tuple[str, list[int]]:
    """Accept the finished work on tasks, all or none, as the user.

    Returns the session of the decision, and the tasks that were not accepted before. Raises
    `ProjectError` if one is not done, or its work is not merged yet.
    """
    with _deciding(root, "accept") as (database, tables, user):

        def work() -> list[int]:
            unmerged = unmerged_tasks(database, tables, tasks)
            return [task for task in tasks if _accepted(database, tables, user, task, unmerged)]

        return user.session_id, database.writing(work)


def send_back(root: Path, task: int, note: str, reverts: str | None = None) -> str:
    """Send the finished work on a task back as the user, and return the session of the decision.

    The task becomes pending and the first of all, and the note a comment. Raises `UsageError` for
    an invalid note, and `ProjectError` if the task is not done or a session works on it. `reverts`
    is the commit that took the work out of its branch: it and the note are recorded in any case.
    """
    refuse_note(note)
    with _deciding(root, "send-back") as (database, tables, user):

        def work() -> str:
            (now,) = task_row(database, tables, task, ["status"])
            if reverts is None:
                _refuse_unfinished(database, tables, task, "sent back")
            is_free = now == DONE and other_claim(database, tables, user, task) is None
            database.journal(
                user.session_id, {"recipe": user.recipe}, lambda: "send-back", ends_with_writes=True
            ).begin()
            _record(database, user, task, _finished_by(database, task), SENT_BACK, note, reverts)
            if tables.comments is not None:
                comments.write(database, tables, user, task, {"body": note}, author=user.name)
            if reverts is None or is_free:
                move(database, tables, user, task, PENDING, force=lambda: False)
                _place_at(database, tables, task, 1)
                return PENDING
            return str(now)

        status = database.writing(work)
        if reverts is not None and status != PENDING:
            raise ToolError(f"the code is reverted as {reverts[:7]}, but task {task} is {status}")
        return user.session_id


def refuse_unfinished(root: Path, task: int) -> None:
    """Raise `ProjectError` if the work on a task is not finished, so that it cannot go back."""
    with _deciding(root, "send-back") as (database, tables, _):
        database.reading(lambda: _refuse_unfinished(database, tables, task, "sent back"))


def refuse_note(note: str) -> None:
    """Raise `UsageError` for an invalid note on work that is sent back."""
    if not note.strip():
        raise UsageError("the note must not be blank")
    if len(note) > LONGEST_NOTE:
        raise UsageError(f"the note has {len(note)} characters, the maximum is {LONGEST_NOTE}")


def set_statuses(
    root: Path, tasks: Sequence[int], kind: str, statuses: tuple[str, str], note: str = ""
) -> str:
    """Move tasks from one status to another, all or none, as the user; a note is a comment on each.

    `kind` names the decision. Spaces separate several old statuses. Returns its session. Raises
    `ProjectError` if a task has another status by now, or a rule forbids the move.
    """
    old, new = statuses
    with _deciding(root, kind) as (database, tables, user):

        def work() -> None:
            facts = {"recipe": user.recipe}
            database.journal(user.session_id, facts, lambda: kind, ends_with_writes=True).begin()
            for task in tasks:
                (now,) = task_row(database, tables, task, ["status"])
                if now not in old.split():
                    raise ToolError(f"task {task} is {now}, no longer {old.split()[0]}")
                if note.strip() and tables.comments is not None:
                    comments.write(database, tables, user, task, {"body": note}, author=user.name)
                move(database, tables, user, task, new, force=lambda: False)

        database.writing(work)
        return user.session_id


def set_order(root: Path, tasks: Sequence[int]) -> None:
    """Let these tasks, and no others, come first in this order."""
    with _deciding(root, "move") as (database, _, _user):
        database.writing(lambda: _write_order(database, tasks))


def order_of(root: Path) -> list[int]:
    """Return the tasks that the user put in order."""
    with open_database(root) as connection:
        sql = "SELECT task_id FROM ralphgen_order ORDER BY position"
        return [task for (task,) in connection.rows(sql)]


def move_task(root: Path, task: int, place: int | None) -> list[int]:
    """Put a task at a place among the ready ones, from 1, and return these in their new order.

    None returns it to the automatic order, by priority. The tasks before it keep their places, and
    new tasks come after all of them. Raises `ProjectError` if there is no such task, or it is done.
    """
    with _deciding(root, "move") as (database, tables, _):

        def work() -> list[int]:
            (status,) = task_row(database, tables, task, ["status"])
            if status in MET:
                raise ToolError(f"task {task} is {status}: only open tasks have a place")
            _place_at(database, tables, task, place)
            return next_tasks(database, tables)

        return database.writing(work)


def tables_of_tasks(root: Path) -> Tables:
    """Return the tables of a project; raise `ProjectError` without tasks or the current ledger."""
    return stored_tables(schema_of_tasks(root))


def statuses_of_new(root: Path) -> tuple[str, ...]:
    """Return the statuses that a new task may have; raise `ProjectError` as `tables_of_tasks`."""
    return new_statuses(schema_of_tasks(root))


def record_undone(
    database: "Database",
    tables: Tables,
    user: User,
    work: tuple[int | None, str],
    reverts: str | None,
    status: str,
) -> str | None:
    """Record that the `work` of a session on a task was undone, in an open transaction.

    `reverts` is the commit that took it out of the branch, if one did. A task that is open and not
    claimed gets the `status`. Returns the status that the task has now, None without a task.
    """
    task, session = work
    row = None if task is None else rows_by_id(database, tables, [task], ["status"]).get(task)
    if row is None or task is None:
        _record(database, user, None, session, UNDONE, reverts=reverts)
        return None
    _record(database, user, task, session, UNDONE, reverts=reverts)
    (now,) = row
    if now in MET or now == status or other_claim(database, tables, user, task) is not None:
        return str(now)
    move(database, tables, user, task, status, force=lambda: False)
    return status


@contextmanager
def _deciding(root: Path, kind: str) -> "Iterator[tuple[Database, Tables, User]]":
    with writing_tasks(root, schema_of_tasks(root)) as (database, tables):
        yield database, tables, User(root, kind)


def _accepted(
    database: "Database", tables: Tables, user: User, task: int, unmerged: set[int]
) -> bool:
    """Record that the work on a task is accepted; return whether it was not before."""
    _refuse_unfinished(database, tables, task, "accepted")
    if task in unmerged:
        raise ToolError(f"the work on task {task} is not merged yet: accept it after that")
    if database.row(_LAST, [task]) == (ACCEPTED, _finished_by(database, task)):
        return False
    _record(database, user, task, _finished_by(database, task), ACCEPTED)
    return True


def _refuse_unfinished(database: "Database", tables: Tables, task: int, verdict: str) -> None:
    (status,) = task_row(database, tables, task, ["status"])
    if status != DONE:
        raise ToolError(f"task {task} is {status}: only finished work can be {verdict}")


def _record(
    database: "Database",
    user: User,
    task: int | None,
    session: str | None,
    verdict: str,
    note: str | None = None,
    reverts: str | None = None,
) -> None:
    values = [task, session, verdict, user.name, moment(), note, reverts, user.session_id]
    database.change(_ADD, values)


def _finished_by(database: "Database", task: int) -> str | None:
    """Return the session that finished a task last, None if none did."""
    row = database.row(FINISHED, [task])
    return None if row is None else str(row[0])


def _place_at(database: "Database", tables: Tables, task: int, place: int | None) -> None:
    """Put a task at a place among the ready ones, in an open transaction.

    The tasks before it get positions, too, and closed tasks lose theirs.
    """
    ready = next_tasks(database, tables)
    placed = user_order(database, tables)
    states = rows_by_id(database, tables, placed, ["status"])
    kept = [one for one in sorted(placed, key=placed.__getitem__) if one != task]
    kept = [one for one in kept if one in states and states[one][0] not in MET]
    line = [*kept, *(one for one in ready if one != task and one not in placed)]
    order = kept
    if place is not None:
        numbered = [at for at, one in enumerate(line, 1) if one in ready]
        at = [0, *numbered][min(place - 1, len(numbered))]
        order = [*line[:at], task, *line[at : len(kept)]]
    _write_order(database, order)


def _write_order(database: "Database", tasks: Sequence[int]) -> None:
    database.change("DELETE FROM ralphgen_order", [])
    for position, task in enumerate(tasks, 1):
        database.change(_PLACE, [task, position])
