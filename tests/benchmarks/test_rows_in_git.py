"""A year of rows in git, 5,000 tasks and 10,000 comments: what comparing and merging them costs."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from figures import topic
from row_branches import clone, first_clone, rows_of
from test_whole_commands import RALPHGEN, processor_time

pytestmark = pytest.mark.benchmark

TASKS, COMMENTS = 5_000, 10_000
NEW, CHANGED = 50, 200  # on each side, between two merges
ROUNDS = 7
MOST_OF_CHECK, MOST_OF_EXPORT = 2.0, 3.0


def fill(root: Path) -> None:
    """Add the rows of a year."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as database, database:
        database.executemany(
            "INSERT INTO tasks (id, feature, discipline, title, description, depends_on, status) "
            "VALUES (?, 'auth', 'backend', ?, ?, ?, 'done')",
            [
                (task, f"Task {task}", "x" * 400, f"[{task - 1}]" if task % 3 == 0 else "[]")
                for task in range(3, TASKS + 1)
            ],
        )
        database.executemany(
            "INSERT INTO task_comments (task_id, author, body) VALUES (?, 'me', ?)",
            [(1 + 7_919 * number % TASKS, "y" * 200) for number in range(COMMENTS)],
        )


def work(root: Path, name: str, part: int) -> None:
    """Add tasks and change others: each clone its own."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as database, database:
        database.executemany(
            "INSERT INTO tasks (feature, discipline, title) VALUES ('auth', 'backend', ?)",
            [(f"{name} {number}",) for number in range(NEW)],
        )
        changed = range(2 + part, TASKS, TASKS // CHANGED // 2 * 2)
        database.executemany(
            "UPDATE tasks SET hints = ? WHERE id = ?", [(name, task) for task in changed]
        )


def test_rows_in_git(tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    fill(first)
    with topic("Rows in git") as table:
        written = processor_time([RALPHGEN, "sync"], {}, first)
        other = clone(first, "b")
        without = shutil.copytree(other, tmp_path / "without")
        (without / ".ralph/ralphgen.toml").unlink()
        for at in range(ROUNDS):
            table.add(
                "check without rows", "CPU ms", processor_time([RALPHGEN, "check"], {}, without)
            )
            table.add("check with rows", "CPU ms", processor_time([RALPHGEN, "check"], {}, other))
            work(first, f"a{at}", 0)
            work(other, f"b{at}", 1)
            processor_time([RALPHGEN, "sync"], {}, first)
            table.add("export", "CPU ms ", processor_time([RALPHGEN, "export"], {}, other))
            table.add(
                "sync after work on both sides",
                "CPU ms ",
                processor_time([RALPHGEN, "sync"], {}, other),
            )
            processor_time([RALPHGEN, "sync"], {}, first)
        table.add("first sync", "CPU ms  ", written)
        checked = table.ratio("check with rows", "CPU ms")
        merged = table.ratio("sync after work on both sides", "CPU ms ")

    assert rows_of(first) == rows_of(other)
    assert MOST_OF_CHECK >= (checked or 0)
    assert MOST_OF_EXPORT >= (merged or 0)
