"""The visible rows of a database: read, with secrets masked, and spelled as lines of JSON."""

import json
import math
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, RalphgenError, Say, counted, plain, suggestion
from ralphgen.files import MARK, decoded
from ralphgen.kits.project import Project
from ralphgen.project.database import FileSnapshot, Snapshot, open_database, open_without_trace
from ralphgen.project.inspect import key_of
from ralphgen.project.model import Names, Schema, Table
from ralphgen.project.root import CONFIG
from ralphgen.project.schema import table_names
from ralphgen.runtime.encoding import read_written_json, write_written_json
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.ledger import PREFIX
from ralphgen.runtime.files import read_file, reason
from ralphgen.runtime.processes.secrets import MASK, masked_server
from ralphgen.runtime.tasks import decode_integers, decode_strings, encode
from ralphgen.terminal.console import escaped

TABLES = ("metadata", "disciplines", "features", "tasks", "task_comments", "recipe_configs")
"""ralphgen's own tables that can be moved; a row refers only to earlier tables."""

Value = str | int | float | bytes | None
RowKey = str | int | float | bytes | tuple[Value, ...]
Key = tuple[str, RowKey]
"""A table and the key of a row: one value, or a tuple of values."""

Row = Mapping[str, Value]

_PLAIN = {type(None), str, int, bytes}  # types of values that need no conversion
_WRITTEN = {type(None), str, int}
_SPELL = json.JSONEncoder(ensure_ascii=False).encode
_KEYS = {"metadata": "id", "tasks": "id", "task_comments": "id"}
_REFERENCE = re.compile(r"(.+)\((.+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table: the moved columns, sorted, and its key columns.

    `kinds` are the kinds of its columns, as `read_tables` names them. `references` maps columns to
    the table and the column that they refer to, and `optional` are the nullable columns. `lacking`
    are required hidden columns, without which no row can be added. `is_ralphs` is set for one of
    `TABLES`, in a project that has these.
    """

    name: str
    columns: Names
    key: Names
    kinds: Mapping[str, str]
    references: Mapping[str, tuple[str, str]]
    optional: frozenset[str]
    lacking: Names
    is_ralphs: bool

    def key_of(self, row: Row) -> RowKey | None:
        """Return the key of a row, or None if a part of it is missing."""
        values = tuple(row.get(column) for column in self.key)
        if None in values:
            return None
        return values[0] if len(values) == 1 else values


def key_column(table: str) -> str:
    """Return the key column of one of `TABLES`."""
    return _KEYS.get(table, "name")


def key_values(key: RowKey) -> tuple[Value, ...]:
    """Return the values of a key, one for each of its columns."""
    return key if isinstance(key, tuple) else (key,)


def table_order(table: str) -> tuple[int, str]:
    """Return what sorts ralphgen's own tables before all others."""
    return (TABLES.index(table) if table in TABLES else len(TABLES)), table


def key_order(key: RowKey) -> list[tuple[int, Value]]:
    """Return what sorts keys: numbers, then texts, then bytes."""
    ranks: dict[type, int] = {str: 1, bytes: 2}
    return [(ranks.get(type(value), 0), value) for value in key_values(key)]


def moved_tables(
    schema: Schema, stored: Collection[str], ralphs: Collection[str]
) -> dict[str, MovedTable]:
    """Return the tables whose rows are moved, by name, ralphgen's own first.

    These are the servers' tables that are `stored` as tables and have a visible key. `ralphs` are
    `TABLES`, or empty in a project without tasks.
    """
    found = (
        _moved(schema, table, is_ralphs=table.name in ralphs) for table in _stored(schema, stored)
    )
    moved = [table for table in found if table.key and {*table.key} <= {*table.columns}]
    return {table.name: table for table in sorted(moved, key=lambda one: table_order(one.name))}


def exclusions(schema: Schema, stored: Collection[str], ralphs: Collection[str]) -> Iterator[str]:
    """Yield a message for each table that cannot be moved, or to which no row can be added."""
    moved = moved_tables(schema, stored, ralphs)
    for table in _stored(schema, stored):
        if table.name not in moved and table.name not in ralphs:
            yield f'left out: "{table.name}" has no primary key to identify its rows'
    yield from (f"warning: {no_rows(one)}" for one in moved.values() if one.lacking)


def no_rows(table: MovedTable) -> str:
    """Return the sentence on a table whose hidden columns keep new rows out."""
    named = ", ".join(f'"{column}"' for column in table.lacking)
    return f'rows of "{table.name}" cannot be added elsewhere: {named} is required but hidden'


def _stored(schema: Schema, stored: Collection[str]) -> list[Table]:
    names = {schema.folded(name) for name in stored}
    tables = (table for table in schema.tables if not table.name.startswith(PREFIX))
    return [table for table in tables if schema.folded(table.name) in names]


def _moved(schema: Schema, table: Table, *, is_ralphs: bool) -> MovedTable:
    key = (key_column(table.name),) if is_ralphs else key_of(table)
    stored = [column for column in table.columns if not column.generated]
    columns = [one for one in stored if not schema.hidden(table.name, one.name)]
    references = {
        one.name: (found[1], found[2])
        for one in columns
        if (found := _REFERENCE.fullmatch(one.references or ""))
    }
    return MovedTable(
        name=table.name,
        columns=tuple(sorted(one.name for one in columns)),
        key=key,
        kinds={one.name: one.type for one in columns},
        references=references,
        optional=frozenset(one.name for one in columns if not one.not_null),
        lacking=tuple(
            one.name
            for one in stored
            if one not in columns and one.not_null and one.default is None
        ),
        is_ralphs=is_ralphs,
    )


def exact_numbers(connection: Snapshot) -> None:
    """Have a connection read numerics as numbers where these are the same, else as their text.

    JSON is read as its text.
    """
    from psycopg.adapt import Buffer, Loader
    from psycopg.types.string import TextLoader

    class NumericLoader(Loader):
        """Reads a number of any length."""

        def load(self, data: Buffer) -> str | int | float:
            """Return it as a number that a column of SQLite can hold, else as text."""
            return number(bytes(data).decode())

    connection.connection.adapters.register_loader("numeric", NumericLoader)
    connection.connection.adapters.register_loader("jsonb", TextLoader)


def number(text: str) -> str | int | float:
    """Return the number in a text, or the text if no number of 64 bits equals it."""
    if text.lstrip("-").isdecimal():
        return int(text) if -(2**63) <= int(text) < 2**63 else text
    near = float(text)
    return near if Decimal(repr(near)) == Decimal(text) else text


SECRET = ("disciplines", "mcp_servers")

Rows = Mapping[Key, Row]


def read_rows(connection: Snapshot, tables: Mapping[str, MovedTable]) -> Rows:
    """Return the rows of these tables, with secrets masked; some without a key have none.

    Bytes that are not UTF-8 are read as U+FFFD. Lists are read as JSON, and values without a JSON
    number or an SQLite type as text.
    """
    is_typed = connection.sql.TYPED
    if is_typed:
        exact_numbers(connection)
    rows: dict[Key, Row] = {}
    for name, table in tables.items():
        columns = (_column(column, table.kinds[column], is_typed) for column in table.columns)
        for found in connection.each(f"SELECT {', '.join(columns)} FROM {quoted(name)}"):
            values = [one if type(one) in _PLAIN else _read(one) for one in found]
            row = dict(zip(table.columns, values, strict=True))
            key = table.key_of(row)
            if key is not None:
                rows[name, key] = masked(name, row)
    return rows


def with_json_in_order(rows: Rows, schema: Schema) -> Rows:
    """Return rows with JSON formatted as jsonb, in columns whose type is JSON or a list.

    PostgreSQL has a single form of each value. In SQLite these values are texts, which are
    unchanged.
    """
    kinds = {
        (table.name, column.name)
        for table in schema.tables
        for column in table.columns
        if column.type == "JSON" or column.type.endswith("[]")
    }
    if not kinds:
        return rows
    return {
        key: {
            name: _json_in_order(value) if (key[0], name) in kinds else value
            for name, value in row.items()
        }
        for key, row in rows.items()
    }


def masked(table: str, row: Row) -> Row:
    """Return a row with possible secrets masked, as the tool get_discipline does."""
    of, column = SECRET
    if table != of or not row.get(column):
        return row
    servers = _servers(row[column])
    return {
        **row,
        column: (
            MASK
            if servers is None
            else _encode_value([masked_server(server) for server in servers])
        ),
    }


def unmasked(before: Value, after: Value) -> Value:
    """Return masked MCP servers with the secrets of existing servers that look the same."""
    known = {_encode_value(masked_server(server)): server for server in _servers(before) or ()}
    servers = _servers(after)
    if servers is None:
        return before if after == MASK else after
    restored = [known.get(_encode_value(server), server) for server in servers]
    return after if restored == servers else _encode_value(restored)


def encode_rows(rows: Rows) -> Iterator[str]:
    """Yield the rows as lines of JSON, by table and key; the same rows give the same lines."""
    for key in sorted(rows, key=_order):
        yield encode_row(key[0], rows[key]) + "\n"


def encode_row(table: str, row: Row) -> str:
    """Return a row as a line of JSON, without the line end."""
    values = {
        name: value if type(value) in _WRITTEN else _json_value(value)
        for name, value in sorted(row.items())
    }
    return escaped(_SPELL({"table": table, "row": values}))


def stored_value(value: Any) -> Value:
    """Return the value that a line represents; raises ValueError if no column can store it."""
    if isinstance(value, dict | list | bool):
        if value in ({"real": "inf"}, {"real": "-inf"}):
            return float(value["real"])
        if isinstance(value, dict) and [*value] == ["blob"] and isinstance(value["blob"], str):
            return bytes.fromhex(value["blob"])
        raise ValueError("expected a string, a number or null (lists are JSON strings)")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a number beyond 64 bits")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            found = ord(value[error.start])
            raise ValueError(f"a string contains U+{found:04X}, half of a surrogate pair") from None
    stored: Value = value
    return stored


def same(one: Value, other: Value) -> bool:
    """Return whether two values are stored as the same: 1 is not 1.0."""
    return type(one) is type(other) and one == other


def _column(name: str, kind: str, is_typed: bool) -> str:
    """Return what selects a column; if it is typed, lists as JSON, and other types as text."""
    if is_typed and kind.endswith("[]"):
        return f"to_json({quoted(name)})::text"
    return f"{quoted(name)}::text" if is_typed and kind in ("ANY", "OPAQUE") else quoted(name)


def _read(value: Any) -> Value:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    known = value is None or isinstance(value, str | int | float | bytes)
    return value if known else str(value)


def _json_in_order(value: Value) -> Value:
    """Return the JSON of a text without spaces, and with its keys as jsonb puts them in order."""
    try:
        if not isinstance(value, str):
            return value
        return write_written_json(_in_order(read_written_json(value)))
    except (ValueError, RecursionError):
        return value


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_in_order, value)]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (len(key.encode(errors="replace")), key))
    return {key: _in_order(value[key]) for key in keys}


