"""Prepares queries on PostgreSQL; reads their types and effects from its planner and catalog."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected
from ralphgen.project.database import connected, first_line
from ralphgen.project.queries import (
    UNTYPED,
    Hidden,
    NamedSql,
    Parameter,
    Preparation,
    PreparedQuery,
    by_table,
    items_of,
    kind_problem,
    parameter_columns,
    refused_reads,
    refused_writes,
    replaces,
    returned,
    returning_problem,
    selected,
    verb_and_table,
    without_comments,
)
from ralphgen.project.root import DatabasePlace
from ralphgen.runtime.engine.postgresql import NO_RIGHT, missing_grant, settings

if TYPE_CHECKING:
    import psycopg

    from ralphgen.project.database import Snapshot


_FUNCTION_NODES = re.compile(r":(?:funcid|aggfnoid|winfnoid) ([0-9]+)")
_OPERATORS = re.compile(r":opno ([0-9]+)")
_ACCESS = re.compile(
    r":relid ([0-9]+) (?:(?!:relid ).)*?:requiredPerms ([0-9]+) (?:(?!:relid ).)*?"
    r":selectedCols \(b([ 0-9]*)\) :insertedCols \(b([ 0-9]*)\) :updatedCols \(b([ 0-9]*)\)",
    re.DOTALL,
)
_RELATION_NODES = re.compile(r":rtekind 0 :relid ([0-9]+) ")
_LOWEST = 7  # offset of column numbers in a tree, which leaves room for system columns
SELECT, INSERT, UPDATE, DELETE = 2, 1, 4, 8


@dataclass(frozen=True, slots=True)
class Access:
    """A statement's access to a relation: its rights, and the numbers of the columns it touches.

    The number 0 stands for the whole row.
    """

    relation: int
    rights: int
    read: frozenset[int]
    written: frozenset[int]


def accesses(tree: str) -> Iterator[Access]:
    """Yield the accesses of a statement to relations, including those in its subqueries."""
    for relation, rights, *columns in _ACCESS.findall(tree):
        read, inserted, updated = (
            frozenset(int(one) - _LOWEST for one in listed.split()) for listed in columns
        )
        yield Access(int(relation), int(rights), read, inserted | updated)


def relations(tree: str) -> frozenset[int]:
    """Return every relation that a statement names."""
    return frozenset(map(int, _RELATION_NODES.findall(tree)))


def functions(tree: str) -> frozenset[int]:
    """Return the functions that a statement calls by name."""
    return frozenset(map(int, _FUNCTION_NODES.findall(tree)))


def operators(tree: str) -> frozenset[int]:
    """Return the operators in a statement; each operator calls a function."""
    return frozenset(map(int, _OPERATORS.findall(tree)))


# PostgreSQL's own functions that read files, settings or other sessions, or run a string as SQL.
# Volatile functions are refused anyway.
_UNSAFE = re.compile(
    r"pg_.*|lo_.*|current_setting|set_config|txid_.*|.*_to_xml.*|inet_.*|currtid.*"
)
_SAFE = ("pg_typeof", "pg_column_size")
_TREE = "SELECT prosqlbody::text FROM pg_catalog.pg_proc WHERE oid = $1"
_VIEWS = """
    SELECT c.oid::int8, r.ev_action::text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = c.oid
    WHERE c.oid = ANY ($1) AND c.relkind IN ('v', 'm') AND r.rulename = '_RETURN'
"""
_VIEW = """
    SELECT r.ev_action::text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = c.oid
    WHERE c.relname = $1 AND c.relkind IN ('v', 'm') AND r.rulename = '_RETURN'
        AND c.relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
"""
_RELATIONS = """
    SELECT c.oid::int8, c.relname::text, c.relkind::text,
        c.relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
    FROM pg_catalog.pg_class AS c WHERE c.oid = ANY ($1)
