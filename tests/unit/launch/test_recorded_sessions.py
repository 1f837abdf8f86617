"""The ledger's record of a session that `launch` has started."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, ran, run_sql
from driving import create_project, made_here, query
from scripted_agent import agent_program

pytestmark = pytest.mark.slow

COLUMNS = (
    *("recipe", "discipline", "task_id", "feature", "agent", "model", "outcome", "turns"),
    *("input_tokens", "output_tokens", "cost_usd", "base_commit"),
)
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
DONE = "agent.call('set_task_status', status='done')\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("recorded") / "p")
    ran("db", "ledger", "on", "--yes", "--quiet", cwd=root)
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(model, tmp_path / "p"))


def launched(root: Path, script: str, *options: str) -> tuple[int, str]:
    """Return the exit code of a session on task 1, and its messages."""
    agent_program(root.parent, script)
    path = f"{root.parent}{os.pathsep}{os.environ['PATH']}"
    command = ("launch", "task_execution", "--task", "1", *options, "--project")
    done = ralphgen(*command, root, more={"PATH": path})
    return done.returncode, done.stderr


def record(root: Path) -> dict[str, Any]:
    """The one session that is on record."""
    (row,) = query(root, f"SELECT {', '.join(COLUMNS)} FROM ralphgen_sessions")
    return dict(zip(COLUMNS, row, strict=True))


def test_a_session_is_recorded_with_result_and_usage(root: Path) -> None:
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    code, _ = launched(root, f"{DONE}agent.ends()", "--model", "other")
    ((name, started, ended),) = query(root, "SELECT id, started, ended FROM ralphgen_sessions")
    (folder,) = (root / ".ralph/mcp/sessions").iterdir()

    assert 0 == code
    expected = {
        "recipe": "task_execution",
        "discipline": "backend",
        "task_id": 1,
        "feature": "auth",
        "agent": "claude",
        "model": "m",  # as the agent reports it
        "outcome": "done",
        "turns": 3,
        "input_tokens": 1_200,
        "output_tokens": 34,
        "cost_usd": 0.25,
        "base_commit": head.stdout.strip(),
    }
    assert expected == record(root)
    assert folder.name == name
    assert [True, True] == [bool(re.fullmatch(MOMENT, time)) for time in (started, ended)]
    assert started <= ended


def test_it_is_there_while_the_agent_works(root: Path) -> None:
    script = """
import sqlite3
with sqlite3.connect(".ralph/db/ralph.db") as connection:
    found = connection.execute("SELECT model, ended, outcome FROM ralphgen_sessions").fetchall()
agent.says(f"found {found}")
"""
    agent_program(root.parent, script)
    path = f"{root.parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--task", "1", "--model", "asked", "--project", str(root))
    done = ralphgen("launch", "task_execution", *options, more={"PATH": path})

    assert "found [('asked', None, None)]" in done.stdout


def test_an_agent_that_lacks_a_tool_has_failed(root: Path) -> None:
    program = root.parent / "claude"
    start = '{"type": "system", "subtype": "init", "tools": [], "mcp_servers": []}'
    program.write_text(f"#!/bin/sh\necho '{start}'\nsleep 600\n", encoding="utf-8")
    program.chmod(0o755)
    path = f"{root.parent}{os.pathsep}{os.environ['PATH']}"
    options = ("--task", "1", "--project", str(root))
    done = ralphgen("launch", "task_execution", *options, more={"PATH": path})

    assert 1 == done.returncode
    assert "failed" == record(root)["outcome"]


def test_a_dry_run_is_not_on_record(root: Path) -> None:
    assert 0 == launched(root, "", "--dry-run")[0]
    assert [] == query(root, "SELECT id FROM ralphgen_sessions")


def test_a_failed_record_stops_no_session(root: Path) -> None:
    run_sql(
        root,
        "ALTER TABLE ralphgen_sessions ADD COLUMN room TEXT CHECK (outcome IS NULL)",
    )
    ralphgen("regen", root)
    code, said = launched(root, f"{DONE}agent.ends()")

    assert 0 == code, said
    assert "warning: the session was not recorded" in said


def test_a_task_that_was_left_open_is_released_with_a_comment(root: Path) -> None:
    begun = "agent.call('set_task_status', status='in_progress')\n"
    code, said = launched(root, f"{begun}agent.ends()")
    ((session,),) = query(root, "SELECT id FROM ralphgen_sessions")

    assert 5 == code
    assert "task 1 is pending: left open" in said
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert [(None, 1)] == query(root, "SELECT session, attempts FROM ralphgen_claims")
    expected = [(f'The session "{session}" ended: open.',)]
    assert expected == query(root, "SELECT body FROM task_comments WHERE task_id = 1")
    assert "open" == record(root)["outcome"]


def test_a_task_that_another_session_holds_is_not_worked_on(root: Path) -> None:
    held = ralphgen("session", "create", "task_execution", "--task", "1", "--project", root)
    assert 0 == held.returncode, held.stderr
    holder = Path(held.stdout.strip()).parent.name
    code, said = launched(root, f"{DONE}agent.ends()")

    assert 4 == code
    assert f'task 1 is claimed by the session "{holder}" until 20' in said
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
