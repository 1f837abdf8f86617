"""Comments on tasks, and the questions of agents to the user.

Who wrote a comment is the actor's identity, not the agent's choice. A question is open while it has
no answer and its task is blocked. It is withdrawn if its task gets another status, or if its
session is undone.
"""

from __future__ import annotations

import json

from ..engine.ledger import moment
from ..errors import ToolError
from ..system import is_below_launch, os
from ..values import shortened
from . import DISCIPLINE, now, plain, refuse_unknown, task_row
from .claims import BLOCKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..engine import Database, Snapshot
    from . import Actor, StoredTable, Tables


SHOWN = ("id", "author", "discipline", "priority", "created", "body")
NEWEST = 20
USER = "user"  # the author of an answer that the user gave to a question of the server
USERS = frozenset({USER, "human"})  # with these, and the login name, no agent signs
AGENT = "agent"
CHUNK = 500  # tasks in one statement


def write(
    database: Database,
    tables: Tables,
    actor: Actor,
    task: int,
    values: Mapping[str, Any],
    *,
    author: str = "",
) -> int:
    """Add a comment to a task, in an open transaction; return its id.

    `values` has its columns. The user signs it with the name `author`, else the actor does. Raises
    `ToolError` if a discipline does not exist, or the database has no comments.
    """
    comments = _table(tables)
    for column, name in values.items():
        if comments.columns.get(column) == DISCIPLINE:
            refuse_unknown(database, tables.disciplines, name, "discipline")
    signed = {"created": now(), **_signature(database, tables, actor), **values}
    if author and comments.columns.get("author") != DISCIPLINE:
        signed["author"] = author
    if actor.task is not None:
        signed["agent_task_id"] = actor.task
    return comments.insert(database, {**signed, "task_id": task})


def change(database: Database, tables: Tables, comment: int, body: str) -> None:
    """Replace the text of a comment, in an open transaction."""
    _table(tables).update(database, "id", comment, {"body": body, "updated": now()})


def delete(database: Database, tables: Tables, comment: int) -> None:
    """Delete a comment, in an open transaction."""
    database.change(f"DELETE FROM {_table(tables).quoted} WHERE id = ?", [comment])


def refuse_other_authors(database: Database, tables: Tables, actor: Actor, comment: int) -> None:
    """Raise `ToolError` if a client would put its words under the name of another author."""
    comments = _table(tables)
    if actor.is_typed or "author" not in comments:
        return
    signature = _signature(database, tables, actor)
    columns = [name for name in signature if name in comments]
    own = [signature[name] for name in columns]
    row = database.row(comments.select(columns, "WHERE id = ?"), [comment])
    if row is not None and ([*row] != own or _is_users(own[0])):
        raise ToolError(
            f"comment {shortened(comment)} is signed by {shortened(plain(row[0]))}: write another "
            "comment"
        )


def require_task(database: Database, tables: Tables, task: int, comment: int) -> None:
    """Raise `ToolError` if there is no such task, or the task has no such comment."""
    task_row(database, tables, task, ["id"])
    sql = _table(tables).select(["id"], "WHERE id = ? AND task_id = ?")
    if database.row(sql, [comment, task]) is None:
        raise ToolError(f"comment {shortened(comment)} does not exist on task {task}")


def delete_all(database: Database, comments: StoredTable, task: int) -> None:
    """Delete the comments of a task, in an open transaction."""
    database.change(f"DELETE FROM {comments.quoted} WHERE task_id = ?", [task])


def newest(database: Database, tables: Tables, task: int, most: int = NEWEST) -> dict[str, Any]:
    """Return the newest comments of a task, oldest first, and how many there are in all."""
    comments = tables.comments
    if comments is None:
        return {}
    columns = comments.available_columns([*SHOWN, *comments.added])
    where = "WHERE task_id = ?"
    rows = database.rows(comments.select(columns, f"{where} ORDER BY id DESC LIMIT {most}"), [task])
    total = database.rows(f"SELECT COUNT(*) FROM {comments.quoted} {where}", [task])
    records = [comments.decoded(columns, row) for row in reversed(rows)]
    return {"comments": records, "comments_total": total[0][0]}


