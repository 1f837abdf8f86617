"""Sessions at the same time: each keeps to its own, and nothing that was acknowledged is lost."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest
from driving import create_project, query
from making_sessions import client_of, opened
from wire import PATIENCE, Wire, running

from ralphgen.sessions.model import PreparedSession

SESSIONS = 20
FIRST = 101
AHEAD = 30  # requests that are under way at any time
TASKS = f"""
WITH RECURSIVE n(i) AS (SELECT {FIRST} UNION ALL SELECT i + 1 FROM n WHERE i < {{last}})
INSERT INTO tasks (id, feature, discipline, title)
    SELECT i, 'auth', iif(i % 2, 'backend', 'frontend'), 'Task ' || i FROM n;
"""
WORKER = """
import json
import sys

folder, context, sha256, task = sys.argv[1:]
sys.path.insert(0, folder)
from policy import POLICY
from ralph import KIT
from runtime.session import read_session

with open(f"{folder}/manifest.json", encoding="utf-8") as manifest:
    POLICY.name_tools(json.load(manifest)["tools"])
session = read_session("ralph", folder, context, sha256, POLICY)
tools = session.tools(KIT.tools)
workspace = KIT.open_workspace(folder, session)


def call(tool, **arguments):
    return tools[tool].function()(workspace, tools[tool].completed(arguments))


