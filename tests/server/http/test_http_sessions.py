"""A server over HTTP: clients of both protocol versions, sessions of tokens, and its limits."""

import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from driving import Era, connected, create_project, query
from http_servers import (
    CONFIG,
    HANDSHAKES,
    MODERN,
    HttpServer,
    enveloped,
    headers,
    http_client,
    http_project,
    message,
    serving,
    token,
)
from lifelines import PATIENCE, until
from proved_projects import TESTS, proved_project
from wire import refused

from ralphgen.runtime.http.revocations import FILE, revoke


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = http_project(tmp_path_factory.mktemp("http") / "p", "workers = 1\nrate = 100000\n")
    with serving(root) as running:
        yield running


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_sdks_client_lists_and_calls(server: HttpServer, era: Era) -> None:
    with (
        http_client(server, token(server.root), era) as remote,
        connected(server.root, era=era) as local,
    ):
        assert local.tools() == remote.tools()
        assert local.call("get_task", id=1) == remote.call("get_task", id=1)
        assert "Log in" == remote.call("get_task", id=1)["title"]


def test_a_session_sees_what_its_token_says(server: HttpServer) -> None:
    narrow = token(
        server.root,
        "task_execution",
        dis="backend",
        fea="auth",
        tsk=1,
        jti="narrow",
        tools=["ralph:get_task", "ralph:set_task_status", "ralph:delete_task"],
    )
    with http_client(server, narrow) as remote:
        assert ["get_task", "set_task_status"] == remote.names()
        assert 1 == remote.call("get_task")["id"]
        assert "works on the task 1 only" in remote.refusal("set_task_status", id=2, status="done")


def test_no_request_needs_a_handshake(server: HttpServer) -> None:
    """Any worker of any machine answers the next one."""
    own = token(server.root)
    for version in HANDSHAKES:
        _, body, _ = server.ask(body=message("tools/list"), headers=headers(own, version))

        assert 28 == len(json.loads(body)["result"]["tools"])
    _, body, _ = server.ask(
        body=message("tools/list", enveloped({})),
        headers=headers(own, "2026-07-28", "tools/list"),
    )

    assert 28 == len(json.loads(body)["result"]["tools"])


@pytest.mark.parametrize(
    "changed",
    [
        {"rec": "no_such"},
        {"rec": "task_execution"},
        {"rec": "task_execution", "tsk": 1},
        {"rec": "task_execution", "tsk": 99, "dis": "backend", "fea": "auth"},
        {"rec": "manual", "dis": "no_such"},
        {"rec": "manual", "tools": ["ralph:no_such"]},
        {"rec": "manual", "tools": ["other:get_task"]},
    ],
)
def test_what_the_project_does_not_know_opens_nothing(
    server: HttpServer, changed: dict[str, Any]
) -> None:
    """A name that means nothing may be a typo for something smaller."""
    status, told = server.call(token(server.root, jti="unknown", **changed))

    assert 403 == status
    assert "cannot be opened" in told["error"]["message"]


