"""The real agents in our sandbox, offline: they work, and see the work tree alone."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ran
from containing import CONTAINING
from driving import create_project, query
from messages_api import calls, playing, says
from screens import read_screen
from test_claude_code import MODULES, PATIENCE, TASK, ended, environment, played
from test_other_agents import AGENTS, TOOLS
from test_other_agents import played as played_by

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
    CONTAINING,
]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A repository with the task 7, and a home with a secret."""
    root = create_project(tmp_path / "project", TASK)
    for words in (["init"], ["add", "--all"], ["commit", "-m", "first"]):
        git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run([*git, *words], cwd=root, check=True, capture_output=True)
    home = root.with_name("home")
    home.mkdir(exist_ok=True)
    (home / "secret").touch()
    yield root
    command = [str(shutil.which("ps")), "-A", "-o", "args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [] == [line for line in listed.stdout.splitlines() if str(root) in line]


def test_claude_code_has_its_shell_and_its_tools_inside(project: Path) -> None:
    look = "ls -A ~ .ralph; echo built > built; curl -s -m 5 http://example.org || echo refused"
    session = played(
        project,
        [calls("Bash", command=look, description="look around")],
        [calls("mcp__ralph__get_task", id=7)],
        [says("done")],
        arguments=["--sandbox", "--raw"],
    )
    assert 5 == session.done.returncode, session.done.stderr
    texts = json.dumps(session.api.asked[-1]["messages"])
    assert "secret" not in texts
    assert "db" not in texts.split("ralphgen.toml")[0][-200:]
    assert "Reset the password" in texts
    assert "built\n" == (project / "built").read_text(encoding="utf-8")
    assert "contained" in session.done.stderr.splitlines()


def test_a_conversation_with_claude_code_starts_without_questions_inside(project: Path) -> None:
    command = [sys.executable, "-m", "ralphgen", "launch", "--sandbox", "ramble", "Think of a shop"]
    with playing([says("A-WORD")]) as api:
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            command,
            cwd=project,
            env=environment(project, api),
            stdin=terminal,
            stdout=terminal,
            stderr=subprocess.DEVNULL,
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


@AGENTS
def test_another_agent_works_inside_without_its_own_sandbox(project: Path, agent: str) -> None:
    settings = project / ".ralph" / "ralphgen.toml"
    settings.write_text('[sandbox]\nuse = true\nenv = ["LOOP_KEY"]\n', encoding="utf-8")
    ran("trust", "--yes", cwd=project)
    tool = TOOLS[agent].format
    session = played_by(
        project,
        agent,
        [says("I look."), calls(tool("get_task"))],
        [calls(tool("set_task_status"), status="done")],
        [says("All done.")],
    )
    assert 0 == session.done.returncode, session.done.stderr
    assert "Reset the password" in session.asked
    assert [("done",)] == query(project, "SELECT status FROM tasks WHERE id = 7")
    assert not (project.with_name("home") / "own-server-was-started").exists()
    assert "contained" in session.done.stderr.splitlines()
