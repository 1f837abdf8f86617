"""The kit `specum`: spec-driven workflow, from research to execution."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.kits.specum.server.specs import FILE, TASKS, Corrupt, State, parse_tasks, read_state
from ralphgen.kits.specum.server.store import Specs
from ralphgen.planning import (
    RECIPES,
    KitPlan,
    Names,
    PlannedTool,
    SkillPlan,
    Step,
    Workflow,
    choice,
    typed,
)
from ralphgen.planning.server import KitDefinition
from ralphgen.project.config import RelativePath
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.rendering import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files import path_within
from ralphgen.runtime.kit import DESTRUCTIVE, IDEMPOTENT, NON_DESTRUCTIVE, READ_ONLY

PLANNING: Names = ("braindump", "yap", "ramble", "enrichment")
"""The recipes whose sessions work specs out."""
EXECUTING = "task_execution"
CREATES = "ralph:create_task"  # importing tasks requires this tool
SPEC = typed("spec_name", "string", "Spec name (defaults to current spec)")
NAME = replace(
    typed("name", "string", "Spec name in kebab-case", pattern="^[a-z0-9-]+$"),
    refusal='invalid spec name {value} in "name": use a-z, 0-9 and hyphens, such as "export-csv"',
)
COMPLETED = "completed"
UNKNOWN = "unknown"
PHASES: Names = ("research", "requirements", "design", "tasks")


def _phase(phase: str, description: str, purpose: str) -> PlannedTool:
    """Return the tool that hands out what to do in a phase."""
    return PlannedTool(
        f"ralph_{phase}",
        module="phases",
        hints=IDEMPOTENT,
        description=description,
        arguments=(SPEC,),
        search_hint="spec-driven development, plan a feature",
        recipes=PLANNING,
        instruction="{tools}: follow that phase's instructions, write its file.",
        purpose=purpose,
        answer="the instructions for the phase, with the context of the spec so far",
    )


TOOLS = (
    PlannedTool(
        "ralph_start",
        module="workflow",
        hints=NON_DESTRUCTIVE,
        description="Start a spec, from a goal through research and design to tasks.",
        arguments=(
            NAME,
            typed("goal", "string", "Goal description for the spec"),
            typed(
                "quick",
                "boolean",
                "Skip interactive phases, generate artifacts directly",
                default=False,
            ),
        ),
        search_hint="spec-driven development, plan a feature, begin",
        recipes=PLANNING,
        instruction="ralph_start starts one from a goal.",
        purpose="start a spec, or restart one without state",
        answer="the name, directory and phase of the spec, and the next step",
        instead={"ralph_switch": "work on another existing spec"},
    ),
    PlannedTool(
        "ralph_status",
        module="workflow",
        hints=READ_ONLY,
        description="Show all specs with their phase and progress.",
        search_hint="specs, progress, phase",
        recipes=RECIPES,
        instruction="ralph_status shows each spec's progress.",
        purpose="list the specs and their progress",
        answer="the specs with their phase and progress, and which one is current",
    ),
    PlannedTool(
        "ralph_switch",
        module="workflow",
        hints=IDEMPOTENT,
        description="Switch to another spec.",
        arguments=(typed("name", "string", "Spec name to switch to", required=True),),
        recipes=PLANNING,
        instruction="ralph_switch switches to another spec.",
        purpose="make another spec the default for all calls",
        answer="the new current spec",
    ),
    PlannedTool(
        "ralph_cancel",
        module="workflow",
        hints=DESTRUCTIVE,
        description="Cancel a spec: delete its state, keep its files.",
        arguments=(
            SPEC,
            typed("delete_files", "boolean", "Delete spec directory entirely", default=False),
        ),
        recipes=PLANNING,
        reserved={"delete_files": ()},
        instruction="ralph_cancel cancels one.",
        purpose="abandon a spec at the user's request",
        answer="the removed and the kept files",
    ),
    PlannedTool(
        "ralph_complete_phase",
        module="workflow",
        hints=NON_DESTRUCTIVE,
        description="Complete the current phase of a spec and move to the next one.",
        arguments=(
            SPEC,
            choice("phase", PHASES, "Phase being completed", required=True),
            typed("summary", "string", "Brief summary of phase completion", required=True),
            typed(
                "import_tasks",
                "boolean",
                "With phase tasks: create a project task for each, once",
                needs=CREATES,
            ),
            typed("feature", "string", "With import_tasks: their feature", needs=CREATES),
            typed("discipline", "string", "With import_tasks: their discipline", needs=CREATES),
        ),
        recipes=(*PLANNING, EXECUTING),
        instruction="ralph_complete_phase ends a phase with a summary.",
        purpose="complete a phase after its file is written and approved",
        answer="the next phase and the tool to call",
    ),
    PlannedTool(
        "ralph_help",
        module="workflow",
        hints=READ_ONLY,
        description="Explain the spec-driven workflow and its tools.",
        recipes=RECIPES,
        instruction="ralph_help explains the workflow.",
        purpose="look up the workflow",
        answer="an explanation of the workflow and its tools",
    ),
    _phase(
        "research",
        "Get the instructions for the research phase of a spec.",
        "check feasibility before deciding anything",
    ),
    _phase(
        "requirements",
        "Get the instructions for the requirements phase of a spec.",
        "write down the requirements",
    ),
    _phase("design", "Get the instructions for the design phase of a spec.", "design the solution"),
    _phase(
        "tasks",
        "Get the instructions for planning the tasks of a spec.",
        "split the design into verifiable tasks",
    ),
    PlannedTool(
        "ralph_implement",
        module="phases",
        hints=NON_DESTRUCTIVE,
        description="Get the next open task of the current spec, with instructions.",
        arguments=(
            typed(
                "max_iterations",
                "integer",
                "Maximum task retries before blocking",
                default=5,
                minimum=1,
                maximum=100,
            ),
        ),
        search_hint="next task of the spec, execute",
        recipes=(EXECUTING,),
        loaded_first_in=(EXECUTING,),
        instruction=(
            "ralph_implement returns the next task: do it, tick its box, and call it again until "
            "it returns ALL_TASKS_COMPLETE."
        ),
        purpose="do the tasks of the current spec in order",
        answer="the next open task with instructions, or that all are complete",
    ),
)


def _phase_steps(tool: str, phase: str) -> tuple[Step, Step]:
    """Return the two calls of a phase: what to do, and that it is done."""
    return (
        Step(f"Get the instructions, do the work and write {phase}.md.", tool),
        Step(
            "After the user approves it, complete the phase with a summary.",
            "ralph_complete_phase",
            {"phase": phase, "summary": None},
        ),
    )


WORKFLOWS = (
    Workflow(
        "Take a goal from research to tasks",
        (
            Step("Start with a one-sentence goal.", "ralph_start", {"name": None, "goal": None}),
            *_phase_steps("ralph_research", "research"),
            *_phase_steps("ralph_requirements", "requirements"),
            *_phase_steps("ralph_design", "design"),
            *_phase_steps("ralph_tasks", "tasks"),
        ),
        needs=("ralph_start", "ralph_complete_phase"),
    ),
    Workflow(
        "Execute a spec",
        (
            Step("Get the next task.", "ralph_implement"),
            Step("Do the task, run its verification, and tick its box in tasks.md."),
            Step("Repeat until all tasks are complete.", "ralph_implement"),
        ),
        needs=("ralph_implement",),
    ),
    Workflow(
        "Resume earlier work",
        (
            Step("List the specs and their phases.", "ralph_status"),
            Step("Switch to the right one.", "ralph_switch", {"name": None}),
            Step("Continue its phase as above."),
        ),
        needs=("ralph_switch",),
    ),
)
SKILL = SkillPlan(
    name="specum-workflow",
    title="Spec-driven workflow",
    description=(
        "Guides spec-driven development: turns a goal into research, requirements, a design and "
        "tasks, then works through the tasks. Use when the user wants to plan a feature before "
        "building it, to start, continue or execute a spec, or to see its progress."
    ),
    overview={
        "The phases": (
            "| phase | content | file |\n|---|---|---|\n| research | current state, feasibility, "
            "risks | research.md |\n| requirements | user stories, acceptance criteria, "
            "exclusions | requirements.md |\n| design | parts, interfaces, decisions and their "
            "reasons | design.md |\n| tasks | small steps, each with files and a check | "
            "tasks.md |\n| execution | the tasks in order, each verified | boxes in tasks.md "
            "|\n\nThe files are in specs/, one directory per spec. A phase starts when the "
            "previous one is complete. Calls apply to the current spec unless they name another."
        )
    },
    workflows=WORKFLOWS,
)


class SpecumSettings(BaseModel):
    """`[specum]`: where `specs/` lies, relative to the project's folder, and what is asked.

    With `approval`, a person agrees to each phase before the next one begins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: RelativePath = Field(default="", description="Directory that contains specs/.")
    approval: bool = Field(default=False, description="Require your approval after each phase.")


