"""Prepares queries on SQLite, and reads their types and effects from its compiler."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected
from ralphgen.project.queries import (
    ROWIDS,
    UNTYPED,
    Hidden,
    NamedSql,
    Parameter,
    Preparation,
    PreparedQuery,
    ReturnedItem,
    Token,
    by_table,
    compared_columns,
    inserted,
    is_secret,
    items_of,
    kind_problem,
    lists_all,
    merged_secrets,
    one_line,
    read_tokens,
    refused_names,
    refused_reads,
    refused_writes,
    replaces,
    returned,
    returning_problem,
    selected,
    verb_and_table,
    without_comments,
)
from ralphgen.runtime.engine import fold, quoted
from ralphgen.runtime.engine.sqlite.queries import (
    FUNCTIONS,
    TABLE_FUNCTIONS,
    WARMING,
    absent_tables,
    folded,
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
_SCHEMA_PAGE = 1  # the first page of the schema table, in every database
_DEFINITIONS = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%(%'"
_WITHIN = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION)


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """The definition of a table or a view, as far as preparing a statement needs it.

    `columns` are (name, stored type, position in the primary key). `unique` are the columns of each
    unique index. `view` is the definition of a view, empty for a table.
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

    def stored_name(self, name: str) -> str:
        """Return the name of a table as the database spells it, or an empty text."""
        return next((one for one in self.tables if fold(one) == fold(name)), "")

    def visible(self, hidden: Callable[[str, str], bool]) -> "QueriedTables":
        """Return the tables without their hidden columns, and views unchanged.

        `hidden` returns whether a column of a table is hidden, or with an empty column whether the
        whole table is.
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
    """Return the used facts of a table, independent of the order of its columns."""
    used |= {*table.key}
    facts = {
        "columns": {name: kind for name, kind, _ in sorted(table.columns) if name in used},
        "key": [*table.key],
        "unique": sorted([*one] for one in table.unique if {*one} <= used),
        "view": table.view,
        "without_rowid": table.without_rowid,
    }
    return {name: said for name, said in facts.items() if said or name == "columns"}


def open_catalog(connection: sqlite3.Connection) -> QueriedTables:
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
            if not columns:  # a view of a missing table, which cannot be read
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
    """Return the type of a column's values from its declared type: SQLite's affinity, or closer."""
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
    tables = {}
    for table, said in facts.items():
        places = {column: at for at, column in enumerate(said.get("key", []), start=1)}
        tables[table] = QueriedTable(
            tuple(
                (column, kind, places.get(column, 0)) for column, kind in said["columns"].items()
            ),
            tuple(tuple(one) for one in said.get("unique", [])),
            said.get("without_rowid", False),
            said.get("view", ""),
        )
    return QueriedTables(tables)


def empty_database(catalog: QueriedTables) -> sqlite3.Connection:
    """Return a database in memory that has the tables, without rows.

    Raises `ProjectError` if a table cannot be made. A statement that reads a view of a missing
    column does not compile.
    """
    attaching = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_PRAGMA)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for name, table in catalog.tables.items():
            if not table.view:
                for statement in _definitions(name, table):
                    connection.execute(statement)
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action in attaching else sqlite3.SQLITE_OK
        )
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


@dataclass(slots=True)
class Watcher:
    """An SQLite authorizer that records the effects of a statement while it is prepared.

    `reads` holds (table, column), `writes` (verb, table, column). `refused` lists its forbidden
    effects in words. `functions` also holds table-valued functions, except the virtual tables in
    `indexes`.
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
        if by and fold(by) in self.catalog.triggers and not self.catalog.stored_name(by):
            return sqlite3.SQLITE_OK  # triggers of the app are its own business
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
        known = self.catalog.stored_name(table)
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

    Raises `sqlite3.Error` if it does not compile.
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
    catalog = open_catalog(connection)
    visible = catalog.visible(lambda table, column: is_secret(table, column, hidden))

    def columns_of(name: str) -> Iterable[tuple[str, str]]:
        watcher = Watcher(catalog)
        known = catalog.stored_name(name)
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

    return columns_of


