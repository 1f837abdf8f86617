"""Search, load, sign, help and execute do not import the SDK."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from driving import context_for, on_context, server_command
from rye_projects import TYPES, rye_project, session, variables, well_formed
from wire import MODERN, PATIENCE

HANDSHAKES = ("2025-06-18", "2025-11-25")
VERSIONS = (*HANDSHAKES, "2026-07-28")
SDK = {"mcp", "anyio", "pydantic"}
COSTLY = {*SDK, "asyncio", "jsonschema"}
"""Modules that only executing calls load."""
KEYS = {"cryptography", "subprocess"}
"""Modules that only signing, signed items and execution load."""
YAML = {"yaml"}
"""The module that only items with YAML metadata load."""
Call = tuple[str, dict[str, Any]]
SAMPLE = {"item_type": "tool", "item_id": "demo/sample"}
REFUSED: tuple[Call, ...] = (
    ("search", {"item_type": "all", "query": "(sample"}),
    ("search", {"item_type": "all", "query": "sample", "limit": 0}),
    ("load", {"item_type": "tool", "item_id": "demo/simple"}),
    ("load", {"item_type": "tool", "item_id": "../sample"}),
    ("load", {**SAMPLE, "project_path": "/"}),
    ("help", {"topic": "nothing"}),
    ("find", {"query": "sample"}),
)
LOOKS: tuple[Call, ...] = (
    ("search", {"item_type": "all", "query": "sample"}),
    ("search", {"item_type": "all", "query": "smaple", "fuzzy": {"enabled": True}}),
    ("load", SAMPLE),
    ("help", {}),
    *REFUSED,
)
SIGNS: Call = ("sign", SAMPLE)
RUNS: Call = ("execute", {**SAMPLE, "parameters": {"who": "Bob"}})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with an unsigned item of each type, which may be executed."""
    root = rye_project(tmp_path / "project", 'policy = "off"')
    with session(tmp_path, root) as rye:
        for item_type in TYPES:
            rye.put(item_type, "demo/sample", well_formed(item_type, "demo/sample"))
    return root


def frames_of(root: Path, version: str, calls: Sequence[Call]) -> Iterator[dict[str, Any]]:
    """Return the frames of a session: the opening and some calls, numbered from 1."""
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    if not envelope:
        about = {"name": "test", "version": "1"}
        given = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
        yield {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}
        yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for number, (tool, given) in enumerate(calls, 1):
        place = {} if tool == "help" else {"project_path": str(root)}
        called = {"name": tool, "arguments": {**place, **given}, **envelope}
        yield {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": called}


def ran(
    root: Path, version: str, calls: Sequence[Call]
) -> tuple[Mapping[int, dict[str, Any]], set[str]]:
    """Return the answers by id and the modules that the server loaded."""
    _, *command = server_command(root, "rye", *on_context(context_for(root, "manual")))
    frames = [*frames_of(root, version, calls)]
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **variables(root.parent)},
    ) as process:
        watch = Timer(PATIENCE, process.kill)
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


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_that_only_looks_loads_neither_the_sdk_nor_cryptography(
    project: Path, version: str
) -> None:
    _, modules = ran(project, version, [*LOOKS, *LOOKS])

    assert set() == (COSTLY | KEYS) & modules


@pytest.mark.parametrize("version", VERSIONS)
def test_help_and_refusals_read_no_yaml(project: Path, version: str) -> None:
    _, modules = ran(project, version, [("help", {}), *REFUSED])

    assert set() == (COSTLY | KEYS | YAML) & modules


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_that_signs_loads_no_sdk(project: Path, version: str) -> None:
    answers, modules = ran(project, version, [*LOOKS, SIGNS, *LOOKS])
    signed = answers[len(LOOKS) + 1]["result"]

    assert set() == COSTLY & modules
    assert {"cryptography"} <= modules
    assert not signed.get("isError"), signed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_that_runs_loads_no_sdk_and_nothing_else_is_changed_by_it(
    project: Path, version: str
) -> None:
    answers, modules = ran(project, version, [*LOOKS, RUNS, *LOOKS])
    number = len(LOOKS) + 1
    (block,) = answers[number]["result"]["content"]

    assert set() == SDK & modules
    assert {"who": "Bob"} == json.loads(block["text"])["data"]["params"]
    for at in range(1, number):
        assert {**answers[at], "id": 0} == {**answers[number + at], "id": 0}
