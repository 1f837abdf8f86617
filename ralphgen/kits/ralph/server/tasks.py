"""The tools on tasks and their comments, and their questions to the user.

A question is asked within the transaction that needs the answer: without an answer, the
transaction is rolled back, and the call is repeated with the answer.
"""

from __future__ import annotations

import re

from ralphgen.runtime.elicitation import Question, ask, confirmation, need
from ralphgen.runtime.engine.ledger import is_done
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.policy import FULL, WITHIN
from ralphgen.runtime.statements import stating
from ralphgen.runtime.system import is_below_launch
from ralphgen.runtime.tasks import (
    LIMIT,
    Changes,
    comments,
    plain,
    refuse_blank,
    refuse_unknown,
    rows_by_id,
    today,
)
from ralphgen.runtime.tasks.claims import (
    SHOWN,
    UNKNOWN,
    add_holders,
    checked,
    dependents,
    forget,
    inferred,
    met,
    other_claim,
    ready_page,
    refusal_of,
    refuse_claimed,
    unknown_cursor,
    unmerged_tasks,
    unreadable_dependents,
)
from ralphgen.runtime.tasks.status import add_task, drop_dependency, move, set_status
from ralphgen.runtime.tasks.status import delete_task as remove_task
from ralphgen.runtime.values import AROUND, PAGE, fitted, page, shortened, size

from .features import display_names, mentions
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.elicitation import Word
    from ralphgen.runtime.tasks.status import Look

    from .workspace import Workspace


@writing
def add_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a comment to a task; returns its id (SPEC-070, category 2)."""
    database, tables, task = workspace.database, workspace.tables, arguments["task_id"]
    workspace.task(task, ["id"])
    _refuse_foreign(workspace, "add_task_comment", task)
    refuse_blank(arguments, "body", "author")
    if tables.comments is not None:
        arguments = Changes(workspace.work_tree, tables.comments, arguments, key="task_id").values
    comment = comments.write(database, tables, workspace.session, task, arguments)
    return {"id": comment, "task_id": task}


@writing
def update_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the text of a comment of a task (SPEC-070, category 2)."""
    database, tables = workspace.database, workspace.tables
    task, comment = arguments["task_id"], arguments["comment_id"]
    comments.require_task(database, tables, task, comment)
    _refuse_foreign(workspace, "update_task_comment", task)
    comments.refuse_other_authors(database, tables, workspace.session, comment)
    refuse_blank(arguments, "body")
    comments.change(database, tables, comment, arguments["body"])
    return {"id": comment, "task_id": task}


