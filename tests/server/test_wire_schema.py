"""Every frame that a server writes matches the official schema for its request."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from driving import context_for, create_project, on_context, query
from frame_rules import rules
from jsonschema import Draft202012Validator
from test_protocol import CALLS
from wire import MODERN, PATIENCE, Wire, running

OLD, HANDSHAKE, STATELESS = "2025-06-18", "2025-11-25", "2026-07-28"
TASK, PROGRESS = "ralph://tasks/1", "ralph://progress"
# One call of each tool of a session about task 1, without its bound arguments.
BOUND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_task", {}),
    ("set_task_status", {"status": "blocked", "reason": "waits"}),
    ("add_task_comment", {"body": "Hm"}),
    ("append_learning", {"text": "Learned"}),
    ("append_progress", {"text": "Done"}),
    ("add_feature_context_file", {"file_path": "src/cart.py"}),
    ("read_learnings", {}),
    ("read_progress", {}),
    ("get_project_info", {}),
)
ENRICHING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_tasks", {}),
    ("get_task", {"id": 2}),
    ("create_task", {"feature": "auth", "discipline": "backend", "title": "New"}),
    ("enrich_task", {"id": 3, "pseudocode": "if x: y"}),
    ("update_task", {"id": 3, "description": "Words"}),
    ("list_features", {}),
    ("get_feature", {"name": "auth"}),
    ("list_disciplines", {}),
    ("get_project_info", {}),
)
STRUCTURED = "structured_output = true\n"
TALKS = [
    ("manual", "", CALLS, OLD),
    ("manual", "", CALLS, HANDSHAKE),
    ("manual", STRUCTURED, CALLS, HANDSHAKE),
    ("manual", STRUCTURED, CALLS, STATELESS),
    ("task_execution", "", BOUND, HANDSHAKE),
    ("task_execution", "", BOUND, STATELESS),
    ("enrichment", "", ENRICHING, HANDSHAKE),
    ("enrichment", "", ENRICHING, STATELESS),
]


class Talk(Wire):
    """A client's side of a conversation that validates each frame of the server."""

    def __init__(self, server: Wire, version: str) -> None:
        super().__init__(server.process)
        self.version = version
        self.modern = version >= STATELESS
        self.bad: list[tuple[str | None, list[str], dict[str, Any]]] = []
        self.unanswered: dict[object, str] = {}

    def send(self, method: str, params: object = None, **frame: object) -> None:
        if "id" in frame:
            self.unanswered[frame["id"]] = method
        super().send(method, params, **frame)

    def read(self) -> dict[str, Any]:
        return self.judged(super().read())

    def judged(self, frame: dict[str, Any]) -> dict[str, Any]:
        """The frame, once its faults are noted."""
        method = None if "method" in frame else self.unanswered.pop(frame.get("id"), None)
        told = dict(frame)
        if told.get("id", 0) is None:  # JSON-RPC requires it; the protocol's schema leaves it out
            del told["id"]
        faults = rules(self.version).faults(told, method)
        if faults:
            self.bad.append((method, faults, frame))
        return frame

    def told(self, params: Mapping[str, object]) -> dict[str, object]:
        """Parameters as the era has them."""
        return {**params, "_meta": MODERN} if self.modern else dict(params)

    def result(self, method: str, **params: object) -> dict[str, Any]:
        answer = self.ask(method, self.told(params))
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def error(self, method: str, **params: object) -> int:
        answer = self.ask(method, self.told(params))
        assert "error" in answer, answer
        code: int = answer["error"]["code"]
        return code

    def finish(self) -> None:
        """Leave, and validate the server's remaining frames."""
        self.leave()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.judged(json.loads(line))
        assert 0 == self.end()


@contextmanager
def talking(root: Path, recipe: str, version: str) -> Iterator[Talk]:
    """A conversation with a server, which is killed if it falls silent."""
    with running(root, *on_context(context_for(root, recipe))) as server:
        silence = Timer(PATIENCE, server.process.kill)
        silence.start()
        try:
            yield Talk(server, version)
        finally:
            silence.cancel()


