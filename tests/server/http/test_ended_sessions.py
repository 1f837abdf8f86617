"""An ended session's token is refused immediately, also during calls."""

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from driving import query, write_lock
from http_servers import (
    HANDSHAKES,
    HttpServer,
    headers,
    http_project,
    is_told,
    message,
    serving,
    token,
)
from lifelines import PATIENCE, until

from ralphgen.runtime.engine.sqlite.revocations import FILE, revoke


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = http_project(tmp_path_factory.mktemp("http") / "p", "workers = 1\nrate = 100000\n")
    with serving(root) as running:
        yield running


@pytest.mark.thorough
def test_a_session_that_was_ended_is_refused_at_once(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 2\n")
    with serving(root) as server:
        own, other = token(root, jti="ended"), token(root, jti="going-on")
        assert {200} == {server.call(own)[0] for _ in range(8)}
        revoke(str(root / ".ralph/db/ralph.db"), "ended")

        assert {401} == {server.call(own)[0] for _ in range(8)}
        assert 200 == server.call(other)[0]


@pytest.mark.thorough
def test_a_session_that_is_ended_while_its_body_comes_is_refused(server: HttpServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with closing(connection):
        body = message("tools/list")
        connection.putrequest("POST", urlsplit(server.url).path)
        for name, value in headers(token(server.root, jti="slow"), HANDSHAKES[0]).items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
        assert until(partial(is_told, server, b"in_flight 2\n"))
        revoke(str(server.root / ".ralph/db/ralph.db"), "slow")
        connection.send(body[5:])

        assert 401 == connection.getresponse().status


def test_a_call_that_waits_for_a_lock_writes_nothing_once_its_session_has_ended(
    server: HttpServer,
) -> None:
    own = token(server.root, jti="waiting")
    assert 200 == server.call(own, "get_task", id=1)[0]
    before = query(server.root, "SELECT status FROM tasks WHERE id = 1")
    with ThreadPoolExecutor() as pool:
        with write_lock(server.root):
            calling = pool.submit(server.call, own, "set_task_status", id=1, status="in_progress")
            assert until(partial(is_told, server, b"in_flight 2\n"))
            time.sleep(0.3)
            revoke(str(server.root / ".ralph/db/ralph.db"), "waiting")
        assert 401 == calling.result(PATIENCE)[0]

    assert (
        before == query(server.root, "SELECT status FROM tasks WHERE id = 1") != [("in_progress",)]
    )


@pytest.mark.thorough
def test_without_the_list_of_ended_sessions_no_one_is_let_in(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\n")
    listed = root / ".ralph/db" / FILE
    with serving(root) as server:
        assert b"" == listed.read_bytes()
        listed.unlink()

        assert 503 == server.call(token(root))[0]


def test_an_expired_token_is_refused_even_if_it_was_good_before(server: HttpServer) -> None:
    now = int(time.time())
    times: dict[str, Any] = {"iat": now - 100, "nbf": now - 100}
    past = token(server.root, jti="past", **times, exp=now - 60)
    status, body, told = server.ask(body=message("tools/list"), headers=headers(past))

    assert 401 == status
    assert b"it has expired" in body
    assert "it has expired" in told["www-authenticate"]

    soon = token(server.root, jti="soon", **times, exp=int(time.time()) + 3)
    assert 200 == server.call(soon)[0]
    time.sleep(3)
    assert 401 == server.call(soon)[0]
