"""A line that is not a request is refused, with its id if that is readable, by every reader."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, create_project
from wire import Wire, running

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
CALL = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_task","arguments":%s}}'
LIST = '{"jsonrpc":"2.0","id":%s,"method":"tools/list"}'
REFUSED: dict[str, tuple[str, int, object]] = {
    "cut off": (CALL[:60], PARSE_ERROR, 7),
    "cut off in its id": ((LIST % 77)[:24], PARSE_ERROR, None),
    "a byte order mark": ("\ufeff" + LIST % 7, PARSE_ERROR, 7),
    "no JSON": ("no json", PARSE_ERROR, None),
    "a text": ('"x"', INVALID_REQUEST, None),
    "a number": ("1", INVALID_REQUEST, None),
    "null": ("null", INVALID_REQUEST, None),
    "nothing": ("{}", INVALID_REQUEST, None),
    "a batch": (f"[{LIST % 7}]", INVALID_REQUEST, None),
    "an empty batch": ("[]", INVALID_REQUEST, None),
    "an id that is whole but no integer": (LIST % "7.0", INVALID_REQUEST, 7),
    "an id that is broken": (LIST % "7.5", INVALID_REQUEST, None),
    "an id that is null": (LIST % "null", INVALID_REQUEST, None),
    "an id that is true": (LIST % "true", INVALID_REQUEST, None),
    "an id that is a list": (LIST % "[7]", INVALID_REQUEST, None),
    "an id that is cut": (LIST % '"\\ud83d"', INVALID_REQUEST, None),
    "another version": ((LIST % 7).replace('"2.0"', '"1.0"'), INVALID_REQUEST, 7),
    "no version": ('{"id":7,"method":"tools/list"}', INVALID_REQUEST, 7),
    "a method that is a number": ('{"jsonrpc":"2.0","id":7,"method":5}', INVALID_REQUEST, 7),
    "no method": ('{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
    "parameters in a list": ((LIST % 7)[:-1] + ',"params":[]}', INVALID_REQUEST, 7),
    "an integer of 5,000 digits": (CALL % ('{"id":' + "9" * 5000 + "}"), INVALID_REQUEST, 7),
    "an id of 5,000 digits": (LIST % ("9" * 5000), INVALID_REQUEST, None),
    "200 levels": (CALL % ('{"id":' + "[" * 200 + "]" * 200 + "}"), INVALID_REQUEST, 7),
    "50,000 levels": (CALL % ('{"id":' + "[" * 50_000 + "]" * 50_000 + "}"), INVALID_REQUEST, 7),
    "half a pair in a name": (
        (LIST % 7).replace("tools/list", "tools/\\ud83d"),
        INVALID_REQUEST,
        7,
    ),
}
SILENT = (
    "",
    " \t",
    '{"jsonrpc":"2.0","method":"notifications/odd","params":[]}',
    '{"method":"notifications/odd"}',
    '{"jsonrpc":"2.0","id":7,"result":{}}',
    '{"jsonrpc":"2.0","id":7,"result":[]}',
    '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"odd"}}',
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A server that each line leaves as it was."""
    root = create_project(tmp_path_factory.mktemp("malformed"))
    with running(root, *manual(root)) as server:
        server.shake_hands()
        yield server


def manual(root: Path) -> tuple[str, ...]:
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    return ()


def answer_to(server: Wire, line: str) -> dict[str, Any]:
    assert server.process.stdin is not None
    server.process.stdin.write(line + "\n")
    server.process.stdin.flush()
    return server.read()


@pytest.mark.thorough
@pytest.mark.parametrize(("line", "code", "identity"), REFUSED.values(), ids=REFUSED)
def test_a_line_that_is_not_a_request_is_refused(
    server: Wire, line: str, code: int, identity: object
) -> None:
    answer = answer_to(server, line)

    assert {"jsonrpc", "id", "error"} == answer.keys()
    assert (code, identity) == (answer["error"]["code"], answer["id"])
    assert "result" in server.ask("tools/list")


@pytest.mark.thorough
@pytest.mark.parametrize("line", SILENT)
def test_an_invalid_notification_is_not_answered(server: Wire, line: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write(line + "\n")

    assert "result" in server.ask("tools/list")  # and it is the next frame


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "Log \\ud83d in"])
def test_a_lone_surrogate_is_reported_to_the_agent(server: Wire, half: str) -> None:
    """As a client sends it that has cut a text within an emoji."""
    given = f'{{"id":1,"title":"{half}"}}'
    answer = answer_to(server, (CALL % given).replace("get_task", "update_task"))

    assert answer["result"]["isError"]
    assert "half of a surrogate pair" in answer["result"]["content"][0]["text"]


def test_a_whole_pair_is_a_character(server: Wire) -> None:
    given = '{"id":1,"title":"\\ud83d\\ude00"}'
    changed = answer_to(server, (CALL % given).replace("get_task", "update_task"))
    found = server.ask("tools/call", {"name": "get_task", "arguments": {"id": 1}})

    assert not changed["result"]["isError"]
    assert "\U0001f600" == json.loads(found["result"]["content"][0]["text"])["title"]
