"""Rows of the app's tables as undo reads and writes them; see `engine.stored_rows`.

The connection reads text with `keep_bytes`: bytes that are not UTF-8 are written back as read.
"""

from __future__ import annotations

import re

from .. import quoted
from .journal import watched_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..stored_rows import Key, Values
    from .database import Database

_TRIGGERS = "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' ORDER BY rowid"
_SURROGATES = re.compile("[\ud800-\udfff]")


class StoredRows:
    """The rows of the journaled tables, without foreign keys."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tables = {table.name: table for table in watched_tables(database)}

    def read(self, table: str, key: Key) -> list[Values]:
        """Return the rows of a key: several, if the key may be NULL."""
        columns = self.tables[table].columns
        where, values = self._where(table, key)
        sql = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)} WHERE {where}"
        return [dict(zip(columns, row, strict=True)) for row in self._database.rows(sql, values)]

    def insert(self, table: str, values: Values) -> None:
        """Add a row."""
        names, places = ", ".join(map(quoted, values)), ", ".join(map(_place, values.values()))
        # Overrides ON CONFLICT REPLACE of a UNIQUE, which would delete another row.
        sql = f"INSERT OR ABORT INTO {quoted(table)} ({names}) VALUES ({places})"
        self._database.change(sql, [*map(_bind_value, values.values())])

    def update(self, table: str, key: Key, values: Values) -> None:
        """Set columns of the rows of a key; never replaces another row."""
        settings = ", ".join(f"{quoted(name)} = {_place(one)}" for name, one in values.items())
        where, own = self._where(table, key)
        sql = f"UPDATE OR ABORT {quoted(table)} SET {settings} WHERE {where}"
        self._database.change(sql, [*map(_bind_value, values.values()), *own])

    def delete(self, table: str, key: Key) -> None:
        """Delete the rows of a key."""
        where, values = self._where(table, key)
        self._database.change(f"DELETE FROM {quoted(table)} WHERE {where}", values)

    def is_referenced(self, _table: str, _key: Key, _columns: Collection[str] | None) -> bool:
        """Return False: the foreign keys are ignored."""
        return False

    def is_orphan(self, _error: Exception) -> bool:
        """Return False: the foreign keys are ignored."""
        return False

    def without_triggers(self, _tables: Collection[str], work: Callable[[], None]) -> None:
        """Run `work` without the triggers of the app."""
        triggers = self._database.rows(_TRIGGERS)
        for name, _ in triggers:
            self._database.change(f"DROP TRIGGER main.{quoted(name)}")
        work()
        for _, sql in triggers:
            self._database.change(sql)

    def _where(self, table: str, key: Key) -> tuple[str, list[object]]:
        """Return the condition that finds a row, with its values."""
        names = zip(self.tables[table].key, key, strict=True)
        parts = [f"{quoted(name)} COLLATE BINARY IS {_place(value)}" for name, value in names]
        return " AND ".join(parts), [*map(_bind_value, key)]


def _place(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, str) and _SURROGATES.search(value) else "?"


def _bind_value(value: object) -> object:
    """Return a value to bind: text that is not UTF-8 as its bytes."""
    if isinstance(value, str) and _SURROGATES.search(value):
        return value.encode("utf-8", "surrogateescape")
    return value
