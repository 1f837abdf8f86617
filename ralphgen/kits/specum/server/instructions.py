"""The instructions of the server: what each of its tools is for."""

from __future__ import annotations

from .workspace import RALPH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

PHASE_TOOLS = ("ralph_research", "ralph_requirements", "ralph_design", "ralph_tasks")
# What is said of each tool that is there, in the order in which they are used.
SAID = {
    "ralph_start": "ralph_start begins one with a goal.",
    **dict.fromkeys(PHASE_TOOLS, "{named}: what to do in that phase; do it, and write its file."),
    "ralph_complete_phase": "ralph_complete_phase ends a phase with a summary.",
    "ralph_implement": (
        "ralph_implement hands out the next task: do it, tick its box, and call it again until it "
        "answers ALL_TASKS_COMPLETE."
    ),
    "ralph_status": "ralph_status shows how the specs stand.",
    "ralph_switch": "ralph_switch makes another one the current spec.",
    "ralph_cancel": "ralph_cancel ends one early.",
    "ralph_help": "ralph_help explains the workflow.",
}

OWN_TASK = "ralph_implement hands out this session's task: do it, tick its box, and stop."


def on_one_task(session: Session) -> bool:
    """Return whether the session is about one task of the project, and gets no other one."""
    return session.task is not None and RALPH in session.kits


def instructions(session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    seen = {tool.name for tool in tools}
    first = "Specs of the project, in specs/: research, requirements, design, tasks, execution."
    if not seen:
        return f"{first} This session has no tools here."
    named = ", ".join(name for name in PHASE_TOOLS if name in seen)
    texts = {**SAID, "ralph_implement": OWN_TASK} if on_one_task(session) else SAID
    said = dict.fromkeys(text for name, text in texts.items() if name in seen)
    return "\n".join([first, *(text.format(named=named) for text in said)])
