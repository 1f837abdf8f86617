"""Tools on the stages of a project: what a stage asks for, and how to review it and leave it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

STAGES = {
    "discover": "ACM-DISCOVER-SPEC.md",
    "design": "ACM-DESIGN-SPEC.md",
    "develop": "ACM-DEVELOP-SPEC.md",
}
REVIEWS = {
    "discover": {
        "internal": "prompts/ralph-review-prompt.md",
        "external": "prompts/external-review-prompt.md",
    },
    "design": {
        "internal": "prompts/design-ralph-review-prompt.md",
        "external": "prompts/design-external-review-prompt.md",
    },
    "develop": {
        "internal": "prompts/develop-ralph-review-prompt.md",
        "external": "prompts/develop-external-review-prompt.md",
    },
}
TRANSITIONS = {
    "discover_to_design": "prompts/start-design-prompt.md",
    "design_to_develop": "prompts/start-develop-prompt.md",
}


def get_stage(acm: Acm, arguments: dict[str, Any]) -> str:
    """The spec of a stage, as it is on the disk now."""
    return acm.handed(STAGES[arguments["stage"]], "stage spec")


def get_review_prompt(acm: Acm, arguments: dict[str, Any]) -> str:
    """The prompt for a review of a stage."""
    name = REVIEWS[arguments["stage"]][arguments["phase"]]
    return acm.handed(name, "review prompt")


def get_transition_prompt(acm: Acm, arguments: dict[str, Any]) -> str:
    """The prompt for a step to the next stage, with `validate` behind what stands in its way."""
    transition = arguments["transition"]
    name = TRANSITIONS[transition]
    if not arguments.get("validate"):
        return acm.handed(name, "transition prompt")
    from .documents import MOST, fitted
    from .transition import validation

    prompt = acm.text(name, "transition prompt")
    project = acm.project_folder(arguments.get("project_path"))
    summary = f"{validation(project, transition)}\n\n---\n\n"
    return summary + fitted(prompt, name, MOST - len(summary))
