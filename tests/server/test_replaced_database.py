"""A database that is replaced under a running server, as a version control system does."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from driving import connected, create_project, query


@pytest.fixture(params=["wal", "delete"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return create_project(tmp_path, f"PRAGMA journal_mode = {request.param};")


def test_nothing_is_read_from_or_written_to_a_database_that_is_gone(root: Path) -> None:
    """Writing beside the new file would spoil it: SQLite finds its log by the name."""
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
