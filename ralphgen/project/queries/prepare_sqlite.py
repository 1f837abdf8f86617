"""Prepares each named query on SQLite, and says with file and line why one cannot be."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.files import collected
from ralphgen.project.queries.compared import compared_columns
from ralphgen.project.queries.files import NamedSql
from ralphgen.project.queries.items import (
    ReturnedItem,
    inserted,
    items_of,
    replaces,
    returned,
    selected,
    verb_and_table,
)
from ralphgen.project.queries.model import Parameter, Preparation, PreparedQuery
from ralphgen.project.queries.rules import (
    UNTYPED,
    kind_problem,
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
from ralphgen.project.queries.tokens import Token, one_line, without_comments
from ralphgen.runtime.database.schema import fold
from ralphgen.runtime.sqlite.library import quoted

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


def prepare_on_sqlite(
    queries: Iterable[NamedSql],
    connection: sqlite3.Connection | None,
    recorded: Mapping[str, Any],
    hidden: Hidden,
) -> Preparation:
    """Return the queries as they are prepared on a database, or on the tables of `recorded`.

    `hidden` says of a table and a column whether queries may not know it. Raises `ProjectError`
    with every problem.
    """
    catalog = found_catalog(connection) if connection else recorded_catalog(recorded)
    problems: list[Problem] = []
    prepared: list[PreparedQuery] = []
    used: dict[str, set[str]] = {}
    with closing(empty_database(catalog)) as empty:
        for query in queries:
            with collected(problems):
                one, touched = _Preparing(query, catalog, connection or empty, empty, hidden).done()
                prepared.append(one)
                for table, column in touched:
                    used.setdefault(table, set()).add(column)
    if problems:
        raise ProjectError.of(problems)
    return Preparation(tuple(prepared), catalog.facts(used))


def _spelled(token: Token) -> str:
    """Return a token in a statement, names in backticks: SQLite may take "name" as a text."""
    return f"`{token.name.replace('`', '``')}`" if token.kind == "name" else token.text


class _Preparing:
    """The preparation of one query."""

    def __init__(
        self,
        query: NamedSql,
        catalog: QueriedTables,
        connection: sqlite3.Connection,
        empty: sqlite3.Connection,
        hidden: Hidden,
    ) -> None:
        self.query = query
        self.catalog = catalog
        self.connection = connection
        self.empty = empty
        self.hidden = hidden
        self.tokens = without_comments(query.tokens)
        self.sql = "".join(map(_spelled, one_line(query.tokens)))
        self.watcher = Watcher(catalog)
        self.touched: set[tuple[str, str]] = set()

    def done(self) -> tuple[PreparedQuery, set[tuple[str, str]]]:
        """Return the query and the columns that it touches; raises `ProjectError`."""
        query = self.query
        if problem := kind_problem(query, self.tokens):
            raise ProjectError.of([problem])
        self._compile()
        verb, named = verb_and_table(self.tokens)
        table = self.catalog.named(named)
        sets = {
            column
            for found, where, column in self.watcher.writes
            if found == "UPDATE" and fold(where) == fold(table) and column
        }
        self.touched |= self.watcher.reads | {(table, column) for column in sets}
        problems = [*self._refusals()]
        if verb:
            problems += self._write_problems(verb, named, table, sets)
        if problems:
            raise ProjectError.of(problems)
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
                place=query.place,
                verb="REPLACE" if verb and replaces(self.tokens) else verb,
                writes=table,
                sets=tuple(sorted(sets)),
            ),
            self.touched,
        )

    def _compile(self) -> None:
        names = [token.text[1:] for token in self.query.used]
        try:
            compile_statement(self.connection, self.sql, names, self.watcher)
        except (sqlite3.Error, sqlite3.Warning) as error:
            text = f"{self._line_of(str(error))}: does not compile: {error}"
            raise ProjectError(text) from error

    def _line_of(self, message: str) -> str:
        """Return where the word stands that a message of SQLite names, else the statement."""
        found = _NEAR.search(message)
        word = next(filter(None, found.groups()), "") if found else ""
        near = [token for token in self.tokens if word and fold(token.text) == fold(word)]
        line = near[0].line if len(near) == 1 else self.tokens[0].line
        return f"{self.query.where}:{line}"

    def _refusals(self) -> Iterator[Problem]:
        place = f"{self.query.where}:{self.tokens[0].line}"
        for words in dict.fromkeys(self.watcher.refused):
            yield Problem(f'{place}: the query "{self.query.name}" {words}, which none may')
        yield from refused_reads(self.query, self.watcher.reads, self.hidden)

    def _write_problems(
        self, verb: str, named: str, table: str, sets: set[str]
    ) -> Iterator[Problem]:
        if not table or self.catalog.tables[table].view:
            place = f"{self.query.where}:{self.tokens[0].line}"
            yield Problem(f'{place}: writes "{named}", which is no table', "write a table")
            return
        if verb == "INSERT":
            named_ones = inserted(self.tokens)
            every = [name for name, *_ in self.catalog.tables[table].columns]
            given = {*map(fold, every if named_ones is None else named_ones)}
            sets = {*sets, *(name for name in every if fold(name) in given)}
        yield from refused_writes(self.query, table, sets, self.hidden)
        yield from returning_problem(
            self.query, returned(self.tokens), self.catalog.tables[table].key, table
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
                problems.append(Problem(f'{place}: ":{name}" {UNTYPED}', f"-- :{name} text"))
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
                text = f'{place}: two columns that come back are called "{twice}"'
                raise ProjectError(text, "give one of them another name with AS")
            is_given = items[at].is_given if items else re.fullmatch(r"[^\W\d][\w ]*", name)
            if name not in known and not is_given:
                text = f'{place}: a column that comes back has no name of its own, only "{name}"'
                raise ProjectError(text, "give it one with AS")
