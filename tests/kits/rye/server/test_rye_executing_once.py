"""A tool runs exactly once, even if it is the first call, which the front hands to the SDK."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import Era
from rye_projects import (
    Rye,
    directive,
    frames,
    knowledge,
    put,
    python_tool,
    rye_project,
    session,
    variables,
    yaml_tool,
)
from wire import MODERN, Wire

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
COUNTS = """
def execute(params, project_path):
    with open("runs.txt", "a") as file:
        file.write(params["word"] + "\\n")
    return params["word"]
"""
Call = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a signed item of each type."""
    folder = tmp_path_factory.mktemp("once")
    root = rye_project(folder / "project")
    with session(folder, root) as rye:
        rye.signed("tool", "demo/counts", python_tool("demo/counts", COUNTS))
        config = {"command": "sh", "args": ["-c", 'echo "$1" >> runs.txt', "sh", "{word}"]}
        rye.signed("tool", "demo/adds", yaml_tool("demo/adds", config=config), extension=".yaml")
        rye.signed("directive", "demo/greet", directive("demo/greet"))
        rye.signed("knowledge", "demo/on", knowledge("demo/on"))
    return folder


@pytest.fixture
def runs(folder: Path) -> Iterator[Path]:
    """Return the file with one line per run of a tool."""
    path = folder / "project/runs.txt"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture(params=VERSIONS)
def wire(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[str, Wire]]:
    """Yield a new server without any calls, for each version of the protocol."""
    version = str(request.param)
    with frames(folder / "project", variables(folder), version=version) as found:
        yield version, found


def call(folder: Path, tool: str, item_type: str, item_id: str, **more: Any) -> Call:
    given = {"item_type": item_type, "item_id": item_id, "project_path": str(folder / "project")}
    return tool, {**given, **more}


def execution(folder: Path, word: str, item_id: str = "demo/counts") -> Call:
    return call(folder, "execute", "tool", item_id, parameters={"word": word})


def send(wire: Wire, version: str, identity: int, told: Call) -> None:
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    wire.send("tools/call", {"name": told[0], "arguments": told[1], **envelope}, id=identity)


def answers(wire: Wire, count: int) -> dict[int, dict[str, Any]]:
    """Read `count` answers and return them by id; fails on a duplicate."""
    found: dict[int, dict[str, Any]] = {}
    for _ in range(count):
        frame = wire.read()
        assert frame["id"] not in found
        found[frame["id"]] = json.loads(frame["result"]["content"][0]["text"])
    return found


def test_the_first_call_of_a_session_runs_its_tool_once(
    folder: Path, runs: Path, wire: tuple[str, Wire]
) -> None:
    version, server = wire
    item_id = "demo/adds" if version == VERSIONS[0] else "demo/counts"
    send(server, version, 1, execution(folder, "first", item_id))
    (answer,) = answers(server, 1).values()
    server.leave()

    assert 0 == server.end()
    assert "success" == answer["status"]
    assert "first\n" == runs.read_text(encoding="utf-8")


def test_calls_that_come_all_at_once_are_each_answered_once(
    folder: Path, runs: Path, wire: tuple[str, Wire]
) -> None:
    """Read-only calls have the same answers before and after the hand-over to the SDK."""
    version, server = wire
    looks = [
        call(folder, "load", "tool", "demo/counts"),
        call(folder, "execute", "knowledge", "demo/on"),
        call(folder, "execute", "directive", "demo/greet", parameters={"who": "Bob"}),
        call(folder, "execute", "tool", "demo/counts", dry_run=True, parameters={"word": "dry"}),
        call(folder, "execute", "tool", "demo/none"),
    ]
    calls = [*looks, execution(folder, "a"), *looks, execution(folder, "b"), *looks]
    for identity, told in enumerate(calls):
        send(server, version, identity, told)
    found = answers(server, len(calls))
    server.leave()
    rounds = [[timeless(found[start + at]) for at in range(len(looks))] for start in (0, 6, 12)]

    assert 0 == server.end()
    assert rounds[0] == rounds[1] == rounds[2]
    assert ["a", "b"] == sorted(runs.read_text(encoding="utf-8").splitlines())
    assert ("a", "b") == (found[5]["data"], found[11]["data"])


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without its duration."""
    for told in (answer, answer.get("error", {})):
        told.get("metadata", {}).pop("duration_ms", None)
    return answer


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_client_of_the_sdk_gets_the_same_in_either_era(
    folder: Path, runs: Path, era: Era
) -> None:
    with session(folder, folder / "project", era=era) as rye:
        first = rye.run("tool", "demo/counts", word="x")
        told = [
            rye.run("directive", "demo/greet", who="Bob")["data"]["steps"][0]["action"],
            rye.run("knowledge", "demo/on")["data"]["title"],
            rye.run("tool", "demo/adds", word="y")["data"]["return_code"],
        ]

    assert ("success", "x") == (first["status"], first["data"])
    assert ["Greet Bob", "On on", 0] == told
    assert "x\ny\n" == runs.read_text(encoding="utf-8")


def test_a_refusal_in_the_front_and_behind_it_are_the_same(folder: Path, runs: Path) -> None:
    root = folder / "project"
    put(root / ".ai/tools/demo/unsigned.py", python_tool("demo/unsigned", COUNTS))
    with session(folder, root) as rye:
        before, after = refused(rye), (rye.run("tool", "demo/counts", word="x"), refused(rye))[1]

    assert before == after
    assert ["UNSIGNED", "ITEM_NOT_FOUND", "VALIDATION_FAILED"] == [one["code"] for one in before]
    assert "x\n" == runs.read_text(encoding="utf-8")


def refused(rye: Rye) -> list[dict[str, Any]]:
    asked = [("tool", "demo/unsigned"), ("tool", "demo/none"), ("directive", "demo/greet")]
    found = [rye.refuses("execute", item_type=kind, item_id=item_id) for kind, item_id in asked]
    return [timeless(error) for error in found]
