"""The schema is read as SQLite understands it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_tables import tables_of

from ralphgen.runtime.engine.schema import TABLES
from ralphgen.runtime.engine.sqlite.schema import read_tables

SCHEMAS = Path(__file__).parents[5] / "fixtures" / "schemas"


def tasks(sql: str) -> dict[str, dict[str, Any]]:
    """The columns of the one table `tasks`, by name."""
    return {column["name"]: column for column in tables_of(sql)["tasks"]}


def test_a_column_carries_the_facts_of_sqlite() -> None:
    columns = tables_of("""
        CREATE TABLE features (name TEXT PRIMARY KEY) STRICT;
        CREATE TABLE tasks (
            id INTEGER PRIMARY KEY,
            status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done')),
            feature TEXT REFERENCES features (name)
        ) STRICT;
    """)["tasks"]

    expected = [
        ("id", "INTEGER", False, None, 1, None, None, False),
        ("status", "TEXT", True, "'open'", 0, None, ["open", "done"], False),
        ("feature", "TEXT", False, None, 0, "features(name)", None, False),
    ]
    assert expected == [tuple(column.values()) for column in columns]
    names = "name type not_null default primary_key references values generated"
    assert names.split() == list(columns[0])


def test_only_known_tables_are_read_sorted_in_any_case() -> None:
    """Views are not tables, and tables with other names are not ours."""
    found = tables_of("""
        CREATE TABLE Tasks (Id INTEGER PRIMARY KEY);
        CREATE TABLE [FEATURES] (name TEXT);
        CREATE TABLE tasks_old (id INTEGER);
        CREATE VIEW disciplines AS SELECT 1 AS name;
    """)

    assert ["features", "tasks"] == list(found)
    assert "Id" == found["tasks"][0]["name"]
    assert sorted(TABLES) == list(TABLES)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("INT", "INTEGER"),
        ("unsigned bigint", "INTEGER"),
        ("CHARINT", "INTEGER"),
        ("VARCHAR(10)", "TEXT"),
        ("clob", "TEXT"),
        ("BLOB", "BLOB"),
        ("", "BLOB"),
        ("FLOAT", "REAL"),
        ("DOUBLE PRECISION", "REAL"),
        ("FLOATING POINT", "INTEGER"),
        ("BOOLEAN", "NUMERIC"),
        ("ANY", "NUMERIC"),
    ],
)
def test_a_declared_type_becomes_its_affinity(declared: str, expected: str) -> None:
    """The rules and their order are SQLite's own, so that POINT is an INTEGER."""
    assert expected == tasks(f"CREATE TABLE tasks (a {declared})")["a"]["type"]


@pytest.mark.parametrize("declared", ["INTEGER", "TEXT", "REAL", "BLOB", "ANY"])
def test_a_strict_type_is_unchanged(declared: str) -> None:
    assert declared == tasks(f"CREATE TABLE tasks (a {declared}) STRICT")["a"]["type"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE tasks (a TEXT PRIMARY KEY) STRICT", {"a": (True, 1)}),
        ("CREATE TABLE tasks (a INTEGER PRIMARY KEY) STRICT", {"a": (False, 1)}),
        ("CREATE TABLE tasks (a INT PRIMARY KEY) STRICT", {"a": (True, 1)}),
        ("CREATE TABLE tasks (a TEXT PRIMARY KEY)", {"a": (False, 1)}),
        ("CREATE TABLE tasks (a TEXT PRIMARY KEY) WITHOUT ROWID", {"a": (True, 1)}),
        (
            "CREATE TABLE tasks (a TEXT, b TEXT, PRIMARY KEY (b, a)) STRICT",
            {"a": (True, 2), "b": (True, 1)},
        ),
    ],
)
def test_a_primary_key_is_not_null_if_declared(
    sql: str, expected: dict[str, tuple[bool, int]]
) -> None:
    assert expected == {
        name: (column["not_null"], column["primary_key"]) for name, column in tasks(sql).items()
    }


def test_generated_columns_are_marked() -> None:
    columns = tasks("""CREATE TABLE tasks (
        a TEXT, v TEXT GENERATED ALWAYS AS (a || 'v'), s TEXT AS (a || 's') STORED
    )""")

    assert {"a": False, "v": True, "s": True} == {
        name: column["generated"] for name, column in columns.items()
    }
    assert ("TEXT", None) == (columns["v"]["type"], columns["v"]["default"])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("REFERENCES features (name)", "features(name)"),
        ("REFERENCES Features (NAME)", "features(name)"),
        ("REFERENCES features", "features(name)"),
        ("REFERENCES stacks", "Stacks(Id)"),
        ("REFERENCES nowhere", "nowhere(?)"),
        ("REFERENCES nowhere (x)", "nowhere(x)"),
        ("REFERENCES stacks REFERENCES features", "Stacks(Id)"),
    ],
)
def test_a_foreign_key_names_the_column_it_means(key: str, expected: str) -> None:
    """An implicit one is the parent's primary key; of two, the first by name counts."""
    columns = tasks(f"""
        CREATE TABLE features (name TEXT PRIMARY KEY);
        CREATE TABLE Stacks (title TEXT, Id INTEGER PRIMARY KEY);
        CREATE TABLE tasks (feature TEXT {key});
    """)

    assert expected == columns["feature"]["references"]


def test_an_implicit_composite_key_is_resolved_column_by_column() -> None:
    columns = tasks("""
        CREATE TABLE parents (a TEXT, b TEXT, PRIMARY KEY (b, a));
        CREATE TABLE tasks (x TEXT, y TEXT, FOREIGN KEY (x, y) REFERENCES parents);
    """)

    assert ["parents(b)", "parents(a)"] == [columns[name]["references"] for name in "xy"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("a INTEGER CHECK (a IN (0, 1))", ["0", "1"]),
        ("a INTEGER CHECK (a IN ('0', '1'))", ["0", "1"]),
        ("a INTEGER CHECK (a IN ('01'))", None),
        ("a INTEGER CHECK (a IN ('x'))", None),
        ("a REAL CHECK (a IN (0, 1))", None),
        ("a TEXT CHECK (a IN (0, 1))", ["0", "1"]),
        ("a BLOB CHECK (a IN ('x'))", None),
    ],
)
def test_values_fit_the_type_of_their_column(column: str, expected: list[str] | None) -> None:
    """The listed values are the ones that SQLite stores in that column."""
    sql = f"CREATE TABLE tasks ({column})"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        for value in expected or ():
            connection.execute("INSERT INTO tasks VALUES (?)", (value,))

    assert expected == tasks(sql)["a"]["values"]


def test_a_default_of_null_is_not_a_default() -> None:
    """NOT NULL DEFAULT NULL therefore counts as required."""
    columns = tasks("CREATE TABLE tasks (a TEXT DEFAULT NULL, b TEXT DEFAULT (1 + 1))")

    assert (None, "1 + 1") == (columns["a"]["default"], columns["b"]["default"])


def test_a_row_factory_of_the_caller_does_not_matter() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = lambda _cursor, _row: {}
        connection.execute("CREATE TABLE tasks (id INTEGER)")

        assert ["tasks"] == list(read_tables(connection))


def test_reading_takes_two_queries_for_any_number_of_columns() -> None:
    """A query a column would cost a server its quick start."""
    seen: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((SCHEMAS / "a8.sql").read_text(encoding="utf-8"))
        connection.set_trace_callback(seen.append)
        read_tables(connection)

    assert 2 == len([sql for sql in seen if not sql.startswith("--")])
