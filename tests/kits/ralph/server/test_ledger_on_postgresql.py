"""Writes of a session in PostgreSQL are journaled in the same transaction."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from driving import connected, query
from engines import VARIABLE, on_both
from postgresql import needs_postgresql

pytestmark = needs_postgresql
ENTRIES = (
    "SELECT session, tool, table_name, row_key, before, after FROM ralphgen_journal ORDER BY number"
)
KEPT = "SELECT entry FROM ralphgen_entries"
LINE = "append_progress"  # on SQLite, its entry is a line in a file
CLAIM = (
    "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, attempts) "
    "VALUES (1, 'test', 3, '2026-01-01T00:00:00.000Z', '2999-01-01T00:00:00.000Z', 0)"
)
HOME = {"feature": "auth", "discipline": "backend"}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_task", {"title": "Pay \u00e4 \"q\" 'q' \\", **HOME, "depends_on": [1, 2]}),
    ("create_task", {"title": "Never", **HOME, "depends_on": [99]}),
    ("update_task", {"id": 3, "hints": "line\nline", "clear": ["depends_on"]}),
    ("add_task_comment", {"task_id": 3, "body": "One.", "author": "Ann"}),
    ("add_task_comment", {"task_id": 3, "body": "Two.", "author": "Ann"}),
    ("set_task_status", {"id": 1, "status": "done", "summary": "Works."}),
    ("delete_task", {"id": 3}),
    ("create_feature", {"name": "pay", "display_name": "Pay"}),
    ("append_progress", {"text": "Begun."}),
)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Path, Path, str]]:
    with on_both(tmp_path, ledger=True) as found:
        yield found


def rows(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def parse_entries(entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return entries with parsed content; lists are JSON in one database and text in the other."""

    def side(text: str | None) -> object:
        row = None if text is None else json.loads(text)
        if isinstance(row, dict) and isinstance(row.get("depends_on"), str):
            row["depends_on"] = json.loads(row["depends_on"])
        if isinstance(row, dict) and "line" in row:
            row["line"] = row["line"][-10:]  # starts with a timestamp
        return row

    stamped = ("created", "updated", "completed")
    found = []
    for session, tool, table, key, before, after in entries:
        sides = [side(before), side(after)]
        for one in sides:
            if isinstance(one, dict):
                one.update({name: "WHEN" for name in stamped if one.get(name)})
        found.append((session, tool, table, key, *sides))
    return found


def test_the_journal_is_equal_for_equal_calls(both: tuple[Path, Path, str]) -> None:
    """Comments that go with their task included."""
    ours, theirs, dsn = both
    for root in (ours, theirs):
        with connected(root, env={VARIABLE: dsn}) as server:
            failed = [server.ask(tool, arguments)[0] for tool, arguments in CALLS]
        assert [tool for (tool, _), bad in zip(CALLS, failed, strict=True) if bad] == [
            "create_task"
        ]

    expected, found = parse_entries(query(ours, ENTRIES)), parse_entries(rows(dsn, ENTRIES))
    line, row = (one.pop([tool for _, tool, *_ in one].index(LINE)) for one in (expected, found))
    assert (LINE, "progress.txt", LINE, "ralphgen_entries") == (*line[1:3], *row[1:3])
    assert row[5]["entry"].endswith(line[5]["line"])
    assert sum(table == "task_comments" for _, _, table, *_ in found) == 5
    assert sorted(map(repr, expected)) == sorted(map(repr, found))
    sessions = "SELECT id, recipe, outcome FROM ralphgen_sessions"
    assert query(ours, sessions) == rows(dsn, sessions)


def test_writes_of_an_application_are_not_recorded(both: tuple[Path, Path, str]) -> None:
    _, theirs, dsn = both
    with connected(theirs, env={VARIABLE: dsn}) as server:
        server.call("set_task_status", id=1, status="done")
        rows(dsn, "UPDATE tasks SET title = 'by app' WHERE id = 1")

    assert [tool for _, tool, *_ in rows(dsn, ENTRIES)] == ["set_task_status"]