def _order(key: Key) -> tuple[str, Any]:
    return key[0], key_order(key[1])


def _json_value(value: Value) -> Any:
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    if isinstance(value, float) and math.isinf(value):
        return {"real": str(value)}
    return value


def _servers(stored: Value) -> list[Any] | None:
    """Return the MCP servers in a discipline's column, or None if it has no list of them."""
    try:
        found = json.loads(stored) if isinstance(stored, str) else None
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(found, list) and all(isinstance(one, dict) for one in found)
    return found if is_list else None


def _encode_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


LARGEST = 256 * 1024 * 1024  # bytes


def read_text(path: Path) -> str:
    """Return the text of a file; raise `ProjectError` if it is unreadable or not UTF-8."""
    return decoded(_data(path), str(path)).removeprefix(MARK)


def read_peer_text(path: Path) -> str:
    """Return the text of another tool's file, with a mark for each byte that is not UTF-8.

    Raises `ProjectError` if it cannot be read.
    """
    return _data(path).decode("utf-8", "replace").removeprefix(MARK)


def _data(path: Path) -> bytes:
    try:
        data, size = read_file(str(path), LARGEST)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        hint = "choose a file that you can read"
        raise ProjectError(f'"{path}" cannot be read: {why}', hint) from error
    if size > LARGEST:
        raise ProjectError(f'"{path}" is larger than {LARGEST:,} bytes', "import it in parts")
    return data


