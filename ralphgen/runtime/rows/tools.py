"""The tools on any table: listing, reading, creating, changing and deleting its rows.

A refusal names the rows that a foreign key lacks or that need a row, or the rule that a row breaks.
"""

from __future__ import annotations

import re

from ..engine import quoted
from ..engine.entries import PREFIX
from ..errors import ToolError
from ..statements import in_child
from ..values import PAGE, fitted, nearest, page, shortened
from . import ANY, JSON, LIST, OPAQUE, RowTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ..engine import Database


LISTED_VALUES = 20  # values in a refusal
NAMED = 1_000  # values that are looked through for one that may be meant


def refuse_missing(database: Database, table: RowTable, values: Mapping[str, Any]) -> None:
    """Raise `ToolError`, with what there is, where a row would name another one that is not there.

    `values` are those of its columns that are written. Keys of which only some columns are written
    are left to the database.
    """
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
            if not any(_is_hidden(table, parent, column) for column in theirs):
                there = _what_there_is(database, parent, theirs, wanted)
            raise ToolError(f'{named}, but there is no such row of "{parent}"{there}')


def refuse_needed(
    database: Database, table: RowTable, key: Sequence[Any], *, is_bound: bool
) -> None:
    """Raise `ToolError`, with how many, where other rows name this one that would not go with it.

    In a session that `is_bound` to rows those that would go count too: they may not be its own.
    """
    for child, pairs in database.catalog.children(database, table.name, also_following=is_bound):
        own = ", ".join(table.column(theirs) for _, theirs in pairs)
        sql = f"SELECT {own} FROM {table.quoted} WHERE {table.is_key()}"
        row = database.row(sql, key)
        if row is None or None in row:
            continue
        where = " AND ".join(f"{quoted(column)} = ?" for column, _ in pairs)
        values = [*row]
        if child == table.name:  # a row does not keep itself
            where += f" AND NOT ({table.is_key()})"
            values += key
        sql = f"SELECT COUNT(*) FROM {quoted(child)} WHERE {where}"
        (count,) = database.row(sql, values) or (0,)
        if count and any(_is_hidden(table, child, column) for column, _ in pairs):
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


def _is_hidden(table: RowTable, parent: str, column: str) -> bool:
    """Return whether a column of another table is hidden."""
    name = f"{parent}.{column}".lower()
    return name in table.hidden or name.startswith(PREFIX)


def _field(table: RowTable, column: str) -> str:
    return table.field(column) if column in table.columns else column


def _what_there_is(
    database: Database, parent: str, columns: Sequence[str], wanted: Sequence[Any]
) -> str:
    """Return what may be meant, or what there is, where one column tells a row."""
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


LONGEST_RULE = 300  # characters of a rule that is told whole
_WORD = r"[^\W\d][\w$]*"


def refusal(database: Database, table: RowTable, error: ToolError) -> ToolError:
    """Return what is said of a write that failed: where a CHECK refused it, which one that is.

    Of one on a column that is hidden nothing is told.
    """
    cause = error.__cause__
    rules = database.catalog
    if not rules.is_broken_rule(cause):
        return error
    rule = database.reading(lambda: rules.broken_rule(database, table.name, cause))
    words = {word.lower() for word in re.findall(_WORD, rule)}
    own = f"{table.name}.".lower()
    hidden = {name.removeprefix(own) for name in table.hidden if name.startswith(own)}
    if not rule or any(words & {*re.findall(_WORD, name)} for name in hidden):
        return error
    told = " ".join(rule.split())
    if len(told) > LONGEST_RULE:
        told = f"{told[:LONGEST_RULE]}…"
    return ToolError(f"the database refuses this: it breaks a rule of its table, {told}")


