"""The tools of any table, and its rows as MCP resources for sessions with its get tool.

A refusal names the missing parent row, the rows that refer to this one, or the broken CHECK. A URI
contains the key of its row, and the server completes keys.
"""

from __future__ import annotations

import json
import re

from ..deferred import then
from ..engine import hidden_columns, mentions, quoted
from ..engine.ledger import PREFIX
from ..errors import NotThereError, ToolError
from ..policy import OWN
from ..statements import in_child
from ..values import PAGE, decode_segment, fitted, nearest, page, shortened
from . import ANY, BOOLEAN, JSON, LIST, OPAQUE, RowTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from ..deferred import DeferredResult
    from ..engine import Database, WriteNotices
    from ..kit import Resources
    from ..session import Session
    from ..statements import Run as AnyRun

    Result = TypeVar("Result")
    Run = Callable[["Rows", dict[str, Any]], dict[str, Any]]

    class Rows(Protocol):
        """The workspace of the server."""

        database: Database
        session: Session
        tool: str

        def snapshot(self, work: Callable[[], Result]) -> Result:
            """Return `work()`, run on one state of the database."""

        def refuse_moved_schema(self) -> None:
            """Raise `ToolError` if a migration removed a column that the server uses."""


LISTED_VALUES = 20  # values in a refusal
NAMED = 1_000  # values to compare when looking for the nearest one


def require_references(rows: Rows, table: RowTable, values: Mapping[str, Any]) -> None:
    """Raise `ToolError`, with the existing values, if a row would refer to a missing row.

    `values` has the written columns. The database itself checks foreign keys with only some of
    their columns written.
    """
    database = rows.database
    for parent, pairs in database.catalog.parents(database, table.name):
        wanted = [values.get(column) for column, _ in pairs]
        if None in wanted:
            continue
        where = " AND ".join(f"{quoted(theirs)} = ?" for _, theirs in pairs)
        if database.row(f"SELECT 1 FROM {quoted(parent)} WHERE {where}", wanted) is None:
            own = {
                _field(table, column): value
                for (column, _), value in zip(pairs, wanted, strict=True)
            }
            named = ", ".join(f'"{name}" is {shortened(value)}' for name, value in own.items())
            theirs = [column for _, column in pairs]
            there = ""
            if not any(_is_hidden(database, parent, column) for column in theirs):
                there = _what_there_is(database, parent, theirs, wanted)
            raise ToolError(f'{named}, but there is no such row of "{parent}"{there}')


def refuse_needed(rows: Rows, table: RowTable, key: Sequence[Any], *, is_bound: bool) -> None:
    """Raise `ToolError`, with their number, if other rows would prevent the deletion of this one.

    If the session `is_bound` to rows, rows that a cascade would delete count too: they may not
    be its own.
    """
    database = rows.database
    for child, pairs in database.catalog.children(database, table.name, also_following=is_bound):
        own = ", ".join(table.column(theirs) for _, theirs in pairs)
        sql = f"SELECT {own} FROM {table.quoted} WHERE {table.is_key()}"
        row = database.row(sql, key)
        if row is None or None in row:
            continue
        where = " AND ".join(f"{quoted(column)} = ?" for column, _ in pairs)
        values = [*row]
        if child == table.name:  # a row does not prevent its own deletion
            where += f" AND NOT ({table.is_key()})"
            values += key
        sql = f"SELECT COUNT(*) FROM {quoted(child)} WHERE {where}"
        (count,) = database.row(sql, values) or (0,)
        if count and any(_is_hidden(database, child, column) for column, _ in pairs):
            raise ToolError(f"this {table.words} cannot be deleted: another row refers to it")
        if count:
            told = (
                f'1 row of "{child}" refers' if count == 1 else f'{count} rows of "{child}" refer'
            )
            by = ", ".join(f'"{column}"' for column, _ in pairs)
            raise ToolError(
                f"this {table.words} cannot be deleted: {told} to it in {by}; "
                "change or delete them first"
            )


def _is_hidden(database: Database, table: str, column: str) -> bool:
    """Return whether a column of another table is hidden."""
    name = f"{table}.{column}".lower()
    return name in database.hidden or name.startswith(PREFIX)


def _field(table: RowTable, column: str) -> str:
    return table.field(column) if column in table.columns else column


def _what_there_is(
    database: Database, parent: str, columns: Sequence[str], wanted: Sequence[Any]
) -> str:
    """Return the nearest value or the existing values, or "" if the key has several columns."""
    if len(columns) != 1:
        return ""
    name = quoted(columns[0])
    sql = f"SELECT {name} FROM {quoted(parent)} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {NAMED}"
    known = [row[0] for row in database.rows(sql)]
    if not known:
        return ": there is none yet"
    near = None
    if isinstance(wanted[0], str):
        near = nearest(wanted[0], [one for one in known if isinstance(one, str)])
    if near:
        return f": did you mean {shortened(near)}?"
    more = " and more" if len(known) > LISTED_VALUES else ""
    there = "there is only" if len(known) == 1 else "there are"
    return f": {there} {', '.join(map(shortened, known[:LISTED_VALUES]))}{more}"


