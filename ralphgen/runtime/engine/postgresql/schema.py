"""Reads the tables of a server, in the same form as for SQLite, and the values of their CHECKs."""

from __future__ import annotations

import json
import re

from ...encoding import sha256_hex
from .. import TABLES, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .. import Keys, Snapshot

    Column = dict[str, Any]


# The type of a column is the base type of its domains, which may be nested. A foreign key includes
# the schema name if it refers to another schema.
_COLUMNS = """
WITH RECURSIVE found AS (
    SELECT c.oid, c.relname, c.relnamespace
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = coalesce($1, pg_catalog.current_schema()) AND c.relname = ANY ($2)
        AND (c.relkind IN ('r', 'p') OR c.relkind IN ('v', 'm') AND c.relname <> ALL ($3))
), layers AS (
    SELECT a.attrelid, a.attnum, a.atttypid AS type, 0 AS depth
    FROM pg_catalog.pg_attribute AS a JOIN found ON found.oid = a.attrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT l.attrelid, l.attnum, t.typbasetype, l.depth + 1
    FROM layers AS l JOIN pg_catalog.pg_type AS t ON t.oid = l.type AND t.typtype = 'd'
)
SELECT found.relname::text, a.attname::text,
    coalesce(item.typname, base.typname)::text,
    coalesce(item.typcategory, base.typcategory)::text
        || coalesce(item.typtype, base.typtype)::text,
    item.oid IS NOT NULL,
    base.typtype IN ('r', 'm') OR EXISTS (
        SELECT FROM pg_catalog.pg_operator AS o
        WHERE o.oprname = '=' AND o.oprleft = base.oid AND o.oprright = base.oid
            AND (o.oprcanmerge OR o.oprcanhash)),
    a.attnotnull OR domains.not_null,
    coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), domains.standard),
    coalesce(pg_catalog.array_position(p.conkey, a.attnum), 0),
    a.attidentity <> '', a.attgenerated <> '',
    (SELECT min(CASE WHEN r.relnamespace = found.relnamespace THEN '' ELSE s.nspname || '.' END
                || r.relname || '(' || q.attname || ')')
     FROM pg_catalog.pg_constraint AS k
        JOIN pg_catalog.pg_class AS r ON r.oid = k.confrelid
        JOIN pg_catalog.pg_namespace AS s ON s.oid = r.relnamespace
        JOIN pg_catalog.pg_attribute AS q ON q.attrelid = r.oid
            AND q.attnum = k.confkey[pg_catalog.array_position(k.conkey, a.attnum)]
     WHERE k.conrelid = found.oid AND k.contype = 'f' AND a.attnum = ANY (k.conkey)),
    (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder)::text FROM pg_catalog.pg_enum AS e
     WHERE e.enumtypid = coalesce(item.oid, base.oid)),
    (SELECT json_agg(pg_catalog.pg_get_constraintdef(k.oid) ORDER BY k.conname)::text
     FROM pg_catalog.pg_constraint AS k
     WHERE k.contype = 'c' AND (
        (k.conrelid = found.oid AND k.conkey = ARRAY[a.attnum]) OR k.contypid = ANY (domains.types)
     ))
FROM found
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = found.oid
        AND a.attnum > 0 AND NOT a.attisdropped
    JOIN LATERAL (
        SELECT coalesce(bool_or(t.typtype = 'd' AND t.typnotnull), false) AS not_null,
            (array_agg(t.typdefault ORDER BY l.depth) FILTER (
                WHERE t.typtype = 'd' AND t.typdefault IS NOT NULL))[1] AS standard,
            array_agg(l.type) FILTER (WHERE t.typtype = 'd') AS types,
            (array_agg(l.type ORDER BY l.depth DESC))[1] AS base
        FROM layers AS l JOIN pg_catalog.pg_type AS t ON t.oid = l.type
        WHERE l.attrelid = a.attrelid AND l.attnum = a.attnum
    ) AS domains ON true
    JOIN pg_catalog.pg_type AS base ON base.oid = domains.base
    LEFT JOIN pg_catalog.pg_type AS item ON item.oid = base.typelem AND base.typcategory = 'A'
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_catalog.pg_constraint AS p ON p.conrelid = found.oid AND p.contype = 'p'
ORDER BY found.relname, a.attnum
"""
_NAMES = """
SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident($1))
    AND a.attnum > 0 AND NOT a.attisdropped
"""
_VIEWS = """
WITH RECURSIVE used AS (
    SELECT c.oid FROM pg_catalog.pg_class AS c
    WHERE c.relname = ANY ($1)
        AND c.relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
    UNION
    SELECT d.refobjid
    FROM used
        JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = used.oid
        JOIN pg_catalog.pg_depend AS d ON d.objid = r.oid
            AND d.classid = 'pg_catalog.pg_rewrite'::regclass
            AND d.refclassid = 'pg_catalog.pg_class'::regclass
)
SELECT n.nspname::text, c.relname::text, pg_catalog.pg_get_viewdef(c.oid)
FROM used
    JOIN pg_catalog.pg_class AS c ON c.oid = used.oid AND c.relkind IN ('v', 'm')
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
"""
KEEPS_ENTRIES = True  # all machines share them
_OWN = (
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = pg_catalog.current_schema() AND"
)
_OF_TABLES = f"JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid {_OWN}"
_THERE = "AND a.attnum > 0 AND NOT a.attisdropped"
COLUMN_NAMES = (
    f"SELECT a.attname::text FROM pg_catalog.pg_attribute AS a {_OF_TABLES} "
    f"c.relname = ? {_THERE} ORDER BY a.attnum"
)
INDEX_NAMES = (
    "SELECT indexname::text FROM pg_catalog.pg_indexes "
    "WHERE schemaname = pg_catalog.current_schema()"
)
LEDGER_COLUMNS = (
    f"SELECT c.relname::text, a.attname::text FROM pg_catalog.pg_attribute AS a {_OF_TABLES} "
    f"c.relkind IN ('r', 'p') AND c.relname LIKE 'ralphgen%' {_THERE}"
)
TABLE_NAMES = f"SELECT c.relname::text FROM pg_catalog.pg_class AS c {_OWN} c.relkind IN ('r', 'p')"
RELATION_NAMES = TABLE_NAMES.replace("('r', 'p')", "('r', 'p', 'v', 'm')")
TASK_INDEXES = """
    SELECT i.indexrelid::text, pg_catalog.pg_get_indexdef(i.indexrelid, k.at, true)
    FROM pg_catalog.pg_index AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL pg_catalog.generate_series(1, i.indnkeyatts::int) AS k (at)
    WHERE n.nspname = pg_catalog.current_schema() AND c.relname = 'tasks'
        AND i.indisvalid AND i.indpred IS NULL
    ORDER BY i.indexrelid, k.at
"""
_SPELLED = (
    (re.compile(r"\bINTEGER PRIMARY KEY\b"), "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (re.compile(r"\bINTEGER\b"), "bigint"),
    (re.compile(r"\bREAL\b"), "double precision"),
    (re.compile(r"\) STRICT;"), ");"),
    (re.compile(r"(\bdepends_on +)TEXT\b"), r"\1jsonb"),  # searched by an index, as no text can be
)
_KINDS = {
    "bool": "NUMERIC",
    "bytea": "BLOB",
    "float4": "REAL",
    "float8": "REAL",
    "int2": "INTEGER",
    "int4": "INTEGER",
    "int8": "INTEGER",
    "json": "JSON",
    "jsonb": "JSON",
    "numeric": "NUMERIC",
    "uuid": "TEXT",
}
# By the letters of a type's category and of its sort: b for a base type, e for an ENUM.
_CATEGORIES = {"Sb": "TEXT", "Ee": "TEXT", "Db": "NUMERIC", "Tb": "NUMERIC"}
_MEANT = {"bool": "BOOLEAN", "numeric": "DECIMAL"}  # what columns of further tables hold
_WIDER = ("citext",)  # types that take more spellings of a value than a CHECK lists
_CAST_LITERAL = re.compile(r"('(?:[^']|'')*')::[^'()]+(?:\([0-9, ]+\))?")
# Of tables in this schema: one in another is left to the database itself.
_KEYS = """
    SELECT k.oid::bigint, child.relname::text, parent.relname::text,
        a.attname::text, b.attname::text
    FROM pg_catalog.pg_constraint AS k
        JOIN pg_catalog.pg_class AS child ON child.oid = k.conrelid
        JOIN pg_catalog.pg_class AS parent ON parent.oid = k.confrelid
        JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS pair(own, theirs, place) ON true
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = pair.own
        JOIN pg_catalog.pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = pair.theirs
    WHERE k.contype = 'f' AND child.relnamespace = pg_catalog.current_schema()::regnamespace
        AND parent.relnamespace = child.relnamespace
"""
# The database itself checks keys with unreadable columns, except keys that also change other rows.
_READABLE = (
    "(SELECT bool_and(has_column_privilege({}, number, 'SELECT')) FROM unnest({}) AS of (number))"
)
_PARENTS = (
    f"{_KEYS} AND child.relname = ? AND {_READABLE.format('k.confrelid', 'k.confkey')} "
    "ORDER BY k.conname, k.oid, pair.place"
)
_CHILDREN = (
    f"{_KEYS} AND parent.relname = ? AND CASE WHEN k.confdeltype IN ('a', 'r') "
    f"THEN {_READABLE.format('k.conrelid', 'k.conkey')} ELSE ?::boolean END "
    "ORDER BY child.relname, k.conname, k.oid, pair.place"
)
_BROKEN = "23514"
_RULE = """
    SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
    WHERE contype = 'c' AND conname = ? AND (conrelid = to_regclass(?) OR contypid <> 0)
    ORDER BY conrelid = 0 LIMIT 1
"""


def read_tables(
    connection: Any,
    schema: str | None = None,
    *,
    also: Sequence[str] = (),
    own: Sequence[str] = TABLES,
) -> dict[str, list[Column]]:
    """Return the existing tables of `own` in a schema by name, each with its columns in order.

    `connection` has raw cursors; `schema` defaults to the first one in its search path. A column
    has the form of `read_tables` for SQLite; its type may also be JSON (json, jsonb), OPAQUE
    (without equality), or an item type with `[]` for an array. Names are case-sensitive. An
    identity column looks like SQLite's INTEGER PRIMARY KEY: it fills itself. The values come from
    an ENUM, or an array of one, and from the CHECKs on only this column and on its domains. `also`
    names additional tables and views; their columns may also be BOOLEAN or DECIMAL. Runs one query;
    raises errors of the driver.
    """
    tables: dict[str, list[Column]] = {}
    names = [*own, *also]
    for table, *found in connection.execute(_COLUMNS, [schema, names, list(own)]).fetchall():
        column = _column(*found)
        if table not in own and column["type"].startswith("NUMERIC"):
            column["type"] = column["type"].replace("NUMERIC", _MEANT.get(found[1], "NUMERIC"))
        tables.setdefault(table, []).append(column)
    return tables


def views_digest(connection: Any, names: Iterable[str]) -> str:
    """Return the sha256, in hex, of the views among `names` and the views that they read.

    Empty if there are none. Raises errors of the driver.
    """
    used = sorted(connection.execute(_VIEWS, [[*names]]).fetchall())
    return sha256_hex(repr(used).encode()) if used else ""


def absent_columns(connection: Any, reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return, as "table.column", the columns in `reads` that no longer exist."""
    missing: list[str] = []
    for table, columns in reads.items():
        found = connection.execute(_NAMES, [table]).fetchall()
        names = {name for (name,) in found}
        gone = [f"{table}.{column}" for column in columns if column not in names]
        missing += gone if names else [table]
    return missing


def _column(  # one row of the statement above
    name: str,
    base: str,
    category: str,
    is_array: bool,
    has_equality: bool,
    not_null: bool,
    default: str | None,
    key: int,
    identity: bool,
    generated: bool,
    references: str | None,
    labels: str | None,
    checks: str | None,
) -> Column:
    rest = "ANY" if has_equality or is_array else "OPAQUE"
    kind = _KINDS.get(base) or _CATEGORIES.get(category, rest)
    lists = [json.loads(labels)] if labels else []
    if checks and not is_array and base not in _WIDER:
        lists += [found for text in json.loads(checks) if (found := check_values(text)) is not None]
    allowed = [value for value in lists[0] if all(value in one for one in lists)] if lists else None
    return {
        "name": name,
        "type": f"{kind}[]" if is_array else kind,
        "not_null": bool(not_null) and not identity,
        "default": None if generated or identity else _plain_default(default),
        "primary_key": key,
        "references": references,
        "values": stored_values(kind, allowed) or None,
        "generated": bool(generated),
    }


def _plain_default(default: str | None) -> str | None:
    """Return a default without the cast of a literal, and none for NULL."""
    if default is None or default.upper().split("::")[0] == "NULL":
        return None
    literal = _CAST_LITERAL.fullmatch(default)
    return literal[1] if literal else default


def defined(sql: str) -> str:
    """Return definitions of tables, as SQLite takes them, for this engine."""
    for pattern, spelled in _SPELLED:
        sql = pattern.sub(spelled, sql)
    return sql


def parents(database: Snapshot, table: str) -> Keys:
    """Return each foreign key of a table: its parent, and the pairs of columns."""
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, _, parent, column, theirs in database.rows(_PARENTS, [table]):
        found.setdefault(number, (parent, []))[1].append((column, theirs))
    return list(found.values())


def children(database: Snapshot, table: str, *, also_following: bool = False) -> Keys:
    """Return each foreign key that prevents deletes from a table: its table and columns.

    Keys that delete or clear the other rows are included only if `also_following`.
    """
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, child, _, column, theirs in database.rows(_CHILDREN, [table, also_following]):
        found.setdefault(number, (child, []))[1].append((column, theirs))
    return list(found.values())


def is_broken_rule(error: BaseException | None) -> bool:
    """Return whether a CHECK caused the error."""
    return getattr(error, "sqlstate", "") == _BROKEN


def broken_rule(database: Snapshot, table: str, error: BaseException | None) -> str:
    """Return the CHECK of a table or domain that a statement broke, empty if it is unknown.

    Runs in the transaction after the failed one.
    """
    told: Any = getattr(error, "diag", None)
    if told.constraint_name is None:  # the bounds of a partition
        return ""
    row = database.row(_RULE, [told.constraint_name, quoted(told.table_name or table)])
    return str(row[0]) if row else ""


def replaces_rows(_database: Snapshot, _table: str) -> bool:
    """Return False: a new row never deletes another."""
    return False


# The output of `pg_get_constraintdef`. A string with a backslash begins with E.
_TOKENS = re.compile(
    r"""\s*(
    E?'(?:[^']|'')*'
    |"(?:[^"]|"")*"
    |::
    |[^\W\d][\w$]*
    |[0-9][0-9.]*
    |\S)""",
    re.VERBOSE,
)
_CAST = re.compile(r'"(?:[^"]|"")*"|[^\W\d][\w$]*|\.|\[|\]')  # the parts of a type without a length
_CONNECTIVES = frozenset({"AND", "OR", "IS", "NOT"})
_INTEGER = "0|-?[1-9][0-9]*"


def check_values(definition: str) -> list[str] | None:
    """Return the values that a CHECK of one column allows, `None` if it is uncertain.

    `definition` is from `pg_get_constraintdef`. The supported forms are `col IN (…)`, printed as
    `col = ANY (ARRAY[…])` or, with one value, `col = …`, and both with `OR col IS NULL`. In a
    domain's CHECK the column is called VALUE.
    """
    tokens = _TOKENS.findall(definition)
    if [token.upper() for token in tokens[-2:]] == ["NOT", "ENFORCED"]:
        return None
    if tokens[:2] != ["CHECK", "("]:
        return None
    inner = tokens[1 : _closing(tokens, 1) + 1]
    match _split(_unwrapped(_without_casts(inner)), "OR"):
        case [only]:
            return _array_values(only)
        case [left, right]:
            for first, second in ((left, right), (right, left)):
                if _is_null_test(first):
                    return _array_values(second)
    return None


def stored_values(kind: str, allowed: list[str] | None) -> list[str] | None:
    """Return the values if a column of this type stores them unchanged, or None."""
    if allowed is None or kind == "TEXT":
        return allowed
    plain = kind == "INTEGER" and all(re.fullmatch(_INTEGER, value) for value in allowed)
    return allowed if plain else None


def _without_casts(tokens: list[str]) -> list[str]:
    """Return the tokens without casts, except casts with a length: these change values."""
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at] != "::":
            kept.append(tokens[at])
            at += 1
            continue
        end = at + 1
        while (
            end < len(tokens)
            and _CAST.fullmatch(tokens[end])
            and tokens[end].upper() not in _CONNECTIVES
            and not (tokens[end] == "]" and tokens[end - 1] != "[")
        ):
            end += 1
        if tokens[end : end + 1] == ["("]:
            kept.append(tokens[at])
        at = end
    return kept


def _array_values(tokens: list[str]) -> list[str] | None:
    """Return the values of `col = ANY (ARRAY[…])` or `col = …`."""
    match _split(_unwrapped(tokens), "="):
        case [left, ["ANY", *array]] if _is_name(left):
            match _unwrapped(array):
                case ["ARRAY", "[", *inner, "]"]:
                    return _literals(inner)
        case [left, right] if _is_name(left):
            return _literals(right)
    return None


def _is_null_test(tokens: list[str]) -> bool:
    tokens = _unwrapped(tokens)
    return tokens[-2:] == ["IS", "NULL"] and _is_name(tokens[:-2])


def _is_name(tokens: list[str]) -> bool:
    tokens = _unwrapped(tokens)
    return len(tokens) == 1 and (tokens[0][0] == '"' or tokens[0][0].isalpha() or "_" in tokens[0])


def _literals(tokens: list[str]) -> list[str] | None:
    """Return the distinct values of a list of texts or whole numbers."""
    found = [_literal(_unwrapped(item)) for item in _split(tokens, ",")]
    values = [value for value in found if value is not None]
    return list(dict.fromkeys(values)) if len(values) == len(found) else None


def _literal(tokens: list[str]) -> str | None:
    sign = "-" if tokens[:1] == ["-"] else ""
    match tokens[1:] if sign else tokens:
        case [text] if not sign and text.startswith("'"):
            return text[1:-1].replace("''", "'")
        case [text] if not sign and text.startswith("E'"):
            return text[2:-1].replace("''", "'").replace("\\\\", "\\")
        case [number] if number.isascii() and number.isdigit():
            return f"{sign}{number}"
    return None


def _unwrapped(tokens: list[str]) -> list[str]:
    """Return the tokens without the parentheses that enclose all of them."""
    while tokens[:1] == ["("] and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: list[str], opening: int) -> int:
    """Return the index of what closes the parenthesis at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index] == "(") - (tokens[index] == ")")
        if not depth:
            return index
    return len(tokens)


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    """Return the parts between separators that stand outside of parentheses and brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in ("(", "[")) - (token in (")", "]"))
        if not depth and token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
