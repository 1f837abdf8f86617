"""A database is read in any state, without leaving a trace in it or its folder."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.database import PATIENCE, open_database, open_without_trace
from ralphgen.project.root import DATABASE

NOBODY = 65534
HOSTILE = [
    "plain",
    "a?b#c%20d",
    "%00 %2F",
    "two words",
    "line\nbreak",
    "quote'\"`",
    "&mode=rw",
    "🦆 é\u2028",
    "back\\slash",
    os.fsdecode(b"not UTF-8: \xff"),
]
# Each script opens sys.argv[1] in autocommit mode, as `db`.
OPEN = "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
WAIT = "print('ready', flush=True); sys.stdin.read()\n"
WAL_ROW = "db.execute('PRAGMA journal_mode = wal'); db.execute(\"INSERT INTO t VALUES ('new')\")\n"
CRASH = "os._exit(0)\n"
# Enough rows, with next to no cache, that the changed page goes to the file before the commit.
SPILL = (
    "db.execute('PRAGMA cache_size = 1'); db.execute('BEGIN')\n"
    "db.execute(\"UPDATE t SET a = 'torn'\")\n"
    "db.executemany('INSERT INTO filler VALUES (?)', [('x' * 500,)] * 2000)\n"
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks and permissions")


def make_database(path: Path, journal: str = "delete") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.execute("CREATE TABLE filler (a TEXT)")
        connection.execute("INSERT INTO t VALUES ('old')")
    return path


def run_script(path: Path, script: str) -> None:
    subprocess.run([sys.executable, "-c", OPEN + script, path], check=True, timeout=60)


@contextmanager
def other_process(path: Path, script: str) -> Iterator[None]:
    """Another process that has run `script` on the database and still holds it."""
    command = [sys.executable, "-c", OPEN + script + WAIT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def traces(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file with its bytes, time of change and mode."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode)
        for file in folder.iterdir()
    }


def rows(path: Path, *, patience: float = PATIENCE) -> list[str]:
    with open_without_trace(path, patience=patience) as connection:
        return [str(value) for (value,) in connection.execute("SELECT a FROM t")]


def rows_without_trace(path: Path) -> list[str]:
    """Return the rows; assert that reading changed nothing in the file or next to it."""
    before = traces(path.parent)
    found = rows(path)

    assert before == traces(path.parent)
    return found


def refusal(path: Path, *, patience: float = PATIENCE) -> tuple[str, str]:
    """The one sentence, without the path, and the hint."""
    with pytest.raises(ProjectError) as caught:
        rows(path, patience=patience)
    (problem,) = caught.value.problems
    return problem.text.replace(str(path), "X"), problem.hint


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "wal"])
def test_reading_leaves_no_trace(tmp_path: Path, journal: str) -> None:
    assert ["old"] == rows_without_trace(make_database(tmp_path / "ralph.db", journal))


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "wal"])
def test_no_writer_waits_for_who_reads_briefly(tmp_path: Path, journal: str) -> None:
    path = make_database(tmp_path / "ralph.db", journal)
    with other_process(path, "db.execute('SELECT a FROM t').fetchall()\n"):  # keeps the log
        before = traces(tmp_path)
        with open_without_trace(path, briefly=True) as connection:
            assert before == traces(tmp_path)
            run_script(
                path,
                "db.execute('PRAGMA busy_timeout = 0'); db.execute(\"UPDATE t SET a = 'new'\")\n",
            )

            assert [("old",)] == connection.execute("SELECT a FROM t").fetchall()
    assert ["new"] == rows(path)


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_any_folder_and_file_name_works(tmp_path: Path, journal: str) -> None:
    for name in HOSTILE:
        path = make_database(tmp_path / name / f"{name}.db", journal)
        assert ["old"] == rows_without_trace(path)
    assert {*HOSTILE} == {entry.name for entry in tmp_path.iterdir()}


def test_a_relative_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_database(tmp_path / "ralph.db")
    monkeypatch.chdir(tmp_path)

    assert ["old"] == rows(Path("ralph.db"))


@pytest.mark.slow
@pytest.mark.parametrize("script", ["", SPILL], ids=["in place", "in a copy"])
def test_nothing_can_be_written(tmp_path: Path, script: str) -> None:
    """A mistake of ours remains an error of SQLite, and is not mistaken for one of the file."""
    path = make_database(tmp_path / "ralph.db")
    run_script(path, script + CRASH)

    with open_without_trace(path) as connection:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM t")
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            connection.execute("SELECT * FROM missing")


@pytest.mark.slow
def test_rows_that_wait_in_a_wal_are_seen_while_another_process_holds_it(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db")

    with other_process(path, WAL_ROW):
        assert {"ralph.db", "ralph.db-shm", "ralph.db-wal"} == set(traces(tmp_path))
        assert ["old", "new"] == rows_without_trace(path)


@pytest.mark.slow
def test_rows_that_wait_in_a_wal_are_seen_after_a_crash(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db")
    run_script(path, WAL_ROW + CRASH)

    assert ["old", "new"] == rows_without_trace(path)


@pytest.mark.slow
def test_rows_that_wait_in_a_wal_are_seen_without_its_index(tmp_path: Path) -> None:
    """As in a copy of a project: SQLite itself would create the `-shm` and leave it."""
    path = make_database(tmp_path / "ralph.db")
    run_script(path, WAL_ROW + CRASH)
    (tmp_path / "ralph.db-shm").unlink()

    assert ["old", "new"] == rows_without_trace(path)
    assert {"ralph.db", "ralph.db-wal"} == set(traces(tmp_path))


@pytest.mark.slow
def test_a_wal_next_to_the_target_of_a_link_counts(tmp_path: Path) -> None:
    """SQLite looks next to the file itself, and so must we."""
    path = make_database(tmp_path / "real" / "ralph.db")
    run_script(path, WAL_ROW + CRASH)
    (tmp_path / "link.db").symlink_to(path)

    assert ["old", "new"] == rows(tmp_path / "link.db")


@pytest.mark.slow
def test_a_hot_journal_is_rolled_back_in_a_copy(tmp_path: Path) -> None:
    """Half-written pages of a crash are neither shown nor repaired in place."""
    path = make_database(tmp_path / "ralph.db")
    run_script(path, SPILL + CRASH)

    assert {"ralph.db", "ralph.db-journal"} == set(traces(tmp_path))
    assert b"torn" in path.read_bytes()
    assert ["old"] == rows_without_trace(path)


@pytest.mark.slow
def test_a_hot_journal_next_to_a_wal_database_is_rolled_back(tmp_path: Path) -> None:
    """A crash in the middle of switching to WAL; reading without locks would ignore it."""
    path = make_database(tmp_path / "ralph.db")
    run_script(path, SPILL + CRASH)
    with path.open("r+b") as stream:
        stream.seek(18)
        stream.write(b"\2\2")

    assert ["old"] == rows_without_trace(path)


@pytest.mark.slow
def test_no_copy_is_left_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_database(tmp_path / "project" / "ralph.db")
    run_script(path, SPILL + CRASH)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    with open_without_trace(path):
        assert 1 == len(list(temporary.iterdir()))
    assert [] == list(temporary.iterdir())


@pytest.mark.slow
def test_uncommitted_rows_are_not_seen(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db")

    with other_process(path, "db.execute('BEGIN IMMEDIATE'); db.execute('DELETE FROM t')\n"):
        assert {"ralph.db", "ralph.db-journal"} == set(traces(tmp_path))
        assert ["old"] == rows_without_trace(path)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["db.execute('BEGIN EXCLUSIVE')\n", SPILL])
def test_a_database_locked_by_another_process_is_refused(tmp_path: Path, script: str) -> None:
    """With a journal that is being written, and with none yet."""
    path = make_database(tmp_path / "ralph.db")

    with other_process(path, script):
        text, hint = refusal(path, patience=0.05)

    assert 'database "X" is locked by another process' == text
    assert hint


@pytest.mark.slow
def test_a_writer_that_ends_soon_is_waited_for(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db")
    command = [sys.executable, "-c", OPEN + "db.execute('BEGIN EXCLUSIVE')\n" + WAIT, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        timer = threading.Timer(0.2, process.kill)
        timer.start()

        assert ["old"] == rows(path)
        timer.join()


@pytest.mark.slow
def test_threads_wait_for_a_writer_at_the_same_time(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db")
    start = time.monotonic()

    with other_process(path, "db.execute('BEGIN EXCLUSIVE')\n"), ThreadPoolExecutor(20) as threads:
        found = list(threads.map(lambda _: refusal(path, patience=0.5)[0], range(20)))

    assert ['database "X" is locked by another process'] * 20 == found
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_the_connection_sees_one_moment(tmp_path: Path) -> None:
    """Commits of another process do not mix with earlier reads."""
    path = make_database(tmp_path / "ralph.db")

    with other_process(path, WAL_ROW), open_without_trace(path) as connection:
        run_script(path, "db.execute(\"INSERT INTO t VALUES ('later')\")\n")

        assert [("old",), ("new",)] == connection.execute("SELECT a FROM t").fetchall()
    assert "later" in rows(path)


@pytest.mark.slow
def test_a_change_under_a_reader_without_locks_is_reported(tmp_path: Path) -> None:
    path = make_database(tmp_path / "ralph.db", "wal")

    with (
        pytest.raises(ProjectError, match="changed while it was being read"),
        open_without_trace(path),
    ):
        run_script(path, "db.execute(\"INSERT INTO t VALUES ('later')\")\n")


def test_each_kind_of_invalid_database_has_its_sentence(tmp_path: Path) -> None:
    empty, text, folder, pipe = (tmp_path / name for name in ("empty", "text", "folder", "pipe"))
    empty.touch()
    text.write_text("SQLite format 4 is not out yet\n" * 9, encoding="utf-8")
    folder.mkdir()
    os.mkfifo(pipe)

    assert 'no database at "X"' == refusal(tmp_path / "missing")[0]
    assert 'no database at "X"' == refusal(text / "below")[0]
    assert 'database "X" is empty (0 bytes)' == refusal(empty)[0]
    assert 'database "X" is a directory, expected a file' == refusal(folder)[0]
    assert 'database "X" is not a regular file' == refusal(pipe)[0]
    assert 'it does not start with "SQLite format 3"' in refusal(text)[0]


def test_a_sentence_remains_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        rows(tmp_path / 'a\n"b"')

    assert str(caught.value.problems[0].text).endswith(r'/a\n\"b\""')


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.db"
    path.symlink_to(path)

    assert 'database "X" cannot be read: ' in refusal(path)[0]


@pytest.mark.parametrize("kept", [16, 60, 4096])
def test_a_file_that_was_cut_off_is_corrupt(tmp_path: Path, kept: int) -> None:
    path = make_database(tmp_path / "ralph.db")
    path.write_bytes(path.read_bytes()[:kept])

    assert 'database "X" is corrupt: ' in refusal(path)[0]


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_damaged_page_is_corrupt_however_late_it_is_met(tmp_path: Path, journal: str) -> None:
    path = make_database(tmp_path / "ralph.db", journal)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)

    assert 'database "X" is corrupt: database disk image is malformed' == refusal(path)[0]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="ralphgen-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        project = folder / "project"
        project.mkdir()
        yield project
        project.chmod(0o755)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Become another user, because permission bits do not restrict root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_refused(shared: Path) -> None:
    path = make_database(shared / "ralph.db")
    path.chmod(0)

    with as_ordinary_user():
        text, hint = refusal(path)

    assert 'database "X" cannot be read: permission denied' == text
    assert hint


@pytest.mark.slow
def test_a_wal_that_may_not_be_read_is_refused(shared: Path) -> None:
    """Reading without it would show rows of yesterday."""
    path = make_database(shared / "ralph.db")
    run_script(path, WAL_ROW + CRASH)
    (shared / "ralph.db-wal").chmod(0)

    with as_ordinary_user():
        text, _ = refusal(path)

    assert "cannot be read: " in text


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_read_only_folder_is_enough(shared: Path, journal: str) -> None:
    path = make_database(shared / "ralph.db", journal)
    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    shared.chmod(0o555)

    with as_ordinary_user():
        assert ["old"] == rows_without_trace(path)


@pytest.mark.slow
@pytest.mark.parametrize("index", [True, False], ids=["with index", "without index"])
def test_a_read_only_folder_with_a_wal_is_enough(shared: Path, *, index: bool) -> None:
    path = make_database(shared / "ralph.db")
    run_script(path, WAL_ROW + CRASH)
    if not index:
        (shared / "ralph.db-shm").unlink()
    for file in shared.iterdir():
        file.chmod(0o444)
    shared.chmod(0o555)

    with as_ordinary_user():
        assert ["old", "new"] == rows_without_trace(path)


@pytest.mark.slow
def test_a_read_only_folder_with_a_hot_journal_is_enough(shared: Path) -> None:
    path = make_database(shared / "ralph.db")
    run_script(path, SPILL + CRASH)
    for file in shared.iterdir():
        file.chmod(0o444)
    shared.chmod(0o555)

    with as_ordinary_user():
        assert ["old"] == rows_without_trace(path)


def test_a_statement_that_fails_is_an_error_of_the_project(tmp_path: Path) -> None:
    make_database(tmp_path / DATABASE)

    with (
        pytest.raises(ProjectError, match="database cannot be read: no such table: nowhere"),
        open_database(tmp_path) as connection,
    ):
        connection.rows("SELECT 1 FROM nowhere")
