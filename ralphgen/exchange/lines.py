"""Reads lines that an export wrote, with every problem at its line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.exchange.files import read_text
from ralphgen.exchange.rows import Rows, stored_value
from ralphgen.exchange.tables import (
    Key,
    MovedTable,
    Row,
    RowKey,
    Value,
    key_values,
)
from ralphgen.project.root import CONFIG
from ralphgen.suggestion import suggestion

SHOWN = 20  # problems of one file
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

    `tables` are those that the project has. A file `is_own` if ralphgen keeps it: rows that could
    be moved when it was written, and cannot any more, are left out. With the list `left_out`,
    unreadable lines are added to it, unless git has left them or no line is readable.
    """
    rows: dict[Key, Row] = {}
    problems: list[Problem] = []
    first: Problem | None = None
    for number, line in enumerate(read_text(path).split("\n"), start=1):
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
        if len(problems) == SHOWN:
            break
    if first and not rows:
        problems.append(first)
    if problems:
        raise ProjectError.of(problems)
    return rows


def refuse_unknown_columns(rows: Rows, columns: Mapping[str, Sequence[str]], shown: str) -> None:
    """Raise `ProjectError` for tables and columns that the project does not have, or hides."""
    named: dict[tuple[str, str], None] = {}
    for (table, _), row in rows.items():
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
        raise ProjectError.of(problems[:SHOWN])


def shown_key(key: Key) -> str:
    """Return what people call a row."""
    table, values = key[0], key_values(key[1])
    words = {"tasks": "task", "task_comments": "comment"}
    if table in words and [*map(type, values)] == [int]:
        return f"{words[table]} {_shown(values[0])}"
    return f'the row "{", ".join(map(_shown, values))}" of {table}'


def _shown(value: object) -> str:
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
    if found_key is None or not _fits(table, found_key):
        raise _StrangeRowError(_no_key(table))
    if table.is_ralphs and isinstance(found_key, int) and found_key > LARGEST_NUMBER:
        raise ValueError(f"invalid id {found_key}: the maximum is {LARGEST_NUMBER}")
    if (name, found_key) in before:
        raise ValueError(f"{shown_key((name, found_key))} occurs twice")
    return (name, found_key), values


def _fits(table: MovedTable, key: RowKey) -> bool:
    """Return whether a value can be the key of one of ralphgen's own tables; others may be all."""
    return not table.is_ralphs or isinstance(key, str if table.key == ("name",) else int)


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
    if len(digits) > len(str(-(2**63))):  # of more, Python's own limit speaks of its settings
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
