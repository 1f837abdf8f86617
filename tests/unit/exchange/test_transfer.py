"""A project moves from its file of SQLite into PostgreSQL: all of its rows, or none."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cases import INIT_SCHEMA
from driving import ROWS, create_database, query
from engines import CONFIG, MARKER, VARIABLE
from postgresql import database

from ralphgen.emit.scaffold import create_tables, load_stack
from ralphgen.errors import ProjectError
from ralphgen.exchange.move import export_text
from ralphgen.exchange.transfer import LEDGER, move_project
from ralphgen.ledger.tables import definition
from ralphgen.ledger.undo import undo_session
from ralphgen.project.root import DATABASE, DatabasePlace

pytestmark = pytest.mark.slow

PLACE = DatabasePlace(VARIABLE)
SECRETS = '[{"name":"tickets","command":"npx","env":{"TOKEN":"s3cret"}}]'
TEXT = "“Ünïcödé”\t\\N\\.\n'$1' ? %s 🜚 \u2028 \r\n\x01\x7f"
RECORD = (
    "INSERT INTO ralphgen_sessions (id, recipe, started, cost_usd) VALUES ('s', 'r', 't', 0.1)",
    "INSERT INTO ralphgen_claims (task_id, session, token) VALUES (1, 's', 7)",
    "INSERT INTO ralphgen_journal (time, session, table_name, row_key) VALUES ('t', 's', 'x', '1')",
)


class Moving:
    """A project on SQLite, the same settings on PostgreSQL, and the messages."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.dsn = dsn
        self.source = folder / "sqlite"
        own = (definition(), MARKER)
        create_database(self.source, INIT_SCHEMA.read_text(encoding="utf-8"), ROWS, *own)
        self.root = folder / "postgresql"
        (self.root / ".ralph").mkdir(parents=True)
        (self.root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
        self.said: list[str] = []

    @property
    def file(self) -> Path:
        return self.source / DATABASE

    def move(self, *, dry_run: bool = False) -> dict[str, int]:
        self.said.clear()
        return dict(move_project(self.root, self.file, dry_run=dry_run, say=self.said.append))

    def refused(self) -> str:
        before = self.everything()
        with pytest.raises(ProjectError) as error:
            self.move()
        assert before == self.everything()
        return str(error.value)

    def there(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def everything(self) -> list[Any]:
        tables = self.there("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return sorted(
            (table, self.there(f'SELECT t::text FROM "{table}" AS t ORDER BY 1'))
            for (table,) in tables
        )


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moving]:
    """Nothing is in PostgreSQL yet."""
    with database() as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        yield Moving(tmp_path, dsn)


def test_all_rows_are_moved_with_secrets_and_ledger(moving: Moving) -> None:
    query(moving.source, "UPDATE tasks SET description = ?, depends_on = '[2]' WHERE id = 1", TEXT)
    query(moving.source, "UPDATE disciplines SET mcp_servers = ?", SECRETS)
    for statement in RECORD:
        query(moving.source, statement)
    moved = moving.move()

    assert export_text(moving.source) == export_text(moving.root)
    assert [(SECRETS,)] * 2 == moving.there("SELECT mcp_servers FROM disciplines")
    assert [("s", 7)] == moving.there("SELECT session, token FROM ralphgen_claims")
    assert [("s", 0.1)] == moving.there("SELECT id, cost_usd FROM ralphgen_sessions")
    assert {"tasks": 2, "ralphgen_journal": 1} == {
        table: moved[table] for table in ("tasks", "ralphgen_journal")
    }
    assert ["creates the tables of a new project"] == moving.said


def test_a_second_time_moves_nothing(moving: Moving) -> None:
    for statement in RECORD:
        query(moving.source, statement)
    moving.move()
    before = moving.everything()

    assert 0 == sum(moving.move().values())
    assert before == moving.everything()


def test_numbers_continue_after_the_highest(moving: Moving) -> None:
    query(moving.source, "UPDATE tasks SET id = 900 WHERE id = 2")
    moving.move()
    added = moving.there(
        "INSERT INTO tasks (feature, discipline, title) "
        "SELECT feature, discipline, 'x' FROM tasks LIMIT 1 RETURNING id"
    )

    assert [(901,)] == added


def test_what_init_has_put_there_gives_way_and_what_people_did_does_not(moving: Moving) -> None:
    assert create_tables(PLACE, "New", load_stack("generic"))
    moving.there("UPDATE disciplines SET system_prompt = 'mine' WHERE name = 'quality'")
    moving.move()
    theirs = {name for (name,) in query(moving.source, "SELECT name FROM disciplines")}

    assert {*theirs, "quality"} >= {n for (n,) in moving.there("SELECT name FROM disciplines")}
    assert query(moving.source, "SELECT project_title FROM metadata") == moving.there(
        "SELECT project_title FROM metadata"
    )


def test_a_row_of_the_same_number_that_differs_refuses_all(moving: Moving) -> None:
    moving.move()
    query(moving.source, "UPDATE tasks SET title = 'other' WHERE id = 2")
    query(
        moving.source,
        "INSERT INTO tasks (feature, discipline, title) "
        "SELECT feature, discipline, 'new' FROM tasks LIMIT 1",
    )
    moving.there("UPDATE tasks SET title = 'mine' WHERE id = 1")
    text = moving.refused()

    assert "task 1 is a different row in PostgreSQL" in text
    assert "task 2 is a different row in PostgreSQL" in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE tasks SET title = 'a' || char(0) || 'b' WHERE id = 2", '"title": a string'),
        ("UPDATE tasks SET depends_on = '{' WHERE id = 1", 'task 1: "depends_on": invalid JSON'),
        ("UPDATE tasks SET depends_on = '[\"\\u0000\"]'", '"depends_on": a string'),
        ("INSERT INTO tasks (feature, discipline, title) VALUES ('gone', 'backend', 'x')",
         "PostgreSQL rejected rows of tasks"),
    ],
)  # fmt: skip
def test_what_postgresql_does_not_hold_is_named_and_nothing_is_changed(
    moving: Moving, change: str, said: str
) -> None:
    with closing(sqlite3.connect(moving.file)) as connection:
        connection.execute(change)
        connection.commit()

    assert said in moving.refused()


