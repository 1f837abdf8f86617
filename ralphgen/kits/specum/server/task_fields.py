"""Reads what a task says under Do, Files, Done when, Verify and Commit."""

from __future__ import annotations

import re

from ralphgen.runtime.files.markdown import Line, indent_of, read_lines

LABELS = ("Do", "Files", "Done when", "Verify", "Commit")

_BULLET = r"[ \t]*(?:[-*+][ \t]+)?"
_LABEL = re.compile(
    _BULLET + r"(?P<mark>[*_]{0,3})(?P<label>Do|Files|Done[ \t]+when|Verify|Commit)"
    r"(?:(?P=mark)[ \t]*:|[ \t]*:(?P=mark))[ \t]*(?P<rest>.*)",
    re.IGNORECASE,
)
# What ends a field besides the next one: a heading, or a word of another kind that is set off.
_OTHER = re.compile(rf"#{{1,6}}(?:[ \t]|\Z)|{_BULLET}[*_]{{1,3}}[^\s*_`][^:`]*:")
_NOTHING = re.compile(r"(?!)")
_SLACK = 1  # columns by which the labels of a task may differ


def read_fields(block: str) -> dict[str, str]:
    """The text under each label of a task, by the label as in `LABELS`; without blank ones.

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
    """The label that a line begins with, if it is no text of the field before it."""
    if line.fenced or (deepest is not None and indent_of(line.text) > deepest):
        return None
    return _LABEL.match(line.text)


def _ends_field(line: Line, deepest: int | None) -> bool:
    if line.fenced or deepest is None or indent_of(line.text) > deepest:
        return False
    return _OTHER.match(line.text) is not None


def _spelled(label: str) -> str:
    """A label as in `LABELS`."""
    return " ".join(label.split()).capitalize()


def _dedented(lines: list[str]) -> str:
    """The text of a field: its first line stands behind the label, the others are indented."""
    further = [line.rstrip().expandtabs(4) for line in lines[1:]]
    indent = min((indent_of(line) for line in further if line), default=0)
    return "\n".join([lines[0].strip(), *(line[indent:] for line in further)]).strip()
