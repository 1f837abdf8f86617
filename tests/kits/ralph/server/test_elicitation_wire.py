"""A question to the user on the wire: as a request, as a result, and over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking_persons import AGREES, REFUSED, THIRD, rows
from driving import context_for, create_project, on_context, query
from held_tasks import comments
from http_servers import MODERN as STATELESS
from http_servers import headers, http_project, message, serving, token
from wire import MODERN, Wire, running

FORM: dict[str, Any] = {"elicitation": {"form": {}}}
DELETE: dict[str, Any] = {"name": "delete_task", "arguments": {"id": 1}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p", THIRD)


def shaken(server: Wire, capabilities: dict[str, Any]) -> None:
    about = {"name": "hand-made", "version": "1"}
    given = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}
    server.ask("initialize", given)
    server.send("notifications/initialized")


CAPABLE = [FORM, {"elicitation": {}}, {"elicitation": {"form": {"applyDefaults": True}}}]


@pytest.fixture
def wire(root: Path) -> Iterator[Wire]:
    with running(root, *on_context(context_for(root, "manual"))) as server:
        yield server


def respond(server: Wire, identity: object, **answer: object) -> None:
    assert server.process.stdin is not None
    frame = {"jsonrpc": "2.0", "id": identity, **answer}
    server.process.stdin.write(json.dumps(frame) + "\n")
    server.process.stdin.flush()


@pytest.mark.parametrize("capabilities", CAPABLE)
def test_a_handshake_connection_is_asked_by_a_request_and_continues_meanwhile(
    root: Path, wire: Wire, capabilities: dict[str, Any]
) -> None:
    shaken(wire, capabilities)
    wire.send("tools/call", DELETE, id="delete")
    asked = wire.read()
    assert "elicitation/create" == asked["method"]
    assert {"message", "requestedSchema"} <= asked["params"].keys()
    wire.send("tools/call", {"name": "get_task", "arguments": {"id": 1}}, id="read")
    assert "read" == wire.read()["id"]
    respond(wire, asked["id"], result={"action": "accept", "content": AGREES})

    answer = wire.read()
    assert "delete" == answer["id"]
    assert {"deleted": 1, "freed": [2, 3]} == json.loads(answer["result"]["content"][0]["text"])
    assert ["the user agreed (asked through hand-made)"] == [
        text.rpartition(": ")[2] for text in comments(root, 2)
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -1, "message": "no"}},
        {"result": None},
        {"result": {}},
        {"result": {"action": "accept", "content": 7}},
        {"result": {"action": ["accept"]}},
        {"result": [1]},
    ],
)
@pytest.mark.parametrize("capabilities", CAPABLE[::2])
def test_an_invalid_answer_changes_nothing(
    root: Path, wire: Wire, capabilities: dict[str, Any], answer: dict[str, Any]
) -> None:
    before = rows(root)
    shaken(wire, capabilities)
    wire.send("tools/call", DELETE, id="delete")
    respond(wire, wire.read()["id"], **answer)
    result = wire.read()["result"]

    assert result["isError"]
    assert result["content"][0]["text"].startswith(f"{REFUSED}; the user")
    assert before == rows(root)


def test_an_abandoned_call_withdraws_its_question(root: Path, wire: Wire) -> None:
    before = rows(root)
    shaken(wire, FORM)
    wire.send("tools/call", DELETE, id="delete")
    asked = wire.read()
    wire.send("notifications/cancelled", {"requestId": "delete"})
    told = wire.read()
    respond(wire, asked["id"], result={"action": "accept", "content": AGREES})
    wire.ask("tools/list")

    assert "notifications/cancelled" == told["method"]
    assert asked["id"] == told["params"]["requestId"]
    assert before == rows(root)


def test_a_client_that_leaves_without_an_answer_is_refused(root: Path, wire: Wire) -> None:
    before = rows(root)
    shaken(wire, FORM)
    wire.send("tools/call", DELETE, id="delete")
    wire.read()
    wire.leave()
    said = wire.read()["result"]["content"][0]["text"]

    assert f"{REFUSED}; the user gave no answer: nothing was changed" == said
    assert 0 == wire.end()
    assert before == rows(root)


def stateless(capabilities: dict[str, Any], **params: Any) -> dict[str, Any]:
    meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": capabilities}
    return {**DELETE, **params, "_meta": meta}


@pytest.mark.parametrize("odd", [{}, {"x/y": 1}])
def test_a_stateless_client_gets_the_question_as_a_result_and_calls_again(
    wire: Wire, odd: dict[str, Any]
) -> None:
    capabilities = {**FORM, "experimental": {"a": odd}}
    asked = wire.ask("tools/call", stateless(capabilities))["result"]
    assert "input_required" == asked["resultType"]
    ((key, question),) = asked["inputRequests"].items()
    assert "elicitation/create" == question["method"]
    wrong = stateless(capabilities, inputResponses={"another": {"action": "accept"}})
    assert asked["inputRequests"] == wire.ask("tools/call", wrong)["result"]["inputRequests"]
    said = {key: {"action": "accept", "content": AGREES}}
    answer = wire.ask("tools/call", stateless(capabilities, inputResponses=said))["result"]

    assert "complete" == answer["resultType"]
    assert {"deleted": 1, "freed": [2, 3]} == json.loads(answer["content"][0]["text"])


def test_a_yes_to_another_question_is_none(root: Path, wire: Wire) -> None:
    """The list of tasks is part of the question."""
    asked = wire.ask("tools/call", stateless(FORM))["result"]["inputRequests"]
    query(root, "UPDATE tasks SET depends_on = '[]' WHERE id = 3")
    said = {key: {"action": "accept", "content": AGREES} for key in asked}
    answer = wire.ask("tools/call", stateless(FORM, inputResponses=said))["result"]

    assert "input_required" == answer["resultType"]
    assert asked.keys() != answer["inputRequests"].keys()


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
def test_a_client_that_shows_no_forms_is_never_asked(
    wire: Wire, capabilities: dict[str, Any]
) -> None:
    answer = wire.ask("tools/call", stateless(capabilities))["result"]

    assert REFUSED == answer["content"][0]["text"]


def test_over_http_no_one_is_asked_in_either_version(tmp_path: Path) -> None:
    """The owner of the token sends the answers too."""
    root = http_project(tmp_path / "p")
    with serving(root) as server:
        sent = headers(token(root), STATELESS, "tools/call", "delete_task")
        _, body, _ = server.ask(body=message("tools/call", stateless(FORM)), headers=sent)
        _, refused = server.call(token(root), "delete_task", id=1)
        _, plain = server.call(token(root), "delete_task", id=2)

    for result in (json.loads(body)["result"], refused["result"]):
        assert result["isError"]
        assert "inputRequests" not in result
        assert "remove 1 from its" in result["content"][0]["text"]
    assert '{"deleted":2}' == plain["result"]["content"][0]["text"]
