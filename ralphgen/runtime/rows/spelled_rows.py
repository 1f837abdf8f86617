"""Rows by what a URI spells of their keys: reading one, and completing what a key may be."""

from __future__ import annotations

import json
import re

from ..errors import NotThereError, ToolError
from ..policy import OWN
from ..values.arguments import shortened
from ..values.paging import fitted
from ..values.uris import named
from .table import BOOLEAN
from .tools import found_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .table import RowTable

MOST = 1_000  # values that are looked up for one completion
_INTEGER = "0|-?[1-9][0-9]{0,18}"  # compiled at its first use
_LIMIT = 2**63
_INFINITY = float("inf")
_BOOLEANS = {"false": False, "true": True}


def read_row(workspace: Any, table: RowTable, tool: str, uri: str, parts: Sequence[str]) -> str:
    """Return a row as JSON, as a tool answers it to whom the `parts` of the URI are its key.

    Raises `NotThereError` for a row that there is not, and for one that the session does not get.
    """
    key = _key(workspace, table, tool, [named(uri, part) for part in parts])

    def found() -> dict[str, Any]:
        try:
            return fitted(found_row(workspace.database, table, key))
        except ToolError as error:
            raise NotThereError(str(error)) from error

    row = workspace.snapshot(found)
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def completed(workspace: Any, table: RowTable, tool: str, column: str, value: str) -> list[str]:
    """Return the values of a column that begin so, in their order, of those a tool may be given."""
    bound = workspace.session.bound_arguments(tool).items()
    own = {name: str(row.value) for name, row in bound if row.reach == OWN}
    if own:  # no other row is named to the session
        return [text for name, text in own.items() if name == table.field(column)]
    if table.columns[column] == BOOLEAN:
        return [word for word in _BOOLEANS if word.startswith(value)]
    if "\0" in value:
        return []
    text = f"CAST({table.column(column)} AS TEXT)"
    sql = (
        f"SELECT DISTINCT {text}, {table.column(column)} FROM {table.quoted} "
        f"WHERE substr({text}, 1, ?) = ? ORDER BY 2 LIMIT {MOST}"
    )
    rows = workspace.snapshot(lambda: workspace.database.rows(sql, [len(value), value]))
    return [row[0] for row in rows]


def _key(workspace: Any, table: RowTable, tool: str, texts: Sequence[str]) -> list[Any]:
    """Return the values of a key; raises `NotThereError` for one that no row of the session has."""
    pairs = zip(table.key, texts, strict=True)
    values = {table.field(column): _value(table, column, text) for column, text in pairs}
    arguments = values if len(values) == 1 else {"key": values}
    try:
        for argument, own in workspace.session.bound_arguments(tool).items():
            own.refuse_another(argument, arguments.get(argument))
        return table.given_key(arguments)
    except ToolError as error:
        raise NotThereError(str(error)) from error


def _value(table: RowTable, column: str, text: str) -> Any:
    """Return the value of a column that a part of a URI means."""
    kind = table.columns[column]
    if kind == "integer" and re.fullmatch(_INTEGER, text) and -_LIMIT <= int(text) < _LIMIT:
        return int(text)
    if kind == BOOLEAN and text in _BOOLEANS:
        return _BOOLEANS[text]
    if kind == "real":
        try:
            number = float(text)
        except ValueError:
            number = _INFINITY
        if abs(number) < _INFINITY:
            return number
    if kind in ("integer", BOOLEAN, "real"):
        raise NotThereError(
            f'there is no {table.words} whose "{table.field(column)}" is {shortened(text)}'
        )
    return text