def test_lists_as_older_programs_wrote_them_become_json(moving: Moving) -> None:
    query(moving.source, "UPDATE tasks SET depends_on = '2;' WHERE id = 1")
    query(moving.source, "UPDATE tasks SET depends_on = '' WHERE id = 2")
    moving.move()

    assert [([2],), ([],)] == moving.there("SELECT depends_on FROM tasks ORDER BY id")


def test_tables_of_the_app_have_other_types_and_refuse_invalid_values(moving: Moving) -> None:
    create_tables(PLACE, "New", load_stack("empty"))
    moving.there(
        "ALTER TABLE tasks ALTER created TYPE date USING created::date, "
        "ALTER tags DROP DEFAULT, ALTER tags TYPE text[] USING NULL, "
        "ADD urgent boolean, ADD rank numeric(30), ADD raw bytea"
    )
    for column in ("urgent INTEGER", "rank TEXT", "raw BLOB"):
        query(moving.source, f"ALTER TABLE tasks ADD COLUMN {column}")
    query(
        moving.source,
        "UPDATE tasks SET created = '2026-02-10', tags = '[\"a,\\\"b\"]', urgent = 1, rank = ?, "
        "raw = x'0001ff'",
        str(10**25),
    )
    moving.move()
    found = moving.there("SELECT created::text, tags, urgent, rank, raw FROM tasks WHERE id = 1")
    query(moving.source, "UPDATE tasks SET created = '2026-02-31', urgent = 2 WHERE id = 1")
    moving.there("DELETE FROM tasks")

    assert [("2026-02-10", ['a,"b'], True, 10**25, b"\0\x01\xff")] == found
    assert 'task 1, "created": rejected by PostgreSQL' in moving.refused()


def test_a_column_without_a_place_is_named_with_the_statement_that_adds_it(moving: Moving) -> None:
    moving.move()
    query(moving.source, "ALTER TABLE tasks ADD COLUMN note TEXT")
    moving.move()
    query(moving.source, "UPDATE tasks SET note = 'x' WHERE id = 1")
    text = moving.refused()

    assert 'PostgreSQL has no column "tasks.note"' in text
    assert 'ALTER TABLE "tasks" ADD COLUMN "note" text;' in text


