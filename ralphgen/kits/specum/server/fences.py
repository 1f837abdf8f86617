"""Tells the lines of a Markdown text that stand in fenced code from all others."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "\ufeff"  # of byte order, at the beginning of some files

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|[0-9]{1,9}[.)][ \t]+)?)(`{3,}|~{3,})(.*)")
_DEEP = 2  # columns by which the content of a list item is indented at least


class Line:
    """One line: where it begins in the text, what it says without its end, and if it is code."""

    __slots__ = ("fenced", "start", "text")

    def __init__(self, start: int, text: str) -> None:
        self.start = start
        self.text = text
        self.fenced = False


def read_lines(text: str, item: re.Pattern[str]) -> list[Line]:
    """The lines of a text; `fenced` are those of fenced code, with its fences.

    A fence ends with one of its kind that is no shorter, however indented. One in a list item
    ends at the latest where a line matches `item`: there another item begins, and a fence that
    somebody forgot to close cannot hide it. For the same reason a fence that is never closed is
    none.
    """
    lines = list(_lines(text))
    # By the kind of fence, and whether it is in an item: the length that nothing ends from here on.
    endless: dict[tuple[str, bool], int] = {}
    at = 0
    while at < len(lines):
        fence = _opening(lines[at].text)
        at += 1
        if fence is None or len(fence[2]) >= endless.get(_kind(fence), len(text) + 1):
            continue
        end = _end(lines, at, fence, item)
        if end is None:
            endless[_kind(fence)] = len(fence[2])
            continue
        for line in lines[at - 1 : end]:
            line.fenced = True
        at = end
    return lines


def indent_of(text: str) -> int:
    """The columns of white space before a line's first character."""
    whole = text.expandtabs(4)
    return len(whole) - len(whole.lstrip(" "))


def _lines(text: str) -> Iterator[Line]:
    for match in _LINE.finditer(text, len(MARK) if text.startswith(MARK) else 0):
        yield Line(match.start(), match[1])


def _opening(text: str) -> re.Match[str] | None:
    """The fence that a line opens; what has a backtick after its backticks is code in a line."""
    match = _FENCE.match(text)
    return None if match is None or match[2][0] == "`" in match[3] else match


def _kind(fence: re.Match[str]) -> tuple[str, bool]:
    """Its character, and whether it stands in a list item."""
    return fence[2][0], indent_of(fence[1]) >= _DEEP or bool(fence[1].strip())


def _end(lines: list[Line], start: int, fence: re.Match[str], item: re.Pattern[str]) -> int | None:
    """The position after the fenced code that goes on at `start`, `None` where nothing ends it."""
    character, in_item = _kind(fence)
    closing = re.compile(rf"[ \t]*{character}{{{len(fence[2])},}}[ \t]*")
    for position in range(start, len(lines)):
        if closing.fullmatch(lines[position].text):
            return position + 1
        if in_item and item.match(lines[position].text):
            return position
    return None