LONGEST_RULE = 300  # characters of a rule before it is cut


def refusal(rows: Rows, table: RowTable, error: ToolError) -> ToolError:
    """Return the error of a failed write; names the CHECK if one was broken.

    Omits a CHECK on a hidden column.
    """
    cause, database = error.__cause__, rows.database
    rules = database.catalog
    if not rules.is_broken_rule(cause):
        return error
    rule = database.reading(lambda: rules.broken_rule(database, table.name, cause))
    if not rule or mentions(rule, hidden_columns(database.hidden, table.name)):
        return error
    told = " ".join(rule.split())
    if len(told) > LONGEST_RULE:
        told = f"{told[:LONGEST_RULE]}…"
    return ToolError(f"the database refuses this: it breaks a rule of its table, {told}")


def alone(database: Database, table: RowTable, write: Callable[[], Any], *, new: int) -> Any:
    """Return `write()`, which adds `new` rows to a table unless the database ignores it.

    Raises `ToolError` if it would delete another row, as a UNIQUE with ON CONFLICT REPLACE does.
    """
    if not database.catalog.replaces_rows(database, table.name):
        return write()
    sql = f"SELECT COUNT(*) FROM {table.quoted}"
    (before,) = database.row(sql) or (0,)
    done = write()
    (after,) = database.row(sql) or (0,)
    if after < before + (new if done else 0):
        raise ToolError(
            f"another {table.words} has one of these values already, and would be deleted: "
            f"{shortened(table.name)} replaces rows on conflict; change or delete it first"
        )
    return done


__all__ = ["RowTable", "creating", "deleting", "getting", "listing", "updating"]


HOLDS = "LIKE lower(?) ESCAPE '!'"
REJECTED = "a trigger or an ON CONFLICT clause rejected it"
FARTHEST_CURSOR = 10**15  # rows that a cursor may skip
LONGEST_SEARCH = 10_000  # characters of a search text: SQLite limits a pattern to 50,000 bytes


