"""Prepares named queries against the tables of an SQLite database, without running them."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.project.queries.files import Token, read_tokens, without_comments
from ralphgen.project.queries.rules import Hidden, is_secret, merged_secrets
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.schema import fold
from ralphgen.runtime.engine.sqlite.own_statements import folded, missing_tables
from ralphgen.runtime.engine.sqlite.query_rules import (
    FUNCTIONS,
    TABLE_FUNCTIONS,
    WARMING,
    is_counted,
)
from ralphgen.runtime.engine.sqlite.schema import affinity

if TYPE_CHECKING:
    from ralphgen.project.database import Snapshot

_OBJECTS = """
    SELECT m.name, m.type, m.sql, coalesce(l.type, m.type), coalesce(l.wr, 0)
    FROM sqlite_master AS m
        LEFT JOIN pragma_table_list AS l ON l.schema = 'main' AND l.name = m.name
    WHERE m.type IN ('table', 'view', 'trigger') ORDER BY m.name
"""
_COLUMNS = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1"
_UNIQUE = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial ORDER BY name'
_INDEXED = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"
_WRITES = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
}
USES = "uses the function"
_SCHEMA_PAGE = 1  # where the schema table begins, in every database
_DEFINITIONS = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%(%'"
_WITHIN = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION)


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """A table or a view, as far as a statement on it can be prepared.

    `columns` are (name, what it stores, place in the primary key). `unique` are the columns of
    each unique index. `view` is the definition of a view, empty for a table.
    """

    columns: tuple[tuple[str, str, int], ...]
    unique: tuple[tuple[str, ...], ...] = ()
    without_rowid: bool = False
    view: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in order."""
        return tuple(name for _, name in sorted((pk, name) for name, _, pk in self.columns if pk))


@dataclass(frozen=True, slots=True)
class QueriedTables:
    """The tables and views that there are, by name.

    `virtual` are the definitions of virtual tables and shadow tables, by their names in lower case.
    """

    tables: Mapping[str, QueriedTable]
    virtual: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    triggers: frozenset[str] = frozenset()

    def named(self, name: str) -> str:
        """Return the name of a table as the database spells it, or an empty text."""
        return next((one for one in self.tables if fold(one) == fold(name)), "")

    def visible(self, hidden: Callable[[str, str], bool]) -> "QueriedTables":
        """Return the tables without their hidden columns, and views unchanged.

        `hidden` tells of a table and a column whether it is hidden, and of a table with an empty
        column whether all of it is.
        """
        tables: dict[str, QueriedTable] = {}
        for name, table in self.tables.items():
            columns = tuple(one for one in table.columns if table.view or not hidden(name, one[0]))
            known = {column for column, *_ in columns}
            if columns and not hidden(name, ""):
                without_rowid = table.without_rowid and {*table.key} <= known
                unique = tuple(one for one in table.unique if {*one} <= known)
                tables[name] = replace(
                    table, columns=columns, unique=unique, without_rowid=without_rowid
                )
        return replace(self, tables=tables)

    def facts(self, reads: Mapping[str, Iterable[str]]) -> dict[str, Any]:
        """Return what queries use of the tables that they read and write, as a value of JSON."""
        return {
            name: _table_facts(self.tables[name], {*columns})
            for name, columns in sorted(reads.items())
        }


def _table_facts(table: QueriedTable, used: set[str]) -> dict[str, Any]:
    """Return what is used of a table, by names that stand in one order whatever that of columns."""
    used |= {*table.key}
    facts = {
        "columns": {name: kind for name, kind, _ in sorted(table.columns) if name in used},
        "key": [*table.key],
        "unique": sorted([*one] for one in table.unique if {*one} <= used),
        "view": table.view,
        "without_rowid": table.without_rowid,
    }
    return {name: said for name, said in facts.items() if said or name == "columns"}


def found_catalog(connection: sqlite3.Connection) -> QueriedTables:
    """Return the tables of an open database."""
    tables: dict[str, QueriedTable] = {}
    virtual: dict[str, tuple[str, str, str]] = {}
    triggers: set[str] = set()
    for name, kind, sql, sort, without_rowid in connection.execute(_OBJECTS).fetchall():
        if kind == "trigger":
            triggers.add(fold(name))
        elif sort in ("virtual", "shadow"):
            virtual[fold(name)] = (sort, name, sql)
        elif not fold(name).startswith("sqlite_"):
            columns = _columns(connection, name)
            if not columns:  # a view of what is not there any more, which nothing can read
                continue
            tables[name] = QueriedTable(
                tuple((one, stored(said, sql), pk) for one, said, pk, _ in columns)
                if kind == "table"
                else tuple((one, "", 0) for one, *_ in columns),  # versions of SQLite differ there
                _unique(connection, name) if kind == "table" else (),
                bool(without_rowid),
                sql if kind == "view" else "",
            )
    named = {word for table in tables.values() for word in _words(table.view)}
    return QueriedTables(tables, virtual, frozenset(triggers - named))


