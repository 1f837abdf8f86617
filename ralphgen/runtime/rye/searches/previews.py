"""Shows the place of a text where it matches a query."""

from __future__ import annotations

import re

from .matching import pattern_of
from .words import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .terms import Leaf

LONGEST = 200  # characters of a preview
BEFORE = 60  # of them at most before the place


def finder(leaves: Sequence[Leaf]) -> re.Pattern[str] | None:
    """What finds the first of some leaves in a folded text; None where there are none."""
    return re.compile("|".join(map(pattern_of, leaves))) if leaves else None


def preview(text: str, start: int, wanted: re.Pattern[str] | None) -> str:
    """Some words around the first place that is wanted: in the body, else before it.

    Where there is none, they are the first ones of the body, which begins at `start`.
    """
    at = _first_place(text, start, wanted)
    first = start if at is None else max(at - BEFORE, start if at >= start else 0)
    if first:  # not in the midst of a word
        blank = re.compile(r"\s").search(text, first - 1, max(at or 0, first))
        first = blank.end() if blank else first
    shown = _on_one_line(text[first : first + 4 * LONGEST])
    begins = "…" if _on_one_line(text[max(first - LONGEST, 0) : first]) else ""
    if len(begins + shown) > LONGEST or first + 4 * LONGEST < len(text):
        shown = shown[: LONGEST - len(begins) - 1].rstrip() + "…"
    return begins + shown


def _first_place(text: str, start: int, wanted: re.Pattern[str] | None) -> int | None:
    if wanted is None:
        return None
    for begin, part in ((start, text[start:]), (0, text[:start])):
        folded = fold(part)
        found = wanted.search(folded)
        if found:  # where folding changed the length, near the place is good enough
            return begin + found.start() * len(part) // len(folded)
    return None


def _on_one_line(text: str) -> str:
    """The text without the ends of its lines, and without what cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
