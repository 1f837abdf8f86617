"""Says of what the database refuses which rule of a table it breaks."""

from __future__ import annotations

from .. import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .database import Database

_BROKEN = "23514"
_RULE = """
    SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
    WHERE contype = 'c' AND conname = ? AND (conrelid = to_regclass(?) OR contypid <> 0)
    ORDER BY conrelid = 0 LIMIT 1
"""


def is_broken_rule(error: BaseException | None) -> bool:
    """Return whether a statement has failed by a CHECK."""
    return getattr(error, "sqlstate", "") == _BROKEN


def broken_rule(database: Database, table: str, error: BaseException | None) -> str:
    """Return the CHECK that a statement on a table has broken, empty where nobody knows it.

    Of the table or of a domain. Within a transaction after the one that failed.
    """
    told: Any = getattr(error, "diag", None)
    if told.constraint_name is None:  # the bounds of a partition
        return ""
    row = database.row(_RULE, [told.constraint_name, quoted(told.table_name or table)])
    return str(row[0]) if row else ""


def replaces_rows(_database: Database, _table: str) -> bool:
    """Return whether a row of the table may take the place of another: here none does."""
    return False
