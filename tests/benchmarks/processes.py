"""Servers as bare processes, timed from outside: the cost of each answer, and of each end."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from wire import MODERN

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
PATIENCE = 60.0  # seconds for a conversation
PATIENCE_AT_END = 3.0  # seconds for a server whose client has left


@dataclass(frozen=True, slots=True)
class Server:
    """A server to be measured: its command line, and a call that it answers from its data."""

    name: str
    command: Sequence[str]
    call: str = "get_task"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"id": 1})
    era: str = HANDSHAKE
    identity: str = "id"  # the server's name for the id of a task
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Conversation:
    """A running server; `begun` is when its process was asked for."""

    def __init__(self, server: Server) -> None:
        """Starts the process."""
        self.server = server
        environment = {**os.environ, **server.environment}
        self._identity = 0
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            server.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=server.folder,
            env=environment,
        )

    def since(self) -> float:
        """Milliseconds since the process was asked for."""
        return (time.perf_counter() - self.begun) * 1000

    def frame(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """The line of a request in the server's era."""
        self._identity += 1
        given = dict(params or {})
        if self.server.era == STATELESS:
            given["_meta"] = MODERN
        told = {"jsonrpc": "2.0", "id": self._identity, "method": method, "params": given}
        return json.dumps(told).encode() + b"\n"

    def send(self, line: bytes) -> None:
        """Write a line at once."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request, after any other messages of the server."""
        self.send(self.frame(method, params))
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The result of the last request."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith(b"{"):
                continue  # some servers of the field print
            frame: dict[str, Any] = json.loads(line)
            if "method" in frame and "id" in frame:  # a question for the client, even uninvited
                refusal = {"code": -32601, "message": "Method not found"}
                told = {"jsonrpc": "2.0", "id": frame["id"], "error": refusal}
                self.send(json.dumps(told).encode() + b"\n")
            elif frame.get("id") == self._identity:
                assert "result" in frame, (self.server.name, line)
                return dict(frame["result"])
        raise AssertionError(f"{self.server.name} ended without an answer")

    def opening(self) -> bytes:
        """The first line of the era."""
        if self.server.era == STATELESS:
            return self.frame("server/discover")
        about = {"name": "benchmark", "version": "1"}
        given = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": about}
        return self.frame("initialize", given)

    def opened(self) -> bytes:
        """Return a client's messages after the first answer."""
        told = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        return b"" if self.server.era == STATELESS else told

    def shake_hands(self) -> None:
        """Perform the handshake of a client."""
        self.send(self.opening())
        self.answer()
        self.send(self.opened())

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call that must be no failure."""
        names = {"id": self.server.identity}
        given = {names.get(name, name): value for name, value in arguments.items()}
        result = self.ask("tools/call", {"name": tool, "arguments": given})
        assert not result.get("isError"), (self.server.name, result)
        return result

    def end(self) -> tuple[float, float]:
        """Leave; return the milliseconds until the process is gone, and its CPU time."""
        assert self.process.stdin is not None
        start = time.perf_counter()
        self.process.stdin.close()
        late = Timer(PATIENCE_AT_END, self.process.kill)
        late.start()
        _, status, used = os.wait4(self.process.pid, 0)
        taken = (time.perf_counter() - start) * 1000
        late.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return taken, (used.ru_utime + used.ru_stime) * 1000


@contextmanager
def conversation(server: Server) -> Iterator[Conversation]:
    """A server that is killed if it hangs, and ended with the block."""
    found = Conversation(server)
    late = Timer(PATIENCE, found.process.kill)
    late.start()
    try:
        yield found
    finally:
        late.cancel()
        if found.process.returncode is None:
            found.end()
        assert found.process.stdout is not None
        found.process.stdout.close()


def memory(process: int) -> tuple[float, float]:
    """Return RSS and PSS in MB of a process and its children; zeros if they are unknown."""
    resident = proportional = 0
    for one in [process, *_children(process)]:
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        facts = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
        resident += int(facts["Rss"].split()[0])
        proportional += int(facts["Pss"].split()[0])
    return resident / 1024, proportional / 1024


def _children(process: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text(encoding="utf-8").split():
            found += [int(child), *_children(int(child))]
    return found
