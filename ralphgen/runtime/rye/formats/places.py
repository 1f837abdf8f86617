"""Says where in a text something is, and what it is, in one short line."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 60  # characters of a text that is shown
MOST_PROBLEMS = 20  # of one item: who mends those sees the others


def place(text: str, line: int) -> str:
    """A line by its number and what stands there: a signature line may have moved its number."""
    found = text.split("\n", line)[line - 1 : line]
    return f"line {line} ({shown(found[0].strip())})" if found else f"line {line}"


def shown(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    if isinstance(value, str):
        short = value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
        return json.dumps(short, ensure_ascii=False)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