print("ready", flush=True)
sys.stdin.read()
call("set_task_status", status="in_progress")
call("add_task_comment", body="begun")
call("add_feature_context_file", file_path=f"src/{task}.ts")
call("append_progress", text=f"did {task}")
call("set_task_status", status="done", summary="did it")
workspace.close()
"""


def project_with(root: Path, tasks: int, mode: str = "delete") -> Path:
    journal = f"PRAGMA journal_mode = {mode}"
    return create_project(root, journal, TASKS.format(last=FIRST + tasks - 1))


def called(server: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    """The JSON of an answer that must be no failure."""
    result = server.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
    text = result["content"][0]["text"]
    assert not result.get("isError"), text
    answer: dict[str, Any] = json.loads(text)
    return answer


def test_sessions_of_different_recipes_keep_to_their_own_at_the_same_time(tmp_path: Path) -> None:
    root = project_with(tmp_path, 2)
    sessions = [
        opened(root, "task_execution", task=101),
        opened(root, "task_execution", task=102),
        opened(root, "opus_review", feature="auth"),
        opened(root, "discuss", discipline="backend"),
    ]
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(session.mcp_config)) for session in sessions]
        one, two, review, discuss = clients
        names = [client.names() for client in clients]
        one.call("set_task_status", status="done", summary="one")
        two.call("set_task_status", status="blocked", reason="two")
        refusals = [
            one.refusal("set_task_status", id=102, status="done"),
            two.refusal("set_task_status", id=101, status="done"),
            review.refusal("update_task", id=101, title="T"),
        ]
        hidden = [client.protocol_error("delete_task", id=101)[0] for client in clients]
        hidden.append(discuss.protocol_error("list_tasks")[0])
        found = review.call("list_tasks", filter_feature="auth")["tasks"]
        review.call("set_task_status", id=101, status="pending")
        again = one.call("get_task")["status"]

    assert [list(session.served[0].names) for session in sessions] == names
    assert [9, 9, 16, 4] == [len(each) for each in names]
    for refusal, expected in zip(
        refusals,
        ("works only on the task 101", "works only on the task 102", '"title"'),
        strict=True,
    ):
        assert expected in refusal
    assert [-32602] * 5 == hidden
    assert {101: "done", 102: "blocked"}.items() <= {
        task["id"]: task["status"] for task in found
    }.items()
    assert "pending" == again


def test_the_work_of_many_sessions_is_all_kept(tmp_path: Path) -> None:
    """Processes of the emitted server below the protocol, which wait until all are there."""
    root = project_with(tmp_path, SESSIONS)
    folder = root / ".ralph" / "mcp"
    with ExitStack() as stack:
        workers = [
            stack.enter_context(worker(str(folder), *session.served[0].command[-3::2], str(task)))
            for task, session in opened_for(root).items()
        ]
        assert ["ready\n"] * SESSIONS == [line(process.stdout) for process in workers]
        for process in workers:
            close(process.stdin)
        ends = [(process.wait(PATIENCE), line(process.stderr)) for process in workers]

    assert [(0, "")] * SESSIONS == ends
    assert_all_is_kept(root)


@pytest.mark.soak
def test_the_work_of_many_servers_is_all_kept(tmp_path: Path) -> None:
    root = project_with(tmp_path, SESSIONS)
    with ExitStack() as stack, ThreadPoolExecutor(SESSIONS) as threads:
        servers = {
            task: stack.enter_context(running(root, *session.served[0].command[4:]))
            for task, session in opened_for(root).items()
        }
        answers = list(threads.map(execute, servers.values(), servers))
        ends = list(threads.map(end_of, servers.values()))

    assert [(0, "")] * SESSIONS == ends
    assert list(servers) == [answer["id"] for answer in answers]
    assert_all_is_kept(root)


def test_fifty_servers_start_at_the_same_time_without_kept_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, number = project_with(tmp_path / "p", 1), 50
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "kept"))
    with ExitStack() as stack:
        servers = [stack.enter_context(running(root)) for _ in range(number)]
        greetings = [server.shake_hands()["serverInfo"]["name"] for server in servers]
        tools = [server.ask("tools/list")["result"]["tools"] for server in servers]
        called = [server.ask("tools/call", {"name": "list_tasks"})["result"] for server in servers]
        ends = [end_of(server)[0] for server in servers]

    assert [0] * number == ends
    assert ["ralph-project"] * number == greetings
    assert [tools[0]] * number == tools
    assert [called[0]] * number == called


def opened_for(root: Path) -> dict[int, PreparedSession]:
    """By task, a session that executes it."""
    tasks = range(FIRST, FIRST + SESSIONS)
    return {task: opened(root, "task_execution", task=task) for task in tasks}


def worker(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", "-c", WORKER, *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def close(stream: IO[str] | None) -> None:
    assert stream is not None
    stream.close()


def assert_all_is_kept(root: Path) -> None:
    """Assert that each session executed its own task, and all added to one row and to one file."""
    tasks = range(FIRST, FIRST + SESSIONS)
    sql = f"SELECT DISTINCT status FROM tasks WHERE id >= {FIRST}"
    assert [("done",)] == query(root, sql)
    sql = (
        "SELECT body, task_id, agent_task_id, author = discipline FROM task_comments "
        "ORDER BY task_id, body"
    )
    expected = [(body, task, task, 1) for task in tasks for body in ("begun", "did it")]
    assert expected == query(root, sql)
    ((files,),) = query(root, "SELECT context_files FROM features WHERE name = 'auth'")
    assert [f"src/{task}.ts" for task in tasks] == sorted(json.loads(files))
    entries = (root / ".ralph" / "progress.txt").read_text(encoding="utf-8").splitlines()
    assert [f"did {task}" for task in tasks] == sorted(entry[-7:] for entry in entries if entry)
    assert [("ok",)] == query(root, "PRAGMA integrity_check")


def execute(server: Wire, task: int) -> dict[str, Any]:
    """A whole session; no call may fail."""
    server.shake_hands()
    called(server, "set_task_status", status="in_progress")
    called(server, "add_task_comment", body="begun")
    called(server, "add_feature_context_file", file_path=f"src/{task}.ts")
    called(server, "append_progress", text=f"did {task}")
    return called(server, "set_task_status", status="done", summary="did it")


def end_of(server: Wire) -> tuple[int, str]:
    server.leave()
    return server.end(), server.errors()


@pytest.mark.parametrize(("mode", "answers"), [("delete", 3), ("delete", 60), ("wal", 40)])
def test_a_server_that_is_killed_while_it_writes_loses_nothing_it_acknowledged(
    tmp_path: Path, mode: str, answers: int
) -> None:
    """A status and its comment are one transaction: both are there or neither."""
    last = FIRST + answers + AHEAD + 1  # this one and the one before are never asked for
    root = project_with(tmp_path, last - FIRST + 1, mode)
    session = opened(root, "manual")
    with running(root, *session.served[0].command[4:]) as server:
        server.shake_hands()
        for task in range(FIRST, FIRST + AHEAD):
            finish(server, task)
        acknowledged = []
        for task in range(FIRST + AHEAD, FIRST + AHEAD + answers):
            acknowledged.append(server.read())
            finish(server, task)
        server.kill(signal.SIGKILL)
        acknowledged += rest(server)

    assert [] == [frame for frame in acknowledged if frame["result"].get("isError")]
    done = {frame["id"] for frame in acknowledged}
    with client_of(opened(root, "task_execution", task=last).mcp_config) as driver:
        driver.call("set_task_status", status="done", summary="after")
    sql = (
        f"SELECT id, status, (SELECT COUNT(*) FROM task_comments WHERE task_id = tasks.id) "
        f"FROM tasks WHERE id >= {FIRST}"
    )
    rows = query(root, sql)
    kept = {task for task, status, _ in rows if status == "done"}

    assert done | {last} <= kept
    assert {("done", 1), ("pending", 0)} == {(status, comments) for _, status, comments in rows}
    assert [("ok",)] == query(root, "PRAGMA integrity_check")
    assert [] == query(root, "PRAGMA foreign_key_check")
    assert ["ralph.db"] == sorted(path.name for path in (root / ".ralph" / "db").iterdir())


def finish(server: Wire, task: int) -> None:
    """Ask for a change without waiting for the answer; the request has the task's number."""
    arguments = {"id": task, "status": "done", "summary": f"did {task}"}
    server.send("tools/call", {"name": "set_task_status", "arguments": arguments}, id=task)


def rest(server: Wire) -> Iterator[dict[str, Any]]:
    """Yield the complete frames that a killed server has written and that are unread."""
    assert server.process.stdout is not None
    for line in server.process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)