def alone(database: Database, table: RowTable, write: Callable[[], Any], *, new: int) -> Any:
    """Return `write()`, which makes so many `new` rows of a table, where it is not ignored.

    Raises `ToolError` where another row would have to go for it, as a table can say of its UNIQUEs.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from ..engine import Database
    from ..session import Session

    Result = TypeVar("Result")
    Run = Callable[["Rows", dict[str, Any]], dict[str, Any]]

    class Rows(Protocol):
        """The workspace of the server that has the tools."""

        database: Database
        session: Session
        tool: str

        def snapshot(self, work: Callable[[], Result]) -> Result:
            """Return `work()`, run on one state of the database."""

        def refuse_moved_schema(self) -> None:
            """Raise `ToolError` where a migration took a column from under the server."""


HOLDS = "LIKE lower(?) ESCAPE '!'"
REJECTED = "a trigger or an ON CONFLICT clause rejected it"
FARTHEST_CURSOR = 10**15  # rows that a cursor may lead behind
LONGEST_SEARCH = (
    10_000  # characters that are searched for: a pattern of SQLite has 50,000 bytes at most
)


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
        key = table.given_key(rows.database, arguments)
        return rows.snapshot(lambda: fitted(found_row(rows.database, table, key)))

    return run


@in_child
def creating(table: RowTable) -> Run:
    """Return the tool that adds a row; it answers the key."""

    def create(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:

        values = {**table.stored(rows.database, arguments), **table.own_row(rows.session)}
        refuse_missing(rows.database, table, values)
        _refuse_taken(rows.database, table, values)
        columns = ", ".join(map(quoted, values))
        marks = ", ".join("?" * len(values))
        new = f"({columns}) VALUES ({marks})" if values else "DEFAULT VALUES"
        key = ", ".join(map(quoted, table.key))
        sql = f"INSERT INTO {table.quoted} {new} RETURNING {key}"
        given = list(values.values())
        made = alone(rows.database, table, lambda: rows.database.change_rows(sql, given), new=1)
        if not made:
            raise ToolError(f"the database did not insert this {table.words}: {REJECTED}")
        return table.spelled_key(made[0])

    return _writing(create, table, f"create_{table.noun}")


@in_child
def updating(table: RowTable) -> Run:
    """Return the tool that changes the given fields of a row; it answers which differ now."""

    def update(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        key, own = _given_row(rows, table, arguments)
        stored = table.stored(rows.database, arguments)
        given = {**stored, **table.cleared(arguments.get("clear", ()), arguments)}
        fixed = {*table.key, *own}
        changed = _changed(
            rows.database, table, key, {one: given[one] for one in given if one not in fixed}
        )
        return {**table.spelled_key(key), "changed": changed}

    return _writing(update, table, f"update_{table.noun}")


@in_child
def deleting(table: RowTable) -> Run:
    """Return the tool that deletes a row that no other one needs."""

    def delete(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:

        key, own = _given_row(rows, table, arguments)
        refuse_needed(rows.database, table, key, is_bound=bool(own))
        if not rows.database.change(f"DELETE FROM {table.quoted} WHERE {table.is_key()}", key):
            raise ToolError(f"the database did not delete this {table.words}: {REJECTED}")
        return {"deleted": table.spelled_key(key)}

    return _writing(delete, table, f"delete_{table.noun}")


def found_row(database: Database, table: RowTable, key: Sequence[Any]) -> dict[str, Any]:
    """Return a row as it is, nothing cut; raises `ToolError` where there is none of this key."""
    sql = f"SELECT {table.selected()} FROM {table.quoted} WHERE {table.is_key()}"
    row = database.row(sql, key)
    if row is None:
        raise _missing(database, table, key)
    return table.shown(row)


def _writing(run: Run, table: RowTable, tool: str) -> Run:
    """Return a tool of this name that changes the database wholly or not at all."""

    def call(rows: Rows, arguments: dict[str, Any]) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            rows.refuse_moved_schema()
            rows.tool = tool
            return run(rows, arguments)

        try:
            return fitted(rows.database.writing(work))
        except ToolError as error:
            raise refusal(rows.database, table, error) from error.__cause__

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
    records = [table.shown(row) for row in found]
    cursors = range(first + 1, first + len(records) + 1)
    return page(table.listed.removeprefix("list_"), records, cursors, limit=limit, total=total)


def _pattern(text: str) -> str:
    """Return the LIKE pattern of what holds a text; raises `ToolError` for what no text holds."""
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
    """Return how many rows stand before a page; raises `ToolError` for a cursor that is none."""
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
    database: Database, table: RowTable, key: Sequence[Any], values: Mapping[str, Any]
) -> list[str]:
    """Store the values in a row; return the fields that are different now, sorted."""
    if not values:
        raise ToolError("nothing to change: give at least one field")
    refuse_missing(database, table, values)
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
        # The database may store the same value in another spelling than the given one.
        after = database.row(stored, key) or ()
        same = {one for one, old, now in zip(opaque, before, after, strict=False) if old == now}
        new = [column for column in new if column not in same]
    return sorted(table.field(column) for column in new)


def _given_row(
    rows: Rows, table: RowTable, arguments: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, int | str]]:
    """Return the key that a call names, and the values that make a row the session's own.

    Raises `ToolError` where there is no row of this key, or one that is not the session's.
    """
    key, own = table.given_key(rows.database, arguments), table.own_row(rows.session)
    columns = ", ".join(map(table.column, own)) or "1"
    row = rows.database.row(f"SELECT {columns} FROM {table.quoted} WHERE {table.is_key()}", key)
    if row is None:
        raise _missing(rows.database, table, key)
    for (column, mine), value in zip(own.items(), row, strict=False):
        if value is None or str(value) != str(mine):
            raise ToolError(
                f'this {table.words} has the "{table.field(column)}" {shortened(value)}, but this '
                f"session works only on the {table.bound[column]} {shortened(mine)}"
            )
    return key, own


def _refuse_taken(database: Database, table: RowTable, values: Mapping[str, Any]) -> None:
    """Raise `ToolError` where a new row has the key of another, which a REPLACE would take away."""
    key = [values.get(column) for column in table.key]
    if None in key:
        return
    if database.row(f"SELECT 1 FROM {table.quoted} WHERE {table.is_key()}", key) is not None:
        told = shortened(key[0] if len(key) == 1 else table.spelled_key(key))
        raise ToolError(f"the {table.words} {told} already exists")


def _missing(database: Database, table: RowTable, key: Sequence[Any]) -> ToolError:
    """Return the refusal of a key that no row has, with one that may be meant."""
    named = table.spelled_key(key)
    told = shortened(key[0] if len(key) == 1 else named)
    text = f"there is no {table.words} {told}"
    if len(key) == 1 and isinstance(key[0], str):
        sql = f"SELECT {table.column(table.key[0])} FROM {table.quoted} LIMIT {NAMED}"
        known = [row[0] for row in database.rows(sql) if isinstance(row[0], str)]
        near = nearest(key[0], known)
        text += f": did you mean {shortened(near)}?" if near else ""
    return ToolError(text)
