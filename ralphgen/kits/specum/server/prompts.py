"""Prompts for the user to start a phase: each leads to the tool with the instructions."""

from __future__ import annotations

from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.kit import Prompt

from .store import problem_of
from .workspace import on_one_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ralphgen.runtime.kit import Tool
    from ralphgen.runtime.session import Session

    from .workspace import Specum

PHASES = {
    "research": "Research the goal of a spec.",
    "requirements": "Write the requirements of a spec.",
    "design": "Design the solution of a spec.",
    "tasks": "Split a spec into small tasks.",
}
SPEC = {"spec_name": "Spec name (defaults to the current spec)."}
IMPLEMENT = (
    "Call ralph_implement, do the task it returns as instructed, and call it again until it "
    "returns ALL_TASKS_COMPLETE or reports a blocked task."
)

OWN_TASK = (
    "Call ralph_implement to get this session's task, do it as instructed, and stop when it is "
    "done or blocked."
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
        description, said = ("Do the tasks of the current spec in order.", IMPLEMENT)
        if on_one_task(session):
            description, said = "Do this session's task.", OWN_TASK
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
        end = " Then record the finished phase as described there." if completes else ""
        return f"Call ralph_{phase}{of_spec} and follow its instructions.{end}"

    return text
