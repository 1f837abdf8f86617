"""`ralphgen loop --worktrees` continues the work of sessions that a limit or a merge ended."""

from pathlib import Path

import pytest
from driving import query
from loop_projects import LoopProject
from merging_projects import branches
from planned_agent import Steps
from proved_projects import TESTS, git

pytestmark = pytest.mark.slow

ONE = "[loop]\nattempts = 5\nno_progress = 9\n"
LIMITED: Steps = ["begin", ["write", "half.txt", "half"], "limited"]
CONTINUES: Steps = [
    "begin",
    ["run", "cat", "half.txt"],
    ["write", "rest.txt", "r"],
    "check",
    "done",
]


def repository(folder: Path, tasks: int, plan: dict[str, list[Steps]]) -> LoopProject:
    project = LoopProject(folder, tasks, plan, config=f"{TESTS}\n{ONE}", repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    return project


def test_after_a_limit_the_next_session_continues_and_its_merge_has_both(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"1": [LIMITED, CONTINUES]})

    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "task 1 starts from the work of session" in done.stderr
    assert ["0 half"] == [line["text"] for line in project.log("ran")]
    assert {"half.txt", "rest.txt"} <= {path.name for path in project.root.iterdir()}
    assert {1: ["rate limited", "done"]} == project.outcomes()
    assert [] == branches(project.root)


def meets(project: LoopProject) -> list[Steps]:
    """The attempts of a task that writes a file which the user's own commits write too."""
    commit = (
        f"cd '{project.root}' && date +%N > both.txt && git add both.txt && git commit -qm mine"
    )
    return [["begin", ["write", "both.txt", "agent"], "check", ["run", "sh", "-c", commit], "done"]]


def test_a_second_conflict_blocks_the_task_with_that_reason(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {})
    project.follow({"1": meets(project)})

    done = project.loop("--worktrees")

    assert 5 == done.returncode, done.stderr
    assert 2 == project.attempts(1)
    ((status, reason),) = query(project.root, "SELECT status, blocked_by FROM tasks")
    assert "blocked" == status
    assert "its work did not merge twice: conflict with the base branch in both.txt" in reason
    kept = branches(project.root)
    assert all("agent" == git(project.root, "show", f"{one}:both.txt") for one in kept[-1:])
    assert [] == project.held()
