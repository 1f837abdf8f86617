"""The project's own tables move with its tasks: whole, and merged, as foreign keys take it."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from cases import INIT_SCHEMA
from driving import ROWS, query, quiet
from engines import CONFIG, ENGINES, MARKER, VARIABLE, for_postgresql
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import examples
from postgresql import database, needs_postgresql, template_of

from ralphgen.emit.trust import accept_database
from ralphgen.errors import ProjectError
from ralphgen.exchange.merge import RowEdit
from ralphgen.exchange.move import export_file, export_text, import_rows
from ralphgen.ledger.tables import definition
from ralphgen.ledger.undo import undo_session
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow

OWN = """
CREATE TABLE risks (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, feature TEXT REFERENCES features ON DELETE CASCADE,
    weight REAL, photo BLOB, internal TEXT, above INTEGER REFERENCES risks,
    twice REAL GENERATED ALWAYS AS (weight * 2) STORED
);
CREATE TABLE labels (name TEXT PRIMARY KEY, color TEXT UNIQUE);
CREATE TABLE "risk labels" (
    risk INTEGER REFERENCES risks ON DELETE CASCADE,
    label TEXT REFERENCES labels ON UPDATE CASCADE ON DELETE SET NULL, number INTEGER,
    PRIMARY KEY (risk, number)
);
CREATE TABLE teams (name TEXT PRIMARY KEY, lead TEXT);
CREATE TABLE people (name TEXT PRIMARY KEY, team TEXT REFERENCES teams);
CREATE TABLE loose (note TEXT);
CREATE VIEW heavy AS SELECT id, title FROM risks WHERE weight > 5;
"""
CIRCLE = {
    "sqlite": OWN.replace("lead TEXT", "lead TEXT REFERENCES people"),
    "postgresql": f"{OWN} ALTER TABLE teams ADD FOREIGN KEY (lead) REFERENCES people;".replace(
        "REAL", "double precision"
    ).replace("BLOB", "bytea"),
}
TABLES = """
[tables.risks]
noun = "risk"
hide = ["internal"]
[tables.labels]
noun = "label"
[tables."risk labels"]
noun = "risk_label"
[tables.teams]
noun = "team"
[tables.people]
noun = "person"
[tables.loose]
[tables.heavy]
"""
FILLED = (
    "INSERT INTO risks (id, title, feature, weight, above) VALUES (1, 'fire', 'auth', 7.5, NULL)",
    "INSERT INTO risks (id, title, internal) VALUES (2, 'flood', 'secret')",
    "UPDATE risks SET above = 2 WHERE id = 1",
    "INSERT INTO labels VALUES ('red', '#f00'), ('blue', '#00f')",
    "INSERT INTO \"risk labels\" (risk, label, number) VALUES (1, 'red', 1), (1, 'blue', 2)",
    "INSERT INTO teams (name) VALUES ('core')",
    "INSERT INTO people VALUES ('ada', 'core')",
    "UPDATE teams SET lead = 'ada'",
    "INSERT INTO loose VALUES ('x')",
)


def take(root: Path, file: Path, **options: Any) -> tuple[RowEdit, ...]:
    given = {"is_database": False, "dry_run": False, "allow_removals": False, "say": quiet}
    return import_rows(root, file, **{**given, **options})


def lines(changes: tuple[RowEdit, ...]) -> list[str]:
    return [str(change) for change in changes]


Make = Callable[..., Path]


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes projects with such tables on an engine, filled or with the rows of a new one."""
    with pytest.MonkeyPatch.context() as patched:
        yield from _maker(request.param, tmp_path, patched)


