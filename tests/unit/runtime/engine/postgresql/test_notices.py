"""Our writes are announced if the database passes notices on, and polled for elsewhere."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from driving import connected
from engines import VARIABLE, on_engine
from lifelines import until
from postgresql import database, needs_postgresql

from ralphgen.board.live import Board
from ralphgen.runtime.engine.postgresql import database as module
from ralphgen.runtime.engine.postgresql.database import Database, WriteNotices

pytestmark = [needs_postgresql, pytest.mark.slow]
PLACE = f"{VARIABLE}/public"
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
LISTENERS = f"SELECT pid {OTHERS} AND starts_with(query, 'LISTEN')"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(module, "PACE", 20.0)  # longer than any of these tests takes
    with database() as found:
        monkeypatch.setenv(VARIABLE, found)
        yield found


def run(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def write(place: str = PLACE) -> None:
    rows = Database(place)
    rows.writing(lambda: None)
    rows.close()


def seconds_of(waiting: WriteNotices, interval: float = 0.01) -> tuple[bool, float]:
    began = time.monotonic()
    heard = waiting.wait(interval)
    return heard, time.monotonic() - began


def test_a_write_is_heard_at_once_and_one_to_another_schema_is_not(dsn: str) -> None:
    waiting = WriteNotices(PLACE)
    assert waiting.wait(9)  # it listens now: earlier writes were not announced
    run(dsn, "CREATE SCHEMA other")
    write(f"{VARIABLE}/other")
    timer = threading.Timer(0.2, write)
    timer.start()
    heard, seconds = seconds_of(waiting)

    assert heard
    assert 0.2 <= seconds < 10
    waiting.close()
    timer.join()
    assert until(lambda: not run(dsn, LISTENERS))


@pytest.mark.usefixtures("dsn")
def test_reads_and_rollbacks_send_no_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = WriteNotices(PLACE)
    assert waiting.wait(9)
    rows = Database(PLACE)
    rows.reading(lambda: rows.row("SELECT 1"))
    with pytest.raises(ZeroDivisionError):
        rows.writing(lambda: 1 // 0)
    monkeypatch.setattr(module, "PACE", 0.2)

    assert not waiting.wait(9)
    rows.close()
    waiting.close()


def test_a_lost_connection_is_reopened_and_catches_up(dsn: str) -> None:
    waiting = WriteNotices(PLACE)
    assert waiting.wait(9)
    run(dsn, f"SELECT pg_terminate_backend(pid) {OTHERS}")
    write()
    assert not waiting.wait(0.01)  # the loss wakes it

    assert waiting.wait(0.01)
    threading.Timer(0.1, write).start()
    assert waiting.wait(9)
    waiting.close()


def test_behind_a_pooler_that_keeps_notices_one_looks_as_often_as_ever(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PgBouncer drops messages to a server connection without a client."""
    monkeypatch.setattr(module, "PROVED", 0.05)
    monkeypatch.setattr(module, "CHANNEL", "kept")
    original = psycopg.Connection.execute

    def pooled(connection: Any, query: Any, *rest: Any, **more: Any) -> Any:
        sql = b"SELECT 1" if query == b"LISTEN kept" else query
        return original(connection, sql, *rest, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", pooled)
    waiting = WriteNotices(PLACE)

    assert not waiting.wait(0.01)
    heard, seconds = seconds_of(waiting, 0.05)
    assert not heard
    assert 0.05 <= seconds < 10
    assert until(lambda: not run(dsn, f"SELECT pid {OTHERS}"))


@pytest.mark.thorough
def test_a_board_sees_writes_before_its_next_slow_poll(tmp_path: Path) -> None:
    with on_engine("postgresql", tmp_path, ledger=True) as project:
        clock = [0.0]
        watch = Board(project.root, lambda: clock[0])  # its clock stands still
        with watch.listening():
            watch.check()
            assert until(lambda: watch.check() != ())  # it receives notices
            with connected(project.root, env={VARIABLE: project.dsn}) as server:
                server.call("update_task", id=1, title="Another title")

            assert until(lambda: "status" in watch.check())
