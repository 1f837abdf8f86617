"""What the kit acm would serve: the documents that there are now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.kits.acm.server.artifacts import SPECS, STUBS
from ralphgen.kits.acm.server.capabilities import InventoryError, inventory
from ralphgen.kits.acm.server.documents import trouble
from ralphgen.kits.acm.server.governance import LEVELS, RULES
from ralphgen.kits.acm.server.orchestration import REVIEWS, STAGES, TRANSITIONS
from ralphgen.kits.acm.server.workspace import DOCUMENTS, REGISTRY, find_root
from ralphgen.project.kit import Finding
from ralphgen.runtime.errors import ToolError

PROJECT_TYPES = ("app", "workflow", "artifact")
NAMES = tuple(
    sorted(
        {
            *STAGES.values(),
            *(name for phases in REVIEWS.values() for name in phases.values()),
            *TRANSITIONS.values(),
            *SPECS.values(),
            *STUBS.values(),
            *(f"stubs/claude-md/{kind}.md" for kind in PROJECT_TYPES),
            *LEVELS.values(),
            RULES,
        }
    )
)
"""Every document that a tool hands out, by its place below the root."""


def find_documents(root: Path, settings: Mapping[str, Any]) -> Finding:
    """The documents and capabilities for a project; what is missing of them is a warning."""
    try:
        folder = find_root(DOCUMENTS, str(root), settings)
    except ToolError:
        return Finding("", {})
    wrong = {name: why for name in NAMES if (why := trouble(folder, name))}
    found: list[Mapping[str, Any]] = [{"document": name} for name in NAMES if name not in wrong]
    names, warnings = _capabilities(root, settings)
    summary = f"{len(found)} documents, {len(names)} capabilities" if found else ""
    return Finding(
        summary,
        {"documents": found, "capabilities": [{"name": name} for name in names]},
        warnings=(*(f"{name} {why}" for name, why in wrong.items()), *warnings),
    )


def _capabilities(root: Path, settings: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """The names in the registry, and what is wrong with it."""
    try:
        known, _ = inventory(find_root(REGISTRY, str(root), settings))
    except ToolError:
        return [], ()
    except InventoryError as error:
        return [], (f"the inventory of the capabilities registry {error}",)
    return [capability.name for capability in known], ()
