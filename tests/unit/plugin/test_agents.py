"""Subagents: their files, and their servers, each with a session that ends with it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from anyio.from_thread import start_blocking_portal
from command_line import RALPHGEN, initialized, ralphgen, ran, refused, run_sql, snapshot, texts
from driving import ROWS, Driver
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.slow

AGENTS = ".claude/agents"
SERVE = ["serve", "ralph", "--recipe", "task_execution", "--discipline", "backend", "--next"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with two tasks; the one of the discipline backend is ready."""
    root = initialized(tmp_path / "p", "--stack", "empty")
    run_sql(root, *(one for one in ROWS.split(";\n") if one.strip() and "metadata" not in one))
    return root


def write_agents(root: Path) -> Path:
    ran("connect", "claude", "--subagents", "--project", root)
    return root / AGENTS


def test_each_discipline_is_an_agent_with_its_own_server(root: Path) -> None:
    run_sql(root, "UPDATE disciplines SET system_prompt = 'Think of {{ x }}.' WHERE name='backend'")
    folder = write_agents(root)
    _, head, body = (folder / "backend.md").read_text(encoding="utf-8").split("---\n", 2)
    facts = yaml.safe_load(head)
    (server,) = facts["mcpServers"]

    assert {"backend.md", "frontend.md"} == {path.name for path in folder.glob("*.md")}
    assert "backend" == facts["name"]
    assert facts["tools"].endswith(", mcp__ralph-backend")
    assert {"type": "stdio", "command": "ralphgen", "args": SERVE} == server["ralph-backend"]
    assert "Think of {{ x }}." in body


def test_a_name_that_yaml_would_take_for_another_value_is_one(root: Path) -> None:
    run_sql(root, "UPDATE disciplines SET name = 'null' WHERE name = 'frontend'")
    _, head, _ = (write_agents(root) / "null.md").read_text(encoding="utf-8").split("---\n", 2)

    assert "null" == yaml.safe_load(head)["name"]


@pytest.mark.thorough
def test_the_same_project_gives_the_same_bytes_and_check_sees_differences(root: Path) -> None:
    folder = write_agents(root)
    before = texts(folder)
    write_agents(root)

    assert before == texts(folder)
    state = snapshot(root)
    assert 0 == ralphgen("check", root).returncode
    assert state == snapshot(root)

    (folder / "own.md").write_text("a person's", encoding="utf-8")
    run_sql(root, "UPDATE disciplines SET display_name = 'The back' WHERE name = 'backend'")
    done = ralphgen("check", root)

    assert 1 == done.returncode
    assert "+You are The back in this project" in done.stdout
    assert "(stale: .claude/agents/backend.md, .claude/agents/manifest.json)" in done.stderr

    (folder / "backend.md").write_text("mine", encoding="utf-8")
    said = refused("connect", "claude", "--subagents", "--project", root)

    assert ".claude/agents/backend.md was edited by hand; not overwritten" in said
    assert 'discard the edit with "ralphgen regen --force"' in said
    assert 0 == ralphgen("regen", "--force", "--no-install", root).returncode
    assert "a person's" == (folder / "own.md").read_text(encoding="utf-8")


def test_a_hidden_column_remains_hidden_and_an_agent_needs_a_name(root: Path) -> None:
    with (root / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as config:
        config.write('\n[schema]\nhide = ["disciplines.system_prompt"]\n')
    run_sql(root, "UPDATE disciplines SET system_prompt = 'secret'")

    assert b"secret" not in b"".join(texts(write_agents(root)).values())
    run_sql(root, "UPDATE disciplines SET name = '…' WHERE name = 'frontend'")
    assert "has no unique name as an agent" in refused(
        "connect", "claude", "--subagents", "--project", root
    )


@pytest.mark.thorough
def test_a_server_makes_a_session_that_takes_its_task_and_ends_with_it(root: Path) -> None:
    parameters = StdioServerParameters(
        command=str(RALPHGEN), args=SERVE, cwd=root, env={**os.environ}
    )
    with start_blocking_portal() as portal:
        client = Client(stdio_client(parameters))
        with portal.wrap_async_context_manager(client) as session:
            driver = Driver(session, portal)
            task = driver.call("get_task")
            driver.call("set_task_status", status="in_progress")
            second = ralphgen(*SERVE, cwd=root)

    assert 1 == task["id"]
    assert (8, True) == (second.returncode, "no task is ready" in second.stderr)
    rows = ralphgen("task", "list", "--json", cwd=root)
    assert "pending" == json.loads(rows.stdout)["tasks"][0]["status"]
    assert [] == [*(root / ".ralph/mcp/sessions").glob("*/context.json")]


@pytest.mark.thorough
def test_a_server_that_is_ended_by_a_signal_leaves_no_session(root: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ralphgen", *SERVE],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    assert [] == [*(root / ".ralph/mcp/sessions").glob("*/context.json")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ralph", "--recipe", "nosuch"], "nosuch"),
        (["ralph", "--recipe", "task_execution"], "needs a task"),
        (["ralph", "--recipe", "braindump", "--check"], '"--check" and "--recipe" cannot be'),
        (["ralph", "--recipe", "braindump", "--chek"], 'unknown option "--chek"'),
        (["--recipe", "braindump"], "needs exactly one kit"),
        (["ralph", "--recipe"], "needs a value"),
        (["ralph", "--feature", "--recipe", "yap"], '"--feature" needs a value'),
        (["ralph", "--recipe", "task_execution", "--task", "x"], 'invalid task id "x"'),
        (["nosuch", "--recipe", "braindump"], 'no kit "nosuch"'),
    ],
)
def test_unavailable_parts_are_reported(root: Path, words: list[str], said: str) -> None:
    assert said in refused("serve", *words, cwd=root, code=2)


def test_an_agent_below_launch_makes_itself_no_session(root: Path) -> None:
    done = ralphgen(*SERVE, cwd=root, more={"RALPHGEN_SESSION": "x"})

    assert 2 == done.returncode
    assert "is not for agents" in done.stderr
