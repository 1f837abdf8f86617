"""Tools on artifacts: their specifications, and stubs to begin with."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

SPECS = {
    "brief": "ACM-BRIEF-SPEC.md",
    "intent": "ACM-INTENT-SPEC.md",
    "status": "ACM-STATUS-SPEC.md",
    "readme": "ACM-README-SPEC.md",
    "context": "ACM-CONTEXT-ARTIFACT-SPEC.md",
    "rules": "ACM-RULES-SPEC.md",
    "design": "ACM-DESIGN-SPEC.md",
    "backlog": "ACM-BACKLOG-SPEC.md",
    "folder_structure": "ACM-FOLDER-STRUCTURE-SPEC.md",
    "project_types": "ACM-PROJECT-TYPES-SPEC.md",
    "stages": "ACM-STAGES-SPEC.md",
    "review": "ACM-REVIEW-SPEC.md",
}
STUBS = {
    "brief": "stubs/brief.md",
    "intent": "stubs/intent.md",
    "status": "stubs/status.md",
    "rules_constraints": "stubs/rules-constraints.md",
}
BY_TYPE = "claude_md"  # the stub that differs by project type


def get_artifact_spec(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the spec of an artifact, read from the disk."""
    return acm.document_answer(SPECS[arguments["artifact"]], "artifact spec")


def get_artifact_stub(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the stub of an artifact; that of CLAUDE.md depends on the project type."""
    artifact = arguments["artifact"]
    project_type = arguments.get("project_type", "app")
    name = f"stubs/claude-md/{project_type}.md" if artifact == BY_TYPE else STUBS[artifact]
    return acm.document_answer(name, "stub")
