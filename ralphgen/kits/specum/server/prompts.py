"""The prompts with which a person starts a phase: each leads to the tool that knows the rest."""

from __future__ import annotations

from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.kit import Prompt

from .instructions import on_one_task
from .names import problem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

    from .workspace import Specum

PHASES = {
    "research": "Find out what is true about the goal of a spec.",
    "requirements": "Say what must hold when a spec is done.",
    "design": "Decide how a spec is built.",
    "tasks": "Cut a spec into small tasks.",
}
SPEC = {"spec_name": "The spec; the current one if left out."}
IMPLEMENT = (
    "Call ralph_implement, carry out the task that it hands out as it says, and call it again, "
    "until it answers ALL_TASKS_COMPLETE or says that a task is blocked."
)

OWN_TASK = (
    "Call ralph_implement, which hands out this session's task, carry it out as it says, and stop "
    "when it is done or blocked."
)


def prompts(session: Session, tools: Sequence[Tool]) -> list[Prompt]:
    """Return one prompt for each phase whose tool the session sees."""
    seen = {tool.name: tool.properties for tool in tools}
    found = [
        Prompt(
            phase,
            description,
            arguments=SPEC if "spec_name" in seen[f"ralph_{phase}"] else {},
            text=_leading(phase, completes="ralph_complete_phase" in seen),
        )
        for phase, description in PHASES.items()
        if f"ralph_{phase}" in seen
    ]
    if "ralph_implement" in seen:
        description, said = (
            "Carry out the tasks of the current spec, one after the other.",
            IMPLEMENT,
        )
        if on_one_task(session):
            description, said = "Carry out this session's task.", OWN_TASK
        found.append(
            Prompt("implement", description, arguments={}, text=lambda _specum, _given: said)
        )
    return found


def _leading(phase: str, *, completes: bool) -> Callable[[Specum, Mapping[str, str]], str]:
    def text(_specum: Specum, given: Mapping[str, str]) -> str:
        name = given.get("spec_name", "")
        if name and (problem := problem_of(name)):
            raise NotThereError(problem)
        of_spec = f' with spec_name "{name}"' if name else ""
        end = " When the file is written, record it as told there." if completes else ""
        return f"Call ralph_{phase}{of_spec} and do what it answers.{end}"

    return text
