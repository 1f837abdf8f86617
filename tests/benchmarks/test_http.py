"""Calls over HTTP at 64 connections: our server and others, and more workers."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import http_peers
import pytest
from figures import Topic, topic
from http_peers import HttpPeer
from http_servers import CONFIG, message
from installed import MISSING
from projects import project

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.benchmark

CONNECTIONS = 64
REQUESTS = 640
ROUNDS = 4
CALL = {"name": "get_task", "arguments": {"id": 100}}
SELECT = {**CALL, "name": "task_row"}
QUERY = """-- name: task_row :one
-- Get a task, by the one select that Toolbox's `get_task` is.
SELECT * FROM tasks WHERE id = :id;
"""
Peer = Callable[[Path], AbstractContextManager[HttpPeer]]
PEERS: dict[str, Peer] = {
    "MCP Toolbox 1.12.0 (Go)": http_peers.toolbox,
    "ralphgen": http_peers.ours,
    "the SDK's own app": http_peers.sdk_app,
    "FastMCP 4.1.2": http_peers.fastmcp,
}


def http_project(root: Path, workers: int) -> Path:
    """A project of 200 tasks that is served by so many workers."""
    found = project(root)
    more = f"{CONFIG}workers = {workers}\nrate = 1000000\n"
    (found / ".ralph/ralphgen.toml").write_text(more, encoding="utf-8")
    (found / ".ralph/queries").mkdir()
    (found / ".ralph/queries/tasks.sql").write_text(QUERY, encoding="utf-8")
    regenerate(found, force=False, say=lambda _: None)
    return found


def measured(
    table: Topic, name: str, peer: HttpPeer, request: Callable[[int], bytes], *, counts: bool
) -> None:
    """Send requests on all connections at the same time; record the duration if it counts.

    `request` returns the request of a connection by its number: ids are unique in a session.
    """

    async def all_asked() -> list[float]:
        each = REQUESTS // CONNECTIONS
        many = (http_peers.request_seconds(peer, request(one), each) for one in range(CONNECTIONS))
        return sorted(one for taken in await asyncio.gather(*many) for one in taken)

    before = peer.seconds()
    taken = asyncio.run(all_asked())
    used = peer.seconds() - before
    if counts:
        elapsed = sum(taken) / CONNECTIONS
        table.add(name, "CPU ms/request", 1000 * used / len(taken))
        table.add(name, "requests/s", len(taken) / elapsed)
        table.add(name, "p50 ms", 1000 * taken[len(taken) // 2])
        table.add(name, "p99 ms", 1000 * taken[len(taken) * 99 // 100])
        table.add(name, "memory MB", peer.megabytes())


def plain(peer: HttpPeer, call: Mapping[str, Any] = CALL) -> Callable[[int], bytes]:
    """The call of a task, as each connection makes it."""
    return lambda number: peer.request(message("tools/call", call, number))


def test_requests_compared_with_peers(tmp_path: Path) -> None:
    root = http_project(tmp_path, 1)
    title = f"get_task over HTTP, {CONNECTIONS} connections, one worker, 2025-11-25"
    with topic(title) as table, ExitStack() as stack:
        peers: dict[str, HttpPeer] = {}
        for name, peer in PEERS.items():
            try:
                peers[name] = stack.enter_context(peer(root))
            except MISSING as error:
                table.note(f"left out: {name} ({str(error)[:120]})")
        for turn in range(ROUNDS + 1):
            for name, peer_here in peers.items():
                measured(table, name, peer_here, plain(peer_here), counts=turn > 0)
            own = peers["ralphgen"]
            measured(table, "ralphgen, one select", own, plain(own, SELECT), counts=turn > 0)


def test_more_workers(tmp_path: Path) -> None:
    with topic(f"get_task over HTTP, {CONNECTIONS} connections") as table, ExitStack() as stack:
        peers: dict[int, HttpPeer] = {}
        for number in (1, 2, 4):
            root = http_project(tmp_path / str(number), number)
            peers[number] = stack.enter_context(http_peers.ours(root))
        for turn in range(ROUNDS + 1):
            for number, peer in peers.items():
                name = f"{number} worker{'s' * (number > 1)}"
                measured(table, name, peer, plain(peer), counts=turn > 0)
