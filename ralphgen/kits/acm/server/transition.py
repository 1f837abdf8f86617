"""Checks whether a project may go on to its next stage, from its status and its brief."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from .documents import brief as on_one_line
from .front_matter import VALID, FrontMatter, read_front_matter
from .paths import UnreadableError, names_in, read_text, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STATUSES = ("status.md", "docs/status.md")
BRIEF = "docs/brief.md"
INBOX = "docs/inbox"
UNFINISHED = ("draft", "in-review")
NOT_SET = "not set"
SHOWN = 200  # characters of a value
LISTED = 10  # further briefs


def validation(project: str, transition: str) -> str:
    """The summary of what a transition asks of the project in a folder, and whether it is so.

    Raises `ToolError` where there is no status or no brief to look at.
    """
    before, _, after = transition.partition("_to_")
    file, status = _status(project)
    briefs = _briefs(project)
    brief = read_front_matter(_text(project, briefs[0]))
    issues = _issues(before, after, (file, status), (briefs[0], brief))
    lines = [
        "## Transition Validation",
        "",
        f"Transition: {before} → {after}",
        f"Status file: {file}",
        *(f"{key.capitalize()}: {_shown(status, key)}" for key in ("stage", "phase", "status")),
        f"Brief: {on_one_line(briefs[0], SHOWN)} (status: {_shown(brief, 'status')})",
        *_others(briefs[1:]),
    ]
    if not issues:
        return "\n".join([*lines, "✓ Prerequisites met"])
    return "\n".join([*lines, "✗ Prerequisites not met:", *(f"- {issue}" for issue in issues)])


def status_file(project: str) -> str:
    """Where a project has its status: in its root, else in docs."""
    return next((name for name in STATUSES if trouble(project, name) == ""), STATUSES[0])


def _issues(
    before: str, after: str, status: tuple[str, FrontMatter], brief: tuple[str, FrontMatter]
) -> list[str]:
    """One sentence for each prerequisite that is not met."""
    issues = []
    name, found = status
    if found.text("stage").casefold() != before:
        shown = _shown(found, "stage")
        why = "" if found.state == VALID else f" ({name} has {found.state})"
        issues.append(f'stage is {shown}, expected "{before}"{why}')
    name, found = brief
    state = found.text("status")
    words = "-".join(state.casefold().replace("_", " ").replace("-", " ").split())
    if after == "design" and words in UNFINISHED:
        issues.append(
            f"{on_one_line(name, SHOWN)} has the status {on_one_line(state, SHOWN)}: "
            "finish its review first"
        )
    return issues


def _status(project: str) -> tuple[str, FrontMatter]:
    name = status_file(project)
    try:
        return name, read_front_matter(read_text(project, name))
    except UnreadableError as error:
        if error.missing:
            raise ToolError(
                "cannot validate: the project has no status.md, neither in its root nor in docs/; "
                'write one with a "stage", or call without validate for the prompt alone'
            ) from error
        raise _cannot(name, error) from error


def _briefs(project: str) -> list[str]:
    """The brief, else those in the inbox by name; raises `ToolError` where there is none."""
    problem = trouble(project, BRIEF)
    if not problem:
        return [BRIEF]
    if not UnreadableError(problem).missing:
        raise _cannot(BRIEF, UnreadableError(problem))
    try:
        names = names_in(project, INBOX)
    except UnreadableError as error:
        if not error.missing:
            raise _cannot(INBOX, error) from error
        names = []
    found = [f"{INBOX}/{name}" for name in names if _is_brief(name)]
    usable = [path for path in found if not trouble(project, path)]
    if not usable:
        raise ToolError(
            f"cannot validate: there is neither {BRIEF} nor {INBOX}/*-brief.md that can be read; "
            "write the brief first, or call without validate for the prompt alone"
        )
    return usable


def _is_brief(name: str) -> bool:
    return name.endswith("-brief.md") and not name.startswith(".")


def _text(project: str, name: str) -> str:
    try:
        return read_text(project, name)
    except UnreadableError as error:
        raise _cannot(name, error) from error


def _cannot(name: str, error: UnreadableError) -> ToolError:
    shown = on_one_line(name, SHOWN)
    return ToolError(f'cannot validate: "{shown}" {error.why}; mend that, then call again')


def _others(names: Sequence[str]) -> list[str]:
    """The line on the briefs that were not looked at."""
    if not names:
        return []
    listed = ", ".join(on_one_line(name, SHOWN) for name in names[:LISTED])
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return [f"Other briefs, not looked at: {listed}{more}"]


def _shown(found: FrontMatter, key: str) -> str:
    """A value of the front matter, in words."""
    if key in found.values and not isinstance(found.values[key], str):
        return "not a text"
    return on_one_line(found.text(key), SHOWN) or NOT_SET
