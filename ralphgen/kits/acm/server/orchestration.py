"""Tools on the stages of a project: their specifications, reviews and transitions."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from .front_matter import VALID, FrontMatter, read_front_matter
from .workspace import MOST, UnreadableDocumentError, brief, fitted, names_in, read_text, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
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
STATUSES = ("status.md", "docs/status.md")
BRIEF = "docs/brief.md"
INBOX = "docs/inbox"
DESIGN = "docs/design.md"
APPROVED = "approved"
UNCHECKED = "phase, review results and the other exit criteria of the stage"
SHOWN = 200  # characters of a value
LISTED = 10  # further briefs


def get_stage(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the spec of a stage, read from the disk."""
    return acm.document_answer(STAGES[arguments["stage"]], "stage spec")


def get_review_prompt(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the prompt for a review of a stage."""
    name = REVIEWS[arguments["stage"]][arguments["phase"]]
    return acm.document_answer(name, "review prompt")


def get_transition_prompt(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the prompt for a step to the next stage; with `validate`, first the unmet gates."""
    transition = arguments["transition"]
    name = TRANSITIONS[transition]
    if not arguments.get("validate"):
        return acm.document_answer(name, "transition prompt")
    prompt = acm.document(name, "transition prompt")
    project = acm.project_folder(arguments.get("project_path"))
    summary = f"{validation(project, transition)}\n\n---\n\n"
    return summary + fitted(prompt, name, MOST - len(summary))


def validation(project: str, transition: str) -> str:
    """Return the met, unmet and unchecked gates of a transition of a project.

    Raises `ToolError` if there is no status file or no brief.
    """
    before, _, after = transition.partition("_to_")
    file = status_file(project)
    try:
        status = read_front_matter(read_text(project, file))
    except UnreadableDocumentError as error:
        if not error.is_absent:
            raise _cannot_validate(file, error) from error
        raise ToolError(
            "cannot validate: no status.md in the project root or in docs/; create one with a "
            '"stage", or omit "validate" to get only the prompt'
        ) from error
    briefs = _briefs(project)
    try:
        found = read_front_matter(read_text(project, briefs[0]))
    except UnreadableDocumentError as error:
        raise _cannot_validate(briefs[0], error) from error
    issues = []
    if status.text("stage").casefold() != before:
        why = "" if status.state == VALID else f" ({file} has {status.state})"
        issues.append(f'- stage is {_front_matter_text(status, "stage")}, expected "{before}"{why}')
    gates = [f"stage in {file}"]
    if after == "design":
        gates.append(f"status of {brief(briefs[0], SHOWN)}")
        if found.text("status").casefold() != APPROVED:
            issues.append(
                f"- status of {brief(briefs[0], SHOWN)} is {_front_matter_text(found, 'status')}, "
                f'expected "{APPROVED}"'
            )
    else:
        gates.append(DESIGN)
        if problem := trouble(project, DESIGN):
            issues.append(f"- {DESIGN} {problem}")
    lines = [
        "## Transition Validation",
        "",
        f"Transition: {before} → {after}",
        f"Status file: {file}",
        *(
            f"{key.capitalize()}: {_front_matter_text(status, key)}"
            for key in ("stage", "phase", "status")
        ),
        f"Brief: {brief(briefs[0], SHOWN)} (status: {_front_matter_text(found, 'status')})",
        *_others(briefs[1:]),
        *(["✗ Prerequisites not met:", *issues] if issues else ["✓ Prerequisites met"]),
        f"Checked: {', '.join(gates)}",
        f"Not checked: {UNCHECKED}",
    ]
    return "\n".join(lines)


def status_file(project: str) -> str:
    """Return the path of a project's status file: in its root, else in docs."""
    return next((name for name in STATUSES if trouble(project, name) == ""), STATUSES[0])


def _briefs(project: str) -> list[str]:
    """Return the brief, else the sorted briefs in the inbox; raises `ToolError` for none."""
    problem = trouble(project, BRIEF)
    if not problem:
        return [BRIEF]
    if not UnreadableDocumentError(problem).is_absent:
        raise _cannot_validate(BRIEF, UnreadableDocumentError(problem))
    try:
        names = names_in(project, INBOX)
    except UnreadableDocumentError as error:
        if not error.is_absent:
            raise _cannot_validate(INBOX, error) from error
        names = []
    briefs = [name for name in names if name.endswith("-brief.md") and not name.startswith(".")]
    paths = [f"{INBOX}/{name}" for name in briefs]
    usable = [path for path in paths if not trouble(project, path)]
    if not usable:
        raise ToolError(
            f"cannot validate: no readable {BRIEF} or {INBOX}/*-brief.md; write the brief first, "
            'or omit "validate" to get only the prompt'
        )
    return usable


def _cannot_validate(name: str, error: UnreadableDocumentError) -> ToolError:
    shown = brief(name, SHOWN)
    return ToolError(f'cannot validate: "{shown}" {error.why}; fix it, then call again')


def _others(names: Sequence[str]) -> list[str]:
    """Return the line on the briefs that were not looked at, if there are any."""
    if not names:
        return []
    listed = ", ".join(brief(name, SHOWN) for name in names[:LISTED])
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return [f"Other briefs, not checked: {listed}{more}"]


def _front_matter_text(found: FrontMatter, key: str) -> str:
    """Return a value of the front matter in words."""
    if key in found.values and not isinstance(found.values[key], str):
        return "not a string"
    return brief(found.text(key), SHOWN) or "not set"