def _refuse_merged(
    whole: QueriedTables, visible: QueriedTables, view: str, hidden: Hidden, hide: Sequence[str]
) -> None:
    """Raise `ProjectError` if a view means something else without the hidden columns."""
    missing = absent_tables([*visible.virtual.values()], folded(hide))
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
        waiting += [
            one for one in map(visible.stored_name, names) if one and visible.tables[one].view
        ]
    refused = [one for one in watcher.refused if not one.startswith(USES)]  # functions read nothing
    if not reason and refused:
        reason = f"it {refused[0]}"
    read = {name for name in map(whole.stored_name, words) if name}
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


_TAKEN = {
    "BOOLEAN": "boolean",
    "DATE": "string",
    "INTEGER": "integer",
    "NUMERIC": "number",
    "REAL": "number",
    "TEXT": "string",
}
_SHOWN = {"INTEGER": "integer", "REAL": "number", "TEXT": "string"}
_JSON = {"boolean": "boolean", "integer": "integer", "number": "number", "text": "string"}
_NEAR = re.compile(r'near "(.+?)"|no such \w+: (?:\w+\.)?(\w+)|: (\w+)$')


def prepare(
    queries: Iterable[NamedSql],
    connection: sqlite3.Connection | None,
    recorded: Mapping[str, Any],
    hidden: Hidden,
    _place: object = None,
) -> Preparation:
    """Return the queries as prepared on a database, or on the tables of `recorded`.

    `hidden` returns whether queries may not see a column of a table. Raises `ProjectError` with
    every problem.
    """
    catalog = open_catalog(connection) if connection else recorded_catalog(recorded)
    visible = catalog.visible(lambda table, column: is_secret(table, column, hidden))
    problems: list[Problem] = []
    prepared: list[PreparedQuery] = []
    used: dict[str, set[str]] = {}
    with closing(empty_database(visible)) as empty, closing(empty_database(catalog)) as whole:
        for query in queries:
            with collected(problems):
                one, touched = _Preparing(
                    query, visible, empty, catalog, connection or whole, hidden
                ).done()
                prepared.append(one)
                for table, column in touched:
                    used.setdefault(table, set()).add(column)
    if problems:
        raise ProjectError.of(problems)
    return Preparation(tuple(prepared), visible.facts(used))


