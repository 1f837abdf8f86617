"""The visible rows of a database: read, with secrets masked, and spelled as lines of JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ralphgen.exchange.numbers import exact_numbers
from ralphgen.exchange.tables import Key, MovedTable, Row, Value, key_order
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.processes.secrets import MASK, masked_server
from ralphgen.runtime.values.encoding import read_written_json, write_written_json
from ralphgen.terminal.console import escaped

SECRET = ("disciplines", "mcp_servers")

Rows = Mapping[Key, Row]


def read_rows(connection: Snapshot, tables: Mapping[str, MovedTable]) -> Rows:
    """Return the rows of these tables, with secrets masked; some without a key have none.

    Bytes that are no UTF-8 are read as U+FFFD. A list is read as JSON, and as text what JSON has no
    number for, or SQLite no type.
    """
    is_typed = connection.sql.TYPED
    if is_typed:
        exact_numbers(connection)
    rows: dict[Key, Row] = {}
    for name, table in tables.items():
        columns = (_column(column, table.kinds[column], is_typed) for column in table.columns)
        for found in connection.each(f"SELECT {', '.join(columns)} FROM {quoted(name)}"):
            row = dict(zip(table.columns, map(_read, found), strict=True))
            key = table.key_of(row)
            if key is not None:
                rows[name, key] = masked(name, row)
    return rows


def with_json_in_order(rows: Rows, schema: Schema) -> Rows:
    """Return rows with JSON as jsonb is spelled, in columns whose type is JSON or a list.

    There the same value has one spelling only. In SQLite they are texts, which stay as they are.
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
    """Return a row with what may be secret in it masked, as the tool get_discipline does."""
    of, column = SECRET
    if table != of or not row.get(column):
        return row
    return {**row, column: _masked_servers(row[column])}


def unmasked(before: Value, after: Value) -> Value:
    """Return masked MCP servers with the secrets of those that are there and look the same."""
    known = {_spelled(masked_server(server)): server for server in _servers(before) or ()}
    servers = _servers(after)
    if servers is None:
        return before if after == MASK else after
    restored = [known.get(_spelled(server), server) for server in servers]
    return after if restored == servers else _spelled(restored)


def spelled_lines(rows: Rows) -> Iterator[str]:
    """Yield the rows as lines of JSON, by table and key; the same rows give the same lines."""
    for table, key in sorted(rows, key=_order):
        row = {name: _json_value(value) for name, value in sorted(rows[table, key].items())}
        text = json.dumps({"table": table, "row": row}, ensure_ascii=False)
        yield escaped(text) + "\n"


def stored_value(value: Any) -> Value:
    """Return what a value of a line stands for; raises ValueError for what no column can hold."""
    if isinstance(value, dict | list | bool):
        return _stored_object(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a number beyond 64 bits")
    if isinstance(value, str):
        _refuse_half_characters(value)
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


def _stored_object(value: Any) -> Value:
    if value in ({"real": "inf"}, {"real": "-inf"}):
        return float(value["real"])
    if isinstance(value, dict) and [*value] == ["blob"] and isinstance(value["blob"], str):
        return bytes.fromhex(value["blob"])
    raise ValueError("expected a string, a number or null (lists are JSON strings)")


def _refuse_half_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = ord(text[error.start])
        raise ValueError(f"a string contains U+{found:04X}, half of a surrogate pair") from None


def _masked_servers(stored: Value) -> Value:
    servers = _servers(stored)
    return MASK if servers is None else _spelled([masked_server(server) for server in servers])


def _servers(stored: Value) -> list[Any] | None:
    """Return the MCP servers of a discipline's column; None where it holds no list of them."""
    try:
        found = json.loads(stored) if isinstance(stored, str) else None
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(found, list) and all(isinstance(one, dict) for one in found)
    return found if is_list else None


def _spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