def test_tables_that_are_made_have_the_files_own_columns(moving: Moving) -> None:
    query(moving.source, "ALTER TABLE tasks ADD COLUMN note TEXT")
    query(moving.source, "CREATE TABLE invoices (id INTEGER)")
    query(moving.source, "UPDATE tasks SET note = 'x' WHERE id = 1")
    moving.move()

    assert [("x",)] == moving.there("SELECT note FROM tasks WHERE id = 1")
    assert "left out: tables that are not ralphgen's: invoices" in moving.said


def test_a_dry_run_leaves_nothing(moving: Moving) -> None:
    before = moving.everything()
    moved = moving.move(dry_run=True)

    assert 2 == moved["tasks"]
    assert before == moving.everything() == []


def test_an_existing_ledger_prevents_the_move_of_another(moving: Moving) -> None:
    create_tables(PLACE, "New", load_stack("empty"))
    moving.there(RECORD[0].replace("'s'", "'mine'"))
    for statement in RECORD:
        query(moving.source, statement)
    moved = moving.move()

    assert not {*LEDGER} & {*moved}
    assert ["left out: the ledger; PostgreSQL already has ledger entries"] == moving.said
    assert 2 == moved["tasks"]


OWN = """
CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT, feature TEXT REFERENCES features, due DATE,
    open BOOLEAN, facts JSON, photo BLOB, price DECIMAL, internal TEXT, above INTEGER);
CREATE TABLE "a b" (k TEXT, "n?" INTEGER, risk INTEGER REFERENCES risks, PRIMARY KEY (k, "n?"));
CREATE TABLE loose (note TEXT);
INSERT INTO risks VALUES (8, 'fire', 'auth', '2026-02-10', 1, '{"a": [1]}', x'00ff', 9.75, 's', 9);
INSERT INTO risks (id, title, open) VALUES (9, 'flood', 0);
INSERT INTO "a b" VALUES ('x', 1, 9), ('y', 1, 8);
INSERT INTO loose VALUES ('x');
"""
PLACE_FOR_THEM = """
CREATE TABLE risks (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text,
    feature text REFERENCES features, due date, open boolean, facts jsonb, photo bytea,
    price numeric(30, 2), internal text, above integer REFERENCES risks);
CREATE TABLE "a b" (k text, "n?" bigint, risk integer REFERENCES risks, PRIMARY KEY (k, "n?"));
CREATE TABLE loose (note text);
"""
NAMED = """
[tables."a b"]
noun = "a_b"
[tables.risks]
noun = "risk"
hide = ["internal"]
[tables.loose]
"""


def name_own_tables(moving: Moving, head: str = "") -> None:
    with closing(sqlite3.connect(moving.file)) as connection:
        connection.executescript(OWN)
    (moving.root / ".ralph/ralphgen.toml").write_text(f"{head}{CONFIG}{NAMED}", encoding="utf-8")


def test_the_projects_own_tables_move_with_hidden_columns_and_other_types(moving: Moving) -> None:
    name_own_tables(moving)
    assert create_tables(PLACE, "New", load_stack("empty"))
    moving.there(PLACE_FOR_THEM)
    moved = moving.move()
    risk = moving.there("SELECT due::text, open, facts, photo, price::text, internal FROM risks")[0]
    more = moving.there("INSERT INTO risks (title) VALUES ('x') RETURNING id")
    again = moving.move()

    assert (2, 2) == (moved["risks"], moved["a b"])
    assert ("2026-02-10", True, {"a": [1]}, b"\0\xff", "9.75", "s") == risk
    assert [(10,)] == more
    assert 0 == sum(again.values())
    assert any('"loose" has no primary key' in line for line in moving.said)

    moving.there("UPDATE \"a b\" SET risk = 8 WHERE k = 'x'")
    assert 'the row "x, 1" of a b is a different row in PostgreSQL' in moving.refused()


