"""Shared connections to a SQLite file: no other code of the process opens the file meanwhile."""

import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from driving import create_project
from loop_projects import LoopProject

from ralphgen.ledger.tables import add_tables
from ralphgen.project import database
from ralphgen.project.database import open_database, opened_database, shared_connections

HOLDS = """
import asyncio, json, sqlite3, subprocess, sys, traceback
from contextlib import suppress
from pathlib import Path

WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
opened = []

def notice(event, arguments):
    own = "in _index_of"  # keeps its descriptor of the index until the index is gone
    if event == "open" and str(arguments[0]).endswith(("ralph.db", "-wal", "-shm", "-journal")):
        lines = traceback.format_stack()
        if not any(own in line for line in lines):
            opened.append("".join(lines[-6:]))

from ralphgen.board.app import Site
from ralphgen.board.live import Board
from ralphgen.board.render import PLACES
from ralphgen.cli.main import main
from ralphgen.project.database import opened_database, shared_connections

root = Path(sys.argv[1])

def command(*words):
    sys.argv = ["ralphgen", *words, "--project", str(root)]
    with suppress(SystemExit):
        main()

async def pages_of(app):
    more = ["/project/access", "/project/health", "/project/disciplines"]
    return [await get(app, path) for path in [*(address for address, _ in PLACES), *more]]

async def get(app, path):
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    answers = []
    async def receive():
        await asyncio.sleep(60)
    async def send(message):
        answers.append(message)
    await app(scope, receive, send)
    return answers[0]["status"]

with shared_connections(root), opened_database(root) as held:
    sys.addaudithook(notice)

    def work():
        for words in (("doctor",), ("db", "backup"), ("trust", "--yes"), ("check",)):
            command(*words)
        board = Board(root)
        board.check()
        statuses = asyncio.run(asyncio.wait_for(pages_of(Site(board).app), 60))
        other = subprocess.run([sys.executable, "-c", WRITE, held.path], capture_output=True)
        return statuses, other.stderr.decode().splitlines()[-1:]

    statuses, refused = held.writing(work)

print(json.dumps([opened, statuses, refused]))
"""
"""Does with a write of its own open what people do, and has another process try to write."""


@pytest.mark.thorough
@pytest.mark.slow
def test_all_parts_leave_the_locks_of_a_connection_alone(tmp_path: Path) -> None:
    root = LoopProject(tmp_path, 2, {}).root

    done = subprocess.run(
        [sys.executable, "-c", HOLDS, str(root)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    opened, statuses, refused = json.loads(done.stdout.splitlines()[-1])
    assert opened == [], opened[0]
    assert {200} == {*statuses}
    assert refused == ["sqlite3.OperationalError: database is locked"]


@pytest.fixture(params=["wal", "delete"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project whose database has a table of the app and a ledger, in both journal modes."""
    file = tmp_path / ".ralph/db/ralph.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as database:
        database.executescript(f"PRAGMA journal_mode = {request.param}; CREATE TABLE app (a INT);")
    add_tables(tmp_path)
    return tmp_path


def values(root: Path) -> list[int]:
    with open_database(root) as snapshot:
        return [value for (value,) in snapshot.rows("SELECT a FROM app ORDER BY a")]


def write(root: Path, value: int, session: str = "") -> None:
    with opened_database(root) as database:

        def work() -> None:
            if session:
                database.journal(session, {"recipe": "manual"}, lambda: "test").begin()
            database.change("INSERT INTO app VALUES (?)", (value,))

        database.writing(work)


def test_a_database_that_was_replaced_is_opened_again(root: Path) -> None:
    file = root / ".ralph/db/ralph.db"
    with shared_connections(root):
        write(root, 1)
        with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(root / "new")) as new:
            old.backup(new)
            new.execute("INSERT INTO app VALUES (2)")
            new.commit()
        for end in ("-wal", "-shm"):
            file.with_name(f"ralph.db{end}").unlink(missing_ok=True)
        (root / "new").replace(file)

        assert [1, 2] == values(root)
        write(root, 3)
    assert [1, 2, 3] == values(root)


def test_the_journal_of_a_session_ends_with_its_use_of_a_connection(root: Path) -> None:
    with shared_connections(root):
        write(root, 1, "first")
        write(root, 2)
        with open_database(root) as snapshot:
            found = snapshot.rows("SELECT session FROM ralphgen_journal")

    assert [("first",)] == found


def test_threads_share_connections_and_lose_no_write(root: Path) -> None:
    def work(thread: int) -> None:
        for number in range(10):
            write(root, 10 * thread + number)
            assert 10 * thread + number in values(root)

    with shared_connections(root), ThreadPoolExecutor(8) as threads:
        assert [None] * 8 == [*threads.map(work, range(8))]

    assert [*range(80)] == values(root)


def test_who_reads_on_a_shared_connection_keeps_no_one_from_writing(root: Path) -> None:
    with shared_connections(root), open_database(root) as snapshot:
        assert [] == snapshot.rows("SELECT a FROM app")
        with closing(sqlite3.connect(root / ".ralph/db/ralph.db", timeout=0)) as other:
            other.execute("INSERT INTO app VALUES (1)")
            other.commit()
        assert [] == snapshot.rows("SELECT a FROM app")

    assert [1] == values(root)


@pytest.mark.slow
def test_a_use_that_ends_after_the_sharing_leaves_nothing_shared(tmp_path: Path) -> None:
    root, shared = create_project(tmp_path / "p"), vars(database)["_SHARED"]
    with ExitStack() as use:
        with shared_connections(root):
            use.enter_context(opened_database(root))
        assert shared
    assert not shared
