"""Says of what SQLite refuses which rule of a table it breaks, and which tables replace rows."""

from __future__ import annotations

from ..schema import fold
from .check_constraints import named_checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .database import Database

_FAILED = "CHECK constraint failed: "
_SQL = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
_REPLACES = f"{_SQL} AND sql LIKE '%CONFLICT%REPLACE%'"


def is_broken_rule(error: BaseException | None) -> bool:
    """Return whether a statement has failed by a CHECK."""
    return str(error).startswith(_FAILED)


def broken_rule(database: Database, table: str, error: BaseException | None) -> str:
    """Return the CHECK that a statement on a table has broken, empty where nobody knows it.

    Within a transaction after the one that failed.
    """
    told = str(error).removeprefix(_FAILED)
    row = database.row(_SQL, [table])
    if row is None or fold(told) == fold(table):  # which old versions of SQLite say
        return ""
    return f"CHECK ({named_checks(row[0]).get(fold(told), told)})"


def replaces_rows(database: Database, table: str) -> bool:
    """Return whether a row of the table may take the place of another, which is deleted then."""
    return database.row(_REPLACES, [table]) is not None
