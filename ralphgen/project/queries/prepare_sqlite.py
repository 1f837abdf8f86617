"""Prepares each named query on SQLite, and says with file and line why one cannot be."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected
from ralphgen.project.queries.files import (
    NamedSql,
    Parameter,
    Preparation,
    PreparedQuery,
    ReturnedItem,
    Token,
    inserted,
    items_of,
    one_line,
    read_tokens,
    replaces,
    returned,
    selected,
    verb_and_table,
    without_comments,
)
from ralphgen.project.queries.rules import (
    ROWIDS,
    UNTYPED,
    compared_columns,
    is_secret,
    kind_problem,
    lists_all,
    merged_secrets,
    refused_names,
    refused_reads,
    refused_writes,
    returning_problem,
)
from ralphgen.project.queries.sqlite import (
    QueriedTables,
    Watcher,
    compile_statement,
    empty_database,
    found_catalog,
    recorded_catalog,
)
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.schema import fold

Hidden = Callable[[str, str], bool]
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
    """Return the queries as they are prepared on a database, or on the tables of `recorded`.

    `hidden` says of a table and a column whether queries may not know it. Raises `ProjectError`
    with every problem.
    """
    catalog = found_catalog(connection) if connection else recorded_catalog(recorded)
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


def _spelled(token: Token) -> str:
    """Return a token in a statement, names in backticks: SQLite may take "name" as a text."""
    return f"`{token.name.replace('`', '``')}`" if token.kind == "name" else token.text


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
        # The authorizer tells a WITH from a trigger only by its name.
        words = {fold(token.name or token.text[1:-1]) for token in self.tokens}
        self.catalog = replace(catalog, triggers=catalog.triggers - words)
        self.empty = empty
        self.whole = replace(whole, triggers=whole.triggers - words)
        self.connection = connection
        self.hidden = hidden
        self.sql = "".join(map(_spelled, one_line(query.tokens)))
        self.watcher = Watcher(self.catalog)
        self.touched: set[tuple[str, str]] = set()

    def done(self) -> tuple[PreparedQuery, set[tuple[str, str]]]:
        """Return the query and the columns that it touches; raises `ProjectError`."""
        query = self.query
        if problem := kind_problem(query, self.tokens):
            raise ProjectError.of([problem])
        verb, named = verb_and_table(self.tokens)
        error = self._compile()
        if error or verb:
            self._refuse_hidden(verb, named)
        if error:
            raise error
        table = self.catalog.named(named)
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
                reads=self._reads(),
                views={view: self.catalog.tables[view].view for view in views},
                place=query.place,
                verb="REPLACE" if verb and replaces(self.tokens) else verb,
                writes=table,
                sets=tuple(sorted(sets)),
            ),
            self.touched,
        )

    def _compile(self) -> ProjectError | None:
        """Compile on the visible columns; return why it does not compile, if so."""
        names = [token.text[1:] for token in self.query.used]
        try:
            compile_statement(self.empty, self.sql, names, self.watcher)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return ProjectError(f"{self._line_of(str(error))}: does not compile: {error}")
        return None

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

        Adds to the reads what an authorizer does not report: of each table in a statement with a
        join that merges columns all of them, and the names of a row's number.
        """
        words = {fold(token.name or token.text[1:-1]) for token in self.tokens}
        views: set[str] = set()
        waiting = {*words, *(fold(table) for table, _ in self.watcher.reads)}
        while waiting:
            found = {name for name in map(self.catalog.named, waiting) if name} - views
            found = {name for name in found if self.catalog.tables[name].view}
            views |= found
            waiting = {
                fold(word) for name in found for word in self._view_words(name) if word
            } - words
            words |= waiting
        if {"natural", "using"} & words:
            for name in filter(None, map(self.catalog.named, words)):
                self.watcher.reads |= {(name, one) for one, *_ in self.catalog.tables[name].columns}
        read = {table for table, _ in self.watcher.reads}
        for table in {one for one, column in self.watcher.reads if fold(column) == "rowid"}:
            names = {"rowid", *self.catalog.tables[table].key, *({*ROWIDS} & words)}
            self.watcher.reads |= {(table, name) for name in names}
            self.watcher.reads.discard((table, "ROWID"))
        return sorted(views & read)

    def _view_words(self, name: str) -> list[str]:
        tokens = read_tokens(self.catalog.tables[name].view, name, 1, sqlite=True)
        return [token.name or token.text[1:-1] for token in without_comments(tokens)]

    def _merge_problems(self, views: list[str], verb: str) -> Iterator[Problem]:
        """Yield problems of a statement that would mean something else on the real tables."""
        place = f"{self.query.where}:{self.tokens[0].line}"
        yield from refused_names(self.query, self.tokens)
        texts = [
            without_comments(read_tokens(self.catalog.tables[view].view, view, 1, sqlite=True))
            for view in views
        ]
        for tokens in texts:
            yield from refused_names(self.query, tokens)
        merges = any(
            token.is_word("NATURAL", "USING")
            for tokens in (self.tokens, *texts)
            for token in tokens
        )
        is_all = any(map(lists_all, (self.tokens, *texts)))
        tables = {table for table, _ in self.watcher.reads}
        reduced = {table for table in tables if self._hides(table)}
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

    def _hides(self, table: str) -> bool:
        """Return whether a table or a view has a hidden column."""
        columns = self.whole.tables[table].columns
        return any(is_secret(table, column, self.hidden) for column, *_ in columns)

    def _line_of(self, message: str) -> str:
        """Return where the word stands that a message of SQLite names, else the statement."""
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
        table = catalog.named(named)
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

    def _reads(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {}
        for table, column in self.watcher.reads:
            found.setdefault(table, set()).update(filter(None, (column,)))
        return {table: tuple(sorted(found[table])) for table in sorted(found)}

    def _kinds(self, column: tuple[str, str]) -> set[str]:
        """Return what the columns store that a name in the statement may stand for."""
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
        """Return the type that the places of a parameter tell, empty where they do not."""
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
        """Raise `ProjectError` for a name that two columns have, and for one that is an expression.

        `items` are those that the names are of, none where that is not known.
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
