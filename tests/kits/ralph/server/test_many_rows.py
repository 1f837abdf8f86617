"""A hundred thousand tasks that wait for one: the answers, and the memory use."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, create_project, on_context
from wire import Wire, running

MANY = """
INSERT INTO tasks (id, feature, discipline, title, status, depends_on)
    WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    SELECT i, 'auth', 'backend', 'Task number ' || i, iif(i = 50, 'done', 'pending'), '[1]' FROM n;
"""
MOST = 40  # megabytes; a server uses 20 at its start


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    root = create_project(tmp_path_factory.mktemp("many"), MANY)
    with running(root, *on_context(context_for(root, "manual"))) as server:
        server.shake_hands()
        yield server


def call_or_refusal(server: Wire, tool: str, **arguments: object) -> dict[str, Any]:
    """Return the answer of a tool, or its refusal as `refused`; checks the memory use."""
    result = server.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
    text = result["content"][0]["text"]
    assert megabytes(server) < MOST
    answer: dict[str, Any] = {"refused": text} if result.get("isError") else json.loads(text)
    return answer


def megabytes(server: Wire) -> int:
    """Return the server's peak memory in MiB, or 0 if it is unknown."""
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        return 0
    (most,) = re.findall(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="ascii"))
    return int(most) // 1024


def test_a_task_shows_its_first_dependents(server: Wire) -> None:
    answer = call_or_refusal(server, "get_task", id=1)

    assert list(range(10, 110)) == [row["id"] for row in answer["dependents"][:101]][1:]
    assert ["dependents"] == answer["cut"]


def test_a_task_is_no_longer_as_a_resource_and_leads_on(server: Wire) -> None:
    def read(uri: str) -> dict[str, Any]:
        (contents,) = server.ask("resources/read", {"uri": uri})["result"]["contents"]
        assert len(contents["text"]) <= 40_000
        assert megabytes(server) < MOST
        answer: dict[str, Any] = json.loads(contents["text"])
        return answer

    page = read(read("ralph://tasks/1")["more"]["dependents"])
    following = read(page["next"])["dependents"][0]["id"]

    assert page["dependents"][-1]["id"] + 1 == following


def test_a_task_that_others_wait_for_is_not_deleted(server: Wire) -> None:
    assert (
        'task 2 "Show the form" depends on it'
        in call_or_refusal(server, "delete_task", id=1)["refused"]
    )


def test_of_what_becomes_free_the_first_are_named_and_that_there_are_others(server: Wire) -> None:
    answer = call_or_refusal(server, "set_task_status", id=1, status="done")
    again = call_or_refusal(server, "set_task_status", id=1, status="pending")

    assert [2, *range(10, 50), *range(51, 60)] == answer["unblocked"][:50]
    assert ["unblocked"] == answer["cut"]
    assert {"id": 1, "old": "done", "new": "pending"} == again
