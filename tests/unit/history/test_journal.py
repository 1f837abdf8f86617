"""The journal of each write: TEMP triggers of one connection see everything."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from histories import Writer, entries, make_database, rows_of, writers

from ralphgen.runtime.errors import ToolError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_database(tmp_path)


@pytest.fixture
def writer(path: Path) -> Writer:
    return Writer(path, "s")


def test_an_update_holds_the_columns_that_it_changes(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO tasks (id, title, whole) VALUES (1, 'a', 2)")
    writer.write("UPDATE tasks SET title = 'b', whole = 2 WHERE id = 1")

    change = ("s", "tasks", "1", '{"title":"a"}', '{"title":"b"}')
    assert change == entries(path)[1]


def test_a_write_that_changes_nothing_leaves_nothing(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO tasks (id, title) VALUES (1, 'a')")
    writer.write("UPDATE tasks SET title = 'a'")

    assert 1 == len(entries(path))


def test_letter_case_and_the_kind_of_a_number_are_changes_too(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO homes VALUES ('a', NULL)")
    writer.write("INSERT INTO tasks (id, any) VALUES (1, 1)")
    writer.write("UPDATE tasks SET any = 1.0")
    writer.write("UPDATE homes SET name = 'A'")

    told = [entry[1:] for entry in entries(path)[2:]]
    assert ("tasks", "1", '{"any":1}', '{"any":1.0}') == told[0]
    assert [('"a"', True), ('"A"', False)] == [
        (key, after is None) for _, key, _, after in told[1:]
    ]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("x'00FF'", '{"blob":"00FF"}'),
        ("NULL", "null"),
        ("0.1", "0.1"),
        ("1e999", "1e999"),
        ("-1e999", "-1e999"),
        ("9223372036854775807", "9223372036854775807"),
        ("'\u00e9 \"q\"\n'", '"\u00e9 \\"q\\"\\n"'),
        ("CAST(x'610062' AS TEXT)", '"a\\u0000b"'),
        ("CAST(x'61FF' AS TEXT)", '"a\udcff"'),
    ],
)
def test_values_of_all_kinds_are_reported_as_json(
    path: Path, writer: Writer, sql: str, told: str
) -> None:
    writer.write(f"INSERT INTO pairs VALUES ('k', 1, {sql})")

    ((_, _, key, before, after),) = entries(path)
    assert ('["k",1]', None) == (key, before)
    assert f'{{"one":"k","two":1,"value":{told}}}' == after


def test_generated_columns_are_not_in_journaled_rows(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO tasks (id, whole) VALUES (1, 2)")
    writer.write("UPDATE tasks SET whole = 3")

    assert "twice" not in str(entries(path))


def test_cascades_are_journaled_in_custom_tables_too(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO tasks (id) VALUES (1)")
    for number, parent in ((1, None), (2, 1), (3, 2)):
        writer.write("INSERT INTO task_comments VALUES (?, 1, ?, 'b')", number, parent)
    writer.write("DELETE FROM tasks")

    deleted = {(table, key) for _, table, key, _, after in entries(path) if after is None}
    assert {("tasks", "1"), *(("task_comments", str(one)) for one in (1, 2, 3))} == deleted


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("REPLACE INTO pairs VALUES ('k', 1, 'new')", [("old", None), (None, "new")]),
        ("INSERT OR IGNORE INTO pairs VALUES ('k', 1, 'new')", []),
        (
            "INSERT INTO pairs VALUES ('k', 1, 'new') ON CONFLICT DO UPDATE SET value = 'new'",
            [("old", "new")],
        ),
        ("UPDATE pairs SET two = 2", [("old", None), (None, "old")]),
    ],
)
def test_the_replacement_of_a_row_is_journaled(
    path: Path, writer: Writer, sql: str, told: list[tuple[str | None, str | None]]
) -> None:
    writer.write("INSERT INTO pairs VALUES ('k', 1, 'old')")
    writer.write(sql)

    found = [
        tuple(None if text is None else json.loads(text)["value"] for text in entry[3:])
        for entry in entries(path)[1:]
    ]
    assert told == found


def test_a_table_without_a_key_goes_by_the_number_of_its_rows(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO loose VALUES ('a', 1)")
    writer.write('UPDATE loose SET "it\'s" = 2')

    before, after = ('{"odd \\"name":"a","it\'s":' + f"{number}}}" for number in (1, 2))
    assert ("s", "loose", "1", before, after) == entries(path)[1]


def test_full_text_tables_work_on_and_are_not_watched(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO found VALUES ('words')")

    assert [] == entries(path)
    assert [("words",)] == writer.database.rows("SELECT body FROM found WHERE found MATCH 'words'")


def test_triggers_of_the_app_work_as_before(tmp_path: Path) -> None:
    """With recursive triggers, this one would call itself until SQLite gives up."""
    trigger = (
        "CREATE TRIGGER stamp AFTER UPDATE ON tasks BEGIN "
        "UPDATE tasks SET whole = coalesce(whole, 0) + 1 WHERE id = NEW.id; END;"
    )
    path = make_database(tmp_path, trigger)
    writer = Writer(path, "s")
    writer.write("INSERT INTO tasks (id) VALUES (1)")
    writer.write("UPDATE tasks SET title = 'b'")

    assert [(1,)] == writer.database.rows("SELECT whole FROM tasks")
    told = {text for entry in entries(path)[1:] for text in entry[3:]}
    assert {'{"title":""}', '{"title":"b"}', '{"whole":null}', '{"whole":1}'} == told


def test_a_schema_that_moves_is_followed(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO tasks (id) VALUES (1)")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE tasks ADD COLUMN later TEXT")
        connection.execute("ALTER TABLE tasks DROP COLUMN points")
    writer.write("UPDATE tasks SET later = 'x'")

    assert ('{"later":null}', '{"later":"x"}') == entries(path)[-1][3:]


def test_a_transaction_that_fails_leaves_no_entry_and_the_next_is_journaled(
    path: Path, writer: Writer
) -> None:
    with pytest.raises(ToolError):
        writer.write("INSERT INTO tasks (id, title) VALUES (1, NULL)")
    writer.write("INSERT INTO tasks (id) VALUES (2)")

    assert ["2"] == [key for _, _, key, _, _ in entries(path)]
    assert [("s",)] == writer.database.rows("SELECT id FROM ralphgen_sessions")


def test_a_schema_that_moves_before_a_transaction_that_fails_is_followed(
    path: Path, writer: Writer
) -> None:
    writer.write("INSERT INTO tasks (id) VALUES (1)")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE tasks ADD COLUMN later TEXT")
    with pytest.raises(ToolError):
        writer.write("UPDATE tasks SET title = NULL")
    writer.write("UPDATE tasks SET later = 'x'")

    assert ('{"later":null}', '{"later":"x"}') == entries(path)[-1][3:]


def test_each_connection_journals_its_own(path: Path) -> None:
    with writers(path, "a", "b") as (one, two):
        one.write("INSERT INTO homes VALUES ('x', NULL)")
        two.write("UPDATE homes SET note = 'y'")
        one.write("UPDATE homes SET note = 'z'")

    assert ["a", "b", "a"] == [entry[0] for entry in entries(path)]


def test_a_missing_ledger_stops_no_call(path: Path, writer: Writer) -> None:
    writer.write("INSERT INTO homes VALUES ('x', NULL)")
    with closing(sqlite3.connect(path)) as connection:
        for name in (
            "journal",
            "sessions",
            "unfinished",
            "claims",
            "evidence",
            "questions",
            "ledger",
        ):
            connection.execute(f"DROP TABLE ralphgen_{name}")
    writer.write("UPDATE homes SET note = 'y'")

    assert [("homes", ("x",))] == [*rows_of(path)]
