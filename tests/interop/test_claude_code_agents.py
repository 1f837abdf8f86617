"""The real Claude Code with the subagents and the plugin that are written for it, offline."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import RALPHGEN, ralphgen, ran
from driving import create_project, query
from messages_api import Block, MessagesApi, calls, playing, says
from test_claude_code import MODULES, PATIENCE, environment

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
]
DONE = [says("done")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a ledger, one task that is ready, and its subagents."""
    root = create_project(tmp_path / "project")
    assert 0 == ralphgen("db", "ledger", "on", "--yes", "-C", root).returncode
    ran("connect", "claude", "--subagents", "--project", root)
    return root


def played(
    root: Path, *turns: Sequence[Block], arguments: Sequence[str] = (), trusted: bool = True
) -> tuple[list[dict[str, Any]], MessagesApi]:
    """Return the events of Claude Code in the project, in which the model takes the turns.

    The user has `trusted` the folder there: without that no agent gets its server.
    """
    command = ["claude", "-p", "Go on", "--output-format", "stream-json", "--verbose"]
    allowed = ["--allowedTools", "mcp__ralph-backend", "Agent"]
    with playing(*turns) as api:
        variables = environment(root, api)
        variables["PATH"] = f"{RALPHGEN.parent}{os.pathsep}{variables['PATH']}"
        said = {"projects": {str(root): {"hasTrustDialogAccepted": trusted}}}
        (Path(variables["HOME"]) / ".claude.json").write_text(json.dumps(said), encoding="utf-8")
        done = subprocess.run(
            [*command, *arguments, *allowed],
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    assert 0 == done.returncode, done.stderr + done.stdout
    return [json.loads(line) for line in done.stdout.splitlines()], api


def statuses(root: Path) -> list[str]:
    return [status for (status,) in query(root, "SELECT status FROM tasks ORDER BY id")]


CLOSING = [calls("mcp__ralph-backend__set_task_status", status="done")]


def test_an_agent_has_a_server_with_the_next_task_of_its_discipline(project: Path) -> None:
    _, api = played(project, CLOSING, DONE, arguments=["--agent", "backend"])

    assert [False] == [one["failed"] for one in api.results()]
    assert ["done", "pending"] == statuses(project)
    assert "You are Backend in this project" in str(api.asked[0]["system"])
    ((outcome, task),) = query(project, "SELECT outcome, task_id FROM ralphgen_sessions")
    assert ("ended", 1) == (outcome, task)


def test_a_subagent_has_the_server_and_the_agent_that_started_it_has_not(project: Path) -> None:
    told = {"description": "a task", "prompt": "Go on", "subagent_type": "backend"}
    start = [calls("Agent", **told, run_in_background=False)]
    _, api = played(project, start, CLOSING, DONE, DONE)
    has_it = ["mcp__ralph-backend__get_task" in str(one["tools"]) for one in api.asked]

    assert ["done", "pending"] == statuses(project)
    assert (False, False, True) == (has_it[0], has_it[-1], any(has_it))


def test_an_untrusted_directory_gives_an_agent_no_server(project: Path) -> None:
    _, api = played(project, CLOSING, DONE, arguments=["--agent", "backend"], trusted=False)

    assert "No such tool available" in api.results()[0]["text"]
    assert ["pending", "pending"] == statuses(project)
