"""Over HTTP a request is answered as over stdio, and as by the official SDK's own app."""

import http.client
import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from driving import context_for, on_context
from frames import READS, WRITES, frame, mutants
from http_servers import (
    HANDSHAKES,
    MODERN,
    HttpServer,
    enveloped,
    headers,
    http_project,
    message,
    routed,
    sdk_app,
    serving,
    token,
)
from lanes import shortened
from lifelines import PATIENCE
from mcp.shared.inbound import encode_header_value
from wire import Wire, running

from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.sqlite import revocations

VERSIONS = (HANDSHAKES[-1], MODERN)
VARYING = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?")
RARE = ("ping", "server/discover", "odd", "initialize", "logging/setLevel", "tasks/get")
ROUNDS = 4  # random calls of each tool
ODD: tuple[Any, ...] = (None, True, -1, 0, 1, 2, 2**70, 1.5, "", "auth", "é\u2028", [], ["a"], {})


class Three:
    """Projects that are alike: one behind stdio, one over our HTTP, one on the SDK's own app."""

    def __init__(self, local: Wire, ours: HttpServer, sdk: int, version: str) -> None:
        """Takes servers that run; `sdk` is a port."""
        self.local, self.ours, self.sdk, self.version = local, ours, sdk, version

    def agree(self, method: str, params: Any) -> dict[str, Any]:
        """The answer that all three give to a request, which they must."""
        given = enveloped(params) if self.version == MODERN else params
        expected = steady(self.local.ask(method, given))
        body, sent = message(method, given), routed(self.ours.root, self.version, method, given)
        (status, fast), (other, slow) = self.asked(body, sent)

        assert expected == without_id(fast), (method, params)
        assert expected == without_id(slow), (method, params)
        assert status == other, (method, params)
        return expected

    def asked(self, body: bytes, sent: Mapping[str, str]) -> list[tuple[int, Any]]:
        """Status and answer of both apps; the answer to nothing certain is None."""
        both = (self.ours.port, self.sdk)
        return [send_request(port, body, sent) for port in both]


