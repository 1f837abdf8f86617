"""Refused arguments and lines."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, context_for, create_project
from mcp import MCPError
from wire import Wire, running

from ralphgen.kits.registry import KITS
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.kit import READ_ONLY, STRING, Kit, Tool
from ralphgen.runtime.protocol.handlers import tool_methods


class Nobody:
    """The session that `tool_methods` requires: it hides nothing, and has no folder for logs."""

    folder = None
    structured = False

    def why_hidden(self, name: str) -> str:
        return name


def failing(error: Exception) -> Callable[[object, dict[str, Any]], dict[str, Any]]:
    """Return the function of a tool that fails so."""

    def run(_workspace: object, _arguments: dict[str, Any]) -> dict[str, Any]:
        raise error

    return run


def answered(error: Exception, arguments: dict[str, Any], *, refusals: str) -> tuple[str, bool]:
    """The text of a call to a tool that fails, and whether it counts as a failure."""
    run = f"{__name__}.failing"
    tool = Tool("ask", "Ask.", hints=READ_ONLY, run=run, data=error, properties={"what": STRING})
    kit = Kit(
        "asking",
        tools=[[tool]],
        open_workspace=lambda *_: None,
        instructions=lambda *_: "",
        refusals=refusals,
    )
    session: Any = Nobody()
    workspace: Any = None
    call = tool_methods(kit, session, {"ask": tool}, workspace)["tools/call"]
    result: Any = call({"name": "ask", "arguments": arguments})
    return result["content"][0]["text"], result["isError"]


def test_a_failure_has_its_code_and_its_facts() -> None:
    error = CodedError("GONE", "it is gone", item_id="a", tries=[1, 2])
    expected = {"code": "GONE", "message": "it is gone", "item_id": "a", "tries": [1, 2]}

    text, failed = answered(error, {}, refusals="object")

    assert failed
    assert {"status": "error", "error": expected} == json.loads(text)


def test_wrong_arguments_have_a_code_too() -> None:
    text, failed = answered(CodedError("GONE", "it is gone"), {"what": 1}, refusals="object")
    error = json.loads(text)["error"]

    assert failed
    assert "VALIDATION_FAILED" == error["code"]
    assert 'argument "what"' in error["message"]


def test_the_unforeseen_has_a_code_and_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    text, failed = answered(KeyError("secret"), {}, refusals="object")

    assert failed
    assert "UNKNOWN_ERROR" == json.loads(text)["error"]["code"]
    assert "secret" not in text
    assert "secret" in capsys.readouterr().err


def test_other_kits_tell_the_sentence_alone() -> None:
    assert ("it is gone", True) == answered(CodedError("GONE", "it is gone"), {}, refusals="result")


KEYS = [kit.key for kit in KITS if not kit.any_schema]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every kit that goes with others."""
    kits = ", ".join(f'"{key}"' for key in KEYS)
    return create_project(tmp_path_factory.mktemp("kits") / "p", config=f"kits = [{kits}]\n")


def refusal(driver: Driver, tool: str, **arguments: object) -> str:
    """Return the refusal of a call, as a result, an object or an error."""
    try:
        failed, text = driver.ask(tool, arguments)
    except MCPError as error:
        return error.error.message
    assert failed or '"error"' in text, text
    return text.replace('\\"', '"')


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
def test_a_misspelt_argument_is_refused_with_the_nearest_name(project: Path, key: str) -> None:
    """The originals of acm and specum ignore it: a typo must not pass in silence."""
    plans = {tool.name: tool for kit in KITS if kit.server.key == key for tool in kit.server.tools}
    with connected(project, kit=key) as driver:
        names = [name for name in driver.names() if name in plans]
        told = {name: refusal(driver, name, nonsense=1) for name in names}
        near = {
            (name, argument.name): refusal(driver, name, **{argument.name + "x": "a"})
            for name in names
            for argument in plans[name].arguments[:1]
        }

    assert names
    assert [] == [name for name, text in told.items() if 'unknown argument "nonsense"' not in text]
    assert [] == [
        (place, text)
        for place, text in near.items()
        if f'unknown argument "{place[1]}x": did you mean "{place[1]}"?' not in text
    ]


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
