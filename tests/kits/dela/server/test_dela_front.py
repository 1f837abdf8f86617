"""No plain call loads the SDK, and those that only look load hardly anything."""

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
from wire import MODERN, PATIENCE, Wire, running

HANDSHAKES = ("2025-06-18", "2025-11-25")
VERSIONS = (*HANDSHAKES, "2026-07-28")
SDK = {"mcp", "anyio", "pydantic"}
COSTLY = {*SDK, "asyncio", "dataclasses", "threading", "subprocess", "pathlib", "inspect"}
"""Modules that a session does not need which only looks at make targets and scripts."""
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
    """A person allows all tasks of the project."""
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        yield


def request(version: str, identity: int, call: Call) -> dict[str, Any]:
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    params = {"name": call[0], "arguments": call[1], **envelope}
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}


def session(version: str, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """The frames of a whole session: its opening and some calls, numbered from 1."""
    frames = [request(version, number, call) for number, call in enumerate(calls, 1)]
    if version >= "2026":
        return frames
    about = {"name": "test", "version": "1"}
    given = {"protocolVersion": version, "capabilities": {}, "clientInfo": about}
    shaking = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}
    return [shaking, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *frames]


@contextmanager
def bounded(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that does not come to an end, so that nobody waits for its lines for ever."""
    watch = Timer(PATIENCE, process.kill)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def loaded(root: Path, version: str, calls: Sequence[Call]) -> set[str]:
    """The modules that a server loads for a session all of whose calls it must answer."""
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
def test_a_session_that_only_looks_never_loads_the_sdk(root: Path, version: str) -> None:
    assert set() == COSTLY & loaded(root, version, (*LOOKS, *LOOKS))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_costs_no_sdk_either(root: Path, version: str) -> None:
    assert set() == COSTLY & loaded(root, version, REFUSED)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_loads_more_but_not_the_sdk(root: Path, version: str) -> None:
    """The modules that start processes; the tests above would see them."""
    found = COSTLY & loaded(root, version, (*LOOKS, START))

    assert found
    assert set() == SDK & found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_start_is_answered_right_and_what_was_answered_before_stays_right(
    root: Path, version: str
) -> None:
    """By whichever side: the same bytes of every call, before the start and after it."""
    context = context_for(root, "manual")
    with running(root, "dela", *on_context(context)) as server:
        server.shake_hands(version)
        looks = (*LOOKS[:-1], *REFUSED)
        before = [told(server, version, 100 + at, call) for at, call in enumerate(looks)]
        start = told(server, version, 1, START)
        after = [told(server, version, 200 + at, call) for at, call in enumerate(looks)]
        (job,) = json.loads(text_of(told(server, version, 2, LOOKS[-1])))["jobs"]
        server.leave()
        code = server.end()

    assert {"state": "exited", "exit_code": 0, "initial_output": "hello you\n"} == json.loads(
        text_of(start)
    )
    assert before == after
    assert ("exited", ["you"], 0) == (job["state"], job["args"], code)


def told(server: Wire, version: str, identity: int, call: Call) -> dict[str, Any]:
    """The answer to one call, without its id."""
    frame = request(version, identity, call)
    server.send(frame["method"], frame["params"], id=identity)
    answer = server.read()
    assert identity == answer.pop("id"), answer
    return answer


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_that_come_all_at_once_are_all_answered_right(root: Path, version: str) -> None:
    """Those that take time are in the midst of them, and none is lost or answered twice."""
    calls = (*LOOKS[:4], START, *LOOKS[:2], *REFUSED, START, *LOOKS[:2])
    command = server_command(root, "dela", *on_context(context_for(root, "manual")))
    frames = session(version, calls)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with bounded(process):
            process.stdin.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
            process.stdin.flush()
            lines = [process.stdout.readline() for frame in frames if "id" in frame]
            process.stdin.close()
            rest = process.stdout.read()
    answers = {frame["id"]: frame for frame in map(json.loads, lines)}

    assert (b"", 0, len(lines)) == (rest, process.returncode, len(answers))
    for identity, call in enumerate(calls, 1):
        answer = answers[identity]
        assert ("error" in answer) == (call in REFUSED), answer
        if call == START:
            assert "hello you\n" == json.loads(text_of(answer))["initial_output"]
    assert text_of(answers[1]) == text_of(answers[6])