def _words(view: str) -> Iterator[str]:
    """Yield the names in the definition of a view, which may have a WITH called like a trigger."""
    with suppress(ProjectError):  # a query that reads it is refused
        for token in read_tokens(view, "", 1, sqlite=True):
            yield fold(token.name)


def _columns(connection: sqlite3.Connection, name: str) -> list[tuple[str, str, int, int]]:
    """Return the columns of a table or a view, none of a view that does not compile."""
    try:
        return connection.execute(_COLUMNS, (name,)).fetchall()
    except sqlite3.OperationalError:
        return []


def stored(declared: str, sql: str) -> str:
    """Return what a column holds, told by its declared type: SQLite's affinity, or closer."""
    kind = affinity(declared, sql)
    if kind == "NUMERIC" and "BOOL" in declared.upper():
        return "BOOLEAN"
    return "DATE" if kind == "NUMERIC" and re.search("DATE|TIME", declared.upper()) else kind


def _unique(connection: sqlite3.Connection, table: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for (index,) in connection.execute(_UNIQUE, (table,)).fetchall():
        names = tuple(name for (name,) in connection.execute(_INDEXED, (index,)))
        if None not in names:
            found.append(names)
    return tuple(found)


def recorded_catalog(facts: Mapping[str, Any]) -> QueriedTables:
    """Return the tables that `QueriedTables.facts` has recorded."""
    return QueriedTables({name: _recorded(said) for name, said in facts.items()})


def _recorded(said: Mapping[str, Any]) -> QueriedTable:
    key = said.get("key", [])
    places = {name: at for at, name in enumerate(key, start=1)}
    return QueriedTable(
        tuple((column, kind, places.get(column, 0)) for column, kind in said["columns"].items()),
        tuple(tuple(one) for one in said.get("unique", [])),
        said.get("without_rowid", False),
        said.get("view", ""),
    )


def empty_database(catalog: QueriedTables) -> sqlite3.Connection:
    """Return a database in memory that has the tables, without rows.

    Raises `ProjectError` if a table cannot be made. A statement that reads a view of a missing
    column does not compile.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for name, table in catalog.tables.items():
            if not table.view:
                for statement in _definitions(name, table):
                    connection.execute(statement)
        connection.set_authorizer(_no_files)
        for table in catalog.tables.values():
            if table.view:
                with suppress(sqlite3.OperationalError):
                    connection.execute(table.view)
        connection.set_authorizer(None)
    except sqlite3.Error as error:
        connection.close()
        raise ProjectError(f"the tables of the queries cannot be created: {error}") from error
    return connection


def _definitions(name: str, table: QueriedTable) -> Iterable[str]:
    columns = [quoted(column) for column, _, _ in table.columns]
    key = ", ".join(map(quoted, table.key))
    parts = ", ".join([*columns, *([f"PRIMARY KEY ({key})"] if key else [])])
    yield f"CREATE TABLE {quoted(name)} ({parts}){' WITHOUT ROWID' if table.without_rowid else ''}"
    for at, one in enumerate(table.unique):
        listed = ", ".join(map(quoted, one))
        yield f"CREATE UNIQUE INDEX {quoted(f'{name} {at}')} ON {quoted(name)} ({listed})"


def _no_files(action: int, *_: object) -> int:
    attaches = action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_DENY if attaches and action != sqlite3.SQLITE_FUNCTION else 0


@dataclass(slots=True)
class Watcher:
    """What a statement does, noted while it is prepared: SQLite's authorizer.

    `reads` holds (table, column), `writes` (verb, table, column). `refused` says in words what it
    may not do, `functions` and tables that are none, but for the virtual tables in `indexes`.
    """

    catalog: QueriedTables
    reads: set[tuple[str, str]] = field(default_factory=set)
    writes: list[tuple[str, str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    indexes: frozenset[str] = frozenset()

    def __call__(
        self, action: int, first: str | None, second: str | None, _base: object, by: str | None
    ) -> int:
        """Note a part of the statement; nothing is denied, since nothing is run."""
        name, other = first or "", second or ""
        if by and fold(by) in self.catalog.triggers and not self.catalog.named(by):
            return sqlite3.SQLITE_OK  # what triggers of the app do is the app's
        if action == sqlite3.SQLITE_READ:
            self._read(name, other)
        elif action in _WRITES:
            self.writes.append((_WRITES[action], name, other))
        elif action == sqlite3.SQLITE_FUNCTION:
            if other.lower() not in FUNCTIONS:
                self.refused.append(f'{USES} "{other}"')
        elif action not in _WITHIN:
            self.refused.append("is not a SELECT, INSERT, UPDATE or DELETE")
        return sqlite3.SQLITE_OK

    def _read(self, table: str, column: str) -> None:
        known = self.catalog.named(table)
        if fold(table) in self.indexes:
            return
        if known:
            self.reads.add((known, column))
        elif fold(table) in self.catalog.virtual:
            self.refused.append(f'reads the virtual table "{table}"')
        elif table.lower() not in TABLE_FUNCTIONS and not is_counted(table.lower(), column):
            self.refused.append(f'reads "{table}"')


def compile_statement(
    connection: sqlite3.Connection, sql: str, values: Iterable[str], watcher: Watcher
) -> None:
    """Have SQLite compile a statement, as `watcher` notes, but not run it.

    The program shows access to the schema table, which `USING` hides from an authorizer.

    Raises `sqlite3.Error` where it does not compile.
    """
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        cursor.execute(WARMING).fetchall()
        connection.set_authorizer(watcher)
        try:
            program = cursor.execute(f"EXPLAIN {sql}", dict.fromkeys(values)).fetchall()
        finally:
            connection.set_authorizer(None)
        opened = ("OpenRead", "OpenWrite", "ReopenIdx")
        if any(step[1] in opened and step[3] == _SCHEMA_PAGE for step in program):
            watcher.refused.append("reads the schema table")


def view_reads(
    connection: sqlite3.Connection, hidden: Hidden, hide: Sequence[str]
) -> Callable[[str], Iterable[tuple[str, str]]]:
    """Return a function that returns the columns a view reads, as (table, column).

    It raises `ProjectError` for a view that does not compile, that needs columns in `hide` to
    compile, or that may merge them.
    """
    catalog = found_catalog(connection)
    visible = catalog.visible(lambda table, column: is_secret(table, column, hidden))

    def found(name: str) -> Iterable[tuple[str, str]]:
        watcher = Watcher(catalog)
        known = catalog.named(name)
        if known and catalog.tables[known].view:
            statement = f"SELECT * FROM {quoted(known)}"
            try:
                compile_statement(connection, statement, (), watcher)
            except sqlite3.Error as error:
                text = f'the view "{known}" cannot be read: {error}'
                raise ProjectError(text, "fix the view, or remove it from [tables]") from error
            # An authorizer does not report columns that a join merges.
            if not any(is_secret(*one, hidden) for one in watcher.reads):
                _refuse_merged(catalog, visible, known, hidden, hide)
        return watcher.reads

    return found


def _refuse_merged(
    whole: QueriedTables, visible: QueriedTables, view: str, hidden: Hidden, hide: Sequence[str]
) -> None:
    """Raise `ProjectError` if a view means something else without the hidden columns."""
    missing = missing_tables([*visible.virtual.values()], folded(hide))
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
        merged += merged_secrets(tokens, hidden)
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


def computed_columns(connection: "Snapshot") -> Iterator[tuple[str, str, str]]:
    """Yield the table, the generated column and each name in its definition."""
    for table, sql in connection.rows(_DEFINITIONS):
        if sql.upper().startswith("CREATE TABLE"):
            tokens = without_comments(read_tokens(sql, table, 1, sqlite=True))
            for part, is_generated in _parts(tokens):
                if is_generated:
                    for token in part[1:]:
                        if token.name:
                            yield table, part[0].name, fold(token.name)


def _parts(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], bool]]:
    """Yield the definition of each column or constraint, and whether it is a generated column."""
    part: list[Token] = []
    depth, is_generated = 0, False
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if (depth == 1 and token.text == ",") or (depth == 0 and token.text == ")"):
            if part:
                yield part, is_generated
            part, is_generated = [], False
        elif depth and not (depth == 1 and token.text == "(" and not part):
            is_generated = is_generated or (depth == 1 and token.is_word("AS"))
            part.append(token)