def test_cascaded_deletions_are_recorded(both: tuple[Path, Path, str]) -> None:
    _, theirs, dsn = both
    rows(dsn, "INSERT INTO task_comments (task_id, author, body) VALUES (2, 'app', 'One.')")
    with connected(theirs, env={VARIABLE: dsn}) as server:
        server.call("set_task_status", id=1, status="done")
    rows(dsn, "SET ralphgen.session = 'other'; DELETE FROM tasks WHERE id = 2")

    tables = [table for session, _, table, *_ in rows(dsn, ENTRIES) if session == "other"]
    assert sorted(tables) == ["task_comments", "tasks"]


def test_bytes_computed_columns_and_keys_that_move(both: tuple[Path, Path, str]) -> None:
    _, theirs, dsn = both
    rows(
        dsn,
        "CREATE TABLE notes (a int, b text, raw bytea, twice int GENERATED ALWAYS AS (a * 2) "
        "STORED, PRIMARY KEY (a, b)); INSERT INTO notes VALUES (1, 'x', 'hi')",
    )
    with connected(theirs, env={VARIABLE: dsn}) as server:
        server.call("set_task_status", id=1, status="done")
    before = len(rows(dsn, ENTRIES))
    rows(
        dsn,
        "SET ralphgen.session = 'other'; UPDATE notes SET a = 2; UPDATE notes SET raw = NULL; "
        "UPDATE notes SET b = b; DELETE FROM notes",
    )

    assert rows(dsn, ENTRIES)[before:] == [
        ("other", None, "notes", '[1,"x"]', '{"a":1,"b":"x","raw":{"blob":"6869"}}', None),
        ("other", None, "notes", '[2,"x"]', None, '{"a":2,"b":"x","raw":{"blob":"6869"}}'),
        ("other", None, "notes", '[2,"x"]', '{"raw":{"blob":"6869"}}', '{"raw":null}'),
        ("other", None, "notes", '[2,"x"]', '{"a":2,"b":"x","raw":null}', None),
    ]


def test_a_claim_is_released_by_the_transaction_that_closes_its_task(
    both: tuple[Path, Path, str],
) -> None:
    _, theirs, dsn = both
    rows(dsn, CLAIM)
    claim = {"task": 1, "token": 3, "lease": 600, "kept": False}
    held = "SELECT session, token FROM ralphgen_claims"
    with connected(theirs, "task_execution", env={VARIABLE: dsn}, claim=claim) as server:
        server.call("set_task_status", status="in_progress")
        assert rows(dsn, "SELECT began IS NOT NULL FROM ralphgen_claims") == [(True,)]
        server.call("set_task_status", status="done")
        assert rows(dsn, held) == [(None, 3)]

        rows(dsn, "UPDATE ralphgen_claims SET session = 'another', token = 4")
        text = server.refusal("add_task_comment", task_id=1, body="Late.")

    assert "has lost its claim on task 1" in text
    assert rows(dsn, "SELECT count(*) FROM task_comments") == [(0,)]


def test_a_line_is_appended_once_though_its_transaction_was_done_again(
    both: tuple[Path, Path, str],
) -> None:
    _, theirs, dsn = both
    rows(
        dsn,
        "CREATE SEQUENCE tries; CREATE FUNCTION kept() RETURNS boolean LANGUAGE plpgsql AS $$ "
        "BEGIN IF nextval('public.tries') = 1 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; "
        "END IF; RETURN true; END $$; "
        "ALTER TABLE ralphgen_journal ADD CONSTRAINT kept CHECK (kept()) NOT VALID",
    )
    with connected(theirs, env={VARIABLE: dsn}) as server:
        server.call("list_tasks")  # connects; a call without a connection runs on a thread
        server.call("append_progress", text="Begun.")

    assert [1] == [said.count("Begun.") for (said,) in rows(dsn, KEPT)]
    assert len(rows(dsn, ENTRIES)) == 1
