"""Reads the tasks of a `tasks.md`, and ticks them."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.markdown import Line, indent_of, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
            gone = f'task "{item.key}" is no longer in tasks.md: ask for the next task again'
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
        label = _label(line, deepest)
        if label is not None:
            deepest = indent_of(line.text) + _SLACK if deepest is None else deepest
            current = [label["rest"]]
            found.setdefault(_spelled(label["label"]), []).append(current)
        elif _ends_field(line, deepest):
            current = None
        elif current is not None:
            current.append(line.text)
    texts = {label: "\n".join(map(_dedented, parts)).strip() for label, parts in found.items()}
    return {label: texts[label] for label in LABELS if texts.get(label)}


def _label(line: Line, deepest: int | None) -> re.Match[str] | None:
    """Return the label that a line begins with, if it is no text of the field before it."""
    if line.fenced or (deepest is not None and indent_of(line.text) > deepest):
        return None
    return _LABEL.match(line.text)


def _ends_field(line: Line, deepest: int | None) -> bool:
    if line.fenced or deepest is None or indent_of(line.text) > deepest:
        return False
    return _OTHER.match(line.text) is not None


def _spelled(label: str) -> str:
    """Return a label as in `LABELS`."""
    return " ".join(label.split()).capitalize()


def _dedented(lines: list[str]) -> str:
    """Return the text of a field: the first line stands behind the label, others are indented."""
    further = [line.rstrip().expandtabs(4) for line in lines[1:]]
    indent = min((indent_of(line) for line in further if line), default=0)
    return "\n".join([lines[0].strip(), *(line[indent:] for line in further)]).strip()
