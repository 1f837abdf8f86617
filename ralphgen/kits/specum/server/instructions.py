"""The instructions of the server, which list the purpose of each tool."""

from __future__ import annotations

from ralphgen.runtime.kit import standard_instructions

from .workspace import RALPH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

ABOUT = "Specs of the project, in specs/: research, requirements, design, tasks, execution."
OWN_TASK = "ralph_implement returns this session's task: do it, tick its box, and stop."


def on_one_task(session: Session) -> bool:
    """Return whether the session is about one task of the project and so gets no other one."""
    return session.task is not None and RALPH in session.kits


def instructions(session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    text = standard_instructions(ABOUT)(session, tools)
    if on_one_task(session):
        for tool in tools:
            if tool.name == "ralph_implement":
                return text.replace(tool.instruction, OWN_TASK)
    return text
