"""An emitted server as a bare process: frames in, frames out, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driving import server_command

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PATIENCE = 60.0  # seconds; a server that needs them hangs


class Wire:
    """A running server and its three streams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Connect to `process`."""
        self.process = process
        self._id = 0

    def send(self, method: str, params: object = None, **frame: object) -> None:
        """Send one frame; `frame` holds its `id` if it is a request."""
        told = {"jsonrpc": "2.0", **frame, "method": method}
        if params is not None:
            told["params"] = params
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: object = None) -> dict[str, Any]:
        """The whole answer to a request; the server must write no other frame before it."""
        self._id += 1
        self.send(method, params, id=self._id)
        answer = self.read()
        assert self._id == answer.get("id"), answer
        return answer

    def read(self) -> dict[str, Any]:
        """The next line of standard output, which must be a frame."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors()
        frame: dict[str, Any] = json.loads(line)
        return frame

    def shake_hands(self, version: str = "2025-11-25") -> dict[str, Any]:
        """The result of `initialize`, or of `server/discover` for the stateless era."""
        if version >= "2026":
            found: dict[str, Any] = self.ask("server/discover", {"_meta": MODERN})["result"]
            return found
        about = {"name": "test", "version": "1"}
        given = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
        answer: dict[str, Any] = self.ask("initialize", given)["result"]
        self.send("notifications/initialized")
        return answer

    def leave(self) -> None:
        """Close standard input, as a client does that is done."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def end(self) -> int:
        """The exit code of a server that must end by itself."""
        return self.process.wait(PATIENCE)

    def errors(self) -> str:
        """All of standard error, once the server has ended."""
        self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return self.process.stderr.read()


class Speaker:
    """Asks a server in the form of one version of the protocol."""

    def __init__(self, server: Wire, version: str) -> None:
        """Connect to `server`."""
        self._server = server
        self._more = {"_meta": MODERN} if version >= "2026" else {}

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The whole answer to a request."""
        return self._server.ask(method, {**params, **self._more})


@contextmanager
def running(root: Path, *arguments: str) -> Iterator[Wire]:
    """The project's server as a process; it is killed if it does not end."""
    with subprocess.Popen(
        server_command(root, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Wire(process)
        finally:
            if process.poll() is None:
                process.kill()


def refused(root: Path, *arguments: str) -> str:
    """The line of a server that must not start: alone on stderr, exit code 2, before any frame."""
    found = subprocess.run(
        server_command(root, *arguments), input="", capture_output=True, text=True, check=False
    )
    assert (2, "") == (found.returncode, found.stdout), found.stderr
    (line,) = found.stderr.splitlines()
    assert line.startswith("server.py: ")
    return line


def checked(root: Path, *arguments: str) -> None:
    """A server with these arguments must be able to start."""
    command = server_command(root, *arguments, "--check")
    found = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert (0, "", "") == (found.returncode, found.stdout, found.stderr)


def imported(*arguments: str) -> set[str]:
    """The modules that an interpreter loads to run `arguments`, by their full names."""
    command = [sys.executable, "-I", "-X", "importtime", *arguments]
    found = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in found.stderr.splitlines() if "|" in line}
