"""Over HTTP a request is answered as over stdio, and by the fast path as by the SDK's own app."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from driving import context_for, on_context
from frames import READS, WRITES
from http_servers import (
    HANDSHAKES,
    MODERN,
    NAMED_BY,
    HttpServer,
    enveloped,
    headers,
    http_project,
    message,
    serving,
    token,
)
from lanes import shortened
from mcp.shared.inbound import encode_header_value
from wire import Wire, running

VERSIONS = (HANDSHAKES[-1], MODERN)
VARYING = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?")
TWICE = b'{"jsonrpc":"2.0",'  # a key that stands twice: the fast path leaves it to the SDK
ROUNDS = 4  # random calls of each tool
ODD: tuple[Any, ...] = (None, True, -1, 0, 1, 2, 2**70, 1.5, "", "auth", "é\u2028", [], ["a"], {})


class Three:
    """Projects that are alike: one behind stdio, two over HTTP, by the fast path and the SDK."""

    def __init__(self, local: Wire, plain: HttpServer, sdk: HttpServer, version: str) -> None:
        """Takes servers that run."""
        self.local, self.plain, self.sdk, self.version = local, plain, sdk, version

    def agree(self, method: str, params: Any) -> dict[str, Any]:
        """The answer that all three give to a request, which they must."""
        given = enveloped(params) if self.version == MODERN else params
        expected = steady(self.local.ask(method, given))
        (status, fast), (other, slow) = (
            asked(self.plain, self.version, method, given, b"{"),
            asked(self.sdk, self.version, method, given, TWICE),
        )

        assert expected == without_id(fast), (method, params)
        assert expected == without_id(slow), (method, params)
        assert status == other, (method, params)
        return expected


def asked(
    server: HttpServer, version: str, method: str, params: Any, begin: bytes
) -> tuple[int, dict[str, Any]]:
    name = params.get(NAMED_BY.get(method, ""), "")
    sent = headers(token(server.root), version)
    if version == MODERN:
        sent |= {"Mcp-Method": method}
        if method in NAMED_BY:
            sent |= {"Mcp-Name": spelled(name)}
    status, body, _ = server.ask(body=begin + message(method, params)[1:], headers=sent)
    return status, json.loads(body)


def spelled(name: str) -> str:
    """A name as it may stand in a header."""
    return encode_header_value(name)


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
    local, plain, sdk = (http_project(folder / name, more) for name in ("l", "p", "s"))
    context = context_for(local, "manual", user=None)  # like a token
    with (
        running(local, "ralph", *on_context(context)) as wire,
        serving(plain) as plain_server,
        serving(sdk) as sdk_server,
    ):
        if request.param in HANDSHAKES:
            wire.shake_hands(request.param)
        yield Three(wire, plain_server, sdk_server, request.param)


def test_every_request_is_answered_alike(three: Three) -> None:
    for method, params in (*READS, *WRITES):
        three.agree(method, params)

    text = three.plain.ask("/metrics")[1].decode()
    assert "ralphgen_http_sdk_total 0" in text or "ralphgen_http_fast_path_total 0" not in text
    assert "ralphgen_http_fast_path_total 0\n" in three.sdk.ask("/metrics")[1].decode()


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


def test_blanks_around_a_header_are_no_part_of_it(three: Three) -> None:
    params = enveloped({"name": "get_task", "arguments": {"id": 1}})
    sent = headers(token(three.plain.root), MODERN, "tools/call", "get_task  ")
    for server, begin in ((three.plain, b"{"), (three.sdk, TWICE)):
        body = begin + message("tools/call", params)[1:]
        status, answer, _ = server.ask(body=body, headers=sent)
        assert 200 == status, answer