def send_request(port: int, body: bytes, sent: Mapping[str, str]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/mcp/ralph", body, {**sent})
        answer = connection.getresponse()
        said = answer.read()
        return answer.status, json.loads(said) if said.startswith(b"{") else None
    finally:
        connection.close()


def without_id(frame: Mapping[str, Any]) -> dict[str, Any]:
    return steady({key: value for key, value in frame.items() if key != "id"})


def steady(frame: Mapping[str, Any]) -> dict[str, Any]:
    """A frame without its id, and without moments."""
    told = {key: value for key, value in frame.items() if key != "id"}
    found: dict[str, Any] = json.loads(VARYING.sub("…", json.dumps(told, ensure_ascii=False)))
    return found


@pytest.fixture(params=shortened(VERSIONS, VERSIONS[-1]), scope="module")
def three(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("equal")
    more = "workers = 1\nrate = 100000\n"
    local, ours, sdk = (http_project(folder / name, more) for name in ("l", "o", "s"))
    context = context_for(local, "manual", user=None)  # like a token
    revocations.create(str(sdk / DATABASE))  # as `serve` does
    with (
        running(local, "ralph", *on_context(context)) as wire,
        serving(ours) as server,
        sdk_app(sdk, "--stateless") as port,
    ):
        if request.param in HANDSHAKES:
            wire.shake_hands(request.param)
        yield Three(wire, server, port, request.param)


def test_every_request_is_answered_alike(three: Three) -> None:
    for method, params in (*READS, *WRITES):
        three.agree(method, params)


def test_random_calls_of_every_tool_are_answered_alike(three: Three) -> None:
    tools = three.agree("tools/list", {})["result"]["tools"]
    chance = random.Random(7)  # noqa: S311
    failed = 0
    for tool in (one for _ in range(ROUNDS) for one in tools):
        given = arguments(tool["inputSchema"], chance)
        answer = three.agree("tools/call", {"name": tool["name"], "arguments": given})
        failed += bool(answer["result"]["isError"])

    assert 10 < failed < ROUNDS * len(tools) - 10


def arguments(schema: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Arguments for a tool: mostly of the right types, now and then odd or not known."""
    given: dict[str, Any] = {}
    for name, rule in schema["properties"].items():
        if name in schema.get("required", ()) or chance.random() < 0.2:
            odd = chance.random() < 0.1
            given[name] = chance.choice(ODD) if odd else fitting(rule, chance)
    if chance.random() < 0.05:
        given["no_such_argument"] = 1
    return given


def fitting(rule: Mapping[str, Any], chance: random.Random) -> Any:
    if rule.get("enum"):
        return chance.choice(rule["enum"])
    values: Mapping[str, tuple[Any, ...]] = {
        "integer": (1, 2, 3, 99),
        "number": (1, 0.5),
        "boolean": (True, False),
        "string": ("auth", "backend", "frontend", "search", "Words é", "a/b.py"),
        "array": ([], ["a"], ["src/a.py"], [1]),
        "object": ({},),
    }
    return chance.choice(values.get(str(rule.get("type")), ("auth",)))


def test_odd_requests_are_answered_alike(three: Three) -> None:
    """Each part of a request is dropped, replaced and extended, also with contradicting headers."""
    asked = ("tools/call", {"name": "get_task", "arguments": {"id": 1}})
    listed = frame(three.version, "tools/list", {}, 7)
    frames = [*[*mutants(frame(three.version, *asked, 7))][::3], *[*mutants(listed)][::3]]
    frames += [frame(three.version, method, {}, 7) for method in RARE]
    sent = routed(three.ours.root, three.version, *asked)
    for told in frames:
        if not isinstance(told, dict) or type(told.get("id", "")) not in (int, str):
            continue  # the SDK takes the latter for a notification, if it accepts it at all
        named = {"Mcp-Method": told["method"]} if isinstance(told.get("method"), str) else {}
        name = told.get("params") or {}
        if named and three.version == MODERN and isinstance(name, dict):
            given = name.get("name")
            named["Mcp-Name"] = encode_header_value(given if isinstance(given, str) else "")
        (status, ours), (other, theirs) = three.asked(json.dumps(told).encode(), {**sent, **named})
        if theirs is not None and theirs.get("id") is not None:
            assert (other, theirs) == (status, ours), told
        else:
            assert other == status, told


@pytest.mark.parametrize(
    "changed",
    [
        {"MCP-Protocol-Version": "2099-01-01"},
        {"MCP-Protocol-Version": "2024-11-05"},
        {"Mcp-Method": "tools/list"},
        {"Mcp-Name": "list_tasks"},
        {"Mcp-Name": "=?base64?Z2V0X3Rhc2s=?="},
        {"Mcp-Name": "=?base64?Z2V0X3Rhc2t=?="},
        {"Mcp-Name": "=?base64?%%%?="},
        {"Accept": "text/html"},
        {"Accept": "text/event-stream"},
        {"Accept": "*/*"},
        {"Mcp-Param-Id": "2"},
    ],
)
def test_wrong_headers_are_answered_alike(three: Three, changed: Mapping[str, str]) -> None:
    asked = ("tools/call", {"name": "get_task", "arguments": {"id": 1}})
    params = enveloped(asked[1]) if three.version == MODERN else asked[1]
    sent = {**routed(three.ours.root, three.version, *asked), **changed}
    (status, ours), (other, theirs) = three.asked(message(asked[0], params), sent)

    assert other == status
    if theirs is not None and theirs.get("id") is not None:
        assert theirs == ours


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"1", b"null", b'{"jsonrpc":"2.0"}'),
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","method":"odd"}',
    ],
)
def test_invalid_requests_get_the_same_status(three: Three, body: bytes) -> None:
    sent = routed(three.ours.root, three.version, "ping", {})
    (status, _), (other, _) = three.asked(body, sent)

    assert other == status


def test_blanks_around_a_header_are_ignored(three: Three) -> None:
    params = enveloped({"name": "get_task", "arguments": {"id": 1}})
    sent = headers(token(three.ours.root), MODERN, "tools/call", "get_task  ")
    status, answer, _ = three.ours.ask(body=message("tools/call", params), headers=sent)
    assert 200 == status, answer
