"""Unusual clones, tables and branches: rows are merged, or refused in a sentence."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen, refused
from driving import query
from git_merges import git
from row_branches import (
    BRANCH,
    add_task,
    clone,
    files,
    first_clone,
    merge_rows,
    needed,
    number,
    pair,
    rows_of,
    synced,
    tip,
    trusted,
)

pytestmark = pytest.mark.slow

NOTES = "CREATE TABLE notes (task INTEGER PRIMARY KEY REFERENCES tasks (id), note TEXT)"
MARKS = (
    "CREATE TABLE marks (task INTEGER REFERENCES tasks (id), name TEXT, value TEXT, "
    "PRIMARY KEY (task, name))"
)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two clones whose rows are on the remote."""
    return pair(tmp_path)


@pytest.fixture
def first(two: tuple[Path, Path]) -> Path:
    """One of the two clones."""
    return two[0]


@pytest.fixture
def other(two: tuple[Path, Path]) -> Path:
    """The other one, which has the same rows."""
    return two[1]


@pytest.mark.thorough
def test_rows_with_the_number_of_their_task_follow_it(tmp_path: Path) -> None:
    a = first_clone(tmp_path, NOTES, MARKS, config="\n[tables.notes]\n[tables.marks]\n")
    merge_rows(a)
    b = clone(a, "b")
    for root, name in ((a, "A"), (b, "B")):
        for title in ("one", "two", "three"):
            add_task(root, f"{name} {title}")
        query(
            root,
            "INSERT INTO notes (task, note) VALUES (3, ?), (5, ?)",
            f"{name} one",
            f"{name} three",
        )
        query(
            root,
            "INSERT INTO marks (task, name, value) VALUES (3, 'x', ?), (5, 'y', ?)",
            f"{name} one",
            f"{name} three",
        )
    query(b, "INSERT INTO notes (task, note) VALUES (4, 'B two')")

    for root in (a, b, a):
        synced(root)

    assert rows_of(a) == rows_of(b)
    for table, column in (("notes", "note"), ("marks", "value")):
        found = query(b, f"SELECT title, {column} FROM {table} JOIN tasks ON tasks.id = task")
        assert 4 <= len(found)
        assert [] == [one for one in found if one[0] != one[1]]


def test_a_new_database_never_removes_the_rows_of_the_branch(first: Path) -> None:
    add_task(first, "A one")
    synced(first)
    query(first, "DELETE FROM tasks")
    query(first, "UPDATE ralphgen_ledger SET rows_imported = NULL, rows_exported = NULL")

    synced(first)

    assert 3 == number(first, "A one")


