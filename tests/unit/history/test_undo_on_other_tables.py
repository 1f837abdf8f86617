"""An undo meets tables that were changed since, keys that lead nowhere, and a spoilt journal."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from histories import make_database, rows_of, writers

from ralphgen.errors import MissingError, ProjectError
from ralphgen.ledger.record import read_entries
from ralphgen.ledger.tables import prune
from ralphgen.ledger.undo import Undone, undo_session
from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import claims

PARENTS = "CREATE TABLE parents (id INTEGER PRIMARY KEY, name)"
CHILDREN = "CREATE TABLE children (id TEXT PRIMARY KEY, rowid TEXT, parent {})"


def run(root: Path, *writes: tuple[str, str]) -> None:
    """Statements, each by a session."""
    with writers(root / DATABASE, "a", "b") as opened:
        by_name = {one.session: one for one in opened}
        for session, sql in writes:
            by_name[session].write(sql)


def migrate(root: Path, *statements: str) -> None:
    """Run statements of the app, which are not recorded."""
    with closing(sqlite3.connect(root / DATABASE, isolation_level=None)) as connection:
        for sql in statements:
            connection.execute(sql)


def row_results(undone: Undone) -> list[tuple[object, ...]]:
    return [(row.table, row.key, row.done or row.left) for row in undone.rows]


def test_a_key_of_more_columns_leaves_the_rows(tmp_path: Path) -> None:
    make_database(tmp_path, PARENTS)
    run(
        tmp_path,
        ("a", "INSERT INTO parents VALUES (1, 'x')"),
        ("b", "UPDATE parents SET name = 'y'"),
    )
    migrate(
        tmp_path,
        "CREATE TABLE other (id, name, PRIMARY KEY (id, name))",
        "INSERT INTO other SELECT * FROM parents",
        "DROP TABLE parents",
        "ALTER TABLE other RENAME TO parents",
    )

    assert [("parents", (1,), "the columns of its table have changed")] == row_results(
        undo_session(tmp_path, "b")
    )


def test_a_row_without_its_parent_table_is_not_restored(tmp_path: Path) -> None:
    make_database(tmp_path, PARENTS, CHILDREN.format("REFERENCES parents"))
    run(
        tmp_path,
        ("a", "INSERT INTO parents VALUES (1, 'x')"),
        ("a", "INSERT INTO children VALUES ('k', 'v', 1)"),
        ("b", "DELETE FROM children"),
    )
    migrate(tmp_path, "DROP TABLE parents")

    gone = ("children", ("k",), "it refers to a row that no longer exists")
    assert [gone] == row_results(undo_session(tmp_path, "b"))


def test_a_column_named_like_the_rowid_is_harmless(tmp_path: Path) -> None:
    make_database(tmp_path, PARENTS, CHILDREN.format("REFERENCES parents"))
    run(
        tmp_path,
        ("a", "INSERT INTO parents VALUES (1, 'x')"),
        ("a", "INSERT INTO children VALUES ('k', 'v', 1), ('l', '1', NULL)"),
        ("b", "DELETE FROM children WHERE id = 'k'"),
        ("b", "UPDATE children SET rowid = '3' WHERE id = 'l'"),
        ("a", "DELETE FROM parents"),
    )

    assert {
        ("children", ("k",), "it refers to a row that no longer exists"),
        ("children", ("l",), "restored"),
    } == {*row_results(undo_session(tmp_path, "b"))}


def test_an_unenforced_key_of_the_app_does_not_hinder_undo(tmp_path: Path) -> None:
    make_database(tmp_path, PARENTS, CHILDREN.format("REFERENCES parents (name)"))
    migrate(tmp_path, "INSERT INTO children VALUES ('k', 'v', 1)")
    run(tmp_path, ("b", "INSERT INTO homes VALUES ('h', NULL)"))

    assert [("homes", ("h",), "deleted")] == row_results(undo_session(tmp_path, "b"))


def test_a_row_known_only_by_its_rowid_is_not_confused(tmp_path: Path) -> None:
    """VACUUM renumbers such rows: the change of another session was reverted."""
    make_database(tmp_path)
    number = '"it\'s"'
    run(
        tmp_path,
        ("a", "INSERT INTO loose VALUES ('first', 1), ('second', 1), ('third', 1)"),
        ("b", f"UPDATE loose SET {number} = 2 WHERE rowid = 2"),
        ("a", f"UPDATE loose SET {number} = 2 WHERE rowid = 3"),
        ("a", "DELETE FROM loose WHERE rowid = 1"),
    )
    migrate(tmp_path, "VACUUM")
    before = rows_of(tmp_path / DATABASE)
    undone = undo_session(tmp_path, "b")

    assert before == rows_of(tmp_path / DATABASE)
    assert undone.has_remainder


def test_a_key_of_invalid_utf8_is_shown_and_undone(tmp_path: Path) -> None:
    make_database(tmp_path)
    run(tmp_path, ("b", "INSERT INTO homes VALUES (CAST(x'61FF' AS TEXT), NULL)"))

    (entry,) = read_entries(tmp_path)
    assert "a\ufffd" == entry.as_json()["row"]
    assert [("homes", ("a\udcff",), "deleted")] == row_results(undo_session(tmp_path, "b"))


@pytest.mark.parametrize(
    "spoilt",
    [
        "after = 'x'",
        "after = '[1]'",
        "after = '5'",
        """after = '{"name": {"a": 1}}'""",
        """after = '{"name": {"blob": "zz"}}'""",
        "row_key = 'x'",
        """row_key = '{"blob": 1}'""",
        "row_key = ''",
    ],
)
def test_an_entry_that_was_spoilt_is_named(tmp_path: Path, spoilt: str) -> None:
    make_database(tmp_path)
    run(tmp_path, ("b", "INSERT INTO homes VALUES ('h', NULL)"))
    migrate(tmp_path, f"UPDATE ralphgen_journal SET {spoilt}")

    for act in (lambda: read_entries(tmp_path), lambda: undo_session(tmp_path, "b")):
        with pytest.raises(ProjectError, match="journal entry 1 is damaged"):
            act()


def test_a_journal_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    make_database(tmp_path)
    migrate(tmp_path, "ALTER TABLE ralphgen_journal DROP COLUMN tool")

    for act in (lambda: read_entries(tmp_path), lambda: undo_session(tmp_path, "b")):
        with pytest.raises(ProjectError, match="incomplete: ralphgen_journal without tool"):
            act()


def test_without_the_journal_alone_nothing_is_written(tmp_path: Path) -> None:
    """The rest of the ledger implies that everything is recorded."""
    make_database(tmp_path)
    with writers(tmp_path / DATABASE, "a") as (writer,):
        writer.write("INSERT INTO homes VALUES ('h', NULL)")
        before = rows_of(tmp_path / DATABASE)
        migrate(tmp_path, "DROP TABLE ralphgen_journal")
        with pytest.raises(ToolError, match="incomplete"):
            writer.write("INSERT INTO homes VALUES ('i', NULL)")

    assert before == rows_of(tmp_path / DATABASE)


def test_a_task_that_a_session_holds_is_left_with_it(tmp_path: Path) -> None:
    make_database(tmp_path)
    run(tmp_path, ("b", "INSERT INTO tasks (id) VALUES (1), (2)"))
    with closing(Database(str(tmp_path / DATABASE))) as database:
        database.writing(lambda: claims.take(database, 1, "other", 60))
        undone = undo_session(tmp_path, "b")

    results = {row.key: row.done or row.left for row in undone.rows}
    assert "deleted" == results[2,]
    assert 'it is claimed by the session "other" until ' in results[1,]


def test_a_session_is_pruned_whole_so_that_none_is_undone_by_half(tmp_path: Path) -> None:
    make_database(tmp_path)
    run(
        tmp_path,
        ("a", "INSERT INTO homes VALUES ('h', '1')"),
        ("b", "UPDATE homes SET note = '2'"),
        ("b", "UPDATE homes SET note = '3'"),
    )
    migrate(tmp_path, "UPDATE ralphgen_journal SET time = '2025-12-31T23:59:59Z' WHERE number < 3")

    assert 1 == prune(tmp_path, "2026-01-01")["ralphgen_journal"]
    undo_session(tmp_path, "b")
    assert {("homes", ("h",)): (("str", "h"), ("str", "1"))} == rows_of(tmp_path / DATABASE)


def test_a_hint_names_only_remaining_sessions(tmp_path: Path) -> None:
    make_database(tmp_path)
    run(tmp_path, ("a", "INSERT INTO tasks (id) VALUES (1)"))
    run(tmp_path, ("b", "UPDATE tasks SET id = 2"))
    migrate(tmp_path, "UPDATE ralphgen_sessions SET started = id")

    with pytest.raises(MissingError) as refusal:
        undo_session(tmp_path, "nonsense")
    assert "undo-" not in str(refusal.value)
    with pytest.raises(MissingError, match="the sessions are b, a"):
        read_entries(tmp_path, session="nonsense")
