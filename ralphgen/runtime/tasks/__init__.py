"""The rules on tasks, as functions on a database: no session, and no protocol.

This module has the project's tables, as a server needs them at its start, and finds rows in them.
"""

from __future__ import annotations

from ..engine import quoted
from ..errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from ..engine import Database, Snapshot
    from ..session import Session
    from .rows import Ralphgen

    Actor: TypeAlias = "Session | Ralphgen"  # works on tasks


TEXT = "text"
INTEGER = "integer"
REAL = "real"
NUMERIC = "numeric"  # a number, or other text, such as a date
STRINGS = "strings"  # a JSON list of strings, as text
PATHS = "paths"  # a JSON list of paths relative to the project, as text
INTEGERS = "integers"  # a JSON list of integers, as text
OBJECTS = "objects"  # a JSON list of objects, as text
DISCIPLINE = "discipline"  # the name of a discipline, or nothing
# The kinds of lists, with the functions of `rows` that read them.
DECODERS = {
    STRINGS: "decode_strings",
    PATHS: "decode_strings",
    INTEGERS: "decode_integers",
    OBJECTS: "decode_objects",
}
LISTED = 20  # names in a refusal
DATABASE = ".ralph/db/ralph.db"


class StoredTable:
    """One table: its name, its columns, and their argument names.

    `columns` maps each column to one of the kinds above, in schema order. `arguments` maps a column
    to its argument if the column name is not a valid one. `added` are columns that are not in
    SPEC-070: lists show them too.
    """

    __slots__ = ("_columns", "_fields", "_lists", "added", "columns", "name", "quoted")

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
        self._lists: dict[tuple[str, ...], str] = {}  # of quoted columns, as statements have them
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
        """Return a SELECT of the columns; `rest` is trusted SQL (WHERE, ORDER BY)."""
        key = tuple(columns)
        names = self._lists.get(key)
        if names is None:
            names = self._lists[key] = ", ".join(map(quoted, columns))
        return f"SELECT {names} FROM {self.quoted} {rest}"

    def decoded(self, columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as JSON without empty fields; unreadable lists are shown as stored."""
        from . import rows

        record: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for column, value in zip(columns, row, strict=True):
            decode = DECODERS.get(self.columns[column])
            if decode is None:
                record[self._fields[column]] = rows.plain(value)
                continue
            found = getattr(rows, decode)(value)
            if not found.readable:
                unreadable[self._fields[column]] = rows.plain(value)
            record[self._fields[column]] = found.values
        record = {field: value for field, value in record.items() if value not in (None, [], "")}
        return {**record, "unreadable": unreadable} if unreadable else record

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store, by column; ignores arguments that are not columns."""
        return {
            self._columns[field]: self.stored(self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def stored(self, column: str, value: Any) -> Any:
        """Return a value as the column stores it: a list becomes JSON text."""
        from .rows import encode

        return encode(value) if self.columns[column] in DECODERS else value

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the empty values by column; raises `ToolError` for a field that is also set."""
        both = [field for field in fields if field in arguments]
        if both:
            raise ToolError(f'"{both[0]}" is both set and named in "clear": use only one')
        from .rows import EMPTY

        columns = [self._columns[field] for field in fields]
        return {column: EMPTY if self.columns[column] in DECODERS else None for column in columns}

    def paths(self) -> list[str]:
        """Return the columns that hold lists of paths."""
        return [column for column, kind in self.columns.items() if kind == PATHS]

    def field(self, column: str) -> str:
        """Return the argument name of a column."""
        return self._fields[column]

    def insert(self, database: Database, values: Mapping[str, Any]) -> int:
        """Add a row, ignoring values without a column; return its number."""
        columns = self.chosen(values)
        names = ", ".join(quoted(column) for column in columns)
        marks = ", ".join("?" * len(columns))
        number = database.sql.returning("id") if "id" in self else ""
        given = database.sql.GIVEN_NUMBER if "id" in columns else ""
        sql = f"INSERT INTO {self.quoted} ({names}){given} VALUES ({marks}){number}"
        stored = [self._storable(column, values[column]) for column in columns]
        return database.insert(sql, stored)

    def update(
        self, database: Database, key: str, identity: object, values: Mapping[str, Any]
    ) -> None:
        """Update the row whose `key` column is `identity`, ignoring values without a column."""
        columns = self.chosen(values)
        settings = ", ".join(f"{quoted(column)} = ?" for column in columns)
        sql = f"UPDATE {self.quoted} SET {settings} WHERE {quoted(key)} = ?"
        stored = [self._storable(column, values[column]) for column in columns]
        database.change(sql, [*stored, identity])

    def _storable(self, column: str, value: Any) -> Any:
        """Return the value; raises `ToolError` for text that SQLite's own functions would cut."""
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                f'"{self._fields[column]}" contains the character U+0000, which the database '
                "cannot store: remove it"
            )
        return value


class Tables:
    """The tables that the project has; `comments` and `metadata` may be missing.

    `first_status` is the default status of a new task. `ledger` is whether ralphgen's tables exist,
    `takes_reason` whether the reason for a blocked task can be stored, and `may_block` whether
    tasks can be blocked. `database` is the path of the file, relative to the project.
    """

    def __init__(
        self,
        *,
        tasks: StoredTable,
        features: StoredTable,
        disciplines: StoredTable,
        comments: StoredTable | None = None,
        metadata: StoredTable | None = None,
        first_status: str,
        ledger: bool = False,
        takes_reason: bool = True,
        may_block: bool = True,
        database: str = DATABASE,
    ) -> None:
        self.database = database
        self.first_status = first_status
        self.ledger = ledger
        self.takes_reason = takes_reason
        self.may_block = may_block
        self.tasks = tasks
        self.features = features
        self.disciplines = disciplines
        self.comments = comments
        self.metadata = metadata


def refuse_unknown(database: Snapshot, table: StoredTable, name: str, argument: str) -> None:
    """Raise `ToolError`, with the nearest name, if no row of the table has this name."""
    if database.row(table.select(["name"], f"WHERE {database.sql.SAME_NAME}"), [name]):
        return
    from ..values import nearest, shortened  # refusals alone need this module

    names = row_names(database, table)
    near = nearest(name, names)
    hint = f": did you mean {shortened(near)}?" if near else _listed(names)
    raise ToolError(f"there is no {argument} {shortened(name)}{hint}")


def _listed(names: list[str]) -> str:
    if not names:
        return ": there is none yet"
    from ..values import shortened

    shown = ", ".join(shortened(name) for name in names[:LISTED])
    there = "there is only" if len(names) == 1 else "there are"
    return f": {there} {shown}" + (f" and {len(names) - LISTED} more" if names[LISTED:] else "")


def row_names(database: Snapshot, table: StoredTable) -> list[str]:
    """Return the names of a table's rows that are text, sorted."""
    rows = database.rows(table.select(["name"], f"ORDER BY {database.sql.ordered('name')}"))
    return [row[0] for row in rows if isinstance(row[0], str)]


def task_row(
    database: Snapshot, tables: Tables, task: int, columns: Sequence[str]
) -> tuple[Any, ...]:
    """Return these columns of a task; raises `ToolError` if there is no such task."""
    row = database.row(tables.tasks.select(columns, "WHERE id = ?"), [task])
    if row is None:
        from ..values import shortened

        raise ToolError(f"there is no task {shortened(task)}")
    return row
