"""Conversion of the tools' statements and values for the database."""

from __future__ import annotations

import re

from ...errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 2**63  # bound of the integers in a column
REMEMBERED = 1_000  # statements
_remembered: dict[str, bytes] = {}
_VALUES = r"'[^']*'|\"[^\"]*\"|\?"  # quoted text; a "?" in it is not a placeholder


def numbered(sql: str) -> bytes:
    """Return a statement with $1, $2 and so on for each "?" placeholder."""
    known = _remembered.get(sql)
    if known is not None:
        return known
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] != "?":
            return found[0]
        count += 1
        return f"${count}"

    if len(_remembered) == REMEMBERED:
        _remembered.clear()
    text = _remembered[sql] = re.sub(_VALUES, place, sql).encode()
    return text


def refuse_unstorable(values: Sequence[object]) -> None:
    """Raise the errors of SQLite's driver for values that no column can store."""
    for value in values:
        if isinstance(value, int) and not -LIMIT <= value < LIMIT:
            raise OverflowError
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                "a string contains the character U+0000, which the database cannot store"
            )
