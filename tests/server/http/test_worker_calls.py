"""Workers over HTTP: their tokens, their calls, and every call that a server refuses."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from command_line import ralphgen
from driving import query
from engines import ENGINES
from held_tasks import held_on
from http_servers import CONFIG, JSON, KEY, URL, HttpServer, serving
from http_servers import token as signed
from lifelines import until
from proved_projects import check, python

from ralphgen.kits.project import Project
from ralphgen.project.inspect import done_rules
from ralphgen.project.model import done_facts
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.tasks.merges import MOST_WAITING

pytestmark = pytest.mark.thorough
CHECKS = check("tests", *python("pass")) + check("lint", *python("pass"))
SETTINGS = f"[claims]\nlease = 600\n[loop]\nattempts = 2\n{CONFIG}rate = 100000\n{CHECKS}"
TREE, BASE = "a" * 40, "b" * 40
QUEUE = (
    *("queue", "runner", "batch", "proved", "run", "ran"),
    *("landing", "landed", "returned", "waits"),
)
PASSED = {"exit_code": 0, "seconds": 1, "started": "2026-02-10T00:00:00Z", "tail": "ok"}


@pytest.fixture(params=ENGINES)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HttpServer]:
    """A server with two processes, on a project with three tasks and two checks."""
    monkeypatch.setenv("RALPH_KEY", KEY)
    with held_on(request.param, tmp_path / "p", SETTINGS) as root, serving(root) as running:
        yield running


def added(root: Path, name: str, *options: str) -> str:
    """Add a worker; return its token."""
    done = ralphgen("worker", "add", name, *options, "--project", root)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def sent(server: HttpServer, token: str, verb: str, body: object) -> tuple[int, Any]:
    """Return the status and the JSON of a call of a worker."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    more = {**JSON, "Authorization": f"Bearer {token}"}
    status, answer, _ = server.ask(f"/mcp/worker/{verb}", data, more)
    return status, json.loads(answer)


def call(server: HttpServer, token: str, verb: str, **body: object) -> Any:
    """Return the answer to a call that works."""
    status, answer = sent(server, token, verb, body)
    assert 200 == status, answer
    return answer


def take(server: HttpServer, token: str, session: str = "one", **more: object) -> Any:
    return call(server, token, "take", session=session, recipe="task_execution", **more)


def prove(server: HttpServer, token: str, session: str = "one", **changed: Any) -> Any:
    body: dict[str, Any] = {"session": session, "tree": TREE, "base": BASE}
    body["results"] = {"tests": PASSED, "lint": PASSED}
    return sent(server, token, "prove", {**body, **changed})


def told(server: HttpServer, session: str, tool: str, **given: Any) -> str:
    """Return the text of the answer to a call of a tool with a session's token."""
    status, answer = server.call(session, tool, **given)
    assert 200 == status, answer
    if "error" in answer:
        return str(answer["error"]["message"])
    return str(answer["result"]["content"][0]["text"])


