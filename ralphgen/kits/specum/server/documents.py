"""Reads and changes what tools and people both write of a spec: its tasks, and its progress.

Tasks stand in `tasks.md`, as boxes that are ticked; `.progress.md` holds the goal, a summary of
each phase, and what was learned.
"""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.markdown import MARK, indent_of, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

TASKS = "tasks.md"
PROGRESS = ".progress.md"

_TASK = re.compile(
    r"[-*][ \t]+\[(?P<box>[ xX])\][ \t]+"
    r"(?P<id>[0-9]+(?:\.[0-9]+)+|V[0-9]+|VF|VE[0-9]*)(?=[ \t]|\Z)"
    r"(?P<tags>(?:[ \t]+\[(?:P|VERIFY)\](?=[ \t]|\Z))*)"
    r"(?P<title>.*)"
)
# Where a task begins or ends: a box of any kind, or a heading of the first two levels.
_EDGE = re.compile(r"#{1,2}(?:[ \t]|\Z)|[-*+][ \t]+\[[ xX]\](?:[ \t]|\Z)")
LABELS = ("Do", "Files", "Done when", "Verify", "Commit")

_BULLET = r"[ \t]*(?:[-*+][ \t]+)?"
_LABEL = re.compile(
    _BULLET + r"(?P<mark>[*_]{0,3})(?P<label>Do|Files|Done[ \t]+when|Verify|Commit)"
    r"(?:(?P=mark)[ \t]*:|[ \t]*:(?P=mark))[ \t]*(?P<rest>.*)",
    re.IGNORECASE,
)
# What ends a field besides the next one: a heading, or a word of another kind that is set off.
_OTHER = re.compile(rf"#{{1,6}}(?:[ \t]|\Z)|{_BULLET}[*_]{{1,3}}[^\s*_`][^:`]*:")
_NOTHING = re.compile(r"(?!)")  # no item within a task ends the code in it
_SLACK = 1  # columns by which the labels of a task may differ

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
_CURRENT = re.compile(r"^## Current Goal[ \t]*\r?$", re.MULTILINE)
_NEXT = re.compile(r"^## Next Steps[ \t]*\r?$", re.MULTILINE)
_FIELD = re.compile(
    r"^(?P<head>- \*\*(?P<field>Phase|Task|Objective)\*\*:) ?(?P<said>[^\r\n]*)", re.MULTILINE
)
_ANY_STEP = re.compile(
    r"^(- )Write (?:research|requirements|design|tasks)\.md(?=[ \t]*\r?$)", re.MULTILINE
)
_OBJECTIVES = {
    "research": "find out what is true about the goal",
    "requirements": "say what must hold",
    "design": "decide how it is built",
    "tasks": "cut the work into small tasks",
    "execution": "carry the tasks out",
}
# Escaped ones too, so that what is taken back is what was given.
_FORGING = re.compile(r"^( {0,3})(\\*#)", re.MULTILINE)
_ESCAPED = re.compile(r"^( {0,3})\\(\\*#)", re.MULTILINE)


class TaskItem:
    """One task of the list.

    `key` names it among all of its list: its `id`, or for a repeated one `id#2`, `id#3` and so
    on. `block` is its text from the box to the next task or heading, trimmed at the end, and
    `line` the line where it begins, from 1; `box` is the position of its mark in the text.
    `fields` holds what it says under "Do", "Files", "Done when", "Verify" and "Commit", as far as
    it says it. A checkpoint (`verify`) is never `parallel`.
    """

    __slots__ = (
        "_fields",
        "block",
        "box",
        "done",
        "id",
        "key",
        "line",
        "parallel",
        "title",
        "verify",
    )

    def __init__(self, match: re.Match[str], key: str, line: int, start: int, block: str) -> None:
        self.id = match["id"]
        self.key = key
        self.title = match["title"].strip()
        self.done = match["box"] != " "
        self.verify = "[VERIFY]" in match["tags"] or self.id.startswith("V")
        self.parallel = "[P]" in match["tags"] and not self.verify
        self.line = line
        self.box = start + match.start("box")
        self.block = block
        self._fields: dict[str, str] | None = None

    @property
    def fields(self) -> dict[str, str]:
        """What the task says, read when it is first asked for: most tasks are only counted."""
        if self._fields is None:
            self._fields = read_fields(self.block)
        return self._fields


def parse_tasks(text: str) -> list[TaskItem]:
    """Return the tasks of a list, in the order of the file.

    A task stands at the beginning of a line and outside of fenced code: `- [ ]` or `* [x]`, an id
    (`1.1`, `V4`, `VF`, `VE2`), then perhaps `[P]` and `[VERIFY]`, and the title.
    """
    lines = read_lines(text, _TASK)
    plain = [(number, line) for number, line in enumerate(lines, 1) if not line.fenced]
    edges = [(*each, _TASK.match(each[1].text)) for each in plain if _EDGE.match(each[1].text)]
    ends = [line.start for _, line, _ in edges[1:]] + [len(text)]
    items: list[TaskItem] = []
    times: dict[str, int] = {}
    for (number, line, match), end in zip(edges, ends, strict=False):
        if match is not None:
            times[match["id"]] = times.get(match["id"], 0) + 1
            key = match["id"] + (f"#{times[match['id']]}" if times[match["id"]] > 1 else "")
            items.append(TaskItem(match, key, number, line.start, text[line.start : end].rstrip()))
    return items