@pytest.mark.parametrize(("recipe", "config", "calls", "version"), TALKS)
def test_every_frame_of_a_conversation_is_of_the_type_that_belongs_there(
    tmp_path: Path,
    recipe: str,
    config: str,
    calls: tuple[tuple[str, dict[str, Any]], ...],
    version: str,
) -> None:
    root = create_project(tmp_path, config=config)
    with talking(root, recipe, version) as talk:
        begin(talk)
        call_every_tool(talk, calls)
        read_resources(talk)
        get_prompts_and_complete(talk)
        listen(talk, root)
        cancel_a_call(talk, root)
        ask_what_means_nothing(talk)
        talk.finish()

        assert [] == talk.bad
        streams = ["stream 0", "stream 1"] if talk.modern else []
        assert {"cancelled", *streams} == talk.unanswered.keys()


def begin(talk: Talk) -> None:
    """The handshake, and requests that come too early or are of the other era."""
    if not talk.modern:
        assert -32602 == talk.error("tools/list")
    talk.shake_hands(talk.version)
    if talk.modern:
        about = {"name": "test", "version": "1"}
        given = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": about}
        assert -32022 == talk.ask("initialize", given)["error"]["code"]
        assert -32602 == talk.ask("tools/list", {})["error"]["code"]
        unknown = MODERN | {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}
        assert -32022 == talk.ask("tools/list", {"_meta": unknown})["error"]["code"]
        assert -32601 == talk.error("ping")
    else:
        assert {} == talk.result("ping")
        assert -32601 == talk.error("server/discover")
        assert -32600 == talk.ask("tools/list", {"_meta": MODERN})["error"]["code"]


