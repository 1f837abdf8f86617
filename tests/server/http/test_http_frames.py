"""Every frame that a server writes over HTTP is what the official schema has for the request."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from frame_rules import RESULTS, rules
from frames import READS, WRITES, frame, mutants
from http_servers import HANDSHAKES, MODERN, HttpServer, http_project, message, routed, serving

EXTENSIONS = ("skills/list", "skills/get")  # no method of the schemas
ASKED = ("tools/call", {"name": "get_task", "arguments": {"id": 1}})
NO_REQUESTS = (b"", b"{", b"[]", b"1", b"null", b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"1.0","id":1}')
OTHERWISE = (
    {"MCP-Protocol-Version": "2099-01-01"},
    {"Mcp-Method": "tools/list"},
    {"Mcp-Name": "list_tasks"},
    {"Mcp-Name": "=?base64?%%%?="},
    {"Accept": "text/html"},
    {"Content-Type": "text/plain"},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(http_project(tmp_path_factory.mktemp("frames"))) as found:
        yield found


class Judge:
    """Asks the server, and collects the frames that are not of the version."""

    def __init__(self, server: HttpServer, version: str) -> None:
        """Asks `server` in `version`."""
        self.server, self.version = server, version
        self.bad: list[tuple[Any, ...]] = []
        self.results = self.errors = 0
        self.unanswered = set[int]()

    def ask(self, body: bytes, sent: Mapping[str, str], method: str | None) -> None:
        """Judge the answer to a body, which is a request of the method."""
        status, answer, told = self.server.ask(body=body, headers=sent)
        if not answer:
            self.unanswered.add(status)
            return
        assert "application/json" == told["content-type"], (status, body, answer)
        found = json.loads(answer)
        self.results += "result" in found
        self.errors += "error" in found
        if "result" in found and method in EXTENSIONS:
            return
        if found.get("id", 0) is None:  # JSON-RPC requires it; the protocol's schema leaves it out
            del found["id"]
        if faults := rules(self.version).faults(found, method):
            self.bad.append((status, body, faults, found))


@pytest.mark.parametrize("version", [*HANDSHAKES, MODERN])
def test_every_frame_is_of_the_type_that_belongs_there(server: HttpServer, version: str) -> None:
    judge = Judge(server, version)
    for method, params in (*READS, *WRITES):
        told = frame(version, method, params, 7)
        sent = routed(server.root, version, method, params or {})
        judge.ask(json.dumps(told).encode(), sent, method)
    sent = routed(server.root, version, *ASKED)
    for told in mutants(frame(version, *ASKED, 7)):
        named = told.get("method") if isinstance(told, dict) else None
        judge.ask(json.dumps(told).encode(), sent, named if named in [*RESULTS] else None)
    whole = json.dumps(frame(version, *ASKED, 7)).encode()
    for changed in OTHERWISE:
        judge.ask(whole, {**sent, **changed}, ASKED[0])
    for body in (*NO_REQUESTS, message("no/such", {})):
        judge.ask(body, sent, None)

    assert [] == judge.bad
    assert {202} == judge.unanswered
    assert judge.results > 20
    assert judge.errors > 20