class _Preparing:
    """The preparation of one query."""

    def __init__(
        self,
        query: NamedSql,
        catalog: QueriedTables,
        empty: sqlite3.Connection,
        whole: QueriedTables,
        connection: sqlite3.Connection,
        hidden: Hidden,
    ) -> None:
        self.query = query
        self.tokens = without_comments(query.tokens)
        # The authorizer distinguishes a WITH from a trigger only by its name.
        words = {fold(token.name or token.text[1:-1]) for token in self.tokens}
        self.catalog = replace(catalog, triggers=catalog.triggers - words)
        self.empty = empty
        self.whole = replace(whole, triggers=whole.triggers - words)
        self.connection = connection
        self.hidden = hidden
        # Names in backticks: SQLite may take "name" as a text.
        self.sql = "".join(
            f"`{token.name.replace('`', '``')}`" if token.kind == "name" else token.text
            for token in one_line(query.tokens)
        )
        self.watcher = Watcher(self.catalog)
        self.touched: set[tuple[str, str]] = set()

    def done(self) -> tuple[PreparedQuery, set[tuple[str, str]]]:
        """Return the query and the columns that it touches; raises `ProjectError`."""
        query = self.query
        if problem := kind_problem(query, self.tokens):
            raise ProjectError.of([problem])
        verb, named = verb_and_table(self.tokens)
        try:  # on the visible columns
            compile_statement(
                self.empty, self.sql, [token.text[1:] for token in query.used], self.watcher
            )
        except (sqlite3.Error, sqlite3.Warning) as error:
            self._refuse_hidden(verb, named)
            text = f"{self._line_of(str(error))}: does not compile: {error}"
            raise ProjectError(text) from error
        if verb:
            self._refuse_hidden(verb, named)
        table = self.catalog.stored_name(named)
        sets = {
            column
            for found, where, column in self.watcher.writes
            if found == "UPDATE" and fold(where) == fold(table) and column
        }
        self.touched |= self.watcher.reads | {(table, column) for column in sets}
        problems = [*self._refusals(self.watcher)]
        if verb:
            problems += self._write_problems(verb, named, self.catalog, self.watcher)
        views = self._views()
        problems += self._merge_problems(views, verb)
        if problems:
            raise ProjectError.of(problems)
        self.touched |= self.watcher.reads
        if verb == "INSERT":
            self.touched |= {(table, name) for name, *_ in self.catalog.tables[table].columns}
        parameters = tuple(self._parameters())
        columns = tuple(self._columns(table))
        return (
            PreparedQuery(
                name=query.name,
                kind=query.kind,
                description=query.description,
                sql=self.sql,
                parameters=parameters,
                columns=columns,
                reads=by_table(self.watcher.reads),
                views={view: self.catalog.tables[view].view for view in views},
                place=query.place,
                verb="REPLACE" if verb and replaces(self.tokens) else verb,
                writes=table,
                sets=tuple(sorted(sets)),
            ),
            self.touched,
        )

    def _refuse_hidden(self, verb: str, named: str) -> None:
        """Raise `ProjectError` if the statement uses hidden columns, found on the real tables.

        A second check for a statement that writes: it runs on the real tables.
        """
        watcher = Watcher(self.whole)
        problems = [*refused_names(self.query, self.tokens)]
        try:
            names = [token.text[1:] for token in self.query.used]
            compile_statement(self.connection, self.sql, names, watcher)
        except (sqlite3.Error, sqlite3.Warning):
            pass  # the error of the visible columns is reported
        else:
            problems += self._refusals(watcher)
            if verb:
                problems += self._write_problems(verb, named, self.whole, watcher)
        if problems:
            raise ProjectError.of(problems)

    def _views(self) -> list[str]:
        """Return the views that the statement reads, also through other views.

        Adds the reads that an authorizer does not report: every column of each table in a statement
        with NATURAL or USING, and the key for a read of the row number.
        """
        words = {fold(token.name or token.text[1:-1]) for token in self.tokens}
        views: set[str] = set()
        waiting = {*words, *(fold(table) for table, _ in self.watcher.reads)}
        while waiting:
            found = {name for name in map(self.catalog.stored_name, waiting) if name} - views
            found = {name for name in found if self.catalog.tables[name].view}
            views |= found
            waiting = {
                fold(token.name or token.text[1:-1])
                for view in found
                for token in self._view_tokens(view)
            } - {"", *words}
            words |= waiting
        if {"natural", "using"} & words:
            for name in filter(None, map(self.catalog.stored_name, words)):
                self.watcher.reads |= {(name, one) for one, *_ in self.catalog.tables[name].columns}
        read = {table for table, _ in self.watcher.reads}
        for table in {one for one, column in self.watcher.reads if fold(column) == "rowid"}:
            names = {"rowid", *self.catalog.tables[table].key, *({*ROWIDS} & words)}
            self.watcher.reads |= {(table, name) for name in names}
            self.watcher.reads.discard((table, "ROWID"))
        return sorted(views & read)

    def _view_tokens(self, name: str) -> tuple[Token, ...]:
        """Return the tokens of a view's definition, without comments."""
        view = self.catalog.tables[name].view
        return without_comments(read_tokens(view, name, 1, sqlite=True))

    def _merge_problems(self, views: list[str], verb: str) -> Iterator[Problem]:
        """Yield problems of a statement that would mean something else on the real tables."""
        place = f"{self.query.where}:{self.tokens[0].line}"
        yield from refused_names(self.query, self.tokens)
        texts = [self._view_tokens(view) for view in views]
        for tokens in texts:
            yield from refused_names(self.query, tokens)
        merges = any(
            token.is_word("NATURAL", "USING")
            for tokens in (self.tokens, *texts)
            for token in tokens
        )
        is_all = any(map(lists_all, (self.tokens, *texts)))
        tables = {table for table, _ in self.watcher.reads}
        reduced = {
            table
            for table in tables
            for column, *_ in self.whole.tables[table].columns
            if is_secret(table, column, self.hidden)
        }
        if verb and any(
            token.is_word("NATURAL") for tokens in (self.tokens, *texts) for token in tokens
        ):
            text = f'{place}: query "{self.query.name}" writes and uses NATURAL JOIN'
            yield Problem(text, "join with USING or ON")
        for tokens in (self.tokens, *texts) if verb else ():
            for secret in dict.fromkeys(merged_secrets(tokens, self.hidden)):
                text = f'{place}: query "{self.query.name}" joins by the hidden column "{secret}"'
                yield Problem(text, "join with ON")
        if verb and is_all and reduced:
            text = f'{place}: * includes hidden columns of "{min(reduced)}"'
            yield Problem(text, "list the columns")
        hiding = [view for view in views if view in reduced]
        if hiding and (merges or is_all):
            text = f'{place}: the view "{hiding[0]}" has hidden columns'
            yield Problem(text, "list its columns, and join it with ON")
        for table in sorted({one for one, column in self.watcher.reads if fold(column) == "rowid"}):
            hidden_key = [one for one in self.whole.tables[table].key if self.hidden(table, one)]
            if hidden_key:
                yield Problem(f'{place}: reads "{table}.{hidden_key[0]}", which is hidden')
            if merges or is_all:
                text = f"{place}: uses the rowid together with *, NATURAL or USING"
                yield Problem(text, "list the columns, and join with ON")

    def _line_of(self, message: str) -> str:
        """Return the location of the word that an SQLite message names, else of the statement."""
        found = _NEAR.search(message)
        word = next(filter(None, found.groups()), "") if found else ""
        near = [token for token in self.tokens if word and fold(token.text) == fold(word)]
        line = near[0].line if len(near) == 1 else self.tokens[0].line
        return f"{self.query.where}:{line}"

    def _refusals(self, watcher: Watcher) -> Iterator[Problem]:
        place = f"{self.query.where}:{self.tokens[0].line}"
        for words in dict.fromkeys(watcher.refused):
            yield Problem(f'{place}: query "{self.query.name}" {words}, which is not allowed')
        yield from refused_reads(self.query, watcher.reads, self.hidden)

    def _write_problems(
        self, verb: str, named: str, catalog: QueriedTables, watcher: Watcher
    ) -> Iterator[Problem]:
        table = catalog.stored_name(named)
        sets = {
            column
            for found, where, column in watcher.writes
            if found == "UPDATE" and fold(where) == fold(table) and column
        }
        if not table or catalog.tables[table].view:
            place = f"{self.query.where}:{self.tokens[0].line}"
            yield Problem(f'{place}: writes "{named}", which is not a table', "write to a table")
            return
        if verb == "INSERT":
            named_ones = inserted(self.tokens)
            every = [name for name, *_ in catalog.tables[table].columns]
            given = {*map(fold, every if named_ones is None else named_ones)}
            sets = {*sets, *(name for name in every if fold(name) in given)}
        yield from refused_writes(self.query, table, sets, self.hidden)
        yield from returning_problem(
            self.query, returned(self.tokens), catalog.tables[table].key, table
        )

    def _kinds(self, column: tuple[str, str]) -> set[str]:
        """Return the stored types of the columns that a name in the statement may refer to."""
        named, name = column
        found = [pair for pair in self.touched if fold(pair[1]) == fold(name)]
        exact = [pair for pair in found if named and fold(pair[0]) == fold(named)]
        return {
            kind
            for table, one in exact or found
            for known, kind, _ in self.catalog.tables[table].columns
            if known == one
        }

    def _parameters(self) -> Iterator[Parameter]:
        declared = {one.name: one for one in self.query.parameters}
        problems = []
        for token in self.query.used:
            name = token.text[1:]
            if name in declared:
                said = declared[name]
                kind = _JSON[said.type]
                yield Parameter(name, kind, said.description, said.optional, said.default)
            elif kind := self._compared(name):
                yield Parameter(name, kind)
            else:
                place = f"{self.query.where}:{token.line}"
                problems.append(
                    Problem(f'{place}: ":{name}" {UNTYPED}', f"declare it: -- :{name} text")
                )
        if problems:
            raise ProjectError.of(problems)

    def _compared(self, name: str) -> str:
        """Return the type that the uses of a parameter imply, empty if they are ambiguous."""
        kinds: set[str] = set()
        for found in compared_columns(self.tokens, name):
            if isinstance(found, str):
                kinds.add(_JSON[found])
            else:
                known = {_TAKEN.get(kind, "") for kind in self._kinds(found)}
                kinds |= known
        return kinds.pop() if len(kinds) == 1 else ""

    def _columns(self, table: str) -> Iterator[tuple[str, str]]:
        """Yield the columns of the rows that come back, with their types."""
        back = returned(self.tokens) if table else ()
        items = items_of(back or selected(self.tokens))
        plain = not any(item.is_all for item in items)
        found = self._names(table)
        self._refuse_names(found, items if len(items) == len(found) else [])
        names = found if plain else sorted(found)
        for at, name in enumerate(names):
            column = items[at].column if plain and len(items) == len(names) else None
            kinds = {_SHOWN.get(kind, "") for kind in self._kinds(column)} if column else set()
            yield name, kinds.pop() if len(kinds) == 1 else ""

    def _names(self, table: str) -> list[str]:
        """Return the names of the columns that come back."""
        tokens = list(one_line(self.query.tokens))
        if table:
            starts = [at for at, token in enumerate(tokens) if token.is_word("RETURNING")]
            tokens = tokens[starts[-1] + 1 :]
        text = "".join("NULL" if one.kind == "parameter" else one.text for one in tokens)
        select = f"SELECT {text} FROM {quoted(table)}" if table else text
        try:
            self.empty.execute(f"CREATE TEMP VIEW ralphgen_names AS {select}")
            rows = self.empty.execute("SELECT name FROM pragma_table_info('ralphgen_names')")
            names = [name for (name,) in rows]
        except sqlite3.Error as error:
            raise ProjectError(f"{self._line_of(str(error))}: does not compile: {error}") from error
        finally:
            with suppress(sqlite3.Error):
                self.empty.execute("DROP VIEW IF EXISTS temp.ralphgen_names")
        return names

    def _refuse_names(self, names: list[str], items: list[ReturnedItem]) -> None:
        """Raise `ProjectError` for a duplicate column name, and for a name that is an expression.

        `items` are the selected items in the order of the names, empty if unknown.
        """
        place = f"{self.query.where}:{self.tokens[0].line}"
        known = {name for table in self.catalog.tables.values() for name, *_ in table.columns}
        for at, name in enumerate(names):
            twice, _, number = name.rpartition(":")
            if number.isdecimal() and twice in names:
                text = f'{place}: two result columns are named "{twice}"'
                raise ProjectError(text, "rename one of them with AS")
            is_given = items[at].is_given if items else re.fullmatch(r"[^\W\d][\w ]*", name)
            if name not in known and not is_given:
                text = f'{place}: a result column has no name, only the expression "{name}"'
                raise ProjectError(text, "name it with AS")