@writing
def delete_task_comment(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a comment of a task (SPEC-070, category 2)."""
    task, comment = arguments["task_id"], arguments["comment_id"]
    comments.require_task(workspace.database, workspace.tables, task, comment)
    _refuse_foreign(workspace, "delete_task_comment", task)
    comments.delete(workspace.database, workspace.tables, comment)
    return {"deleted": comment, "task_id": task}


def _refuse_foreign(workspace: Workspace, tool: str, task: int) -> None:
    """Raise `ToolError` for a task outside the feature that the session is bound to."""
    session = workspace.session
    bound = session.filled_arguments(tool).get("task_id")
    if bound is None or bound.reach != WITHIN or task == bound.value:
        return
    if workspace.task(task, ["feature"]) != (session.feature,):
        raise ToolError(
            f"task {shortened(task)} belongs to another feature: this session can comment only on "
            f"tasks of {shortened(session.feature)}"
        )


_CURSOR = "-?[0-9]{1,19}"
LISTED = ("id", "title", "status", "priority", "feature", "discipline", "depends_on")


@reading
def list_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of tasks, filtered by status, feature and discipline (SPEC-070).

    The order is by id. With `filter_ready`, only ready tasks are returned, the next one first. The
    display names of features and disciplines are next to the rows, once each.
    """
    database, tables = workspace.database, workspace.tables
    tasks = tables.tasks
    clauses, values = _filters(workspace, arguments)
    limit = arguments.get("limit", PAGE)
    columns = tasks.available_columns([*LISTED, *tasks.added])
    if arguments.get("filter_ready"):
        matching = tasks.select(["id"], _where(clauses)) if clauses else ""
        ids, cursors, count = ready_page(
            database, tables, matching, values, arguments.get("cursor"), limit + 1
        )
        by_id = rows_by_id(database, tables, ids, columns)
        rows = [by_id[task] for task in ids]
    else:
        counted = f"SELECT COUNT(*) FROM {tasks.quoted} {_where(clauses)}"
        total = database.row(counted, values)
        after, more = _after(arguments)
        rows = database.rows(
            tasks.select(columns, f"{_where([*clauses, *after])} ORDER BY id LIMIT ?"),
            [*values, *more, limit + 1],
        )
        cursors, count = [row[0] for row in rows], total[0] if total else 0
    records = [tasks.decoded(columns, row) for row in rows]
    needed = [task for record in records for task in record.get("depends_on", [])]
    done = met(database, tables, needed)
    for record in records:
        _infer(record, done)
    add_holders(database, tables, records)
    names = display_names(workspace, records[:limit])
    around = AROUND + size(names)
    answer = page("tasks", records, cursors, limit=limit, total=count, around=around)
    return {**answer, "display_names": names} if names else answer


@reading
def get_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a task, its dependencies, dependents and newest comments (SPEC-070)."""
    return fitted(described(workspace, arguments["id"], comments.NEWEST))


@writing
def create_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a task, by default a draft; returns its id (SPEC-070, category 1)."""
    tables, tasks = workspace.tables, workspace.tables.tasks
    refuse_blank(arguments, "title")
    refuse_unknown_homes(workspace, arguments)
    changes = Changes(workspace.work_tree, tasks, arguments)
    task = workspace.database.rows(workspace.database.sql.next_number(tasks.quoted))[0][0]
    if "depends_on" in arguments:
        needed = checked(workspace.database, workspace.tables, task, arguments["depends_on"])
        changes.values["depends_on"] = tasks.stored("depends_on", needed)
    changes.warnings += _same_title(workspace, arguments)
    forget(workspace.database, tables, task)
    stamps = {"id": task, "created": today(), "provenance": workspace.session.provenance}
    values = {"status": tables.first_status, **changes.values, **stamps}
    add_task(workspace.database, tasks, values)
    return changes.answer({"id": task, "status": values["status"]})


@writing
def update_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a task and no other; returns their names (SPEC-070)."""
    task = arguments["id"]
    workspace.task(task, ["id"])
    refuse_blank(arguments, "title")
    changes = Changes(workspace.work_tree, workspace.tables.tasks, arguments, key="id")
    if "depends_on" in arguments:
        needed = checked(workspace.database, workspace.tables, task, arguments["depends_on"])
        changes.values["depends_on"] = workspace.tables.tasks.stored("depends_on", needed)
    changed = changes.apply(workspace.database, "id", task, stamps={"updated": today()})
    return changes.answer({"id": task, "changed": changed})


@writing
def delete_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a task that no other waits for; names what still mentions it (SPEC-070)."""
    database, tables, task = workspace.database, workspace.tables, arguments["id"]
    workspace.task(task, ["id"])
    freed = _freed(workspace, task)
    unclear = next(unreadable_dependents(database, tables, task), None)
    if unclear is not None:
        raise ToolError(
            f'task {task} cannot be deleted: the "depends_on" of task {unclear} cannot be read '
            "and may contain it; set it again first"
        )
    refuse_claimed(workspace.database, workspace.tables, workspace.session, task)
    dangling = [*comments.comments_from_task(database, tables, task), *mentions(workspace, task)]
    remove_task(database, tables, task)
    answer: dict[str, Any] = {"deleted": task}
    if freed:
        answer["freed"] = freed
    return {**answer, "still_named_by": dangling} if dangling else answer


def _freed(workspace: Workspace, task: int) -> list[int]:
    """Return the tasks that no longer wait for a task that will be deleted, if the user agrees.

    Raises `ToolError` if a task waits for it and the user does not agree.
    """
    waiting = next(dependents(workspace.database, workspace.tables, task), None)
    if waiting is None:
        return []
    other, title = waiting["id"], shortened(waiting["title"])
    refusal = (
        f"task {task} cannot be deleted: task {other} {title} depends on it; first remove {task} "
        'from its "depends_on"'
    )

    return free_dependents(workspace, task, refusal)


def set_task_status(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Move a task to a status; `reason` is why it is blocked, `summary` becomes a comment.

    A `question` blocks it until the user answers.

    Returns the old and the new status and the tasks that are ready now (SPEC-070). In a project
    with checks, a task becomes done when it is proved, or `because` of a decision of the user.
    """
    look = None
    if workspace.looks_at_tree and is_done(arguments["status"]):
        from .proof import look_at_tree

        look = look_at_tree(workspace)
    move = writing(lambda there, given: _moved(there, given, look), "set_task_status")
    return move(workspace, arguments)


stating(set_task_status, "write")


def _moved(workspace: Workspace, arguments: dict[str, Any], look: Look | None) -> dict[str, Any]:
    """Move a task to a status, inside a transaction, and return the answer of the tool.

    `look` is the tree that must be proved, None without one. Raises `ToolError` if something is
    missing.
    """
    task, new = arguments["id"], arguments["status"]
    (old,) = workspace.task(task, ["status"])
    _refuse_wrong_words(arguments)
    question = ""
    if new == "blocked":
        question, reason, answer = _block_details(workspace, arguments)
        if answer:
            return {"id": task, "old": plain(old), "new": plain(old), **answer}
        arguments = {**arguments, **reason}
    advice = ""
    if look is not None:
        from .proof import advice_of

        advice = advice_of(workspace, task)
    moved = move(
        *(workspace.database, workspace.tables, workspace.session, task, new),
        force=lambda: _force(workspace, arguments),
        reason=arguments.get("reason"),
        summary=arguments.get("summary"),
        look=look,
        advice=advice,
        because=arguments.get("because"),
    )
    if not question:
        return moved
    from ralphgen.runtime.tasks.comments import WAIT, ask

    options = arguments.get("options", ())
    asked = ask(workspace.database, workspace.session.session_id, task, question, options)
    return {**moved, "asked": asked, "told": [*moved.get("told", ()), WAIT]}


def _refuse_wrong_words(arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for texts that the new status does not use, and for blank ones."""
    new = arguments["status"]
    for name in ("reason", "question"):
        if name in arguments and new != "blocked":
            raise ToolError(f'"{name}" is only for the status "blocked"')
    if "options" in arguments and not _question(arguments):
        raise ToolError('"options" are only for a "question"')
    if "because" in arguments and not is_done(new):
        raise ToolError('"because" is only for the status "done"')
    refuse_blank(arguments, "reason", "question", "summary", "because")


def _question(arguments: Mapping[str, Any]) -> str:
    """Return the question of a call, which can be in its reason; empty without a question."""
    reason = str(arguments.get("reason", ""))
    return str(arguments.get("question", reason if reason.rstrip().endswith("?") else ""))


def _block_details(
    workspace: Workspace, arguments: Mapping[str, Any]
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the question that blocks a task, the missing reason, and the user's answer.

    With an answer, the task need not be blocked. The user is not asked about a task that another
    session claims: a client returns only the answer to the last question, and the claim comes
    first. Without a ledger, a question is only a reason. Raises `ToolError` if a reason is missing
    and the user gives none.
    """
    task, reason, question = arguments["id"], arguments.get("reason", ""), _question(arguments)
    if question:
        options = arguments.get("options", ())
        if workspace.tables.ledger:
            from ralphgen.runtime.tasks.comments import refuse_unaskable

            refuse_unaskable(workspace.database, workspace.tables, task, question, options)
        answer: dict[str, Any] = {}
        if _is_free(workspace, task):
            answer = answer_to(workspace, task, question, options)
        stored = question if workspace.tables.ledger else ""
        return stored, {"reason": reason or question}, answer
    takes_reason = workspace.tables.takes_reason
    if takes_reason and not reason and workspace.session.leaves("set_task_status", "reason"):
        refusal = '"blocked" needs a "reason": state what keeps this task from being done'
        return "", {"reason": block_reason(workspace, task, refusal)}, {}
    return "", {}, {}


def _force(workspace: Workspace, arguments: Mapping[str, Any]) -> bool:
    """Return whether the session, as one of the user, may end the claim of another."""
    force = bool(arguments.get("force", False))
    if workspace.session.profile != FULL or not workspace.tables.ledger:
        return force

    return may_force(workspace, arguments["id"], force=force)


def _is_free(workspace: Workspace, task: int) -> bool:
    claim = other_claim(workspace.database, workspace.tables, workspace.session, task)
    return claim is None


@writing
def enrich_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Give a draft its pseudocode and make it pending; lists left out are kept (SPEC-070)."""
    task = arguments["id"]
    (status,) = workspace.task(task, ["status"])
    if status != "draft":
        raise ToolError(f"task {task} is {shortened(plain(status))}: only a draft can be enriched")
    refuse_blank(arguments, "pseudocode")
    changes = Changes(workspace.work_tree, workspace.tables.tasks, arguments, key="id")
    more = {**changes.values, "enriched_at": today()}
    set_status(
        *(workspace.database, workspace.tables.tasks, task, (status, "pending")),
        date=today(),
        more=more,
    )
    return changes.answer({"id": task, "status": "pending"})


def described(workspace: Workspace, task: int, most_comments: int) -> dict[str, Any]:
    """Return a complete task, within an open transaction.

    Raises `ToolError` if there is no such task.
    """
    database, tables = workspace.database, workspace.tables
    tasks = tables.tasks
    columns = list(tasks.columns)
    record = tasks.decoded(columns, workspace.task(task, columns))
    needed = record.get("depends_on", [])
    rows = rows_by_id(database, tables, needed, ["title", "status"])
    _infer(record, met(database, tables, needed))
    add_holders(database, tables, [record])
    more = {
        "dependencies": dependencies(workspace, needed[: SHOWN + 1], rows),
        "dependents": [
            {key: row[key] for key in ("id", "title", "status")}
            for row, _ in zip(dependents(database, tables, task), range(SHOWN + 1), strict=False)
        ],
        **comments.newest(database, tables, task, most_comments),
    }
    return {**record, **{key: value for key, value in more.items() if value}}


def dependencies(
    workspace: Workspace, ids: Sequence[int], rows: Mapping[int, Any]
) -> list[dict[str, Any]]:
    """Return each prerequisite with title, status and last comment, or as missing.

    A prerequisite whose work in a worktree is not merged yet is `unmerged`. `rows` are titles and
    statuses of the existing ones, by id.
    """
    database, tables, present = workspace.database, workspace.tables, [*filter(rows.get, ids)]
    last = comments.last(database, tables, present)
    unmerged = unmerged_tasks(database, tables, present)
    described: list[dict[str, Any]] = []
    for task in ids:
        if task not in rows:
            described.append({"id": task, "missing": True})
            continue
        title, status = (plain(value) for value in rows[task])
        merge = {"unmerged": True} if task in unmerged else {}
        described.append(
            {"id": task, "title": title, "status": status, **merge, **last.get(task, {})}
        )
    return described


def refuse_unknown_homes(workspace: Workspace, arguments: dict[str, Any]) -> None:
    """Raise `ToolError` if the `feature` or the `discipline` does not exist."""
    database, tables = workspace.database, workspace.tables
    refuse_unknown(database, tables.features, arguments["feature"], "feature")
    refuse_unknown(database, tables.disciplines, arguments["discipline"], "discipline")


def _filters(workspace: Workspace, arguments: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the conditions and their values.

    Raises `ToolError` for a feature or a discipline without a row, unless old tasks still bear it.
    """
    tables = workspace.tables
    given = {
        column: arguments[f"filter_{column}"]
        for column in ("status", "feature", "discipline")
        if f"filter_{column}" in arguments
    }
    for column, table in (("feature", tables.features), ("discipline", tables.disciplines)):
        sql = tables.tasks.select(["id"], f"WHERE {column} = ? LIMIT 1")
        if column in given and workspace.database.row(sql, [given[column]]) is None:
            refuse_unknown(workspace.database, table, given[column], column)
    return [f"{column} = ?" for column in given], [*given.values()]


def _after(arguments: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Return the condition for rows after the cursor; none on the first page."""
    text = arguments.get("cursor")
    if text is None:
        return [], []
    if not re.fullmatch(_CURSOR, text) or abs(int(text)) >= LIMIT:
        raise unknown_cursor(text)
    return ["id > ?"], [int(text)]


def _where(clauses: list[str]) -> str:
    return f"WHERE {' AND '.join(clauses)}" if clauses else ""


def _infer(record: dict[str, Any], done: set[int]) -> None:
    """Add the computed state of a task to its record; the tasks `done` let no task wait."""
    status = record.get("status", "")
    waits = not done.issuperset(record.get("depends_on", []))
    known = status != "pending" or "depends_on" not in record.get("unreadable", {})
    record["inferred"] = inferred(status, waits=waits) if known else UNKNOWN


def _same_title(workspace: Workspace, arguments: dict[str, Any]) -> list[str]:
    same = workspace.database.sql.SAME_LETTERS
    sql = workspace.tables.tasks.select(["id"], f"WHERE feature = ? AND {same} ORDER BY id LIMIT 1")
    row = workspace.database.row(sql, [arguments["feature"], arguments["title"]])
    return [f"task {row[0]} of this feature has the same title"] if row else []


TEXT = {"type": "string", "minLength": 1, "maxLength": 4_000}
NAMED = 10  # tasks of a question
MOST = 200  # tasks that one answer changes


def free_dependents(workspace: Workspace, task: int, refusal: str) -> list[int]:
    """Let no task wait for one that will be deleted, if the user agrees.

    Returns the tasks that waited for it; each gets a comment. Raises `ToolError` with the refusal
    if the user does not agree, or if more than `MOST` tasks wait.
    """
    database, tables = workspace.database, workspace.tables
    claim = other_claim(database, tables, workspace.session, task)
    if claim is not None or not _may_free(workspace):
        raise ToolError(refusal)
    found = dependents(database, tables, task)
    waiting = [row for _, row in zip(range(MOST + 1), found, strict=False)]
    if len(waiting) > MOST:
        raise ToolError(refusal)
    named = [f"- {row['id']} {shortened(row['title'])}" for row in waiting[:NAMED]]
    if len(waiting) > NAMED:
        named.append(f"- and {len(waiting) - NAMED} more")
    told = _task_name(workspace, task)
    question = confirmation(
        "\n".join([f"Delete {told}? These tasks wait for it:", *named]),
        "Delete it and remove these dependencies",
    )
    word = need(question, refusal)
    for row in waiting:
        left = [needed for needed in row["depends_on"] if needed != task]
        drop_dependency(database, tables, row["id"], left)
        note = f"{told} was deleted and removed from this task's dependencies"
        record(workspace, row["id"], word, f"{note}: the user agreed")
    return [row["id"] for row in waiting]


def may_force(workspace: Workspace, task: int, *, force: bool) -> bool:
    """Ask the user whether to end another session's claim on a task; return the answer.

    Returns `force` if the user cannot be asked. Raises `ToolError` if the user declines, or if the
    task is claimed, the user cannot be asked and `force` is not set.
    """
    claim = other_claim(workspace.database, workspace.tables, workspace.session, task)
    asks = claim is not None and workspace.session.leaves("set_task_status", "force")
    if claim is None or not asks or is_below_launch():
        return force
    name = one_line(str(claim.session))
    question = confirmation(
        f'{_task_name(workspace, task)} is claimed by the session "{name}". If you end the claim, '
        "that session can no longer write.",
        "End its claim",
    )
    refusal = refusal_of(claim, workspace.session)
    word = ask(question) if force else need(question, refusal)
    if word.content is not None:
        record(workspace, task, word, f'The user ended the claim of session "{name}"')
        return True
    if word.why:
        raise ToolError(f"{refusal.partition(':')[0]}; {word.why}: nothing was changed")
    return force


def block_reason(workspace: Workspace, task: int, refusal: str) -> str:
    """Return the user's reason for which a task is blocked.

    Raises `ToolError` with the refusal without an answer.
    """
    question = Question(
        f"Why is {_task_name(workspace, task)} blocked?",
        {"reason": {**TEXT, "title": "Reason"}},
    )
    word = need(question, refusal)
    reason = str((word.content or {})["reason"])
    record(workspace, task, word, f"Blocked by the user: {reason}")
    return reason


def answer_to(
    workspace: Workspace, task: int, asked: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the user's answer to the question that would block a task, as `answered`.

    `options` are suggestions. The result has the id of the `comment` with the answer, and is empty
    without an answer.
    """
    lines = [f"A question blocks {_task_name(workspace, task)}:", asked]
    message = "\n".join([*lines, *(f"- {one}" for one in options)])
    word = ask(Question(message, {"answer": {**TEXT, "title": "Answer"}}))
    if word.content is None:
        return {}
    answer = str(word.content["answer"])
    note = f"Asked: {asked}\n\nThe user answered: {answer}"
    return {"answered": answer, **record(workspace, task, word, note)}


def record(workspace: Workspace, task: int, word: Word, text: str) -> dict[str, int]:
    """Write the user's answer and the name of the client as a comment on a task.

    Returns its id as `comment`; an empty answer if the project has no comments.
    """
    if workspace.tables.comments is None:
        return {}
    body = f"{text} (asked through {word.through})"
    database, tables, session = workspace.database, workspace.tables, workspace.session
    comment = comments.write(database, tables, session, task, {"body": body}, author=comments.USER)
    return {"comment": comment}


def _task_name(workspace: Workspace, task: int) -> str:
    (title,) = workspace.task(task, ["title"])
    return f"Task {task} {shortened(plain(title))}"


def _may_free(workspace: Workspace) -> bool:
    """Return whether the session may change dependencies of any task without asking the user."""
    session = workspace.session
    return (
        "update_task" in session.enabled
        and session.leaves("update_task", "depends_on")
        and not session.filled_arguments("update_task")
    )