def test_task_is_done_by_evidence_of_its_worker(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    answer = take(server, token, host="build-2", agent="claude")

    assert (1, "one", "ralph", 600) == tuple(
        answer[name] for name in ("task", "session", "kit", "lease")
    )
    tools = {tool["name"]: tool for tool in answer["describe"]["tools"]}
    assert "done" in tools["set_task_status"]["inputSchema"]["properties"]["status"]["enum"]
    assert "run_checks" in tools
    own = answer["token"]
    told(server, own, "set_task_status", status="in_progress")
    assert "has not passed" in told(server, own, "set_task_status", status="done")
    assert "runs on the worker" in told(server, own, "run_checks")
    assert (200, {"accepted": True}) == prove(server, token)
    assert '"new":"done"' in told(server, own, "set_task_status", status="done")
    assert "done" == call(server, token, "renew", sessions=["one"])["sessions"]["one"]["status"]
    assert {"status": "done"} == call(
        server, token, "end", session="one", outcome="done", turns=3, estimate=0.25
    )
    sql = "SELECT check_name, tree, worker FROM ralphgen_evidence ORDER BY number"
    assert [
        ("tests", TREE, "mac-2"),
        ("lint", TREE, "mac-2"),
        ("(recorded)", TREE, "mac-2"),
    ] == query(root, sql)
    names = "worker, outcome, turns, cost_usd, estimated_usd, base_commit"
    sql = f"SELECT {names} FROM ralphgen_sessions WHERE id = 'one'"
    assert [("mac-2", "done", 3, None, 0.25, BASE)] == query(root, sql)
    assert [] == query(root, "SELECT 1 FROM ralphgen_claims WHERE session IS NOT NULL")


def test_tokens_open_their_own_addresses_alone(server: HttpServer) -> None:
    root = server.root
    worker = added(root, "mac-2")
    own = take(server, worker)["token"]
    other = signed(root, "manual")

    for kit_only in ("tools/list", "list_tasks", "set_task_status", "get_task"):
        status, answer = server.call(worker, kit_only)
        assert 403 == status, answer
    for session in (own, other):
        for verb in ("take", "renew", "prove", "end", "enter", *QUEUE):
            status, answer = sent(server, session, verb, {"session": "one"})
            assert 403 == status, (verb, answer)
    assert 404 == sent(server, worker, "nothing", {})[0]
    assert 404 == sent(server, worker, "take/", {})[0]
    assert 401 == sent(server, "no token", "take", {})[0]


def test_forged_tokens_open_nothing(server: HttpServer) -> None:
    root = server.root
    added(root, "mac-2")
    facts: dict[str, Any] = {"rec": None, "pol": None, "wrk": "mac-2"}

    assert 401 == sent(server, signed(root, key="x" * 40, **facts), "take", {})[0]
    for token in (
        signed(root, **facts),  # whoever has the key, but no row
        signed(root, **{**facts, "wrk": "mac-3"}),
        signed(root, **{**facts, "wrk": "../x"}),
        signed(root, **{**facts, "tsk": 1}),
    ):
        body = {"session": "one", "recipe": "task_execution"}
        assert 401 == sent(server, token, "take", body)[0]
    assert [] == query(root, "SELECT id FROM ralphgen_sessions WHERE worker IS NOT NULL")


def test_repeated_calls_get_the_first_answer(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")

    assert take(server, token) == take(server, token)
    query(root, "UPDATE ralphgen_claims SET pid = 1, host = 'h', namespace = 'n', boot = 'b'")
    take(server, token)  # a server that was killed between claim and answer
    assert [(None,)] == query(root, "SELECT pid FROM ralphgen_claims WHERE session = 'one'")
    prove(server, token)
    prove(server, token)
    assert [(2,)] == query(root, "SELECT count(*) FROM ralphgen_evidence")
    end = {"session": "one", "outcome": "open"}
    assert call(server, token, "end", **end) == call(server, token, "end", **end)
    assert [(1,)] == query(root, "SELECT attempts FROM ralphgen_claims WHERE task_id = 1")
    status, answer = sent(server, token, "take", {"session": "one", "recipe": "task_execution"})
    assert (409, "this session has lost its claim: stop working on its task") == (
        status,
        answer["error"]["message"],
    )


def test_worker_reaches_no_session_of_another(server: HttpServer) -> None:
    root = server.root
    first, second = added(root, "mac-2"), added(root, "mac-3")
    take(server, first)
    take(server, second, "two")

    for session in ("one", "missing"):
        assert 409 == prove(server, second, session)[0]
        for verb, body in (
            ("renew", {"sessions": ["two", session]}),
            ("end", {"session": session, "outcome": "done"}),
            ("take", {"session": session, "recipe": "task_execution"}),
        ):
            if (verb, session) != ("take", "missing"):
                assert 409 == sent(server, second, verb, body)[0], (verb, session)
    query(root, "INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('mine', 'yap', 'x')")
    body = {"session": "mine", "recipe": "task_execution"}
    assert 409 == sent(server, second, "take", body)[0]
    sql = "SELECT session FROM ralphgen_claims WHERE session IS NOT NULL ORDER BY task_id"
    assert [("one",), ("two",)] == query(root, sql)
    assert [] == query(root, "SELECT 1 FROM ralphgen_evidence")


def test_evidence_of_a_worker_proves_nothing_elsewhere(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    own = take(server, token)["token"]

    prove(server, token, results={"tests": PASSED})
    assert 'check \\"lint\\"' in json.dumps(told(server, own, "set_task_status", status="done"))
    prove(server, token, tree="c" * 40, results={"lint": PASSED})
    assert "has not passed" in told(server, own, "set_task_status", status="done")
    failed = {**PASSED, "exit_code": 1}
    prove(server, token, tree="d" * 40, results={"lint": failed, "tests": PASSED})
    assert "ended with exit code 1" in told(server, own, "set_task_status", status="done")
    prove(server, token, tree="e" * 40, protected=["tests/a.py"])
    assert "protected files" in told(server, own, "set_task_status", status="done")
    query(root, "UPDATE ralphgen_evidence SET worker = 'mac-3'")
    prove(server, token, tree="f" * 40, results={})
    assert "has not passed" in told(server, own, "set_task_status", status="done")


def test_revoked_worker_loses_everything_within_a_second(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    own = take(server, token)["token"]
    prove(server, token)
    told(server, own, "set_task_status", status="done")

    done = ralphgen("worker", "revoke", "mac-2", "--project", root)
    assert "revoked worker mac-2 and ended 1 session\n" == done.stdout
    end = time.monotonic() + 1
    assert until(lambda: server.call(own, "get_task")[0] == 401)
    assert time.monotonic() < end
    body = {"session": "two", "recipe": "task_execution"}
    assert 401 == sent(server, token, "take", body)[0]
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert [] == query(root, "SELECT 1 FROM ralphgen_claims WHERE session IS NOT NULL")
    assert 0 == ralphgen("worker", "revoke", "mac-2", "--project", root).returncode
    renewed = added(root, "mac-2")
    assert 1 == take(server, renewed, "two")["task"]
    assert 401 == sent(server, token, "renew", {"sessions": []})[0]


def test_token_of_an_ended_session_opens_nothing(server: HttpServer) -> None:
    token = added(server.root, "mac-2")
    own = take(server, token)["token"]
    assert 200 == server.call(own, "get_task")[0]
    call(server, token, "end", session="one", outcome="failed")

    assert until(lambda: server.call(own, "get_task")[0] == 401)


def test_token_of_a_lost_session_opens_nothing(server: HttpServer) -> None:
    """Neither if another session takes its task over, nor if the task is blocked instead."""
    root, token = server.root, added(server.root, "mac-2")
    lapse = "UPDATE ralphgen_claims SET expires = '2020-02-10T00:00:00.000Z' WHERE task_id = 1"
    first = take(server, token, "one")["token"]
    query(root, lapse)
    second = take(server, token, "two")
    assert 1 == second["task"]
    assert until(lambda: server.call(first, "get_task")[0] == 401)

    query(root, lapse)  # no call has used the second token, which would renew the claim
    assert 1 != take(server, token, "three")["task"]
    assert [("blocked",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert until(lambda: server.call(second["token"], "get_task")[0] == 401)
    call(server, token, "end", session="two", outcome="open")
    assert 401 == server.call(second["token"], "get_task")[0]


def test_end_of_a_session_and_of_its_claim_are_recorded_together(server: HttpServer) -> None:
    root, token = server.root, added(server.root, "mac-2")
    take(server, token, "one")
    task = take(server, token, "two")["task"]
    call(server, token, "end", session="one", outcome="failed")
    query(root, "CREATE UNIQUE INDEX one_failed ON ralphgen_sessions (outcome)")
    body = {"session": "two", "outcome": "failed"}

    assert 503 == sent(server, token, "end", body)[0]
    held = f"SELECT session FROM ralphgen_claims WHERE task_id = {task}"
    assert [("two",)] == query(root, held)
    query(root, "DROP INDEX one_failed")
    assert {"status": "pending"} == call(server, token, "end", **body)
    assert [] == query(root, "SELECT 1 FROM ralphgen_sessions WHERE ended IS NULL")


def test_revoked_worker_loses_the_tokens_of_sessions_that_have_ended(server: HttpServer) -> None:
    """Also of a session without a row, whose token the worker's token has brought about."""
    token = added(server.root, "mac-2")
    own = take(server, token)["token"]
    query(server.root, "UPDATE ralphgen_sessions SET ended = '2026-01-01T00:00:00Z'")
    assert 200 == server.call(own, "get_task")[0]
    assert 0 == ralphgen("worker", "revoke", "mac-2", "--project", server.root).returncode

    assert until(lambda: server.call(own, "get_task")[0] == 401)


def test_late_calls_are_refused_once_another_session_has_the_task(server: HttpServer) -> None:
    root = server.root
    first, second = added(root, "mac-2"), added(root, "mac-3")
    own = take(server, first)["token"]
    query(root, "UPDATE ralphgen_claims SET expires = '2020-02-10T00:00:00.000Z'")
    assert 1 == take(server, second, "two")["task"]

    assert 409 == prove(server, first)[0]
    assert until(lambda: server.call(own, "get_task")[0] == 401)
    assert {"one": {"lost": True, "status": "pending"}} == call(
        server, first, "renew", sessions=["one"]
    )["sessions"]
    call(server, first, "end", session="one", outcome="open", comment="late")
    assert [("two",)] == query(root, "SELECT session FROM ralphgen_claims WHERE task_id = 1")


def test_hostile_bodies_are_refused(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    take(server, token)
    good = {"session": "one", "tree": TREE, "base": BASE, "results": {"tests": PASSED}}
    wrong: list[tuple[str, Any]] = [
        *(("take", body) for body in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000)),
        ("take", {"session": "a" * 161, "recipe": "task_execution"}),
        ("take", {"session": "../a", "recipe": "task_execution"}),
        ("take", {"session": "two\n", "recipe": "task_execution"}),
        ("take", {"session": "two", "recipe": "manual"}),
        ("take", {"session": "two", "recipe": "no such"}),
        ("take", {"session": "two", "recipe": "task_execution", "brief": []}),
        ("take", {"session": "two", "recipe": "task_execution", "skip": [True]}),
        ("take", {"session": "two", "recipe": "task_execution", "skip": [1] * 1_001}),
        ("take", {"session": "two", "recipe": "task_execution", "task": 3}),
        ("renew", {"sessions": ["one"] * 65}),
        ("renew", {"sessions": "one"}),
        ("end", {"session": "one", "outcome": ""}),
        ("end", {"session": "one", "outcome": "done\u0000"}),
        ("end", {"session": "one", "outcome": "done", "cost": -1}),
        ("end", {"session": "one", "outcome": "done", "cost": True}),
        ("end", {"session": "one", "outcome": "done", "turns": 1e300}),
        ("end", {"session": "one", "outcome": "done", "comment": "x" * 8_001}),
        ("end", {"session": "one", "outcome": "\ud800"}),
        ("prove", {**good, "tree": "a" * 39}),
        ("prove", {**good, "base": "HEAD"}),
        ("prove", {**good, "base": f"{BASE}\n"}),
        ("prove", {**good, "protected": ["a\u0000b"]}),
        ("prove", {**good, "results": {"other": PASSED}}),
        ("prove", {**good, "results": {"(recorded)": PASSED}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "exit_code": "0"}}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "exit_code": False}}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "tail": "x" * 4_001}}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "seconds": float("inf")}}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "started": "now"}}}),
        ("prove", {**good, "results": {"tests": {**PASSED, "worker": "x"}}}),
        ("prove", {**good, "results": {f"c{n}": PASSED for n in range(101)}}),
        ("prove", {**good, "task": 2}),
    ]
    for verb, body in wrong:
        status, answer = sent(server, token, verb, body)
        assert 400 == status, (verb, str(body)[:200], answer)
    assert 413 == sent(server, token, "take", b" " * 20_000_000)[0]
    assert [] == query(root, "SELECT 1 FROM ralphgen_evidence")
    assert [("one",)] == query(root, "SELECT id FROM ralphgen_sessions WHERE worker IS NOT NULL")


