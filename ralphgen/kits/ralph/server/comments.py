"""Comments on tasks; who wrote one is the session's to say, not the agent's."""

from __future__ import annotations

import os

from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.policy import WITHIN
from ralphgen.runtime.tasks.rows import DISCIPLINE, Changes, now, plain, refuse_blank
from ralphgen.runtime.values.arguments import shortened

from .workspace import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.tasks.rows import StoredTable

    from .workspace import Workspace

SHOWN = ("id", "author", "discipline", "priority", "created", "body")
NEWEST = 20
USER = "user"  # the author of an answer that the user gave to a question of the server
USERS = frozenset({USER, "human"})  # with these, and the login name, no agent signs
AGENT = "agent"
CHUNK = 500  # tasks in one statement


@writing
def add_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a comment to a task; answers its id (SPEC-070, category 2)."""
    task = arguments["task_id"]
    workspace.task(task, ["id"])
    _refuse_foreign(workspace, "add_task_comment", task)
    refuse_blank(arguments, "body", "author")
    return {"id": write(workspace, task, arguments), "task_id": task}


@writing
def update_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the text of a comment of a task (SPEC-070, category 2)."""
    comment = _existing(workspace, arguments)
    _refuse_foreign(workspace, "update_task_comment", arguments["task_id"])
    _refuse_other_authors(workspace, comment)
    refuse_blank(arguments, "body")
    values = {"body": arguments["body"], "updated": now()}
    _table(workspace).update(workspace.database, "id", comment, values)
    return {"id": comment, "task_id": arguments["task_id"]}


@writing
def delete_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a comment of a task (SPEC-070, category 2)."""
    comment = _existing(workspace, arguments)
    _refuse_foreign(workspace, "delete_task_comment", arguments["task_id"])
    sql = f"DELETE FROM {_table(workspace).quoted} WHERE id = ?"
    workspace.database.change(sql, [comment])
    return {"deleted": comment, "task_id": arguments["task_id"]}


def write(
    workspace: Workspace, task: int, arguments: Mapping[str, Any], *, by_user: bool = False
) -> int:
    """Store a comment, inside a transaction that is open; returns its id.

    It is signed by the user if it is `by_user`, else by the session. Raises `ToolError` for a
    discipline that does not exist.
    """
    comments = _table(workspace)
    changes = Changes(workspace.work_tree, comments, arguments, key="task_id")
    for column, name in changes.values.items():
        if comments.columns[column] == DISCIPLINE:
            workspace.known(workspace.tables.disciplines, name, "discipline")
    signed = {"created": now(), **_signature(workspace, comments), **changes.values}
    if by_user and comments.columns.get("author") != DISCIPLINE:
        signed["author"] = USER
    if workspace.session.task is not None:
        signed["agent_task_id"] = workspace.session.task
    return comments.insert(workspace.database, {**signed, "task_id": task})


def delete_all(workspace: Workspace, task: int) -> None:
    """Delete the comments of a task, which not every schema does by itself."""
    if workspace.tables.comments is not None:
        sql = f"DELETE FROM {workspace.tables.comments.quoted} WHERE task_id = ?"
        workspace.database.change(sql, [task])


def newest(workspace: Workspace, task: int, most: int = NEWEST) -> dict[str, Any]:
    """Return the newest comments of a task, oldest first, and how many there are in all."""
    comments = workspace.tables.comments
    if comments is None:
        return {}
    columns = comments.chosen([*SHOWN, *comments.added])
    where = "WHERE task_id = ?"
    rows = workspace.database.rows(
        comments.select(columns, f"{where} ORDER BY id DESC LIMIT {most}"), [task]
    )
    total = workspace.database.rows(f"SELECT COUNT(*) FROM {comments.quoted} {where}", [task])
    records = [comments.decoded(columns, row) for row in reversed(rows)]
    return {"comments": records, "comments_total": total[0][0]}


def each(workspace: Workspace, task: int, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the comments of a task from an id on, oldest first, each with its id."""
    comments = workspace.tables.comments
    if comments is None:
        return
    columns = comments.chosen([*SHOWN, *comments.added])
    where = "WHERE task_id = ? AND id >= ? ORDER BY id"
    sql = comments.select(["id", *columns], where)
    for key, *row in workspace.database.each(sql, [task, first]):
        yield key, comments.decoded(columns, row)


