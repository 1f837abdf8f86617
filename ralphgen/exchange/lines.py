"""Reads lines that an export wrote, with every problem at its line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.exchange.files import read_text
from ralphgen.exchange.rows import TABLES, Key, Row, Rows, Value, key_column, stored_value
from ralphgen.suggestion import suggestion

SHOWN = 20  # problems of one file
LARGEST_NUMBER = 2**53 - 1
"""The largest integer that each reader of JSON has; a row after it still finds a number."""
MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
"""What git puts around what it could not merge."""


def read_lines(path: Path) -> Rows:
    """Return the rows of a file; raise `ProjectError` where a line of it is none."""
    rows: dict[Key, Row] = {}
    problems: list[Problem] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            key, row = _parsed(line, rows)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(f"{path}:{number}: {_why(error)}", _hint(line)))
        else:
            rows[key] = row
        if len(problems) == SHOWN:
            break
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
            f'{shown}: "{table}.{column}" is no column of this project',
            suggestion(column, columns[table], f'the columns of "{table}"')
            if table in columns
            else "bring its database to the schema of the other one first",
        )
        for table, column in named
        if column not in columns.get(table, ())
    ]
    if problems:
        raise ProjectError.of(problems[:SHOWN])


def shown_key(key: Key) -> str:
    """Return what people call a row."""
    table, name = key
    words = {"tasks": "task", "task_comments": "comment"}
    if table == "metadata":
        return "the metadata"
    return f"{words[table]} {name}" if table in words else f'the row "{name}" of {table}'


def _parsed(line: str, before: Rows) -> tuple[Key, Row]:
    """Return the key and the values of a line; raises ValueError or RecursionError.

    `before` are the rows of the lines before.
    """
    found = json.loads(
        line, object_pairs_hook=_once, parse_constant=_refuse_constant, parse_int=_integer
    )
    if not isinstance(found, dict) or {*found} != {"table", "row"}:
        raise ValueError('expected an object with "table" and "row"')
    table, row = found["table"], found["row"]
    if table not in TABLES:
        raise ValueError(f"{json.dumps(table)[:60]} is no table that can be imported")
    values = dict(_values(row)) if isinstance(row, dict) else {}
    column = key_column(table)
    name = values.get(column)
    if isinstance(name, int) and name > LARGEST_NUMBER:
        raise ValueError(f"{name} is no number of a row: the largest is {LARGEST_NUMBER}")
    if isinstance(name, str if column == "name" else int) and isinstance(name, str | int):
        if (table, name) in before:
            raise ValueError(f"{shown_key((table, name))} stands there twice")
        return (table, name), values
    raise ValueError(f'"{column}" is missing, or no {"text" if column == "name" else "number"}')


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for column, value in row.items():
        try:
            yield column, stored_value(value)
        except ValueError as error:
            raise ValueError(f'"{column}": {error}') from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int:
    if len(digits) > len(str(-(2**63))):  # of more, Python's own limit speaks of its settings
        raise ValueError("a number beyond 64 bits")
    return int(digits)


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is no JSON: {error.msg} (column {error.colno})"
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _hint(line: str) -> str:
    if line.startswith(MARKERS):
        return "git has left it unmerged: choose one side of each conflict first"
    return "export it again, or say with --from what it is"
