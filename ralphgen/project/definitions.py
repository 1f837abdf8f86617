"""Reads what tables are beyond the facts of their columns, as parts of SQL."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ralphgen.project.database import Snapshot
from ralphgen.project.model import Names
from ralphgen.project.schema import Facts
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.engine.schema import fold
from ralphgen.runtime.engine.sqlite.check_constraints import check_values, sql_tokens

Parts = tuple[tuple[str, Names], ...]
Definitions = Mapping[str, Sequence[str]]
"""Parts by table, sorted; a table without parts besides its columns is not included."""

GENERATED, COLLATE, FOREIGN_KEY = "GENERATED ", "COLLATE ", "FOREIGN KEY "
CREATED = ("CREATE INDEX ", "CREATE UNIQUE INDEX ", "CREATE TRIGGER ")
VIEW = "CREATE VIEW "

OPERATORS = {"<=", ">=", "<>", "==", "!=", "||", "->", "<<", ">>"}

_TABLE = """
    SELECT type, name, sql FROM sqlite_master
    WHERE type IN ('table', 'view') AND lower(name) = ?
"""
_INDEXES = 'SELECT name, "unique", origin, partial FROM pragma_index_list(?) ORDER BY name'
_INDEXED = "SELECT cid, name, desc, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno"
_KEYS = """
    SELECT id, "table", on_update, on_delete, "from", "to"
    FROM pragma_foreign_key_list(?) ORDER BY id, seq
"""
_OTHERS = """
    SELECT type, name, sql FROM sqlite_master
    WHERE type IN ('index', 'trigger') AND lower(tbl_name) = ? AND sql IS NOT NULL
"""
_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")


def definitions_of(connection: Snapshot, tables: Facts) -> Parts | None:
    """Return the definitions as a schema holds them; None for a database of another engine."""
    if connection.sql.TYPED:
        return None
    found = read_definitions(connection.connection, tables)
    return tuple((name, tuple(one)) for name, one in found.items())


def recorded_parts(facts: Mapping[str, Any]) -> Parts | None:
    """Return those of a `project.json`, None where it has none.

    Raises what reading a value of another form does.
    """
    known = facts.get("definitions")
    if known is None:
        return None
    return tuple((str(name), tuple(map(str, parts))) for name, parts in sorted(known.items()))


def read_definitions(connection: sqlite3.Connection, tables: Facts) -> Definitions:
    """Return what tables have that their columns do not say, each as a part of SQL.

    These are keys, CHECKs that are no lists of values, how columns are generated and compared,
    STRICT, WITHOUT ROWID and AUTOINCREMENT, and indexes and triggers; of a view all that makes it.
    They depend on nothing that SQLite does not look at: not on spaces, comments, or the order of
    columns. `tables` are those of the database, as `read_tables` gives them; raises what `sqlite3`
    raises.
    """
    found: dict[str, list[str]] = {}
    for table, columns in sorted(tables.items()):
        row = connection.execute(_TABLE, (fold(table),)).fetchone()
        if table == MARKER or row is None:
            continue
        kind, name, sql = row
        if kind == "view":
            found[table] = [_joined(sql_tokens(sql))]
            continue
        parts = {*_of_text(sql_tokens(sql), columns), *_keys(connection, name)}
        parts |= {*_unique(connection, name), *_created(connection, name)}
        if parts:
            found[table] = sorted(parts)
    return found


def _of_text(tokens: Sequence[str], columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what only the text of a table says."""
    items, behind = _items(tokens)
    words = [word.upper() for word in behind]
    yield from (one for one in ("STRICT",) if one in words)
    yield from (one for one in ("WITHOUT ROWID",) if "WITHOUT" in words)
    by_name = {fold(column["name"]): column for column in columns}
    listed = {fold(column["name"]) for column in columns if column["values"] is not None}
    head = f"CREATE TABLE t ({', '.join(quoted(column['name']) for column in columns)}"
    for item in items:
        upper = [word.upper() for word in item]
        column = by_name.get(fold(_name(item[0])))
        is_column = column is not None and upper[0] not in _CONSTRAINTS
        for at, word in enumerate(upper):
            inner = f"({_joined(_inside(item, at + 1))})" if item[at + 1 : at + 2] == ["("] else ""
            if word == "CHECK" and inner:
                said = check_values(f"{head}, CHECK {inner})")
                if not said or not {fold(one) for one in said} <= listed:
                    yield f"CHECK {inner}"
            elif word == "AS" and inner and is_column and column and column["generated"]:
                stored = " STORED" if "STORED" in upper[at:] else ""
                yield f"{GENERATED}{quoted(column['name'])} AS {inner}{stored}"
            elif word == "COLLATE" and is_column and column and upper[at + 1] != "BINARY":
                yield f"{COLLATE}{quoted(column['name'])} {upper[at + 1]}"
            elif word in {"AUTOINCREMENT", "CONFLICT", "DEFERRABLE"}:
                yield "ON CONFLICT" if word == "CONFLICT" else word