def _maker(engine: str, folder: Path, patched: pytest.MonkeyPatch) -> Iterator[Make]:
    with ExitStack() as stack:

        def made(name: str, *statements: str) -> Path:
            root = folder / name
            (root / ".ralph/db").mkdir(parents=True)
            schema = INIT_SCHEMA.read_text(encoding="utf-8")
            base = f"{schema}{ROWS}{definition()}{MARKER}"
            if engine == "postgresql":
                variable = f"{VARIABLE}_{name.upper()}"
                text = f"{for_postgresql(base)}{CIRCLE[engine]}"
                patched.setenv(variable, stack.enter_context(database(template_of(text))))
                config = CONFIG.replace(VARIABLE, variable)
            else:
                with closing(sqlite3.connect(root / DATABASE)) as connection:
                    connection.executescript(f"{base}{CIRCLE[engine]}")
                config = ""
            (root / ".ralph/ralphgen.toml").write_text(f"{config}{TABLES}", encoding="utf-8")
            accept_database(root, lambda _shown: True)
            for statement in statements:
                query(root, statement)
            return root

        yield made


@pytest.fixture
def pair(make: Make, tmp_path: Path) -> tuple[Path, Path]:
    """Two projects that have everything in common."""
    ours, theirs = (make(name, *FILLED) for name in ("ours", "theirs"))
    export_file(ours, tmp_path / "rows.jsonl")
    export_file(theirs, tmp_path / "rows.jsonl")
    return ours, theirs


def exported(root: Path) -> Path:
    file = root.with_suffix(".jsonl")
    export_file(root, file)
    return file


def test_an_export_has_the_visible_rows_and_reports_the_hidden_columns(make: Make) -> None:
    root = make("ours", *FILLED)
    query(root, "UPDATE risks SET photo = ? WHERE id = 1", b"\0\xff")
    said: list[str] = []
    found = [json.loads(line) for line in export_text(root, said.append).splitlines()]
    risks = [one["row"] for one in found if one["table"] == "risks"]

    assert {
        "above": 2,
        "feature": "auth",
        "id": 1,
        "photo": {"blob": "00ff"},
        "title": "fire",
        "weight": 7.5,
    } == risks[0]
    assert {"label": "red", "number": 1, "risk": 1} in [one["row"] for one in found]
    assert not {"loose", "heavy"} & {one["table"] for one in found}
    assert ['left out: "loose" has no primary key to identify its rows'] == said


@pytest.mark.thorough
def test_a_new_project_takes_them_with_circles_and_gives_the_same_bytes(
    make: Make, tmp_path: Path
) -> None:
    ours, theirs = make("ours", *FILLED), make("theirs")
    query(ours, "INSERT INTO risks (id, title, above) VALUES (0, 'child of a later one', 1)")
    text = export_text(ours)
    file = tmp_path / "rows.jsonl"
    export_file(ours, file)
    done = take(theirs, file)

    assert text == export_text(theirs)
    assert {"add"} == {change.kind for change in done}
    assert () == take(theirs, file)
    assert [(7.5, 15.0)] == query(theirs, "SELECT weight, twice FROM risks WHERE id = 1")


