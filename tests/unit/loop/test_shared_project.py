"""What a loop's process opens for each further session, counted by an audit hook."""

import os
import time
from pathlib import Path

import pytest
from counted_loops import counted_loop
from loop_projects import LoopProject

pytestmark = pytest.mark.slow


def test_a_further_session_opens_no_connection_and_reads_no_config(tmp_path: Path) -> None:
    two, four = counted_loop(tmp_path / "two", 2), counted_loop(tmp_path / "four", 4)

    assert {"open ralphgen.toml", "open ralph.db", "sqlite3.connect ralph.db"} == {*two}
    assert two == four


def test_a_loop_follows_settings_that_change_between_two_sessions(tmp_path: Path) -> None:
    edit = ["write", ".ralph/ralphgen.toml", "[sessions]\ntranscripts = false\n"]
    project = LoopProject(tmp_path, 2, {"1": [["begin", edit, "done"]]}, config="[loop]\n")
    os.utime(project.root / ".ralph/ralphgen.toml", (time.time() - 60,) * 2)
    done = project.loop()

    assert 0 == done.returncode, done.stderr
    folders = sorted((project.root / ".ralph/mcp/sessions").glob("task_execution-*"))
    assert [True, False] == [(folder / "transcript.jsonl").exists() for folder in folders]
