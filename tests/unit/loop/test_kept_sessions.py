"""`ralphgen loop --worktrees` continues the work of sessions that could not finish or merge."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ran
from driving import made_here, query, quiet
from loop_projects import LoopProject
from merging_projects import branches
from planned_agent import Steps
from proved_projects import TESTS, git

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

LOOP = "[loop]\nattempts = {}\nno_progress = 9\ntimeout = 30\n"
HALF: Steps = ["begin", ["write", "half.txt", "half"]]
ASKS = ["tool", "set_task_status", {"status": "blocked", "question": "Which zone?"}]
CONTINUES: Steps = [
    "begin",
    ["run", "cat", "half.txt"],
    ["write", "rest.txt", "r"],
    "check",
    "done",
]


def repository(
    folder: Path, tasks: int, plan: dict[str, list[Steps]], attempts: int = 5
) -> LoopProject:
    config = f"{TESTS}\n{LOOP.format(attempts)}"
    project = LoopProject(folder, tasks, plan, config=config, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    return project


@pytest.mark.parametrize("last", [["exit", 3], ["blocked"]])
def test_unfinished_work_of_the_last_session_is_on_the_branch_of_its_task(
    tmp_path: Path, last: object
) -> None:
    project = repository(tmp_path, 1, {"1": [[*HALF, last]]}, attempts=1)

    done = project.loop("--worktrees")

    assert 5 == done.returncode, done.stderr
    assert "half" == git(project.root, "show", "ralph/task-1:half.txt")
    assert "  unmerged    ralph/task-1\n" in done.stderr
    git(project.root, "branch", "-D", "ralph/task-1")  # no worktree has it checked out


@pytest.mark.parametrize(
    ("last", "outcome"), [("limited", "rate limited"), ("hang", "out of time"), (ASKS, "asked")]
)
def test_the_next_session_continues_and_its_merge_has_both(
    tmp_path: Path, last: object, outcome: str
) -> None:
    project = repository(tmp_path, 1, {"1": [[*HALF, last], CONTINUES]})

    done = project.loop("--worktrees")
    if outcome == "asked":
        assert 5 == done.returncode, done.stderr
        ran("task", "answer", "1", "UTC", "--project", project.root)
        done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "task 1 starts from the work of session" in done.stderr
    assert ["0 half"] == [line["text"] for line in project.log("ran")]
    assert {"half.txt", "rest.txt"} <= {path.name for path in project.root.iterdir()}
    assert [outcome, "done"] == project.outcomes()[1]
    assert [] == branches(project.root)


def meets(project: LoopProject) -> list[Steps]:
    """The attempts of a task that writes a file which the user's own commits write too."""
    commit = (
        f"cd '{project.root}' && date +%N > both.txt && git add both.txt && git commit -qm mine"
    )
    return [["begin", ["write", "both.txt", "agent"], "check", ["run", "sh", "-c", commit], "done"]]


@pytest.mark.parametrize("attempts", [1, 5])
def test_a_second_conflict_blocks_the_task_with_that_reason(tmp_path: Path, attempts: int) -> None:
    project = repository(tmp_path, 1, {}, attempts)
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


WAITING = "SELECT task_id FROM ralphgen_merges WHERE state = 'waiting'"


def leave_out_blocked(root: Path) -> None:
    """Let the tasks of a project have no status "blocked"."""
    old, new = "DEFAULT 'pending'", "DEFAULT 'pending' CHECK (status IN ({}))"
    statuses = ("draft", "pending", "in_progress", "done", "skipped")
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        changed = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'tasks'"
        values = ", ".join(f"'{status}'" for status in statuses)
        connection.execute(changed, (old, new.format(values)))
        connection.commit()
    regenerate(root, force=True, say=quiet)
    git(root, "commit", "--quiet", "--all", "--message", "without blocked")
    made_here(root)


def test_without_a_status_blocked_the_work_waits_until_the_branch_is_merged(
    tmp_path: Path,
) -> None:
    project = repository(tmp_path, 1, {})
    leave_out_blocked(project.root)
    project.follow({"1": meets(project)})

    for _ in range(2):  # another loop tries the merge again, and starts no session
        done = project.loop("--worktrees")
        assert 5 == done.returncode, done.stderr
        assert "merge pending: conflict with the base branch in both.txt" in done.stderr
        assert ({1: "done"}, []) == (project.statuses(), project.held())
        assert [(1,)] == query(project.root, WAITING)
        assert 2 == project.attempts(1)
    kept = branches(project.root)[-1]
    assert "agent" == git(project.root, "show", f"{kept}:both.txt")

    git(project.root, "merge", "--quiet", "--no-edit", "--strategy-option=ours", kept)
    done = project.loop("--worktrees")
    assert 0 == done.returncode, done.stderr
    assert ({1: "done"}, []) == (project.statuses(), project.held())
    assert [] == query(project.root, WAITING)
