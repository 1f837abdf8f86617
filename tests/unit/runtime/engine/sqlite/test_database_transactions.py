"""Transactions: wholly or not at all, in patience, and never left open."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from waiting import reading_requests

from ralphgen.runtime.deferred import Waiter, wait_as
from ralphgen.runtime.engine import PATIENCE
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import DeferError, StartError, ToolError

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
SCHEMA = """
CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE CHECK (name <> 'bad'));
CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents (id), note TEXT) STRICT;
CREATE TABLE both_or_none (n INTEGER PRIMARY KEY);
CREATE TRIGGER guard BEFORE UPDATE ON parents
    WHEN NEW.name = 'guarded' BEGIN SELECT RAISE(ABORT, 'guarded names stay'); END;
INSERT INTO parents VALUES (1, 'one');
"""
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from ralphgen.runtime.engine.sqlite.database import Database
database = Database(sys.argv[1])
def work():
    n = database.row("SELECT COALESCE(MAX(n), 0) + 1 FROM both_or_none")[0]
    database.change("INSERT INTO both_or_none VALUES (?)", [n])
    database.change("INSERT INTO children VALUES (1, ?)", ["x" * 20_000])
    return n
while True:
    print(database.writing(work), flush=True)
"""
Work = Callable[[Database], object]