@pytest.mark.thorough
def test_clones_with_databases_from_before_the_branch_are_merged(tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    other = clone(first, "b")
    add_task(other, "B one")
    add_task(first, "A one")
    synced(first)

    done = ralphgen("sync", "--project", other)

    assert (1, 1) == (done.returncode, done.stderr.count("error: "))
    assert 'the row "1" of metadata: ' in done.stderr
    assert 0 == ralphgen("sync", "--theirs", "--project", other).returncode
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert {"A one", "B one"} <= {title for (title,) in query(other, "SELECT title FROM tasks")}


@pytest.mark.parametrize("largest", [2**53 - 1])
def test_numbers_never_exceed_the_largest_that_the_branch_can_have(
    first: Path, other: Path, largest: int
) -> None:
    add_task(first, "A one")
    query(first, "UPDATE tasks SET id = ? WHERE title = 'A one'", largest)
    query(
        first,
        "INSERT INTO tasks (id, feature, discipline, title) VALUES (3, 'auth', 'backend', 'A 3')",
    )
    query(
        other,
        "INSERT INTO tasks (id, feature, discipline, title) VALUES (3, 'auth', 'backend', 'B 3')",
    )
    synced(first)
    before = rows_of(other)

    text = refused("sync", "--project", other, code=1)

    assert str(largest) in text
    assert before == rows_of(other)


def test_a_deleted_branch_is_made_again(first: Path) -> None:
    add_task(first, "A one")
    git(first.parent / "origin", "branch", "-D", BRANCH)
    synced(first)
    assert tip(first) == tip(first.parent / "origin")


@pytest.mark.thorough
def test_offline_changes_are_synced_later(first: Path, other: Path) -> None:
    origin = first.parent / "origin"
    origin.rename(first.parent / "away")
    add_task(first, "A one")
    before = rows_of(first)
    text = refused("sync", "--project", first)
    assert "cannot read the branches of the remote" in text
    assert before == rows_of(first)
    (first.parent / "away").rename(origin)
    add_task(other, "B one")
    synced(other)
    synced(first)
    synced(other)
    assert rows_of(first) == rows_of(other)


@pytest.mark.thorough
def test_the_undo_of_a_sync_is_pushed_by_the_next(first: Path, other: Path) -> None:
    query(first, "UPDATE tasks SET hints = 'h' WHERE id = 1")
    add_task(first, "A one")
    synced(first)
    undo = [line for line in synced(other).stderr.splitlines() if "undo: " in line]
    session = undo[0].split()[-1]
    assert 0 == ralphgen("undo", session, "--yes", "--project", other).returncode
    synced(other)
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert [(None,)] == query(first, "SELECT hints FROM tasks WHERE id = 1")
    assert [] == query(first, "SELECT id FROM tasks WHERE title = 'A one'")


@pytest.mark.thorough
def test_a_question_and_a_session_of_another_clone_are_named(first: Path, other: Path) -> None:
    query(first, "UPDATE tasks SET status = 'blocked', blocked_by = 'Which unit?' WHERE id = 1")
    query(
        first,
        "INSERT INTO ralphgen_questions (task_id, session, asked, question, options) "
        "VALUES (1, 's1', '2026-01-01', 'Which unit?', '[]')",
    )
    synced(first)
    synced(other)
    git(other, "commit", "--quiet", "--allow-empty", "-m", "x\n\nRalphgen-Session: s1.x")
    commit = tip(other, "HEAD")[:7]

    def said(root: Path, *words: str) -> str:
        done = ralphgen(*words, "--project", root)
        return " ".join((done.stdout + done.stderr).split())

    assert "Which unit? (asked in another clone)" in said(other, "status")
    assert "asked in another clone: task 1" in said(other, "task", "list", "--questions")
    answer = said(other, "task", "answer", "1", "EUR")
    assert "error: the question of task 1 is in another clone" in answer
    steps = "ralphgen task comment 1 TEXT && ralphgen task status 1 pending && ralphgen sync"
    assert steps in answer
    undo = said(other, "undo", "s1.x")
    assert f'error: session "s1.x" ran in another clone, which merged {commit}' in undo
    assert 'there is no session "s1" on record' in said(other, "undo", "s1")
    assert "another clone" not in said(first, "status")
    assert "answered question 1" in said(first, "task", "answer", "1", "EUR")


@pytest.mark.thorough
def test_a_task_that_was_blocked_here_was_not_asked_in_another_clone(first: Path) -> None:
    words = ("task", "status", "1", "blocked", "--reason", "No unit")
    assert 0 == ralphgen(*words, "--project", first).returncode
    query(first, "UPDATE tasks SET blocked_by = 'Which unit?' WHERE id = 1")
    answer = ralphgen("task", "answer", "1", "EUR", "--project", first)
    assert "task 1 has no open question" in answer.stderr
    assert "another clone" not in ralphgen("status", "--project", first).stdout
    synced(first)
    git(first.parent, "clone", "--quiet", "origin", "c")
    new = first.parent / "c"
    assert 0 == ralphgen("init", new, "--no-install", "--yes").returncode
    assert "asked in another clone" in ralphgen("status", "--project", new).stdout


def test_features_that_both_made_wait_for_a_decision_with_their_tasks(
    first: Path, other: Path
) -> None:
    for root, name in ((first, "A"), (other, "B")):
        query(
            root,
            "INSERT INTO features (name, display_name, acronym) VALUES ('new', ?, 'NW')",
            name,
        )
        query(
            root,
            "INSERT INTO tasks (feature, discipline, title) VALUES ('new', 'backend', ?)",
            f"{name} new",
        )
        add_task(root, f"{name} one")
    synced(first)
    done = ralphgen("sync", "--project", other)
    assert 1 == done.returncode
    assert "of features" in done.stderr
    assert {"A one", "B one"} <= {title for (title,) in query(other, "SELECT title FROM tasks")}
    assert 0 == ralphgen("sync", "--theirs", "--project", other).returncode
    synced(first)
    assert rows_of(first) == rows_of(other)
    titles = sorted(title for (title,) in query(first, "SELECT title FROM tasks WHERE id > 2"))
    assert ["A new", "A one", "B new", "B one"] == titles


def test_init_offers_the_rows_of_the_branch(first: Path) -> None:
    folder = first.parent
    git(folder, "clone", "--quiet", "origin", "c")
    with_rows = ralphgen("init", folder / "c", "--no-install")
    git(folder / "c", "update-ref", "-d", f"refs/remotes/origin/{BRANCH}")
    without = ralphgen("init", folder / "c", "--no-install")

    assert f'"create one with the rows of the branch "origin/{BRANCH}"?"' in with_rows.stderr
    assert "create an empty one with the tables of " in without.stderr
    command = '"ralphgen export FILE" there and "ralphgen import FILE" here'
    assert f"if another clone has its rows, copy the database, or run {command}" in without.stderr


@pytest.mark.thorough
def test_a_shallow_clone_of_one_branch_syncs(first: Path) -> None:
    add_task(first, "A one")
    synced(first)
    query(first, "UPDATE tasks SET hints = 'x' WHERE id = 1")
    synced(first)
    folder = first.parent
    git(folder, "clone", "--quiet", "--depth=1", f"file://{folder}/origin", "c")
    root = folder / "c"
    done = ralphgen("init", root, "--yes", "--no-install", "--quiet")
    assert 0 == done.returncode, done.stderr
    trusted(root)
    add_task(first, "A two")
    synced(first)
    assert 0 == ralphgen("sync", "--theirs", "--project", root).returncode
    add_task(root, "C one")
    add_task(first, "A three")
    synced(first)
    synced(root)
    synced(first)
    assert rows_of(first) == rows_of(root)


@pytest.mark.thorough
def test_an_older_copy_of_the_database_catches_up(first: Path, other: Path) -> None:
    place = other / ".ralph/db"
    shutil.copytree(place, other.parent / "kept")
    add_task(other, "B one")
    query(other, "UPDATE tasks SET hints = 'h' WHERE id = 1")
    synced(other)
    shutil.rmtree(place)
    shutil.copytree(other.parent / "kept", place)
    add_task(other, "B later")
    synced(other)
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert (3, 4) == (number(first, "B one"), number(first, "B later"))
    assert [("h",)] == query(first, "SELECT hints FROM tasks WHERE id = 1")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"table": "ralphgen_claims", "row": {"task_id": 1}}, 'rows of "ralphgen_claims"'),
        ({"table": "tasks", "row": {"id": 9, "title": ["x"]}}, "expected a string"),
    ],
    ids=["ledger", "list"],
)
def test_rows_that_do_not_fit_are_named(first: Path, line: object, problem: str) -> None:
    origin = first.parent / "origin"
    work = first.parent / "w"
    git(first.parent, "clone", "--quiet", "--branch", BRANCH, str(origin), "w")
    path = work / "tasks-0001.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + json.dumps(line) + "\n", encoding="utf-8")
    git(work, "commit", "--quiet", "--all", "--message=x")
    git(work, "push", "--quiet", "origin", BRANCH)
    before = rows_of(first)

    text = refused("sync", "--project", first, code=1)

    assert problem in text
    assert before == rows_of(first)


@pytest.mark.thorough
def test_a_giant_row_travels(first: Path, other: Path) -> None:
    query(first, "UPDATE tasks SET description = ? WHERE id = 1", "ä\u2028\n" * 1_000_000)
    synced(first)
    synced(other)
    assert rows_of(first) == rows_of(other)
    assert [*files(first)] == [*files(other)]
    assert [] == needed(other, "Log in")
