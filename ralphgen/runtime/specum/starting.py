"""Starts a spec, or starts one again in its place."""

from __future__ import annotations

from ..errors import ToolError
from . import progress
from .names import free_name, name_from_goal, problem_of
from .standing import TOOLS, described, echoed, reached, run_tool
from .state import PHASES, Corrupt, State, new_state, read_state, set_aside, write_state
from .store import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Specum

NO_GOAL = (
    "Ask the user what this spec is to achieve, and write it under `## Original Goal` in "
    "`{folder}/.progress.md` before you go on."
)
QUICK = """\
### Quick mode

Write the four artifacts yourself, briefly, one after the other, without asking anything; one that
is there already stays:

1. `{folder}/research.md`: what is true about the goal, and the project's quality commands.
2. `{folder}/requirements.md`: user stories with testable acceptance criteria.
3. `{folder}/design.md`: components, files to create or change, tests.
4. `{folder}/tasks.md`: {tasks}.

Each begins with front matter that holds `generated: auto`. If the goal is to fix something, first
reproduce the failure, and record command and output in `.progress.md` under
`## Reality Check (BEFORE)`.
"""


def start(specum: Specum, arguments: dict[str, Any]) -> str:
    """Make a spec, make it the current one, and say what comes next."""
    goal = arguments.get("goal", "").strip()
    quick = arguments.get("quick", False)
    if quick and not goal:
        raise ToolError("Quick mode requires a goal")
    named = arguments.get("name")
    if named is None and not goal:
        return _asking(specum)
    name, again = _name(specum, named, goal)
    state = _begun(specum, name, goal, quick=quick, again=again)
    warnings = _settled(specum, name)
    return _answer(specum, state, goal, quick=quick, again=again, warnings=warnings)


def _name(specum: Specum, named: str | None, goal: str) -> tuple[str, bool]:
    """The name of the spec, and whether it is one that is there and has no usable state."""
    specs = specum.specs
    if named is None:
        derived = name_from_goal(goal)
        if not derived:
            more = ": give a name in kebab-case" if specum.takes("ralph_start", "name") else ""
            raise ToolError(f"No name can be made of this goal{more}")
        return free_name(derived, specs.taken()), False
    problem = problem_of(named)
    if problem:
        raise ToolError(problem)
    if specs.exists(named) and not isinstance(read_state(specs, named), State):
        return named, True
    return free_name(named, specs.taken()), False


def _begun(specum: Specum, name: str, goal: str, *, quick: bool, again: bool) -> State:
    """Write the state and the progress file of a spec; what is there of it is kept."""
    specs = specum.specs
    state = new_state(name, quick=quick)
    template = specum.text("templates", "progress")  # before anything is made: it may be refused
    specs.create(name)
    if again:
        if isinstance(read_state(specs, name), Corrupt):
            set_aside(specs, name)
        state = state.changed(phase=_going_on(reached(specum, name), quick=quick))
    recorded = specs.read(name, progress.FILE)
    if recorded is None:
        specs.write(name, progress.FILE, progress.new_progress(template, goal))
    elif goal and progress.goal_of(recorded) is None:
        specs.edit(name, progress.FILE, lambda text: progress.with_goal(text, goal))
    write_state(specs, name, state)
    return state


def _going_on(phase: str, *, quick: bool) -> str:
    """Where a spec begins again whose files have come to a phase."""
    return "tasks" if quick and phase != PHASES[-1] else phase


def _settled(specum: Specum, name: str) -> list[str]:
    """Point at the spec and keep git from it; what of that fails is a warning."""
    warnings: list[str] = []
    try:
        specum.specs.set_current(name)
    except ToolError as error:
        warnings.append(f"it is not the current spec: {error}")
    try:
        specum.specs.ensure_ignored()
    except ToolError as error:
        warnings.append(str(error))
    return warnings


def _answer(
    specum: Specum, state: State, goal: str, *, quick: bool, again: bool, warnings: list[str]
) -> str:
    name = str(state.fields["name"])
    folder = f"{FOLDER}/{name}"
    recorded = progress.goal_of(specum.specs.read(name, progress.FILE) or "")
    lines = [
        f'## Spec "{name}" {"started again" if again else "started"}',
        "",
        f"- **Goal**: {echoed(recorded or 'none yet')}",
        f"- **Phase**: {state.phase}",
        f"- **Quick mode**: {'yes' if quick else 'no'}",
        f"- **Files**: `{folder}/.progress.md`, `{folder}/.ralph-state.json`",
        *(f"- **Warning**: {warning}" for warning in warnings),
        "",
    ]
    if recorded is None:
        lines += [NO_GOAL.format(folder=folder), ""]
    if goal and recorded and goal != recorded:
        lines += ["The goal that was recorded is kept.", ""]
    if quick and state.phase == "tasks":
        by_tool = specum.sees("ralph_tasks")
        tasks = "as `ralph_tasks` tells you" if by_tool else "small tasks, each with its check"
        lines += [QUICK.format(folder=folder, tasks=tasks), _then(specum)]
    else:
        lines.append(run_tool(specum, TOOLS[state.phase]).strip())
    return "\n".join(lines).rstrip() + "\n"


def _then(specum: Specum) -> str:
    steps = [
        text
        for tool, text in (
            (
                "ralph_complete_phase",
                'call `ralph_complete_phase` with phase "tasks" and a summary',
            ),
            ("ralph_implement", "call `ralph_implement` for the first task"),
        )
        if specum.sees(tool)
    ]
    return f"Then {', then '.join(steps)}." if steps else ""


def _asking(specum: Specum) -> str:
    """What is said where neither a name nor a goal is given; nothing is made."""
    how = "the goal" if specum.takes("ralph_start", "goal") else "a name"
    text = f"Ask the user what the new spec is to achieve, then call `ralph_start` with {how}.\n"
    current = specum.specs.current()
    if current is None or not specum.specs.exists(current):
        return text
    phase, _ = described(specum, current)
    following = (
        f": run {TOOLS[phase]} to go on with it" if specum.sees(TOOLS.get(phase, "")) else ""
    )
    return f'{text}\nThe current spec is "{current}", in the phase {phase}{following}.\n'
