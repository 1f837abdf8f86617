"""The tools that give instructions: for each phase, and for the next task of a spec."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError

from . import progress
from .importing import follow, is_own, link_of, own_task, still_open
from .phase_instructions import MOST, guidance, joined, phase_instructions
from .state import FILE, LAST_SERVED, PHASES, read_state, write_state
from .status import TASKS, TOOLS, chosen, loaded, refuse_phase, run_tool, short, tasks_of
from .store import FOLDER
from .task_list import first_open
from .workspace import RALPH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .importing import Link
    from .state import State
    from .task_list import TaskItem
    from .workspace import Specum

PROMPT = "spec-executor"
CLOSES = "set_task_status"  # of the kit that has the project's tasks
ENDED = "ALL_TASKS_COMPLETE"
MOST_ATTEMPTS = 100  # at a task, which nobody can raise
LONGEST = 10_000  # characters of a task
SHORTEST_FENCE, LONGEST_FENCE = 4, 80
ATTEMPTS = 5  # at a task, where the caller does not say


def ralph_research(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the research phase (SPEC-002)."""
    return _phase(specum, arguments, "research")


def ralph_requirements(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the requirements phase (SPEC-002)."""
    return _phase(specum, arguments, "requirements")


def ralph_design(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the design phase (SPEC-002)."""
    return _phase(specum, arguments, "design")


def ralph_tasks(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the tasks phase (SPEC-002)."""
    return _phase(specum, arguments, "tasks")


def ralph_implement(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return the first open task of the current spec with all it takes, or the end of execution.

    `max_iterations` is how often a task is served before it counts as blocked. Raises `ToolError`
    where that is reached, and where there are no tasks yet.
    """
    attempts = arguments.get("max_iterations", ATTEMPTS)
    own = own_task(specum)
    name = chosen(specum, own[0] if own else None)
    notes, links = follow(specum, name)
    items = tasks_of(specum, name)
    mine = _own(items, own) if items and own else None
    if items and all(item.done for item in items) and read_state(specum.specs, name) is None:
        return _ended(name, len(items), [*notes, *still_open(links)])
    state = loaded(specum, name)
    if state.phase != "tasks":
        refuse_phase(specum, name, state.phase, "execution")
    if not items:
        advice = run_tool(specum, "ralph_tasks", " first")
        raise ToolError(f"Tasks not generated. {advice}(`{FOLDER}/{name}/{TASKS}` has no task.)")
    current = mine or first_open(items)
    if current is None:
        specum.specs.remove(name, FILE)
        return _ended(name, len(items), [*notes, *still_open(links)])
    counted = {"taskIndex": items.index(current), "totalTasks": len(items)}
    state = state.changed(phase=PHASES[-1], awaitingApproval=False, **counted)
    state = _counted(specum, name, state, current, attempts)
    link = link_of(current, links)
    linked = [f"- **Project task**: {link.id}, {link.status}"] if link else []
    then = _then(specum, link, alone=own is not None)
    answer = _task_instructions(specum, name, state, current, [*linked, *notes], then)
    write_state(specum.specs, name, state)  # what cannot be answered is no attempt
    return answer


def _phase(specum: Specum, arguments: dict[str, Any], phase: str) -> str:
    name = chosen(specum, arguments.get("spec_name"))
    state = loaded(specum, name)
    if (phase, state.phase) == ("tasks", PHASES[-1]) and not tasks_of(specum, name):
        # Without tasks, execution cannot go on: they are made now, as ralph_implement says.
        state = state.changed(phase=phase)
        write_state(specum.specs, name, state)
    refuse_phase(specum, name, state.phase, phase)
    return phase_instructions(specum, name, phase)


def _own(items: Sequence[TaskItem], own: tuple[str, str, str]) -> TaskItem:
    """Return the task that the session is about; raises `ToolError` where nothing is left to do."""
    found = next((item for item in items if is_own(item, own)), None)
    if found is None:
        raise ToolError(
            f"Task {short(own[1])}, on which this session works, is no longer in `{TASKS}` of "
            f"'{own[0]}': do it as the project's task says"
        )
    if found.done:
        raise ToolError(f"Task {short(own[1])}, on which this session works, is ticked: close it")
    return found


def _counted(specum: Specum, name: str, state: State, item: TaskItem, attempts: int) -> State:
    """Return the state with one attempt more; raises `ToolError` where a task had them all."""
    again = state.last_served == item.key
    iteration = state.task_iteration + 1 if again else 1
    if iteration > attempts:
        larger = attempts < MOST_ATTEMPTS and specum.takes(TOOLS["execution"], "max_iterations")
        more = f", or call {TOOLS['execution']} with a larger max_iterations" * larger
        raise ToolError(
            f"Task {short(item.key)} blocked after {state.task_iteration} attempts. The "
            f"Learnings in `{FOLDER}/{name}/{progress.FILE}` tell why. Fix it by hand and tick "
            f"its box in `{TASKS}`{more}."
        )
    limit = max(state.max_global_iterations, state.total_tasks * attempts)  # a long plan can end
    if state.global_iteration > limit:
        raise ToolError(
            f"Task {short(item.key)} blocked: its spec had {state.global_iteration - 1} attempts, "
            f'and its limit is {limit}. Set "maxGlobalIterations" in `{FOLDER}/{name}/{FILE}` to '
            f"{state.global_iteration} or more by hand to go on."
        )
    return state.changed(
        taskIteration=iteration,
        maxTaskIterations=attempts,
        globalIteration=state.global_iteration + 1,
        **{LAST_SERVED: item.key},
    )


def _task_instructions(
    specum: Specum, name: str, state: State, item: TaskItem, notes: list[str], then: str
) -> str:
    """Return what an agent needs for a task; `then` is what to do when it is done."""
    folder = f"{FOLDER}/{name}"
    index, total = state.task_index, state.total_tasks
    head = (
        f'## execution phase for "{name}": task {index + 1} of {total}\n\n'
        "### Spec Information\n"
        f"- **Spec**: {name}\n"
        f"- **Path**: `{folder}/`\n"
        f"- **Task index**: {index} (from 0)\n"
        f"- **Attempt**: {state.task_iteration} of {state.max_task_iterations}\n"
        f"{_noted(notes)}\n"
        "### Current Task\n"
        f"{_fenced(item.block, f'{folder}/{TASKS}')}\n\n"
        "### Progress\n"
    )
    tail = (
        "\n\n### Agent Instructions\n"
        f"{guidance(specum, PROMPT)}\n\n"
        "### Completion Protocol\n"
        f"1. Verify, tick the box of {short(item.id)} in `{folder}/{TASKS}`, commit, and update "
        f"`{folder}/{progress.FILE}`.\n"
        "2. Print `TASK_COMPLETE`.\n"
        f"3. {then}\n\n"
        "### On Failure\n"
        f"Leave the box open, write what was tried and what failed under `## Learnings` in "
        f"`{folder}/{progress.FILE}`, and call `{TOOLS['execution']}` again."
    )
    parts = [(progress.FILE, (specum.specs.read(name, progress.FILE) or "(missing)").strip())]
    return head + joined(parts, folder, MOST - len(head) - len(tail)) + tail


def _then(specum: Specum, link: Link | None, *, alone: bool) -> str:
    """Return what comes after a task; `alone` says that the session works on this task only."""
    closes = link is not None and specum.session.grants(RALPH, CLOSES)
    task = f"Set the project's task {link.id} to done with `{CLOSES}`" if link and closes else ""
    if alone:
        close = task or "Leave the project's own task to whoever closes it"
        return f"{close}, and stop: this session works on no other one."
    call = f"all `{TOOLS['execution']}` for the next task."
    return f"{task}, then c{call}" if task else f"C{call}"


def _ended(name: str, total: int, notes: list[str]) -> str:
    return (
        f'## Spec "{name}" is complete\n\nAll {total} tasks are ticked.\n{_noted(notes)}\n{ENDED}\n'
    )


def _noted(notes: list[str]) -> str:
    """Return further notes, each on a line of its own."""
    return "".join(f"{note}\n" for note in notes)


def _fenced(block: str, path: str) -> str:
    """Return a task in a fence that nothing in it ends; of a very long one the beginning."""
    shown = block[:LONGEST]
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * min(max(longest + 1, SHORTEST_FENCE), LONGEST_FENCE)
    cut = f"\n\n[cut here: read the rest in `{path}`]" if len(block) > LONGEST else ""
    return f"{fence}markdown\n{shown}\n{fence}{cut}"
