"""Exports a project's rows, and imports rows into it: all that is planned, or nothing."""

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import Problem, ProjectError, Say, plain
from ralphgen.exchange.incoming import go_on_counting, refusals
from ralphgen.exchange.lines import read_lines, refuse_unknown_columns, shown_key
from ralphgen.exchange.merge import MergedRows, RowEdit, after, merge, nearest
from ralphgen.exchange.references import broken_references, circle, unreadable_lists
from ralphgen.exchange.rows import (
    MASK,
    SECRET,
    TABLES,
    Key,
    Rows,
    Value,
    exchanged,
    key_column,
    read_rows,
    spelled_lines,
    unmasked,
    with_json_in_order,
)
from ralphgen.exchange.spelling import spelled
from ralphgen.kits.ralph.rows import STATUSES
from ralphgen.kits.registry import KITS
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.opened import connection_of, journal_of, opened_database
from ralphgen.ledger.tables import read_state
from ralphgen.output.files import WRITE_HINT, put, refuse_irregular
from ralphgen.project.connection import DatabaseConnection, open_database
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import read_schema
from ralphgen.project.model import Schema
from ralphgen.project.postgresql import PostgresqlConnection, first_line
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files import reason
from ralphgen.runtime.postgresql.library import GIVEN_NUMBER
from ralphgen.runtime.sqlite.library import quoted

if TYPE_CHECKING:
    from ralphgen.runtime.database.connection import Database

BASE = ".ralph/last-export.jsonl"
"""What this project and others had in common last; it is not for git."""

OLDER = tuple(f".ralph/backups/last-export-{number}.jsonl" for number in range(1, 5))
"""What they had in common before that, the newest first."""

BEGINNING = b'{"table": "'  # of every export
RECIPE, TOOL = "manual", "import"  # as which the journal knows it
SHOWN = 20  # rows in a message
_ADD = "INSERT INTO TABLE (COLUMNS) VALUES (MARKS)"
_CHANGE = "UPDATE TABLE SET COLUMNS WHERE KEY = ?"
_REMOVE = "DELETE FROM TABLE WHERE KEY = ?"
_LATER, _LATER_ON_POSTGRESQL = "PRAGMA defer_foreign_keys = ON", "SET CONSTRAINTS ALL DEFERRED"
_SERVERS = "SELECT mcp_servers FROM disciplines WHERE name = ?"


Kinds = Mapping[tuple[str, str], str]
"""The kind of a column, as `read_tables` names it, by table and column."""


@dataclass(frozen=True, slots=True)
class Own:
    """The rows of a project, the columns of them that are moved, and its schema.

    `kinds` are those of the columns in PostgreSQL, None in a file of SQLite, where any value may
    stand anywhere.
    """

    rows: Rows
    columns: Mapping[str, Sequence[str]]
    schema: Schema
    kinds: Kinds | None


Plan = Callable[[Own], MergedRows]
"""Says what has to be done to the project's rows; is asked again when they are written."""


class _DryRunError(Exception):
    """All was tried, and nothing is to stay."""


def export_text(root: Path) -> str:
    """Return the visible rows of the project in `root` as lines; the same rows, the same bytes."""
    return "".join(spelled_lines(_read_own(root).rows))


def export_file(root: Path, file: Path) -> None:
    """Write the rows to a file, which is what the other side has from now on.

    Raises `ProjectError` where another file is there, such as the project's own database.
    """
    _refuse_another_file(file)
    text = export_text(root)
    put(file, text)
    _keep_base(root, text)


def import_rows(
    root: Path, file: Path, *, is_database: bool, dry_run: bool, allow_removals: bool, say: Say
) -> tuple[RowEdit, ...]:
    """Merge the rows of an export, or of another project's database; return what was changed.

    What both sides had is the last export or import. Raises `ProjectError` for a conflict, for
    removals that are not allowed, and for a file that is not whole; nothing is changed then.
    """
    theirs = _rows_of_database(file, root) if is_database else read_lines(file)
    bases = [read_lines(root / path) for path in (BASE, *OLDER) if (root / path).exists()]

    def plan(own: Own) -> MergedRows:
        refuse_unknown_columns(theirs, own.columns, str(file))
        known = [with_json_in_order(rows, own.schema) for rows in bases]
        rows = with_json_in_order(theirs, own.schema)
        at = nearest(known, rows) if known else None
        stale = [f"{file} comes from before the last export or import: what it has is merged so"]
        merged = merge(None if at is None else known[at], own.rows, rows, known)
        if not allow_removals:
            _refuse_removals(merged)
        return replace(merged, notes=(*(stale if at else ()), *_odd_statuses(merged)))

    changes = import_planned(root, plan, dry_run=dry_run, say=say)
    if not dry_run:
        _keep_base(root, "".join(spelled_lines(theirs)))
    return changes


