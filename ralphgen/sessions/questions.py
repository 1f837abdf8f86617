"""Lists the open questions of agents, and answers them for the user."""

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import writing_tasks
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.tables import VERSION, no_ledger, read_state
from ralphgen.project.database import open_database
from ralphgen.project.git import begin_of_git, settings_of
from ralphgen.project.model import Schema
from ralphgen.runtime.engine.ledger import moment
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import Ralphgen, Tables, comments, task_row, today
from ralphgen.runtime.tasks.claims import BLOCKED, PENDING, other_claim, refusal_of
from ralphgen.runtime.tasks.comments import OPEN
from ralphgen.runtime.tasks.status import move, set_status
from ralphgen.sessions.claims import TaskState, task_states
from ralphgen.sessions.credentials import user_name
from ralphgen.sessions.decide import no_tasks

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

LONGEST_ANSWER = 4_000  # characters
LONGEST_NAME = 200  # bytes
_OPEN = """
SELECT own.number, own.task_id, task.title, own.session, own.asked, own.question, own.options
FROM ralphgen_questions AS own JOIN tasks AS task ON task.id = own.task_id
WHERE own.answered IS NULL AND task.status = 'blocked' ORDER BY own.number
"""
_OF_SESSION = (
    "SELECT max(number) FROM ralphgen_questions "
    "WHERE session = ? AND (answered IS NULL OR answer IS NOT NULL)"
)
_BLOCKED_HERE = """
SELECT own.row_key FROM ralphgen_journal AS own WHERE own.number IN (
    SELECT max(number) FROM ralphgen_journal
    WHERE lower(table_name) = 'tasks' AND after LIKE '%"status":%' GROUP BY row_key
) AND coalesce(own.tool, '') <> 'sync'
"""
_ANSWER = (
    "UPDATE ralphgen_questions SET answered = ?, answer = ?, by = ? "
    "WHERE number = ? AND answered IS NULL"
)


class User(Ralphgen):
    """The user as an actor with a `name`, in the session of one decision."""

    __slots__ = ("name",)
    recipe = "manual"
    is_users = is_typed = True

    def __init__(self, root: Path, decision: str) -> None:
        """Start the session, whose id begins with the `decision`."""
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        super().__init__(f"{decision}-{began}-{os.urandom(4).hex()}")
        self.name = name_of_user(root)


def name_of_user(root: Path) -> str:
    """Return the name of the user: `user.name` of git, else the login."""
    named = dict(settings_of(root)).get("user.name", "").strip()
    asked = ["config", "--get", "user.name"]
    found = named.encode() or begin_of_git(root, asked, LONGEST_NAME) or b""
    return found.decode(errors="replace").strip() or user_name()


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for the user: `asked` is its time in UTC, `options` are suggestions."""

    number: int
    task: int
    title: str
    session: str
    asked: str
    question: str
    options: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the question for other programs."""
        return asdict(self)


def open_questions(root: Path) -> list[OpenQuestion]:
    """Return the open questions of the project in `root`, oldest first.

    Raises `ProjectError` without a ledger, or with one of an earlier version.
    """
    schema_of_tasks(root)
    with open_database(root) as connection:
        rows = connection.rows(_OPEN)
    return [
        OpenQuestion(number, task, title, session, asked, question, tuple(json.loads(options)))
        for number, task, title, session, asked, question, options in rows
    ]


def asked_elsewhere(root: Path, states: Iterable[TaskState]) -> set[int]:
    """Return the blocked tasks whose question is in another clone, which shares only their rows."""
    blocked = [one.task for one in states if one.state == BLOCKED]
    asked = {task.id for task in blocked if task.reason.rstrip().endswith("?")}
    if not asked or read_settings(root).git.rows is None or read_state(root).version != VERSION:
        return set()
    with open_database(root) as connection:
        own = {task for (task,) in connection.rows("SELECT task_id FROM ralphgen_questions")}
        own |= {int(task) for (task,) in connection.rows(_BLOCKED_HERE)}
    return asked - own


def last_question(root: Path, session_id: str) -> int | None:
    """Return the number of the last question of a session that is not withdrawn, None without."""
    with suppress(ProjectError), open_database(root) as connection:
        ((number,),) = connection.rows(_OF_SESSION, [session_id])
        return None if number is None else int(number)
    return None


def answer_question(root: Path, task: int, text: str, number: int | None = None) -> int:
    """Answer the open question of a task, as the user; return its number.

    The task becomes pending, and both texts a comment. Raises `UsageError` for an invalid answer,
    and `ProjectError` if the task has no open question, or not the one with this `number`.
    """
    if not text.strip():
        raise UsageError("the answer must not be blank")
    if len(text) > LONGEST_ANSWER:
        raise UsageError(f"the answer has {len(text)} characters, the maximum is {LONGEST_ANSWER}")
    schema = schema_of_tasks(root)
    user = User(root, "answer")
    if task in asked_elsewhere(root, task_states(root)):
        steps = f"ralphgen task comment {task} TEXT && ralphgen task status {task} {PENDING}"
        hint = f"answer it there, or run: {steps} && ralphgen sync"
        raise ProjectError(f"the question of task {task} is in another clone", hint)
    with writing_tasks(root, schema) as (database, tables):
        return database.writing(lambda: _answer(database, tables, user, task, text, number))


def _answer(
    database: "Database", tables: Tables, user: User, task: int, text: str, wanted: int | None
) -> int:
    """Answer the open question of a task, in an open transaction; return its number."""
    (status,) = task_row(database, tables, task, ["status"])
    row = database.row(OPEN, [task])
    if row is None or status != BLOCKED:
        raise ToolError(f"task {task} has no open question")
    if wanted not in (None, row[0]):
        raise ToolError(f"question {wanted} of task {task} is not open, but question {row[0]} is")
    number, asker, question = row
    claim = other_claim(database, tables, user, task)
    if claim is not None and claim.session != asker:
        raise ToolError(refusal_of(claim, user))
    facts = {"recipe": user.recipe}
    database.journal(user.session_id, facts, lambda: "answer", ends_with_writes=True).begin()
    if not database.change(_ANSWER, [moment(), text, user.session_id, number]):
        raise ToolError(f"task {task} has no open question")  # another answer was faster
    if tables.comments is not None:
        body = f"Asked: {question}\n\nThe user answered: {text}"
        comments.write(database, tables, user, task, {"body": body}, author=user.name)
    if claim is None:
        move(database, tables, user, task, PENDING, force=lambda: False)
    else:  # the session that asked has not ended: its end releases the task
        set_status(database, tables.tasks, task, (status, PENDING), date=today())
    return int(number)


def schema_of_tasks(root: Path) -> Schema:
    """Return the schema of a project; raise `ProjectError` without tasks or the current ledger."""
    project = Project(root)
    if project.serves_any_database:
        raise no_tasks(project.settings.kits)
    version = read_state(root).version
    if version is None:
        raise no_ledger()
    if version < VERSION:
        text = f"the ledger is of version {version}, and this needs version {VERSION}"
        raise ProjectError(text, 'run "ralphgen db ledger upgrade"')
    return project.schema
