"""Says where in a text something is, in one short line."""

from __future__ import annotations

from ..wording import shown

MOST_PROBLEMS = 20  # of one item: who mends those sees the others


def place(text: str, line: int) -> str:
    """A line by its number and what stands there: a signature line may have moved its number."""
    found = text.split("\n", line)[line - 1 : line]
    return f"line {line} ({shown(found[0].strip())})" if found else f"line {line}"
