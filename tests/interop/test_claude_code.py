"""`ralphgen launch` with the real Claude Code, offline: a scripted model on the loopback."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from driving import create_project, query
from messages_api import Block, MessagesApi, calls, playing, says

from ralphgen.environment.location import HOME_VARIABLE, environment_for

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
PATIENCE = 60


@dataclass(frozen=True)
class Played:
    """What came of a session: the process's end, and the stand-in with what the model was told."""

    done: subprocess.CompletedProcess[str]
    api: MessagesApi

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a session that was started with `--raw`."""
        return [json.loads(line) for line in self.done.stdout.splitlines()]

    @property
    def told(self) -> str:
        """Everything that people and the system said in the first request."""
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
    """Variables of a person who is new to Claude Code, and whose network is the stand-in."""
    programs = Path(MODULES).resolve() / ".bin"
    assert (programs / "claude").exists(), f'"{programs}" has no "claude": it is a package to test'
    lock = (root / ".ralph/mcp/requirements.lock").read_text(encoding="utf-8")
    home = root.with_name("home")
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        HOME_VARIABLE: str(environment_for(lock).folder.parent.parent),
        "ANTHROPIC_BASE_URL": api.address,
        "ANTHROPIC_API_KEY": "dummy",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "TERM": "xterm",
    }


def played(
    root: Path, *turns: Sequence[Block], arguments: Sequence[str] = (), **variables: str
) -> Played:
    """A session on the task 7, from a folder inside, in which the model takes the turns."""
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
    """The tools of our server that the first request names; None for one that is loaded at need."""
    first = api.asked[0]
    later = dict.fromkeys(re.findall(r"mcp__\w+", str(first["messages"])))
    now = {tool["name"]: tool["input_schema"] for tool in first["tools"]}
    return later | {name: schema for name, schema in now.items() if name.startswith("mcp__")}


@ERAS
def test_the_model_has_exactly_the_tools_of_its_session_tied_to_its_task(
    project: Path, negotiation: dict[str, str], *, stateless: bool
) -> None:
    turn = [calls("mcp__ralph__get_task")]
    session = played(project, turn, DONE, arguments=["Say hello", "--raw"], **negotiation)
    (result,) = session.api.results()

    assert (0, "") == (session.done.returncode, session.done.stderr)
    tools = offered(session.api)
    assert {f"mcp__ralph__{name}" for name in TOOLS} == set(tools)
    assert 7 == tools["mcp__ralph__get_task"]["properties"]["id"]["default"]
    assert "Say hello" in session.told
    assert ("Reset the password", False) == (json.loads(result["text"])["title"], result["failed"])
    (answer,) = [event["tool_use_result"] for event in session.events if event["type"] == "user"]
    assert stateless == ("_meta" in answer)


@pytest.mark.parametrize("negotiation", [{}, LEGACY], ids=["stateless", "handshake"])
def test_calls_change_the_database_and_refusals_help(
    project: Path, negotiation: dict[str, str]
) -> None:
    turn = [
        calls("mcp__ralph__set_task_status", status="skipped"),
        calls("mcp__ralph__set_task_status", id=1, status="done"),
        calls("mcp__ralph__set_task_status", status="done"),
        calls("mcp__ralph__delete_task", id=7),
    ]
    value, other, done, hidden = played(project, turn, DONE, **negotiation).api.results()

    expected = 'argument "status" is "skipped": expected one of "pending", "in_progress", "done"'
    assert expected in value["text"]
    assert "this session works on the task 7 only" in other["text"]
    changed = {"id": 7, "old": "in_progress", "new": "done", "unblocked": []}
    assert changed == json.loads(done["text"])
    assert "No such tool available: mcp__ralph__delete_task" in hidden["text"]
    assert [True, True, False, True] == [one["failed"] for one in (value, other, done, hidden)]
    statuses = query(project, "SELECT id, status FROM tasks WHERE id IN (1, 7) ORDER BY id")
    assert [(1, "pending"), (7, "done")] == statuses


def test_a_person_reads_what_happens(project: Path) -> None:
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

    assert 0 == session.done.returncode
    assert "mcp__ralph__task_execution" in session.events[0]["slash_commands"]
    assert 'Work on task 7, "Reset the password"' in session.told


def test_the_skill_of_a_server_is_among_the_skills_and_its_text_is_handed_out(
    project: Path,
) -> None:
    command = [sys.executable, "-m", "ralphgen", "skill", "--write", "--project", str(project)]
    subprocess.run(command, check=True, capture_output=True)
    turn = [calls("Skill", skill="ralph-project")]
    session = played(project, turn, DONE, arguments=["Say hello", "--raw"])

    assert 0 == session.done.returncode
    assert "ralph-project" in session.events[0]["skills"]
    assert "when work is planned or a draft enriched" in session.told
    assert "A session ends by setting the status" in str(session.api.asked[1]["messages"])


def test_without_a_prompt_the_session_begins_with_the_recipes_own(project: Path) -> None:
    session = played(project, DONE)

    assert 0 == session.done.returncode
    assert "Set the status to in_progress with set_task_status" in session.told


def test_when_the_time_is_up_the_commands_of_the_agent_end_too(project: Path) -> None:
    sleeping = f"{sys.executable} -c 'import time; time.sleep(600)' {project}"
    turn = [calls("Bash", command=sleeping, description="wait")]
    arguments = ["--timeout", "5", "--", "--permission-mode", "bypassPermissions"]
    session = played(project, turn, DONE, arguments=arguments, IS_SANDBOX="1")

    assert 124 == session.done.returncode
    assert f"call Bash command={json.dumps(sleeping)[:40]}" in session.done.stdout
    assert "the 5 s of this session are over: Claude Code was stopped\n" == session.done.stderr


def test_a_server_of_the_persona_that_does_not_start_stops_the_session(project: Path) -> None:
    (project / ".ralph/ralphgen.toml").write_text(
        '[disciplines.frontend.mcp_servers.broken]\ncommand = "false"\n', encoding="utf-8"
    )
    subprocess.run([sys.executable, "-m", "ralphgen", "regen", project, "--quiet"], check=True)
    session = played(project, [calls("Write", file_path=str(project / "new"), content="")], DONE)

    assert (1, "") == (session.done.returncode, session.done.stdout)
    assert 'no connection to the MCP server "broken" (failed)' in session.done.stderr
    assert "Traceback" not in session.done.stderr
    assert not (project / "new").exists()


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
        seen = shown(screen, until=b"A-WORD")
        os.write(screen, b"/exit\r")
        seen += shown(screen)
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
    """Answer beforehand what Claude Code asks a person at the first start."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": ["dummy"]},
        "projects": {str(root): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(known), encoding="utf-8")


def shown(screen: int, until: bytes | None = None) -> bytes:
    """What a terminal shows until these bytes come, or until the last program leaves it."""
    seen = b""
    while (until is None or until not in seen) and select.select([screen], [], [], PATIENCE)[0]:
        try:
            piece = os.read(screen, 1 << 16)
        except OSError:  # Linux says so that nobody is there any more
            break
        if not piece:
            break
        seen += piece
    return seen
