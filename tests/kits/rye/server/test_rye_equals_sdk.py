"""Search, load, help and sign have the same answers as with the official SDK."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conversations import Frame, Servers
from driving import create_project
from frames import VERSIONS, opening, request
from rye_projects import KITS, TYPES, knowledge, put, python_tool, session, well_formed

STRUCTURED = "structured_output = true\n"
ODD_TEXT = "# Ünï \U0001f600 \u2028 \x7f\x85\r\nneedle " + "测试 " * 40
SIGNED = re.compile(r"[A-Za-z0-9_-]{86}==")
BROKEN = "\ufeff---\ntitle: [\n---\nneedle\r\n"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"item_type": "all", "query": ""}),
    ("search", {"item_type": "all", "query": "needle", "limit": 1}),
    ("search", {"item_type": "all", "query": "needle", "limit": 1, "offset": 1}),
    ("search", {"item_type": "knowledge", "query": '"demo sample" OR nee*le NOT broken'}),
    ("search", {"item_type": "knowledge", "query": "nedle", "fuzzy": {"enabled": True}}),
    ("search", {"item_type": "all", "query": "", "sort_by": "name", "source": "user"}),
    ("search", {"item_type": "all", "query": "", "filters": {"tags": "sample"}}),
    ("search", {"item_type": "all", "query": "测试 (Ünï)"}),
    ("search", {"item_type": "all", "query": "(needle"}),
    ("search", {"item_type": "all", "query": "x", "filters": {"a": {}}}),
    ("search", {"item_type": "all", "query": "needle", "limit": 0}),
    ("search", {"item_type": "all", "query": "needle", "offset": 2**63}),
    ("search", {"item_type": "all", "query": 5.5}),
    ("search", {"item_type": "all", "query": "x", "project_path": "/"}),
    *(("load", {"item_type": kind, "item_id": "demo/sample"}) for kind in TYPES),
    ("load", {"item_type": "knowledge", "item_id": "odd"}),
    ("load", {"item_type": "knowledge", "item_id": "broken"}),
    ("load", {"item_type": "knowledge", "item_id": "long"}),
    ("load", {"item_type": "tool", "item_id": "subprocess"}),
    ("load", {"item_type": "tool", "item_id": "../sample"}),
    ("load", {"item_type": "tool", "item_id": "é\u2028"}),
    ("load", {"item_type": "tool", "item_id": "demo/simple"}),
    ("load", {"item_type": "tool", "item_id": "user", "destination": "project"}),
    ("load", {"item_type": "tool", "item_id": "user", "destination": "project"}),
    ("load", {"item_type": "tool", "item_id": "subprocess", "destination": "project"}),
    ("help", {}),
    *(("help", {"topic": topic}) for topic in ("search", "tools", "nothing", "")),
    ("sign", {"item_type": "knowledge", "item_id": "demo/sample"}),
    ("sign", {"item_type": "knowledge", "item_id": "demo/sample"}),
    ("sign", {"item_type": "knowledge", "item_id": "broken"}),
    ("sign", {"item_type": "tool", "item_id": "**"}),
    ("load", {"item_type": "knowledge", "item_id": "demo/sample"}),
    ("search", {"item_type": "all", "query": "needle"}),
    ("find", {"query": "needle"}),
)
EXECUTION = ("execute", {"item_type": "tool", "item_id": "user", "parameters": {"who": "Bob"}})


@pytest.fixture(scope="module", params=["", STRUCTURED], ids=["text", "structured"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """Return the servers of a project with items, for a user who already has a key."""
    folder = tmp_path_factory.mktemp("rye")
    root = create_project(folder / "project", config=KITS + request.param).resolve()
    lay_items(folder, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USER_SPACE", str(folder / "user"))
        found = Servers(root)
        yield found
        found.close()


def lay_items(folder: Path, root: Path) -> None:
    """Write items of every kind and state."""
    with session(folder, root) as rye:
        for kind in TYPES:
            rye.put(kind, "demo/sample", well_formed(kind, "demo/sample") + "\n# needle\n")
        rye.put("tool", "user", python_tool("user"), space="user")
        rye.put("knowledge", "odd", knowledge("odd", ODD_TEXT))
        rye.put("knowledge", "long", knowledge("long", "x\n" * 30_000))
        rye.put("knowledge", "broken", BROKEN)
        put(root / ".ai/tools/broken.py", "def (\n")
        rye.sign("tool", "user", source="user")


def conversation(servers: Servers, version: str, calls: Sequence[tuple[str, Any]]) -> list[bytes]:
    """Return the request lines of a connection with some calls."""
    lines = []
    for number, (tool, given) in enumerate(calls, 1):
        place = {} if tool == "help" else {"project_path": str(servers.ground.root)}
        called = {"name": tool, "arguments": {**place, **given}}
        lines.append(request(version, "tools/call", called, number))
    return [*opening(version), request(version, "tools/list", {}, "list"), *lines]


def alike(frame: Frame) -> Frame:
    """Return a frame without signatures, which depend on the time."""
    found: Frame = json.loads(SIGNED.sub("<signature>", json.dumps(frame)))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_all_but_execution_is_answered_as_by_the_sdk(servers: Servers, version: str) -> None:
    lines = conversation(servers, version, CALLS)
    arguments = servers.session(kit="rye")
    expected = servers.told(arguments, lines, by_sdk=True)
    found = servers.told(arguments, lines)

    assert [[*map(alike, said)] for said in expected] == [[*map(alike, said)] for said in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_searched_before_is_found_behind_an_execution(
    servers: Servers, version: str
) -> None:
    looks = [call for call in CALLS if call[0] != "sign" and "destination" not in call[1]]
    lines = conversation(servers, version, [*looks, EXECUTION, *looks])
    *found, _ = servers.told(servers.session(kit="rye"), lines)
    answers = [{**frame, "id": 0} for said in found for frame in said][-2 * len(looks) - 1 :]
    executed = answers[len(looks)]["result"]

    assert '"params":{"who":"Bob"}' in executed["content"][0]["text"]
    assert answers[: len(looks)] == answers[len(looks) + 1 :]
