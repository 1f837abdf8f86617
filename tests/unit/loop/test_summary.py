"""The summary that `ralphgen status` prints, and `ralphgen loop` at its end."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import initialized, ralphgen
from driving import query
from held_tasks import held_project
from loop_projects import LoopProject
from planned_agent import WORKS, agent_command
from proved_projects import check, git

from ralphgen.loop.run import Event, event
from ralphgen.loop.summary import summarize, summary_lines
from ralphgen.sessions.reviews import send_back

pytestmark = pytest.mark.slow
KEY = ["begin", ["blocked", "needs a key"]]


def status(project: LoopProject) -> tuple[list[str], dict[str, Any]]:
    """The lines of `status` and its facts."""
    lines = ralphgen("status", "--project", project.root)
    facts = ralphgen("status", "--json", "--project", project.root)
    assert (0, 0) == (lines.returncode, facts.returncode), lines.stderr + facts.stderr
    return lines.stdout.splitlines(), json.loads(facts.stdout)


@pytest.mark.thorough
def test_loop_ends_with_the_summary_of_status(tmp_path: Path) -> None:
    change = ["begin", ["write", "new.txt", "1"], "done"]
    project = LoopProject(tmp_path, 4, {"2": [KEY], "*": [change]}, repository=True)
    query(project.root, "UPDATE tasks SET status = 'draft' WHERE id = 3")
    query(project.root, "UPDATE tasks SET depends_on = '[2]' WHERE id = 4")
    done = project.loop()
    lines, facts = status(project)
    session = facts["undo"][0].split()[-1]

    assert 5 == done.returncode, done.stderr
    assert "backup: " in done.stderr
    assert [
        "  1 done      1 Task 1",
        "  1 blocked   2 Task 2: needs a key",
        "  1 waiting   4 Task 4",
        "  1 draft     3 Task 3",
        "  cost        $0.50",
        "  files       new.txt new, not committed",
        "",
        f"Review: ralphgen log --since {facts['loop']['started']}   git status   ralphgen board",
        f"Undo:   ralphgen undo {session}",
        "        (ralphgen undo lists 1 more)",
    ] == lines[2:]
    assert lines[0].startswith("last loop ended after ")
    assert lines[0].endswith(": no task is ready")
    assert done.stderr.endswith("\n".join(lines).removeprefix("last ") + "\n")
    assert "needs a key" == facts["tasks"]["blocked"][0]["reason"]
    assert (5, "needs_user") == (facts["loop"]["exit_code"], facts["loop"]["cause"])
    assert session.startswith("task_execution-1-")
    assert 0 == ralphgen("undo", session, "--dry-run", "--project", project.root).returncode


@pytest.mark.thorough
def test_older_blocked_tasks_and_drafts_leave_a_loop_with_0(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 3, {})
    query(project.root, "UPDATE tasks SET status = 'blocked', blocked_by = 'x' WHERE id = 1")
    query(project.root, "UPDATE tasks SET status = 'draft' WHERE id = 2")
    first, idle = project.loop(), project.loop()

    assert (0, 0) == (first.returncode, idle.returncode), first.stderr + idle.stderr
    assert "backup: " not in idle.stderr
    assert "cost" not in idle.stderr


def test_open_task_is_shown_with_its_check_and_attempt(tmp_path: Path) -> None:
    config = check("tests", "false") + "[loop]\nno_progress = 1\n"
    red = ["begin", "check"]
    project = LoopProject(tmp_path, 2, {"*": [red]}, config=config, cost=None)
    done = project.loop()

    assert 5 == done.returncode, done.stderr
    assert "task 1 open after " in done.stderr
    assert " (checks: tests ended with exit code 1; 3 turns)\n" in done.stderr
    assert ": one task made no progress\n" in done.stderr
    reason = '(check "tests" ended with exit code 1, attempt 1 of 3)'
    assert f"  1 open      1 Task 1 {reason}\n  1 ready     2 Task 2\n" in done.stderr
    assert "  cost        unknown\n" in done.stderr
    transcript = done.stderr.partition("Details: ralphgen task show 1\n         its transcript: ")[
        2
    ]
    assert Path(transcript.partition("\n")[0]).is_file()


def test_tasks_done_by_the_loop_are_distinguished_from_earlier_ones(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 3, {})
    query(project.root, "UPDATE tasks SET status = 'done' WHERE id < 3")
    done = project.loop("--max-tasks", "1")
    lines, _ = status(project)

    assert 7 == done.returncode, done.stderr
    assert "  3 done      this loop: 3 Task 3 · 2 earlier\n" in done.stderr
    assert "  3 done      last loop: 3 Task 3 · 2 earlier" in lines


def ended(task: int, outcome: str, **facts: object) -> Event:
    return event("end", task=task, outcome=outcome, session=f"s{task}", **facts)


def test_open_tasks_have_the_reason_of_their_last_session_or_merge(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    query(root, "INSERT INTO ralphgen_claims (task_id, token, attempts) VALUES (1, 1, 1)")
    query(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    send_back(root, 2, "Again")
    checks = {"tests": "not run"}
    events = [
        ended(2, "done", checks={"tests": "passed"}),
        ended(1, "done", checks={"tests": "passed"}),
        event("merge", task=1, outcome="not merged", text="conflict with the base branch in a.py"),
        ended(3, "failed", checks=checks),
        event("stop", reason="", cause="no_progress"),
    ]

    def reasons() -> dict[int, str]:
        return {one["id"]: one["reason"] for one in summarize(root, events)["tasks"]["open"]}

    conflict = "not merged: conflict with the base branch in a.py, attempt 1 of 2"
    assert {1: conflict, 2: "sent back", 3: "failed"} == reasons()
    shows = [f"ralphgen task show {task}" for task in (3, 1, 2)]
    assert shows == summarize(root, events)["details"]
    assert "Details: " + "   ".join(shows) in [*summary_lines(summarize(root, events))]
    events.append(ended(1, "open", checks=checks))
    assert 'check "tests" not run, attempt 1 of 2' == reasons()[1]


def test_blocked_tasks_are_in_order_and_a_stop_without_progress_names_them(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    query(root, "UPDATE tasks SET status = 'blocked', blocked_by = 'x'")
    events = [ended(3, "failed"), ended(1, "open"), event("stop", reason="", cause="no_progress")]
    facts = summarize(root, events)
    lines = [*summary_lines(facts)]

    rows = [line.removeprefix("  3 blocked")[:16].strip()[0] for line in lines if ": x" in line]
    assert ["1", "2", "3"] == rows
    assert "Details: ralphgen task show 1   ralphgen task show 3" in lines
    query(root, "UPDATE tasks SET status = 'draft'")
    lines = [*summary_lines(summarize(root, events))]
    assert any(line.startswith("  3 draft     1 ") and line.count(" · ") == 2 for line in lines)


def test_changed_files_are_distinguished_from_new_ones(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {}, repository=True)
    (project.root / "code.txt").write_text("1", encoding="utf-8")
    (project.root / "new.txt").write_text("1", encoding="utf-8")
    lines, facts = status(project)

    assert "  files       code.txt changed; new.txt new, not committed" in lines
    assert (["code.txt", "new.txt"], ["new.txt"]) == (facts["changed_files"], facts["new_files"])


@pytest.mark.thorough
def test_note_on_an_agent_appears_only_if_it_lacks_a_file(tmp_path: Path) -> None:
    words = [word for word in agent_command(tmp_path / "plan.json") if "prompt" not in word]
    more = f"[loop.agents.robot]\ncommand = {json.dumps(words)}\n"
    project = LoopProject(tmp_path, 1, {"*": [WORKS]}, config=more)
    done = project.loop("--agent", "robot")
    quiet = LoopProject(tmp_path / "other", 0, {}).loop()

    assert 1 == done.stderr.count("note: "), done.stderr
    assert (
        'note: agent "robot" gets no prompt; it needs "ralphgen call", missing in a sandbox\n'
        in done.stderr
    )
    assert "note: " not in quiet.stderr


def test_unmerged_branch_is_named(tmp_path: Path) -> None:
    conflict = ["begin", ["write", "test.py", "2"], "done"]
    settings = '[done]\nprotect = ["test.py"]\n[loop]\nattempts = 1\n'
    project = LoopProject(tmp_path, 1, {"*": [conflict]}, config=settings, repository=True)
    git(project.root, "branch", "ralph/task-9-1")
    lines, facts = status(project)
    assert [] == facts["unmerged_branches"]
    git(project.root, "switch", "--quiet", "ralph/task-9-1")
    git(project.root, "commit", "--quiet", "--allow-empty", "-m", "work")
    git(project.root, "switch", "--quiet", "-")
    lines, facts = status(project)

    assert ["ralph/task-9-1"] == facts["unmerged_branches"]
    assert "  unmerged    ralph/task-9-1" in lines
    assert "git branch --list ralph/task-9-1" in facts["review"]


def test_merged_work_is_not_listed_on_another_branch(tmp_path: Path) -> None:
    works = ["begin", ["write", "task-{task}.txt", "1"], "done"]
    project = LoopProject(tmp_path, 1, {"*": [works]}, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    git(project.root, "branch", "before")
    project.loop("--worktrees")
    target = git(project.root, "branch", "--show-current").strip()
    git(project.root, "branch", "ralph/task-1-1")
    git(project.root, "switch", "--quiet", "before")
    _, facts = status(project)

    (undo,) = facts["undo"]
    assert undo.endswith(f" --code --onto {target}")
    assert [] == facts["unmerged_branches"]
    git(project.root, "branch", "--force", target, "before")
    assert ["ralph/task-1-1"] == status(project)[1]["unmerged_branches"]


def test_status_of_a_new_project_names_the_first_step(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    done = ralphgen("status", cwd=root)
    wrong = ralphgen("status", cwd=tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert "  no tasks    create one with: ralphgen task add TITLE\n" in done.stdout
    assert 1 == wrong.returncode


def test_status_names_no_undo_for_a_session_without_changes(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    assert 0 == ralphgen("session", "create", "yap", cwd=root).returncode
    lines = ralphgen("status", cwd=root)

    assert (0, "") == (lines.returncode, lines.stderr)
    assert "Undo:" not in lines.stdout


def test_status_survives_a_forged_loop_file(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    folder = root / ".ralph/mcp/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    forged = [
        {"event": "end"},
        {"event": "end", "task": []},
        {"event": "session"},
        {"event": "stop", "recorded": 3},
    ]
    text = "".join(f"{json.dumps(one)}\n" for one in forged)
    (folder / "loop-20260101T000000Z-abcd.jsonl").write_text(text, encoding="utf-8")
    done = ralphgen("status", cwd=root)

    assert 0 == done.returncode, done.stderr
