"""The schema is read as SQLite understands it, and two schemas differ where a column does."""

import hashlib
import itertools
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.runtime.database.schema import TABLES, differences, fingerprint, new_columns
from ralphgen.runtime.sqlite.schema import read_tables
from ralphgen.runtime.values.encoding import sha256_hex

SCHEMAS = Path(__file__).parents[4] / "fixtures" / "schemas"
Tables = dict[str, list[dict[str, Any]]]


def tables_of(sql: str) -> Tables:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(sql)
        return read_tables(connection)


def tasks(sql: str) -> dict[str, dict[str, Any]]:
    """The columns of the one table `tasks`, by name."""
    return {column["name"]: column for column in tables_of(sql)["tasks"]}


def test_a_column_carries_what_sqlite_knows_of_it() -> None:
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


def test_only_the_known_tables_are_read_sorted_and_whatever_their_case() -> None:
    """A view is no table, and a table of another name is none of ours."""
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
def test_a_strict_type_stays_what_it_is(declared: str) -> None:
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
def test_a_primary_key_is_not_null_where_sqlite_says_so(
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
    """What is listed is what SQLite takes for that column."""
    sql = f"CREATE TABLE tasks ({column})"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        for value in expected or ():
            connection.execute("INSERT INTO tasks VALUES (?)", (value,))

    assert expected == tasks(sql)["a"]["values"]


def test_a_default_of_null_is_no_default() -> None:
    """So that NOT NULL DEFAULT NULL counts as required."""
    columns = tasks("CREATE TABLE tasks (a TEXT DEFAULT NULL, b TEXT DEFAULT (1 + 1))")

    assert (None, "1 + 1") == (columns["a"]["default"], columns["b"]["default"])


def test_a_row_factory_of_the_caller_does_not_matter() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = lambda _cursor, _row: {}
        connection.execute("CREATE TABLE tasks (id INTEGER)")

        assert ["tasks"] == list(read_tables(connection))


def test_reading_takes_two_queries_whatever_the_number_of_columns() -> None:
    """A query a column would cost a server its quick start."""
    seen: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript((SCHEMAS / "a8.sql").read_text(encoding="utf-8"))
        connection.set_trace_callback(seen.append)
        read_tables(connection)

    assert 2 == len([sql for sql in seen if not sql.startswith("--")])


def test_the_digest_is_sha256() -> None:
    assert hashlib.sha256(b"ralph\0").hexdigest() == sha256_hex(b"ralph\0")


BASE = """
    CREATE TABLE features (name TEXT PRIMARY KEY);
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY,
        feature TEXT NOT NULL REFERENCES features (name),
        status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'done')),
        note TEXT
    );
"""


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("status IN ('open', 'done')", "(status) in ('done' /* ! */, 'open')"),
        BASE.replace("features (name)", '"FEATURES"'),
        BASE.replace("CREATE TABLE tasks", "create table [Tasks]"),
        BASE.replace("note TEXT", "note varchar(9) DEFAULT NULL"),
        BASE.replace(",\n        note TEXT", "") + "ALTER TABLE tasks ADD COLUMN note TEXT;",
        BASE + "CREATE INDEX i ON tasks (status); CREATE TABLE others (id INTEGER);",
        BASE + "CREATE TRIGGER t AFTER INSERT ON tasks BEGIN SELECT 1; END;",
        BASE.replace(",\n        note TEXT", "").replace("id INTEGER", "note TEXT, id INTEGER"),
    ],
)
def test_spelling_order_and_other_objects_change_no_fingerprint(other: str) -> None:
    assert fingerprint(tables_of(BASE)) == fingerprint(tables_of(other))
    assert [] == differences(tables_of(BASE), tables_of(other))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("note TEXT", "note TEXT, risk TEXT", ['column "tasks.risk" is new']),
        (",\n        note TEXT", "", ['column "tasks.note" is gone']),
        ("note TEXT", "Note TEXT", ['column "tasks.Note" is new', 'column "tasks.note" is gone']),
        ("note TEXT", "note REAL", ['column "tasks.note" changed: type']),
        ("note TEXT", "note TEXT NOT NULL", ['column "tasks.note" changed: NOT NULL']),
        ("note TEXT", "note TEXT DEFAULT 'x'", ['column "tasks.note" changed: default']),
        ("note TEXT", "note TEXT AS ('x')", ['column "tasks.note" changed: generated']),
        ("'done')", "'done', 'late')", ['column "tasks.status" changed: CHECK values']),
        (
            "TEXT NOT NULL REFERENCES features (name)",
            "INTEGER",
            ['column "tasks.feature" changed: type, NOT NULL, foreign key'],
        ),
        ("id INTEGER PRIMARY KEY", "id INTEGER", ['column "tasks.id" changed: primary key']),
        ("TABLE features", "TABLE subsystems", ['table "features" is gone']),
        (
            "CREATE TABLE tasks",
            "CREATE TABLE metadata (id INTEGER); CREATE TABLE tasks",
            ['table "metadata" is new'],
        ),
    ],
)
def test_each_difference_is_one_sentence_and_another_fingerprint(
    old: str, new: str, expected: list[str]
) -> None:
    before, after = tables_of(BASE), tables_of(BASE.replace(old, new))

    assert expected == differences(before, after)
    assert fingerprint(before) != fingerprint(after)


