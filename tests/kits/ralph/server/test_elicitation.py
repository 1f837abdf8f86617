"""Questions to the user, in the SDK and on the wire."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking_persons import AGREES, REFUSED, THIRD, rows
from driving import Era, connected, context_for, create_project, on_context, query
from engines import ENGINES
from held_tasks import claim_task, comments, held_on, held_project, row, status
from http_servers import MODERN as STATELESS
from http_servers import headers, http_project, message, serving, token
from lifelines import until
from mcp.types import ElicitRequestParams, ElicitResult
from proved_projects import LEDGER, MARKER
from wire import MODERN, Wire, running

from ralphgen.runtime.protocol import RpcRequest
from ralphgen.runtime.protocol.background import OpenQuestions

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


class Person:
    """The user at the client: records the questions, and gives one answer."""

    def __init__(self, action: Any, **content: Any) -> None:
        """Answers always so."""
        self.asked: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._answer = ElicitResult(action=action, content=content or None)

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG002
        """Answer."""
        self.asked.append(params.message)
        self.forms.append(getattr(params, "requested_schema", {}))
        return self._answer


NO_WORDS: list[tuple[Any, dict[str, Any], str]] = [
    ("decline", {}, "the user declined"),
    ("accept", {"confirm": False}, "the user declined"),
    ("cancel", {}, "the user gave no answer"),
    ("accept", {}, "the user's answer is not usable"),
    ("accept", {"confirm": "yes"}, "the user's answer is not usable"),
    ("accept", {"confirm": True, "more": 1}, "the user's answer is not usable"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p", THIRD)


@ERAS
def test_a_task_with_dependents_is_deleted_if_the_user_agrees(root: Path, era: Era) -> None:
    person = Person("accept", **AGREES)
    with connected(root, era=era, person=person) as server:
        assert {"deleted": 1, "freed": [2, 3]} == server.call("delete_task", id=1)

    (asked,) = person.asked
    assert asked == (
        'Delete Task 1 "Log in"? These tasks wait for it:\n- 2 "Show the form"\n- 3 "Log out"'
    )
    assert [(2, "[]"), (3, "[2]")] == query(root, "SELECT id, depends_on FROM tasks ORDER BY id")
    noted = (
        'Task 1 "Log in" was deleted and removed from this task\'s dependencies: the user agreed '
        "(asked through mcp)"
    )
    assert [noted] == comments(root, 2) == comments(root, 3)


@ERAS
def test_the_user_is_asked_even_if_the_database_has_triggers(tmp_path: Path, era: Era) -> None:
    """Such calls run in a child process."""
    trigger = (
        "CREATE TRIGGER noted AFTER DELETE ON tasks BEGIN "
        "UPDATE tasks SET description = 'noted' WHERE id = 2; END"
    )
    root = create_project(tmp_path / "p", THIRD, trigger)
    person = Person("accept", **AGREES)
    with connected(root, era=era, person=person) as server:
        assert "there is no task 7" in server.refusal("delete_task", id=7)
        assert {"deleted": 1, "freed": [2, 3]} == server.call("delete_task", id=1)
        assert "expected" in server.refusal("set_task_status", id=2, status="never")

    assert 1 == len(person.asked)
    assert [("noted",)] == query(root, "SELECT description FROM tasks WHERE id = 2")


@ERAS
def test_without_a_user_the_refusal_is_unchanged(root: Path, era: Era) -> None:
    before = rows(root)
    with connected(root, era=era) as server:
        assert REFUSED == server.refusal("delete_task", id=1)

    assert before == rows(root)


@pytest.mark.parametrize(("action", "content", "why"), NO_WORDS)
@ERAS
def test_nothing_is_changed_without_a_clear_yes(
    root: Path, era: Era, action: Any, content: dict[str, Any], why: str
) -> None:
    before = rows(root)
    person = Person(action, **content)
    with connected(root, era=era, person=person) as server:
        assert f"{REFUSED}; {why}: nothing was changed" == server.refusal("delete_task", id=1)

    assert 1 == len(person.asked)
    assert before == rows(root)


@ERAS
def test_plain_calls_ask_no_one(root: Path, era: Era) -> None:
    person = Person("decline")
    with connected(root, era=era, person=person) as server:
        server.call("delete_task", id=3)
        server.call("set_task_status", id=2, status="blocked", reason="No key.")
        server.call("set_task_status", id=2, status="blocked", reason="no key")
        server.call("set_task_status", id=1, status="done")

    assert [] == person.asked


def test_consent_does_not_allow_changes_of_other_tasks(root: Path) -> None:
    person = Person("accept", **AGREES)
    kept = ["delete_task", "get_task"]
    with connected(root, person=person, enabled_tools={"ralph": kept}) as server:
        assert REFUSED == server.refusal("delete_task", id=1)

    assert [] == person.asked


@ERAS
def test_the_user_answers_a_question_that_blocks_a_task(root: Path, era: Era) -> None:
    person = Person("accept", answer="Blue.")
    given = {"status": "blocked", "reason": "Which colour?"}
    with connected(root, "task_execution", era=era, person=person) as server:
        answer = server.call("set_task_status", **given)

    assert {
        "id": 1,
        "old": "pending",
        "new": "pending",
        "answered": "Blue.",
        "comment": 1,
    } == answer
    assert ['A question blocks Task 1 "Log in":\nWhich colour?'] == person.asked
    assert ["answer"] == person.forms[0]["required"]
    assert "pending" == status(root, 1)
    noted = "Asked: Which colour?\n\nThe user answered: Blue. (asked through mcp)"
    assert [noted] == comments(root, 1)


@ERAS
def test_a_question_with_options_is_answered_in_a_form_and_not_stored(
    tmp_path: Path, era: Era
) -> None:
    root = held_project(tmp_path / "p")
    person = Person("accept", answer="Blue.")
    given = {"status": "blocked", "question": "Which colour?", "options": ["red", "blue"]}
    with connected(root, "task_execution", era=era, person=person) as server:
        assert "Blue." == server.call("set_task_status", **given)["answered"]

    assert ['A question blocks Task 1 "Log in":\nWhich colour?\n- red\n- blue'] == person.asked
    assert [] == query(root, "SELECT 1 FROM ralphgen_questions")


@pytest.mark.parametrize(
    "person", [None, Person("cancel"), *(Person("accept", answer=text) for text in ("", " "))]
)
@ERAS
def test_an_unanswered_question_blocks_the_task(
    root: Path, era: Era, person: Person | None
) -> None:
    given = {"status": "blocked", "reason": "Which colour?"}
    with connected(root, "task_execution", era=era, person=person) as server:
        answer = server.call("set_task_status", **given)

    assert {"id": 1, "old": "pending", "new": "blocked"} == answer
    assert [("blocked", "Which colour?")] == query(
        root, "SELECT status, blocked_by FROM tasks WHERE id = 1"
    )


@ERAS
def test_the_user_gives_the_reason_for_a_block_if_the_agent_does_not(root: Path, era: Era) -> None:
    refusal = '"blocked" needs a "reason": state what keeps this task from being done'
    with connected(root, "task_execution", era=era) as server:
        assert refusal == server.refusal("set_task_status", status="blocked")
    with connected(root, "task_execution", era=era, person=Person("decline")) as server:
        said = f"{refusal}; the user declined: nothing was changed"
        assert said == server.refusal("set_task_status", status="blocked")
    with connected(root, "task_execution", era=era, person=Person("accept", reason="A key")) as one:
        one.call("set_task_status", status="blocked")

    assert [("blocked", "A key")] == query(
        root, "SELECT status, blocked_by FROM tasks WHERE id = 1"
    )
    assert ["Blocked by the user: A key (asked through mcp)"] == comments(root, 1)


@ERAS
def test_a_claim_ends_if_the_user_agrees(tmp_path: Path, era: Era) -> None:
    root = held_project(tmp_path / "p")
    made = claim_task(root, 2)
    person = Person("accept", **AGREES)
    with connected(root, era=era) as server:
        held = server.refusal("set_task_status", id=2, status="pending")
        assert f'task 2 is claimed by the session "{made.session_id}" until ' in held
    with connected(root, era=era, person=Person("decline")) as server:
        for force in (False, True):
            said = server.refusal("set_task_status", id=2, status="pending", force=force)
            assert "the user declined: nothing was changed" in said
        assert made.session_id == row(root, 2)[0]
    with connected(root, era=era, person=person) as server:
        server.call("set_task_status", id=2, status="pending")

    assert made.session_id in person.asked[0]
    assert row(root, 2)[0] is None
    ended = f'The user ended the claim of session "{made.session_id}"'
    assert [f"{ended} (asked through mcp)"] == comments(root, 2)


@ERAS
def test_of_a_task_that_another_session_holds_only_the_claim_is_asked_about(
    tmp_path: Path, era: Era
) -> None:
    """A client of the stateless version sends only the answer to the last question."""
    root = held_project(tmp_path / "p")
    claim_task(root, 2)
    person = Person("accept", **AGREES)
    given = {"id": 2, "status": "blocked", "reason": "Which colour?"}
    with connected(root, era=era, person=person) as server:
        assert "blocked" == server.call("set_task_status", **given)["new"]

    (asked,) = person.asked
    assert "is claimed by the session" in asked
    assert [("Which colour?",)] == query(root, "SELECT blocked_by FROM tasks WHERE id = 2")


def test_a_question_without_an_answer_in_time_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ralphgen.runtime.protocol.background.ANSWER_WITHIN", 0.01)
    sent: list[dict[str, Any]] = []
    again: list[RpcRequest] = []
    questions = OpenQuestions(lambda line: sent.append(json.loads(line)), again.append)
    request = RpcRequest("call", "tools/call", {})
    questions.ask(request, {"key": {"method": "elicitation/create", "params": {}}})

    assert until(lambda: again == [request])
    assert {"inputResponses": {"key": {"action": "cancel"}}} == request.params
    assert ["elicitation/create", "notifications/cancelled"] == [told["method"] for told in sent]
    assert {"requestId": sent[0]["id"]} == sent[1]["params"]


def test_force_works_if_no_user_can_be_asked(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    claim_task(root, 2)
    with connected(root) as server:
        server.call("set_task_status", id=2, status="pending", force=True)

    assert row(root, 2)[0] is None


def test_the_answer_of_the_user_is_in_the_journal(tmp_path: Path) -> None:
    ledger = LEDGER.read_text(encoding="utf-8")
    root = create_project(tmp_path / "p", ledger, MARKER)
    with connected(root, person=Person("accept", **AGREES)) as server:
        server.call("delete_task", id=1)

    told = query(root, "SELECT tool, table_name, after FROM ralphgen_journal ORDER BY number")
    assert {"delete_task"} == {tool for tool, *_ in told}
    assert any("the user agreed" in (after or "") for _, _, after in told)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_on_both_engines_follow_the_answer_of_the_user(tmp_path: Path, engine: str) -> None:
    with held_on(engine, tmp_path / "p") as root:
        query(root, "UPDATE tasks SET depends_on = '[3]' WHERE id = 2")
        claim_task(root, 2)
        with connected(root, env=dict(os.environ), person=Person("accept", **AGREES)) as server:
            server.call("set_task_status", id=2, status="pending")
            assert {"deleted": 3, "freed": [2]} == server.call("delete_task", id=3)

        assert row(root, 2)[0] is None
        ((waits_for,),) = query(root, "SELECT depends_on FROM tasks WHERE id = 2")
        assert "[]" == str(waits_for)
        assert 2 == len(comments(root, 2))


FORM: dict[str, Any] = {"elicitation": {"form": {}}}
DELETE: dict[str, Any] = {"name": "delete_task", "arguments": {"id": 1}}


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
