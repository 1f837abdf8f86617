"""What the kit specum would serve: the specs that the project has now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.kits.specum.server.state import Corrupt, State, read_state
from ralphgen.kits.specum.server.store import Specs
from ralphgen.project.kit import Finding
from ralphgen.runtime.errors import ToolError


def find_specs(root: Path, settings: Mapping[str, Any]) -> Finding:
    """The specs of a project with their phases; what cannot be read is a warning."""
    specs = Specs(str(root / str(settings["root"])))
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