def each(
    database: Database, tables: Tables, task: int, first: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the comments of a task from an id on, oldest first, each with its id."""
    comments = tables.comments
    if comments is None:
        return
    columns = comments.available_columns([*SHOWN, *comments.added])
    where = "WHERE task_id = ? AND id >= ? ORDER BY id"
    sql = comments.select(["id", *columns], where)
    for key, *row in database.each(sql, [task, first]):
        yield key, comments.decoded(columns, row)


def last(database: Database, tables: Tables, tasks: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return `{"last_comment": …}` by task, for those tasks that have a comment."""
    comments = tables.comments
    if comments is None:
        return {}
    columns = ["task_id", *comments.available_columns(["author", "body"])]
    found: dict[int, dict[str, Any]] = {}
    for at in range(0, len(tasks), CHUNK):
        part = tasks[at : at + CHUNK]
        newest_ids = (
            f"SELECT MAX(id) FROM {comments.quoted} "
            f"WHERE task_id IN ({', '.join('?' * len(part))}) GROUP BY task_id"
        )
        sql = comments.select(columns, f"WHERE id IN ({newest_ids})")
        for row in database.rows(sql, part):
            found[row[0]] = {"last_comment": comments.decoded(columns[1:], row[1:])}
    return found


def comments_from_task(database: Database, tables: Tables, task: int) -> list[str]:
    """Return the comments on other tasks that were written by an agent at work on this one."""
    comments = tables.comments
    if comments is None or "agent_task_id" not in comments:
        return []
    where = "WHERE agent_task_id = ? AND task_id <> ? ORDER BY id"
    rows = database.rows(comments.select(["id", "task_id"], where), [task, task])
    return [f"comment {comment} on task {other}" for comment, other in rows]


def signed_by(database: Database, tables: Tables, discipline: str) -> list[str]:
    """In words, how many comments bear the name of a discipline as their author."""
    comments = tables.comments
    if comments is None or "author" not in comments:
        return []
    sql = f"SELECT COUNT(*) FROM {comments.quoted} WHERE author = ?"
    (count,) = database.rows(sql, [discipline])[0]
    return [f"the author of {count} comment{'s' if count > 1 else ''}"] if count else []


def _signature(database: Database, tables: Tables, actor: Actor) -> dict[str, Any]:
    """Return the author: the actor's discipline, else its recipe if the column takes any text.

    A discipline that was deleted during the session still signs in a column of text.
    """
    sql = tables.disciplines.select(["name"], "WHERE name = ?")
    known = database.row(sql, [actor.discipline])
    discipline = actor.discipline if known else None
    signs_with_text = _table(tables).columns.get("author") != DISCIPLINE
    names = (actor.discipline, actor.recipe)
    own = next((name for name in names if name and not _is_users(name)), AGENT)
    in_own_name = None if _is_users(discipline) else discipline
    author = own if signs_with_text else in_own_name
    return {"author": author, "discipline": discipline}


def _is_users(name: object) -> bool:
    """Return whether a name looks like a signature of the user."""
    read = normalized_name(str(name))
    return read in USERS or read in map(normalized_name, _login_names())


def normalized_name(name: str) -> str:
    """Return the letters and digits of a name, without case and width."""
    if not name.isascii():
        from unicodedata import normalize

        name = normalize("NFKC", normalize("NFKC", name).casefold())
    return "".join(one for one in name.casefold() if one.isalnum())


def _login_names() -> Iterator[str]:
    """Yield the names of the user that runs the server, as the system and commands spell it."""
    yield from filter(None, map(os.environ.get, ("LOGNAME", "USER", "LNAME", "USERNAME")))
    try:
        from pwd import getpwuid

        yield getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):  # a container's user may have no name
        return


def _table(tables: Tables) -> StoredTable:
    if tables.comments is None:
        raise ToolError("this project's database has no comments")
    return tables.comments


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
ACCEPTED, SENT_BACK = "accepted", "sent back"
_REVIEW = (
    "SELECT verdict, author, note, by FROM ralphgen_reviews WHERE task_id = ? "
    "ORDER BY number DESC LIMIT 1"
)
# Work in a worktree counts once it is merged, and no work counts that an undo reverted.
_DONE_AGAIN = """
SELECT 1 FROM ralphgen_journal AS closed
LEFT JOIN ralphgen_sessions AS own ON own.id = closed.session
WHERE closed.table_name = 'tasks' AND closed.row_key = ? AND closed.after LIKE '%"status":"done"%'
    AND closed.number > (
        SELECT max(number) FROM ralphgen_journal
        WHERE session = ? AND table_name = 'tasks' AND row_key = ?
    )
    AND (own.merged IS NOT NULL OR (own.worker IS NULL
        AND coalesce(own.worktree, '') NOT LIKE '%/.ralph/worktrees/%'))
    AND NOT EXISTS (
        SELECT 1 FROM ralphgen_journal AS undone
        WHERE undone.table_name = 'tasks' AND undone.row_key = closed.row_key
            AND undone.number > closed.number AND undone.session LIKE 'undo-%'
            AND undone.before LIKE '%"status":"done"%'
    )
LIMIT 1
"""
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


def note_of_review(database: Snapshot, task: int) -> tuple[str, str] | None:
    """Return who sent the work on a task back last, and the note.

    None if it was accepted or finished since. The login of a session, which cannot read the
    journal, does not see that it was finished.
    """
    row = database.row(_REVIEW, [task])
    if row is None or row[0] != SENT_BACK:
        return None
    _, author, note, by = row
    sees_all = database.sql.can_read(database, "ralphgen_journal", "after")
    if sees_all and database.row(_DONE_AGAIN, [str(task), by, str(task)]) is not None:
        return None
    return str(author), str(note)


def _withdraw(database: Database, session: str, task: int) -> None:
    database.change(f"{WITHDRAW} task_id = ?", [moment(), session, task])
