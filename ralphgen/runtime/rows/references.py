"""Says before the database does which rows a foreign key lacks, or which others need a row."""

from __future__ import annotations

from ..engine import quoted
from ..engine.entries import PREFIX
from ..errors import ToolError
from ..values import nearest, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..engine import Database
    from .table import RowTable

LISTED = 20  # values in a refusal
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
    more = " and more" if len(known) > LISTED else ""
    there = "there is only" if len(known) == 1 else "there are"
    return f": {there} {', '.join(map(shortened, known[:LISTED]))}{more}"