def last(workspace: Workspace, tasks: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return `{"last_comment": …}` by task, for those tasks that have a comment."""
    comments = workspace.tables.comments
    if comments is None:
        return {}
    columns = ["task_id", *comments.chosen(["author", "body"])]
    found: dict[int, dict[str, Any]] = {}
    for at in range(0, len(tasks), CHUNK):
        part = tasks[at : at + CHUNK]
        newest_ids = (
            f"SELECT MAX(id) FROM {comments.quoted} "
            f"WHERE task_id IN ({', '.join('?' * len(part))}) GROUP BY task_id"
        )
        sql = comments.select(columns, f"WHERE id IN ({newest_ids})")
        for row in workspace.database.rows(sql, part):
            found[row[0]] = {"last_comment": comments.decoded(columns[1:], row[1:])}
    return found


def written_for(workspace: Workspace, task: int) -> list[str]:
    """Return the comments on other tasks that were written by an agent at work on this one."""
    comments = workspace.tables.comments
    if comments is None or "agent_task_id" not in comments:
        return []
    where = "WHERE agent_task_id = ? AND task_id <> ? ORDER BY id"
    rows = workspace.database.rows(comments.select(["id", "task_id"], where), [task, task])
    return [f"comment {comment} on task {other}" for comment, other in rows]


def signed_by(workspace: Workspace, discipline: str) -> list[str]:
    """In words, how many comments bear the name of a discipline as their author."""
    comments = workspace.tables.comments
    if comments is None or "author" not in comments:
        return []
    sql = f"SELECT COUNT(*) FROM {comments.quoted} WHERE author = ?"
    (count,) = workspace.database.rows(sql, [discipline])[0]
    return [f"the author of {count} comment{'s' if count > 1 else ''}"] if count else []


def _signature(workspace: Workspace, comments: StoredTable) -> dict[str, Any]:
    """Return who writes: the session's discipline, else its recipe where the column takes any text.

    A discipline that was deleted during the session still signs, where that is text alone.
    """
    session, disciplines = workspace.session, workspace.tables.disciplines
    sql = disciplines.select(["name"], "WHERE name = ?")
    known = workspace.database.row(sql, [session.discipline])
    discipline = session.discipline if known else None
    signs_with_text = comments.columns.get("author") != DISCIPLINE
    names = (session.discipline, session.recipe)
    own = next((name for name in names if name and not _is_users(name)), AGENT)
    in_own_name = None if _is_users(discipline) else discipline
    author = own if signs_with_text else in_own_name
    return {"author": author, "discipline": discipline}


def _is_users(name: object) -> bool:
    """Return whether a name reads like one that the user signs with."""
    read = _as_read(str(name))
    return read in USERS or read in map(_as_read, _login_names())


def _as_read(name: str) -> str:
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


def _refuse_other_authors(workspace: Workspace, comment: int) -> None:
    """Raise `ToolError` if a client would put its words under the name of another author."""
    comments = _table(workspace)
    if workspace.session.is_typed or "author" not in comments:
        return
    signature = _signature(workspace, comments)
    columns = [name for name in signature if name in comments]
    own = [signature[name] for name in columns]
    row = workspace.database.row(comments.select(columns, "WHERE id = ?"), [comment])
    if row is not None and ([*row] != own or _is_users(own[0])):
        raise ToolError(
            f"comment {shortened(comment)} is signed by {shortened(plain(row[0]))}: write another "
            "comment"
        )


def _table(workspace: Workspace) -> StoredTable:
    if workspace.tables.comments is None:
        raise ToolError("this project's database has no comments")
    return workspace.tables.comments


def _refuse_foreign(workspace: Workspace, tool: str, task: int) -> None:
    """Raise `ToolError` for a task out of the feature that the session is bound to."""
    session = workspace.session
    bound = session.bound_arguments(tool).get("task_id")
    if bound is None or bound.reach != WITHIN or task == bound.value:
        return
    if workspace.task(task, ["feature"]) != (session.feature,):
        raise ToolError(
            f"task {shortened(task)} belongs to another feature: this session can comment only on "
            f"tasks of {shortened(session.feature)}"
        )


def _existing(workspace: Workspace, arguments: Mapping[str, Any]) -> int:
    """Return the comment's id; raises `ToolError` where the task has no such comment."""
    task, comment = arguments["task_id"], arguments["comment_id"]
    workspace.task(task, ["id"])
    where = f"WHERE id = ? AND {quoted('task_id')} = ?"
    row = workspace.database.row(_table(workspace).select(["id"], where), [comment, task])
    if row is None:
        raise ToolError(f"comment {shortened(comment)} does not exist on task {task}")
    return int(row[0])