@pytest.mark.parametrize(
    ("declared", "may_be_left_out"),
    [
        ("TEXT", True),
        ("TEXT NOT NULL DEFAULT ''", True),
        ("TEXT NOT NULL AS ('x')", True),
        ("TEXT REFERENCES features (name)", True),
        ("TEXT NOT NULL", False),
        ("TEXT NOT NULL DEFAULT NULL", False),
        ("INTEGER PRIMARY KEY", False),
        ("TEXT DEFAULT 'x' PRIMARY KEY", False),
    ],
)
def test_a_new_column_may_be_left_out_where_a_row_can_go_without(
    declared: str, *, may_be_left_out: bool
) -> None:
    before = "CREATE TABLE features (name TEXT)"
    after = tables_of(f"CREATE TABLE features (name TEXT, x {declared})")
    found = new_columns(tables_of(before), after)

    assert ["features.x"] * may_be_left_out == found
    assert [] == new_columns(tables_of(before), after, ["features.X"])
    assert [] == new_columns(after, after)
    assert [] == new_columns({}, after)


def test_what_is_hidden_neither_counts_nor_is_named() -> None:
    before = tables_of(BASE)
    after = tables_of(BASE.replace("note TEXT", "note REAL NOT NULL"))
    hide = ("Tasks.NOTE",)

    assert fingerprint(before, hide) == fingerprint(after, hide)
    assert [] == differences(before, after, hide)
    assert fingerprint(before) != fingerprint(before, hide)


COLUMNS = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "type": st.sampled_from(["TEXT", "INTEGER"]),
        "not_null": st.booleans(),
        "default": st.sampled_from([None, "''"]),
        "primary_key": st.sampled_from([0, 1]),
        "references": st.sampled_from([None, "features(name)"]),
        "values": st.sampled_from([None, ["x"], ["x", "y"], ["y", "x"]]),
        "generated": st.booleans(),
    }
)
SOME_TABLES = st.dictionaries(
    st.sampled_from(TABLES[:2]),
    st.lists(COLUMNS, min_size=1, max_size=3, unique_by=lambda column: str(column["name"])),
)
HIDDEN = st.lists(st.sampled_from([f"{t}.{c}" for t, c in itertools.product(TABLES[:2], "abc")]))


@given(SOME_TABLES, SOME_TABLES, HIDDEN)
def test_schemas_differ_exactly_where_fingerprints_do(
    before: Tables, after: Tables, hide: list[str]
) -> None:
    """A start that is refused can always say why, and JSON changes nothing."""
    equal = fingerprint(before, hide) == fingerprint(after, hide)
    stored = json.loads(json.dumps(before))

    assert equal == (differences(stored, after, hide) == [])
    assert fingerprint(before, hide) == fingerprint(stored, hide)


@given(SOME_TABLES, st.randoms())
def test_no_order_changes_a_fingerprint(tables: Tables, random: Random) -> None:
    shuffled = [(name, random.sample(columns, len(columns))) for name, columns in tables.items()]
    random.shuffle(shuffled)

    assert fingerprint(tables) == fingerprint(dict(shuffled))


ERAS = sorted(SCHEMAS.glob("*.sql"))


@pytest.mark.slow
@pytest.mark.parametrize("path", ERAS, ids=lambda path: path.stem)
def test_every_era_is_read_and_equals_itself_alone(path: Path) -> None:
    """No two eras have one fingerprint but A7 and A8, which differ in spelling alone."""
    own = fingerprint(tables_of(path.read_text(encoding="utf-8")))
    same = [
        other.stem
        for other in ERAS
        if fingerprint(tables_of(other.read_text(encoding="utf-8"))) == own
    ]

    assert (["a7", "a8"] if path.stem in {"a7", "a8"} else [path.stem]) == same
