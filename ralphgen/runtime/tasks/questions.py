"""Stores the questions of agents to the user.

A question is open while it has no answer and its task is blocked. It is withdrawn if its task gets
another status, or if its session is undone.
"""

from __future__ import annotations

import json

from ..engine.entries import moment
from ..errors import ToolError
from ..system import is_below_launch
from .claims import BLOCKED
from .tables import task_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..engine import Database, Snapshot
    from .tables import Actor, Tables

LONGEST, MOST_OPTIONS = 2_000, 6
NEWEST_ANSWERS = 10  # answers in a brief
WAIT = "The answer comes with the next session: end here."
OPEN = (
    "SELECT number, session, question FROM ralphgen_questions WHERE task_id = ? "
    "AND answered IS NULL ORDER BY number DESC LIMIT 1"
)
WITHDRAW = "UPDATE ralphgen_questions SET answered = ?, by = ? WHERE answered IS NULL AND "
_ANSWERS = (
    "SELECT question, answer FROM ralphgen_questions WHERE task_id = ? AND answer IS NOT NULL "
    "ORDER BY number DESC LIMIT ?"
)
_ADD = "INSERT INTO ralphgen_questions (task_id, session, asked, question, options)"


def refuse_unaskable(
    database: Snapshot, tables: Tables, task: int, question: str, options: Sequence[str]
) -> None:
    """Raise `ToolError` if a question cannot be stored.

    It or its options are too long, an option is blank, or the task has an open question.
    """
    if len(question) > LONGEST:
        raise ToolError(f'"question" has {len(question)} characters, the maximum is {LONGEST}')
    if len(options) > MOST_OPTIONS:
        raise ToolError(f'"options" has {len(options)} items, the maximum is {MOST_OPTIONS}')
    if sum(map(len, options)) > LONGEST:
        raise ToolError(f'"options" has more than {LONGEST} characters')
    if not all(one.strip() for one in options):
        raise ToolError('"options" must not contain a blank option')
    row = database.row(OPEN, [task])
    if row is not None and task_row(database, tables, task, ["status"]) == (BLOCKED,):
        raise ToolError(f"task {task} already has the open question {row[0]}: end here")


def ask(database: Database, session: str, task: int, question: str, options: Sequence[str]) -> int:
    """Store the question of a session, in an open transaction; return its number."""
    _withdraw(database, session, task)  # another program has reopened the task meanwhile
    values = (task, session, moment(), question, json.dumps([*options], ensure_ascii=False))
    number = database.sql.returning("number")
    return database.insert(f"{_ADD} VALUES (?, ?, ?, ?, ?){number}", values)


def withdraw(database: Database, actor: Actor, task: int) -> None:
    """Withdraw the open question of a task that is no longer blocked, in an open transaction.

    Raises `ToolError` if the actor is neither the user nor the session that asked.
    """
    row = database.row(OPEN, [task])
    if row is None:
        return
    if row[1] != actor.session_id and (not actor.is_users or is_below_launch()):
        raise ToolError(
            f"task {task} waits for the user's answer to question {row[0]}: only the user can "
            f'reopen it, with "ralphgen task answer {task} TEXT"'
        )
    _withdraw(database, actor.session_id, task)


def answers(database: Snapshot, task: int) -> list[tuple[str, str]]:
    """Return the newest questions of a task with their answers, oldest first."""
    rows = database.rows(_ANSWERS, [task, NEWEST_ANSWERS])
    return [(str(question), str(answer)) for question, answer in reversed(rows)]


def _withdraw(database: Database, session: str, task: int) -> None:
    database.change(f"{WITHDRAW} task_id = ?", [moment(), session, task])
