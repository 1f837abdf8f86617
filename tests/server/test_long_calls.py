"""The tasks extension: a call that takes long is a handle, for the clients that declare it."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import mcp.types as t
import pytest
from dela_projects import GATED, HOLDING, allow, at_home, entry, project_with
from driving import Era, connected, context_for, on_context, query
from lifelines import until
from long_calls import EXTENSION, TASKS, request_task, settled, start, task_state
from mcp.client.extension import ClientExtension, ResultClaim
from proved_projects import check, proved_project, python
from wire import MODERN, Wire, running

from ralphgen.runtime.protocol import RpcRequest
from ralphgen.runtime.protocol.background import TASK_AFTER, LongCall

FILES = {
    "hold.sh": HOLDING,
    "gated.sh": GATED,
    "quick.sh": "#!/bin/sh\necho quick\n",
    "stubborn.sh": '#!/bin/sh\ntrap "" TERM\n: >"$1"\nwhile :; do sleep 0.1; done\n',
}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tasks/get", {}),
    ("tasks/cancel", {}),
    ("tasks/update", {"inputResponses": {}}),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("long") / "p", FILES)


@pytest.fixture
def wire(root: Path, tmp_path: Path) -> Iterator[Wire]:
    with at_home(tmp_path):
        allow(tmp_path, entry("Directory", root))
        context = context_for(root, "manual")
        with running(root, "dela", *on_context(context)) as server:
            yield server


def test_a_call_that_takes_long_is_a_task_with_the_result_of_the_call(
    wire: Wire, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    made = wire.ask("tools/call", start("gated", str(gate)))["result"]
    assert ("task", "working", None) == (made["resultType"], made["status"], made["ttlMs"])
    assert {"createdAt", "lastUpdatedAt", "pollIntervalMs"} <= made.keys()
    assert len(made["taskId"]) == 32
    assert "working" == task_state(wire, made["taskId"])["status"]
    assert until(lambda: "statusMessage" in task_state(wire, made["taskId"]))
    gate.touch()
    found = settled(wire, made["taskId"])

    assert ("complete", "completed") == (found["resultType"], found["status"])
    assert found["ttlMs"] > 3_600_000
    assert "statusMessage" not in found
    assert not found["result"]["isError"]
    answer = json.loads(found["result"]["content"][0]["text"])
    assert ("exited", "waiting\ndone\n") == (answer["state"], answer["initial_output"])


def test_a_task_reports_its_status_instead_of_progress(wire: Wire, tmp_path: Path) -> None:
    meta = {**TASKS, "progressToken": 7}
    wire.send("tools/call", start("gated", str(tmp_path / "never"), meta=meta), id="call")
    while "result" not in (frame := wire.read()):
        assert "notifications/progress" == frame["method"]
    made = frame["result"]["taskId"]
    deadline = time.monotonic() + 60
    while "the last: waiting" not in (found := task_state(wire, made)).get("statusMessage", ""):
        assert time.monotonic() < deadline
        time.sleep(0.2)

    assert "working" == found["status"]


@pytest.mark.parametrize("meta", [MODERN, {**MODERN, "progressToken": 1}])
def test_who_does_not_declare_it_gets_the_result_itself(wire: Wire, meta: Any) -> None:
    wire.send("tools/call", start("hold", wait=3, meta=meta), id=1)
    while "method" in (frame := wire.read()):
        assert "notifications/progress" == frame["method"]
    assert "complete" == frame["result"]["resultType"]
    for method, more in REQUESTS:
        error = request_task(wire, method, "x", meta, **more)["error"]
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        assert (-32021, needed) == (error["code"], error["data"])


def test_a_call_that_is_soon_over_is_answered_at_once(wire: Wire) -> None:
    answer = wire.ask("tools/call", start("quick"))["result"]
    refused = wire.ask("tools/call", start("no_such"))["error"]
    listed = wire.ask("tools/call", {"name": "list_tasks", "arguments": {}, "_meta": TASKS})

    assert "complete" == answer["resultType"] == listed["result"]["resultType"]
    assert -32012 == refused["code"]


def test_a_cancelled_task_stops_its_children(wire: Wire) -> None:
    made = wire.ask("tools/call", start("hold"))["result"]["taskId"]
    acknowledged = request_task(wire, "tasks/cancel", made)["result"]
    assert "cancelled" == task_state(wire, made)["status"]

    assert "complete" == acknowledged["resultType"]
    deadline = time.monotonic() + 60
    status = {"name": "status", "arguments": {}, "_meta": TASKS}
    while json.loads(wire.ask("tools/call", status)["result"]["content"][0]["text"])["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "cancelled" == task_state(wire, made)["status"]
    assert {} == {
        key: value
        for key, value in request_task(wire, "tasks/cancel", made)["result"].items()
        if key not in ("_meta", "resultType")
    }


def test_a_call_that_its_client_has_cancelled_becomes_no_task(wire: Wire, tmp_path: Path) -> None:
    """This holds even if its process takes time to end."""
    begun = tmp_path / "begun"
    wire.send("tools/call", start("stubborn", str(begun)), id="call")
    assert until(begun.exists)
    wire.send("notifications/cancelled", {"requestId": "call"})
    time.sleep(TASK_AFTER + 1)

    assert wire.ask("tools/list", {"_meta": TASKS})["result"]["tools"]


def test_a_task_of_an_abandoned_call_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancellation arrives at the moment when it becomes a task."""
    monkeypatch.setattr("ralphgen.runtime.protocol.background.TASK_AFTER", 0.01)
    kept: list[LongCall] = []
    task = LongCall(RpcRequest(1, "tools/call", {}), lambda *_: None)
    task.wait(kept.append)
    task.tell(None)
    task.note("late")

    assert [task] == kept
    assert ("cancelled", False) == (task.state()["status"], "statusMessage" in task.state())


