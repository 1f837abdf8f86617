"""Undoing a session in PostgreSQL: as on SQLite, with its foreign keys on and its own types."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from engines import CONFIG, LEDGER, MARKER, VARIABLE, for_postgresql
from postgresql import database, needs_postgresql, template_of

from ralphgen.ledger.record import changing_sessions, read_entries
from ralphgen.ledger.undo import Undone, undo_session
from ralphgen.project.database import opened_database

pytestmark = [needs_postgresql, pytest.mark.slow]
SCHEMA = """
CREATE TABLE homes (name text PRIMARY KEY, note text);
CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    home text REFERENCES homes (name) ON DELETE SET NULL ON UPDATE CASCADE,
    code text UNIQUE,
    title text NOT NULL DEFAULT '',
    points numeric(40, 20),
    data bytea,
    facts jsonb,
    tags text[],
    moment timestamptz,
    half double precision,
    yes boolean,
    twice numeric GENERATED ALWAYS AS (points * 2) STORED
);
CREATE TABLE task_comments (
    id bigint PRIMARY KEY,
    task_id bigint NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    parent bigint REFERENCES task_comments (id) ON DELETE CASCADE,
    body text
);
CREATE TABLE pairs (one text, two date, value text, PRIMARY KEY (one, two));
"""
TABLES = ("homes", "tasks", "task_comments", "pairs")
TASK = "INSERT INTO tasks (id, title) OVERRIDING SYSTEM VALUE VALUES (1, 'old')"
ODD = """INSERT INTO tasks (home, code, title, points, data, facts, tags, moment, half, yes)
VALUES (NULL, 'ä"q''', 'x', 12345678901234567890.12345678901234567890, '\\x00ff',
    '{"blob": [1.50, null], "a": "é"}', ARRAY['a', 'b"c', NULL], '2026-02-10 17:56:00.123456+02',
    0.1, true)"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".ralph/backups").mkdir(parents=True)
    (tmp_path / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    text = for_postgresql(LEDGER.read_text(encoding="utf-8"))
    with database(template_of(f"{SCHEMA}{text}{MARKER}")) as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        yield tmp_path


def run(root: Path, *writes: tuple[str, str]) -> None:
    """Run statements, each in its own transaction, as a session."""
    for session, sql in writes:
        with writer(root, session) as write:
            write(sql)


@contextmanager
def writer(root: Path, session: str) -> Iterator[partial[int]]:
    with opened_database(root) as opened:
        journal = opened.journal(session, {"recipe": "manual"}, lambda: "write")
        opened.before_writes.append(journal.begin)
        yield partial(lambda sql: opened.writing(lambda: opened.change(sql)))


def rows(root: Path) -> dict[str, list[str]]:
    """All rows of the app, as text of all their digits."""
    return {
        table: sorted(map(str, query(root, f"SELECT t::text FROM {table} AS t")))
        for table in TABLES
    }


def row_results(undone: Undone) -> set[tuple[object, ...]]:
    return {(row.table, row.key, row.done or row.left) for row in undone.rows}


def test_values_of_all_types_come_back_to_the_last_digit(root: Path) -> None:
    run(root, ("a", ODD), ("a", "INSERT INTO pairs VALUES ('x', '2026-02-10', NULL)"))
    before = rows(root)
    run(
        root,
        ("b", "UPDATE tasks SET points = 1, data = NULL, facts = NULL, tags = '{}', yes = false"),
        ("b", "UPDATE tasks SET moment = NULL, half = 2, code = NULL"),
        ("b", "UPDATE pairs SET two = '2026-02-11'"),
    )
    undone = undo_session(root, "b")
    assert before == rows(root)
    assert not undone.has_remainder

    run(root, ("c", "DELETE FROM tasks"), ("c", "DELETE FROM pairs"))
    undo_session(root, "c")
    assert before == rows(root)


@pytest.mark.thorough
@pytest.mark.parametrize("value", ['"no hex"', "5", '"00ff"', '"00FF"', '"0"', "null"])
def test_json_that_looks_like_the_bytes_of_the_journal_is_none(root: Path, value: str) -> None:
    facts = f'{{"blob": {value}}}'
    run(root, ("a", f"INSERT INTO tasks (facts) VALUES ('{facts}')"))
    before = rows(root)
    run(root, ("b", "UPDATE tasks SET facts = NULL"))
    undo_session(root, "b")

    assert before == rows(root)
    assert (
        json.loads(facts)
        == json.loads(ralphgen("log", "--json", cwd=root).stdout)[0]["after"]["facts"]
    )


def test_new_rows_go_and_the_undo_can_be_undone(root: Path) -> None:
    run(root, ("a", TASK))
    before = rows(root)
    run(root, ("b", "UPDATE tasks SET title = 'new'"), ("b", "INSERT INTO homes VALUES ('h')"))
    after = rows(root)
    newest = [(session, tool) for session, tool, *_ in changing_sessions(root, 5)]
    assert [("b", "write"), ("a", "write")] == newest
    first = undo_session(root, "b")
    assert {("tasks", (1,), "restored"), ("homes", ("h",), "deleted")} == row_results(first)
    assert before == rows(root)
    assert not undo_session(root, "b").changed

    undo_session(root, first.session)
    assert after == rows(root)


def test_a_task_with_a_dependent_of_another_session_remains(root: Path) -> None:
    row = "INSERT INTO tasks (id, depends_on) OVERRIDING SYSTEM VALUE VALUES"
    run(
        root,
        ("a", "ALTER TABLE tasks ADD COLUMN depends_on jsonb"),
        ("b", f"{row} (1, NULL), (2, '[1]')"),
        ("c", f"{row} (3, '[1]')"),
    )

    left = ("tasks", (1,), "another row refers to it")
    assert {left, ("tasks", (2,), "deleted")} == row_results(undo_session(root, "b"))


def test_cascaded_rows_are_restored(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO homes VALUES ('h', 'n')"),
        ("a", TASK),
        ("a", "UPDATE tasks SET home = 'h'"),
        ("a", "INSERT INTO task_comments VALUES (1, 1, NULL, 'x'), (2, 1, 1, 'y')"),
    )
    before = rows(root)
    run(root, ("b", "DELETE FROM homes"), ("b", "DELETE FROM tasks"))
    assert [] == rows(root)["task_comments"]
    undo_session(root, "b")
    assert before == rows(root)

    run(root, ("c", "UPDATE homes SET name = 'i'"))
    undo_session(root, "c")
    assert before == rows(root)


def test_no_cascade_of_an_undo_takes_rows_of_others(root: Path) -> None:
    run(
        root,
        ("b", TASK),
        ("b", "INSERT INTO homes VALUES ('h')"),
        ("c", "INSERT INTO task_comments VALUES (1, 1, NULL, 'x')"),
        ("c", "INSERT INTO tasks (home) VALUES ('h')"),
    )
    before = rows(root)
    undone = undo_session(root, "b")

    named = "another row refers to it"
    assert {("tasks", (1,), named), ("homes", ("h",), named)} == row_results(undone)
    assert before == rows(root)


def test_a_used_name_remains_with_its_row(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (code) VALUES ('one'), ('two')"),
        ("b", "UPDATE tasks SET code = NULL"),
        ("c", "INSERT INTO tasks (code) VALUES ('two')"),
    )
    (left,) = [row for row in undo_session(root, "b").rows if row.left]

    assert (2,) == left.key
    assert "the database rejects it: duplicate key" in left.left
    codes = [(1, "one"), (2, None), (3, "two")]
    assert codes == query(root, "SELECT id, code FROM tasks ORDER BY id")


def test_triggers_of_the_app_do_not_run_and_stay(root: Path) -> None:
    query(
        root,
        "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.code := coalesce(NEW.code, '') || '+'; RETURN NEW; END$$; "
        "CREATE TRIGGER stamp BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION stamp()",
    )
    run(root, ("a", TASK))
    before = rows(root)
    run(root, ("b", "UPDATE tasks SET title = 'new'"))
    undo_session(root, "b")

    assert before == rows(root)
    enabled = "SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'stamp'"
    assert [("O",)] == query(root, enabled)


def test_a_trigger_of_a_partition_may_refuse_a_row(root: Path) -> None:
    query(
        root,
        "CREATE TABLE parts (id int PRIMARY KEY, n int) PARTITION BY RANGE (id); "
        "CREATE TABLE part PARTITION OF parts DEFAULT",
    )
    run(root, ("a", "INSERT INTO parts VALUES (1, 1)"), ("b", "UPDATE parts SET n = 2"))
    query(
        root,
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'never'; END$$; "
        "CREATE TRIGGER never BEFORE UPDATE ON part FOR EACH ROW EXECUTE FUNCTION never()",
    )

    left = {("parts", (1,), "the database rejects it: never")}
    assert left == row_results(undo_session(root, "b"))


def test_the_log_is_of_a_task_a_session_and_a_number_of_entries(root: Path) -> None:
    run(root, ("a", TASK), ("a", "INSERT INTO task_comments VALUES (7, 1, NULL, 'x')"))
    run(root, ("b", ODD), ("b", "INSERT INTO homes VALUES ('1')"))

    assert ["tasks", "task_comments"] == [one.table for one in read_entries(root, task=1)]
    assert ["homes"] == [one.table for one in read_entries(root, session="b", limit=1)]
    assert 4 == len(read_entries(root, since="2020-01-01T00:00:00Z"))
    shown = json.loads(ralphgen("log", "--json", cwd=root).stdout)
    assert {"blob": [1.5, None], "a": "é"} == shown[2]["after"]["facts"]
    assert {"blob": "00FF"} == shown[2]["after"]["data"]


def test_the_command_reports_its_changes_and_the_missing_backup(root: Path) -> None:
    run(root, ("b", TASK))
    done = ralphgen("undo", "b", "--yes", cwd=root)

    assert 0 == done.returncode, done.stderr
    assert "no backup was made" in done.stderr
    assert [] == rows(root)["tasks"]
