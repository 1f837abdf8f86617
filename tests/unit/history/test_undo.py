"""Undoing a session: rows that only it touched are restored, all others are left and reported."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from histories import make_database, rows_of, writers

from ralphgen.errors import MissingError, ProjectError
from ralphgen.ledger.undo import Undone, undo_session
from ralphgen.project.root import DATABASE

SESSIONS = ("a", "b", "c", "d")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_database(tmp_path)
    return tmp_path


def row_results(undone: Undone) -> list[tuple[object, ...]]:
    """Return the result of each row: table, key, the action or why it was left."""
    return [(row.table, row.key, row.done or row.left) for row in undone.rows]


def run(root: Path, *writes: tuple[str, str]) -> None:
    """Statements, each by a session."""
    with writers(root / DATABASE, *SESSIONS) as opened:
        by_name = {one.session: one for one in opened}
        for session, sql in writes:
            by_name[session].write(sql)


def test_rows_go_back_and_new_ones_go(root: Path) -> None:
    run(root, ("a", "INSERT INTO tasks (id, title, data) VALUES (1, 'old', x'00'), (2, 'b', 1)"))
    before = rows_of(root / DATABASE)
    run(
        root,
        ("b", "UPDATE tasks SET title = 'new', points = 0.1 WHERE id = 1"),
        ("b", "DELETE FROM tasks WHERE id = 2"),
        ("b", "INSERT INTO tasks (id) VALUES (3)"),
    )
    undone = undo_session(root, "b")

    assert before == rows_of(root / DATABASE)
    done = {("tasks", (1,), "restored"), ("tasks", (2,), "recreated"), ("tasks", (3,), "deleted")}
    assert done == {*row_results(undone)}
    assert not undone.has_remainder


def test_columns_changed_by_others_are_unchanged(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (id, title) VALUES (1, 'old')"),
        ("b", "UPDATE tasks SET title = 'new'"),
        ("c", "UPDATE tasks SET whole = 5"),
    )
    undo_session(root, "b")

    with closing(sqlite3.connect(root / DATABASE)) as connection:
        assert [("old", 5)] == connection.execute("SELECT title, whole FROM tasks").fetchall()


def test_a_row_that_was_changed_since_is_left_with_both_versions(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (id, title) VALUES (1, 'old')"),
        ("b", "UPDATE tasks SET title = 'new'"),
        ("c", "UPDATE tasks SET title = 'newer'"),
    )
    before = rows_of(root / DATABASE)
    undone = undo_session(root, "b")

    assert before == rows_of(root / DATABASE)
    (row,) = undone.rows
    assert ({"title": "new"}, {"title": "newer"}) == (row.session, row.now)
    assert undone.has_remainder
    assert not undone.changed


def test_cascaded_rows_are_restored(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO homes VALUES ('h', 'n')"),
        ("a", "INSERT INTO tasks (id, home) VALUES (1, 'h'), (2, 'h')"),
        ("a", "INSERT INTO task_comments VALUES (1, 1, NULL, 'x'), (2, 1, 1, 'y'), (3, 2, 2, 'z')"),
    )
    before = rows_of(root / DATABASE)
    run(root, ("b", "DELETE FROM homes"), ("b", "DELETE FROM tasks WHERE id = 1"))

    assert 2 == len(rows_of(root / DATABASE)) + 1  # task 2 alone is left
    undo_session(root, "b")
    assert before == rows_of(root / DATABASE)


def test_a_row_referenced_by_another_session_remains(root: Path) -> None:
    run(
        root,
        ("b", "INSERT INTO tasks (id) VALUES (1)"),
        ("c", "INSERT INTO task_comments VALUES (1, 1, NULL, 'x')"),
    )
    before = rows_of(root / DATABASE)
    undone = undo_session(root, "b")

    assert before == rows_of(root / DATABASE)
    assert [("tasks", (1,), "another row refers to it")] == row_results(undone)


def with_dependencies(root: Path) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        connection.execute("ALTER TABLE tasks ADD COLUMN depends_on TEXT")


def test_a_task_with_a_dependent_of_another_session_remains(root: Path) -> None:
    with_dependencies(root)
    run(
        root,
        ("b", "INSERT INTO tasks (id) VALUES (1)"),
        ("b", "INSERT INTO tasks (id, depends_on) VALUES (2, '[1]')"),
        ("b", "INSERT INTO tasks (id) VALUES (4)"),
        ("c", "INSERT INTO tasks (id, depends_on) VALUES (3, '[1, 99]')"),
    )
    undone = undo_session(root, "b")

    left = ("tasks", (1,), "another row refers to it")
    assert {left, ("tasks", (2,), "deleted"), ("tasks", (4,), "deleted")} == {*row_results(undone)}


def test_a_task_is_not_restored_without_its_dependency(root: Path) -> None:
    with_dependencies(root)
    run(
        root,
        ("a", "INSERT INTO tasks (id, depends_on) VALUES (1, NULL), (2, '[1]'), (3, '[1]')"),
        ("b", "DELETE FROM tasks WHERE id = 2"),
        ("b", "UPDATE tasks SET depends_on = NULL WHERE id = 3"),
        ("c", "DELETE FROM tasks WHERE id = 1"),
    )

    gone = "it refers to a row that no longer exists"
    assert {("tasks", (2,), gone), ("tasks", (3,), gone)} == {*row_results(undo_session(root, "b"))}


def test_a_row_without_its_parent_is_not_restored(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (id) VALUES (1)"),
        ("a", "INSERT INTO task_comments VALUES (1, 1, NULL, 'x')"),
        ("b", "DELETE FROM task_comments"),
        ("c", "DELETE FROM tasks"),
    )

    assert [("task_comments", (1,), "it refers to a row that no longer exists")] == row_results(
        undo_session(root, "b")
    )


def test_a_used_name_remains_with_its_row(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (id, code) VALUES (1, 'one'), (2, 'two')"),
        ("b", "UPDATE tasks SET code = 'three' WHERE id = 1"),
        ("c", "UPDATE tasks SET code = 'one' WHERE id = 2"),
    )
    undone = undo_session(root, "b")

    assert undone.has_remainder
    assert "UNIQUE" in undone.rows[0].left


@pytest.mark.parametrize("how", ["REPLACE", "IGNORE"])
@pytest.mark.parametrize("write", ["UPDATE codes SET code = 'two'", "DELETE FROM codes"])
def test_conflict_clauses_of_a_table_delete_no_row_of_others(
    tmp_path: Path, how: str, write: str
) -> None:
    codes = f"CREATE TABLE codes (id INTEGER PRIMARY KEY, code TEXT UNIQUE ON CONFLICT {how})"
    path = make_database(tmp_path, codes)
    run(
        tmp_path,
        ("a", "INSERT INTO codes VALUES (1, 'one')"),
        ("b", write),
        ("c", "INSERT INTO codes VALUES (2, 'one')"),
    )
    undone = undo_session(tmp_path, "b")

    assert "UNIQUE" in undone.rows[0].left
    with closing(sqlite3.connect(path)) as connection:
        assert [("one",)] == connection.execute("SELECT code FROM codes WHERE id = 2").fetchall()


def test_names_that_were_swapped_are_swapped_back(root: Path) -> None:
    run(root, ("a", "INSERT INTO tasks (id, code) VALUES (1, 'one'), (2, 'two')"))
    before = rows_of(root / DATABASE)
    run(
        root,
        ("b", "UPDATE tasks SET code = 'other' WHERE id = 1"),
        ("b", "UPDATE tasks SET code = 'one' WHERE id = 2"),
        ("b", "UPDATE tasks SET code = 'two' WHERE id = 1"),
    )

    assert not undo_session(root, "b").has_remainder
    assert before == rows_of(root / DATABASE)


def test_changes_by_a_trigger_of_the_app_are_undone_too(tmp_path: Path) -> None:
    trigger = (
        "CREATE TRIGGER stamp AFTER UPDATE ON tasks BEGIN "
        "UPDATE tasks SET whole = coalesce(whole, 0) + 1 WHERE id = NEW.id; END;"
    )
    make_database(tmp_path, trigger)
    run(tmp_path, ("a", "INSERT INTO tasks (id) VALUES (1)"))
    before = rows_of(tmp_path / DATABASE)
    run(tmp_path, ("b", "UPDATE tasks SET title = 'new'"))
    undo_session(tmp_path, "b")

    assert before == rows_of(tmp_path / DATABASE)
    run(tmp_path, ("c", "UPDATE tasks SET title = 'new'"))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        assert [(1,)] == connection.execute("SELECT whole FROM tasks").fetchall()


def test_rows_replaced_by_a_trigger_of_the_app_are_restored(tmp_path: Path) -> None:
    """With recursive triggers off, SQLite does not tell of the row that is replaced."""
    trigger = (
        "CREATE TRIGGER remember AFTER UPDATE ON tasks BEGIN "
        "INSERT OR REPLACE INTO pairs VALUES ('last', 1, NEW.title); "
        "INSERT OR IGNORE INTO pairs VALUES ('first', 1, NEW.title); END;"
    )
    make_database(tmp_path, trigger)
    run(
        tmp_path,
        ("a", "INSERT INTO tasks (id) VALUES (1)"),
        ("a", "UPDATE tasks SET title = 'old'"),
    )
    before = rows_of(tmp_path / DATABASE)
    run(tmp_path, ("b", "UPDATE tasks SET title = 'new'"))
    undone = undo_session(tmp_path, "b")

    assert not undone.has_remainder
    assert before == rows_of(tmp_path / DATABASE)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO tasks (id, code) VALUES (9, 'taken')",
        "UPDATE OR REPLACE tasks SET code = 'taken' WHERE id = 3",
        "UPDATE OR REPLACE tasks SET id = 2 WHERE id = 3",
    ],
)
def test_rows_ousted_by_another_key_are_restored(tmp_path: Path, statement: str) -> None:
    make_database(tmp_path, f"CREATE TRIGGER oust AFTER UPDATE ON homes BEGIN {statement}; END;")
    run(
        tmp_path,
        ("a", "INSERT INTO homes VALUES ('h', NULL)"),
        ("a", "INSERT INTO tasks (id, code) VALUES (1, 'one'), (2, 'taken'), (3, NULL)"),
    )
    before = rows_of(tmp_path / DATABASE)
    run(tmp_path, ("b", "UPDATE homes SET note = 'x'"))
    assert before != rows_of(tmp_path / DATABASE)
    undone = undo_session(tmp_path, "b")

    assert not undone.has_remainder
    assert before == rows_of(tmp_path / DATABASE)


def test_an_undo_can_be_undone(root: Path) -> None:
    run(root, ("a", "INSERT INTO tasks (id, title) VALUES (1, 'old'), (2, 'b')"))
    run(
        root,
        ("b", "UPDATE tasks SET title = 'new' WHERE id = 1"),
        ("b", "DELETE FROM tasks WHERE id = 2"),
        ("b", "INSERT INTO pairs VALUES ('k', 1, x'00')"),
    )
    after = rows_of(root / DATABASE)
    first = undo_session(root, "b")
    second = undo_session(root, first.session)

    assert after == rows_of(root / DATABASE)
    assert not second.has_remainder
    assert undo_session(root, "b").changed == first.changed


def test_a_second_undo_finds_nothing_to_do(root: Path) -> None:
    run(root, ("b", "INSERT INTO tasks (id) VALUES (1)"))
    undo_session(root, "b")

    assert (0, False) == (undo_session(root, "b").changed, undo_session(root, "b").has_remainder)


def test_a_dry_run_writes_nothing(root: Path) -> None:
    run(root, ("b", "INSERT INTO tasks (id) VALUES (1)"))
    before = rows_of(root / DATABASE)

    assert [("tasks", (1,), "deleted")] == row_results(undo_session(root, "b", dry_run=True))
    assert before == rows_of(root / DATABASE)
    assert [] == [*(root / ".ralph/backups").iterdir()]


def test_a_session_that_is_not_on_record_is_refused(root: Path) -> None:
    run(root, ("a", "INSERT INTO tasks (id) VALUES (1)"))
    with pytest.raises(MissingError, match='there is no session "e"'):
        undo_session(root, "e")


def test_without_a_ledger_it_is_refused(root: Path) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        ours = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ralphgen_%'"
        for (name,) in connection.execute(ours).fetchall():
            connection.execute(f"DROP TABLE {name}")
    with pytest.raises(ProjectError, match="ledger on"):
        undo_session(root, "a")


AGAIN = [
    ("a", "INSERT INTO tasks (id, title, whole, any) VALUES (1, 'old', 1, 1)"),
    ("b", "UPDATE tasks SET title = 'new', whole = 2"),
    ("c", "UPDATE tasks SET title = 'newer'"),
    ("d", "UPDATE tasks SET title = 'new'"),
]


def test_a_value_that_others_wrote_again_is_theirs(root: Path) -> None:
    run(root, *AGAIN)
    before = rows_of(root / DATABASE)
    undone = undo_session(root, "b")

    assert before == rows_of(root / DATABASE)
    assert [("tasks", (1,), "session d changed it later")] == row_results(undone)


def test_a_value_that_others_wrote_between_two_writes_is_not_lost(root: Path) -> None:
    run(root, *AGAIN, ("b", "UPDATE tasks SET title = 'newest'"))

    assert undo_session(root, "b").has_remainder


def test_a_row_that_others_deleted_and_made_again_is_theirs(root: Path) -> None:
    run(
        root,
        ("a", "INSERT INTO tasks (id, title) VALUES (1, 'old')"),
        ("b", "UPDATE tasks SET title = 'new'"),
        ("c", "DELETE FROM tasks"),
        ("c", "INSERT INTO tasks (id, title) VALUES (1, 'new')"),
    )

    assert undo_session(root, "b").has_remainder


def test_sessions_can_be_undone_one_after_another(root: Path) -> None:
    run(root, *AGAIN[:3])
    undo_session(root, "c")
    undone = undo_session(root, "b")

    assert [("tasks", (1,), "restored")] == row_results(undone)
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        assert [("old", 1)] == connection.execute("SELECT title, whole FROM tasks").fetchall()


def test_the_date_of_a_change_remains_if_others_changed_the_row(tmp_path: Path) -> None:
    """Both sessions write the same day, so the journal has the second one's date nowhere."""
    make_database(tmp_path, "ALTER TABLE tasks ADD COLUMN updated TEXT")
    run(
        tmp_path,
        ("a", "INSERT INTO tasks (id, title, whole) VALUES (1, 'old', 1)"),
        ("b", "UPDATE tasks SET title = 'new', updated = '2026-02-10'"),
        ("c", "UPDATE tasks SET whole = 2, updated = '2026-02-10'"),
    )
    undone = undo_session(tmp_path, "b")

    assert [("tasks", (1,), "restored")] == row_results(undone)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        row = connection.execute("SELECT title, whole, updated FROM tasks").fetchone()
    assert ("old", 2, "2026-02-10") == row


