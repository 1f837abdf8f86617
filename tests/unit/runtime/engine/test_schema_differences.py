"""Two schemas differ, and have different fingerprints, exactly if a column differs."""

import hashlib
import itertools
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlite_tables import Tables, tables_of

from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.engine import TABLES, differences, fingerprint, new_columns

SCHEMAS = Path(__file__).parents[4] / "fixtures" / "schemas"


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
def test_an_optional_new_column_may_be_left_out(declared: str, *, may_be_left_out: bool) -> None:
    before = "CREATE TABLE features (name TEXT)"
    after = tables_of(f"CREATE TABLE features (name TEXT, x {declared})")
    found = new_columns(tables_of(before), after)

    assert ["features.x"] * may_be_left_out == found
    assert [] == new_columns(tables_of(before), after, ["features.X"])
    assert [] == new_columns(after, after)
    assert [] == new_columns({}, after)


def test_hidden_columns_neither_count_nor_are_named() -> None:
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
    """A refused start can always report the reason, and JSON changes nothing."""
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


@pytest.mark.thorough
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
