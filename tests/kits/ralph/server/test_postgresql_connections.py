"""A server on PostgreSQL loses nothing when it loses its connection, or next to other writers."""

import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from conversations import requests
from driving import connected, context_for, on_context, server_command
from engines import VARIABLE, on_both
from frames import HANDSHAKES, opening, request
from postgresql import needs_postgresql

from ralphgen.runtime.engine.postgresql import writers_lock

pytestmark = needs_postgresql


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    with on_both(tmp_path) as (_, root, dsn):
        yield root, dsn


def end_others(dsn: str) -> int:
    """Break the connections of servers; returns how many."""
    sql = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name = 'ralphgen' AND datname = current_database()"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        (count,) = connection.execute(sql).fetchone() or (0,)
    return int(count)


def test_a_lost_connection_is_recreated(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs
    with connected(root, env={VARIABLE: dsn}) as server:
        before = server.call("get_task", id=1)
        assert end_others(dsn) == 1

        assert before == server.call("get_task", id=1)
        assert end_others(dsn) == 1
        assert server.call("set_task_status", id=1, status="done")["old"] == "pending"


def test_a_server_without_the_variable_does_not_start(theirs: tuple[Path, str]) -> None:
    root, _ = theirs
    command = server_command(root, "ralph", *on_context(context_for(root, "manual")))
    done = subprocess.run(command, capture_output=True, check=False, env={}, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert f'"{VARIABLE}" is not set' in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://somebody:s3cret@127.0.0.1:1/x", "cannot be reached"),
        ("host=/nowhere s3cret", "is named by no DSN"),
    ],
)
def test_an_unreachable_server_is_named_by_its_variable_alone(
    theirs: tuple[Path, str], dsn: str, words: str
) -> None:
    root, _ = theirs
    with connected(root, env={VARIABLE: dsn}) as server:
        text = server.refusal("get_task", id=1)

    assert VARIABLE in text
    assert words in text
    assert "s3cret" not in text
    assert "somebody" not in text


@pytest.mark.thorough
def test_another_writer_is_waited_for(theirs: tuple[Path, str]) -> None:
    """While it is, what only reads is answered."""
    root, dsn = theirs
    with connected(root, env={VARIABLE: dsn}) as server, psycopg.connect(dsn) as other:
        server.call("get_task", id=1)
        other.execute(writers_lock("public").encode())
        with ThreadPoolExecutor() as pool:
            begun = time.monotonic()
            writes = pool.submit(server.call, "set_task_status", id=1, status="done")
            time.sleep(0.5)
            assert server.call("get_task", id=1)["status"] == "pending"
            other.commit()

            assert writes.result()["new"] == "done"
            assert time.monotonic() - begun < 10


@pytest.mark.thorough
def test_many_writers_give_every_number_once(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs

    def create(_: int) -> list[int]:
        with connected(root, env={VARIABLE: dsn}) as server:
            home = {"feature": "auth", "discipline": "backend"}
            return [server.call("create_task", title="t", **home)["id"] for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        found = sorted(one for ids in pool.map(create, range(4)) for one in ids)

    assert found == list(range(3, 23))


def test_a_dropped_column_is_reported(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs
    with connected(root, env={VARIABLE: dsn}) as server:
        server.call("get_task", id=1)
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("ALTER TABLE tasks DROP COLUMN hints")
        text = server.refusal("get_task", id=1)

    assert 'column "tasks.hints" is gone' in text
    assert "ralphgen regen" in text


def test_an_application_with_its_own_counter_continues_after_it(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs
    insert = "INSERT INTO tasks (feature, discipline, title) VALUES ('auth', 'backend', 'by app')"
    with connected(root, env={VARIABLE: dsn}) as server:
        home = {"feature": "auth", "discipline": "backend"}
        ids = [server.call("create_task", title="t", **home)["id"]]
        with psycopg.connect(dsn, autocommit=True) as app:
            row = app.execute(f"{insert} RETURNING id").fetchone()
        ids += [row[0] if row else 0, server.call("create_task", title="t", **home)["id"]]

    assert all(later == earlier + 1 for earlier, later in pairwise(ids))


def test_a_subscriber_is_notified_of_writes_by_others(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs
    uri = "ralph://tasks/1"
    command = server_command(root, "ralph", *on_context(context_for(root, "manual")))
    asked_for = request(HANDSHAKES[0], "resources/subscribe", {"uri": uri}, 1)
    lines = [*opening(HANDSHAKES[0]), asked_for]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={VARIABLE: dsn}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        for _ in range(requests(b"".join(lines))):
            process.stdout.readline()
        with psycopg.connect(dsn, autocommit=True) as app:
            app.execute("UPDATE tasks SET title = 'by app' WHERE id = 1")
        told_of = json.loads(process.stdout.readline())
        process.stdin.close()

    assert told_of["method"] == "notifications/resources/updated"
    assert told_of["params"] == {"uri": uri}