def import_planned(root: Path, plan: Plan, *, dry_run: bool, say: Say) -> tuple[RowEdit, ...]:
    """Do what is planned, after a backup; return it. A dry run tries it, and leaves nothing.

    Raises `ProjectError` for conflicts and for what the database refuses.
    """
    merged = _checked(plan, _read_own(root))
    if merged.differing:
        say(f"differ, and stay as they are: {_listed(merged.differing)}")
    for note in merged.notes:
        say(f"warning: {note}")
    if not merged.changes:
        return ()
    if not dry_run:
        say(backed_up(root))
    return _write(root, plan, dry_run=dry_run, say=say)


def _write(root: Path, plan: Plan, *, dry_run: bool, say: Say) -> tuple[RowEdit, ...]:
    done: list[RowEdit] = []
    masked: dict[str, None] = {}

    def work() -> None:
        connection = connection_of(database)
        own = _own(connection, root)
        merged = _checked(plan, own)
        connection.execute(_LATER if own.kinds is None else _LATER_ON_POSTGRESQL)
        for change in _in_order(merged.changes):
            masked.update(dict.fromkeys(_apply(database, change, own.kinds)))
        if own.kinds is not None:
            for table in {change.key[0] for change in merged.changes if change.kind == "add"}:
                go_on_counting(connection, table, key_column(table))
        done[:] = merged.changes
        if dry_run:
            raise _DryRunError

    session = f"import-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    is_recorded = read_state(root).version is not None
    with opened_database(root) as database, suppress(_DryRunError):
        if is_recorded:
            facts = {"recipe": RECIPE}
            journal = journal_of(database, session, facts, lambda: TOOL, ends_with_writes=True)
            database.before_writes.append(journal.begin)
        database.writing(work)
        if is_recorded:
            say(f'to take it back: "ralphgen undo {session}"')
    for name in masked:
        say(f'warning: secrets of the MCP servers of "{plain(name)}" are to be set: they are "***"')
    return tuple(done)


def _apply(database: "Database", change: RowEdit, kinds: Kinds | None) -> Iterator[str]:
    """Write a change; yield the name of a discipline some of whose secrets are not known."""
    table, key = change.key
    sql = {"add": _ADD, "change": _CHANGE, "remove": _REMOVE}[change.kind]
    values = dict(change.values)
    of, column = SECRET
    if table == of and column in values:
        found = database.row(_SERVERS, [key])
        values[column] = unmasked(found[0] if found else None, values[column])
        if f'"{MASK}"' in str(values[column]):
            yield str(key)
    mark = ", ".join(f"{quoted(name)} = ?" for name in values)
    names = ", ".join(map(quoted, values)) if change.kind == "add" else mark
    statement = sql.replace("KEY", quoted(key_column(table))).replace("COLUMNS", names)
    statement = statement.replace("MARKS", ", ".join("?" * len(values)))
    if kinds is not None:
        values = {name: spelled(kinds[table, name], name, one) for name, one in values.items()}
        statement = statement.replace(" VALUES ", f"{GIVEN_NUMBER} VALUES ", 1)
    given: list[Value] = [*values.values(), *([] if change.kind == "add" else [key])]
    try:
        database.change(statement.replace("TABLE", quoted(table)), given)
    except refusals(database) as error:
        said = first_line(error)
        raise ToolError(f"{shown_key(change.key)}: the database refuses it: {said}") from error


