"""`ralphgen loop` with the real Claude Code, offline: three tasks, the tests of the second fail."""

import subprocess
import sys
from pathlib import Path

import pytest
from driving import query
from messages_api import calls, playing, says
from node_packages import NEEDED
from proved_projects import proved_project
from test_claude_code import environment

pytestmark = NEEDED

PATIENCE = 180
RUNS = [calls("mcp__ralph__run_checks")]
DONE = [calls("mcp__ralph__set_task_status", status="done")]
ENDS = [says("That is all.")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = proved_project(tmp_path / "p")
    query(found, "UPDATE tasks SET depends_on = '[]'")
    query(
        found,
        "INSERT INTO tasks (id, feature, discipline, title, status) "
        "VALUES (3, 'auth', 'backend', 'Log out', 'pending')",
    )
    return found


def writes(root: Path, text: str) -> list[dict[str, object]]:
    """Return a turn that writes the file that the check reads."""
    return [calls("Write", file_path=str(root / "code.txt"), content=text)]


def reads(root: Path) -> list[dict[str, object]]:
    """A turn that reads it, as Claude Code has to before it writes over a file."""
    return [calls("Read", file_path=str(root / "code.txt"))]


def test_a_task_with_failing_tests_is_left_open_and_done_at_last(root: Path) -> None:
    first = [RUNS, DONE, ENDS]
    red = [reads(root), writes(root, "1"), RUNS, DONE, [says("I give up.")]]
    third = [reads(root), writes(root, "0"), RUNS, DONE, ENDS]
    again = [RUNS, DONE, ENDS]
    with playing(*first, *red, *third, *again) as api:
        done = subprocess.run(
            [sys.executable, "-m", "ralphgen", "loop", "--max-cost", "5"],
            cwd=root,
            env=environment(root, api),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    sql = "SELECT task_id, outcome, agent, cost_usd > 0 FROM ralphgen_sessions ORDER BY rowid"
    outcomes = query(root, sql)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert [(1, "done"), (2, "open"), (3, "done"), (2, "done")] == [one[:2] for one in outcomes]
    assert {("claude", 1)} == {one[2:] for one in outcomes}
    assert [("done",)] == query(root, "SELECT DISTINCT status FROM tasks")
    codes = query(root, "SELECT task_id, exit_code FROM ralphgen_evidence ORDER BY number")
    assert [(1, 0), (2, 1), (3, 0), (2, 0)] == codes
    assert ": no task is ready\n\n  3 done " in done.stderr