def test_an_unknown_task_is_refused(wire: Wire) -> None:
    for method, more in REQUESTS:
        error = request_task(wire, method, "none", **more)["error"]
        assert (-32602, 'there is no task "none"') == (error["code"], error["message"])


@pytest.mark.parametrize("params", [{}, {"taskId": 5}, {"taskId": None}, {"taskId": ["none"]}])
def test_what_names_no_task_is_refused_as_that(wire: Wire, params: dict[str, Any]) -> None:
    for method, more in REQUESTS:
        answer = wire.ask(method, {**more, **params, "_meta": TASKS})
        assert -32602 == answer["error"]["code"]


def test_a_request_on_a_task_may_have_unknown_fields(wire: Wire) -> None:
    made = wire.ask("tools/call", start("hold"))["result"]["taskId"]
    assert "working" == request_task(wire, "tasks/get", made, more=1)["result"]["status"]
    assert -32602 == request_task(wire, "tasks/update", made)["error"]["code"]
    assert "result" in request_task(wire, "tasks/cancel", made, more=1)


def test_who_does_not_declare_it_cannot_listen_to_tasks(wire: Wire) -> None:
    """Clients that declare it may, but receive no updates: a task is polled."""
    wanted = {"notifications": {"taskIds": ["x"]}}
    refused = wire.ask("subscriptions/listen", {**wanted, "_meta": MODERN})["error"]
    wire.send("subscriptions/listen", {**wanted, "_meta": TASKS}, id="listens")
    heard = wire.read()

    assert -32021 == refused["code"]
    assert {EXTENSION: {}} == refused["data"]["requiredCapabilities"]["extensions"]
    assert "notifications/subscriptions/acknowledged" == heard["method"]
    assert {} == heard["params"]["notifications"]


def test_a_server_with_a_task_ends_when_its_client_leaves(wire: Wire) -> None:
    wire.ask("tools/call", start("hold"))
    wire.leave()

    assert 0 == wire.end()


def test_only_servers_with_long_calls_declare_tasks(root: Path, wire: Wire) -> None:
    told = wire.ask("server/discover", {"_meta": MODERN})["result"]["capabilities"]
    assert {} == told["extensions"][EXTENSION]
    with running(root, "dela", *on_context(context_for(root, "yap"))) as server:
        told = server.ask("server/discover", {"_meta": MODERN})["result"]["capabilities"]
        assert EXTENSION not in told.get("extensions", {})
    with running(root, "dela", *on_context(context_for(root, "manual"))) as server:
        assert "extensions" not in server.shake_hands()["capabilities"]


class Created(t.Result):
    """The handle of a task, as the SDK's client reads it by an extension."""

    result_type: Literal["task"]
    task_id: str
    status: str


class AsksAfter(ClientExtension):
    """The extension at the SDK's client, as far as a test needs it."""

    identifier = EXTENSION

    def __init__(self) -> None:
        """Has seen no task yet."""
        self.handles: list[str] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Take the handle for a result, and ask for the result itself."""

        async def resolve(made: Created, _context: Any) -> t.CallToolResult:
            self.handles.append(made.task_id)
            text = t.TextContent(type="text", text=made.status)
            return t.CallToolResult(content=[text])

        return (ResultClaim(result_type="task", model=Created, resolve=resolve),)


@pytest.mark.parametrize(("era", "is_task"), [("auto", True), ("legacy", False)])
def test_the_checks_of_a_task_are_one_for_the_sdks_client_too(
    tmp_path: Path, era: Era, is_task: bool
) -> None:
    slow = check("slow", *python("import time; time.sleep(4)"))
    root = proved_project(tmp_path / "p", slow)
    extension = AsksAfter()
    with connected(root, "task_execution", era=era, extensions=[extension]) as server:
        failed, text = server.ask("run_checks")

    assert not failed
    assert is_task == (text == "working") == bool(extension.handles)
    assert [] == query(root, "SELECT * FROM ralphgen_evidence WHERE exit_code <> 0")