@in_child
def listing(table: RowTable) -> Run:
    """Return the tool that lists rows, in the order of their key."""

    def run(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        return rows.snapshot(lambda: _page(rows.database, table, arguments))

    return run


@in_child
def getting(table: RowTable) -> Run:
    """Return the tool that reads one row."""

    def run(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        key = table.key_values(rows.database, arguments)
        return rows.snapshot(lambda: fitted(find_row(rows.database, table, key)))

    return run


@in_child
def creating(table: RowTable) -> Run:
    """Return the tool that adds a row and answers its key."""

    def create(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:

        values = {**table.stored(rows.database, arguments), **table.own_row(rows.session)}
        require_references(rows, table, values)
        _refuse_duplicate_key(rows.database, table, values)
        columns = ", ".join(map(quoted, values))
        marks = ", ".join("?" * len(values))
        new = f"({columns}) VALUES ({marks})" if values else "DEFAULT VALUES"
        key = ", ".join(map(quoted, table.key))
        sql = f"INSERT INTO {table.quoted} {new} RETURNING {key}"
        given = list(values.values())
        made = alone(rows.database, table, lambda: rows.database.change_rows(sql, given), new=1)
        if not made:
            raise ToolError(f"the database did not insert this {table.words}: {REJECTED}")
        return table.key_by_argument(made[0])

    return _writing(create, table, f"create_{table.noun}")


@in_child
def updating(table: RowTable) -> Run:
    """Return the tool that updates fields of a row and answers which of them changed."""

    def update(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        key, own = _key_and_values(rows, table, arguments)
        stored = table.stored(rows.database, arguments)
        given = {**stored, **table.cleared(arguments.get("clear", ()), arguments)}
        fixed = {*table.key, *own}
        changed = _changed(rows, table, key, {one: given[one] for one in given if one not in fixed})
        return {**table.key_by_argument(key), "changed": changed}

    return _writing(update, table, f"update_{table.noun}")


@in_child
def deleting(table: RowTable) -> Run:
    """Return the tool that deletes a row if no other row refers to it."""

    def delete(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:

        key, own = _key_and_values(rows, table, arguments)
        refuse_needed(rows, table, key, is_bound=bool(own))
        if not rows.database.change(f"DELETE FROM {table.quoted} WHERE {table.is_key()}", key):
            raise ToolError(f"the database did not delete this {table.words}: {REJECTED}")
        return {"deleted": table.key_by_argument(key)}

    return _writing(delete, table, f"delete_{table.noun}")


def find_row(database: Database, table: RowTable, key: Sequence[Any]) -> dict[str, Any]:
    """Return a row with this key, not shortened; raises `ToolError` if there is none."""
    sql = f"SELECT {table.selected()} FROM {table.quoted} WHERE {table.is_key()}"
    row = database.row(sql, key)
    if row is None:
        raise _missing_key_error(database, table, key)
    return table.row_as_json(row)


def _writing(run: Run, table: RowTable, tool: str) -> Run:
    """Return a tool of this name that runs in one transaction."""

    def call(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            rows.refuse_moved_schema()
            rows.tool = tool
            return run(rows, arguments)

        try:
            return fitted(rows.database.writing(work))
        except ToolError as error:
            raise refusal(rows, table, error) from error.__cause__

    return call


def _page(database: Database, table: RowTable, arguments: Mapping[str, Any]) -> dict[str, Any]:
    filters = table.filters(database, arguments)
    clauses = [
        database.sql.same_json(table.column(one))
        if table.columns[one] == JSON
        else table.is_value(one)
        for one in filters
    ]
    values = [*filters.values()]
    if "search" in arguments:
        held = [f"lower(CAST({table.column(one)} AS TEXT)) {HOLDS}" for one in table.search]
        clauses.append(f"({' OR '.join(held)})")
        values += [_pattern(arguments["search"])] * len(held)
    where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    (total,) = database.row(f"SELECT COUNT(*) FROM {table.quoted} {where}", values) or (0,)
    first, limit = _first(arguments.get("cursor")), arguments.get("limit", PAGE)
    found = database.rows(
        f"SELECT {table.selected()} FROM {table.quoted} {where} ORDER BY {table.ordered()} "
        "LIMIT ? OFFSET ?",
        [*values, limit + 1, first],
    )
    records = [table.row_as_json(row) for row in found]
    cursors = range(first + 1, first + len(records) + 1)
    return page(table.listed.removeprefix("list_"), records, cursors, limit=limit, total=total)


def _pattern(text: str) -> str:
    """Return the LIKE pattern for a substring; raises `ToolError` for a NUL or a long text."""
    if "\0" in text:
        raise ToolError(
            '"search" contains the character U+0000, which no value contains: remove it'
        )
    if len(text) > LONGEST_SEARCH:
        raise ToolError(f'"search" has {len(text):,} characters: use at most {LONGEST_SEARCH:,}')
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def _first(cursor: str | None) -> int:
    """Return the number of rows before a page; raises `ToolError` if the cursor is invalid."""
    if cursor is None:
        return 0
    digits = cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(FARTHEST_CURSOR))
    if not digits or int(cursor) > FARTHEST_CURSOR:
        raise ToolError(
            f'invalid cursor {shortened(cursor)}: use "next_cursor" of a page, '
            "or omit it to start at the beginning"
        )
    return int(cursor)


def _changed(
    rows: Rows, table: RowTable, key: Sequence[Any], values: Mapping[str, Any]
) -> list[str]:
    """Store the values in a row; return the changed fields, sorted."""
    if not values:
        raise ToolError("nothing to change: give at least one field")
    require_references(rows, table, values)
    database = rows.database
    opaque = [one for one in values if table.columns[one] in (ANY, OPAQUE, JSON, LIST)]
    texts = {one: database.sql.comparable(table.column(one)) for one in opaque}
    tests = ", ".join(
        f"{texts.get(one, table.column(one))} {database.sql.DIFFERS} ?" for one in values
    )
    sql = f"SELECT {tests} FROM {table.quoted} WHERE {table.is_key()}"
    differs = database.row(sql, [*values.values(), *key]) or ()
    new = [column for column, is_new in zip(values, differs, strict=True) if is_new]
    stored = f"SELECT {', '.join(texts.values()) or '1'} FROM {table.quoted} WHERE {table.is_key()}"
    before = database.row(stored, key) or ()
    if new:
        settings = ", ".join(f"{quoted(column)} = ?" for column in new)
        sql = f"UPDATE {table.quoted} SET {settings} WHERE {table.is_key()}"
        given = [*(values[column] for column in new), *key]
        if not alone(database, table, lambda: database.change(sql, given), new=0):
            raise ToolError(f"the database did not change this {table.words}: {REJECTED}")
        # The database may store a value in another form, such as JSON with other spaces.
        after = database.row(stored, key) or ()
        same = {one for one, old, now in zip(opaque, before, after, strict=False) if old == now}
        new = [column for column in new if column not in same]
    return sorted(table.field(column) for column in new)


def _key_and_values(
    rows: Rows, table: RowTable, arguments: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, int | str]]:
    """Return the key of a call, and the session's values of the bound columns.

    Raises `ToolError` if no row has this key, or if the row does not belong to the session.
    """
    key, own = table.key_values(rows.database, arguments), table.own_row(rows.session)
    columns = ", ".join(map(table.column, own)) or "1"
    row = rows.database.row(f"SELECT {columns} FROM {table.quoted} WHERE {table.is_key()}", key)
    if row is None:
        raise _missing_key_error(rows.database, table, key)
    for (column, mine), value in zip(own.items(), row, strict=False):
        if value is None or str(value) != str(mine):
            raise ToolError(
                f'this {table.words} has the "{table.field(column)}" {shortened(value)}, but this '
                f"session works only on the {table.bound[column]} {shortened(mine)}"
            )
    return key, own


def _refuse_duplicate_key(database: Database, table: RowTable, values: Mapping[str, Any]) -> None:
    """Raise `ToolError` if the key of a new row is taken: a REPLACE would delete the old row."""
    key = [values.get(column) for column in table.key]
    if None in key:
        return
    if database.row(f"SELECT 1 FROM {table.quoted} WHERE {table.is_key()}", key) is not None:
        told = shortened(key[0] if len(key) == 1 else table.key_by_argument(key))
        raise ToolError(f"the {table.words} {told} already exists")


def _missing_key_error(database: Database, table: RowTable, key: Sequence[Any]) -> ToolError:
    """Return the error for a missing key, with the nearest existing one."""
    named = table.key_by_argument(key)
    told = shortened(key[0] if len(key) == 1 else named)
    text = f"there is no {table.words} {told}"
    if len(key) == 1 and isinstance(key[0], str):
        sql = f"SELECT {table.column(table.key[0])} FROM {table.quoted} LIMIT {NAMED}"
        known = [row[0] for row in database.rows(sql) if isinstance(row[0], str)]
        near = nearest(key[0], known)
        text += f": did you mean {shortened(near)}?" if near else ""
    return ToolError(text)


MOST_COMPLETED = 1_000  # values read for one completion
_INTEGER = "0|-?[1-9][0-9]{0,18}"  # compiled at its first use
_INTEGER_LIMIT = 2**63
_INFINITY = float("inf")
_BOOLEANS = {"false": False, "true": True}


@in_child
def reading(table: RowTable) -> AnyRun:
    """Return a function that reads a row as JSON, with the same content as the get tool.

    Its arguments are the `tool`, the `uri`, and the `parts` of the URI with the key. It raises
    `NotThereError` if the row does not exist or the session may not read it.
    """

    def run(workspace: Any, arguments: dict[str, Any]) -> str:
        uri = arguments["uri"]
        texts = [decode_segment(uri, part) for part in arguments["parts"]]
        key = _key(workspace, table, arguments["tool"], texts)

        def stored_row() -> dict[str, Any]:
            try:
                return fitted(find_row(workspace.database, table, key))
            except ToolError as error:
                raise NotThereError(str(error)) from error

        row = workspace.snapshot(stored_row)
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"))

    return run


@in_child
def completing(table: RowTable) -> AnyRun:
    """Return a function that completes the `value` of a key `column` for a `tool`."""

    def run(workspace: Any, arguments: dict[str, Any]) -> list[str]:
        column, value = arguments["column"], arguments["value"]
        bound = workspace.session.filled_arguments(arguments["tool"]).items()
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
        for argument, own in workspace.session.filled_arguments(tool).items():
            own.refuse_another(argument, arguments.get(argument))
        return table.key_values(workspace.database, arguments)
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
            for name, table in self._readable_tables(workspace)
        ]
        return [*self._own.templates(workspace), *own]

    def list_page(self, workspace: Any, cursor: str | None) -> tuple[list[dict[str, str]], str]:
        """Return the list of the kit, without table rows: there may be too many."""
        return self._own.list_page(workspace, cursor)

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
        table = dict(self._readable_tables(workspace)).get(name)
        if table is None or len(parts) != len(table.key):
            raise NotThereError(f"no resource {shortened(uri)}")
        text = reading(table)(workspace, {"tool": _tool(table), "uri": uri, "parts": parts})
        found: tuple[str, str] | DeferredResult = then(text, lambda text: (MEDIA_TYPE, text))
        return found

    def completed(
        self, workspace: Any, template: str | None, argument: str, value: str
    ) -> list[str] | DeferredResult:
        """Return the key values that start with `value`, or the completions of the kit."""
        for name, table in self._readable_tables(workspace):
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

    def _readable_tables(self, workspace: Any) -> Iterator[tuple[str, RowTable]]:
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
