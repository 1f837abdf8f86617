"""Detection of sections to redraw: each write is detected, and checks leave no traces."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from driving import create_project, query
from making_sessions import opened

from ralphgen.board.live import PACE, Board
from ralphgen.ledger.tables import add_tables
from ralphgen.project.root import DATABASE, FOLDER, SESSIONS
from ralphgen.runtime.session import LOCK
from ralphgen.sessions.store import remove

ALL = {"status", "matrix", "drift", "record", "sessions", "specs"}
DONE = "UPDATE tasks SET status = 'done' WHERE id = 1"
COMMENT = "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'me', 'done')"


class Watched:
    """A project and how it was last seen; `later` lets the slower looks come round."""

    def __init__(self, root: Path) -> None:
        """Looks for the first time."""
        self.root = root
        self.database = root / DATABASE
        self._now = 0.0
        self._changes = Board(root, lambda: self._now)
        self._changes.check()

    def moved(self, *, later: bool = False) -> set[str]:
        """The sections that have moved since the last look."""
        self._now += PACE if later else 0.0
        return ALL & {*self._changes.check()}


@pytest.fixture(params=["delete", "wal"])
def watched(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    """A project in each journal mode, whose files never settle while the test runs."""
    monkeypatch.setattr("ralphgen.board.live.SETTLED", 1e9)
    root = create_project(tmp_path / "a project")
    query(root, f"PRAGMA journal_mode = {request.param}")
    return Watched(root)


@pytest.fixture
def writer(watched: Watched) -> Iterator[sqlite3.Connection]:
    """An agent's open connection."""
    with closing(sqlite3.connect(watched.database, isolation_level=None)) as connection:
        connection.execute("SELECT * FROM tasks").fetchall()
        yield connection


def listing(root: Path) -> list[tuple[str, int, int]]:
    return [
        (str(path), path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(root.rglob("*"))
    ]


def test_nothing_moves_where_nothing_was_written_and_looking_leaves_no_trace(
    watched: Watched,
) -> None:
    before = listing(watched.root)

    assert [set()] * 4 == [watched.moved(later=later) for later in (False, True, False, True)]
    assert before == listing(watched.root)


def test_what_agents_write_moves_how_the_project_stands_and_nothing_that_is_generated(
    watched: Watched, writer: sqlite3.Connection
) -> None:
    for sql in (
        DONE,
        COMMENT,
        "DELETE FROM task_comments",
        "UPDATE features SET learnings = '[1]'",
    ):
        writer.execute(sql)

        assert {"status", "record", "sessions"} == watched.moved()
        assert set() == watched.moved()


def test_a_write_of_a_process_that_comes_and_goes_is_seen(watched: Watched) -> None:
    query(watched.root, DONE)

    assert "status" in watched.moved()
    assert set() == watched.moved(later=True)


def test_a_transaction_that_is_open_moves_nothing_until_its_end(
    watched: Watched, writer: sqlite3.Connection
) -> None:
    writer.execute("BEGIN IMMEDIATE")
    writer.execute(DONE)
    watched.moved()
    writer.execute("COMMIT")

    assert "status" in watched.moved()


def test_a_lease_that_ends_moves_how_the_project_stands(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tables(watched.root)
    query(
        watched.root,
        "INSERT INTO ralphgen_claims (task_id, session, token, expires) "
        "VALUES (1, 's', 1, '2999-01-01T00:00:00.000Z')",
    )
    watched.moved(later=True)
    assert set() == watched.moved(later=True)
    monkeypatch.setattr("ralphgen.runtime.tasks.claims.moment", lambda: "2999-01-01T00:00:01.000Z")

    assert {"status"} == watched.moved(later=True)
    assert set() == watched.moved(later=True)


def test_a_locked_database_keeps_nobody_waiting(
    watched: Watched, writer: sqlite3.Connection
) -> None:
    writer.execute(DONE)
    writer.execute("BEGIN EXCLUSIVE")

    assert "status" in watched.moved()
    assert set() == watched.moved()


def test_what_a_server_is_made_for_is_read_when_it_is_locked_no_more(
    watched: Watched, writer: sqlite3.Connection
) -> None:
    writer.execute("UPDATE disciplines SET display_name = 'Other' WHERE name = 'backend'")
    writer.execute(DONE)
    writer.execute("BEGIN EXCLUSIVE")
    while_locked = watched.moved()
    writer.rollback()

    assert {"matrix", "drift"} <= while_locked | watched.moved()


def test_a_locked_database_moves_nothing_that_a_server_is_made_for(
    watched: Watched, writer: sqlite3.Connection
) -> None:
    writer.execute(DONE)
    writer.execute("BEGIN EXCLUSIVE")
    while_locked = watched.moved()
    writer.rollback()

    assert {"matrix", "drift"}.isdisjoint(while_locked | watched.moved())


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE tasks ADD COLUMN risk TEXT",
        "UPDATE disciplines SET mcp_servers = '[{}]' WHERE name = 'backend'",
        "UPDATE disciplines SET system_prompt = CAST(x'ff' AS TEXT)",
    ],
)
def test_what_a_server_is_made_for_moves_everything(
    watched: Watched, writer: sqlite3.Connection, sql: str
) -> None:
    writer.execute(sql)

    assert ALL == watched.moved()