def _items(tokens: Sequence[str]) -> tuple[list[list[str]], Sequence[str]]:
    """Return what stands between the commas of a CREATE TABLE, and what is behind it."""
    opening = tokens.index("(")
    inside = _inside(tokens, opening)
    items: list[list[str]] = [[]]
    depth = 0
    for part in inside:
        depth += (part == "(") - (part == ")")
        if part == "," and not depth:
            items.append([])
        else:
            items[-1].append(part)
    return items, tokens[opening + len(inside) + 2 :]


def _inside(tokens: Sequence[str], opening: int) -> Sequence[str]:
    """Return what is between the parenthesis at `opening` and the one that closes it."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at] == "(") - (tokens[at] == ")")
        if not depth:
            return tokens[opening + 1 : at]
    return tokens[opening + 1 :]


def _joined(tokens: Sequence[str]) -> str:
    """Return tokens as SQL: a space between any two that are not one operator."""
    text = ""
    for before, token in pairwise(["", *tokens]):
        text += token if not before or before[-1] + token in OPERATORS else f" {token}"
    return text


def _name(token: str) -> str:
    """Return what a token names."""
    for mark, end in (('"', '"'), ("`", "`"), ("[", "]"), ("'", "'")):
        if token.startswith(mark):
            return token[1:-1].replace(end * 2, end)
    return token


def _keys(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the foreign keys of which the columns do not say all."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for number, *facts in connection.execute(_KEYS, (table,)):
        found.setdefault(number, []).append(tuple(facts))
    for rows in found.values():
        parent, update, delete, _, first = rows[0]
        if len(rows) == 1 and update == delete == "NO ACTION":
            continue
        own = ", ".join(quoted(row[3]) for row in rows)
        named = f" ({', '.join(quoted(row[4]) for row in rows)})" if first is not None else ""
        actions = f" ON UPDATE {update}" * (update != "NO ACTION")
        actions += f" ON DELETE {delete}" * (delete != "NO ACTION")
        yield f"{FOREIGN_KEY}({own}) REFERENCES {quoted(parent)}{named}{actions}"


def _unique(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the keys of a table but its plain primary key."""
    for index, _, origin, _ in connection.execute(_INDEXES, (table,)).fetchall():
        rows = connection.execute(_INDEXED, (index,)).fetchall()
        if origin == "u":
            yield f"UNIQUE ({_columns(rows)})"
        elif origin == "pk" and any(desc or coll != "BINARY" for _, _, desc, coll in rows):
            yield f"PRIMARY KEY ({_columns(rows)})"


def _created(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the indexes and triggers of a table; plain indexes as SQLite knows them."""
    plain = {
        index: f"CREATE {'UNIQUE ' if unique else ''}INDEX {quoted(index)} ON {quoted(fold(table))}"
        for index, unique, origin, partial in connection.execute(_INDEXES, (table,)).fetchall()
        if origin == "c" and not partial
    }
    for kind, name, sql in connection.execute(_OTHERS, (fold(table),)).fetchall():
        rows = connection.execute(_INDEXED, (name,)).fetchall() if kind == "index" else []
        if name in plain and all(row[0] >= 0 for row in rows):
            yield f"{plain[name]} ({_columns(rows)})"
        else:
            yield _joined(sql_tokens(sql))


def _columns(rows: Sequence[tuple[int, str, int, str]]) -> str:
    return ", ".join(
        f"{quoted(name)}{'' if coll == 'BINARY' else f' COLLATE {coll}'}{' DESC' * desc}"
        for _, name, desc, coll in rows
    )
