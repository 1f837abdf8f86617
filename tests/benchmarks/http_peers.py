"""Servers over HTTP on one database of tasks: ours, the SDK's own app, FastMCP, and Toolbox."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from http_servers import HANDSHAKES, JSON, message, serving, token
from installed import FASTMCP, PEERS, npm, python_with
from processes import HANDSHAKE, PATIENCE
from projects import database, tools_file

SDK_APP = Path(__file__).parents[1] / "support/sdk_http_app.py"
TOOLBOX = "@toolbox-sdk/server"
# Toolbox is given the one select that `get_task` is without what ours adds to it.
TOOLS = """sources:
  shop:
    kind: sqlite
    database: {database}
tools:
  get_task:
    kind: sqlite-sql
    source: shop
    description: Get a task.
    statement: SELECT * FROM tasks WHERE id = $1
    parameters:
      - name: id
        type: integer
        description: Its number.
"""


@dataclass
class HttpPeer:
    """A server that runs; `processes` are those whose CPU time and memory count."""

    port: int
    path: str
    processes: Callable[[], Sequence[int]]
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(self, body: bytes, **more: str) -> bytes:
        """One request, as it goes over a connection that is kept."""
        told = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Length": str(len(body)),
            "MCP-Protocol-Version": HANDSHAKES[-1],
            **JSON,
            **self.headers,
            **more,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body

    def seconds(self) -> float:
        """Seconds of CPU that it has used."""
        ticks = 0
        for process in self.processes():
            stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2]
            ticks += sum(map(int, stat.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """PSS of its processes: what several have in common counts once."""
        total = 0
        for process in self.processes():
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
            total += int(rollup.partition("\nPss:")[2].split()[0])
        return total / 1024


async def answered(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of an answer, of a known length or in chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), head
    length = head.lower().partition(b"content-length: ")[2]
    if length:
        return head, await reader.readexactly(int(length.split(b"\r\n")[0]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return head, body


async def request_seconds(peer: HttpPeer, request: bytes, count: int) -> list[float]:
    """Seconds of each request of one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
    taken: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        writer.write(request)
        _, body = await answered(reader)
        assert b"Task 100" in body, body
        taken.append(time.perf_counter() - begun)
    writer.close()
    await writer.wait_closed()
    return taken


@contextmanager
def ours(root: Path, *options: str) -> Iterator[HttpPeer]:
    """The project's own server; its keeper, which does nothing, counts too."""
    with serving(root, *options) as server:
        told = {"Authorization": f"Bearer {token(root)}"}
        yield HttpPeer(
            server.port, "/mcp/ralph", lambda: [server.process.pid, *server.workers()], told
        )


@contextmanager
def sdk_app(root: Path) -> Iterator[HttpPeer]:
    """The same tools on the SDK's own app, as it comes: with sessions, and answers as events."""
    command = [sys.executable, str(SDK_APP), str(root / ".ralph/mcp")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            peer = HttpPeer(int(process.stderr.readline()), "/mcp/ralph", lambda: [process.pid])
            peer.headers = _session(peer)
            yield peer
        finally:
            process.kill()


@contextmanager
def fastmcp(root: Path) -> Iterator[HttpPeer]:
    """FastMCP with the same tools, in its fastest way: no sessions, and answers as JSON."""
    python, port = python_with("fastmcp", FASTMCP), _free_port()
    script = str(PEERS / "fastmcp_server.py")
    command = (python, script, str(database(root)), str(tools_file(root)), str(port))
    with _listening(command, port, "/mcp") as peer:
        yield peer


@contextmanager
def toolbox(root: Path) -> Iterator[HttpPeer]:
    """MCP Toolbox, which is written in Go, with one tool of one select."""
    (binary,) = (npm("@toolbox-sdk/server 1.12.0", f"{TOOLBOX}@1.12.0") / "@toolbox-sdk").glob(
        "server-*/bin/toolbox"
    )
    tools, port = root / "tools.yaml", _free_port()
    tools.write_text(TOOLS.format(database=database(root)), encoding="utf-8")
    told = ("--disable-version-check", "--log-level", "ERROR")
    command = (str(binary), "--config", str(tools), "--port", str(port), *told)
    with _listening(command, port, "/mcp") as peer:
        yield peer


@contextmanager
def _listening(command: Sequence[str], port: int, path: str) -> Iterator[HttpPeer]:
    """Run a server to its first answer, and end it."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        try:
            peer = HttpPeer(port, path, lambda: [process.pid])
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    peer.headers = _session(peer)
                except OSError:
                    assert process.poll() is None, command
                    assert time.monotonic() < deadline, command
                    time.sleep(0.05)
                else:
                    break
            yield peer
        finally:
            process.kill()


def _session(peer: HttpPeer) -> dict[str, str]:
    """Return the header of a new session, if the server has sessions."""
    about = {"name": "benchmark", "version": "1"}
    given: dict[str, Any] = {"capabilities": {}, "clientInfo": about}

    async def begin() -> dict[str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
        writer.write(peer.request(message("initialize", {**given, "protocolVersion": HANDSHAKE})))
        head, _ = await answered(reader)
        named = head.lower().partition(b"mcp-session-id: ")[2].split(b"\r\n")[0].decode()
        told = {"Mcp-Session-Id": named} if named else {}
        notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        writer.write(peer.request(notice, **told))
        await answered(reader)
        writer.close()
        return told

    return asyncio.run(begin())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
