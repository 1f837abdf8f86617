"""The moments that the columns store, each in the format that its column has always had."""

from __future__ import annotations

import time


def today() -> str:
    """The date in UTC, as tasks, features and metadata store it: 2026-02-10."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def now() -> str:
    """The moment in UTC, as comments and recipes store it: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_offset() -> str:
    """The moment in UTC, as learnings store it: 2026-02-10T17:56:00+00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
