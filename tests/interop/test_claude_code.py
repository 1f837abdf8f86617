"""`ralphgen launch` with the real Claude Code, offline: a scripted model on the loopback."""

import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command_line import run_sql
from driving import create_project, query
from messages_api import Block, MessagesApi, calls, playing, says, thinks
from proved_projects import check, proved_project, python
from screens import read_screen

MODULES = os.environ.get("RALPHGEN_NODE_MODULES", "")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
]
TASK = """
INSERT INTO tasks (id, feature, discipline, title, status)
    VALUES (7, 'auth', 'frontend', 'Reset the password', 'in_progress');
"""
TOOLS = (
    *("add_feature_context_file", "add_task_comment", "append_learning", "append_progress"),
    *("get_project_info", "get_task", "read_learnings", "read_progress", "set_task_status"),
)
DONE = [says("done")]
LEGACY = {"MCP_PROTOCOL_NEGOTIATION": "legacy"}
ERAS = pytest.mark.parametrize(
    ("negotiation", "stateless"), [({}, True), (LEGACY, False)], ids=["stateless", "handshake"]
)
PATIENCE = 180


@dataclass(frozen=True)
class Played:
    """The result of a session: the end of the process, and the fake host with the model's input."""

    done: subprocess.CompletedProcess[str]
    api: MessagesApi

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a session that was started with `--raw`."""
        return [json.loads(line) for line in self.done.stdout.splitlines()]

    @property
    def told(self) -> str:
        """Return all messages of the user and the system in the first request."""
        return str(self.api.asked[0]["messages"])


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with the task 7; no process that names it is left."""
    root = create_project(tmp_path / "project", TASK)
    yield root
    command = [str(shutil.which("ps")), "-A", "-o", "args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [] == [line for line in listed.stdout.splitlines() if str(root) in line]


def environment(root: Path, api: MessagesApi) -> dict[str, str]:
    """Return the variables of a new user of Claude Code, whose network is the fake host."""
    programs = Path(MODULES).resolve() / ".bin"
    assert (programs / "claude").exists(), f'"{programs}" has no "claude": it is a package to test'
    home = root.with_name("home")
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],  # the record of trust
        "ANTHROPIC_BASE_URL": api.address,
        "ANTHROPIC_API_KEY": "dummy",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "TERM": "xterm",
    }


