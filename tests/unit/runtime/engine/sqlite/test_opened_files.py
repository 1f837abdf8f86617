"""A connection notices every change of its files, except those of SQLite itself."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError

UPDATE = "UPDATE notes SET text = ?"
CRASHED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("UPDATE notes SET text = 'crashed'")
connection.commit()
os._exit(1)
"""
IS_FREE = """
import fcntl, sys
with open(sys.argv[1] + "-shm", "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in WAL, and a copy of it."""
    path = tmp_path / "ralph.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE notes (text); INSERT INTO notes VALUES ('a');"
        )
    shutil.copyfile(path, path.with_name("copy.db"))
    os.utime(path, (0, 0))  # an immediate change would have the same time
    return path


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database(str(path))
    yield database
    database.close()


def write(database: Database, text: str) -> None:
    database.writing(lambda: database.change(UPDATE, (text,)))


def read_rows(path: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(path)) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        return connection.execute("SELECT text FROM notes").fetchall()


def put_copy(path: Path) -> None:
    """Overwrite the file in place."""
    shutil.copyfile(path.with_name("copy.db"), path)


def run(program: str, path: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, check=False)


def test_a_copy_over_the_file_is_noticed_however_long_after_a_checkpoint(
    path: Path, database: Database
) -> None:
    write(database, "b")
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    write(database, "c")
    put_copy(path)

    with pytest.raises(ToolError, match="was replaced during this session: nothing was changed"):
        write(database, "lost")
    with pytest.raises(ToolError, match="was replaced during this session"):
        database.reading(lambda: database.rows("SELECT text FROM notes"))


@pytest.mark.slow
def test_a_copy_is_noticed_after_a_crash(path: Path) -> None:
    """Its log is left; the index that SQLite rebuilds from it looks as if a checkpoint ran."""
    run(CRASHED, path)
    database = Database(str(path))
    put_copy(path)

    with pytest.raises(ToolError, match="was replaced during this session"):
        write(database, "lost")


def test_a_write_to_a_replaced_file_is_not_acknowledged(path: Path, database: Database) -> None:
    def work() -> None:
        database.change(UPDATE, ("unsure",))
        put_copy(path)

    write(database, "b")
    with pytest.raises(ToolError, match="look in a new session whether it is there"):
        database.writing(work)


def test_a_log_is_noticed_that_there_was_none_of_at_the_start(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    database = Database(str(path))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
    write(database, "kept")
    for end in ("-wal", "-shm"):
        path.with_name(f"ralph.db{end}").unlink()
    with pytest.raises(ToolError, match="was removed during this session"):
        write(database, "lost")
    database.close()

    assert [("kept",)] == read_rows(path)


@pytest.mark.slow
def test_of_two_connections_in_a_process_the_second_keeps_its_locks(path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes the file once."""
    first, second = Database(str(path)), Database(str(path))
    write(second, "b")
    first.close()
    tried = run(IS_FREE, path)
    write(second, "kept")
    second.close()

    assert b"BlockingIOError" in tried.stderr
    assert [("kept",)] == read_rows(path)
    assert ["copy.db", "ralph.db"] == sorted(file.name for file in path.parent.iterdir())


def open_indexes(path: Path) -> int:
    """Return the number of this process's descriptors on the database's index."""
    with closing(os.scandir("/proc/self/fd")) as found:
        places = [os.path.realpath(one.path) for one in found]
    return sum(place.startswith(f"{path}-shm") for place in places)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_who_opens_and_closes_for_ever_holds_no_more_descriptors(
    path: Path, database: Database
) -> None:
    """One connection of the process remains open, so that the index is never removed."""
    write(database, "b")
    held = open_indexes(path)
    for _ in range(5):
        other = Database(str(path))
        write(other, "c")
        other.close()

    assert held == open_indexes(path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_index_that_others_removed_later_is_closed_by_who_opens_next(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM notes").fetchall()
        Database(str(path)).close()
    again = Database(str(path))
    held = open_indexes(path)
    again.close()

    assert 2 == held  # SQLite's own, and ours
    assert 0 == open_indexes(path)
