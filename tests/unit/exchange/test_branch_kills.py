"""Syncs that race or are killed lose no row, and do nothing twice."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from git_merges import GIT, git
from row_branches import (
    add_comment,
    add_task,
    clone,
    first_clone,
    merge_rows,
    number,
    rows_of,
    synced,
    tip,
)

pytestmark = pytest.mark.slow

RALPHGEN = str(Path(sys.executable).with_name("ralphgen"))
KILLER = """#!/bin/sh
case " $* " in
*" {word} "*) {act} ;;
esac
exec {git} "$@"
"""
BEFORE, AFTER = "kill -9 $PPID; exit 1", '{git} "$@"; kill -9 $PPID; exit 1'
POINTS = {
    "before the fetch": ("fetch", BEFORE),
    "after the fetch": ("fetch", AFTER),
    "before the import": ("cat-file", BEFORE),
    "after the import": ("hash-object", BEFORE),
    "before the commit": ("commit-tree", BEFORE),
    "after the commit": ("commit-tree", AFTER),
    "before the branch moves": ("update-ref", BEFORE),
    "after the branch moved": ("update-ref", AFTER),
    "before the push": ("push", BEFORE),
    "after the push": ("push", AFTER),
}


def killed(root: Path, point: str, folder: Path) -> int:
    """Sync with a git that kills the command at one point; return the exit code."""
    word, act = POINTS[point]
    folder.mkdir()
    script = folder / "git"
    text = KILLER.format(word=word, act=act.replace("{git}", GIT), git=GIT)
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    done = ralphgen("sync", "--project", root, more={"PATH": f"{folder}:/usr/bin:/bin"}, fresh=True)
    return done.returncode


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_sync_is_completed_by_the_next(point: str, tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    merge_rows(first)
    other = clone(first, "b")
    for root, name in ((first, "A"), (other, "B")):
        add_task(root, f"{name} one")
        add_task(root, f"{name} two", number(root, f"{name} one"))
        add_comment(root, number(root, f"{name} one"), f"on {name} one")
    query(first, "DELETE FROM tasks WHERE id = 2")
    synced(first)

    assert -9 == killed(other, point, tmp_path / "bin")
    query(other, "UPDATE tasks SET hints = 'later' WHERE title IN ('A one', 'B one')")
    synced(other)
    synced(first)

    assert rows_of(first) == rows_of(other)
    titles = [title for (title,) in query(first, "SELECT title FROM tasks")]
    assert sorted(["Log in", "A one", "A two", "B one", "B two"]) == sorted(titles)
    found = query(first, "SELECT body, title FROM task_comments JOIN tasks ON tasks.id = task_id")
    on = [(f"on {name} one", f"{name} one") for name in "AB"]
    assert on == sorted(one for one in found if one[0].startswith("on "))
    assert {"later"} >= {one for (one,) in query(first, "SELECT hints FROM tasks") if one}


def test_clones_that_push_at_the_same_time_all_get_through(tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    merge_rows(first)
    roots = [first, *(clone(first, name) for name in "bcd")]
    for turn in range(3):
        for root in roots:
            add_task(root, f"{root.name} {turn}")
            add_comment(root, number(root, f"{root.name} {turn}"), f"on {root.name} {turn}")
        running = [
            subprocess.Popen([RALPHGEN, "sync", "--project", root], stderr=subprocess.PIPE)
            for root in roots
        ]
        for process in running:
            errors = process.communicate()[1]
            assert 0 == process.returncode, errors
    for root in roots:
        synced(root)

    assert 1 == len({rows_of(root) for root in roots})
    titles = Counter(title for (title,) in query(first, "SELECT title FROM tasks"))
    expected = [f"{root.name} {turn}" for root in roots for turn in range(3)]
    assert Counter([*expected, "Log in", "Show the form"]) == titles
    found = query(first, "SELECT body, title FROM task_comments JOIN tasks ON tasks.id = task_id")
    said = sorted(body.removeprefix("on ") for body, title in found if body == f"on {title}")
    assert sorted(expected) == said


def test_processes_of_one_clone_wait_for_each_other(tmp_path: Path) -> None:
    root = first_clone(tmp_path)
    add_task(root, "One")
    words = [RALPHGEN, "sync", "--project", str(root)]
    running = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(4)]

    assert [0] * 4 == [process.wait() for process in running]
    for process in running:
        process.communicate()
    assert 1 == len(git(root, "log", "--oneline", tip(root)).splitlines())


def test_the_ledger_follows_a_number(tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    merge_rows(first)
    other = clone(first, "b")
    add_task(first, "A one")
    query(first, "UPDATE tasks SET status = 'done' WHERE id = 1")
    synced(first)
    words = ("task", "add", "B one", "--feature", "auth", "--discipline", "backend")
    assert 0 == ralphgen(*words, "--project", other).returncode
    assert 0 == ralphgen("task", "comment", "3", "hi", "--project", other).returncode
    query(
        other,
        "INSERT INTO ralphgen_evidence (task_id, check_name, definition, started, seconds, tree) "
        "VALUES (3, 'tests', 'd', 'x', 1, 't')",
    )
    git(other, "branch", "ralph/task-3-1")
    git(other, "update-ref", "refs/ralph/kept/3", "HEAD")
    created = query(other, "SELECT session FROM ralphgen_journal WHERE tool = 'create_task'")

    done = synced(other)

    assert "task 3 is now 4" in done.stdout
    assert [("tests",)] == query(
        other, "SELECT check_name FROM ralphgen_evidence WHERE task_id = 4"
    )
    assert [("imported",)] == [
        (name.strip("()"),)
        for (name,) in query(other, "SELECT check_name FROM ralphgen_evidence WHERE task_id = 1")
    ]
    assert "ralph/task-4-1" in git(other, "branch", "--list", "ralph/*")
    assert tip(other, "HEAD") == tip(other, "refs/ralph/kept/4")
    assert "B one" in ralphgen("log", "--task", "4", "--json", "--project", other).stdout
    assert "B one" not in ralphgen("log", "--task", "3", "--json", "--project", other).stdout
    query(other, "DELETE FROM task_comments")  # rows that refer to it keep it
    undone = ralphgen("undo", created[0][0], "--yes", "--project", other)
    assert 0 == undone.returncode, undone.stdout
    assert [] == query(other, "SELECT id FROM tasks WHERE title = 'B one'")
