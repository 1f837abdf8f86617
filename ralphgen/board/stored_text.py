"""Stored texts as the board shows them: of bounded length, and harmless to whoever reads them."""

import re
from datetime import UTC, date, datetime

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.tasks.rows import plain

LONG_LINE = 200  # characters of a title or a name
LONG_TEXT = 500  # characters of a comment or a learning
MORE = "…"
_DIGITS = re.compile(r"(\d+)", re.ASCII)


def line(value: object, most: int = LONG_LINE) -> str:
    """Return a stored value on one line; empty where there is none."""
    text = "" if value is None else str(plain(value))
    whole = text[:most]
    if not whole.isprintable():
        whole = one_line(whole)
    return f"{whole}{MORE}" if len(text) > most else whole


def paragraph(value: object, most: int = LONG_TEXT) -> str:
    """Return a stored value with its lines, without control characters."""
    text = "" if value is None else str(plain(value))
    whole = without_controls(text[:most]).strip()
    return f"{whole}{MORE}" if len(text.strip()) > most else whole


def moment(value: object) -> datetime | None:
    """Parse a stored date or moment in any ISO form; None where it cannot be read."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def days_since(value: object, today: date) -> int | None:
    """Return the whole days since a stored date; None where it is unreadable or in the future."""
    found = moment(value)
    days = -1 if found is None else (today - found.date()).days
    return days if days >= 0 else None


def natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key: numbers by their value, letters whatever their case."""
    parts = _DIGITS.split(text[:LONG_LINE].casefold())
    return tuple(
        (0, int(part)) if part.isdecimal() and part.isascii() else (1, part) for part in parts
    )
