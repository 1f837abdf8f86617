"""Rows of the project's tables as MCP resources, for sessions with the table's get tool.

A URI contains the key of its row, and the server completes keys.
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


MOST_COMPLETED = 1_000  # values read for one completion
_INTEGER = "0|-?[1-9][0-9]{0,18}"  # compiled at its first use
_INTEGER_LIMIT = 2**63
_INFINITY = float("inf")
_BOOLEANS = {"false": False, "true": True}


@in_child
def reading(table: RowTable) -> Run:
    """Return a function that reads a row as JSON, with the same content as the get tool.

    Its arguments are the `tool`, the `uri`, and the `parts` of the URI with the key. It raises
    `NotThereError` if the row does not exist or the session may not read it.
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
    """Return a function that completes the `value` of a key `column` for a `tool`."""

    def run(workspace: Any, arguments: dict[str, Any]) -> list[str]:
        column, value = arguments["column"], arguments["value"]
        bound = workspace.session.bound_arguments(arguments["tool"]).items()
        own = {name: str(row.value) for name, row in bound if row.reach == OWN}
        if own:  # the session may not see other rows
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
    """Return the values of a key; raises `NotThereError` if it is invalid for the session."""
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
    """Convert a part of a URI to the type of its column."""
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
    """The `own` resources of a kit, and one template for each of the `tables`.

    Sessions see a table if they have its get tool; a row has the same content as the tool's answer.
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
        """Return the list of the kit, without table rows: there may be too many."""
        return self._own.listed(workspace, cursor)

    def read(self, workspace: Any, uri: str) -> tuple[str, str] | DeferredResult:
        """Return the media type and the text of a resource, or a deferred result with both.

        Raises `NotThereError` if the URI is malformed, the row does not exist or the session may
        not read it, and `ToolError` if the database is unreadable.
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
        """Return the key values that start with `value`, or the completions of the kit."""
        for name, table in self._seen(workspace):
            variables = _variables(table)
            if template == _template(workspace, name, table) and argument in variables:
                column = table.key[variables.index(argument)]
                asked = {"tool": _tool(table), "column": column, "value": value}
                found: list[str] | DeferredResult = completing(table)(workspace, asked)
                return found
        return self._own.completed(workspace, template, argument, value)

    def watched(self, folder: str, workspace: Any) -> Any:
        """Return a separate workspace that sees the writes of others."""
        return self._own.watched(folder, workspace)

    def moved(self, workspace: Any) -> object:
        """Return a value that differs after any write that could change a resource."""
        return self._own.moved(workspace)

    def notices(self, workspace: Any) -> WriteNotices | None:
        """Return a waiter for writes of others, or None if the kit has none."""
        return self._own.notices(workspace)

    def _seen(self, workspace: Any) -> Iterator[tuple[str, RowTable]]:
        """Yield the tables with a get tool in this session, and their names in URIs."""
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
    """Return the template variables of the key columns: RFC 6570 forbids "-" in a name."""
    return [table.field(column).replace("-", "_") for column in table.key]
