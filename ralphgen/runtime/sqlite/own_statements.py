"""Runs the statements of a project's own tools on SQLite: ralphgen's tables stay as they are."""

from __future__ import annotations

from ..database.entries import PREFIX
from ..database.queries import kept_records
from ..errors import ToolError
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .database import Database

    Records = list[dict[str, Any]]

LONGEST = 10_000_000  # bytes of a value
LEDGER = "what ralphgen keeps for itself cannot be written"
_WRITING = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)


class LedgerGuard:
    """Lets a connection prepare what writes none of ralphgen's own tables but by its journal.

    It is SQLite's authorizer, which is told of triggers too.
    """

    __slots__ = ("refused",)

    def __init__(self) -> None:
        self.refused = False

    def __call__(
        self, action: int, table: str | None, _column: str | None, _base: object, by: str | None
    ) -> int:
        """Return whether a part of a statement is allowed; `by` is the trigger that does it."""
        if action in _WRITING and _is_own(table) and not _is_own(by):
            self.refused = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


def read_records(database: Database, sql: str, values: Sequence[object], most: int) -> Records:
    """Return at most so many rows of a statement, by column; within a transaction that is undone.

    Raises `ToolError` for one that writes.
    """
    connection = database.connection
    before = connection.total_changes
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    try:
        rows, _ = _records(database, sql, values, most)
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    if connection.total_changes != before:
        raise ToolError("project.rows only reads: use project.write")
    return rows


def write_records(
    database: Database, sql: str, values: Sequence[object], most: int
) -> tuple[Records, int]:
    """Return at most so many rows of a statement that writes, and how many it changed.

    Within a transaction, to which what a trigger does belongs too. Raises `ToolError` where it
    writes what ralphgen keeps for itself.
    """
    guard = LedgerGuard()
    database.connection.set_authorizer(guard)
    try:
        return _records(database, sql, values, most)
    except sqlite3.DatabaseError as error:
        if guard.refused:
            raise ToolError(LEDGER) from error
        raise
    finally:
        database.connection.set_authorizer(None)


def _records(
    database: Database, sql: str, values: Sequence[object], most: int
) -> tuple[Records, int]:
    cursor = database.connection.execute(sql, values)
    try:
        names = [column[0] for column in cursor.description or ()]
        rows = kept_records(names, (row for _, row in zip(range(most), cursor, strict=False)))
        return rows, cursor.rowcount
    finally:
        cursor.close()


def _is_own(name: str | None) -> bool:
    return (name or "").lower().startswith(PREFIX)
