"""`ralphgen launch` with the real Codex and Gemini CLI, offline: a scripted model."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from driving import create_project, query
from messages_api import calls, says
from model_hosts import ModelHost, Turn, hosting
from node_packages import NEEDED, program

pytestmark = NEEDED
TASK = """
INSERT INTO tasks (id, feature, discipline, title, status)
    VALUES (7, 'auth', 'frontend', 'Reset the password', 'in_progress');
"""
PATIENCE = 180
DONE = [says("All done.")]
TOOLS = {"codex": "mcp__ralph__{}", "gemini": "mcp_ralph-session_{}"}
AGENTS = pytest.mark.parametrize("agent", TOOLS)


@dataclass(frozen=True)
class Played:
    """The result of a session: the end of the process, and the requests to the model."""

    done: subprocess.CompletedProcess[str]
    host: ModelHost

    @property
    def asked(self) -> str:
        """Return the whole last request."""
        return json.dumps(self.host.asked[-1], ensure_ascii=False)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with the task 7; no process that names it is left."""
    root = create_project(tmp_path / "project", TASK)
    subprocess.run([str(shutil.which("git")), "init", "-q"], cwd=root, check=True)
    yield root
    command = [str(shutil.which("ps")), "-A", "-o", "args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [] == [line for line in listed.stdout.splitlines() if str(root) in line]


def played(
    root: Path,
    agent: str,
    *turns: Turn,
    arguments: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    trusted: bool = True,
) -> Played:
    """Play a session on task 7 in which the model takes the turns; the agent gets the options."""
    home = settled(root, agent)
    if not trusted:
        (home / ".gemini/trustedFolders.json").unlink()
    with hosting(*turns) as host:
        provider = f'{{name="loop",base_url="{host.address}/v1",env_key="LOOP_KEY"}}'
        passed = {
            "codex": ("-c", f"model_providers.loop={provider}", "-c", 'model_provider="loop"'),
            "gemini": ("--model", "gemini-2.5-flash"),
        }
        command = [sys.executable, "-m", "ralphgen", "launch", "task_execution", "--task", "7"]
        done = subprocess.run(
            [*command, "--agent", agent, *arguments, "--", *passed[agent], *options],
            cwd=root,
            env={
                "PATH": f"{program(agent).parent}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(home),
                "TMPDIR": str(home / "tmp"),  # Codex puts no helper of its sandbox below it
                "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],  # the record of trust
                "LOOP_KEY": "dummy",
                "GEMINI_API_KEY": "dummy",
                "GOOGLE_GEMINI_BASE_URL": host.address,
                "OPENAI_BASE_URL": host.address,
                "TERM": "xterm",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    return Played(done, host)


def settled(root: Path, agent: str) -> Path:
    """Return the home of a user who has used the agent, and whose settings name other servers."""
    home = root.with_name("home")
    folder = home / f".{agent}"
    folder.mkdir(parents=True, exist_ok=True)
    (home / "tmp").mkdir(exist_ok=True)
    mark = str(home / "own-server-was-started")
    if agent == "codex":
        text = f'[mcp_servers.own]\ncommand = "touch"\nargs = ["{mark}"]\n'
        (folder / "config.toml").write_text(text, encoding="utf-8")
        return home
    own = {"own": {"command": "touch", "args": [mark]}}
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    settings = {"security": auth, "mcpServers": own, "telemetry": {"enabled": False}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    trusted = json.dumps({str(root): "TRUST_FOLDER"})
    (folder / "trustedFolders.json").write_text(trusted, encoding="utf-8")
    return home


@AGENTS
def test_an_agent_gets_its_brief_changes_rows_and_gets_helpful_refusals(
    project: Path, agent: str
) -> None:
    tool = TOOLS[agent].format
    turns = (
        [says("I look."), calls(tool("get_task"))],
        [calls(tool("set_task_status"), id=1, status="done")],
        [calls(tool("set_task_status"), status="done")],
    )
    session = played(project, agent, *turns, DONE, arguments=("Say hello",))

    assert 0 == session.done.returncode, session.done.stderr
    assert "Policy file error" not in session.done.stderr
    assert "I look." in session.done.stdout
    assert "All done." in session.done.stdout
    assert f"failed {tool('set_task_status')}" in session.done.stdout
    assert "Reset the password" in session.asked
    assert session.asked.index("frontend") < session.asked.index("Say hello")
    assert 1 == session.done.stderr.count("has a fixed system prompt")
    assert "task 7 is done: done" in session.done.stderr
    statuses = query(project, "SELECT id, status FROM tasks WHERE id IN (1, 7) ORDER BY id")
    assert [(1, "pending"), (7, "done")] == statuses
    assert not (project.with_name("home") / "own-server-was-started").exists()


def test_codex_works_on_the_project_but_not_on_its_server_or_database(project: Path) -> None:
    before = (project / ".ralph/mcp/server.py").read_bytes()
    script = (
        "echo 'x = 1' > new.py; echo > .ralph/mcp/server.py; echo > .ralph/db/note;"
        " mv .ralph aside; mkdir .ralph/prompts"
    )
    session = played(project, "codex", [calls("exec_command", cmd=script)], DONE)

    assert "Read-only file system" in session.asked
    assert "x = 1\n" == (project / "new.py").read_text(encoding="utf-8")
    assert before == (project / ".ralph/mcp/server.py").read_bytes()
    assert not (project / ".ralph/db/note").exists()


def test_gemini_cli_works_on_the_project_but_not_on_its_server_or_database(project: Path) -> None:
    before = (project / ".ralph/mcp/server.py").read_bytes()
    files = ("new.py", str(project / ".ralph/mcp/server.py"), ".ralph/db/note")
    turn = [calls("write_file", file_path=file, content="x = 1\n") for file in files]
    session = played(project, "gemini", turn, DONE)

    assert 2 == session.done.stdout.count("denied by policy")
    assert "x = 1\n" == (project / "new.py").read_text(encoding="utf-8")
    assert before == (project / ".ralph/mcp/server.py").read_bytes()
    assert not (project / ".ralph/db/note").exists()


def test_gemini_cli_works_only_in_trusted_directories(project: Path) -> None:
    session = played(project, "gemini", DONE, trusted=False)

    assert 1 == session.done.returncode
    assert "Gemini CLI does not trust this directory" in session.done.stderr


def test_a_script_in_the_code_mode_of_codex_reads_a_field_that_is_declared(project: Path) -> None:
    script = """
        text(ALL_TOOLS.find(tool => tool.name.endsWith("get_task")).description);
        const task = await tools.mcp__ralph__get_task({});
        text(`the title is ${task.structuredContent.title}`);
    """
    mode = ("-c", "features.code_mode=true", "-c", "features.code_mode_only=true")
    session = played(project, "codex", [calls("exec", script=script)], DONE, options=mode)

    assert "Promise<CallToolResult<{ acceptance_criteria?: unknown[];" in session.asked
    assert "title?: unknown;" in session.asked
    assert "the title is Reset the password" in session.asked


def test_codex_names_a_server_that_does_not_start(project: Path) -> None:
    text = '[disciplines.frontend.mcp_servers.broken]\ncommand = "false"\n'
    (project / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ralphgen", "regen", project, "--quiet"], check=True)
    session = played(project, "codex", DONE)

    assert 1 == session.done.returncode
    expected = 'not connected to the MCP server "broken": false ended with exit code 1'
    assert expected in session.done.stderr


def test_codex_reports_an_unavailable_model(project: Path) -> None:
    session = played(project, "codex", 429)

    assert 6 == session.done.returncode
    assert "task 7 is in_progress: rate limited" in session.done.stderr


def test_gemini_cli_waits_for_its_model_until_its_time_is_up(project: Path) -> None:
    session = played(project, "gemini", 429, arguments=("--timeout", "25"))

    assert 6 == session.done.returncode
    assert "task 7 is in_progress: rate limited" in session.done.stderr


HELD = {
    "codex": ["exec", "--json", "--skip-git-repo-check", "--config", "--model"],
    "gemini": [
        *("--allowed-mcp-server-names", "--policy", "--approval-mode", "--output-format"),
        *("--prompt-interactive", "--model"),
    ],
}


@AGENTS
def test_the_agent_accepts_the_passed_options(agent: str, tmp_path: Path) -> None:
    arguments = ["exec", "--help"] if agent == "codex" else ["--help"]
    done = subprocess.run(
        [program(agent), *arguments],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert [] == [option for option in HELD[agent] if option not in done.stdout]
