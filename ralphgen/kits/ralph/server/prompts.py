"""The session's own recipe as a prompt: what it is for, what it is about, and how to close."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.prompt import Prompt
from ralphgen.runtime.values.arguments import shortened

from .instructions import on_closing, own_row, settable
from .procedures import BEGIN, CHOOSE, CLOSE, PROCEDURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

    from .workspace import Workspace

LONGEST_NAME = 64
NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
ARGUMENTS = {
    "task": "The id of the task to work on.",
    "feature": "The name of the feature to work on.",
}
LONGEST_ID = 18  # digits


def prompts(session: Session, tools: Sequence[Tool]) -> list[Prompt]:
    """Return the one prompt of a session; none where a person works or looks around (SPEC-070)."""
    procedure = PROCEDURES.get(session.profile)
    if procedure is None:
        return []
    seen = {tool.name: tool for tool in tools}

    def text(workspace: Workspace, given: Mapping[str, str]) -> str:
        subject = workspace.snapshot(lambda: _subject(workspace, given))
        steps = _steps(procedure.steps, seen, chosen=bool(subject))
        return "\n".join([procedure.purpose, *([subject] if subject else []), *steps])

    arguments = {kind: ARGUMENTS[kind] for kind in session.open_kinds() if kind in ARGUMENTS}
    plain = [letter if letter in NAME_LETTERS else "_" for letter in session.recipe]
    name = "".join(plain)[:LONGEST_NAME]
    return [Prompt(name, procedure.purpose, arguments=arguments, text=text)]


def _steps(
    steps: Sequence[tuple[Sequence[str], str]], seen: Mapping[str, Tool], *, chosen: bool
) -> list[str]:
    """Return the steps that the visible tools allow, numbered; `chosen` where the row is known."""
    shown = [
        _said(text, seen, chosen=chosen)
        for needed, text in steps
        if all(name in seen for name in needed)
    ]
    return [f"{at}. {text}" for at, text in enumerate(filter(None, shown), 1)]


def _said(text: str, seen: Mapping[str, Tool], *, chosen: bool) -> str:
    """Return a step in words; empty where it says nothing to this session."""
    if text == CHOOSE:
        return "" if chosen else "Take the first draft that list_tasks shows."
    if text == CLOSE:
        return on_closing(seen["set_task_status"].properties)
    if text == BEGIN:
        known = "in_progress" in settable(seen["set_task_status"].properties)
        return "Set the status to in_progress with set_task_status." if known else ""
    return text


def _subject(workspace: Workspace, given: Mapping[str, str]) -> str:
    """Return in words the row that the session is about or that the arguments name, or "".

    Raises `ToolError` for a row that there is not.
    """
    session = workspace.session
    if "task" in given:
        return f"Work on {_task(workspace, given['task'])}."
    if "feature" in given:
        workspace.known(workspace.tables.features, given["feature"], "feature")
        return f"Work on the feature {shortened(given['feature'])}."
    if session.task is not None:
        return f"Work on {_task(workspace, str(session.task))}."
    own = own_row(session)
    return f"This session is about {own}." if own else ""


def _is_id(given: str) -> bool:
    """Return whether a text spells an id as JSON would."""
    digits = given.isascii() and given.isdigit() and len(given) <= LONGEST_ID
    return digits and not given.startswith("0")


def _task(workspace: Workspace, given: str) -> str:
    """Return a task in words; raises `ToolError` where there is none."""
    sql = workspace.tables.tasks.select(["title", "feature"], "WHERE id = ?")
    row = workspace.database.row(sql, [int(given)]) if _is_id(given) else None
    if row is None:
        raise ToolError(f"there is no task {one_line(given)[:40]}")
    title, feature = row
    return f"task {given}, {shortened(title)}, of the feature {shortened(feature)}"
