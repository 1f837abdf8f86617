"""How the rows of one table become JSON and back, by the columns that the project has."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import ToolError

from .json_columns import decode_integers, decode_objects, decode_strings, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.sqlite.database import Database

TEXT = "text"
INTEGER = "integer"
REAL = "real"
NUMERIC = "numeric"  # a number, or text that is none, such as a date
STRINGS = "strings"  # a JSON list of strings, as text
PATHS = "paths"  # a JSON list of paths relative to the project, as text
INTEGERS = "integers"  # a JSON list of integers, as text
OBJECTS = "objects"  # a JSON list of objects, as text
DISCIPLINE = "discipline"  # the name of a discipline, or nothing

_INFINITY = float("inf")
DECODERS = {
    STRINGS: decode_strings,
    PATHS: decode_strings,
    INTEGERS: decode_integers,
    OBJECTS: decode_objects,
}


class Table:
    """One table: its name, what each column holds, and the arguments that go by other names.

    `columns` maps each column to one of the kinds above, in the schema's order. `arguments` maps
    a column to the name under which tools offer it, where the column's own name is no legal one.
    `added` are columns that SPEC-070 does not know: lists show them too.
    """

    __slots__ = ("_columns", "_fields", "added", "columns", "name", "quoted")

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        *,
        added: Sequence[str] = (),
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.quoted = quoted(name)
        self.columns = columns
        self.added = added
        self._fields = {column: (arguments or {}).get(column, column) for column in columns}
        self._columns = {field: column for column, field in self._fields.items()}

    def __contains__(self, column: str) -> bool:
        """Return whether the project's table has this column."""
        return column in self.columns

    def chosen(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that the table has, in the given order."""
        return [column for column in columns if column in self.columns]

    def select(self, columns: Sequence[str], rest: str = "") -> str:
        """Return a SELECT of the columns; `rest` is SQL text of our own (WHERE, ORDER BY)."""
        names = ", ".join(quoted(column) for column in columns)
        return f"SELECT {names} FROM {self.quoted} {rest}"

    def decoded(self, columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as JSON without empty fields; unreadable lists are shown as stored."""
        record: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for column, value in zip(columns, row, strict=True):
            decode = DECODERS.get(self.columns[column])
            if decode is None:
                record[self._fields[column]] = plain(value)
                continue
            found = decode(value)
            if not found.readable:
                unreadable[self._fields[column]] = plain(value)
            record[self._fields[column]] = found.values
        record = {field: value for field, value in record.items() if value not in (None, [], "")}
        return {**record, "unreadable": unreadable} if unreadable else record

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store by column, of those arguments that are columns."""
        return {
            self._columns[field]: self.stored(self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def stored(self, column: str, value: Any) -> Any:
        """Return a value as the column stores it: a list becomes JSON text."""
        return encode(value) if self.columns[column] in DECODERS else value

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the empty values by column; raises `ToolError` for a field that is also set."""
        both = [field for field in fields if field in arguments]
        if both:
            raise ToolError(f'"{both[0]}" is both set and named in "clear": do one of the two')
        columns = [self._columns[field] for field in fields]
        return {column: "[]" if self.columns[column] in DECODERS else None for column in columns}

    def field(self, column: str) -> str:
        """Return the name under which tools offer a column."""
        return self._fields[column]

    def insert(self, database: Database, values: Mapping[str, Any]) -> int:
        """Add a row of those values whose columns exist; returns its rowid."""
        columns = self.chosen(values)
        names = ", ".join(quoted(column) for column in columns)
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {self.quoted} ({names}) VALUES ({marks})"
        stored = [self._storable(column, values[column]) for column in columns]
        cursor = database.connection.execute(sql, stored)
        return cursor.lastrowid or 0

    def update(
        self, database: Database, key: str, identity: object, values: Mapping[str, Any]
    ) -> None:
        """Set those values whose columns exist, on the row whose `key` column is `identity`."""
        columns = self.chosen(values)
        settings = ", ".join(f"{quoted(column)} = ?" for column in columns)
        sql = f"UPDATE {self.quoted} SET {settings} WHERE {quoted(key)} = ?"
        stored = [self._storable(column, values[column]) for column in columns]
        database.change(sql, [*stored, identity])

    def _storable(self, column: str, value: Any) -> Any:
        """Return the value; raises `ToolError` for text that SQLite's own functions would cut."""
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                f'"{self._fields[column]}" holds the character U+0000, which the database cannot '
                "hold: leave it out"
            )
        return value


def quoted(name: str) -> str:
    """Return an SQL identifier for any name."""
    return '"' + name.replace('"', '""') + '"'


def plain(value: Any) -> Any:
    """Return a stored value as JSON: infinity as text, and blobs, which old tables hold as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, float) and abs(value) == _INFINITY else value


def today() -> str:
    """Return the date in UTC, as tasks, features and metadata store it: 2026-02-10."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def now() -> str:
    """Return the moment in UTC, as comments and recipes store it: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_offset() -> str:
    """Return the moment in UTC, as learnings store it: 2026-02-10T17:56:00+00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
