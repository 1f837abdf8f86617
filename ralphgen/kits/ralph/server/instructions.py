"""What a session is told about its tools: only what it can see, and how to close."""

from __future__ import annotations

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tool import instruction_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

LONGEST = 2000  # characters that a client shows for certain
NAME = 100  # characters of a recipe's or a discipline's name
PURPOSES = {
    "braindump": "Turn raw ideas into features, disciplines and draft tasks.",
    "yap": "Discuss the tasks with the user and record what you agree on.",
    "ramble": "Discuss a feature with the user and record decisions.",
    "discuss": "Refine a discipline, an agent role, with the user.",
    "task_execution": "Complete one task and close it.",
    "opus_review": "Review finished work and decide what comes next.",
    "enrichment": "Turn drafts into tasks that an agent can do without asking.",
    "interactive": "Explore the project without changing it.",
    "manual": "Do what the user asks for.",
}
"""The purpose of each recipe. The last two have no steps and no prompt."""
UPDATES = ("update_task", "update_feature", "update_discipline")
USUAL = ("in_progress", "done", "blocked")
RESOURCES = (
    "Resources to read: ralph://tasks/{id}, ralph://features/{name}, ralph://disciplines/{name}, "
    "ralph://progress, ralph://learnings."
)


def instructions(session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    seen = {tool.name: tool for tool in tools}
    lines = [f"The project's database, for a session of the recipe {shown_name(session.recipe)}."]
    if session.brief.get("description"):
        lines[0] += f" {session.brief['description']}"
    if not seen:
        return f"{lines[0]} This session has no tools on this server.\n{RESOURCES}"
    if session.discipline:
        lines.append(f"You work as the discipline {shown_name(session.discipline)}.")
    own = own_row(session)
    if own:
        lines.append(f"This session works on {own}: omit its id or name in calls.")
    return "\n".join([*lines, *instruction_lines(tools), *_advice(seen), RESOURCES])[:LONGEST]


def purpose_of(session: Session) -> str:
    """Return what a session is for: as the project's own recipe says, else by its profile."""
    described: str = session.brief.get("description") or PURPOSES[session.profile]
    return described


def _advice(seen: Mapping[str, Tool]) -> Iterator[str]:
    """Yield what depends on the arguments that the session's tools have."""
    updates = [seen[name] for name in UPDATES if name in seen]
    clearing = [tool.name for tool in updates if "clear" in tool.properties]
    if clearing:
        tools = f" of {' or '.join(clearing)}" if len(clearing) < len(updates) else ""
        yield f'Updates change only the given fields; list a field in "clear"{tools} to empty it.'
    elif updates:
        yield "Updates change only the given fields."
    if "set_task_status" in seen:
        yield on_closing(seen["set_task_status"].properties)


def own_row(session: Session) -> str:
    """Return the row that a session is about, in words; empty where there is none."""
    if session.task is not None:
        return f"task {session.task} of the feature {shown_name(session.feature or '')}"
    if session.feature is not None:
        return f"the feature {shown_name(session.feature)}"
    if session.target is not None:
        return f"the discipline {shown_name(session.target)}"
    return ""


def on_closing(arguments: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how finished work is closed, with what the project has a place for.

    `arguments` are the schemas of those that set_task_status takes, by name.
    """
    ways = {
        "done": "done with a summary" if "summary" in arguments else "done",
        "blocked": "blocked with a reason" if "reason" in arguments else "blocked",
    }
    statuses = settable(arguments)
    told = ", or ".join(way for status, way in ways.items() if status in statuses)
    return f"Close the task with set_task_status{told and ': '}{told}."


def settable(arguments: Mapping[str, Mapping[str, Any]]) -> Collection[str]:
    """Return the statuses that a session may set, the usual ones where the project lists none."""
    statuses: Collection[str] = arguments["status"].get("enum", USUAL)
    return statuses


def shown_name(text: str) -> str:
    """Return a name on one line, cut where it is very long."""
    shown = one_line(text)
    return shown if len(shown) <= NAME else f"{shown[:NAME]}…"
