"""Looks up in PostgreSQL's catalogue what a statement would touch, without running it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.project.queries.node_tree import (
    SELECT,
    accesses,
    functions,
    operators,
    relations,
)

if TYPE_CHECKING:
    import psycopg

    from ralphgen.project.database import Snapshot

Hidden = Callable[[str, str], bool]
# Of the functions that PostgreSQL brings along: those that read files, settings, other sessions or
# run a text as SQL. Volatile ones are refused by that alone.
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
    """What a statement does: the columns that it reads, and those that it sets of one table.

    `refused` says in words what it may not do. `key` is the primary key of the table `writes`.
    `names` are the columns that it reads itself, by no view; a table of which it only counts rows
    has one of its columns there. `shared` are the columns of other tables that may have a value in
    the rows that it reads or writes.
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
    """Return what a statement would do; `kinds` are the types of its parameters, as text.

    `hidden` says of a table and a column whether queries may not know it.
    Within a transaction that is rolled back: the statement becomes the body of a function that is
    not called. Raises what psycopg raises.
    """
    body = f"CREATE FUNCTION pg_temp.ralphgen_query({', '.join(kinds)}) RETURNS SETOF record"
    connection.execute(f"{body} LANGUAGE sql BEGIN ATOMIC {sql}\n; END".encode())
    (oid,) = _row(
        connection, "SELECT max(oid)::int8 FROM pg_catalog.pg_proc WHERE proname = 'ralphgen_query'"
    )
    (tree,) = _row(connection, _TREE, oid)
    return _Looking(connection, tree, hidden).found(is_exec=is_exec)


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

    def found(self, *, is_exec: bool) -> Touched:
        """Return what the statement does."""
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
            names=frozenset(self._named()),
            shared=frozenset(self.shared()),
            writes=name,
            sets=frozenset(columns[one] for one in written.get(target, ()) if one in columns),
            key=tuple(key for (key,) in self.connection.execute(_KEY, [target]).fetchall()),
            refused=tuple(dict.fromkeys(refused)),
        )

    def _named(self) -> Iterator[tuple[str, str]]:
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
