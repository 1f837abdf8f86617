"""While a call waits for another program, everything else continues."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, create_project, query, server_command, write_lock
from frames import COMPLETION, HANDSHAKES, STATELESS, opening, request
from wire import Wire, running

CHANGE = ("tools/call", {"name": "update_task", "arguments": {"id": 1, "title": "late"}})
READS: tuple[tuple[str, Any], ...] = (
    ("tools/call", {"name": "get_task", "arguments": {"id": 1}}),
    ("resources/read", {"uri": "ralph://tasks/1"}),
    ("tools/list", {}),
    ("ping", {}),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = create_project(tmp_path, "PRAGMA journal_mode = WAL;")
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    return root


def answers(server: Wire, number: int) -> dict[object, Any]:
    return {frame["id"]: frame for frame in (server.read() for _ in range(number))}


@pytest.mark.parametrize("handed_off", [False, True])
def test_reads_continue_while_a_write_waits(project: Path, *, handed_off: bool) -> None:
    with write_lock(project) as other, running(project) as server:
        server.shake_hands()
        if handed_off:
            server.ask(*COMPLETION)
        for number in range(3):
            server.send(*CHANGE, id=f"write {number}")
        for told in READS * 3:
            assert "result" in server.ask(*told)
        other.execute("ROLLBACK")
        done = answers(server, 3)

    assert ["write 0", "write 1", "write 2"] == [*done]
    assert not any(frame["result"]["isError"] for frame in done.values())
    assert [("late",)] == query(project, "SELECT title FROM tasks WHERE id = 1")


def test_writes_keep_their_order_while_they_wait(project: Path) -> None:
    with write_lock(project) as other, running(project) as server:
        server.shake_hands()
        for number in range(20):
            change = {"name": "update_task", "arguments": {"id": 1, "title": f"title {number}"}}
            server.send("tools/call", change, id=number)
        server.ask("ping")
        other.execute("ROLLBACK")

        assert [*range(20)] == [*answers(server, 20)]
    assert [("title 19",)] == query(project, "SELECT title FROM tasks WHERE id = 1")


def test_a_write_that_waits_and_is_cancelled_is_neither_done_nor_answered(project: Path) -> None:
    with write_lock(project) as other, running(project) as server:
        server.shake_hands()
        server.send(*CHANGE, id="write")
        server.send("notifications/cancelled", {"requestId": "write"})
        server.ask("ping")
        other.execute("ROLLBACK")
        note = {"name": "append_progress", "arguments": {"text": "after it"}}

        assert not server.ask("tools/call", note)["result"]["isError"]
    assert [("Log in",)] == query(project, "SELECT title FROM tasks WHERE id = 1")


@pytest.mark.parametrize("version", [HANDSHAKES[1], STATELESS])
def test_piped_requests_are_answered_before_the_end(project: Path, version: str) -> None:
    """This includes writes, although the input is closed by then."""
    asked = [COMPLETION, CHANGE, COMPLETION, READS[0], ("no/such", {})]
    lines = [request(version, *told, number) for number, told in enumerate(asked, 1)]
    done = subprocess.run(
        server_command(project),
        input=b"".join([*opening(version), *lines]),
        capture_output=True,
        check=True,
    )
    found = {frame["id"]: frame for frame in map(json.loads, done.stdout.splitlines())}

    assert all("result" in found[number] for number in range(1, 5))
    assert -32601 == found[5]["error"]["code"]
    assert not found[2]["result"]["isError"]
    assert [("late",)] == query(project, "SELECT title FROM tasks WHERE id = 1")


def test_a_write_that_would_wait_at_the_end_is_refused(project: Path) -> None:
    with write_lock(project), running(project) as server:
        server.shake_hands()
        server.send(*CHANGE, id="write")
        server.ask("ping")
        server.leave()
        refused = server.read()

        assert ("write", -32000) == (refused["id"], refused["error"]["code"])
        assert (0, "") == (server.end(), server.errors())
    assert [("Log in",)] == query(project, "SELECT title FROM tasks WHERE id = 1")