@pytest.mark.thorough
def test_a_circle_whose_rows_need_others_keeps_each_name(make: Make, tmp_path: Path) -> None:
    ours, theirs = make("ours"), make("theirs")
    tables = (
        "CREATE TABLE lids (id INTEGER PRIMARY KEY, box INTEGER)",
        "CREATE TABLE boxes (id INTEGER PRIMARY KEY, lid INTEGER NOT NULL REFERENCES lids)",
        "ALTER TABLE boxes ADD COLUMN above INTEGER REFERENCES boxes",
        "ALTER TABLE lids ADD COLUMN held INTEGER REFERENCES boxes",
    )
    for root in (ours, theirs):
        for statement in tables:
            query(root, statement)
        with (root / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as settings:
            settings.write("[tables.boxes]\n[tables.lids]\n")
    for row in (
        "INSERT INTO lids (id) VALUES (1)",
        "INSERT INTO boxes VALUES (2, 1, NULL)",
        "INSERT INTO boxes VALUES (1, 1, 2)",
        "UPDATE lids SET held = 1",
    ):
        query(ours, row)
    text = export_text(ours)
    export_file(ours, tmp_path / "rows.jsonl")
    take(theirs, tmp_path / "rows.jsonl")

    assert text == export_text(theirs)


@pytest.mark.thorough
def test_changes_of_both_sides_are_merged_and_undone(pair: tuple[Path, Path]) -> None:
    ours, theirs = pair
    query(ours, "UPDATE risks SET weight = 9 WHERE id = 1")
    query(theirs, "UPDATE risks SET title = 'blaze', photo = ? WHERE id = 1", b"\x01")
    query(theirs, "INSERT INTO \"risk labels\" (risk, label, number) VALUES (2, 'red', 1)")
    before, said = export_text(ours), list[str]()
    done = take(ours, exported(theirs), say=said.append)
    (session,) = [line.split()[-1] for line in said if "undo: " in line]
    merged = query(ours, "SELECT title, weight FROM risks WHERE id = 1")
    undone = undo_session(ours, session)

    assert [
        'add the row "2, 1" of risk labels',
        'change the row "1" of risks: photo, title',
    ] == lines(done)
    assert [("blaze", 9)] == merged
    assert not undone.has_remainder
    assert before == export_text(ours)


@pytest.mark.thorough
def test_a_renamed_text_key_includes_references_and_unique_columns(
    pair: tuple[Path, Path],
) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE labels SET name = 'crimson' WHERE name = 'red'")
    query(theirs, "UPDATE \"risk labels\" SET label = 'crimson' WHERE label = 'red'")
    file = exported(theirs)
    with pytest.raises(ProjectError, match=r'deleted there .*the row "red" of labels'):
        take(ours, file)
    text = export_text(theirs)
    take(ours, file, allow_removals=True)

    assert text == export_text(ours)


@pytest.mark.thorough
def test_a_removal_takes_nothing_along_that_is_ours(pair: tuple[Path, Path]) -> None:
    ours, theirs = pair
    query(theirs, "DELETE FROM \"risk labels\" WHERE label = 'blue'")
    query(theirs, "DELETE FROM labels WHERE name = 'blue'")
    query(ours, "INSERT INTO \"risk labels\" (risk, label, number) VALUES (2, 'blue', 1)")
    before = export_text(ours)
    with pytest.raises(
        ProjectError, match='"label" of the row "2, 1" of risk labels would be changed'
    ):
        take(ours, exported(theirs), allow_removals=True)

    assert before == export_text(ours)


@pytest.mark.thorough
def test_a_row_that_goes_with_a_feature_is_named(pair: tuple[Path, Path]) -> None:
    ours, theirs = pair
    query(theirs, "DELETE FROM features WHERE name = 'search'")
    query(ours, "INSERT INTO risks (id, title, feature) VALUES (7, 'ours', 'search')")
    before = export_text(ours)
    with pytest.raises(ProjectError, match='the row "7" of risks would be deleted'):
        take(ours, exported(theirs), allow_removals=True)

    assert before == export_text(ours)


@pytest.mark.thorough
def test_a_row_that_names_nothing_is_named_in_a_dry_run_too(make: Make, tmp_path: Path) -> None:
    root, file = make("ours"), tmp_path / "rows.jsonl"
    row = {"id": 5, "title": "x", "feature": "gone"}
    file.write_text(json.dumps({"table": "risks", "row": row}) + "\n", encoding="utf-8")
    said: list[str] = []
    why = 'the row "5" of risks names the feature "gone", which does not exist'
    for dry_run in (True, False):
        assert () == take(root, file, dry_run=dry_run, say=said.append)
        with pytest.raises(ProjectError, match=why):
            take(root, file, dry_run=dry_run, strict=True)

    assert [f"left out {file}: {why}", "warning: left out 1 unreadable record"] * 2 == said
    assert [] == query(root, "SELECT id FROM risks")


@pytest.mark.parametrize("make", [ENGINES[1]], indirect=True)
def test_rows_without_a_parent_are_imported_if_no_foreign_key_forbids_it(make: Make) -> None:
    roots = [make(name) for name in ("ours", "theirs")]
    for root in roots:
        for table, key in (("tasks", "feature"), ("tasks", "discipline"), ("risks", "feature")):
            query(root, f"ALTER TABLE {table} DROP CONSTRAINT {table}_{key}_fkey")
    query(roots[0], "UPDATE tasks SET feature = 'gone', discipline = 'gone' WHERE id = 1")
    query(roots[0], "INSERT INTO risks (id, title, feature) VALUES (1, 'x', 'gone')")
    said: list[str] = []
    file = exported(roots[0])
    query(roots[1], "DELETE FROM tasks WHERE id = 1")
    take(roots[1], file, say=said.append, strict=True)

    assert export_text(roots[0]) == export_text(roots[1])
    assert 'warning: task 1 names the feature "gone", which does not exist' in said
    assert 'warning: task 1 names the discipline "gone", which does not exist' in said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"table": "risks", "row": {"title": "x"}}, '"id" is missing'),
        ({"table": "risk labels", "row": {"risk": 1}}, '"risk", "number" is missing'),
        ({"table": "risks", "row": {"id": 4, "internal": "x"}}, 'no column "risks.internal"'),
        ({"table": "risks", "row": {"id": 4, "twice": 1}}, 'no column "risks.twice"'),
        ({"table": "heavy", "row": {"id": 4}}, 'rows of "heavy" cannot be imported'),
        ({"table": "loose", "row": {"note": "x"}}, 'rows of "loose" cannot be imported'),
        ({"table": "others", "row": {"id": 4}}, "add your own tables to .ralph/ralphgen.toml"),
        ({"table": "risks", "row": {"id": 4}}, 'the row "4" of risks: rejected by the database'),
    ],
)
def test_a_broken_line_changes_nothing_with_strict(
    make: Make, tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    root, file = make("ours"), tmp_path / "rows.jsonl"
    good = {"table": "labels", "row": {"name": "red", "color": None}}
    file.write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        take(root, file, strict=True)

    assert said.split(" to .ralph", maxsplit=1)[0] in str(caught.value)
    assert [] == query(root, "SELECT name FROM labels")


def test_a_hidden_column_that_must_be_given_keeps_rows_out(make: Make, tmp_path: Path) -> None:
    ours, theirs = make("ours", *FILLED), make("theirs")
    for root in (ours, theirs):
        settings = root / ".ralph/ralphgen.toml"
        text = settings.read_text(encoding="utf-8").replace('"internal"', '"internal", "title"')
        settings.write_text(text, encoding="utf-8")
    said: list[str] = []
    export_file(ours, tmp_path / "rows.jsonl", said.append)
    with pytest.raises(ProjectError, match='rows of "risks" cannot be added'):
        take(theirs, tmp_path / "rows.jsonl")

    assert any('"title" is required but hidden' in line for line in said)
    assert "fire" not in export_text(ours)


@pytest.mark.thorough
def test_a_side_without_the_table_removes_nothing(pair: tuple[Path, Path]) -> None:
    ours, theirs = pair
    settings = theirs / ".ralph/ralphgen.toml"
    text = settings.read_text(encoding="utf-8").partition("[tables.risks]")[0]
    settings.write_text(text, encoding="utf-8")
    query(theirs, "UPDATE tasks SET title = 'x' WHERE id = 1")
    said: list[str] = []

    assert ["change task 1: title"] == lines(take(ours, exported(theirs), say=said.append))
    assert any('has no rows of "risks"; the rows here are kept' in line for line in said)
    settings.write_text(f"{text}{TABLES}", encoding="utf-8")
    assert () == take(ours, exported(theirs))


def test_a_table_that_replaces_rows_by_itself_loses_none(tmp_path: Path) -> None:
    root = tmp_path / "p"
    (root / ".ralph/db").mkdir(parents=True)
    sql = "CREATE TABLE codes (id INTEGER PRIMARY KEY, code TEXT UNIQUE ON CONFLICT REPLACE)"
    for statement in (sql, "INSERT INTO codes VALUES (1, 'a')"):
        query(root, statement)
    config = 'kits = ["tables"]\n[tables.codes]\nnoun = "code"\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    file = tmp_path / "rows.jsonl"
    file.write_text('{"table": "codes", "row": {"code": "a", "id": 2}}\n', encoding="utf-8")
    with pytest.raises(ProjectError, match='the row "1" of codes would be deleted'):
        take(root, file)

    assert [(1, "a")] == query(root, "SELECT id, code FROM codes")


@pytest.mark.parametrize("key", [-(2**63), 2**53, 2**63 - 1])
def test_a_key_of_64_bits_is_taken_again(tmp_path: Path, key: int) -> None:
    (tmp_path / "p/.ralph/db").mkdir(parents=True)
    query(tmp_path / "p", "CREATE TABLE codes (id INTEGER PRIMARY KEY)")
    query(tmp_path / "p", "INSERT INTO codes VALUES (?)", key)
    config = 'kits = ["tables"]\n[tables.codes]\nnoun = "code"\n'
    (tmp_path / "p/.ralph/ralphgen.toml").write_text(config, encoding="utf-8")

    assert () == take(tmp_path / "p", exported(tmp_path / "p"))


SKIP = """CREATE TRIGGER skip BEFORE INSERT ON codes WHEN NEW.id = 2
    BEGIN SELECT RAISE(IGNORE); END"""


@pytest.mark.parametrize(
    "says", ["CREATE INDEX by_code ON codes (code)", SKIP], ids=["UNIQUE", "trigger"]
)
def test_a_rejected_row_is_named_and_nothing_remains(tmp_path: Path, says: str) -> None:
    root = tmp_path / "p"
    (root / ".ralph/db").mkdir(parents=True)
    sql = "CREATE TABLE codes (id INTEGER PRIMARY KEY, code TEXT UNIQUE ON CONFLICT IGNORE)"
    for statement in (sql, says, "INSERT INTO codes VALUES (1, 'a')"):
        query(root, statement)
    config = 'kits = ["tables"]\n[tables.codes]\nnoun = "code"\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    file = tmp_path / "rows.jsonl"
    code = "b" if says == SKIP else "a"
    rows = (
        f'{{"table": "codes", "row": {{"code": "{one}", "id": {number}}}}}\n'
        for one, number in ((code, 2), ("c", 3))
    )
    file.write_text("".join(rows), encoding="utf-8")
    with pytest.raises(ProjectError, match=r'the row "2" of codes: .* clause discarded it'):
        take(root, file)

    assert [(1, "a")] == query(root, "SELECT id, code FROM codes")


VALUES = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=4)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.integers(-9, 9)