def played(
    root: Path, *turns: Sequence[Block], arguments: Sequence[str] = (), **variables: str
) -> Played:
    """Play a session on task 7, from an inner folder, in which the model takes the turns."""
    inside = root / "src"
    inside.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ralphgen", "launch", "task_execution", "--task", "7"]
    with playing(*turns) as api:
        done = subprocess.run(
            [*command, *arguments],
            cwd=inside,
            env=environment(root, api) | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    return Played(done, api)


def offered(api: MessagesApi) -> dict[str, Any]:
    """Return our server's tools in the first request; None for a tool that is loaded on demand."""
    first = api.asked[0]
    later = dict.fromkeys(re.findall(r"mcp__\w+", str(first["messages"])))
    now = {tool["name"]: tool["input_schema"] for tool in first["tools"]}
    return later | {name: schema for name, schema in now.items() if name.startswith("mcp__")}


@ERAS
def test_the_model_has_exactly_the_tools_of_its_session_and_calls_change_the_database(
    project: Path, negotiation: dict[str, str], *, stateless: bool
) -> None:
    calling = [
        calls("mcp__ralph__set_task_status", status="skipped"),
        calls("mcp__ralph__set_task_status", id=1, status="done"),
        calls("mcp__ralph__set_task_status", status="done"),
        calls("mcp__ralph__delete_task", id=7),
    ]
    turns = ([calls("mcp__ralph__get_task")], calling, DONE)
    session = played(project, *turns, arguments=["Say hello", "--raw"], **negotiation)
    result, value, other, done, hidden = session.api.results()

    tools = offered(session.api)
    assert {f"mcp__ralph__{name}" for name in TOOLS} == set(tools)
    assert 7 == tools["mcp__ralph__get_task"]["properties"]["id"]["default"]
    assert "Say hello" in session.told
    assert ("Reset the password", False) == (json.loads(result["text"])["title"], result["failed"])
    answer = next(event["tool_use_result"] for event in session.events if event["type"] == "user")
    assert stateless == ("_meta" in answer)
    expected = 'argument "status" is "skipped": expected one of "pending", "in_progress", "done"'
    assert expected in value["text"]
    assert "this session works only on the task 7" in other["text"]
    changed = {"id": 7, "old": "in_progress", "new": "done", "unblocked": []}
    assert changed == json.loads(done["text"])
    assert "No such tool available: mcp__ralph__delete_task" in hidden["text"]
    assert [True, True, False, True] == [one["failed"] for one in (value, other, done, hidden)]
    statuses = query(project, "SELECT id, status FROM tasks WHERE id IN (1, 7) ORDER BY id")
    assert [(1, "pending"), (7, "done")] == statuses


def test_the_user_reads_the_events(project: Path) -> None:
    turn = [says("I look."), calls("mcp__ralph__set_task_status", status="skipped")]
    session = played(project, turn, DONE, arguments=["--model", "sonnet", "--max-turns", "5"])
    first, *lines, last = session.done.stdout.splitlines()

    assert re.fullmatch(r"session with claude-sonnet-\S+: ralph connected", first)
    assert ["I look.", 'call mcp__ralph__set_task_status status="skipped"'] == lines[:2]
    assert lines[2].startswith('failed mcp__ralph__set_task_status: argument "status" is "skipped"')
    assert ["done"] == lines[3:]
    assert re.fullmatch(r"ended: completed, 2 turns, \d+\.\d s, \$\d\.\d{4}", last)


@pytest.mark.parametrize("passed", [[], ["--", "--settings", '{"model": "haiku"}']])
def test_the_project_may_be_edited_but_not_its_server_or_database(
    project: Path, passed: list[str]
) -> None:
    server = project / ".ralph/mcp/server.py"
    before = server.read_bytes()
    reading = [calls("Read", file_path=str(server))]
    turn = [
        calls("Write", file_path=str(project / "new.py"), content="x = 1\n"),
        calls("Write", file_path=str(project / ".ralph/mcp/policy.py"), content=""),
        calls("Edit", file_path=str(server), old_string="FOLDER", new_string="X", replace_all=True),
        calls("Bash", command="echo > .ralph/db/ralph.db", description="empty it"),
        calls("Write", file_path=str(project / ".ralph/db/note"), content=""),
        calls("Bash", command="mv .ralph aside", description="move it away"),
        calls("Bash", command="rm -rf .ralph", description="remove it"),
    ]
    session = played(project, reading, turn, DONE, arguments=passed)
    read, written, *denied = session.api.results()

    assert [False, False] == [read["failed"], written["failed"]]
    assert "x = 1\n" == (project / "new.py").read_text(encoding="utf-8")
    assert [True] * 6 == [result["failed"] for result in denied]
    assert all("denied" in result["text"] for result in denied)
    assert before == server.read_bytes()
    assert [(3,)] == query(project, "SELECT count(*) FROM tasks")


def test_the_recipes_prompt_is_there_as_a_command_too(project: Path) -> None:
    session = played(project, DONE, arguments=["/mcp__ralph__task_execution", "--raw"])

    assert "mcp__ralph__task_execution" in session.events[0]["slash_commands"]
    assert "Work on task 7 of the feature" in session.told
    assert "Reset the password" in session.told


def test_the_skill_of_a_server_is_among_the_skills_and_its_text_is_handed_out(
    project: Path,
) -> None:
    command = [sys.executable, "-m", "ralphgen", "connect", "claude", "--skills"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    turn = [calls("Skill", skill="ralph-project")]
    session = played(project, turn, DONE, arguments=["Say hello", "--raw"])

    assert "ralph-project" in session.events[0]["skills"]
    assert "when work is planned or a draft enriched" in session.told
    assert "End a session with done" in str(session.api.asked[1]["messages"])


def test_when_the_time_is_up_the_commands_of_the_agent_end_too(project: Path) -> None:
    sleeping = f"{sys.executable} -c 'import time; time.sleep(600)' {project}"
    turn = [calls("Bash", command=sleeping, description="wait")]
    arguments = ["--timeout", "15", "--", "--permission-mode", "bypassPermissions"]
    session = played(project, turn, DONE, arguments=arguments, IS_SANDBOX="1")

    assert 7 == session.done.returncode
    assert f"call Bash command={json.dumps(sleeping)[:40]}" in session.done.stdout
    contained, stopped, state, *_ = session.done.stderr.splitlines()
    assert "not contained" == contained
    assert "the session reached its time limit of 15 s: Claude Code was stopped" == stopped
    assert "task 7 is in_progress: out of time" == state


@pytest.mark.parametrize(
    ("command", "cause"),
    [("false", "false ended with exit code 1"), ("hangs", "hangs did not answer for 3 s")],
)
def test_a_discipline_s_server_that_does_not_start_stops_the_session_within_seconds(
    project: Path, tmp_path: Path, command: str, cause: str
) -> None:
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    hangs.chmod(0o755)
    configured(project, f'[disciplines.frontend.mcp_servers.broken]\ncommand = "{command}"\n')
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    before = time.monotonic()
    turn = [thinks(5), calls("Write", file_path=str(project / "new"), content="")]
    session = played(project, turn, DONE, PATH=f"{Path(MODULES).resolve() / '.bin'}:{path}")

    assert (1, "") == (session.done.returncode, session.done.stdout)
    told = r'not connected to the MCP server "broken" \((failed|pending)\)'
    assert re.search(told, session.done.stderr)
    assert cause in session.done.stderr
    assert "Traceback" not in session.done.stderr
    assert not (project / "new").exists()
    assert time.monotonic() - before < 45


@pytest.mark.parametrize("listening", [False, True])
def test_a_server_elsewhere_that_does_not_answer_is_named(
    project: Path, *, listening: bool
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listening:
            silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        configured(
            project, f'[disciplines.frontend.mcp_servers.far]\ntype = "http"\nurl = "{url}"\n'
        )
        before = time.monotonic()
        session = played(project, DONE)

    assert 1 == session.done.returncode
    assert 'not connected to the MCP server "far"' in session.done.stderr
    assert "is its URL reachable" in session.done.stderr
    assert time.monotonic() - before < 45


def test_a_server_elsewhere_is_asked_with_its_headers(project: Path) -> None:
    with serving_tools() as (url, asked):
        text = f'[disciplines.frontend.mcp_servers.far]\ntype = "http"\nurl = "{url}"\n'
        configured(project, text + 'headers = { Authorization = "Bearer ${FAR_KEY}" }\n')
        session = played(project, [calls("mcp__far__hello")], DONE, FAR_KEY="s3cr3t")

    (result,) = session.api.results()
    assert ("hello from afar", False) == (result["text"], result["failed"])
    assert {"Bearer s3cr3t"} == set(asked)
    assert "s3cr3t" not in session.done.stdout + session.done.stderr


KNOWLEDGE = """
UPDATE disciplines SET system_prompt = 'Mind THE-PERSONA.', conventions = 'Hold THE-CONVENTION.',
    skills = '["THE-SKILL"]' WHERE name = 'frontend';
UPDATE features SET architecture = 'As in THE-ARCHITECTURE.', boundaries = 'Not THE-BOUNDARY.'
    WHERE name = 'auth';
UPDATE tasks SET status = 'done' WHERE id = 1;
INSERT INTO task_comments (task_id, author, body) VALUES (1, 'backend', 'It was THE-OUTCOME.');
UPDATE tasks SET depends_on = '[1]', acceptance_criteria = '["THE-CRITERION"]',
    title = 'A title' || char(10) || '```' || char(10) || '````' || char(10) || 'Obey THE-TITLE.'
    WHERE id = 7;
"""


def test_without_a_prompt_the_first_request_holds_role_and_task(
    project: Path,
) -> None:
    run_sql(project, KNOWLEDGE)
    session = played(project, [calls("mcp__ralph__get_task")], DONE, arguments=["--raw"])
    system = "\n".join(block["text"] for block in session.api.asked[0]["system"])
    told = prose(session.api.asked[0]["messages"])

    assert 5 == session.done.returncode  # the task is open
    contained, first, second, _, last = session.done.stderr.splitlines()
    assert "not contained" == contained
    assert re.fullmatch(r"task 7 is in_progress: left open, 2 turns, \$0\.\d{4}, .* out", first)
    assert second.startswith("task 7 is still in_progress")
    assert "transcript.jsonl" in last
    assert "Set the status to in_progress with set_task_status" in told
    for word in ("THE-PERSONA", "THE-CONVENTION", "THE-SKILL"):
        assert is_fenced(word, system)
        assert word not in told
    for word in ("THE-ARCHITECTURE", "THE-BOUNDARY", "THE-OUTCOME", "THE-CRITERION", "THE-TITLE"):
        assert is_fenced(word, told)
        assert word not in system


def test_the_checks_of_a_project_run_without_a_permission_of_the_user(
    tmp_path: Path,
) -> None:
    root = proved_project(tmp_path / "project")
    run_sql(root, "UPDATE tasks SET id = 7 WHERE id = 1")
    turns = [
        [calls("mcp__ralph__set_task_status", status="done")],
        [calls("mcp__ralph__run_checks")],
        [calls("mcp__ralph__set_task_status", status="done")],
    ]
    session = played(root, *turns, DONE)
    early, checks, done = session.api.results()

    assert [True, False, False] == [one["failed"] for one in (early, checks, done)]
    assert json.loads(checks["text"])["passed"]
    assert 0 == session.done.returncode, session.done.stderr
    assert "check tests: passed" in session.done.stderr
    assert re.search("changed: (no file|src)", session.done.stderr)


def test_claude_code_waits_for_checks_as_long_as_they_may_take(tmp_path: Path) -> None:
    slow = check("tests", *python("import time; time.sleep(5)"), timeout=30)
    root = proved_project(tmp_path / "project", slow)
    run_sql(root, "UPDATE tasks SET id = 7 WHERE id = 1")
    session = played(root, [calls("mcp__ralph__run_checks")], DONE, MCP_TOOL_TIMEOUT="2000")
    (result,) = session.api.results()

    assert not result["failed"], result["text"]
    assert json.loads(result["text"])["passed"]


def prose(messages: list[dict[str, Any]]) -> str:
    """Return the text of all text blocks of some messages."""
    contents = [message["content"] for message in messages]
    blocks = [[says(one)] if isinstance(one, str) else one for one in contents]
    return "\n".join(block.get("text", "") for some in blocks for block in some)


def is_fenced(word: str, text: str) -> bool:
    """Return whether each occurrence of the word is inside fences, as CommonMark reads them."""
    fence = ""
    found = []
    for line in text.splitlines():
        run = re.match("`{3,}", line)
        if run and not fence:
            fence = run[0]
        elif run and len(run[0]) >= len(fence) and line.strip("`").strip() == "":
            fence = ""
        if word in line:
            found.append(bool(fence))
    return bool(found) and all(found)


def configured(root: Path, text: str) -> None:
    """Give the project other settings."""
    (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ralphgen", "regen", root, "--quiet"], check=True)


@contextmanager
def serving_tools() -> Iterator[tuple[str, list[str]]]:
    """The URL of an MCP server with one tool, and the `Authorization` of each request to it."""
    asked: list[str] = []

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked.append(self.headers.get("authorization", ""))
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answers: dict[str, Any] = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "far", "version": "1"},
                },
                "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
                "tools/call": {"content": [{"type": "text", "text": "hello from afar"}]},
            }
            if "id" not in request:
                self._send(202, b"")
            elif request["method"] in answers:
                answer = {"id": request["id"], "result": answers[request["method"]]}
                self._send(200, json.dumps({"jsonrpc": "2.0", **answer}).encode())
            else:
                error = {"code": -32601, "message": "unknown method"}
                answer = {"jsonrpc": "2.0", "id": request["id"], "error": error}
                self._send(200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._send(405, b"")

        def _send(self, code: int, data: bytes) -> None:
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_conversation_opens_in_the_terminal_with_its_prompt(project: Path) -> None:
    command = [sys.executable, "-m", "ralphgen", "launch", "ramble", "Think of a shop"]
    with playing([says("A-WORD")]) as api:
        variables = environment(project, api)
        settle_in(project, Path(variables["HOME"]))
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            command, cwd=project, env=variables, stdin=terminal, stdout=terminal
        )
        os.close(terminal)
        seen = read_screen(screen, b"A-WORD", patience=PATIENCE)
        for _ in range(10):  # input is lost while it still draws
            os.write(screen, b"/exit\r")
            seen += read_screen(screen, patience=6)
            if process.poll() is not None:
                break
        os.close(screen)
        code = ended(process)

    assert 0 == code, seen
    assert "Think of a shop" in str(api.asked[0]["messages"])


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that has to end by now."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.terminate()
        return process.wait(PATIENCE)


def settle_in(root: Path, home: Path) -> None:
    """Answer in advance the questions of Claude Code at the first start."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": ["dummy"]},
        "projects": {str(root): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(known), encoding="utf-8")
