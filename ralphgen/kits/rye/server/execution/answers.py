"""Gives what was executed the size of an answer."""

from __future__ import annotations

from ralphgen.runtime.values.paging import MAX_CHARACTERS, fitted, shortened, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Characters of a text and items of a list, as many as can be: one long text often is all there is.
STEPS = (MAX_CHARACTERS, 32_000, 24_000, 16_000)
AROUND = 500  # characters of an answer for what stands around the facts of a failure
LONGEST_ERRORS = 8_000  # characters of what a command wrote to its standard error


def bounded(record: dict[str, Any], room: int = MAX_CHARACTERS) -> dict[str, Any]:
    """The record, whole where it fits; else `cut` names what is not."""
    for most in STEPS:
        candidate = shortened(record, most, most)
        if size(candidate) <= room:
            return candidate
    return fitted(record, room)


def facts(record: dict[str, Any], message: str) -> dict[str, Any]:
    """The facts of a failure, so that they fit beside its message."""
    return bounded(record, MAX_CHARACTERS - AROUND - size(message))


def last_of(text: str) -> str:
    """The end of what was written to a standard error: there stands what went wrong."""
    return text if len(text) <= LONGEST_ERRORS else f"…{text[1 - LONGEST_ERRORS :]}"