@pytest.fixture(params=["delete", "wal"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "test.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(f"PRAGMA journal_mode = {request.param}; {SCHEMA}")
    return file


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened = Database(str(path), patience=0.3)
    yield opened
    opened.close()


@pytest.fixture
def foreign(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection."""
    with closing(
        sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    ) as connection:
        yield connection


def add(database: Database, name: str = "two") -> Callable[[], int]:
    return lambda: database.change("INSERT INTO parents (name) VALUES (?)", [name])


def names(foreign: sqlite3.Connection) -> list[str]:
    return [row[0] for row in foreign.execute("SELECT name FROM parents ORDER BY id")]


def test_work_that_fails_half_way_leaves_nothing(
    database: Database, foreign: sqlite3.Connection
) -> None:
    def work() -> None:
        add(database)()
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        database.writing(work)

    assert not database.connection.in_transaction
    assert ["one"] == names(foreign)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_internal_fault_leaves_nothing_either(
    database: Database, foreign: sqlite3.Connection, error: type[BaseException]
) -> None:
    def work() -> None:
        add(database)()
        raise error

    with pytest.raises(error):
        database.writing(work)

    assert not database.connection.in_transaction
    assert ["one"] == names(foreign)


def test_a_lock_held_beyond_patience_is_a_clear_refusal(
    database: Database, foreign: sqlite3.Connection
) -> None:
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(ToolError) as caught:
        database.writing(add(database))

    assert "the database is busy: another program has locked it for" in str(caught.value)
    assert "nothing was changed, try again" in str(caught.value)
    assert not database.connection.in_transaction

    foreign.execute("ROLLBACK")
    database.writing(add(database))

    assert ["one", "two"] == names(foreign)


def test_a_lock_that_is_released_in_time_is_waited_for(
    path: Path, foreign: sqlite3.Connection
) -> None:
    patient = Database(str(path), patience=20)
    foreign.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, foreign.execute, ["COMMIT"])
    release.start()
    patient.writing(add(patient))
    release.join()
    patient.close()

    assert ["one", "two"] == names(foreign)


def test_a_reader_in_the_way_of_a_commit_is_waited_for(
    path: Path, foreign: sqlite3.Connection
) -> None:
    """Outside WAL a commit is refused during reads: the whole work is repeated."""
    patient = Database(str(path), patience=20)
    foreign.execute("BEGIN")
    names(foreign)
    release = threading.Timer(0.3, foreign.execute, ["COMMIT"])
    release.start()
    patient.writing(add(patient))
    release.join()
    patient.close()

    assert ["one", "two"] == names(foreign)


def test_reads_see_one_snapshot(
    path: Path, database: Database, foreign: sqlite3.Connection
) -> None:
    def work() -> list[list[tuple[str, ...]]]:
        first = database.rows("SELECT name FROM parents")
        with pytest.raises(sqlite3.OperationalError) if not wal else closing(foreign.cursor()):
            foreign.execute("INSERT INTO parents (name) VALUES ('two')")
        return [first, database.rows("SELECT name FROM parents")]

    (mode,) = foreign.execute("PRAGMA journal_mode").fetchone()
    wal = mode == "wal"

    assert [[("one",)], [("one",)]] == database.reading(work)
    assert path.exists()


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (
            lambda db: db.change("INSERT INTO parents (name) VALUES ('one')"),
            '"parents.name" is already taken',
        ),
        (
            lambda db: db.change("INSERT INTO parents VALUES (1, 'x')"),
            '"parents.id" already exists',
        ),
        (lambda db: db.change("INSERT INTO parents (id) VALUES (2)"), '"parents.name" must not be'),
        (lambda db: db.change("INSERT INTO parents (name) VALUES ('bad')"), "breaks a rule"),
        (lambda db: db.change("INSERT INTO children VALUES (9, 'x')"), "a row that it names"),
        (lambda db: db.change("INSERT INTO children VALUES ('x', 'x')"), "the wrong type"),
        (lambda db: db.change("UPDATE parents SET name = 'guarded'"), "guarded names stay"),
        (
            lambda db: db.row("SELECT ?", ["\ud800"]),
            "a string contains U+D800, half of a surrogate pair",
        ),
        (lambda db: db.row("SELECT ?", [2**63]), "an integer is beyond 64 bits"),
        (lambda db: db.row("SELECT x FROM nowhere"), 'run "ralphgen doctor"'),
    ],
)
def test_what_sqlite_refuses_is_a_sentence_without_sql(
    database: Database, foreign: sqlite3.Connection, work: Work, sentence: str
) -> None:
    with pytest.raises(ToolError) as caught:
        database.writing(lambda: work(database))

    assert sentence in str(caught.value)
    assert not [
        word
        for word in ("INSERT", "UPDATE", "SELECT", "SQLITE", "Errno")
        if word in str(caught.value)
    ]
    assert not database.connection.in_transaction
    assert ["one"] == names(foreign)


def test_stored_bytes_of_invalid_utf_8_are_shown(database: Database) -> None:
    assert ("a\ufffd",) == database.row("SELECT CAST(x'61ff' AS TEXT)")


def test_opening_changes_neither_mode_nor_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        connection.execute("PRAGMA user_version = 5")
    database = Database(str(path))
    database.writing(add(database))
    synchronous = database.row("PRAGMA synchronous")
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        after = connection.execute("PRAGMA journal_mode").fetchone()
        version = connection.execute("PRAGMA user_version").fetchone()

    assert ((mode,), (5,)) == (after, version)
    assert ((1,) if mode == "wal" else (2,)) == synchronous


def test_closing_leaves_one_file_with_all_writes(path: Path) -> None:
    database = Database(str(path))
    database.writing(add(database))
    database.close()
    files = sorted(file.name for file in path.parent.iterdir())

    assert [path.name] == files


def test_closing_while_a_statement_runs_stops_it(path: Path) -> None:
    database = Database(str(path))
    running = threading.Event()
    failures: list[str] = []

    def work() -> object:
        add(database)()
        running.set()
        return database.row(ENDLESS)

    def call() -> None:
        try:
            database.writing(work)
        except ToolError as error:
            failures.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    running.wait()
    while thread.is_alive():
        database.connection.interrupt()  # the statement may not have begun yet
        thread.join(0.01)
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        assert ["one"] == names(connection)

    assert 1 == len(failures)


def test_a_statement_that_does_not_end_is_stopped_with_the_patience(
    path: Path, foreign: sqlite3.Connection
) -> None:
    database = Database(str(path), patience=0.2)

    def work() -> object:
        add(database)()
        return database.row(ENDLESS)

    with pytest.raises(ToolError, match="took too long and was stopped: nothing was changed"):
        database.writing(work)
    with pytest.raises(ToolError, match="took too long"):
        database.reading(lambda: database.row(ENDLESS))
    assert ["one"] == names(foreign)

    database.writing(add(database))
    database.close()

    assert ["one", "two"] == names(foreign)


@pytest.mark.slow
def test_a_killed_writer_leaves_a_sound_database_with_all_it_acknowledged(path: Path) -> None:
    root = str(Path(__file__).parents[5])
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), root], stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout is not None
        acknowledged = [int(next(writer.stdout)) for _ in range(30)]
        os.kill(writer.pid, signal.SIGKILL)
    with closing(sqlite3.connect(path)) as connection:
        (checked,) = connection.execute("PRAGMA integrity_check").fetchone()
        kept = [row[0] for row in connection.execute("SELECT n FROM both_or_none ORDER BY n")]
        (notes,) = connection.execute("SELECT COUNT(*) FROM children").fetchone()

    assert "ok" == checked
    assert acknowledged == kept[:30]
    assert len(kept) == notes


@pytest.mark.parametrize("content", [None, b"", b"not a database, but longer than a header" * 9])
def test_an_invalid_database_file_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ralph.db"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StartError, match=r'run "ralphgen|restore it'):
        Database(str(file))


class Late(Waiter):
    """A call that has waited for its turn as long as it may wait for anything."""

    def since(self) -> float:
        return time.monotonic() - PATIENCE

    def pause(self, _seconds: float) -> None:
        raise AssertionError("it waits once more")


def test_a_call_has_one_deadline_for_all_connections(path: Path) -> None:
    """The time spent waiting for its turn counts; it is still tried once."""
    opened = Database(str(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        wait_as(Late())
        try:
            with pytest.raises(ToolError, match="nothing was changed, try again"):
                opened.writing(lambda: opened.change("DELETE FROM children"))
            foreign.execute("ROLLBACK")
            opened.writing(lambda: opened.change("DELETE FROM children"))
        finally:
            wait_as(None)
    opened.close()


def test_the_thread_that_reads_requests_waits_for_no_writer(
    database: Database, foreign: sqlite3.Connection
) -> None:
    foreign.execute("BEGIN IMMEDIATE")

    with reading_requests(), pytest.raises(DeferError):
        database.writing(lambda: database.change("DELETE FROM children"))
    with pytest.raises(ToolError, match="nothing was changed, try again"):
        database.writing(lambda: database.change("DELETE FROM children"))
