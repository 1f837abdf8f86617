"""Lists the documents of the kit acm: those that `init` writes, and those that there are now."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.kits.acm.server.artifacts import SPECS, STUBS
from ralphgen.kits.acm.server.capabilities import InventoryError, inventory
from ralphgen.kits.acm.server.orchestration import REVIEWS, STAGES, TRANSITIONS
from ralphgen.kits.acm.server.project import LEVELS, RULES
from ralphgen.kits.acm.server.workspace import (
    DOCUMENTS,
    REGISTRY,
    find_root,
    lies_elsewhere,
    trouble,
)
from ralphgen.project.kit import Finding
from ralphgen.rendering.texts import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.suggestion import counted

PLACE = ".ralph/acm/"
ITS_REGISTRY = "registry/"
PROJECT_TYPES = ("app", "workflow", "artifact")
# Every document that a tool hands out, by its place below the root.
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


class CorpusFiles(Mapping[str, str]):
    """By path below the project's folder, the text of each document.

    What the machine has elsewhere, where it would be found first, is left out: nobody would ever
    read the copy.
    """

    def __getitem__(self, path: str) -> str:
        """Return the text of a document."""
        return self._files()[path]

    def __iter__(self) -> Iterator[str]:
        """Return the paths of the documents, sorted."""
        return iter(self._files())

    def __len__(self) -> int:
        """Return how many documents there are to write."""
        return len(self._files())

    def _files(self) -> dict[str, str]:
        documents, registry = lies_elsewhere(DOCUMENTS), lies_elsewhere(REGISTRY)
        return {
            PLACE + name: text
            for name, text in corpus().items()
            if not (registry if name.startswith(ITS_REGISTRY) else documents)
        }


def corpus() -> Mapping[str, str]:
    """Return every document by its path below their root, sorted."""
    return package_texts("ralphgen.kits.acm", "corpus")


def find_documents(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the documents and capabilities for a project; what is missing is a warning."""
    try:
        folder = find_root(DOCUMENTS, str(root), settings)
    except ToolError:
        return Finding("", {})
    wrong = {name: why for name in NAMES if (why := trouble(folder, name))}
    found: list[Mapping[str, Any]] = [{"document": name} for name in NAMES if name not in wrong]
    names, warnings = _capabilities(root, settings)
    many = f"{len(names)} {'capability' if len(names) == 1 else 'capabilities'}"
    summary = f"{counted(len(found), 'document')}, {many}" if found else ""
    return Finding(
        summary,
        {"documents": found, "capabilities": [{"name": name} for name in names]},
        warnings=(*(f"{name} {why}" for name, why in wrong.items()), *warnings),
    )


def _capabilities(root: Path, settings: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """Return the names in the registry, and what is wrong with it."""
    try:
        known, _ = inventory(find_root(REGISTRY, str(root), settings))
    except ToolError:
        return [], ()
    except InventoryError as error:
        return [], (f"the inventory of the capabilities registry {error}",)
    return [capability.name for capability in known], ()