def test_nobody_learns_of_changes_where_no_stream_is_open(server: HttpServer) -> None:
    body = message(
        "initialize",
        {
            "protocolVersion": HANDSHAKES[-1],
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    )
    _, answer, _ = server.ask(body=body, headers=headers(token(server.root)))

    assert {} == json.loads(answer)["result"]["capabilities"]["resources"]


def test_a_skill_is_declared_and_read_over_http(server: HttpServer) -> None:
    def told(method: str, name: str = "", **params: str) -> dict[str, Any]:
        sent = headers(token(server.root), MODERN, method, name)
        _, answer, _ = server.ask(body=message(method, enveloped(params)), headers=sent)
        result: dict[str, Any] = json.loads(answer)["result"]
        return result

    capabilities = told("server/discover")["capabilities"]
    (skill,) = told("skills/list")["skills"]
    (content,) = told("resources/read", skill["uri"], uri=skill["uri"])["contents"]

    assert {} == capabilities["resources"]
    assert {"io.modelcontextprotocol/skills": {}} == capabilities["extensions"]
    assert skill["resources"][0]["size"] == len(content["text"].encode())


def test_with_checks_done_is_said_where_the_files_are(tmp_path: Path) -> None:
    """The server has no work tree of the agent: it runs no checks and takes nobody's word."""
    root = proved_project(tmp_path / "p", CONFIG + "workers = 1\n" + TESTS, repository=False)
    about: dict[str, Any] = {"dis": "backend", "fea": "auth", "tsk": 1}
    with (
        serving(root) as server,
        http_client(server, token(root, "task_execution", **about)) as remote,
    ):
        tools = {tool["name"]: tool for tool in remote.tools()}

        assert "run_checks" not in tools
        values = tools["set_task_status"]["inputSchema"]["properties"]["status"]["enum"]
        assert {"in_progress", "blocked"} <= {*values}
        assert "done" not in values
        assert not {"because", "force"} & {*tools["set_task_status"]["inputSchema"]["properties"]}
        assert "argument" in remote.refusal("set_task_status", status="done")


def test_probes_need_no_token_and_tell_nothing(server: HttpServer) -> None:
    assert (200, b"ok\n") == server.ask("/healthz")[:2]
    assert (200, b"ready\n") == server.ask("/readyz")[:2]
    status, text, _ = server.ask("/metrics")

    assert 200 == status
    assert b'ralphgen_http_requests_total{status="200"}' in text
    assert b"Log in" not in text


def test_who_regenerates_has_to_start_the_server_again(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\n")
    with serving(root) as server:
        policy = root / ".ralph/mcp/policy.py"
        policy.write_text(policy.read_text(encoding="utf-8") + "\n", encoding="utf-8")

        assert 503 == server.ask("/readyz")[0]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    more = """
        workers = 1
        rate = 2
        max_body = 2000
        pool = 2
        allowed_hosts = ["mcp.example.com"]
        allowed_origins = ["https://app.example.com"]
    """
    with serving(http_project(tmp_path_factory.mktemp("limits") / "p", more)) as running:
        yield running


def takes_nobody(server: HttpServer) -> bool:
    """Whether a proxy that connects now goes to another server."""
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    except ConnectionRefusedError:
        return True
    return False


def is_told(server: HttpServer, line: bytes) -> bool:
    return line in server.ask("/metrics")[1]


class TestLimits:
    """What no session may do to the others."""

    def test_a_session_has_a_rate_of_its_own(self, limited: HttpServer) -> None:
        own, other = token(limited.root, jti="fast"), token(limited.root, jti="slow")
        statuses = [limited.call(own)[0] for _ in range(8)]

        assert {200, 429} == {*statuses}
        assert 200 == limited.call(other)[0]

    def test_a_long_body_is_refused_before_it_is_read(self, limited: HttpServer) -> None:
        own = headers(token(limited.root, jti="long"), HANDSHAKES[0])

        for size in (2_001, 5_000_000):
            assert 413 == limited.ask(body=b"x" * size, headers=own)[0]
        chunked = {**own, "Transfer-Encoding": "chunked"}
        body = b"7d1\r\n" + b"x" * 2001 + b"\r\n0\r\n\r\n"
        assert 413 == limited.ask(body=body, headers=chunked)[0]

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("evil.example", 421),
            ("127.0.0.1.evil.example:{port}", 421),
            ("127.0.0.1:1", 421),
            ("", 421),
            ("mcp.example.com", 200),
            ("MCP.example.com:443", 200),
            ("localhost:{port}", 200),
        ],
    )
    def test_only_its_own_names_are_answered(
        self, limited: HttpServer, host: str, status: int
    ) -> None:
        """A page that rebinds its name to this machine sends that name (DNS rebinding)."""
        own = headers(token(limited.root, jti=f"host-{len(host)}"), HANDSHAKES[0])
        named = {**own, "Host": host.format(port=limited.port)}

        assert status == limited.ask(body=message("tools/list"), headers=named)[0]

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("https://evil.example", 403),
            ("null", 403),
            ("https://app.example.com.evil.example", 403),
            ("https://app.example.com", 200),
        ],
    )
    def test_pages_of_other_origins_are_refused(
        self, limited: HttpServer, origin: str, status: int
    ) -> None:
        own = headers(token(limited.root, jti=f"origin-{len(origin)}"), HANDSHAKES[0])

        assert (
            status == limited.ask(body=message("tools/list"), headers={**own, "Origin": origin})[0]
        )

    def test_more_sessions_than_the_pool_take_turns(self, limited: HttpServer) -> None:
        for number in range(5):
            assert 200 == limited.call(token(limited.root, jti=f"turn-{number}"))[0]

        assert b"ralphgen_http_sessions 2\n" in limited.ask("/metrics")[1]

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_sessions_that_come_and_go_leave_no_files_open(self, limited: HttpServer) -> None:
        (worker,) = limited.workers()
        assert 200 == limited.ask("/readyz")[0]
        for number in range(3):
            assert 200 == limited.call(token(limited.root, jti=f"passing-{number}"))[0]
        held = [*Path(f"/proc/{worker}/fd").iterdir()]
        for number in range(5):
            assert 200 == limited.call(token(limited.root, jti=f"later-{number}"))[0]

        found = [*Path(f"/proc/{worker}/fd").iterdir()]
        assert len(found) <= len(held) + 1  # a connection that is being closed

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
    def test_only_post_is_served(self, limited: HttpServer, method: str) -> None:
        own = headers(token(limited.root, jti=f"method-{method}"))

        assert 405 == limited.ask(headers=own, method=method)[0]

    def test_the_log_has_no_contents(self, limited: HttpServer) -> None:
        own = token(limited.root, jti="logged")
        limited.call(own, "append_learning", text="a secret of the project")
        log = limited.root / "http.log"

        line = '"session":"logged","request":"tools/call append_learning"'
        assert until(lambda: line in log.read_text(encoding="utf-8"))  # after the answer is sent
        assert "secret" not in log.read_text(encoding="utf-8")
        limited.call(own, "no tool but words")
        assert until(lambda: '"tools/call of no tool"' in log.read_text(encoding="utf-8"))
        assert "but words" not in log.read_text(encoding="utf-8")
        assert own not in log.read_text(encoding="utf-8")