NAMED_ROWS = 20  # problems of one file
LARGEST_NUMBER = 2**53 - 1
"""The largest integer that each reader of JSON has; a row after it still finds a number."""
MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
"""The markers that git writes around a merge conflict."""


class _StrangeRowError(ValueError):
    """A row is of a table that is not moved, or is known by other columns than now."""


def read_lines(
    path: Path,
    tables: Mapping[str, MovedTable],
    *,
    is_own: bool = False,
    left_out: list[str] | None = None,
) -> Rows:
    """Return the rows of a file; raise `ProjectError` for an unreadable line.

    `tables` are the project's tables. A file `is_own` if ralphgen keeps it: rows that could be
    moved when it was written but no longer can are left out. If `left_out` is a list, unreadable
    lines are added to it, unless they are conflict markers of git or no line is readable.
    """
    return lines_in(read_text(path), str(path), tables, is_own=is_own, left_out=left_out)


def lines_in(
    text: str,
    path: str,
    tables: Mapping[str, MovedTable],
    *,
    is_own: bool = False,
    left_out: list[str] | None = None,
    known: Mapping[str, tuple[Key, Row]] | None = None,
) -> Rows:
    """Return the rows in a text as `read_lines` does; `path` is its place in messages.

    `known` has the rows of lines that need not be read again.
    """
    known = known or {}
    rows: dict[Key, Row] = {}
    problems: list[Problem] = []
    first: Problem | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if (old := known.get(line)) and old[0] not in rows:
            rows[old[0]] = old[1]
            continue
        if not line.strip():
            continue
        try:
            key, row = _parsed(line, rows, tables)
        except (ValueError, RecursionError) as error:
            if left_out is not None and not line.startswith(MARKERS):
                hint = _hint(line, error)
                more = f" ({hint})" if isinstance(error, _StrangeRowError) else ""
                left_out.append(f"{path}:{number}: {_why(error)}{more}")
                first = first or Problem(f"{path}:{number}: {_why(error)}", hint)
            elif not (is_own and isinstance(error, _StrangeRowError)):
                problems.append(Problem(f"{path}:{number}: {_why(error)}", _hint(line, error)))
        else:
            rows[key] = row
        if len(problems) == NAMED_ROWS:
            break
    if first and not rows:
        problems.append(first)
    if problems:
        raise ProjectError.of(problems)
    return rows