"""
_COLUMNS = """
    SELECT attrelid::int8, attnum::int4, attname::text FROM pg_catalog.pg_attribute
    WHERE attrelid = ANY ($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_FUNCTIONS = """
    SELECT p.proname::text, p.provolatile::text, n.nspname = 'pg_catalog',
        EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid
                    AND d.deptype = 'e')
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE p.oid = ANY ($1) OR p.oid IN (
        SELECT oprcode::oid FROM pg_catalog.pg_operator WHERE oid = ANY ($2))
    ORDER BY p.proname
"""
_KEY = """
    SELECT a.attname::text FROM pg_catalog.pg_constraint AS p
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = p.conrelid AND a.attnum = ANY (p.conkey)
    WHERE p.conrelid = $1 AND p.contype = 'p' ORDER BY array_position(p.conkey, a.attnum)
"""
# The tables that share rows with others, since one inherits from the other or is its partition.
_RELATED = """
    WITH RECURSIVE related (of, oid) AS (
        SELECT given, given FROM unnest($1::oid[]) AS given
        UNION
        SELECT r.of, CASE i.inhrelid WHEN r.oid THEN i.inhparent ELSE i.inhrelid END
        FROM related AS r JOIN pg_catalog.pg_inherits AS i ON r.oid IN (i.inhrelid, i.inhparent)
    )
    SELECT r.of::int8, c.relname::text
    FROM related AS r JOIN pg_catalog.pg_class AS c ON c.oid = r.oid WHERE r.of <> r.oid
"""
_TABLE = """
    SELECT c.oid::int8, a.attname::text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relname = $1 AND a.attnum > 0 AND NOT a.attisdropped
        AND c.relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
"""
_SOURCES = """
    SELECT p.oid::int8, o.oid::int8, p.proname::text,
        concat(p.prosrc, ' ', pg_catalog.pg_get_function_sqlbody(p.oid))
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
        LEFT JOIN pg_catalog.pg_operator AS o ON o.oprcode = p.oid
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_OWN_COLUMNS = """
    SELECT c.relname::text, a.attname::text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'p', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped
        AND c.relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
"""
_KINDS = {"r": "table", "p": "table", "v": "view", "m": "view"}
# Up to version 14 the column depends on its sources, since then its expression does.
_DEPENDENCIES = """
SELECT c.relname::text, g.attname::text, s.attname::text
FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS g ON g.attrelid = c.oid AND g.attgenerated <> ''
    JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = g.attnum
    JOIN pg_catalog.pg_depend AS p ON p.refclassid = 'pg_catalog.pg_class'::regclass
        AND p.refobjid = c.oid
        AND (p.classid = 'pg_catalog.pg_attrdef'::regclass AND p.objid = d.oid
            OR p.classid = 'pg_catalog.pg_class'::regclass AND p.objid = c.oid
                AND p.objsubid = g.attnum)
    JOIN pg_catalog.pg_attribute AS s ON s.attrelid = c.oid AND s.attnum = p.refobjsubid
WHERE n.nspname = pg_catalog.current_schema() AND s.attnum <> g.attnum
ORDER BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Touched:
    """The effects of a statement: the columns that it reads, and the columns it sets of one table.

    `refused` lists its forbidden effects in words. `key` is the primary key of the table `writes`.
    `names` are the columns that it reads directly, not through a view; a table whose rows are only
    counted is represented by one column. `shared` are the columns of other tables that may share a
    value with the rows that it reads or writes.
    """

    reads: frozenset[tuple[str, str]]
    names: frozenset[tuple[str, str]]
    shared: frozenset[tuple[str, str]]
    writes: str
    sets: frozenset[str]
    key: tuple[str, ...]
    refused: tuple[str, ...]


def computed_columns(connection: "Snapshot") -> Iterable[tuple[str, str, str]]:
    """Return the table, the generated column and each column that it is computed from."""
    return connection.rows(_DEPENDENCIES)


def view_reads(
    connection: "psycopg.Connection[Any]", hidden: Hidden, _hide: Sequence[str]
) -> Callable[[str], Iterable[tuple[str, str]]]:
    """Return a function that returns the columns a view reads, as (table, column).

    For a table these are the columns of other tables that have values in its rows, as a partition.
    """
    return lambda name: (
        _read_by_view(connection, name)
        | {one for one in _related_columns(connection, name) if not hidden(name, one[1])}
    )


def _read_by_view(connection: "psycopg.Connection[Any]", view: str) -> frozenset[tuple[str, str]]:
    """Return the columns that a view of the project's schema reads, also by other views.

    A function of the application counts as reading every table that its text names. Nothing for a
    table. Raises what psycopg raises.
    """
    found: set[tuple[str, str]] = set()
    waiting, seen = {view}, set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        definition = connection.execute(_VIEW, [name]).fetchone()
        if definition is not None:
            looking = _Looking(connection, definition[0], lambda _table, _column: False)
            found |= {*looking.reads(looking.trees), *looking.shared()}
            by_functions = _read_by_functions(connection, looking)
            found |= by_functions
            waiting |= {table for table, _ in by_functions} - seen
    return frozenset(found)


def _read_by_functions(
    connection: "psycopg.Connection[Any]", looking: "_Looking"
) -> set[tuple[str, str]]:
    """Return the columns of the tables and views that functions of the application name."""
    calls = {one for tree in looking.trees for one in functions(tree)}
    signs = {one for tree in looking.trees for one in operators(tree)}
    sources = connection.execute(_SOURCES.encode()).fetchall()
    waiting = [text for oid, sign, _, text in sources if oid in calls or sign in signs]
    texts: set[str] = set()
    while waiting:
        text = waiting.pop()
        if text not in texts:
            texts.add(text)
            waiting += [other for *_, name, other in sources if _names(text, name)]
    columns = connection.execute(_OWN_COLUMNS.encode()).fetchall() if texts else ()
    return {
        (table, column) for table, column in columns if any(_names(text, table) for text in texts)
    }


def _names(text: str, name: str) -> bool:
    """Return whether a text has a name, in any letter case."""
    return re.search(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _related_columns(
    connection: "psycopg.Connection[Any]", table: str
) -> frozenset[tuple[str, str]]:
    """Return the columns of other tables that a table of the project's schema shares rows with."""
    columns = connection.execute(_TABLE, [table]).fetchall()
    others = connection.execute(_RELATED, [[oid for oid, _ in columns]]).fetchall()
    return frozenset((other, column) for _, other in others for _, column in columns)


def touched(
    connection: "psycopg.Connection[Any]",
    sql: str,
    kinds: Sequence[str],
    hidden: Hidden,
    *,
    is_exec: bool,
) -> Touched:
    """Return the effects of a statement; `kinds` are the types of its parameters, as text.

    `hidden` returns whether queries may not see a column of a table. The statement becomes the body
    of a function that is never called, in a transaction that is rolled back. Raises the errors of
    psycopg.
    """
    body = f"CREATE FUNCTION pg_temp.ralphgen_query({', '.join(kinds)}) RETURNS SETOF record"
    connection.execute(f"{body} LANGUAGE sql BEGIN ATOMIC {sql}\n; END".encode())
    (oid,) = _row(
        connection, "SELECT max(oid)::int8 FROM pg_catalog.pg_proc WHERE proname = 'ralphgen_query'"
    )
    (tree,) = _row(connection, _TREE, oid)
    return _Looking(connection, tree, hidden).effects(is_exec=is_exec)


class _Looking:
    """The look at one statement, and at the views that it reads."""

    def __init__(self, connection: "psycopg.Connection[Any]", tree: str, hidden: Hidden) -> None:
        self.connection = connection
        self.hidden = hidden
        self.tree = tree
        self.trees = [tree]
        self.relations = set(relations(tree))
        waiting = set(self.relations)
        while waiting:
            found = [text for _, text in connection.execute(_VIEWS, [[*waiting]]).fetchall()]
            self.trees += found
            waiting = {one for text in found for one in relations(text)} - self.relations
            self.relations |= waiting
        rows = connection.execute(_RELATIONS, [[*self.relations]]).fetchall()
        self.known = {oid: (name, kind, inside) for oid, name, kind, inside in rows}
        self.columns: dict[int, dict[int, str]] = {}
        for oid, number, name in connection.execute(_COLUMNS, [[*self.relations]]).fetchall():
            self.columns.setdefault(oid, {})[number] = name
        self.related: dict[int, list[str]] = {}
        for oid, name in connection.execute(_RELATED, [[*self.relations]]).fetchall():
            self.related.setdefault(oid, []).append(name)

    def effects(self, *, is_exec: bool) -> Touched:
        """Return the effects of the statement."""
        written = {one.relation: one.written for one in accesses(self.tree) if one.rights & ~SELECT}
        refused = [*self._refused_relations(), *self._refused_functions()]
        if written and not is_exec:
            refused.append("writes, or locks rows")
        if len(written) > 1:
            refused.append("writes more than one table")
        target = next(iter(written), 0) if is_exec else 0
        columns = self.columns.get(target, {})
        name, kind, _ = self.known.get(target, ("", "", False))
        if target and _KINDS.get(kind) != "table":
            refused.append(f'writes "{name}", which is not a table')
        return Touched(
            reads=frozenset(self.reads(self.trees)),
            names=frozenset(self._parameter_names()),
            shared=frozenset(self.shared()),
            writes=name,
            sets=frozenset(columns[one] for one in written.get(target, ()) if one in columns),
            key=tuple(key for (key,) in self.connection.execute(_KEY, [target]).fetchall()),
            refused=tuple(dict.fromkeys(refused)),
        )

    def _parameter_names(self) -> Iterator[tuple[str, str]]:
        found = [*self.reads([self.tree])]
        yield from (one for one in found if one[1])
        for counted in {name for name, _ in found} - {name for name, column in found if column}:
            oid = next(oid for oid, (name, *_) in self.known.items() if name == counted)
            yield (
                counted,
                next(
                    (one for one in self.columns[oid].values() if not self.hidden(counted, one)), ""
                ),
            )

    def reads(self, trees: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each column that is read, behind its table, which alone has an empty one."""
        for tree in trees:
            for one in accesses(tree):
                name = self.known[one.relation][0] if one.relation in self.known else ""
                columns = self.columns.get(one.relation, {})
                numbers = [*columns] if 0 in one.read else one.read
                if one.rights & SELECT:
                    yield name, ""
                yield from ((name, columns[number]) for number in numbers if number in columns)

    def shared(self) -> Iterator[tuple[str, str]]:
        """Yield the columns of related tables whose values may be among those read or written."""
        for one in (one for tree in self.trees for one in accesses(tree)):
            columns = self.columns.get(one.relation, {})
            numbers = {*columns} if 0 in one.read else one.read | one.written
            for other in self.related.get(one.relation, ()):
                yield from ((other, columns[number]) for number in numbers if number in columns)

    def _refused_relations(self) -> Iterator[str]:
        for oid in sorted(self.relations):
            name, kind, inside = self.known.get(oid, ("", "", False))
            if kind == "f":
                yield f'reads the foreign table "{name}"'
            elif not inside or kind not in _KINDS:
                yield f'reads "{name}", which is not a table or view of the project'

    def _refused_functions(self) -> Iterator[str]:
        called = {one for tree in self.trees for one in functions(tree)}
        signs = {one for tree in self.trees for one in operators(tree)}
        rows = self.connection.execute(_FUNCTIONS, [[*called], [*signs]]).fetchall()
        for name, volatile, built_in, extension in rows:
            if volatile == "v":
                yield f'uses the function "{name}", which is volatile'
            elif built_in:
                if _UNSAFE.fullmatch(name) and name not in _SAFE:
                    yield f'uses the function "{name}"'
            elif not extension:
                yield f'uses the function "{name}", which can read anything'
            elif volatile != "i":
                yield f'uses the extension function "{name}", which is not immutable'


def _row(connection: "psycopg.Connection[Any]", sql: str, *values: object) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(sql.encode(), list(values)).fetchone()
    if found is None:
        raise ProjectError(
            "this PostgreSQL does not store parsed statements", "use version 14 or later"
        )
    return found


def kinds_of(connection: "psycopg.Connection[Any]", oids: Iterable[int]) -> dict[int, str]:
    """Return the names of types, as SQL takes them."""
    sql = b"SELECT oid::int8, pg_catalog.format_type(oid, NULL) FROM pg_catalog.pg_type "
    return dict(connection.execute(sql + b"WHERE oid = ANY ($1)", [[*oids]]).fetchall())


_TYPES = {
    **dict.fromkeys(("real", "double precision"), "number"),
    "numeric": "decimal",
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    "boolean": "boolean",
}
_SHOWN = {**_TYPES, "boolean": "integer", "numeric": ""}  # a number, or a text of its digits
_UNTOLD = ("bytea", "record", "unknown")
_OIDS = {"boolean": 16, "integer": 20, "number": 701, "text": 25}
_EXACT = ("boolean", "number")  # a value would change if PostgreSQL takes integers for them
_JSON = {"boolean": "boolean", "integer": "integer", "number": "number", "text": "string"}
_UNDETERMINED = ("42P18", "42P38")
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 10000"


def prepare(
    queries: Sequence[NamedSql],
    opened: object,
    recorded: Mapping[str, Any],
    hidden: Hidden,
    place: DatabasePlace,
) -> Preparation:
    """Return the queries as prepared on a database, without leaving anything behind in it.

    Without an `opened` database, the queries are returned as `recorded`. Raises `ProjectError` with
    every problem, and the errors of `connected`.
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
                    prepared.append(_Preparing(query, connection, place.schema, hidden).done())
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
    """Return the queries as last prepared, for use without a connection.

    Raises `ProjectError` for each query that has changed since.
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
        changed = {
            "columns": tuple(tuple(one) for one in said["columns"]),
            "parameters": tuple(Parameter(**one) for one in said["parameters"]),
            "reads": {table: tuple(columns) for table, columns in said["reads"].items()},
            "sets": tuple(said["sets"]),
            "names": {table: tuple(columns) for table, columns in said["names"].items()},
            "place": query.place,
        }
        prepared.append(PreparedQuery(**{**said, **changed}))
    if problems:
        raise ProjectError.of(problems)
    return Preparation(tuple(prepared), {one.name: recorded[one.name] for one in queries})


def _digest(query: NamedSql) -> str:
    """Return a digest of a query that changes with its content but not with its location."""
    declared = [{**asdict(one), "line": 0} for one in query.parameters]
    whole = (query.kind, query.description, declared, [token.text for token in query.tokens])
    return sha256(json.dumps(whole).encode()).hexdigest()


class _Preparing:
    """The preparation of one query."""

    def __init__(
        self,
        query: NamedSql,
        connection: "psycopg.Connection[Any]",
        schema: str,
        hidden: Hidden,
    ) -> None:
        self.query = query
        self.connection = connection
        self.schema = schema
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
            columns=tuple((name, _result_json_type(kinds[oid])) for name, oid in shown),
            reads=by_table(found.reads),
            place=query.place,
            verb="REPLACE" if verb and replaces(self.tokens) else verb,
            writes=found.writes,
            sets=tuple(sorted(found.sets)),
            names=by_table(found.names),
            tied=parameter_columns(self.tokens, verb) if verb else {},
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
        """Return the types of the parameters, and the names and types of the result columns.

        The columns are in the order of the statement, or sorted by name if * selects some.
        """
        oids = [0] * len(self.names)
        failed = self._prepare(oids)
        if failed is None:
            taken = self._parameter_types()
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
        taken = self._parameter_types()
        shown = [((said.fname(at) or b"").decode(), said.ftype(at)) for at in range(said.nfields)]
        self.connection.execute(b"DEALLOCATE ralphgen_query")
        place, names = f"{self.query.where}:{self._line}", [name for name, _ in shown]
        for name in names:
            if names.count(name) > 1:
                text = f'{place}: two result columns are named "{name}"'
                raise ProjectError(text, "rename one of them with AS")
            if name == "?column?":
                text = f"{place}: a result column has no name"
                raise ProjectError(text, "name it with AS")
        items = items_of(returned(self.tokens) or selected(self.tokens))
        return taken, sorted(shown) if any(item.is_all for item in items) else shown

    def _declared_type(self, name: str) -> str:
        return self.declared[name].type if name in self.declared else ""

    def _parameter_types(self) -> list[int]:
        """Return the types that the statement that was prepared takes."""
        said = self.connection.pgconn.describe_prepared(b"ralphgen_query")
        return [said.param_type(at) for at in range(said.nparams)]

    def _prepare(self, oids: Sequence[int]) -> "psycopg.Error | None":
        """Prepare the statement under a name on the server; return the error, if any."""
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
        """Return the error for a statement that PostgreSQL rejects."""
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
            if error.sqlstate == NO_RIGHT:
                grant = missing_grant(error, self.connection.info.user, self.schema)
                hint = "prepare queries with a login that has the TEMPORARY privilege"
                hint = f"as the owner of the tables, run: {grant}" if grant else hint
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


def _result_json_type(kind: str) -> str:
    """Return the JSON type of a result column's type; empty if it has none."""
    if kind in _SHOWN:
        return _SHOWN[kind]
    return "" if kind.endswith("[]") or kind in _UNTOLD else "string"
