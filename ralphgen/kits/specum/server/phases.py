"""The tools that hand out instructions: one for each phase."""

from __future__ import annotations

from .implementing import implement
from .phase_instructions import handed
from .state import PHASES, write_state
from .status import chosen, loaded, refuse_phase, tasks_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Specum

ATTEMPTS = 5  # at a task, where the caller does not say


def ralph_research(specum: Specum, arguments: dict[str, Any]) -> str:
    """What to do in the research phase (SPEC-002)."""
    return _phase(specum, arguments, "research")


def ralph_requirements(specum: Specum, arguments: dict[str, Any]) -> str:
    """What to do in the requirements phase (SPEC-002)."""
    return _phase(specum, arguments, "requirements")


def ralph_design(specum: Specum, arguments: dict[str, Any]) -> str:
    """What to do in the design phase (SPEC-002)."""
    return _phase(specum, arguments, "design")


def ralph_tasks(specum: Specum, arguments: dict[str, Any]) -> str:
    """What to do in the tasks phase (SPEC-002)."""
    return _phase(specum, arguments, "tasks")


def ralph_implement(specum: Specum, arguments: dict[str, Any]) -> str:
    """The next task (SPEC-002)."""
    return implement(specum, arguments.get("max_iterations", ATTEMPTS))


def _phase(specum: Specum, arguments: dict[str, Any], phase: str) -> str:
    name = chosen(specum, arguments.get("spec_name"))
    state = loaded(specum, name)
    if (phase, state.phase) == ("tasks", PHASES[-1]) and not tasks_of(specum, name):
        # Without tasks, execution cannot go on: they are made now, as ralph_implement says.
        state = state.changed(phase=phase)
        write_state(specum.specs, name, state)
    refuse_phase(specum, name, state.phase, phase)
    return handed(specum, name, phase)
