"""Tools on what governs a project: its rules and its CLAUDE.md files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

RULES = "ACM-RULES-SPEC.md"
LEVELS = {
    "global": "ACM-GLOBAL-CLAUDE-MD-SPEC.md",
    "project": "ACM-PROJECT-CLAUDE-MD-SPEC.md",
}


def get_rules_spec(acm: Acm, _arguments: dict[str, Any]) -> str:
    """Return the spec of a project's rules."""
    return acm.document_answer(RULES, "rules spec")


def get_context_spec(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the spec of CLAUDE.md for a person or for a project."""
    return acm.document_answer(LEVELS[arguments["level"]], "context spec")