def refuse_unknown_columns(rows: Rows, columns: Mapping[str, Sequence[str]], shown: str) -> None:
    """Raise `ProjectError` for tables and columns that the project does not have, or hides."""
    known = {table: {*names} for table, names in columns.items()}
    named: dict[tuple[str, str], None] = {}
    for (table, _), row in rows.items():
        if not row.keys() <= known.get(table, set()):
            named.update(((table, column), None) for column in row)
    problems = [
        Problem(
            f'{shown}: this project has no column "{table}.{column}"',
            suggestion(column, columns[table], f'the columns of "{table}"')
            if table in columns
            else "migrate this database to the schema of the other project first",
        )
        for table, column in named
        if column not in columns.get(table, ())
    ]
    if problems:
        raise ProjectError.of(problems[:NAMED_ROWS])


def key_label(key: Key) -> str:
    """Return what people call a row."""
    table, values = key[0], key_values(key[1])
    words = {"tasks": "task", "task_comments": "comment"}
    if table in words and [*map(type, values)] == [int]:
        return f"{words[table]} {_preview_value(values[0])}"
    return f'the row "{", ".join(map(_preview_value, values))}" of {table}'


def _preview_value(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _parsed(line: str, before: Rows, tables: Mapping[str, MovedTable]) -> tuple[Key, Row]:
    """Return the key and the values of a line; raises ValueError or RecursionError.

    `before` are the rows of the lines before.
    """
    found = json.loads(
        line, object_pairs_hook=_once, parse_constant=_refuse_constant, parse_int=_integer
    )
    if not isinstance(found, dict) or {*found} != {"table", "row"}:
        raise ValueError('expected an object with "table" and "row"')
    name, row = found["table"], found["row"]
    table = tables.get(name) if isinstance(name, str) else None
    if table is None:
        raise _StrangeRowError(f"rows of {json.dumps(name)[:60]} cannot be imported")
    values = dict(_values(row)) if isinstance(row, dict) else {}
    found_key = table.key_of(values)
    if found_key is None or not (
        not table.is_ralphs or isinstance(found_key, str if table.key == ("name",) else int)
    ):
        raise _StrangeRowError(_no_key(table))
    if table.is_ralphs and isinstance(found_key, int) and found_key > LARGEST_NUMBER:
        raise ValueError(f"invalid id {found_key}: the maximum is {LARGEST_NUMBER}")
    if (name, found_key) in before:
        raise ValueError(f"{key_label((name, found_key))} occurs twice")
    return (name, found_key), values


def _no_key(table: MovedTable) -> str:
    named = ", ".join(f'"{column}"' for column in table.key)
    if table.is_ralphs:
        return f"{named} is missing or not a {'string' if table.key == ('name',) else 'number'}"
    return f"{named} is missing"


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for column, value in row.items():
        try:
            yield column, stored_value(value)
        except ValueError as error:
            raise ValueError(f'"{column}": {error}') from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _integer(digits: str) -> int:
    if len(digits) > len(str(-(2**63))):  # above this, Python raises an error about its own limit
        raise ValueError("a number beyond 64 bits")
    return int(digits)


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"invalid JSON: {error.msg} (column {error.colno})"
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _hint(line: str, error: Exception) -> str:
    if line.startswith(MARKERS):
        return "resolve the merge conflicts in the file first"
    if isinstance(error, _StrangeRowError):
        return f"add your own tables to {CONFIG} as [tables.NAME]"
    return "export the file again, or name its format with --from"


NUL = "a string contains the character U+0000, which the database cannot store"
_FROM_TEXT = ("NUMERIC", "DECIMAL", "ANY", "OPAQUE", "BOOLEAN", "REAL")
_NUMBERS = ("depends_on",)  # lists that older programs wrote as 1;2, of numbers and not of texts


def encode_value(kind: str, column: str, value: Any) -> Any:
    """Return a value for a column of a kind, as `read_tables` names it.

    Lists that are not JSON, as older programs wrote them, become JSON if a column requires it.
    Raises `ValueError` for values that the column cannot store, as far as that is known.
    """
    if value is None:
        return None
    if isinstance(value, str) and "\0" in value:
        raise ValueError(NUL)
    if kind == "BLOB" or isinstance(value, bytes):
        return _as_bytes(kind, value)
    if kind == "JSON":
        return _as_json(column, value)
    if kind.endswith("[]"):
        return _array(kind, column, value)
    if isinstance(value, float) and kind == "INTEGER":
        if not value.is_integer():
            raise ValueError(f"{value} does not fit the integer column")
        return int(value)
    # The server makes the value of the column from a number as text, yes or no too.
    return str(value) if kind in _FROM_TEXT else value


def _as_bytes(kind: str, value: Any) -> bytes:
    if kind != "BLOB":
        raise ValueError(f"bytes do not fit the {kind.lower()} column")
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise ValueError("a number does not fit the bytea column")


def _as_json(column: str, value: Any) -> str:
    """Return JSON text that jsonb takes: it has no NUL in it, and no half of a character."""
    text = value if isinstance(value, str) else repr(value)
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return encode(_items(column, value))
    if "\\u" in text:
        _refuse_unstorable(json.dumps(found, ensure_ascii=False))
    return text


def _array(kind: str, column: str, value: Any) -> str:
    """Return a stored list as an array's text; raise `ValueError` for other values."""
    try:
        found = json.loads(value, parse_float=str, parse_int=str, parse_constant=_refused)
        if kind == "JSON[]" and isinstance(found, list):  # items may be nested lists
            items = read_written_json(value)
            found = [None if one is None else write_written_json(one) for one in items]
    except (ValueError, TypeError, RecursionError):
        found = None
    text = _array_text(found if isinstance(found, list) else _items(column, value))
    _refuse_unstorable(text)
    return text


def _array_text(item: Any) -> str:
    if isinstance(item, list):
        return f"{{{','.join(map(_array_text, item))}}}"
    if item is None:
        return "NULL"
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _items(column: str, value: Any) -> list[Any]:
    """Return the items of a stored list; raise `ValueError` for other values."""
    decoded = (decode_integers if column in _NUMBERS else decode_strings)(value)
    if not decoded.readable:
        raise ValueError("invalid JSON, which the column requires")
    for item in decoded.values:
        _refuse_unstorable(str(item))
    return decoded.values


def _refuse_unstorable(text: str) -> None:
    if "\0" in text or "\\u0000" in text:
        raise ValueError(NUL)
    half = re.search("[\ud800-\udfff]", text)
    if half:
        raise ValueError(f"a string contains U+{ord(half[0]):04X}, half of a surrogate pair")


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


@dataclass(frozen=True, slots=True)
class Own:
    """The rows of a project, their tables, and its schema.

    With `is_typed`, a column holds values of its kind only; in a file of SQLite any column may hold
    any value. `notes` report the tables and rows that cannot be moved. `ralphs` are the tables of
    tasks, features, disciplines and so on: empty in a project without tasks.
    """

    rows: Rows
    tables: Mapping[str, MovedTable]
    schema: Schema
    is_typed: bool
    notes: tuple[str, ...]
    ralphs: Names

    @property
    def has_tasks(self) -> bool:
        """Whether there are tasks, features and disciplines, which refer to each other."""
        return bool(self.ralphs)

    def ordered(self, rows: Rows) -> Rows:
        """Return rows from elsewhere with JSON in the format of this database."""
        return with_json_in_order(rows, self.schema) if self.is_typed else rows


def ralphs_tables(root: Path) -> Names:
    """Return `TABLES`, or nothing in a project of tables alone: there no name has a meaning."""
    return () if Project(root).serves_any_database else TABLES


def read_own(root: Path) -> Own:
    """Return the rows of the project in `root`; raises `ProjectError` if they are unreadable."""
    with open_database(root) as connection:
        return own_of(connection, root)


def own_of(connection: Snapshot, root: Path) -> Own:
    """Return the rows of a database that has the settings of the project in `root`."""
    schema = Project(root).schema_in(connection)
    stored = table_names(connection)
    ralphs = ralphs_tables(root)
    tables = moved_tables(schema, stored, ralphs)
    rows = read_rows(connection, tables)
    is_typed = connection.sql.TYPED
    notes = (*exclusions(schema, stored, ralphs), *_without_key(connection, tables))
    own = Own(rows, tables, schema, is_typed, notes, ralphs)
    return replace(own, rows=own.ordered(rows))


def read_database_file(file: Path, root: Path) -> Own:
    """Return the rows of another project's SQLite file that our settings make visible."""
    with opened_file(file) as connection:
        return own_of(FileSnapshot(connection), root)


@contextmanager
def opened_file(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the database of another project; raises `ProjectError` if it is none."""
    try:
        with open_without_trace(file) as connection:
            yield connection
    except sqlite3.Error as error:
        raise unreadable(file, error) from error
    except ProjectError as error:
        problem = error.problems[0]
        if "ralphgen init" not in problem.hint:  # that hint is for this project's database
            raise
        raise ProjectError(problem.text, "choose the database of a project") from error


def unreadable(file: Path, error: sqlite3.Error) -> ProjectError:
    """Return the error for a file that SQLite cannot read."""
    text = f'"{file}" cannot be read: {error}'
    return ProjectError(text, "check that it is an intact SQLite database")


def _without_key(connection: Snapshot, tables: Mapping[str, MovedTable]) -> Iterator[str]:
    """Yield a message for each table with rows without a key, which SQLite allows."""
    for name, table in tables.items():
        if table.is_ralphs:
            continue
        missing = " OR ".join(f"{quoted(column)} IS NULL" for column in table.key)
        sql = f"SELECT count(*) FROM {quoted(name)} WHERE {missing}"
        ((count,),) = connection.rows(sql)
        if count:
            yield f'left out: {counted(count, "row")} of "{name}" without a key'


HINT = "fix these records, or import the others without --strict"


def refusal_of(left_out: Sequence[str], hint: str = HINT) -> RalphgenError:
    """Return the error that names the records in their order, and changes nothing."""
    further = len(left_out) - NAMED_ROWS
    more = [counted(further, "further unreadable record")] * (further > 0)
    *others, last = [*left_out[:NAMED_ROWS], *more]
    error = ProjectError(last)
    error.problems = (*map(Problem, others), Problem(last, hint))
    return error


def report_left_out(left_out: Sequence[str], say: Say) -> None:
    """Name the records, and count them."""
    for line in left_out:
        say(f"left out {plain(line)}")
    if left_out:
        count = len(left_out)
        say(f"warning: left out {count:,} unreadable {'record' if count == 1 else 'records'}")
