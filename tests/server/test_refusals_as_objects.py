"""Reports of each failure by a kit whose failures are objects."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ralphgen.runtime.failures import CodedError
from ralphgen.runtime.kit import Kit
from ralphgen.runtime.protocol.handlers import tool_methods
from ralphgen.runtime.tool import READ_ONLY, STRING, Tool


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
