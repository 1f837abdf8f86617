"""What a session is told about running the project's own tasks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

WAITING = "wait_for_exit_seconds"
# What is said of each tool that is there, in the order in which they are used.
SAID = {
    "list_tasks": "list_tasks shows what the project can run: make targets, scripts, and so on.",
    "task_start": (
        "task_start runs one by its unique_name and waits a second for its end{longer}; what runs "
        "longer goes on in the background."
    ),
    "task_output": "task_output reads what it printed, by pid.",
    "status": "status lists what runs.",
    "task_status": "task_status tells how a task ended.",
    "task_stop": "task_stop ends one with everything that it started.",
}
ON_ALLOWING = (
    "Only tasks that a person has allowed can be started; do not look for a way around: ask for "
    '"ralphgen allow NAME".'
)


def instructions(_session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    seen = {tool.name: tool for tool in tools}
    waits = "task_start" in seen and WAITING in seen["task_start"].properties
    longer = f" ({WAITING}: up to 300)" if waits else ""
    lines = ["The project's own tasks."]
    if not seen:
        return f"{lines[0]} This session has no tools here."
    lines += [text.format(longer=longer) for name, text in SAID.items() if name in seen]
    return "\n".join([*lines, ON_ALLOWING] if "task_start" in seen else lines)