def test_worker_commands_show_states(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2", "--merge", "--ttl", "1h")
    assert {"wrk": "mac-2"}.items() <= jwt.decode(
        token, KEY, algorithms=["HS256"], audience=URL
    ).items()
    second = ralphgen("worker", "add", "mac-2", "--project", root)
    assert (2, "") == (second.returncode, second.stdout)
    listed = json.loads(ralphgen("worker", "list", "--json", "--project", root).stdout)
    assert ("mac-2", True, "active", None) == tuple(
        listed[0][name] for name in ("name", "merge", "state", "seen")
    )
    take(server, token, host="build-2")
    assert "on build-2" in ralphgen("worker", "list", "--project", root).stdout
    for name in ("Mac", "-a", "a b", "a" * 41, ""):
        assert 2 == ralphgen("worker", "add", "--project", root, "--", name).returncode
    assert 2 == ralphgen("worker", "add", "b", "--ttl", "25h", "--project", root).returncode
    assert 1 == ralphgen("worker", "revoke", "mac-3", "--project", root).returncode


def done_task(server: HttpServer, token: str, session: str = "one") -> int:
    """Let a worker do a task and enter it for its merge; return its number in the queue."""
    own = take(server, token, session)["token"]
    prove(server, token, session)
    told(server, own, "set_task_status", status="done")
    facts = {"session": session, "commit": "c" * 40, "tree": TREE, "branch": "main"}
    return int(call(server, token, "enter", **facts)["number"])


def test_done_task_waits_in_the_merge_queue(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    take(server, token, "early")
    facts = {"session": "early", "commit": "c" * 40, "tree": TREE, "branch": "main"}
    assert 409 == sent(server, token, "enter", facts)[0]
    number = done_task(server, token)
    facts["session"] = "one"

    assert 409 == sent(server, token, "enter", {**facts, "tree": "d" * 40})[0]
    assert {"number": number} == call(server, token, "enter", **facts)
    call(server, token, "end", session="one", outcome="done")
    sql = "SELECT task_id, worker, work, tree, target, state FROM ralphgen_merges"
    assert [(2, "mac-2", "c" * 40, TREE, "main", "waiting")] == query(root, sql)
    assert 3 == take(server, token, "three")["task"]
    other = added(root, "mac-3")
    assert 409 == sent(server, other, "enter", facts)[0]

    assert 0 == ralphgen("worker", "revoke", "mac-2", "--project", root).returncode
    assert [("dropped",)] == query(root, "SELECT state FROM ralphgen_merges")


def calls_of_queue(server: HttpServer, number: int) -> dict[str, dict[str, Any]]:
    """Return a valid body for each call on the queue and one of its entries."""
    commits = {"base": "1" * 40, "head": "2" * 40, "tree": "3" * 40}
    entry, branch = {"batch": 1, "entry": number}, {"branch": "main"}
    rules = done_rules(Project(server.root).settings)
    assert rules is not None
    digest = sha256_hex(json.dumps(done_facts(rules), sort_keys=True).encode())
    return {
        "queue": branch,
        "proved": {"tree": TREE, "task": 1},
        "runner": {**branch, "state": "begin"},
        "batch": {**branch, "rules": digest},
        "run": {**branch, **commits, "batch": 1, "entries": [number]},
        "ran": {"run": 1, "passed": True, "results": {"tests": PASSED}},
        "waits": {"entries": [number], "reason": "dirty"},
        "landing": {"batch": 1, "entries": {str(number): "e" * 40}},
        "landed": {"batch": 1, "entries": {str(number): "e" * 40}},
        "returned": {**entry, "reason": "tests failed", "output": "no", "refused": False},
    }


def test_no_task_is_taken_while_the_merge_queue_is_full(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2")
    enter = "INSERT INTO ralphgen_merges (work, target, entered) VALUES (?, 'main', '')"
    for number in range(MOST_WAITING):
        query(root, enter, f"{number:040}")

    full = take(server, token)
    query(root, "UPDATE ralphgen_merges SET state = 'merged' WHERE number = 1")

    assert (None, True) == (full["task"], full["running"] > 0)
    assert 1 == take(server, token)["task"]


def test_queue_is_run_by_one_worker_with_the_right_to(server: HttpServer) -> None:
    root = server.root
    token, runner = added(root, "mac-2"), added(root, "mac-3", "--merge")
    second = added(root, "mac-4", "--merge")
    numbers = [done_task(server, token, session) for session in ("one", "two", "three")]
    bodies = calls_of_queue(server, numbers[0])
    assert {*QUEUE} == {*bodies}

    for verb, body in bodies.items():
        assert 403 == sent(server, token, verb, body)[0], verb
    need_lease = {*QUEUE} - {"queue", "proved", "runner"}
    for verb in need_lease:
        assert 409 == sent(server, runner, verb, bodies[verb])[0], verb
    assert {"lease": 60.0} == call(server, runner, "runner", **bodies["runner"])
    assert {"lease": None} == call(server, second, "runner", **bodies["runner"])
    listed = call(server, second, "queue", branch="main")["entries"]
    assert numbers == [one["number"] for one in listed]
    assert [] == call(server, second, "queue", branch="dev")["entries"]
    first = listed[0]
    assert ("done", "mac-2", TREE, []) == tuple(
        first[name] for name in ("status", "worker", "tree", "proved")
    )
    assert {"batch": 1} == call(server, runner, "batch", **bodies["batch"])
    assert 409 == sent(server, runner, "batch", {"branch": "main", "rules": "0" * 64})[0]
    assert {"run": 1} == call(server, runner, "run", **bodies["run"])
    assert {"run": 1} == call(server, runner, "run", **bodies["run"])
    for verb in need_lease:
        assert 409 == sent(server, second, verb, bodies[verb])[0], verb
    for _ in range(2):
        assert {"accepted": True} == call(server, runner, "ran", **bodies["ran"])
    sql = "SELECT check_name, tree, worker, run FROM ralphgen_evidence WHERE run IS NOT NULL"
    assert [("tests", "3" * 40, "mac-3", 1)] == query(root, sql)
    for own, expected in ((runner, ["tests"]), (second, [])):
        passed = call(server, own, "proved", tree="3" * 40, task=None)["checks"]
        assert expected == [name for name, _ in passed]
    assert [("mac-3", 1)] == query(root, "SELECT worker, passed FROM ralphgen_runs")

    assert {"entries": numbers[:1]} == call(server, runner, "waits", **bodies["waits"])
    assert [("dirty",)] == query(
        root, "SELECT reason FROM ralphgen_merges WHERE number = ?", numbers[0]
    )
    sql = "SELECT landing FROM ralphgen_merges ORDER BY number LIMIT 1"
    for batch, claimed, stored in ((1, True, "e" * 40), (None, False, None), (1, True, "e" * 40)):
        answer = call(server, runner, "landing", **{**bodies["landing"], "batch": batch})
        assert ({"claimed": claimed}, [(stored,)]) == (answer, query(root, sql))
    landed = {**bodies["landed"], "flaky": "lint"}
    assert {"entries": numbers[:1]} == call(server, runner, "landed", **landed)
    assert {"entries": []} == call(server, runner, "landed", **landed)
    returned = {**bodies["returned"], "entry": numbers[1]}
    for _ in range(2):
        assert {"ended": True} == call(server, runner, "returned", **returned)
    assert 409 == sent(server, runner, "landed", {"batch": 1, "entries": {"99": "e" * 40}})[0]
    for wrong in ({"x": "e" * 40}, {"1": "main"}, [1], None):
        assert 400 == sent(server, runner, "landed", {"batch": 1, "entries": wrong})[0]
    sql = "SELECT state, merged, runner, reason, tail FROM ralphgen_merges ORDER BY number"
    assert [
        ("merged", "e" * 40, "mac-3", "flaky: lint", None),
        ("returned", None, "mac-3", "tests failed", "no"),
        ("waiting", None, None, None, None),
    ] == query(root, sql)
    assert [("done",), ("pending",), ("done",)] == query(
        root, "SELECT status FROM tasks ORDER BY id"
    )

    assert {"lease": None} == call(server, runner, "runner", branch="main", state="end")
    assert 409 == sent(server, runner, "waits", {"entries": numbers[2:], "reason": "x"})[0]
    assert {"lease": 60.0} == call(server, second, "runner", **bodies["runner"])
    assert 0 == ralphgen("worker", "revoke", "mac-4", "--project", root).returncode
    for verb, body in bodies.items():
        assert 401 == sent(server, second, verb, body)[0], verb
    assert {"lease": 60.0} == call(server, runner, "runner", **bodies["runner"])


def test_second_failure_of_a_task_and_refused_files_block_it(server: HttpServer) -> None:
    root = server.root
    token = added(root, "mac-2", "--merge")
    call(server, token, "runner", branch="main", state="begin")

    def returned(session: str, **more: object) -> None:
        number = done_task(server, token, session)
        facts = {"batch": 1, "entry": number, "reason": "tests failed", **more}
        assert {"ended": True} == call(server, token, "returned", **facts)
        call(server, token, "end", session=session, outcome="done")

    returned("one")
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    returned("two")
    assert [("blocked",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert "its work did not merge twice: tests failed" in str(
        query(root, "SELECT body FROM task_comments WHERE task_id = 1")
    )
    returned("three", refused=True)
    assert [("blocked",)] == query(root, "SELECT status FROM tasks WHERE id = 2")


def test_hostile_bodies_on_the_queue_are_refused(server: HttpServer) -> None:
    token = added(server.root, "mac-2", "--merge")
    number = done_task(server, token)
    bodies = calls_of_queue(server, number)
    for verb in ("runner", "batch", "run"):
        call(server, token, verb, **bodies[verb])
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("queue", {"branch": "--main"}),
        ("queue", {"entries": [1] * 1_001}),
        ("runner", {"state": "take"}),
        ("runner", {"run": 1}),
        ("batch", {"rules": "x"}),
        ("proved", {"tree": "HEAD"}),
        ("proved", {"task": True}),
        ("run", {"batch": None}),
        ("run", {"batch": 2**63}),
        ("run", {"head": "main"}),
        ("run", {"entries": ["1"]}),
        ("ran", {"passed": 1}),
        ("ran", {"run": "1"}),
        ("ran", {"results": {"other": PASSED}}),
        ("ran", {"results": {"(recorded)": PASSED}}),
        ("ran", {"results": []}),
        ("waits", {"reason": ""}),
        ("waits", {"reason": "x" * 4_001}),
        ("returned", {"entry": True}),
        ("returned", {"refused": 1}),
        ("returned", {"reason": "a\u0000b"}),
        ("returned", {"output": "\ud800"}),
        ("landing", {"entries": {"1": "main"}}),
        ("landed", {"flaky": 1}),
        ("landed", {"entries": {"-1": "e" * 40}}),
        ("landed", {"batch": 1.5}),
    ]
    for verb, changed in wrong:
        status, answer = sent(server, token, verb, {**bodies[verb], **changed})
        assert 400 == status, (verb, str(changed)[:200], answer)
    for verb, changed in (
        ("ran", {"run": 9}),
        ("returned", {"entry": 9}),
        ("waits", {"entries": [9]}),
    ):
        assert 409 == sent(server, token, verb, {**bodies[verb], **changed})[0], verb
    assert [("waiting", None)] == query(server.root, "SELECT state, reason FROM ralphgen_merges")
