"""The answers of a server to a session of calls, and the modules that it loads for them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

from driving import context_for, on_context, server_command
from wire import MODERN, PATIENCE

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
SDK = {"mcp", "anyio", "pydantic"}
Call = tuple[str, dict[str, Any]]


def frames_of(version: str, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Return the frames of a session: the opening and some calls, numbered from 1."""
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    about = {"name": "test", "version": "1"}
    given = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
    opening: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    requests: list[dict[str, Any]] = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments, **envelope},
        }
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return requests if envelope else [*opening, *requests]


def answers_and_modules(
    root: Path, kit: str, version: str, calls: Sequence[Call], more: Mapping[str, str] | None = None
) -> tuple[Mapping[int, dict[str, Any]], set[str]]:
    """Return the answers by id and the modules that the server loaded; `more` are variables."""
    _, *command = server_command(root, kit, *on_context(context_for(root, "manual")))
    frames = frames_of(version, calls)
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(more or {})},
    ) as process:
        watch = Timer(PATIENCE, process.kill)  # a server that does not end would block the reader
        watch.start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("".join(json.dumps(frame) + "\n" for frame in frames))
        process.stdin.flush()
        lines = [process.stdout.readline() for frame in frames if "id" in frame]
        process.stdin.close()
        told = process.stderr.read().splitlines()
        rest = process.stdout.read()
        watch.cancel()
    assert (0, "") == (process.returncode, rest)
    modules = {line.rpartition("|")[2].strip() for line in told if "|" in line}
    return {frame["id"]: frame for frame in map(json.loads, lines)}, modules