def call_every_tool(talk: Talk, calls: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    """Each tool rightly, then each with arguments that no tool has."""
    tools = talk.result("tools/list")["tools"]
    assert {name for name, _ in calls} == {tool["name"] for tool in tools}
    for tool in tools:
        Draft202012Validator.check_schema(tool["inputSchema"])
        Draft202012Validator.check_schema(tool.get("outputSchema", {}))
    for name, arguments in calls:
        result = talk.result("tools/call", name=name, arguments=arguments)
        assert not result.get("isError"), (name, result)
    for tool in tools:
        unfit: dict[str, object] = {name: {} for name in required(tool)}
        for wrong in [{"no such": 1}, unfit] if unfit else [{"no such": 1}]:
            result = talk.result("tools/call", name=tool["name"], arguments=wrong)
            assert result["isError"], (tool["name"], wrong)
    assert -32602 == talk.error("tools/call", name=tools[0]["name"], arguments="x")
    assert -32602 == talk.error("tools/call", name=tools[0]["name"], arguments=["x"])
    assert -32602 == talk.error("tools/call", name="no_such", arguments={})


def required(tool: Mapping[str, Any]) -> list[str]:
    names: list[str] = tool["inputSchema"].get("required", [])
    return names


def read_resources(talk: Talk) -> None:
    """Every resource of the lists, one of each template, and some that are not there."""
    listed = talk.result("resources/list")["resources"]
    templates = talk.result("resources/templates/list")["resourceTemplates"]
    assert 3 == len(templates)
    for uri in ("ralph://tasks/2", *(resource["uri"] for resource in listed)):
        assert uri == talk.result("resources/read", uri=uri)["contents"][0]["uri"]
    missing = ("", "no uri", "ralph://tasks/99", "ralph://features/none", "file:///x", "\u2028")
    for uri in missing:
        assert -32602 == talk.error("resources/read", uri=uri)
    assert -32602 == talk.error("resources/list", cursor="none")


def get_prompts_and_complete(talk: Talk) -> None:
    """Get the session's prompt, get it with errors, and complete everything."""
    assert -32602 == talk.error("prompts/get", name="no such")
    prompts = talk.result("prompts/list")["prompts"]
    for prompt in prompts:
        talk.result("prompts/get", name=prompt["name"])
        assert -32602 == talk.error("prompts/get", name=prompt["name"], arguments={"no such": "x"})
        for argument in prompt.get("arguments", ()):
            complete(talk, {"type": "ref/prompt", "name": prompt["name"]}, argument["name"])
            talk.result("prompts/get", name=prompt["name"], arguments={argument["name"]: "2"})
    for uri, name in (("ralph://tasks/{id}", "id"), ("ralph://features/{name}", "name")):
        complete(talk, {"type": "ref/resource", "uri": uri}, name)
    no_template = {"type": "ref/resource", "uri": "x"}
    for reference in (no_template, {"type": "ref/prompt", "name": "no such"}, {"type": "none"}):
        argument = {"name": "name", "value": ""}
        assert -32602 == talk.error("completion/complete", ref=reference, argument=argument)


def complete(talk: Talk, reference: Mapping[str, str], argument: str) -> None:
    given = {"name": argument, "value": ""}
    found = talk.result("completion/complete", ref=reference, argument=given)
    assert found["completion"]["values"]


def listen(talk: Talk, root: Path) -> None:
    """Hear of a change that another connection makes, in the way of the era."""
    if talk.modern:
        wanted = {"resourceSubscriptions": [TASK, PROGRESS, "ralph://tasks/99"]}
        for number, notifications in enumerate((wanted, {"toolsListChanged": True})):
            params = talk.told({"notifications": notifications})
            talk.send("subscriptions/listen", params, id=f"stream {number}")
            assert "notifications/subscriptions/acknowledged" == talk.read()["method"]
        talk.error("resources/subscribe", uri=TASK)
    else:
        for uri in (TASK, PROGRESS):
            talk.result("resources/subscribe", uri=uri)
        talk.error("resources/subscribe", uri="ralph://tasks/99")
        talk.error("subscriptions/listen", notifications={})
    query(root, "UPDATE tasks SET title = 'Heard of' WHERE id = 1")
    assert TASK == talk.read()["params"]["uri"]
    if talk.modern:
        talk.send("notifications/cancelled", {"requestId": "stream 0"})
    else:
        for uri in (TASK, PROGRESS):
            talk.result("resources/unsubscribe", uri=uri)


def cancel_a_call(talk: Talk, root: Path) -> None:
    """No answer may come to a call that was cancelled while it waited for the database."""
    path = root / ".ralph" / "db" / "ralph.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        params = talk.told({"name": "get_task", "arguments": {"id": 1}})
        params["_meta"] = {**MODERN, "progressToken": 7} if talk.modern else {"progressToken": 7}
        talk.send("tools/call", params, id="cancelled")
        talk.send("notifications/cancelled", {"requestId": "cancelled", "reason": "enough"})
        talk.send("notifications/cancelled", {"requestId": "no such"})
        talk.result("prompts/list")  # answered after the call was cancelled
        connection.execute("COMMIT")
    talk.result("resources/read", uri=TASK)


def ask_what_means_nothing(talk: Talk) -> None:
    """Send unknown methods, parameters of another shape, and lines that are not frames."""
    for method in ("no/such", "logging/setLevel", "sampling/createMessage", "roots/list", ""):
        assert -32601 == talk.error(method, level="info")
    for method in ("tools/call", "resources/read", "prompts/get", "completion/complete"):
        assert -32602 == talk.error(method)
        assert -32602 == talk.error(method, name=7, uri=7, ref=7, argument=7)
    for method in ("tools/list", "prompts/list", "resources/templates/list"):
        assert -32602 == talk.error(method, cursor="7")
    talk.send("notifications/no/such", talk.told({}))
    assert talk.process.stdin is not None
    for line in ("", "no json", "[]", "{}", '{"jsonrpc": "1.0", "id": 5, "method": "ping"}'):
        talk.process.stdin.write(line + "\n")
    talk.send("tools/list", talk.told({}), id="last")
    while "last" in talk.unanswered:
        talk.read()


TEXT = {"type": "text", "text": "x"}
ANSWERED = {"content": [TEXT], "resultType": "complete"}
LISTED = {"resources": [{"uri": "ralph://tasks/1", "name": "task"}]}
UPDATED = {"jsonrpc": "2.0", "method": "notifications/resources/updated"}
BROKEN: list[tuple[str, str | None, dict[str, Any]]] = [
    (HANDSHAKE, "tools/call", {"result": {"isError": True}}),
    (HANDSHAKE, "tools/call", {"result": {"content": [{"type": "words", "text": "x"}]}}),
    (HANDSHAKE, "tools/call", {"result": {"content": [{**TEXT, "data": "x"}]}}),
    (HANDSHAKE, "tools/call", {"result": ANSWERED}),
    (HANDSHAKE, "tools/call", {"jsonrpc": "1.0", "result": {"content": [TEXT]}}),
    (HANDSHAKE, "tools/list", {"result": {"content": [TEXT]}}),
    (HANDSHAKE, "ping", {"result": {"pong": True}}),
    (HANDSHAKE, "server/discover", {"result": {"capabilities": {}}}),
    (HANDSHAKE, "resources/list", {"result": {"resources": [{"uri": "x y", "name": "task"}]}}),
    (HANDSHAKE, "resources/list", {"result": LISTED, "error": {"code": -32603, "message": ""}}),
    (HANDSHAKE, "prompts/get", {"error": {"code": 0, "message": "kaboom"}}),
    (HANDSHAKE, "prompts/get", {"error": {"code": -32603}}),
    (HANDSHAKE, "prompts/get", {"error": {"code": -32000, "message": "Connection closed"}}),
    (HANDSHAKE, None, {"id": 1, "result": {}}),
    (HANDSHAKE, None, {**UPDATED, "params": {}}),
    (HANDSHAKE, None, {**UPDATED, "method": "notifications/subscriptions/acknowledged"}),
    (HANDSHAKE, None, {"id": 1, "method": "roots/list"}),
    (OLD, "resources/list", {"result": {"resources": [{**LISTED["resources"][0], "icons": []}]}}),
    (STATELESS, "tools/call", {"result": {"content": [TEXT]}}),
    (STATELESS, "resources/list", {"result": {**LISTED, "resultType": "complete"}}),
    (STATELESS, "ping", {"result": {}}),
    (STATELESS, "tools/list", {"error": {"code": -32022, "message": "no", "data": {}}}),
    (STATELESS, None, {**UPDATED, "method": "notifications/tasks/status", "params": {}}),
]


@pytest.mark.parametrize(("version", "method", "frame"), BROKEN)
def test_a_frame_that_does_not_belong_there_is_found(
    version: str, method: str | None, frame: dict[str, Any]
) -> None:
    answers = {} if method is None else {"id": 1}

    assert [] != rules(version).faults({"jsonrpc": "2.0", **answers, **frame}, method)


def test_a_frame_that_belongs_there_has_no_fault() -> None:
    """Without this, frames that are broken in another way than meant would pass above."""
    for version, method, told in (
        (HANDSHAKE, "tools/call", {"result": {"content": [TEXT]}}),
        (HANDSHAKE, "resources/list", {"result": LISTED}),
        (HANDSHAKE, "ping", {"result": {}}),
        (OLD, "resources/list", {"result": LISTED}),
        (STATELESS, "tools/call", {"result": ANSWERED}),
    ):
        assert [] == rules(version).faults({"jsonrpc": "2.0", "id": 1, **told}, method)
    update = {**UPDATED, "params": {"uri": TASK}}
    assert [] == rules(HANDSHAKE).faults(update, None)
