"""Turns a project's database into the facts of its schema, and says what it lacks."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Column, Names, Schema, Table, table_facts
from ralphgen.runtime.engine.schema import TABLES, fingerprint, fold

REQUIRED_COLUMNS = {
    "disciplines": ("name",),
    "features": ("name",),
    "tasks": ("id", "feature", "discipline", "title", "status"),
}
"""The tables and columns without which no server can be written."""

_REPLACED_TABLES = {"tasks": "runtime_tasks", "features": "subsystems"}
_REPLACED_COLUMNS = {"feature": ("feature_id", "subsystem_id"), "discipline": ("discipline_id",)}
_LIKELY = 0.6

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table name to columns, as `read_tables` returns them and JSON keeps them."""


def table_names(connection: Snapshot) -> tuple[str, ...]:
    """Return the names of all tables, sorted, for `missing_required_columns`."""
    return tuple(sorted(name for (name,) in connection.rows(connection.catalog.TABLE_NAMES)))


def relation_names(connection: Snapshot) -> tuple[str, ...]:
    """Return the names of all tables and views, sorted, without virtual ones and their parts."""
    return tuple(sorted(name for (name,) in connection.rows(connection.catalog.RELATION_NAMES)))


def column_names(connection: Snapshot, table: str) -> list[str]:
    """Return the names of a table's columns; none without such a table."""
    return [name for (name,) in connection.rows(connection.catalog.COLUMN_NAMES, [table])]


def task_indexes(connection: Snapshot) -> set[Names]:
    """Return the keys of each index on all tasks, as SQL; those that are unknown are empty."""
    found: dict[str, list[str]] = {}
    for index, key in connection.rows(connection.catalog.TASK_INDEXES):
        found.setdefault(index, []).append((key or "").replace("((", "(").replace("))", ")"))
    return {tuple(keys) for keys in found.values()}


def schema_from_facts(
    facts: Facts,
    hide: Iterable[str] = (),
    *,
    case_sensitive: bool = False,
    elsewhere: Collection[str] | None = (),
    required: Mapping[str, Collection[str]] = REQUIRED_COLUMNS,
) -> Schema:
    """Return the schema of tables as `read_tables` or `table_facts` give them, sorted by name.

    So the order in which columns were added changes nothing of what is emitted. `hide` names
    columns (`"tasks.internal_note"`) that the server shall not know; they stay in `tables`,
    since a hidden NOT NULL column decides what can be written, and leave the fingerprint. It may
    name those of other tables too, which named queries could read: `elsewhere` are these in small
    letters, None where they are not known.
    Raises `ProjectError` for a `hide` entry that names no column or a `required` one. A schema
    that lacks required columns is returned: see `missing_required_columns`.
    """
    tables = tuple(
        Table(name, tuple(sorted(map(_column, columns), key=lambda column: column.name)))
        for name, columns in sorted(facts.items())
    )
    hidden = tuple(sorted(set(hide)))
    problems = [
        problem
        for entry in hidden
        for problem in _hide_problems(entry, tables, elsewhere, required)
    ]
    if problems:
        raise ProjectError.of(problems)
    return Schema(tables, fingerprint(table_facts(tables), hidden), hidden, case_sensitive)


def missing_required_columns(schema: Schema, found: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each required table or column that is missing, sorted.

    `found` names all tables of the database, so that a renamed one can be named.
    """
    known = {fold(name) for name in found}
    columns = {
        table.name: [schema.folded(column.name) for column in table.columns]
        for table in schema.tables
    }
    sentences: list[str] = []
    for table, needed in REQUIRED_COLUMNS.items():
        if table not in columns:
            sentences.append(_missing_table(table, known))
        else:
            gaps = [name for name in needed if name not in columns[table]]
            sentences += [_missing_column(table, name, columns[table]) for name in gaps]
    return sorted(sentences)


def _missing_table(table: str, found: set[str]) -> str:
    replacement = _REPLACED_TABLES.get(table)
    later = f', found "{replacement}" of a newer schema' if replacement in found else ""
    return f'table "{table}" is missing{later}'


def _missing_column(table: str, column: str, found: Sequence[str]) -> str:
    replacements = [name for name in _REPLACED_COLUMNS.get(column, ()) if name in found]
    later = f', found "{table}.{replacements[0]}" of a newer schema' if replacements else ""
    return f'column "{table}.{column}" is missing{later}'


def _column(facts: Mapping[str, Any]) -> Column:
    values = facts["values"]
    return Column(**{**facts, "values": None if values is None else tuple(values)})


def _hide_problems(
    entry: str,
    tables: Sequence[Table],
    elsewhere: Collection[str] | None,
    required: Mapping[str, Collection[str]],
) -> Iterator[Problem]:
    """Yield what is wrong with one entry of `[schema] hide`: nothing, or one thing."""
    table, _, column = fold(entry).partition(".")
    names = [f"{one.name}.{two.name}" for one in tables for two in one.columns]
    if column in required.get(table, ()):
        text = f'[schema] hide contains "{entry}", which servers require'
        yield Problem(text, "remove it from hide")
    elif fold(entry) in map(fold, names) or fold(entry) in (elsewhere or ()):
        return
    elif elsewhere is not None or table in map(fold, (*TABLES, *(one.name for one in tables))):
        yield Problem(
            f'[schema] hide contains "{entry}", expected a column as "table.column"',
            _nearest(entry, names),
        )


def _nearest(entry: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(entry, names, n=1, cutoff=_LIKELY)
    tables = ", ".join(f'"{table}"' for table in TABLES)
    return f'did you mean "{close[0]}"?' if close else f"the tables are {tables}"
