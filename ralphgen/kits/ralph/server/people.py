"""What a person is asked before a task is deleted, blocked, or taken from the session that has it.

Each is asked within the transaction that waits for the answer: where there is none yet, nothing of
it is kept, and the call is made again with the answer.
"""

from __future__ import annotations

from ralphgen.runtime.elicitation import Question, ask, confirmation, need
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.system import is_below_launch
from ralphgen.runtime.tasks import comments
from ralphgen.runtime.tasks.claims import dependents, other_claim, refusal_of
from ralphgen.runtime.tasks.rows import plain
from ralphgen.runtime.tasks.status import drop_dependency
from ralphgen.runtime.values import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralphgen.runtime.elicitation import Word

    from .workspace import Workspace

TEXT = {"type": "string", "minLength": 1, "maxLength": 4_000}
NAMED = 10  # tasks of a question
MOST = 200  # tasks that one answer changes


def free_dependents(workspace: Workspace, task: int, refusal: str) -> list[int]:
    """Let nothing wait for a task that is about to be deleted, where a person says so.

    Returns the tasks that waited for it, each with a comment on that. Raises `ToolError` with the
    refusal where nobody says so, or where more than `MOST` wait.
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
    told = _named(workspace, task)
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
        f'{_named(workspace, task)} is claimed by the session "{name}". If you end the claim, '
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


def asked_reason(workspace: Workspace, task: int, refusal: str) -> str:
    """Return what a person says keeps a task from being done.

    Raises `ToolError` with the refusal where nobody says it.
    """
    question = Question(
        f"Why is {_named(workspace, task)} blocked?",
        {"reason": {**TEXT, "title": "Reason"}},
    )
    word = need(question, refusal)
    reason = str((word.content or {})["reason"])
    record(workspace, task, word, f"Blocked by the user: {reason}")
    return reason


def answer_to(
    workspace: Workspace, task: int, asked: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return, as `answered`, what a person says to the question that would block a task.

    `options` are suggestions. With it comes the id of the `comment` that says so. There is nothing
    where nobody answers.
    """
    lines = [f"A question blocks {_named(workspace, task)}:", asked]
    message = "\n".join([*lines, *(f"- {one}" for one in options)])
    word = ask(Question(message, {"answer": {**TEXT, "title": "Answer"}}))
    if word.content is None:
        return {}
    answer = str(word.content["answer"])
    note = f"Asked: {asked}\n\nThe user answered: {answer}"
    return {"answered": answer, **record(workspace, task, word, note)}


def record(workspace: Workspace, task: int, word: Word, text: str) -> dict[str, int]:
    """Write a comment on a task: what a person has said, and through which client.

    Returns its id as `comment`; nothing where the project has no comments.
    """
    if workspace.tables.comments is None:
        return {}
    body = f"{text} (asked through {word.through})"
    database, tables, session = workspace.database, workspace.tables, workspace.session
    comment = comments.write(database, tables, session, task, {"body": body}, by_user=True)
    return {"comment": comment}


def _named(workspace: Workspace, task: int) -> str:
    (title,) = workspace.task(task, ["title"])
    return f"Task {task} {shortened(plain(title))}"


def _may_free(workspace: Workspace) -> bool:
    """Return whether the session may change what any task waits for, without a person's word."""
    session = workspace.session
    return (
        "update_task" in session.enabled
        and session.leaves("update_task", "depends_on")
        and not session.bound_arguments("update_task")
    )
