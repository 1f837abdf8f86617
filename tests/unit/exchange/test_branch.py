"""Rows on a branch of their own travel between clones, and none is lost or doubled."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen, ran, refused
from driving import query
from git_merges import git
from row_branches import (
    OWN,
    TABLES,
    add_comment,
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


def test_the_branch_has_a_file_for_each_table_and_each_hundred_tasks(tmp_path: Path) -> None:
    root = first_clone(tmp_path)
    for task in (100, 101, 250):
        query(
            root,
            "INSERT INTO tasks (id, feature, discipline, title) VALUES (?, 'auth', 'backend', 'x')",
            task,
        )
    add_comment(root, 101, "here")
    status = git(root, "status", "--porcelain")

    done = synced(root)

    found = files(root)
    assert "no rows changed here; all rows are pushed\n" == done.stderr
    assert [
        "disciplines.jsonl",
        "features.jsonl",
        "metadata.jsonl",
        "task_comments-0002.jsonl",
        "tasks-0001.jsonl",
        "tasks-0002.jsonl",
        "tasks-0003.jsonl",
    ] == [*found]
    assert [1, 2, 100] == [
        json.loads(line)["row"]["id"] for line in found["tasks-0001.jsonl"].splitlines()
    ]
    assert sorted(rows_of(root).splitlines()) == sorted("".join(found.values()).splitlines())
    assert status == git(root, "status", "--porcelain")
    assert tip(root) == tip(tmp_path / "origin")


def test_a_clone_has_the_tasks_of_the_branch(first: Path) -> None:
    add_task(first, "Third", 1)
    synced(first)

    other = clone(first, "c")

    assert rows_of(first) == rows_of(other)
    assert tip(first) == tip(other)
    assert "up to date" in ralphgen("check", other).stderr


@pytest.mark.thorough
def test_three_clones_with_clashing_tasks_end_equal(first: Path, other: Path) -> None:
    a, b, c = first, other, clone(first, "c")
    add_task(a, "A one")
    add_task(a, "A two", number(a, "A one"), 1)
    add_comment(a, number(a, "A one"), "on A one")
    add_comment(a, 1, "A on 1")
    query(a, "UPDATE tasks SET status = 'done' WHERE id = 1")
    add_task(b, "B one")
    add_task(b, "B two", number(b, "B one"))
    add_task(b, "B three", number(b, "B two"), number(b, "B one"), 2)
    add_comment(b, number(b, "B one"), "on B one")
    query(b, "UPDATE tasks SET title = 'Signed in' WHERE id = 1")
    query(b, "UPDATE tasks SET depends_on = ? WHERE id = 2", f"[1, {number(b, 'B one')}]")
    add_task(c, "C one")
    add_task(c, "C two", number(c, "C one"))
    add_comment(c, number(c, "C one"), "on C one")

    outputs = [synced(root).stdout for root in (a, b, c, a, b)]

    assert rows_of(a) == rows_of(b) == rows_of(c)
    assert "" == outputs[0]
    assert "task 3 is now 6\ntask 4 is now 7\n" in outputs[1]
    assert [3, 4] == [number(a, title) for title in ("A one", "A two")]
    assert [3, 1] == needed(a, "A two")
    assert [number(a, "B two"), number(a, "B one"), 2] == needed(a, "B three")
    assert [number(a, "C one")] == needed(a, "C two")
    assert [1, number(a, "B one")] == needed(a, "Show the form")
    assert [("done", "Signed in")] == query(a, "SELECT status, title FROM tasks WHERE id = 1")
    for name in "ABC":
        sql = "SELECT task_id FROM task_comments WHERE body = ?"
        assert [(number(a, f"{name} one"),)] == query(a, sql, f"on {name} one")
    assert [0] * 3 == [ralphgen("check", root).returncode for root in (a, b, c)]
    assert "no rows changed here; all rows are pushed\n" == synced(c).stderr


def test_a_task_with_a_new_number_says_so(first: Path, other: Path) -> None:
    add_task(first, "Ours")
    add_task(other, "Theirs")
    synced(first)
    synced(other)

    assert [("was task 3",)] == query(other, "SELECT body FROM task_comments WHERE task_id = 4")
    found = ralphgen("task", "show", "3", "--project", other)
    assert "task 3: Ours" in found.stdout
    assert 'task 4 "Theirs" was task 3' in found.stderr


def test_a_comment_that_equals_one_on_a_clashing_task_gets_another_number(
    first: Path, other: Path
) -> None:
    for root, title in ((first, "A"), (other, "B")):
        add_comment(root, add_task(root, title), "said by both")
        query(root, "UPDATE task_comments SET created = '2026-01-01T00:00:00Z'")
    synced(first)
    synced(other)

    sql = (
        "SELECT task_comments.id, title FROM task_comments JOIN tasks ON tasks.id = task_id "
        "WHERE body = 'said by both' ORDER BY task_comments.id"
    )
    assert [(1, "A"), (2, "B")] == query(other, sql)


@pytest.mark.thorough
def test_own_tables_follow(tmp_path: Path) -> None:
    a = first_clone(tmp_path, OWN, config=TABLES)
    merge_rows(a)
    b = clone(a, "b")
    for root, name in ((a, "A"), (b, "B")):
        add_task(root, f"{name} one")
        query(
            root,
            "INSERT INTO customers (number, email, task, boss) "
            "VALUES (1, ?, ?, NULL), (2, ?, NULL, 1)",
            *(f"{name}@x.example", number(root, f"{name} one"), f"{name}2@x.example"),
        )

    for root in (a, b, a):
        synced(root)

    assert rows_of(a) == rows_of(b)
    sql = "SELECT email, title FROM customers JOIN tasks ON tasks.id = task ORDER BY email"
    assert [("A@x.example", "A one"), ("B@x.example", "B one")] == query(a, sql)
    sql = (
        "SELECT one.email, its.email FROM customers AS one "
        "JOIN customers AS its ON its.number = one.boss ORDER BY one.email"
    )
    assert [("A2@x.example", "A@x.example"), ("B2@x.example", "B@x.example")] == query(a, sql)


@pytest.mark.parametrize("place", [".", "linked"])
def test_a_relative_address_of_the_remote_starts_at_the_main_worktree(
    first: Path, place: str
) -> None:
    git(first, "remote", "set-url", "origin", "../origin")
    trusted(first)
    root = first
    if place == "linked":
        root = first.parent / "elsewhere/linked"
        git(first, "worktree", "add", "--quiet", "--detach", str(root))
    add_task(first, "Sell")

    done = synced(root)

    assert "no rows changed here; all rows are pushed\n" == done.stderr
    assert tip(first) == tip(first.parent / "origin")


def test_removals_follow(first: Path, other: Path) -> None:
    query(first, "DELETE FROM tasks WHERE id = 2")
    synced(first)

    assert "remove task 2\n" == synced(other).stdout
    assert rows_of(first) == rows_of(other)


def test_check_names_rows_that_are_behind(first: Path) -> None:
    add_task(first, "New")
    query(first, "UPDATE tasks SET title = 'x' WHERE id = 1")

    assert "the branch of the rows is behind: task 1, task 3\n" in refused("check", first, code=1)
    found = ralphgen("check", first, "--json")
    assert (False, ["task 1", "task 3"]) == (
        json.loads(found.stdout)["ok"],
        json.loads(found.stdout)["rows"],
    )
    (first / ".ralph/db/ralph.db").unlink()
    assert 0 == ralphgen("check", first).returncode


def test_a_dry_run_changes_nothing(first: Path, other: Path) -> None:
    add_task(first, "Ours")
    add_task(other, "Theirs")
    synced(first)
    before = rows_of(other), tip(other)

    shown = ran("sync", "--dry-run", "--project", other)

    assert 'task 3 is now 4\nadd task 3 "Ours"\n' == shown
    assert before == (rows_of(other), tip(other))


CLAIM = (
    "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires) "
    "VALUES (3, 's', 1, '2026-01-01T00:00:00Z', '2999-01-01T00:00:00Z')"
)


@pytest.mark.thorough
def test_a_task_in_work_waits_with_its_references_while_others_are_merged(
    first: Path, other: Path
) -> None:
    for root, name in ((first, "A"), (other, "B")):
        add_task(root, f"{name} one")
        add_task(root, f"{name} two")
        add_task(root, f"{name} three", 3)
        for task in (1, 3):
            add_comment(root, task, f"{name} on {task}")
    query(first, "UPDATE tasks SET hints = 'h', depends_on = '[3]' WHERE id = 2")
    query(first, "UPDATE tasks SET priority = 'high' WHERE id = 1")
    synced(first)
    query(other, CLAIM)

    for _ in range(2):
        done = synced(other)

        assert "skipped: task 3 is in work" in done.stderr
        assert "all rows are pushed" not in done.stderr
        assert [(3, "B one"), (4, "A two"), (5, "B three"), (7, "B two")] == query(
            other, "SELECT id, title FROM tasks WHERE id > 2"
        )
        assert [("high", None), (None, None)] == query(
            other, "SELECT priority, hints FROM tasks WHERE id < 3"
        )
        found = query(other, "SELECT body FROM task_comments WHERE task_id IN (1, 3)")
        assert [("A on 1",), ("B on 1",), ("B on 3",)] == sorted({*found} - {("late",)})
        synced(first)
        assert {"A one", "A two", "A three", "B two"} == {
            title for (title,) in query(first, "SELECT title FROM tasks WHERE id > 2")
        }
        found = query(first, "SELECT body FROM task_comments WHERE task_id IN (1, 3)")
        assert [("A on 1",), ("A on 3",), ("B on 1",)] == sorted(found)
        add_comment(other, 3, "late")
        query(first, "UPDATE tasks SET hints = 'later' WHERE id = 3")

    query(other, "UPDATE ralphgen_claims SET session = NULL, expires = NULL")
    assert "skipped" not in synced(other).stderr
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert [3] == needed(other, "A three") == needed(other, "Show the form")
    assert [number(other, "B one")] == needed(other, "B three")
    assert [(number(other, "B one"), 1)] == query(
        other, "SELECT task_id, token FROM ralphgen_claims"
    )
    found = query(other, "SELECT body, title FROM task_comments JOIN tasks ON tasks.id = task_id")
    assert {("A on 3", "A one"), ("B on 3", "B one"), ("late", "B one")} <= {*found}
    assert 0 == ralphgen("check", other).returncode


def test_a_conflict_skips_its_row_until_one_side_is_chosen(first: Path, other: Path) -> None:
    query(first, "UPDATE tasks SET title = 'One', hints = 'h' WHERE id = 1")
    query(other, "UPDATE tasks SET title = 'Two' WHERE id = 1")
    query(first, "UPDATE tasks SET hints = 'A' WHERE id = 2")
    add_task(first, "A one", 1)
    add_task(other, "B one", 1)
    add_comment(other, 1, "B on 1")
    synced(first)

    for _ in range(2):
        done = ralphgen("sync", "--project", other)
        assert (1, 1) == (done.returncode, done.stderr.count("is "))
        assert 'task 1: "title" is "Two" here and "One" there' in done.stderr
        assert [("Two", None)] == query(other, "SELECT title, hints FROM tasks WHERE id = 1")
        assert [("A",)] == query(other, "SELECT hints FROM tasks WHERE id = 2")
        assert {number(other, "A one"), number(other, "B one")} == {3, 4}
        synced(first)
        assert [("One", "h")] == query(first, "SELECT title, hints FROM tasks WHERE id = 1")
        assert 4 == number(first, "B one")
        assert ("B on 1",) in query(first, "SELECT body FROM task_comments")
        query(first, "UPDATE tasks SET priority = 'high' WHERE id = 1")

    assert 0 == ralphgen("sync", "--ours", "--project", other).returncode
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert [("Two", "h", "high")] == query(
        first, "SELECT title, hints, priority FROM tasks WHERE id = 1"
    )


@pytest.mark.thorough
def test_removed_rows_that_are_needed_are_conflicts_of_their_own(first: Path, other: Path) -> None:
    add_task(first, "A one")
    query(first, "DELETE FROM tasks WHERE id = 2")
    synced(first)
    add_comment(other, 2, "mine")
    add_task(other, "B one", 2)

    done = ralphgen("sync", "--project", other)

    assert (1, 'add task 3 "A one"') == (done.returncode, done.stdout.splitlines()[-1])
    assert "task 2 was deleted there, but " in done.stderr
    assert 3 == number(other, "A one")
    synced(first)
    assert [] == query(first, "SELECT id FROM tasks WHERE title = 'B one' OR id = 2")
    assert 0 == ralphgen("sync", "--ours", "--project", other).returncode
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert [2] == needed(first, "B one")
    assert 2 == number(first, "Show the form")


@pytest.mark.thorough
def test_a_new_row_that_needs_a_row_deleted_here_waits_for_a_decision(first: Path) -> None:
    sql = "INSERT INTO features (name, display_name, acronym) VALUES ('old', 'O', 'OL')"
    query(first, sql)
    synced(first)
    other = clone(first, "c")
    query(other, "DELETE FROM features WHERE name = 'old'")
    sql = "INSERT INTO tasks (feature, discipline, title) VALUES ('old', 'backend', 'A one')"
    query(first, sql)
    synced(first)

    done = ralphgen("sync", "--project", other)

    assert 1 == done.returncode
    assert 'task 3 needs the row "old" of features, which was deleted here' in done.stderr
    synced(first)
    assert 3 == number(first, "A one")
    assert 0 == ralphgen("sync", "--ours", "--project", other).returncode
    synced(first)
    assert rows_of(first) == rows_of(other)
    assert 3 == number(other, "A one")
