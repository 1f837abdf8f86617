"""Finds which columns a view reads, and those of them that nobody may be shown."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from ralphgen.errors import ProjectError
from ralphgen.project.connection import DatabaseConnection
from ralphgen.project.model import Schema
from ralphgen.project.postgresql import PostgresqlConnection
from ralphgen.project.queries.postgresql import read_by_view
from ralphgen.project.queries.rules import is_secret
from ralphgen.project.queries.sqlite import Watcher, compile_statement, found_catalog
from ralphgen.runtime.sqlite.library import quoted

Reads = Callable[[str], Iterable[tuple[str, str]]]


def view_reads(connection: DatabaseConnection) -> Reads:
    """Return what tells of a name the columns that the view reads, as (table, column).

    Also those that it reads by other views, or only to choose its rows; of a table none. It raises
    `ProjectError` for a view that does not compile.
    """
    if isinstance(connection, PostgresqlConnection):
        raw = connection.raw
        return lambda name: read_by_view(raw, name)
    opened = cast("sqlite3.Connection", connection)
    catalog = found_catalog(opened)

    def found(name: str) -> Iterable[tuple[str, str]]:
        watcher = Watcher(catalog)
        known = catalog.named(name)
        if known and catalog.tables[known].view:
            statement = f"SELECT * FROM {quoted(known)}"
            try:
                compile_statement(opened, statement, (), watcher)
            except sqlite3.Error as error:
                text = f'the view "{known}" cannot be read: {error}'
                raise ProjectError(text, "fix it, or take its tools out") from error
        return watcher.reads

    return found


def secrets_in_view(reads: Reads, schema: Schema, name: str) -> Iterator[str]:
    """Yield, as "table.column", what a view reads and tools may not show; raises what `reads` does.

    What the view's own columns are called does not count: they are hidden like those of a table.
    """
    for table, column in sorted(reads(name)):
        own = schema.folded(table) == schema.folded(name)
        if not own and is_secret(table, column, schema.hidden):
            yield f"{table}.{column}" if column else table
