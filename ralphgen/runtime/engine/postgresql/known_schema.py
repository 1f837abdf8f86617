"""Remembers nothing: the columns are read in one statement, each time that a connection is made."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def record_name(_connection: object, _manifest: Mapping[str, Any]) -> str:
    """Return the name of no record."""
    return ""


def is_known(_name: str) -> bool:
    """Return that nothing was recorded."""
    return False


def remember(_name: str) -> None:
    """Record nothing."""
