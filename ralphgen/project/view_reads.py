"""Finds which columns a view reads, and those of them that nobody may be shown."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from ralphgen.errors import ProjectError
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.project.queries.postgresql import read_by_view, related_columns
from ralphgen.project.queries.rules import is_secret, merged_secrets
from ralphgen.project.queries.sqlite import (
    USES,
    QueriedTables,
    Watcher,
    compile_statement,
    empty_database,
    found_catalog,
)
from ralphgen.project.queries.tokens import read_tokens, without_comments
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.schema import fold
from ralphgen.runtime.engine.sqlite.own_statements import folded, missing_tables

Reads = Callable[[str], Iterable[tuple[str, str]]]


def view_reads(connection: Snapshot, schema: Schema) -> Reads:
    """Return what tells of a name the columns that the view reads, as (table, column).

    Also those that it reads by other views, or only to choose its rows; of a table those of others
    that have a value in its rows, as a partition. It raises
    `ProjectError` for a view that does not compile, and on SQLite for one that needs hidden columns
    to compile, or that could merge them.
    """
    if connection.sql.TYPED:
        raw = connection.connection
        return lambda name: (
            read_by_view(raw, name)
            | {one for one in related_columns(raw, name) if not schema.hidden(name, one[1])}
        )
    opened: sqlite3.Connection = connection.connection
    catalog = found_catalog(opened)
    visible = catalog.visible(lambda table, column: is_secret(table, column, schema.hidden))

    def found(name: str) -> Iterable[tuple[str, str]]:
        watcher = Watcher(catalog)
        known = catalog.named(name)
        if known and catalog.tables[known].view:
            statement = f"SELECT * FROM {quoted(known)}"
            try:
                compile_statement(opened, statement, (), watcher)
            except sqlite3.Error as error:
                text = f'the view "{known}" cannot be read: {error}'
                raise ProjectError(text, "fix the view, or remove it from [tables]") from error
            # An authorizer does not report columns that a join merges.
            if not any(is_secret(*one, schema.hidden) for one in watcher.reads):
                _refuse_merged(catalog, visible, known, schema)
        return watcher.reads

    return found


def _refuse_merged(whole: QueriedTables, visible: QueriedTables, view: str, schema: Schema) -> None:
    """Raise `ProjectError` if a view means something else without the hidden columns."""
    missing = missing_tables([*visible.virtual.values()], folded(schema.hide))
    watcher = Watcher(visible, indexes=frozenset({*visible.virtual} - missing))
    reason = ""
    with closing(empty_database(visible)) as empty:
        try:
            for kind, name, definition in visible.virtual.values():
                if kind == "virtual" and fold(name) in watcher.indexes:
                    empty.execute(definition)
            compile_statement(empty, f"SELECT * FROM {quoted(view)}", (), watcher)
        except sqlite3.Error as error:
            reason = str(error)
    waiting, words, natural = [view], set[str](), False
    merged: list[str] = []
    while waiting:
        definition = visible.tables[waiting.pop()].view
        tokens = without_comments(read_tokens(definition, view, 1, sqlite=True))
        natural = natural or any(token.is_word("NATURAL") for token in tokens)
        merged += merged_secrets(tokens, schema.hidden)
        names = {fold(token.name or token.text[1:-1]) for token in tokens} - words
        words |= names
        waiting += [one for one in map(visible.named, names) if one and visible.tables[one].view]
    refused = [one for one in watcher.refused if not one.startswith(USES)]  # functions read nothing
    if not reason and refused:
        reason = f"it {refused[0]}"
    read = {name for name in map(whole.named, words) if name}
    reduced = any(
        name not in visible.tables or visible.tables[name].columns != whole.tables[name].columns
        for name in read
    )
    if not reason and natural and reduced:
        reason = "it uses NATURAL JOIN, which does not name its columns"
    if not reason and merged:
        reason = f'it joins by "{merged[0]}"'
    if reason:
        text = f'the view "{view}" may read hidden columns: {reason}'
        raise ProjectError(text, "join on named, visible columns")


def secrets_in_view(reads: Reads, schema: Schema, name: str) -> Iterator[str]:
    """Yield, as "table.column", what a view reads and tools may not show; raises what `reads` does.

    What the view's own columns are called does not count: they are hidden like those of a table.
    """
    for table, column in sorted(reads(name)):
        own = schema.folded(table) == schema.folded(name)
        if not own and is_secret(table, column, schema.hidden):
            yield f"{table}.{column}" if column else table
