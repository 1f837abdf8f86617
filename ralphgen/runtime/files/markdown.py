"""Finds the lines, headings, sections and tables of a Markdown text, ignoring headings in code."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BYTE_ORDER_MARK = "\ufeff"  # of byte order, at the beginning of some files

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|[0-9]{1,9}[.)][ \t]+)?)(`{3,}|~{3,})(.*)")
_IN_ITEM = 2  # minimum indentation of a list item's content, in columns
_INDENTED = 4  # columns that make a line code without any fence
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*[.)]?[ \t]+")


class Line:
    """One line: its start in the text, its content without the line end, and whether it is code."""

    __slots__ = ("fenced", "start", "text")

    def __init__(self, start: int, text: str) -> None:
        self.start = start
        self.text = text
        self.fenced = False


class Heading:
    """A heading: `level` counts its hashes, `line` is its place, `title` its text."""

    __slots__ = ("level", "line", "title")

    def __init__(self, level: int, line: int, title: str) -> None:
        self.level = level
        self.line = line
        self.title = title

    def begins_with(self, words: str) -> bool:
        """Return whether the title begins with these whole words, in any case."""
        return bool(re.match(rf"{re.escape(words)}(?!\w)", self.title, re.IGNORECASE))


def read_lines(text: str, item: re.Pattern[str] | None = None) -> list[Line]:
    """Return the lines of a text; `fenced` marks the lines of fenced code and the fences.

    A fence ends with a fence of the same kind and at least the same length. Without `item`, the
    rules are CommonMark's: a fence is indented by three columns at most, and an unclosed fence
    extends to the end. With `item`, the text is a list that people edit by hand, and a forgotten
    fence must not hide an item: a fence may have any indentation, a fence in an item ends at the
    latest at a line that matches `item`, and an unclosed fence is ignored.
    """
    lines = list(_lines(text))
    # By the kind of fence, and whether it is in an item: the length that nothing ends from here on.
    endless: dict[tuple[str, bool], int] = {}
    at = 0
    while at < len(lines):
        fence = _opening(lines[at].text, in_items=item is not None)
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
    """Return the columns of white space before a line's first character."""
    whole = text.expandtabs(4)
    return len(whole) - len(whole.lstrip(" "))


def headings(text: str) -> list[Heading]:
    """Return the headings of a text that begin with hashes, in order."""
    found: list[Heading] = []
    for place, line in enumerate(read_lines(text)):
        if not line.fenced and (heading := _HEADING.match(line.text)):
            title = re.sub(r"(^|[ \t]+)#+[ \t]*$", "", heading[2]).strip()
            found.append(Heading(len(heading[1]), place, title))
    return found


def section(text: str, title: str) -> list[str]:
    """Return the lines from the heading of that title to the next of its level or a higher one.

    A number before the title and its case do not count. Empty if there is no such heading.
    """
    known = headings(text)
    lines = [line.text for line in _lines(text)]
    for place, heading in enumerate(known):
        if _NUMBER.sub("", heading.title, count=1).casefold() == title.casefold():
            following = (other for other in known[place + 1 :] if other.level <= heading.level)
            end = next((other.line for other in following), len(lines))
            return lines[heading.line : end]
    return []


def table(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of the first table in some lines, row by row, without the line of dashes."""
    rows: list[list[str]] = []
    for line in lines:
        if line.lstrip().startswith("|"):
            inner = line.strip().removeprefix("|")
            inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", inner)])
        elif rows:
            break
    return [row for place, row in enumerate(rows) if place != 1 or not _is_rule(row)]


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _lines(text: str) -> Iterator[Line]:
    for match in _LINE.finditer(
        text, len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    ):
        yield Line(match.start(), match[1])


def _opening(text: str, *, in_items: bool) -> re.Match[str] | None:
    """Return the fence that a line opens; backticks after its backticks make it code in a line."""
    match = _FENCE.match(text)
    if match is None or (match[2][0] == "`" and "`" in match[3]):
        return None
    is_plain = not match[1].strip() and indent_of(text) < _INDENTED
    return match if in_items or is_plain else None


def _kind(fence: re.Match[str]) -> tuple[str, bool]:
    """Return the character of a fence, and whether it is in a list item."""
    return fence[2][0], indent_of(fence[1]) >= _IN_ITEM or bool(fence[1].strip())


def _end(
    lines: list[Line], start: int, fence: re.Match[str], item: re.Pattern[str] | None
) -> int | None:
    """Return the position after the code that begins at `start`, None if nothing ends it."""
    character, in_item = _kind(fence)
    closing = re.compile(rf"[ \t]*{character}{{{len(fence[2])},}}[ \t]*")
    for position in range(start, len(lines)):
        text = lines[position].text
        if closing.fullmatch(text) and (item is not None or indent_of(text) < _INDENTED):
            return position + 1
        if item is not None and in_item and item.match(text):
            return position
    return len(lines) if item is None else None


def _is_rule(row: Sequence[str]) -> bool:
    return all(re.fullmatch(":?-+:?", cell) for cell in row)
