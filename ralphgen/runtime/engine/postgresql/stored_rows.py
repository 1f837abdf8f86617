"""Rows of the app's tables as undo reads and writes them; see `engine.stored_rows`.

A row is JSON, in the journal and in statements: the server converts it to the types of the columns.
The foreign keys are always checked.
"""

from __future__ import annotations

import json

from .. import quoted
from ..stored_rows import SpelledNumber, values_of
from . import RECORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..stored_rows import Key, Values
    from .database import Database

_NAMES = (
    "(SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]')::text FROM pg_attribute AS a "
    "WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND {})"
)
_OF_KIND = (  # or of a domain on it
    "EXISTS (SELECT 1 FROM pg_type AS t WHERE t.oid = a.atttypid "
    "AND (t.oid IN ({0}) OR t.typbasetype IN ({0})))"
)
_TABLES = f"""
SELECT c.relname::text,
    (SELECT json_agg(a.attname ORDER BY array_position(k.conkey, a.attnum))::text
     FROM pg_constraint AS k JOIN pg_attribute AS a
        ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
     WHERE k.conrelid = c.oid AND k.contype = 'p'),
    {_NAMES.format("a.attgenerated = ''")},
    {_NAMES.format(_OF_KIND.format("'bytea'::regtype"))},
    {_NAMES.format(_OF_KIND.format("'json'::regtype, 'jsonb'::regtype"))}
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition
"""
# By foreign key: its table, as SQL, and its columns; the table and the columns that they refer to.
_REFERENCES = """
SELECT p.relname::text, k.conrelid::regclass::text,
    (SELECT json_agg(a.attname ORDER BY array_position(k.conkey, a.attnum))::text
     FROM pg_attribute AS a WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)),
    (SELECT json_agg(a.attname ORDER BY array_position(k.confkey, a.attnum))::text
     FROM pg_attribute AS a WHERE a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey)),
    k.conrelid = k.confrelid
FROM pg_constraint AS k JOIN pg_class AS p ON p.oid = k.confrelid
WHERE k.contype = 'f' AND k.conparentid = 0
    AND p.relnamespace = quote_ident(current_schema())::regnamespace
"""
_TRIGGERS = """
SELECT c.relname::text, t.tgname::text, t.tgenabled::text
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND NOT t.tgisinternal
    AND t.tgenabled <> 'D' AND t.tgname <> ?
ORDER BY c.relname, t.tgname
"""
_NO_PARENT = "23503"
_ENABLED = {"O": "ENABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}


class JournaledTable:
    """A journaled table: its stored columns, its key, and which columns hold bytes and JSON."""

    number = None

    def __init__(self, name: str, *columns: str) -> None:
        """Take lists of columns as JSON: the key, all stored columns, bytes and JSON."""
        self.name = name
        self.key, self.columns, self.blobs, self.jsons = map(json.loads, columns)

    def encode_values(self, values: Values) -> str:
        """Return values as JSON; the server reads back the same values."""
        return _json({name: self._storable(name, one) for name, one in values.items()})

    def _storable(self, column: str, value: object) -> object:
        if not isinstance(value, bytes):
            return value
        return {"blob": value.hex().upper()} if column in self.jsons else f"\\x{value.hex()}"


class StoredRows:
    """The rows of the journaled tables.

    Undo asks `is_referenced` first, because a foreign key may delete or change other rows.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        tables = [JournaledTable(*row) for row in database.rows(_TABLES) if row[1] is not None]
        self.tables = {table.name: table for table in tables}
        self._references = database.rows(_REFERENCES)

    def read(self, table: str, key: Key) -> list[Values]:
        """Return the row of a key, if it exists."""
        own = self.tables[table]
        where, values = self._where(table, key)
        sql = f"SELECT row_to_json(t)::text FROM {quoted(table)} AS t WHERE {where}"
        found = []
        for (text,) in self._database.rows(sql, values):
            row = values_of(text, nested=True)
            for name in own.blobs:
                if row[name] is not None:
                    row[name] = bytes.fromhex(row[name][2:])
            found.append({name: row[name] for name in own.columns})
        return found

    def insert(self, table: str, values: Values) -> None:
        """Add a row, with its number."""
        names = ", ".join(map(quoted, values))
        made = self._populated(table, values)
        sql = f"INSERT INTO {quoted(table)} ({names}) OVERRIDING SYSTEM VALUE {made}"
        self._database.change(sql, [self.tables[table].encode_values(values)])

    def update(self, table: str, key: Key, values: Values) -> None:
        """Set columns of the row of a key."""
        where, own = self._where(table, key)
        names, row = ", ".join(map(quoted, values)), self._populated(table, values)
        sql = f"UPDATE {quoted(table)} AS t SET ({names}) = ({row}) WHERE {where}"
        self._database.change(sql, [self.tables[table].encode_values(values), *own])

    def delete(self, table: str, key: Key) -> None:
        """Delete the row of a key."""
        where, values = self._where(table, key)
        self._database.change(f"DELETE FROM {quoted(table)} AS t WHERE {where}", values)

    def is_referenced(self, table: str, key: Key, columns: Collection[str] | None) -> bool:
        """Return whether another row refers to these columns of a row, None for all columns."""
        where, values = self._where(table, key)
        for parent, child, *names, within in self._references:
            own, theirs = map(json.loads, names)
            if parent != table or not (columns is None or {*theirs} & {*columns}):
                continue
            pairs = zip(own, theirs, strict=True)
            same = " AND ".join(f"c.{quoted(here)} = t.{quoted(there)}" for here, there in pairs)
            if within:  # the row may refer to itself
                itself = (f"c.{quoted(one)} = t.{quoted(one)}" for one in self.tables[table].key)
                same = f"{same} AND NOT ({' AND '.join(itself)})"
            sql = f"SELECT 1 FROM {quoted(table)} AS t JOIN {child} AS c ON {same}"
            if self._database.row(f"{sql} WHERE {where} LIMIT 1", values) is not None:
                return True
        return False

    def is_orphan(self, error: Exception) -> bool:
        """Return whether a row was refused because it refers to a row that does not exist."""
        return getattr(error, "sqlstate", "") == _NO_PARENT

    def without_triggers(self, tables: Collection[str], work: Callable[[], None]) -> None:
        """Run `work` without the triggers of the app on these tables."""
        triggers = [row for row in self._database.rows(_TRIGGERS, [RECORD]) if row[0] in tables]
        for table, name, _ in triggers:
            self._database.change(f"ALTER TABLE {quoted(table)} DISABLE TRIGGER {quoted(name)}")
        self._database.change("SET CONSTRAINTS ALL IMMEDIATE")
        work()
        for table, name, how in triggers:
            enabled = f"{_ENABLED[how]} TRIGGER {quoted(name)}"
            self._database.change(f"ALTER TABLE {quoted(table)} {enabled}")

    def _where(self, table: str, key: Key) -> tuple[str, list[object]]:
        """Return the condition that finds a row `t`, with its value."""
        own = self.tables[table]
        names = ", ".join(f"t.{quoted(name)}" for name in own.key)
        values = dict(zip(own.key, key, strict=True))
        return f"({names}) = ({self._populated(table, values)})", [own.encode_values(values)]

    @staticmethod
    def _populated(table: str, columns: Collection[str]) -> str:
        """Return the SELECT of columns from a JSON row."""
        names = ", ".join(map(quoted, columns))
        return f"SELECT {names} FROM json_populate_record(NULL::{quoted(table)}, ?::json)"


def _json(value: object) -> str:
    """Return a value as JSON, with the digits of its numbers."""
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}: {_json(one)}" for name, one in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    return value.text if isinstance(value, SpelledNumber) else json.dumps(value)
