"""The kit `specum`: its settings, the same eleven tools for every project, and the specs there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.kits.specum.server.specs import Corrupt, State, read_state
from ralphgen.kits.specum.server.store import Specs
from ralphgen.kits.specum.tools import TOOLS
from ralphgen.planning.model import KitPlan, SkillPlan, Step, Workflow
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.project.settings import RelativePath
from ralphgen.rendering.texts import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files import path_within


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
    prompts=True,
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
