"""The moments that the columns store, each in the format that its column has always had."""

from __future__ import annotations

import re
import time

# Compiled at its first use: a server starts without it.
_FORMATS = r"(?a)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?"


def today() -> str:
    """The date in UTC, as tasks, features and metadata store it: 2026-02-10."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def now() -> str:
    """The moment in UTC, as comments and recipes store it: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_offset() -> str:
    """The moment in UTC, as learnings store it: 2026-02-10T17:56:00+00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def parse(text: str) -> str | None:
    """A stored date or moment as text that sorts by time, `None` where it is neither.

    All formats in use are read: 2026-02-10 (its first moment), 2026-02-10 17:56:00 (in UTC),
    2026-02-10T17:56:00Z and 2026-02-10T17:56:00.5+00:00; any other offset is brought to UTC.
    """
    if not re.fullmatch(_FORMATS, text):
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
        in_utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return in_utc.isoformat(timespec="microseconds")