@pytest.mark.thorough
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.dictionaries(
        st.tuples(KEYS, st.binary(max_size=2) | st.floats(allow_nan=False)),
        st.tuples(VALUES, VALUES),
        max_size=6,
    ),
    named=st.lists(st.tuples(KEYS, st.integers(0, 5)), max_size=5),
)
def test_any_table_is_imported_into_an_empty_clone_with_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[Any, Any], named: list[tuple[Any, int]]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    model = folder / "b"
    (model / ".ralph/db").mkdir(parents=True)
    for sql in (
        'CREATE TABLE "TABLE *" (k, "l;?" , a ANY, b, PRIMARY KEY (k, "l;?")) WITHOUT ROWID',
        "CREATE TABLE chain (id PRIMARY KEY, above REFERENCES chain)",
    ):
        query(model, sql)
    config = 'kits = ["tables"]\n[tables."TABLE *"]\nnoun = "t"\n[tables.chain]\nnoun = "link"\n'
    (model / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    shutil.copytree(model, folder / "a")
    for (one, two), values in rows.items():
        query(
            folder / "a", 'INSERT OR IGNORE INTO "TABLE *" VALUES (?, ?, ?, ?)', one, two, *values
        )
    for number, (one, at) in enumerate(named):
        above = named[at][0] if at <= number else None
        query(folder / "a", "INSERT OR IGNORE INTO chain VALUES (?, NULL)", one)
        query(folder / "a", "UPDATE chain SET above = ? WHERE id = ?", above, one)
    text = export_text(folder / "a")
    file = exported(folder / "a")
    take(model, file)

    assert text == export_text(model)
    assert () == take(model, file)


ODD = """
CREATE TYPE mood AS ENUM ('calm', 'wild');
CREATE DOMAIN raw AS bytea;
CREATE TABLE odd (
    id uuid, day date, mood mood, moods mood[], tags text[], numbers integer[], raw raw, plain json,
    facts jsonb, boxes jsonb[], spent interval, span int4range, at timestamptz, ip inet,
    n numeric, yes boolean, money numeric(30, 20), f double precision, PRIMARY KEY (id, day)
);
CREATE TABLE spans (span int4range PRIMARY KEY, yes boolean);
"""
ODD_ROWS = (
    """INSERT INTO odd VALUES ('00000000-0000-0000-0000-000000000001', '2026-02-10', 'calm',
    '{calm,wild}', '{a,"b,c",""}', '{1,2}', '\\x00ff', '{"a":1.5,"b":1}',
    '{"a": [1, null, 0.12345678901234567890]}',
    ARRAY['{"a": 1.50}'::jsonb, '[1, "x"]', '"y"', NULL],
    '1 day 02:00:00', '[1,5)', '2026-02-10 17:56:00.123456+02', '10.0.0.1/8', 'NaN', true,
    1234567890.12345678901234567890, 'Infinity')""",
    """INSERT INTO odd (id, day, moods, tags, n, yes, f) VALUES (
    '00000000-0000-0000-0000-000000000002', '2026-02-11', '{calm,NULL}',
    ARRAY['a"\\b', NULL, '{x}', ''], 123456789012345678901234,
    false, 0.1)""",
    "INSERT INTO spans VALUES ('[1,5)', true)",
)


@needs_postgresql
def test_values_of_all_types_of_postgresql_come_to_the_last_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "[tables.odd]\n[tables.spans]\n"
    with database(template_of(ODD)) as ours, database(template_of(ODD)) as theirs:
        for name, dsn in (("OURS", ours), ("THEIRS", theirs)):
            monkeypatch.setenv(name, dsn)
            (tmp_path / name / ".ralph").mkdir(parents=True)
            text = f'kits = ["tables"]\n{CONFIG.replace(VARIABLE, name)}{settings}'
            (tmp_path / name / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
            accept_database(tmp_path / name, lambda _shown: True)
        for statement in ODD_ROWS:
            query(tmp_path / "OURS", statement)
        file = exported(tmp_path / "OURS")
        take(tmp_path / "THEIRS", file)
        whole = "SELECT odd::text FROM odd ORDER BY day"

        assert query(tmp_path / "OURS", whole) == query(tmp_path / "THEIRS", whole)
        assert export_text(tmp_path / "OURS") == export_text(tmp_path / "THEIRS")
        assert () == take(tmp_path / "THEIRS", file)
        query(tmp_path / "OURS", "UPDATE odd SET n = 1, yes = NOT yes, tags = NULL, at = NULL")
        query(tmp_path / "OURS", "UPDATE spans SET yes = false")
        assert 3 == len(take(tmp_path / "THEIRS", exported(tmp_path / "OURS")))
        assert query(tmp_path / "OURS", whole) == query(tmp_path / "THEIRS", whole)
