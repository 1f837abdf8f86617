"""A client disconnects or cancels while a custom tool runs: the call ends, the server continues."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from driving import ROWS, SCHEMAS, context_for, create_database, made_here, on_context, quiet
from http_servers import (
    CONFIG,
    HANDSHAKES,
    MODERN,
    HttpServer,
    enveloped,
    headers,
    message,
    serving,
    token,
)
from lifelines import PATIENCE, until
from loop_projects import is_running
from wire import running

from ralphgen.emit.workflows import regenerate
from ralphgen.runtime.engine.sqlite.revocations import revoke

pytestmark = pytest.mark.slow

SETTINGS = f"{CONFIG}workers = 1\ntimeout = 300\n\n[own_tools.hang]\nseconds = 300\n"
TOOL = '''
"""A tool that takes long, and says so."""

import os
import subprocess
import time
from pathlib import Path

from ralphgen.tools import Project


def hang(project: Project) -> str:
    """Take five minutes, with a child that does the same."""
    child = subprocess.Popen(["sleep", "300"])
    part = Path(project.root, "pids.part")
    part.write_text(f"{os.getpid()} {child.pid}")
    part.rename(Path(project.root, "pids"))
    time.sleep(300)
    return ""


def wait(project: Project) -> str:
    """Wait for a file, then write another one."""
    Path(project.root, "waits").touch()
    while not Path(project.root, "go").exists():
        time.sleep(0.01)
    Path(project.root, "written").touch()
    return ""
'''
CALL = {"name": "hang", "arguments": {}}
WAIT = ("tools/call", {"name": "wait", "arguments": {}})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = tmp_path_factory.mktemp("cancelled")
    create_database(root, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"), ROWS)
    (root / ".ralph/tools").mkdir()
    (root / ".ralph/tools/slow.py").write_text(TOOL, encoding="utf-8")
    (root / ".ralph/ralphgen.toml").write_text(SETTINGS, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with serving(made_here(root)) as served:
        yield served


def start_call(server: HttpServer, version: str) -> tuple[socket.socket, list[int]]:
    """A connection on which the slow tool was called, and the processes that run it."""
    told = headers(token(server.root), version, *(("tools/call", "hang") * (version == MODERN)))
    body = message("tools/call", enveloped(CALL) if version == MODERN else CALL, "slow")
    lines = {"Host": f"127.0.0.1:{server.port}", "Content-Length": str(len(body)), **told}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    pids = server.root / "pids"
    pids.unlink(missing_ok=True)
    connection = socket.create_connection(("127.0.0.1", server.port), 60)
    place = urlsplit(server.url).path
    connection.sendall(f"POST {place} HTTP/1.1\r\n{head}\r\n".encode() + body)
    assert until(pids.exists)
    return connection, [int(pid) for pid in pids.read_text(encoding="utf-8").split()]


def goes_on(server: HttpServer) -> bool:
    """Return whether the session's next call is answered."""
    status, told = server.call(token(server.root), "get_task", id=1)
    return (status, told["result"]["isError"]) == (200, False)


@pytest.mark.thorough
@pytest.mark.parametrize("version", [HANDSHAKES[-1], MODERN])
def test_a_call_ends_whose_client_has_gone(server: HttpServer, version: str) -> None:
    """No client remains to receive its result."""
    connection, pids = start_call(server, version)
    assert goes_on(server)
    connection.close()

    assert until(lambda: not any(map(is_running, pids)))
    assert goes_on(server)


@pytest.mark.thorough
def test_a_call_ends_that_its_client_cancels(server: HttpServer) -> None:
    connection, pids = start_call(server, HANDSHAKES[-1])
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    for other in ("another", "slow"):
        body = json.dumps({**notice, "params": {"requestId": other}}).encode()
        status, _, _ = server.ask(body=body, headers=headers(token(server.root), HANDSHAKES[-1]))
        assert 202 == status
        assert other == "slow" or all(map(is_running, pids))

    assert until(lambda: not any(map(is_running, pids)))
    with closing(connection):
        answer = connection.recv(65_536)
    assert b"was cancelled" in answer
    assert goes_on(server)


def test_no_one_cancels_calls_of_another_session(server: HttpServer) -> None:
    connection, pids = start_call(server, HANDSHAKES[-1])
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    body = json.dumps({**notice, "params": {"requestId": "slow"}}).encode()
    other = token(server.root, jti="another")
    server.ask(body=body, headers=headers(other, HANDSHAKES[-1]))

    assert goes_on(server)
    assert all(map(is_running, pids))
    connection.close()
    assert until(lambda: not any(map(is_running, pids)))


def test_no_call_is_a_task_of_the_protocol_over_http(server: HttpServer) -> None:
    """Which of the workers would be asked after it?"""
    sent = headers(token(server.root), MODERN, "server/discover")
    _, body, _ = server.ask(body=message("server/discover", enveloped({})), headers=sent)
    with running(server.root, *on_context(context_for(server.root, "manual"))) as local:
        there = local.shake_hands(MODERN)["capabilities"]["extensions"]
    here = json.loads(body)["result"]["capabilities"].get("extensions", {})
    sent |= {"Mcp-Method": "tasks/get", "Mcp-Name": "x"}
    told = message("tasks/get", enveloped({"taskId": "x"}))
    _, refused, _ = server.ask(body=told, headers=sent)

    assert "io.modelcontextprotocol/tasks" in there
    assert "io.modelcontextprotocol/tasks" not in here
    assert -32601 == json.loads(refused)["error"]["code"]


def test_answer_to_an_ended_session_notes_that_the_call_may_have_been_carried_out(
    server: HttpServer,
) -> None:
    own = token(server.root, jti="ended")
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(server.ask, body=message(*WAIT), headers=headers(own))
        assert until((server.root / "waits").exists)
        revoke(str(server.root / ".ralph/db/ralph.db"), "ended")
        (server.root / "go").touch()
        status, body, _ = calling.result(PATIENCE)

    assert (server.root / "written").exists()
    assert (401, True) == (status, b"may have been carried out" in body)
