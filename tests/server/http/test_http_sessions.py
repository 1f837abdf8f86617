"""A server over HTTP: clients of both protocol versions, and sessions of tokens."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import Era, connected, create_project
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
from proved_projects import TESTS, proved_project
from wire import refused


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = http_project(tmp_path_factory.mktemp("http") / "p", "workers = 1\nrate = 100000\n")
    with serving(root) as running:
        yield running


@pytest.mark.thorough
@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_sdks_client_lists_and_calls(server: HttpServer, era: Era) -> None:
    with (
        http_client(server, token(server.root), era) as remote,
        connected(server.root, era=era, user=None) as local,
    ):
        assert local.tools() == remote.tools()
        assert local.call("get_task", id=1) == remote.call("get_task", id=1)
        assert "Log in" == remote.call("get_task", id=1)["title"]


@pytest.mark.thorough
def test_a_session_sees_the_tools_of_its_token(server: HttpServer) -> None:
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
        assert "works only on the task 1" in remote.refusal("set_task_status", id=2, status="done")


def test_no_request_needs_a_handshake(server: HttpServer) -> None:
    """Any worker of any machine answers the next one."""
    own = token(server.root)
    for version in HANDSHAKES:
        _, body, _ = server.ask(body=message("tools/list"), headers=headers(own, version))

        assert 28 == len(json.loads(body)["result"]["tools"])
    _, body, _ = server.ask(
        body=message("tools/list", enveloped({})), headers=headers(own, "2026-07-28", "tools/list")
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
def test_unknown_sessions_and_tasks_open_nothing(
    server: HttpServer, changed: dict[str, Any]
) -> None:
    """A name that means nothing may be a typo for something smaller."""
    status, told = server.call(token(server.root, jti="unknown", **changed))

    assert 403 == status
    assert "cannot be opened" in told["error"]["message"]


def test_changes_are_not_sent_without_an_open_stream(server: HttpServer) -> None:
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


@pytest.mark.thorough
def test_with_checks_done_is_set_next_to_the_files(tmp_path: Path) -> None:
    """The server has no worktree of the agent: it runs no checks and accepts no claims of proof."""
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


@pytest.mark.thorough
def test_who_regenerates_has_to_start_the_server_again(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\n")
    with serving(root) as server:
        policy = root / ".ralph/mcp/policy.py"
        policy.write_text(policy.read_text(encoding="utf-8") + "\n", encoding="utf-8")

        assert 503 == server.ask("/readyz")[0]


@pytest.mark.thorough
def test_sessions_continue_if_the_database_was_replaced(tmp_path: Path) -> None:
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


def test_a_server_without_http_refuses_to_listen(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")

    assert "does not speak HTTP" in refused(root, "--http")
    assert not (root / ".ralph/mcp/runtime/http").exists()
