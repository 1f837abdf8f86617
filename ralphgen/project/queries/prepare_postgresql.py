"""Prepares each named query on PostgreSQL, and says with file and line why one cannot be."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected
from ralphgen.project.database import connected, first_line
from ralphgen.project.queries.files import (
    NamedSql,
    Parameter,
    Preparation,
    PreparedQuery,
    items_of,
    replaces,
    returned,
    selected,
    verb_and_table,
    without_comments,
)
from ralphgen.project.queries.postgresql import Hidden, Touched, kinds_of, touched
from ralphgen.project.queries.rules import (
    UNTYPED,
    kind_problem,
    refused_reads,
    refused_writes,
    returning_problem,
    tied_columns,
)
from ralphgen.project.root import DatabasePlace
from ralphgen.runtime.engine.postgresql.library import settings

if TYPE_CHECKING:
    import psycopg

_TYPES = {
    **dict.fromkeys(("real", "double precision"), "number"),
    "numeric": "decimal",
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    "boolean": "boolean",
}
_SHOWN = {**_TYPES, "boolean": "integer", "numeric": ""}  # a number, or a text of its digits
_UNTOLD = ("bytea", "record", "unknown")
_OIDS = {"boolean": 16, "integer": 20, "number": 701, "text": 25}
_EXACT = ("boolean", "number")  # of which a value would change where PostgreSQL takes integers
_JSON = {"boolean": "boolean", "integer": "integer", "number": "number", "text": "string"}
_UNDETERMINED = ("42P18", "42P38")
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 10000"
_NO_RIGHT = "42501"


def prepare(
    queries: Sequence[NamedSql],
    opened: object,
    recorded: Mapping[str, Any],
    hidden: Hidden,
    place: DatabasePlace,
) -> Preparation:
    """Return the queries as they are prepared on a database, in which nothing is left behind.

    Without an `opened` database they are returned as `recorded`. Raises `ProjectError` with every
    problem, and the errors of `connected`.
    """
    if opened is None:
        return _recorded_queries(queries, recorded)
    problems: list[Problem] = []
    prepared: list[PreparedQuery] = []
    with connected(place) as connection:
        connection.execute(f"{_BEGIN}; {settings(place.schema)}".encode())
        try:
            for query in queries:
                with collected(problems):
                    prepared.append(_Preparing(query, connection, hidden).done())
        finally:
            connection.execute(b"ROLLBACK")
    if problems:
        raise ProjectError.of(problems)
    facts = {
        one.name: {**asdict(one), "digest": _digest(query)}
        for one, query in zip(prepared, queries, strict=True)
    }
    for said in facts.values():
        del said["place"]
    return Preparation(tuple(prepared), json.loads(json.dumps(facts)))


def _recorded_queries(queries: Sequence[NamedSql], recorded: Mapping[str, Any]) -> Preparation:
    """Return queries as they were prepared last, where there is no connection.

    Raises `ProjectError` for each that is another one now.
    """
    problems, prepared = [], []
    for query in queries:
        said = dict(recorded.get(query.name, {}))
        if said.pop("digest", "") != _digest(query):
            text = f'{query.place}: query "{query.name}" is new or changed, but there is no'
            problems.append(
                Problem(f"{text} database to prepare it on", "run the command with a database")
            )
            continue
        prepared.append(_from_facts({**said, "place": query.place}))
    if problems:
        raise ProjectError.of(problems)
    return Preparation(tuple(prepared), {one.name: recorded[one.name] for one in queries})


def _from_facts(said: Mapping[str, Any]) -> PreparedQuery:
    changed = {
        "columns": tuple(tuple(one) for one in said["columns"]),
        "parameters": tuple(Parameter(**one) for one in said["parameters"]),
        "reads": {table: tuple(columns) for table, columns in said["reads"].items()},
        "sets": tuple(said["sets"]),
        "names": {table: tuple(columns) for table, columns in said["names"].items()},
    }
    return PreparedQuery(**{**said, **changed})


def _digest(query: NamedSql) -> str:
    """Return what differs where a query was changed, wherever it stands."""
    declared = [{**asdict(one), "line": 0} for one in query.parameters]
    whole = (query.kind, query.description, declared, [token.text for token in query.tokens])
    return sha256(json.dumps(whole).encode()).hexdigest()


class _Preparing:
    """The preparation of one query."""

    def __init__(
        self, query: NamedSql, connection: "psycopg.Connection[Any]", hidden: Hidden
    ) -> None:
        self.query = query
        self.connection = connection
        self.hidden = hidden
        self.tokens = without_comments(query.tokens)
        self.names = [token.text[1:] for token in query.used]
        self.declared = {one.name: one for one in query.parameters}

    def done(self) -> PreparedQuery:
        """Return the query; raises `ProjectError`."""
        query = self.query
        if problem := kind_problem(query, self.tokens):
            raise ProjectError.of([problem])
        taken, shown = self._described()
        kinds = kinds_of(self.connection, [*taken, *(kind for _, kind in shown)])
        found = self._touched([kinds[oid] for oid in taken])
        verb, _ = verb_and_table(self.tokens)
        if problems := [*self._problems(found, verb)]:
            raise ProjectError.of(problems)
        parameters = [
            self._parameter(name, kinds[oid]) for name, oid in zip(self.names, taken, strict=True)
        ]
        return PreparedQuery(
            name=query.name,
            kind=query.kind,
            description=query.description,
            sql=self._text(" ", [kinds[oid] for oid in taken]),
            parameters=tuple(parameters),
            columns=tuple((name, _shown(kinds[oid])) for name, oid in self._ordered(shown)),
            reads=_by_table(found.reads),
            place=query.place,
            verb="REPLACE" if verb and replaces(self.tokens) else verb,
            writes=found.writes,
            sets=tuple(sorted(found.sets)),
            names=_by_table(found.names),
            tied=tied_columns(self.tokens, verb) if verb else {},
        )

    def _text(self, space: str = "", kinds: Sequence[str] = ()) -> str:
        """Return the statement with $1 and so on for its parameters, cast where `kinds` are given.

        With `space` it has neither comments nor line ends.
        """
        parts = []
        for token in self.query.tokens:
            if token.kind == "parameter":
                at = self.names.index(token.text[1:])
                parts.append(f"${at + 1}" + (f"::{kinds[at]}" if kinds else ""))
            elif space and token.kind in ("comment", "space"):
                parts.append(space if parts and parts[-1] != space else "")
            else:
                parts.append(token.text)
        return "".join(parts).strip() if space else "".join(parts)

    def _described(self) -> tuple[list[int], list[tuple[str, int]]]:
        """Return the types of the parameters, and the names and types of what comes back."""
        oids = [0] * len(self.names)
        failed = self._prepare(oids)
        if failed is None:
            taken = self._taken()
            wrong = [
                at
                for at, name in enumerate(self.names)
                if self._declared_type(name) in _EXACT
                and _TYPES.get(kinds_of(self.connection, taken)[taken[at]]) == "integer"
            ]
        else:
            wrong = [*range(len(oids))] if failed.sqlstate in _UNDETERMINED else []
        if wrong:
            for at in wrong:
                oids[at] = _OIDS.get(self._declared_type(self.names[at]), 0)
            if failed is None:
                self.connection.execute(b"DEALLOCATE ralphgen_query")
            failed = self._prepare(oids)
        if failed is not None:
            raise self._error(failed) from failed
        said = self.connection.pgconn.describe_prepared(b"ralphgen_query")
        taken = self._taken()
        shown = [((said.fname(at) or b"").decode(), said.ftype(at)) for at in range(said.nfields)]
        self.connection.execute(b"DEALLOCATE ralphgen_query")
        self._refuse_names([name for name, _ in shown])
        return taken, shown

    def _ordered(self, shown: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return columns as they are listed, or by name where * stands for some of them."""
        listed = items_of(returned(self.tokens) or selected(self.tokens))
        return sorted(shown) if any(item.is_all for item in listed) else shown

    def _declared_type(self, name: str) -> str:
        return self.declared[name].type if name in self.declared else ""

    def _taken(self) -> list[int]:
        """Return the types that the statement that was prepared takes."""
        said = self.connection.pgconn.describe_prepared(b"ralphgen_query")
        return [said.param_type(at) for at in range(said.nparams)]

    def _prepare(self, oids: Sequence[int]) -> "psycopg.Error | None":
        """Have the statement prepared under a name; return what is wrong with it, if anything."""
        import psycopg
        from psycopg.pq import ExecStatus

        self.connection.execute(b"SAVEPOINT ralphgen")
        text = self._text().encode()
        result = self.connection.pgconn.prepare(b"ralphgen_query", text, oids or None)
        if result.status != ExecStatus.FATAL_ERROR:
            return None
        error = psycopg.errors.error_from_result(result)
        self.connection.execute(b"ROLLBACK TO SAVEPOINT ralphgen")
        return error

    def _error(self, error: "psycopg.Error") -> ProjectError:
        """Return what is said of a statement that PostgreSQL does not take."""
        at = int(error.diag.statement_position or 1) - 1
        line = self.query.tokens[0].line + self._text()[:at].count("\n")
        place = f"{self.query.where}:{line if error.diag.statement_position else self._line}"
        if error.sqlstate in _UNDETERMINED:
            found = re.search(r"\$([0-9]+)", first_line(error))
            name = self.names[int(found[1]) - 1] if found else ""
            return ProjectError(f'{place}: ":{name}" {UNTYPED}', f"declare it: -- :{name} text")
        return ProjectError(f"{place}: does not compile: {first_line(error)}")

    @property
    def _line(self) -> int:
        return self.tokens[0].line

    def _touched(self, kinds: Sequence[str]) -> Touched:
        import psycopg

        try:
            self.connection.execute(b"SAVEPOINT ralphgen")
            is_exec = self.query.kind == "exec"
            return touched(self.connection, self._text(), kinds, self.hidden, is_exec=is_exec)
        except psycopg.Error as error:
            place = f"{self.query.where}:{self._line}"
            hint = ""
            if error.sqlstate == _NO_RIGHT:
                hint = "prepare queries with a login that has the TEMPORARY privilege"
            raise ProjectError(f"{place}: cannot be prepared: {first_line(error)}", hint) from error
        finally:
            with suppress(psycopg.Error):
                self.connection.execute(b"ROLLBACK TO SAVEPOINT ralphgen")

    def _problems(self, found: Touched, verb: str) -> Iterator[Problem]:
        place = f"{self.query.where}:{self._line}"
        for words in found.refused:
            yield Problem(f'{place}: query "{self.query.name}" {words}, which is not allowed')
        yield from refused_reads(self.query, found.reads | found.shared, self.hidden)
        if verb and found.writes:
            yield from refused_writes(self.query, found.writes, found.sets, self.hidden)
            yield from returning_problem(self.query, returned(self.tokens), found.key, found.writes)

    def _parameter(self, name: str, kind: str) -> Parameter:
        said = self.declared.get(name)
        if said is not None:
            default, taken = said.default, _JSON[said.type]
            if taken == "number" and kind == "numeric":
                taken, default = "decimal", None if default is None else str(default)
            return Parameter(name, taken, said.description, said.optional, default)
        if kind.endswith("[]") or kind in _UNTOLD:
            text = f'{self.query.where}:{self._line}: ":{name}" has the type {kind}'
            raise ProjectError(f"{text}, which arguments do not support")
        return Parameter(name, _TYPES.get(kind, "string"))

    def _refuse_names(self, names: Sequence[str]) -> None:
        place = f"{self.query.where}:{self._line}"
        for name in names:
            if names.count(name) > 1:
                text = f'{place}: two result columns are named "{name}"'
                raise ProjectError(text, "rename one of them with AS")
            if name == "?column?":
                text = f"{place}: a result column has no name"
                raise ProjectError(text, "name it with AS")


def _shown(kind: str) -> str:
    """Return the JSON type of what comes back of a type; empty where there is none."""
    if kind in _SHOWN:
        return _SHOWN[kind]
    return "" if kind.endswith("[]") or kind in _UNTOLD else "string"


def _by_table(reads: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for table, column in reads:
        found.setdefault(table, set()).update(filter(None, (column,)))
    return {table: tuple(sorted(found[table])) for table in sorted(found)}
