"""Files of the database that are removed or replaced under a running server.

Version control does so (`git clean -fdX`, a checkout), and who puts a copy back.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from driving import connected, create_project, query


@pytest.fixture(params=["wal", "delete"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return create_project(tmp_path, f"PRAGMA journal_mode = {request.param};")


def test_nothing_is_read_from_or_written_to_a_database_that_is_gone(root: Path) -> None:
    """Writing next to the new file would corrupt it: SQLite finds its log by the name."""
    path = root / ".ralph" / "db" / "ralph.db"
    with connected(root) as driver:
        driver.call("get_task", id=1)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM INTO ?", [str(path.with_name("other.db"))])
        path.unlink()
        path.with_name("other.db").rename(path)
        refusals = {
            driver.refusal("get_task", id=1),
            driver.refusal("update_task", id=1, title="Lost"),
        }

    (refusal,) = refusals
    assert "the database was replaced during this session" in refusal
    assert [("ok",)] == query(root, "PRAGMA integrity_check")
    assert [("Log in",)] == query(root, "SELECT title FROM tasks WHERE id = 1")


def logged(root: Path) -> tuple[Path, Path, Path]:
    """The database, its log and the index of that, which are there while it is open in WAL."""
    path = root / ".ralph" / "db" / "ralph.db"
    return path, path.with_name("ralph.db-wal"), path.with_name("ralph.db-shm")


@pytest.fixture
def in_wal(tmp_path: Path) -> Path:
    return create_project(tmp_path, "PRAGMA journal_mode = WAL;")


@pytest.mark.parametrize("gone", [(1, 2), (1,), (2,)], ids=["both", "log", "index"])
def test_acknowledged_writes_outlive_a_removed_log(in_wal: Path, gone: tuple[int, ...]) -> None:
    with connected(in_wal) as driver, connected(in_wal) as second:
        driver.call("update_task", id=1, title="Kept")
        second.call("update_task", id=2, title="Kept too")
        for index in gone:
            logged(in_wal)[index].unlink()
        refusals = [
            driver.refusal("update_task", id=1, title="Lost"),
            driver.refusal("get_task", id=1),
            second.refusal("update_task", id=1, title="Lost"),
        ]
        # Another program, which makes another log, finds it all, and so it is at the end.
        found = [query(in_wal, "SELECT title FROM tasks ORDER BY id")]
    found.append(query(in_wal, "SELECT title FROM tasks ORDER BY id"))

    assert all("was removed during this session" in refusal for refusal in refusals)
    assert all("nothing was changed; start a new session" in refusal for refusal in refusals)
    assert [("ok",)] == query(in_wal, "PRAGMA integrity_check")
    assert [[("Kept",), ("Kept too",)]] * 2 == found


def test_writes_without_the_removed_log_are_intact(in_wal: Path) -> None:
    """The next program to open the database creates another log, unknown to running servers."""
    _, log, index = logged(in_wal)
    with connected(in_wal) as driver:
        driver.call("update_task", id=1, title="Before")
        log.unlink()
        index.unlink()
        for number in range(100):
            query(in_wal, "UPDATE tasks SET description = ? WHERE id = 2", f"written {number}" * 99)
        refusal = driver.refusal("update_task", id=2, title="Lost")

    assert "the database was replaced during this session" in refusal
    assert [("ok",)] == query(in_wal, "PRAGMA integrity_check")
    assert [("Show the form", "written 99" * 99)] == query(
        in_wal, "SELECT title, description FROM tasks WHERE id = 2"
    )


def test_a_copy_that_is_put_over_the_database_is_not_written_to(in_wal: Path) -> None:
    path, log, _ = logged(in_wal)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", [str(path.with_name("copy.db"))])
    copied = path.with_name("copy.db").read_bytes()
    with connected(in_wal) as driver:
        for number in range(300):  # more than one checkpoint
            driver.call("update_task", id=1, description=f"{number}" * 5000)
        shutil.copyfile(path.with_name("copy.db"), path)
        logged_before = log.read_bytes()
        refusals = {
            driver.refusal("update_task", id=1, title="Lost"),
            driver.refusal("get_task", id=1),
        }

    (refusal,) = refusals
    assert "the database was replaced during this session: nothing was changed" in refusal
    assert (copied, logged_before) == (path.read_bytes(), log.read_bytes())


def test_normal_use_by_other_programs_is_not_a_replacement(in_wal: Path) -> None:
    path, _, _ = logged(in_wal)
    with connected(in_wal) as driver, connected(in_wal) as second:
        for number in range(30):
            driver.call("update_task", id=1, title=f"First {number}")
            with closing(sqlite3.connect(path)) as connection:
                mode = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")[number % 4]
                connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            second.call("update_task", id=2, title=f"Second {number}")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM")
        driver.call("update_task", id=1, title="First")
        second.call("get_task", id=1)

    assert [("First",), ("Second 29",)] == query(in_wal, "SELECT title FROM tasks ORDER BY id")


def test_an_index_that_is_cut_off_is_not_read(in_wal: Path) -> None:
    """SQLite would: it has the file in its memory, and the system ends a process that reads it."""
    with connected(in_wal) as driver:
        driver.call("update_task", id=1, title="Kept")
        os.truncate(logged(in_wal)[2], 0)
        refusals = {
            driver.refusal("update_task", id=1, title="Lost"),
            driver.refusal("get_task", id=1),
        }

    (refusal,) = refusals
    assert "the database was replaced during this session" in refusal
    assert [("Kept",)] == query(in_wal, "SELECT title FROM tasks WHERE id = 1")
