"""Rows by what a URI spells of their keys: reading one, and completing what a key may be."""

from __future__ import annotations

import json
import re

from ..errors import NotThereError, ToolError
from ..policy import OWN
from ..statements.tools import in_child
from ..values import decode_segment, fitted, shortened
from .table import BOOLEAN
from .tools import found_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..statements.tools import Run
    from .table import RowTable

MOST = 1_000  # values that are looked up for one completion
_INTEGER = "0|-?[1-9][0-9]{0,18}"  # compiled at its first use
_LIMIT = 2**63
_INFINITY = float("inf")
_BOOLEANS = {"false": False, "true": True}


@in_child
def reading(table: RowTable) -> Run:
    """Return a function that reads a row as JSON, as the `tool` answers it.

    Its arguments are the `tool`, the `uri`, and the `parts` of it that spell the key. It raises
    `NotThereError` for a row that does not exist, or that the session does not get.
    """

    def run(workspace: Any, arguments: dict[str, Any]) -> str:
        uri = arguments["uri"]
        texts = [decode_segment(uri, part) for part in arguments["parts"]]
        key = _key(workspace, table, arguments["tool"], texts)

        def found() -> dict[str, Any]:
            try:
                return fitted(found_row(workspace.database, table, key))
            except ToolError as error:
                raise NotThereError(str(error)) from error

        row = workspace.snapshot(found)
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"))

    return run


@in_child
def completing(table: RowTable) -> Run:
    """Return a function that completes the `value` of a key's `column` that a `tool` may get."""

    def run(workspace: Any, arguments: dict[str, Any]) -> list[str]:
        column, value = arguments["column"], arguments["value"]
        bound = workspace.session.bound_arguments(arguments["tool"]).items()
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

    return run


def _key(workspace: Any, table: RowTable, tool: str, texts: Sequence[str]) -> list[Any]:
    """Return the values of a key; raises `NotThereError` for one that no row of the session has."""
    pairs = zip(table.key, texts, strict=True)
    values = {table.field(column): _value(table, column, text) for column, text in pairs}
    arguments = values if len(values) == 1 else {"key": values}
    try:
        for argument, own in workspace.session.bound_arguments(tool).items():
            own.refuse_another(argument, arguments.get(argument))
        return table.given_key(workspace.database, arguments)
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
