"""The server ends at once and cleanly: on three signals and on a closed stream, idle or busy."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, Signals, signal

import pytest
from driving import context_for, create_project, edit
from frames import COMPLETION
from wire import Wire, running

ENDLESS = """
CREATE TRIGGER endless AFTER UPDATE OF title ON tasks BEGIN
    SELECT (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n);
END;
"""
AT_ONCE = 10.0  # seconds; without handling it would be the 20 of a waiting call, or endless


def insist(server: Wire) -> None:
    """As Claude Code ends a server: it does not wait long for the first signal to work."""
    server.kill(SIGINT)
    server.process.send_signal(SIGTERM)


WAYS: dict[str, Callable[[Wire], None]] = {
    "SIGINT": lambda server: server.kill(SIGINT),
    "SIGTERM": lambda server: server.kill(SIGTERM),
    "SIGHUP": lambda server: server.kill(SIGHUP),
    "both": insist,
    "closed input": lambda server: server.leave(),
}
SHORT = {("both", False), ("closed input", True)}
LONG = pytest.mark.thorough
WAY = pytest.mark.parametrize("end", WAYS.values(), ids=WAYS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("shutdown"), "PRAGMA journal_mode = WAL;")
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    return root


def database(root: Path) -> Path:
    return root / ".ralph" / "db" / "ralph.db"


@contextmanager
def long_write(root: Path) -> Iterator[None]:
    """Another program is in the middle of a long write."""
    with closing(sqlite3.connect(database(root), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def wait_for_writer(root: Path) -> None:
    """Return when another program is in the middle of a write."""
    with closing(sqlite3.connect(database(root), timeout=0, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return
            connection.execute("ROLLBACK")


def assert_clean(server: Wire, end: Callable[[Wire], None]) -> None:
    """It ends at once, with exit code 0, and has nothing to say about it."""
    before = time.monotonic()
    end(server)
    code = server.end()
    took = time.monotonic() - before

    assert (0, "") == (code, server.errors())
    assert took < AT_ONCE


@WAY
def test_an_idle_server_ends_at_once_and_leaves_no_journal(
    project: Path, end: Callable[[Wire], None]
) -> None:
    with running(project) as server:
        server.shake_hands()
        server.ask("tools/call", {"name": "append_progress", "arguments": {"text": "here"}})
        server.ask("tools/call", {"name": "list_tasks"})
        assert_clean(server, end)

    assert ["ralph.db"] == sorted(path.name for path in database(project).parent.iterdir())


@WAY
def test_a_call_that_waits_for_the_database_does_not_hold_the_server(
    project: Path, end: Callable[[Wire], None]
) -> None:
    with long_write(project), running(project) as server:
        server.shake_hands()
        change = {"name": "update_task", "arguments": {"id": 1, "title": "late"}}
        server.send("tools/call", change, id="waits")
        server.send("tools/list", {}, id="marker")
        assert "marker" == server.read()["id"]  # the call was taken before
        assert_clean(server, end)

    with closing(sqlite3.connect(database(project))) as connection:
        assert [("Log in",)] == connection.execute(
            "SELECT title FROM tasks WHERE id = 1"
        ).fetchall()


def test_a_server_that_shall_outlive_its_terminal_does(project: Path) -> None:
    before = signal(SIGHUP, SIG_IGN)  # as nohup sets it for its programs
    try:
        with running(project) as server:
            server.shake_hands()
            server.kill(SIGHUP)

            assert "result" in server.ask("tools/list")
            assert_clean(server, WAYS["closed input"])
    finally:
        signal(SIGHUP, before)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "handed_off"),
    [
        pytest.param(way, handed_off, marks=() if (way, handed_off) in SHORT else LONG)
        for way in WAYS
        for handed_off in (False, True)
    ],
)
def test_a_statement_that_does_not_end_does_not_hold_the_server(
    tmp_path: Path, way: str, *, handed_off: bool
) -> None:
    """A trigger of the project may never end."""
    root = create_project(tmp_path, "PRAGMA journal_mode = WAL;", ENDLESS)
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    with running(root) as server:
        server.shake_hands()
        if handed_off:
            server.ask(*COMPLETION)
        change = {"name": "update_task", "arguments": {"id": 1, "title": "late"}}
        server.send("tools/call", change, id="runs")
        wait_for_writer(root)
        assert_clean(server, WAYS[way])

    with closing(sqlite3.connect(database(root))) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        assert [("Log in",)] == connection.execute(
            "SELECT title FROM tasks WHERE id = 1"
        ).fetchall()


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_signal_at_the_end_of_the_start_ends_it_in_silence(
    tmp_path: Path, number: Signals
) -> None:
    root = create_project(tmp_path)
    with running(root) as server:  # without a context it reports when it is ready
        assert server.process.stderr is not None
        assert "no context" in server.process.stderr.readline()
        assert_clean(server, lambda server: server.process.send_signal(number))


@contextmanager
def waiting_at_start(folder: Path) -> Iterator[tuple[Wire, sqlite3.Connection]]:
    """A server that waits for its database, and the connection that has locked that."""
    root = create_project(folder, "PRAGMA journal_mode = DELETE;")
    said = "\nimport sys\n\nsys.stderr.write('loaded\\n')\nsys.stderr.flush()\n"
    edit(root, "ralph/__init__.py", more=said)
    with closing(sqlite3.connect(database(root), isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with running(root) as server:
            assert server.process.stderr is not None
            assert "loaded\n" == server.process.stderr.readline()
            yield server, connection


def test_a_signal_while_the_start_waits_for_the_database_ends_it_in_silence(tmp_path: Path) -> None:
    with waiting_at_start(tmp_path) as (server, _):
        assert_clean(server, lambda server: server.kill(SIGTERM))


def test_a_start_waits_for_a_database_that_is_locked_for_a_moment(tmp_path: Path) -> None:
    with waiting_at_start(tmp_path) as (server, connection):
        connection.execute("ROLLBACK")
        assert "ralph-project" == server.shake_hands()["serverInfo"]["name"]
        server.leave()
        assert 0 == server.end()


def test_a_client_that_no_longer_reads_ends_the_server_without_a_traceback(project: Path) -> None:
    with running(project) as server:
        server.shake_hands()
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send("tools/list", {}, id=1)
        server.leave()

        assert 0 == server.end()
        assert "Traceback" not in server.errors()


def test_a_database_that_may_only_be_read_is_served(tmp_path: Path) -> None:
    root = create_project(tmp_path, "PRAGMA journal_mode = DELETE;")
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    database(root).chmod(0o444)
    with running(root) as server:
        server.shake_hands()
        answer = server.ask("tools/call", {"name": "list_tasks", "arguments": {}})
        assert_clean(server, WAYS["closed input"])

    assert not answer["result"].get("isError")
