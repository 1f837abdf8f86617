"""Finds headings and sections in Markdown, line by line; what stands in a code block is none."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADING = r"(#{1,6})[ \t]+(.*)"
_FENCE = r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)"
_NUMBER = r"[0-9]+(?:\.[0-9]+)*[.)]?[ \t]+"


class Heading:
    """A heading: `level` counts its hashes, `line` is its place, `title` what it says."""

    __slots__ = ("level", "line", "title")

    def __init__(self, level: int, line: int, title: str) -> None:
        self.level = level
        self.line = line
        self.title = title


def headings(lines: Sequence[str]) -> list[Heading]:
    """The headings of a text in order."""
    found: list[Heading] = []
    fence = ""
    for place, line in enumerate(lines):
        mark = re.match(_FENCE, line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        elif heading := re.match(_HEADING, line):
            title = re.sub(r"(^|[ \t]+)#+[ \t]*$", "", heading[2]).strip()
            found.append(Heading(len(heading[1]), place, title))
    return found


def begins(heading: Heading, words: str) -> bool:
    """Whether a heading begins with these words, in any case, and not in the middle of one."""
    return bool(re.match(rf"{re.escape(words)}(?!\w)", heading.title, re.IGNORECASE))


def section(lines: Sequence[str], title: str) -> list[str]:
    """The lines from the heading of that title on, up to the next of its level or a higher one.

    A number before the title and its case do not count. Empty where there is no such heading.
    """
    known = headings(lines)
    for place, heading in enumerate(known):
        if re.sub(rf"^{_NUMBER}", "", heading.title).casefold() == title.casefold():
            following = (other for other in known[place + 1 :] if other.level <= heading.level)
            end = next((other.line for other in following), len(lines))
            return [*lines[heading.line : end]]
    return []


def table(lines: Sequence[str]) -> list[list[str]]:
    """The cells of the first table in some lines, row by row, without the line of dashes."""
    rows: list[list[str]] = []
    for line in lines:
        if line.lstrip().startswith("|"):
            rows.append(_cells(line))
        elif rows:
            break
    return [row for place, row in enumerate(rows) if place != 1 or not _is_rule(row)]


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of rows, the first of which is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def plain(cell: str) -> str:
    """What a cell says, without code marks and emphasis, in small letters."""
    return cell.strip("`*_ ").casefold()


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _is_rule(row: Sequence[str]) -> bool:
    return all(re.fullmatch(":?-+:?", cell) for cell in row)
