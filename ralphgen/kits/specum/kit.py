"""The kit `specum`: its settings, the same eleven tools for every project, and the specs there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.kits.specum.server.specs import Corrupt, State, read_state
from ralphgen.kits.specum.server.store import Specs
from ralphgen.kits.specum.skill import SKILL
from ralphgen.kits.specum.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.planning.server import KitDefinition
from ralphgen.project.kit import Finding
from ralphgen.project.model import Project
from ralphgen.project.settings import RelativePath
from ralphgen.rendering.texts import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files import path_within


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


def plan_specum(project: Project) -> KitPlan:
    """Return the server of the kit specum; its specs are read when they are asked for."""
    texts = package_texts(PACKAGE, "texts")
    return replace(
        SERVER,
        settings={name: project.setting(SERVER.key, name) for name in SpecumSettings.model_fields},
        assets={f"{SERVER.key}/{path}": text for path, text in texts.items()},
    )


def find_specs(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the specs of a project with their phases; what cannot be read is a warning."""
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