def test_a_database_that_goes_and_comes_back_moves_everything_each_time(watched: Watched) -> None:
    aside = watched.database.with_suffix(".aside")
    watched.database.rename(aside)

    assert ALL == watched.moved()
    shutil.copyfile(aside, watched.database)
    assert ALL == watched.moved()
    watched.database.write_bytes(b"no database")
    assert ALL == watched.moved()
    shutil.rmtree(watched.root / ".ralph")
    assert ALL == watched.moved(later=True)
    assert set() == watched.moved(later=True)


def test_a_file_that_has_settled_counts_once_more(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time would not distinguish two writes in quick succession."""
    monkeypatch.setattr("ralphgen.board.live.SETTLED", -1.0)

    assert "status" in watched.moved(later=True)
    assert set() == watched.moved(later=True)


@pytest.mark.parametrize("file", ["ralphgen.toml", "recipes/triage.toml"])
def test_settings_move_all_that_follows_from_them(watched: Watched, file: str) -> None:
    path = watched.root / ".ralph" / file
    path.parent.mkdir(exist_ok=True)
    for text in ("# one", "# two"):
        path.write_text(text, encoding="utf-8")

        assert {"status", "matrix", "drift", "record", "specs"} == watched.moved()
    path.unlink()

    assert {"status", "matrix", "drift", "record", "specs"} == watched.moved()


def test_the_manifest_moves_drift_at_once_and_hand_edits_a_little_later(watched: Watched) -> None:
    folder = watched.root / FOLDER
    os.utime(folder / "manifest.json")

    assert {"drift"} == watched.moved()
    watched.moved(later=True)
    (folder / "policy.py").write_text("# mine", encoding="utf-8")
    assert set() == watched.moved()
    assert {"drift"} == watched.moved(later=True)
    (folder / "runtime" / "mine.py").touch()
    assert {"drift"} == watched.moved(later=True)
    (folder / "manifest.json").write_text("{broken", encoding="utf-8")
    assert {"drift"} == watched.moved(later=True)


@pytest.mark.parametrize("name", ["progress.txt", "learnings.txt"])
def test_a_note_moves_how_the_project_stands(watched: Watched, name: str) -> None:
    with (watched.root / ".ralph" / name).open("a", encoding="utf-8") as file:
        file.write("- an entry\n")

    assert {"status"} == watched.moved()


@pytest.mark.slow
def test_sessions_move_when_they_are_made_started_left_and_ended(watched: Watched) -> None:
    fcntl = pytest.importorskip("fcntl")
    session = opened(watched.root, "manual")
    folder = watched.root / SESSIONS / session.session_id
    assert "sessions" in watched.moved()
    watched.moved(later=True)
    with (folder / LOCK).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(folder / LOCK)  # like a starting server
        assert {"sessions"} == watched.moved(later=True)
    assert {"sessions"} == watched.moved(later=True)
    os.utime(folder / LOCK, (1, 1))
    assert {"sessions"} == watched.moved(later=True)
    remove(folder)

    assert {"sessions"} == watched.moved()


def test_a_folder_that_is_no_project_can_be_watched(tmp_path: Path) -> None:
    watched = Watched(tmp_path)

    assert set() == watched.moved(later=True)
    create_project(tmp_path)
    assert ALL <= watched.moved(later=True) | {"sessions"}
