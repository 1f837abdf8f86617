"""Conversations that real clients had with a server: answered as by the SDK, and by the schemas."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conversations import Servers
from driving import SCHEMAS, create_project
from frame_rules import rules

VERSION = "io.modelcontextprotocol/protocolVersion"
RECORDED = sorted((SCHEMAS.parent / "conversations").iterdir())


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project."""
    servers = Servers(create_project(tmp_path_factory.mktemp("recorded")))
    yield servers
    servers.close()


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
def test_a_real_client_gets_the_answers_of_the_sdk(servers: Servers, recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    sent = [json.loads(line) for line in lines]
    expected = servers.told(servers.session(), lines, by_sdk=True)
    found = servers.told(servers.session(), lines)

    assert expected == found
    assert [bool(piece) for piece in found[:-1]] == ["id" in frame for frame in sent]
    methods = {frame["id"]: frame["method"] for frame in sent if "id" in frame}
    params = sent[0]["params"]
    version = params.get("protocolVersion") or params["_meta"][VERSION]
    for frame in (frame for piece in found for frame in piece):
        assert [] == rules(version).faults(frame, methods.get(frame.get("id")))