def test_a_row_that_a_trigger_leaves_out_refuses_all(moving: Moving) -> None:
    name_own_tables(moving)
    assert create_tables(PLACE, "New", load_stack("empty"))
    moving.there(PLACE_FOR_THEM)
    body = "BEGIN RETURN CASE WHEN NEW.k = 'x' THEN NULL ELSE NEW END; END"
    moving.there(f"CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    moving.there('CREATE TRIGGER skip BEFORE INSERT ON "a b" FOR EACH ROW EXECUTE FUNCTION skip()')

    assert 'the row "x, 1" of a b: discarded by a PostgreSQL trigger' in moving.refused()


def test_a_table_of_the_projects_own_without_a_place_is_named(moving: Moving) -> None:
    name_own_tables(moving)
    text = moving.refused()

    assert 'PostgreSQL has no table "risks"' in text
    assert "create it first" in text


def test_a_project_of_tables_alone_moves_into_postgresql(moving: Moving) -> None:
    name_own_tables(moving, 'kits = ["tables"]\n')
    moving.there(PLACE_FOR_THEM.replace("text REFERENCES features", "text"))
    moved = moving.move()

    assert {"risks": 2, "a b": 2} == {name: count for name, count in moved.items() if count}
    assert [] == moving.there("SELECT 1 FROM pg_tables WHERE tablename = 'tasks'")


def test_state_files_become_rows_once_byte_by_byte(moving: Moving) -> None:
    text = b"  by hand\n- 2026-01-01T00:00:00Z [manual] one\n    two\n\nlast \xff\0"
    (moving.source / ".ralph/progress.txt").write_bytes(text)
    moved = moving.move()
    rows = "SELECT file, entry FROM ralphgen_entries ORDER BY number"
    found = moving.there(rows)

    assert 3 == moved["ralphgen_entries"]
    assert {"progress.txt"} == {file for file, _ in found}
    shown = text.decode("utf-8", "replace").replace("\0", "\ufffd") + "\n"
    assert shown == "".join(f"{entry}\n" for _, entry in found)
    assert any("the files are no longer read" in line for line in moving.said)

    assert (0, []) == (sum(moving.move().values()), moving.said)
    with (moving.source / ".ralph/progress.txt").open("a", encoding="utf-8") as file:
        file.write("\n- late\n")
    moving.move()
    assert ["left out: progress.txt and learnings.txt; the database already has such entries"] == (
        moving.said
    )
    assert found == moving.there(rows)


def test_a_session_from_before_the_move_can_be_undone(moving: Moving) -> None:
    line = "- 2026-01-01T00:00:00Z [manual] half of it"
    (moving.source / ".ralph/progress.txt").write_text(f"first\n{line}\nlast\n", encoding="utf-8")
    query(moving.source, RECORD[0])
    query(
        moving.source,
        "INSERT INTO ralphgen_journal (time, session, table_name, row_key, after) "
        "VALUES ('t', 's', 'progress.txt', '', ?)",
        f'{{"line": "{line}"}}',
    )
    moving.move()
    entries = "SELECT entry FROM ralphgen_entries ORDER BY number"
    undone = undo_session(moving.root, "s")
    left = moving.there(entries)
    again = undo_session(moving.root, "s")
    undo_session(moving.root, undone.session)

    assert [(line, "", False)] == [(one.line, one.left, one.gone) for one in undone.lines]
    assert [("first",), ("last",)] == left
    assert 0 == again.changed
    assert [("first",), (line,), ("last",)] == moving.there(entries)


def test_an_undo_that_was_stopped_is_finished_before_a_move(moving: Moving) -> None:
    query(moving.source, "INSERT INTO ralphgen_unfinished VALUES (1, 'x')")

    assert "an undo in" in moving.refused()


def test_without_a_ledger_state_files_remain_files(moving: Moving) -> None:
    (moving.source / ".ralph/progress.txt").write_text("- one\n", encoding="utf-8")
    for (table,) in query(
        moving.source,
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ralphgen%'",
    ):
        query(moving.source, f"DROP TABLE {table}")
    moving.move()

    assert (
        "left out: progress.txt and learnings.txt; without a ledger they remain files"
        in moving.said
    )