def parallel_groups(items: Iterable[TaskItem]) -> list[list[TaskItem]]:
    """Return the tasks in groups that may run together: neighbours marked `[P]`, else one."""
    groups: list[list[TaskItem]] = []
    for item in items:
        if groups and item.parallel and groups[-1][-1].parallel:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def first_open(items: Iterable[TaskItem]) -> TaskItem | None:
    """Return the first task whose box is not ticked."""
    return next((item for item in items if not item.done), None)


def tick(text: str, *items: TaskItem) -> str:
    """Return the list with the boxes of tasks ticked, and every other character as it was.

    A task is found by its key, wherever it stands by now. Raises `ToolError` where one is gone.
    """
    there = {each.key: each for each in parse_tasks(text)}
    for item in items:
        found = there.get(item.key)
        if found is None:
            gone = f'task "{item.key}" is no longer in tasks.md: request the next task again'
            raise ToolError(gone)
        if not found.done:
            text = f"{text[: found.box]}x{text[found.box + 1 :]}"
    return text


def read_fields(block: str) -> dict[str, str]:
    """Return the text under each label of a task, by label as in `LABELS`; without blank ones.

    Labels stand on a line of their own or before their text, as `**Do**:`, `**Do:**` or `Do:`, in
    letters of either case, with or without a bullet. What is indented further than the first of
    them is text. Text of several lines keeps its inner indentation, without carriage
    returns. Where a label comes twice, its texts follow each other.
    """
    found: dict[str, list[list[str]]] = {}
    current: list[str] | None = None
    deepest: int | None = None
    for line in read_lines(block, _NOTHING)[1:]:
        is_text = line.fenced or (deepest is not None and indent_of(line.text) > deepest)
        label = None if is_text else _LABEL.match(line.text)
        if label is not None:
            deepest = indent_of(line.text) + _SLACK if deepest is None else deepest
            current = [label["rest"]]
            spelled = " ".join(label["label"].split()).capitalize()
            found.setdefault(spelled, []).append(current)
        elif not is_text and deepest is not None and _OTHER.match(line.text):
            current = None
        elif current is not None:
            current.append(line.text)
    texts = {label: "\n".join(map(_dedented, parts)).strip() for label, parts in found.items()}
    return {label: texts[label] for label in LABELS if texts.get(label)}


def _dedented(lines: list[str]) -> str:
    """Return the text of a field: the first line stands behind the label, others are indented."""
    further = [line.rstrip().expandtabs(4) for line in lines[1:]]
    indent = min((indent_of(line) for line in further if line), default=0)
    return "\n".join([lines[0].strip(), *(line[indent:] for line in further)]).strip()


def new_progress(
    template: str, goal: str, phase: str = "research", files: Sequence[str] = ()
) -> str:
    """Return the progress file of a new spec: the template with the goal in its place.

    The goal is text: nothing in it is a placeholder or a heading. Where it is blank, a sentence
    asks for it. A template without a place for it gets a section at its end. What it says of the
    research phase is said of another `phase`, in which `files` are to be written.
    """
    if phase != "research":
        step = f"- Write {', '.join(files)}" if files else "- Carry out the tasks in tasks.md"
        template = _OBJECTIVE.sub(rf"\1 {_OBJECTIVES[phase]}", _PHASE.sub(rf"\1 {phase}", template))
        template = _STEP.sub(step, template)
    before, place, after = template.partition(PLACE)
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


def with_current(text: str, phase: str, task: str = "none yet") -> str:
    """Return the progress file with this phase and task as its current goal.

    Its objective and next step change as long as they are those of the template. Nothing outside of
    these sections changes, nor a file that has no such section.
    """

    def current(found: re.Match[str]) -> str:
        field, said = found["field"], found["said"]
        told = {"Phase": phase, "Task": task}.get(field, said)
        if field == "Objective" and said in _OBJECTIVES.values():
            told = _OBJECTIVES[phase]
        return f"{found['head']} {told}"

    step = "Carry out the tasks in tasks.md" if phase == "execution" else f"Write {phase}.md"
    text = _in_section(text, _CURRENT, lambda body: _FIELD.sub(current, body))
    return _in_section(text, _NEXT, lambda body: _ANY_STEP.sub(rf"\1{step}", body))


def _in_section(text: str, heading: re.Pattern[str], change: Callable[[str], str]) -> str:
    """Return the text with the body of the first section of this heading changed."""
    found = heading.search(text)
    if found is None:
        return text
    following = _HEADING.search(text, found.end())
    end = following.start() if following else len(text)
    return text[: found.end()] + change(text[found.end() : end]) + text[end:]


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
