"""Reads the tables that a server works on from SQLite, and tells one schema from another."""

from __future__ import annotations

import json
import re

from ..values.digest import sha256_hex
from .check_constraints import check_values, fold, is_strict

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Column = dict[str, Any]
    Tables = Mapping[str, Sequence[Column]]

TABLES = ("disciplines", "features", "metadata", "recipe_configs", "task_comments", "tasks")

_COLUMNS = """
    SELECT lower(t.name), t.sql, c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t, pragma_table_xinfo(t.name, 'main') AS c
    WHERE t.type = 'table' AND lower(t.name) IN (?, ?, ?, ?, ?, ?) AND c.hidden <> 1
    ORDER BY 1, c.cid
"""
# A foreign key may leave out the parent's columns, which then are its primary key's, and may
# spell both names in another case: the parent's own spelling is what counts.
_FOREIGN_KEYS = """
    SELECT lower(t.name), k."from",
        coalesce((SELECT p.name FROM sqlite_master AS p
                  WHERE p.type = 'table' AND lower(p.name) = lower(k."table")), k."table"),
        coalesce((SELECT c.name FROM pragma_table_xinfo(k."table", 'main') AS c
                  WHERE lower(c.name) = lower(k."to") OR (k."to" IS NULL AND c.pk = k.seq + 1)),
                 k."to", '?')
    FROM sqlite_master AS t, pragma_foreign_key_list(t.name, 'main') AS k
    WHERE t.type = 'table' AND lower(t.name) IN (?, ?, ?, ?, ?, ?)
"""
# Rules 1 to 4 of SQLite's "Determination Of Column Affinity", in their order; 5 is NUMERIC.
_AFFINITIES = (
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("BLOB",), "BLOB"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
)
_PLAIN_INTEGER = "0|-?[1-9][0-9]*"
_ASPECTS = (
    ("type", "type"),
    ("not_null", "NOT NULL"),
    ("default", "default"),
    ("primary_key", "primary key"),
    ("references", "foreign key"),
    ("values", "CHECK values"),
    ("generated", "generated"),
)


def read_tables(connection: sqlite3.Connection) -> dict[str, list[Column]]:
    """Return by name those of `TABLES` that exist, each with its columns in schema order.

    A column is `name`, `type` (INTEGER, TEXT, REAL, BLOB, NUMERIC by SQLite's affinity rules, ANY
    in STRICT tables), `not_null`, `default` (SQL text; `None` also for NULL), `primary_key` (0, or
    the position in the key), `references` (`"table(column)"` or `None`), `values` (what the CHECKs
    allow, `None` where none is known for certain) and `generated`. Takes two queries in all;
    raises what `sqlite3` raises.
    """
    cursor = connection.cursor()
    cursor.row_factory = None
    references = _references(cursor)
    tables: dict[str, list[Column]] = {}
    allowed: dict[str, list[str]] = {}
    for table, sql, name, *declared in cursor.execute(_COLUMNS, TABLES):
        if table not in tables:
            tables[table] = []
            allowed = check_values(sql) if "check" in sql.lower() else {}
        column = _column(name, *declared, sql=sql)
        column["references"] = references.get((table, fold(name)))
        column["values"] = _values(column["type"], allowed.get(name))
        tables[table].append(column)
    return tables


def fingerprint(tables: Tables, hide: Iterable[str] = ()) -> str:
    """Return the sha256, in hex, of the columns outside of `hide` (`"table.column"`).

    It depends on name, type, NOT NULL, default, keys, CHECK values and being generated alone: not
    on the order of tables, columns or values, on spelling, indexes, triggers or other tables.
    """
    facts = [
        [table, name, *(column[key] for key, _ in _ASPECTS)]
        for table, columns in sorted(_visible(tables, hide).items())
        for name, column in sorted(columns.items())
    ]
    return sha256_hex(json.dumps(facts, separators=(",", ":")).encode("ascii"))


def differences(built_for: Tables, found: Tables, hide: Iterable[str] = ()) -> list[str]:
    """Return one sentence for each table or column in which two schemas differ, sorted by name.

    Empty exactly where the fingerprints are equal. Both arguments are as `read_tables` returns
    them, or as JSON gives that back.
    """
    hidden = tuple(hide)
    before, after = _visible(built_for, hidden), _visible(found, hidden)
    sentences: list[str] = []
    for table in sorted({*before, *after}):
        if table not in after:
            sentences.append(f'table "{table}" is gone')
        elif table not in before:
            sentences.append(f'table "{table}" is new')
        else:
            sentences += _column_differences(table, before[table], after[table])
    return sentences


def _column(  # one row of table_xinfo
    name: str, kind: str, not_null: int, default: str | None, key: int, hidden: int, *, sql: str
) -> Column:
    return {
        "name": name,
        "type": _affinity(kind, sql),
        "not_null": bool(not_null),
        "default": None if default is None or default.upper() == "NULL" else default,
        "primary_key": key,
        "references": None,
        "values": None,
        "generated": hidden > 1,
    }


def _affinity(declared: str, sql: str) -> str:
    kind = declared.upper()
    if kind == "ANY" and is_strict(sql):
        return "ANY"
    for parts, affinity in _AFFINITIES:
        if any(part in kind for part in parts):
            return affinity
    return "NUMERIC" if kind else "BLOB"


def _values(kind: str, allowed: list[str] | None) -> list[str] | None:
    """Return the CHECK list where the column's type stores values as the list spells them."""
    if allowed is None or kind == "TEXT":
        return allowed
    plain = kind == "INTEGER" and all(re.fullmatch(_PLAIN_INTEGER, value) for value in allowed)
    return allowed if plain else None


def _references(cursor: sqlite3.Cursor) -> dict[tuple[str, str], str]:
    """Return the foreign key of each column; of several, the first by name."""
    found: dict[tuple[str, str], str] = {}
    for table, column, parent, parent_column in cursor.execute(_FOREIGN_KEYS, TABLES):
        name = fold(parent) if fold(parent) in TABLES else parent
        reference, place = f"{name}({parent_column})", (table, fold(column))
        found[place] = min(reference, found.get(place, reference))
    return found


def _visible(tables: Tables, hide: Iterable[str]) -> dict[str, dict[str, Column]]:
    """Return table to column name to column, without what is hidden; CHECK values sorted."""
    hidden = {fold(entry) for entry in hide}
    visible: dict[str, dict[str, Column]] = {}
    for table, columns in tables.items():
        for column in columns:
            if fold(f"{table}.{column['name']}") not in hidden:
                values = column["values"]
                comparable = {**column, "values": values and sorted(values)}
                visible.setdefault(table, {})[column["name"]] = comparable
    return visible


def _column_differences(
    table: str, before: Mapping[str, Column], after: Mapping[str, Column]
) -> list[str]:
    sentences: list[str] = []
    for name in sorted({*before, *after}):
        column = f'column "{table}.{name}"'
        if name not in after:
            sentences.append(f"{column} is gone")
        elif name not in before:
            sentences.append(f"{column} is new")
        else:
            changed = [word for key, word in _ASPECTS if before[name][key] != after[name][key]]
            sentences += [f"{column} changed: {', '.join(changed)}"] if changed else []
    return sentences
