"""No plain call loads the SDK, and reading calls load hardly anything."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from dela_projects import allow, at_home, entry, project_with
from driving import context_for, on_context, server_command
from wire import MODERN, PATIENCE

HANDSHAKES = ("2025-06-18", "2025-11-25")
VERSIONS = (*HANDSHAKES, "2026-07-28")
SDK = {"mcp", "anyio", "pydantic"}
COSTLY = {*SDK, "asyncio", "dataclasses", "threading", "subprocess", "pathlib", "inspect"}
"""Modules that a session does not need to list make targets and scripts."""
FILES = {
    "Makefile": "build: ## Build it\n\t@echo built\n",
    "package.json": '{"scripts": {"build": "true"}}',
    "compose.yml": "",
    "hello.sh": '#!/bin/sh\necho "hello $1"\n',
    "sub/hello.sh": "#!/bin/sh\necho hello from below\n",
}
Call = tuple[str, dict[str, Any]]
LOOKS: tuple[Call, ...] = (
    ("list_tasks", {}),
    ("list_tasks", {"runner": "make", "cwd": "sub"}),
    ("list_tasks", {"limit": 1}),
    ("status", {}),
    ("task_status", {"unique_name": "hello"}),
)
REFUSED: tuple[Call, ...] = (
    ("list_tasks", {"cwd": ".."}),
    ("list_tasks", {"limit": "one"}),
    ("task_status", {}),
    ("task_status", {"pid": 1}),
    ("task_output", {"pid": 1}),
    ("task_stop", {"pid": 1}),
    ("task_start", {}),
    ("task_start", {"unique_name": "hello", "wait_for_exit_seconds": 301}),
    ("task_begin", {}),
)
START: Call = ("task_start", {"unique_name": "hello", "args": ["you"], "wait_for_exit_seconds": 60})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("front"), FILES)


@pytest.fixture(autouse=True)
def home(root: Path, tmp_path: Path) -> Iterator[None]:
    """Allow all tasks of the project as the user."""
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        yield


def request(version: str, identity: int, call: Call) -> dict[str, Any]:
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    params = {"name": call[0], "arguments": call[1], **envelope}
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}


def session(version: str, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Return the frames of a session: the opening and some calls, numbered from 1."""
    frames = [request(version, number, call) for number, call in enumerate(calls, 1)]
    if version >= "2026":
        return frames
    about = {"name": "test", "version": "1"}
    given = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
    shaking = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}
    return [shaking, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *frames]


@contextmanager
def bounded(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that does not end, so that its reader does not wait forever."""
    watch = Timer(PATIENCE, process.kill)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def loaded(root: Path, version: str, calls: Sequence[Call]) -> set[str]:
    """Return the modules that a server loads to answer all calls of a session."""
    _, *command = server_command(root, "dela", *on_context(context_for(root, "manual")))
    frames = session(version, calls)
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with bounded(process):
            process.stdin.write("".join(json.dumps(frame) + "\n" for frame in frames))
            process.stdin.flush()
            for _ in range(sum("id" in frame for frame in frames)):
                assert json.loads(process.stdout.readline())
            process.stdin.close()
            told = process.stderr.read().splitlines()
    assert 0 == process.returncode
    return {line.rpartition("|")[2].strip() for line in told if "|" in line}


@pytest.mark.parametrize("version", VERSIONS)
def test_read_only_session_never_loads_the_sdk(root: Path, version: str) -> None:
    assert set() == COSTLY & loaded(root, version, (*LOOKS, *REFUSED))


@pytest.mark.parametrize("version", VERSIONS)
def test_start_of_a_task_loads_more_but_not_the_sdk(root: Path, version: str) -> None:
    """The modules that start processes; the tests above would see them."""
    found = COSTLY & loaded(root, version, (*LOOKS, START))

    assert found
    assert set() == SDK & found