@pytest.mark.thorough
class TestEnds:
    """Workers and the whole server end; nothing that was acknowledged is lost."""

    def test_a_killed_worker_loses_nothing_that_it_has_acknowledged(self, tmp_path: Path) -> None:
        root = http_project(tmp_path / "p", "workers = 2\nrate = 100000\n")
        acknowledged: list[int] = []
        with serving(root, drain=True) as server:
            own = token(root)
            for turn in range(1, 4):
                for _ in range(10):
                    status, told = server.call(
                        own, "create_task", feature="auth", discipline="backend", title="T"
                    )
                    assert 200 == status
                    acknowledged.append(json.loads(told["result"]["content"][0]["text"])["id"])
                os.kill(server.workers()[0], signal.SIGKILL)
                restarts = f"ralphgen_http_restarts_total {turn}\n".encode()

                assert until(partial(is_told, server, restarts))

        assert {*acknowledged} <= {row[0] for row in query(root, "SELECT id FROM tasks")}

    def test_a_server_that_gives_notice_goes_on_not_ready(self, tmp_path: Path) -> None:
        """So that a proxy which looks sends the next requests to another server."""
        root = http_project(tmp_path / "p", "workers = 1\n")
        with serving(root, "--notice", "1", drain=True) as server:
            own = token(root)
            assert 200 == server.ask("/readyz")[0]
            server.process.send_signal(signal.SIGTERM)
            assert until(lambda: server.ask("/readyz")[:2] == (503, b"the server ends\n"))
            assert 200 == server.call(own)[0]
            assert until(lambda: takes_nobody(server))

    def test_what_runs_ends_before_the_server_does(self, tmp_path: Path) -> None:
        """A writer waits for another program; the server is told to end meanwhile."""
        root = http_project(tmp_path / "p", "workers = 1\n")
        told: list[int] = []
        with serving(root, drain=True) as server:
            own = token(root)
            server.call(own)
            other = sqlite3.connect(root / ".ralph/db/ralph.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            asking = threading.Thread(
                target=lambda: told.append(
                    server.call(
                        own, "create_task", feature="auth", discipline="backend", title="Late"
                    )[0]
                )
            )
            asking.start()
            assert until(partial(is_told, server, b"in_flight 2\n"))
            server.process.send_signal(signal.SIGTERM)
            assert until(lambda: takes_nobody(server))
            other.execute("ROLLBACK")
            other.close()
            asking.join(PATIENCE)

        assert [200] == told

    def test_workers_do_not_outlive_what_started_them(self, tmp_path: Path) -> None:
        root = http_project(tmp_path / "p", "workers = 2\n")
        with serving(root) as server:
            workers = server.workers()
            server.process.kill()

            assert until(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))


def test_a_session_that_was_ended_is_refused_at_once(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 2\n")
    with serving(root) as server:
        own, other = token(root, jti="ended"), token(root, jti="going-on")
        assert {200} == {server.call(own)[0] for _ in range(8)}
        revoke(str(root / ".ralph/db/ralph.db"), "ended")

        assert {401} == {server.call(own)[0] for _ in range(8)}
        assert 200 == server.call(other)[0]


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


def test_without_the_list_of_ended_sessions_nobody_is_let_in(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\n")
    listed = root / ".ralph/db" / FILE
    with serving(root) as server:
        assert b"" == listed.read_bytes()
        listed.unlink()

        assert 503 == server.call(token(root))[0]


def test_sessions_go_on_where_the_database_was_replaced(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\n")
    path, own = root / ".ralph/db/ralph.db", token(root)
    with serving(root) as server:
        assert 200 == server.call(own)[0]
        shutil.copyfile(path, path.with_name("other.db"))
        path.unlink()
        status, _, told = server.ask(
            body=message("tools/list"), headers=headers(own, HANDSHAKES[0])
        )
        assert (503, "5") == (status, told["retry-after"])
        path.with_name("other.db").rename(path)
        status, answer = server.call(own, "get_task", id=1)

        assert (200, False) == (status, answer["result"]["isError"])


def test_a_server_without_http_says_so(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")

    assert "does not speak HTTP" in refused(root, "--http")
    assert not (root / ".ralph/mcp/runtime/http").exists()
