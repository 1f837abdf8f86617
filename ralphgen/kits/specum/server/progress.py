"""Writes the goal and the summaries of phases into a spec's progress file."""

from __future__ import annotations

import re

from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.markdown import MARK, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = ".progress.md"
PLACE = "{{goal}}"  # where a template takes the goal
NO_GOAL = "_No goal is recorded yet: ask the user for it, and write it here._"

_SECTION = "## Original Goal"
_GOAL = re.compile(r"^#{1,6}[ \t]+(?:Original )?Goal[ \t#]*$", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}(?:[ \t].*)?$", re.MULTILINE)
_LEARNINGS = re.compile(r"## Learnings[ \t]*")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
# What a template says of the research phase, with which a spec need not begin.
_PHASE = re.compile(r"^(- \*\*Phase\*\*:) research[ \t]*$", re.MULTILINE)
_OBJECTIVE = re.compile(
    r"^(- \*\*Objective\*\*:) find out what is true about the goal[ \t]*$", re.MULTILINE
)
_STEP = re.compile(r"^- Write research\.md[ \t]*$", re.MULTILINE)
_OBJECTIVES = {
    "requirements": "say what must hold",
    "design": "decide how it is built",
    "tasks": "cut the work into small tasks",
    "execution": "carry the tasks out",
}
# Escaped ones too, so that what is taken back is what was given.
_FORGING = re.compile(r"^( {0,3})(\\*#)", re.MULTILINE)
_ESCAPED = re.compile(r"^( {0,3})\\(\\*#)", re.MULTILINE)


def new_progress(
    template: str, goal: str, phase: str = "research", files: Sequence[str] = ()
) -> str:
    """Return the progress file of a new spec: the template with the goal in its place.

    The goal is text: nothing in it is a placeholder or a heading. Where it is blank, a sentence
    asks for it. A template without a place for it gets a section at its end. What it says of the
    research phase is said of another `phase`, in which `files` are to be written.
    """
    before, place, after = _in_phase(template, phase, files).partition(PLACE)
    return before + _goal_text(goal) + after if place else with_goal(template, goal)


def goal_of(text: str) -> str | None:
    """Return the goal that a progress file records under "Original Goal" or "Goal", else `None`."""
    plain = text.replace("\r\n", "\n")
    found = _goal_span(plain)
    body = plain[slice(*found)].strip() if found else ""
    return None if body in {"", NO_GOAL} else _ESCAPED.sub(r"\1\2", body)


def with_goal(text: str, goal: str) -> str:
    """Return the progress file with this goal in its section, or with a section for it."""
    end = _line_end(text)
    plain = text.replace("\r\n", "\n")
    found = _goal_span(plain)
    if found is None:
        changed = f"{_apart(plain)}{_SECTION}\n\n{_goal_text(goal)}\n"
    else:
        rest = plain[found[1] :]
        changed = f"{plain[: found[0]]}\n\n{_goal_text(goal)}\n" + ("\n" + rest if rest else "")
    return changed.replace("\n", end)


def with_summary(text: str, phase: str, summary: str, date: str) -> str:
    """Return the progress file with a section on a complete phase; all else stays as it is.

    It stands before the last line "## Learnings" that is no code, or at the end. `date` is shown
    as it is. No line of the summary is a heading: those that would be begin with a backslash.
    """
    end = _line_end(text)
    section = f"## Phase Complete: {phase} ({date})\n\n{_escaped(summary)}\n".replace("\n", end)
    at = _place_of_learnings(text)
    if at is None:
        return _apart(text, end) + section
    return f"{_apart(text[:at], end)}{section}{end}{text[at:]}"


def _in_phase(template: str, phase: str, files: Sequence[str]) -> str:
    """Return a template with what it says of the research phase said of another."""
    if phase not in _OBJECTIVES:
        return template
    step = f"- Write {', '.join(files)}" if files else "- Carry out the tasks in tasks.md"
    text = _PHASE.sub(rf"\1 {phase}", template)
    return _STEP.sub(step, _OBJECTIVE.sub(rf"\1 {_OBJECTIVES[phase]}", text))


def _place_of_learnings(text: str) -> int | None:
    """Return where the last heading "Learnings" begins that does not stand in fenced code."""
    found = None
    for line in read_lines(text, _ITEM):
        begins = line.start == text.startswith(MARK) or text[line.start - 1 : line.start] == "\n"
        if begins and not line.fenced and _LEARNINGS.fullmatch(line.text):
            found = line.start
    return found


def _goal_span(text: str) -> tuple[int, int] | None:
    """Return where the body of the goal's section begins and ends."""
    heading = _GOAL.search(text)
    if heading is None:
        return None
    following = _HEADING.search(text, heading.end() + 1)
    return heading.end(), following.start() if following else len(text)


def _goal_text(goal: str) -> str:
    return _escaped(goal) or NO_GOAL


def _escaped(text: str) -> str:
    """Return text of others as a part of a file: without control characters and headings."""
    return _FORGING.sub(r"\1\\\2", without_controls(text).strip())


def _apart(text: str, end: str = "\n") -> str:
    """Return the text with what a section needs before it: a blank line."""
    if not text.strip("\ufeff") or text.endswith(end * 2):
        return text
    return text + (end if text.endswith(end) else end * 2)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