def _in_order(changes: tuple[RowEdit, ...]) -> list[RowEdit]:
    """Return the changes so that rows come after those that they name, and go before them."""
    gone = [change for change in changes if change.kind == "remove"]
    kept = [change for change in changes if change.kind != "remove"]
    kept.sort(key=lambda change: TABLES.index(change.key[0]))
    gone.sort(key=lambda change: -TABLES.index(change.key[0]))
    return [*kept, *gone]


def _checked(plan: Plan, own: Own) -> MergedRows:
    """Return the plan; raise `ProjectError` for its conflicts, and for names that lead nowhere."""
    merged = plan(own)
    problems = [*merged.conflicts, *_unstorable(merged, own)]
    if not problems:
        rows = after(own.rows, merged.changes)
        problems = [*unreadable_lists(own.rows, rows), *broken_references(own.rows, rows)]
        problems += [found] if (found := circle(own.rows, rows)) else []
    if problems:
        *others, last = problems
        hint = "nothing was changed: settle each of these on one side, then import again"
        raise ProjectError.of([*map(Problem, others), Problem(last, hint)])
    return merged


def _unstorable(merged: MergedRows, own: Own) -> Iterator[str]:
    """Yield what PostgreSQL has no place for, of the values that would be written."""
    for change in merged.changes if own.kinds is not None else ():
        for name, value in change.values.items():
            try:
                spelled((own.kinds or {})[change.key[0], name], name, value)
            except ValueError as error:
                yield f'{shown_key(change.key)}: "{name}": {error}'


def _refuse_removals(merged: MergedRows) -> None:
    gone = [change.key for change in merged.changes if change.kind == "remove"]
    if gone and not merged.conflicts:
        raise ProjectError(
            f"these are gone there since the last export or import: {_listed(gone)}",
            "to remove them here too, say --allow-removals",
        )


def _odd_statuses(merged: MergedRows) -> Iterator[str]:
    """Yield what to say of statuses that no tool knows, and the database takes all the same."""
    for change in merged.changes:
        status = change.values.get("status")
        if change.key[0] == "tasks" and isinstance(status, str) and status not in STATUSES:
            named = f'"{plain(status)}", which is none of {", ".join(STATUSES)}'
            yield f"the status of {shown_key(change.key)} is {named}"


def _listed(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"{', '.join(map(shown_key, keys[:SHOWN]))}{more}"


def _read_own(root: Path) -> Own:
    try:
        with open_database(root) as connection:
            return _own(connection, root)
    except sqlite3.Error as error:
        text = f"the database cannot be read: {error}"
        raise ProjectError(text, 'run "ralphgen doctor"') from error


def _own(connection: DatabaseConnection, root: Path) -> Own:
    schema = read_schema(connection, root, KITS)
    columns = exchanged(schema)
    rows = with_json_in_order(read_rows(connection, columns), schema)
    kinds = None
    if isinstance(connection, PostgresqlConnection):
        tables = schema.tables
        kinds = {(one.name, column.name): column.type for one in tables for column in one.columns}
    return Own(rows, columns, schema, kinds)


def _rows_of_database(file: Path, root: Path) -> Rows:
    """Return the rows of another project's database, by what is visible in ours."""
    try:
        with open_without_trace(file) as connection:
            return _own(connection, root).rows
    except sqlite3.Error as error:
        raise ProjectError(f'"{file}" cannot be read: {error}', 'run "ralphgen doctor"') from error


def _refuse_another_file(file: Path) -> None:
    if not file.is_file():
        return
    try:
        with file.open("rb") as stream:
            beginning = stream.read(len(BEGINNING))
    except OSError as error:
        raise ProjectError(f'"{file}" cannot be read: {reason(error)}', WRITE_HINT) from error
    if beginning not in {b"", BEGINNING}:
        raise ProjectError(
            f'"{file}" is there and is no export, which alone is written over',
            "name another file, or move that one away",
        )


def _keep_base(root: Path, text: str) -> None:
    paths = (BASE, *OLDER)
    refuse_irregular(root, paths)  # a link in a clone may lead anywhere
    before = [(root / path).read_text(encoding="utf-8") for path in paths if (root / path).exists()]
    if before[:1] != [text]:
        for path, kept in reversed([*zip(paths, [text, *before], strict=False)]):
            put(root / path, kept)
