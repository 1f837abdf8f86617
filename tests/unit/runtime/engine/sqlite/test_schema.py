"""The schema of SQLite and its checks."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_tables import tables_of

from ralphgen.runtime.engine import TABLES, fold
from ralphgen.runtime.engine.sqlite.schema import check_values, is_strict, read_tables

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


NAMES = st.sampled_from(
    ["status", '"status"', "[status]", "`status`", "STATUS", '"a ""b"" (c"', "[IN]", '"é,("']
)
BLANKS = st.sampled_from(
    [
        " ",
        "\n",
        "\t ",
        " -- don't IN ('x')\n",
        " /* CHECK (status IN ('y')) */ ",
        "/**/",
        "/*/*/",
        "/* * ' **/",
    ]
)
VALUES = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["it's", "a, b", ")", "--", "/*", "'", "''", '"', "CHECK (", "\u2028", "é"]),
    min_size=1,
    max_size=6,
)


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def accepted(sql: str, value: str) -> bool:
    """Return whether SQLite accepts `value` in the first of two columns."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        try:
            connection.execute("INSERT INTO t VALUES (?, NULL)", (value,))
        except sqlite3.IntegrityError:
            return False
    return True


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A CREATE TABLE text with one CHECK list, in any spelling, and the values it was made of."""
    name, values, blank = draw(NAMES), draw(VALUES), draw(BLANKS)

    def wrapped(text: str) -> str:
        for _ in range(draw(st.integers(0, 2))):
            text = f"({draw(BLANKS)}{text}{draw(BLANKS)})"
        return text

    literals = f"{draw(BLANKS)},{draw(BLANKS)}".join(wrapped(quoted(value)) for value in values)
    listed = wrapped(f"{wrapped(name)}{blank}IN{draw(BLANKS)}({draw(BLANKS)}{literals}{blank})")
    null = wrapped(
        f"{wrapped(name)} {draw(st.sampled_from(['IS NULL', 'ISNULL', 'is /**/ null']))}"
    )
    expression = draw(
        st.sampled_from([listed, f"{null} OR {listed}", f"{listed}{blank}or{blank}{null}"])
    )
    check = f"{draw(st.sampled_from(['CHECK', 'check', 'CONSTRAINT [a check] Check']))}{blank}"
    check += f"({wrapped(expression)})"
    default = "DEFAULT ('CHECK (status IN (''z''))') "
    column_level = draw(st.booleans())
    column = f"{name} TEXT {default}{check}" if column_level else f"{name} TEXT {default}"
    after = "" if column_level else f", {check}"
    return f"CREATE TABLE{blank}t ({column},{blank}other TEXT{after}) STRICT", values


@given(tables())
def test_any_list_reads_back_equal_and_is_what_sqlite_enforces(
    table: tuple[str, list[str]],
) -> None:
    """The values come back in order, each once; SQLite accepts each and refuses another."""
    sql, values = table
    (found,) = check_values(sql).values()

    assert list(dict.fromkeys(values)) == found
    assert all(accepted(sql, value) for value in found)
    assert not accepted(sql, "".join(found) + "another")


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("a IN ('x', 'y')", ["x", "y"]),
        ("a IN ('x', 'y', 'x')", ["x", "y"]),
        ("a IN ('')", [""]),
        ("a IN (0, 1, -2, +3)", ["0", "1", "-2", "3"]),
        ("a IN (('x'), (('y')))", ["x", "y"]),
        ("(a) IS NULL OR ((a)) IN ('x')", ["x"]),
    ],
)
def test_certain_forms_are_read(check: str, expected: list[str]) -> None:
    assert {"a": expected} == check_values(f"CREATE TABLE t (a TEXT CHECK ({check}), b TEXT)")


@pytest.mark.parametrize(
    "check",
    [
        "a NOT IN ('x')",
        "NOT a IN ('x')",
        "NOT (a IS NULL) OR a IN ('x')",
        "a IS NULL OR NOT a IN ('x')",
        "a IS NOT NULL OR a IN ('x')",
        "a IN ('x') AND length(a) > 0",
        "a IN ('x') OR b IN ('y')",
        "a IN ('x') OR a IN ('y')",
        "b IS NULL OR a IN ('x')",
        "a IS NULL OR b IS NULL OR a IN ('x')",
        "a IN ('x', NULL)",
        "a IN ('x', 1)",
        "a IN ('x', b)",
        "a IN ('x' || 'y')",
        "a IN ('x' COLLATE NOCASE)",
        "a COLLATE NOCASE IN ('x')",
        "a IN ('x') IS NOT NULL",
        "a IN ()",
        "a IN (x'78')",
        "a IN (1.0)",
        "a IN (0x10)",
        "a IN (9223372036854775808)",
        "lower(a) IN ('x')",
        "+a IN ('x')",
        "a || b IN ('x')",
        "'a' IN ('x')",
        "current_date IN ('x')",
        "a = 'x'",
        "a = 'x' OR a = 'y'",
        "a LIKE 'x'",
        "a IN ('x') > 0",
        "a IN ('x') = (1)",
        "CASE WHEN a IS NULL OR a IN ('x') THEN 1 END",
        "length('a IN (''x'')')",
    ],
)
def test_any_other_form_gives_none_known(check: str) -> None:
    """SQLite accepts the text, and nothing is guessed from it."""
    sql = f"CREATE TABLE t (a TEXT CHECK ({check}), b TEXT)"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)

    assert {} == check_values(sql)


@pytest.mark.parametrize("check", ["a IN (SELECT 'x')", "(a, b) IN (('x', 'y'))"])
def test_a_form_that_sqlite_refuses_gives_none_known(check: str) -> None:
    """An old file may hold the text nevertheless."""
    assert {} == check_values(f"CREATE TABLE t (a TEXT CHECK ({check}), b TEXT)")


def test_several_checks_leave_their_common_values_in_order() -> None:
    """An uncertain form next to them changes nothing."""
    sql = """CREATE TABLE t (
        a TEXT CHECK (a IN ('z', 'y', 'x')) CHECK (a <> 'q') CONSTRAINT c CHECK (a IN ('x', 'z')),
        b TEXT,
        CHECK (b IN ('1')) CHECK (A IN ('x', 'z', 'w'))
    )"""

    assert {"a": ["z", "x"], "b": ["1"]} == check_values(sql)


def test_checks_that_exclude_each_other_give_none_known() -> None:
    assert {} == check_values("CREATE TABLE t (a TEXT CHECK (a IN ('x')) CHECK (a IN ('y')))")


def test_text_that_looks_like_a_check_does_not_count() -> None:
    sql = """CREATE TABLE "CHECK (a IN ('t'))" ( -- CHECK (a IN ('u'))
        a TEXT DEFAULT 'x'' CHECK (a IN (''v''))', /* , CHECK (a IN ('w')) */
        [CHECK] TEXT DEFAULT (('CHECK (a IN (1))')),
        "b CHECK (a IN ('y'))" TEXT
    )"""

    assert {} == check_values(sql)


def test_a_column_keeps_its_declared_spelling() -> None:
    """SQLite compares names without case, but in ASCII alone."""
    sql = "CREATE TABLE t ('Status' TEXT, \"É\" TEXT, CHECK (sTATUS IN ('a')), CHECK (é IN ('b')))"

    assert {"Status": ["a"]} == check_values(sql)


def test_a_virtual_table_has_no_checks() -> None:
    assert {} == check_values("CREATE VIRTUAL TABLE t USING x(a, CHECK (a IN ('b')))")


def test_deep_parentheses_are_read() -> None:
    depth = 200

    assert {"a": ["x"]} == check_values(
        f"CREATE TABLE t (a TEXT CHECK ({'(' * depth}a IN ('x'){')' * depth}))"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", False),
        (" STRICT", True),
        ("WITHOUT ROWID, strict", True),
        (" -- STRICT\n", False),
        (" /* ) */ STRICT", True),
        (" WITHOUT ROWID", False),
    ],
)
def test_strict_is_read_behind_the_columns(options: str, *, expected: bool) -> None:
    assert expected == is_strict(f"CREATE TABLE strict ([STRICT] INT PRIMARY KEY){options}")


def test_names_fold_as_sqlite_folds_them() -> None:
    assert ("task_id", "École") == (fold("Task_ID"), fold("École"))