def test_the_date_goes_back_with_the_last_change(tmp_path: Path) -> None:
    make_database(tmp_path, "ALTER TABLE tasks ADD COLUMN updated TEXT")
    run(
        tmp_path,
        ("a", "INSERT INTO tasks (id, title, updated) VALUES (1, 'old', '2026-01-01')"),
        ("b", "UPDATE tasks SET title = 'new', updated = '2026-02-10'"),
        ("c", "UPDATE tasks SET whole = 2, updated = '2026-02-10'"),
    )
    undo_session(tmp_path, "c")
    undo_session(tmp_path, "b")

    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        row = connection.execute("SELECT title, whole, updated FROM tasks").fetchone()
    assert ("old", None, "2026-01-01") == row


def test_a_column_of_that_name_has_no_meaning_in_a_project_without_ralph(tmp_path: Path) -> None:
    make_database(tmp_path, "ALTER TABLE tasks ADD COLUMN updated TEXT")
    settings = 'kits = ["tables"]\n[tables.tasks]\n'
    (tmp_path / ".ralph/ralphgen.toml").write_text(settings, encoding="utf-8")
    run(
        tmp_path,
        ("a", "INSERT INTO tasks (id, title) VALUES (1, 'old')"),
        ("b", "UPDATE tasks SET title = 'new', updated = '2026-02-10'"),
        ("c", "UPDATE tasks SET whole = 2"),
    )
    undo_session(tmp_path, "b")

    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        assert [(None,)] == connection.execute("SELECT updated FROM tasks").fetchall()