PACKAGE = "ralphgen.kits.specum"
SERVER = KitPlan(
    key="specum",
    server_name="ralph-specum",
    title="Spec-driven workflow: research, requirements, design, tasks, execution.",
    nouns={
        "workflow": "Tools that act immediately.",
        "phases": "Tools that return the instructions for a phase.",
    },
    tools=TOOLS,
    server=f"{PACKAGE}.server",
    logs_refusals=True,
    prompts="workspace",
    skill=SKILL,
)


def plan_specum(project: ProjectFacts) -> KitPlan:
    """Return the server of the kit specum; its specs are read when they are asked for."""
    texts = package_texts(PACKAGE, "texts")
    return replace(
        SERVER,
        settings={name: project.setting(SERVER.key, name) for name in SpecumSettings.model_fields},
        assets={f"{SERVER.key}/{path}": text for path, text in texts.items()},
    )


def find_specs(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the specs of a project with their phases; unreadable specs are warnings."""
    place = path_within(str(root.resolve()), str(settings["root"]))
    if place is None:
        return Finding("", {}, warnings=(f'"root" in [{SERVER.key}] is outside the project',))
    specs = Specs(place, str(root))
    try:
        states = {name: read_state(specs, name) for name in specs.names()}
    except ToolError as error:
        return Finding("", {}, warnings=(str(error),))
    found: list[Mapping[str, Any]] = [
        {"spec": name, "phase": state.phase if isinstance(state, State) else None}
        for name, state in states.items()
    ]
    warnings = tuple(
        f"specs/{name}: {state.reason}"
        for name, state in states.items()
        if isinstance(state, Corrupt)
    )
    summary = f"{len(found)} spec{'' if len(found) == 1 else 's'}" if found else ""
    return Finding(summary, {"specs": found}, warnings)


SPECUM = KitDefinition(SERVER, plan_specum, SpecumSettings, find=find_specs)


@dataclass(frozen=True, slots=True)
class SpecProgress:
    """A spec: its `phase`, completed or unknown, and the number of its ticked tasks.

    `approval` is true if the user must approve the phase. `problem` explains why the spec cannot be
    read, or is empty.
    """

    name: str
    phase: str
    done: int
    total: int
    current: bool
    approval: bool
    problem: str


def spec_progress(root: Path, settings: Mapping[str, Any]) -> tuple[SpecProgress, ...]:
    """Return the specs of the project in `root` by name, given the kit's settings.

    Raises `ToolError` if their folder cannot be read.
    """
    specs = Specs(str(root / str(settings["root"])), str(root))
    current = specs.current()
    return tuple(_progress(specs, name, name == current) for name in specs.names())


def spec_files(root: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders that determine the progress of specs, if they are readable.

    They need not exist.
    """
    with suppress(OSError, ToolError):
        folder = Path(Specs(str(root / str(settings["root"])), str(root)).home)
        yield folder
        for entry in sorted(folder.iterdir()):
            yield from (entry, entry / FILE, entry / TASKS)


def _progress(specs: Specs, name: str, current: bool) -> SpecProgress:
    try:
        state = read_state(specs, name)
        tasks = parse_tasks((specs.read_bytes(name, TASKS) or b"").decode("utf-8", "replace"))
    except ToolError as error:
        return SpecProgress(name, UNKNOWN, 0, 0, current, False, str(error))
    done = sum(task.done for task in tasks)
    counted = (done, len(tasks), current)
    if isinstance(state, State):
        waits = state.fields.get("awaitingApproval") is True
        return SpecProgress(name, state.phase, *counted, waits, "")
    if state is not None:
        return SpecProgress(name, UNKNOWN, *counted, False, state.reason)
    phase = COMPLETED if tasks and done == len(tasks) else UNKNOWN
    problem = "" if phase == COMPLETED else "the spec has no state"
    return SpecProgress(name, phase, *counted, False, problem)
