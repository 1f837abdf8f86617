"""Rows of the project's own tables as resources, for sessions that get such a row by a tool.

A URI spells the key of its row; a client can have keys completed.
"""

from __future__ import annotations

import json
import re

from ..deferred import then
from ..errors import NotThereError, ToolError
from ..policy import OWN
from ..statements import in_child
from ..values import decode_segment, fitted, shortened
from . import BOOLEAN
from .tools import found_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..deferred import DeferredResult
    from ..engine import WriteNotices
    from ..kit import Resources
    from ..statements import Run
    from . import RowTable


MOST_COMPLETED = 1_000  # values that are looked up for one completion
_INTEGER = "0|-?[1-9][0-9]{0,18}"  # compiled at its first use
_INTEGER_LIMIT = 2**63
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
            f"WHERE substr({text}, 1, ?) = ? ORDER BY 2 LIMIT {MOST_COMPLETED}"
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
    if (
        kind == "integer"
        and re.fullmatch(_INTEGER, text)
        and -_INTEGER_LIMIT <= int(text) < _INTEGER_LIMIT
    ):
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


MEDIA_TYPE = "application/json"


class RowResources:
    """The resources of a kit, its `own` ones, and besides a template for each of the `tables`.

    A table is there for the sessions that have its `get`, and a row reads as that tool answers it.
    A URI is `KIT://tables/NAME/KEY`, with one part for each column of the key.
    """

    __slots__ = ("_own", "_tables")

    def __init__(self, own: Resources, tables: Sequence[RowTable]) -> None:
        self._own = own
        self._tables = {table.listed.removeprefix("list_"): table for table in tables}

    def templates(self, workspace: Any) -> Sequence[Mapping[str, str]]:
        """Return the entries of `resources/templates/list`."""
        own = [
            {
                "uriTemplate": _template(workspace, name, table),
                "name": table.words,
                "title": table.words.capitalize(),
                "description": f"A row of {name.replace('_', ' ')}, as {_tool(table)} answers it.",
                "mimeType": MEDIA_TYPE,
            }
            for name, table in self._seen(workspace)
        ]
        return [*self._own.templates(workspace), *own]

    def listed(self, workspace: Any, cursor: str | None) -> tuple[list[dict[str, str]], str]:
        """Return what the kit lists: of the tables there may be too many rows."""
        return self._own.listed(workspace, cursor)

    def read(self, workspace: Any, uri: str) -> tuple[str, str] | DeferredResult:
        """Return the media type and the text of a resource, or what waits for both.

        Raises `NotThereError` for a URI that is malformed, of a row that is not there, and of one
        that the session does not get by a tool; `ToolError` where the database cannot be read.
        """
        beginning = _beginning(workspace)
        if not uri.startswith(beginning):
            return self._own.read(workspace, uri)
        from ..values import shortened

        name, *parts = uri.removeprefix(beginning).split("/")
        table = dict(self._seen(workspace)).get(name)
        if table is None or len(parts) != len(table.key):
            raise NotThereError(f"no resource {shortened(uri)}")
        text = reading(table)(workspace, {"tool": _tool(table), "uri": uri, "parts": parts})
        found: tuple[str, str] | DeferredResult = then(text, lambda text: (MEDIA_TYPE, text))
        return found

    def completed(
        self, workspace: Any, template: str | None, argument: str, value: str
    ) -> list[str] | DeferredResult:
        """Return the values of a key that begin so, or what the kit completes."""
        for name, table in self._seen(workspace):
            variables = _variables(table)
            if template == _template(workspace, name, table) and argument in variables:
                column = table.key[variables.index(argument)]
                asked = {"tool": _tool(table), "column": column, "value": value}
                found: list[str] | DeferredResult = completing(table)(workspace, asked)
                return found
        return self._own.completed(workspace, template, argument, value)

    def watched(self, folder: str, workspace: Any) -> Any:
        """Return a workspace of its own that sees what others write."""
        return self._own.watched(folder, workspace)

    def moved(self, workspace: Any) -> object:
        """Return a value that differs after any write that could change a resource."""
        return self._own.moved(workspace)

    def notices(self, workspace: Any) -> WriteNotices | None:
        """Return what waits for writes of others, None where there is no such thing."""
        return self._own.notices(workspace)

    def _seen(self, workspace: Any) -> Iterator[tuple[str, RowTable]]:
        """Yield the tables of which the session gets rows, with their names in URIs."""
        for name, table in self._tables.items():
            if _tool(table) in workspace.session.enabled:
                yield name, table


def _beginning(workspace: Any) -> str:
    return f"{workspace.session.kit}://tables/"


def _template(workspace: Any, name: str, table: RowTable) -> str:
    variables = "/".join(f"{{{variable}}}" for variable in _variables(table))
    return f"{_beginning(workspace)}{name}/{variables}"


def _tool(table: RowTable) -> str:
    return f"get_{table.noun}"


def _variables(table: RowTable) -> list[str]:
    """Return what a template calls the columns of the key: RFC 6570 knows no "-" in a name."""
    return [table.field(column).replace("-", "_") for column in table.key]
