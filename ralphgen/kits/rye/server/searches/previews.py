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
REACH = 1 << 16  # characters that are looked through
MOST_LEAVES = 8  # that are looked for in a text


def preview(text: str, start: int, opening: int, leaves: Sequence[Leaf]) -> str:
    """Some words around the first place of any leaf: in the body, else before it.

    The body begins at `start`. Where there is no such place, or only one far behind, they are the
    ones at `opening`.
    """
    at = _first_place(text, start, leaves) if leaves else None
    first = opening if at is None else max(at - BEFORE, start if at >= start else 0)
    if first:  # not in the midst of a word
        blank = re.compile(r"\s").search(text, first - 1, max(at or 0, first))
        first = blank.end() if blank else first
    shown = _on_one_line(text[first : first + 4 * LONGEST])
    begins = "…" if _on_one_line(text[max(first - LONGEST, 0) : first]) else ""
    if len(begins + shown) > LONGEST or first + 4 * LONGEST < len(text):
        shown = shown[: LONGEST - len(begins) - 1].rstrip() + "…"
    return begins + shown


def _first_place(text: str, start: int, leaves: Sequence[Leaf]) -> int | None:
    for begin, end in ((start, len(text)), (0, start)):
        part = text[begin : min(end, begin + REACH)]
        folded = fold(part)
        # A regular expression of all leaves would take seconds for a long query and a long text.
        likely = [leaf for leaf in leaves if leaf.held in folded][:MOST_LEAVES]
        found = re.search("|".join(map(pattern_of, likely)), folded) if likely else None
        if found:  # where folding changed the length, near the place is good enough
            return begin + found.start() * len(part) // len(folded)
    return None


def _on_one_line(text: str) -> str:
    """The text without the ends of its lines, and without what cannot be seen."""
    shown = " ".join(text.split())
    if shown.isprintable():
        return shown
    return " ".join("".join(c if c.isprintable() else " " for c in shown).split())
