"""Says which tables of a project are moved, and by what their rows are known."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ralphgen.project.model import Names, Schema, Table
from ralphgen.project.served_tables import key_of
from ralphgen.runtime.engine.entries import PREFIX

TABLES = ("metadata", "disciplines", "features", "tasks", "task_comments", "recipe_configs")
"""ralphgen's own tables that can be moved; a row refers only to earlier tables."""

Value = str | int | float | bytes | None
RowKey = str | int | float | bytes | tuple[Value, ...]
Key = tuple[str, RowKey]
"""A table and the key of a row: one value, or a tuple of values."""

Row = Mapping[str, Value]

_KEYS = {"metadata": "id", "tasks": "id", "task_comments": "id"}
_REFERENCE = re.compile(r"(.+)\((.+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table: the columns that are moved, sorted, and those of them by which a row is known.

    `kinds` are those of its columns, as `read_tables` names them. `references` holds, by column,
    the table and the column that it names, and `optional` the columns that may be empty. `lacking`
    are hidden columns without a value of which no row can be added. `is_ralphs` says that it is one
    of `TABLES`, in a project that has these.
    """

    name: str
    columns: Names
    key: Names
    kinds: Mapping[str, str]
    references: Mapping[str, tuple[str, str]]
    optional: frozenset[str]
    lacking: Names
    is_ralphs: bool

    def key_of(self, row: Row) -> RowKey | None:
        """Return what a row is known by, None where a part of it is missing."""
        values = tuple(row.get(column) for column in self.key)
        if None in values:
            return None
        return values[0] if len(values) == 1 else values


def key_column(table: str) -> str:
    """Return the column by which a row of one of `TABLES` is known."""
    return _KEYS.get(table, "name")


def key_values(key: RowKey) -> tuple[Value, ...]:
    """Return the values of a key, one for each of its columns."""
    return key if isinstance(key, tuple) else (key,)


def table_order(table: str) -> tuple[int, str]:
    """Return what sorts ralphgen's own tables before all others."""
    return (TABLES.index(table) if table in TABLES else len(TABLES)), table


def key_order(key: RowKey) -> list[tuple[int, Value]]:
    """Return what sorts keys: numbers, then texts, then bytes."""
    ranks: dict[type, int] = {str: 1, bytes: 2}
    return [(ranks.get(type(value), 0), value) for value in key_values(key)]


def moved_tables(
    schema: Schema, stored: Collection[str], ralphs: Collection[str]
) -> dict[str, MovedTable]:
    """Return the tables whose rows are moved, by name, ralphgen's own first.

    These are those of the servers that are `stored` as tables, and have a visible key. `ralphs` are
    `TABLES`, or none in a project of tables alone.
    """
    found = (
        _moved(schema, table, is_ralphs=table.name in ralphs) for table in _stored(schema, stored)
    )
    moved = [table for table in found if table.key and {*table.key} <= {*table.columns}]
    return {table.name: table for table in sorted(moved, key=lambda one: table_order(one.name))}


def left_out(schema: Schema, stored: Collection[str], ralphs: Collection[str]) -> Iterator[str]:
    """Yield what to say of tables that cannot be moved, or to which no row can be added."""
    moved = moved_tables(schema, stored, ralphs)
    for table in _stored(schema, stored):
        if table.name not in moved and table.name not in ralphs:
            yield f'left out: "{table.name}" has no primary key to identify its rows'
    yield from (f"warning: {no_rows(one)}" for one in moved.values() if one.lacking)


def no_rows(table: MovedTable) -> str:
    """Return the sentence on a table whose hidden columns keep new rows out."""
    named = ", ".join(f'"{column}"' for column in table.lacking)
    return f'rows of "{table.name}" cannot be added elsewhere: {named} is required but hidden'


def _stored(schema: Schema, stored: Collection[str]) -> list[Table]:
    names = {schema.folded(name) for name in stored}
    tables = (table for table in schema.tables if not table.name.startswith(PREFIX))
    return [table for table in tables if schema.folded(table.name) in names]


def _moved(schema: Schema, table: Table, *, is_ralphs: bool) -> MovedTable:
    key = (key_column(table.name),) if is_ralphs else key_of(table)
    stored = [column for column in table.columns if not column.generated]
    columns = [one for one in stored if not schema.hidden(table.name, one.name)]
    references = {
        one.name: (found[1], found[2])
        for one in columns
        if (found := _REFERENCE.fullmatch(one.references or ""))
    }
    return MovedTable(
        name=table.name,
        columns=tuple(sorted(one.name for one in columns)),
        key=key,
        kinds={one.name: one.type for one in columns},
        references=references,
        optional=frozenset(one.name for one in columns if not one.not_null),
        lacking=tuple(
            one.name
            for one in stored
            if one not in columns and one.not_null and one.default is None
        ),
        is_ralphs=is_ralphs,
    )
