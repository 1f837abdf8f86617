"""`ralphgen loop` with agents that work, lie, give up, hang, crash and pause."""

import json
import sys
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from loop_projects import LoopProject, is_running
from planned_agent import WORKS, Steps, agent_command
from proved_projects import TEST, check, write_files

pytestmark = pytest.mark.slow
CHECKED = f'{check("tests", sys.executable, "test.py")}[done]\nprotect = ["test.py"]\n'
LIMITS = "[loop]\nattempts = {attempts}\nno_progress = {stuck}\ntimeout = {seconds}\n"
ONE = "[loop]\nno_progress = 1\n"


def settings(*, attempts: int = 3, stuck: int = 3, seconds: int = 60, more: str = "") -> str:
    return LIMITS.format(attempts=attempts, stuck=stuck, seconds=seconds) + more


RED: Steps = ["begin", ["write", "code.txt", "1"]]
GREEN = ["write", "code.txt", "0"]
NIGHT: dict[str, tuple[Steps, str, str]] = {
    "says that it is done": ([*RED, "done"], "open", "blocked"),
    "proves that it is red": ([*RED, "check", "done"], "open", "blocked"),
    "calls exit 0": ([*RED, ["exit", 0]], "open", "blocked"),
    "gives up": ([*RED, ["say", "I give up."]], "open", "blocked"),
    "hangs": ([*RED, "hang"], "out of time", "blocked"),
    "crashes": ([*RED, "crash"], "failed", "blocked"),
    "calls the same tool for ever": ([*RED, "loop"], "out of time", "blocked"),
    "is blocked": ([*RED, "blocked"], "blocked", "blocked"),
    "works": (["begin", GREEN, "check", "done"], "done", "done"),
    "changes the test": ([*RED, ["write", "test.py", ""], "check", "done"], "open", "blocked"),
}
SHORT = ("proves that it is red", "hangs", "crashes", "works", "changes the test")


@pytest.mark.parametrize(
    "kinds", [SHORT, pytest.param(tuple(NIGHT), marks=pytest.mark.soak)], ids=["short", "whole"]
)
def test_a_night_with_all_kinds_of_agents(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    plan = {str(number): [NIGHT[kind][0]] for number, kind in enumerate(kinds, start=1)}
    root = tmp_path / "p"
    write_files(root, [("test.py", TEST)])
    config = CHECKED + settings(attempts=1, stuck=99, seconds=6)
    project = LoopProject(tmp_path, len(plan), plan, config=config, repository=True)
    done = project.loop()
    outcomes, statuses = project.outcomes(), project.statuses()
    found = {
        kind: (*outcomes[number], statuses[number]) for number, kind in enumerate(kinds, start=1)
    }

    assert 5 == done.returncode, done.stderr
    assert {kind: NIGHT[kind][1:] for kind in kinds} == found
    assert ": no task is ready\n" in done.stderr
    assert [] == project.held()


def test_an_agent_that_changes_the_settings_ends_only_its_session(tmp_path: Path) -> None:
    """Loosened rules apply neither in the session nor in the next one."""
    spoiled = [*RED, ["write", ".ralph/ralphgen.toml", ""], "check", "done"]
    config = CHECKED + settings(stuck=1)
    write_files(tmp_path / "p", [("test.py", TEST)])
    project = LoopProject(tmp_path, 1, {"*": [spoiled]}, config=config, repository=True)
    done = project.loop()

    assert 5 == done.returncode, done.stderr
    assert {1: ["open"]} == project.outcomes()
    assert {1: "pending"} == project.statuses()


SET_DONE = """
import sqlite3
with sqlite3.connect(".ralph/db/ralph.db") as database:
    database.execute("UPDATE tasks SET status = 'done'")
"""


def test_a_task_that_is_set_done_past_the_server_is_open_again(tmp_path: Path) -> None:
    past = [*RED, ["run", sys.executable, "-c", SET_DONE]]
    write_files(tmp_path / "p", [("test.py", TEST)])
    project = LoopProject(tmp_path, 1, {"*": [past]}, config=CHECKED + settings(stuck=1))
    done = project.loop()

    assert 5 == done.returncode, done.stderr
    assert {1: ["open"]} == project.outcomes()
    assert {1: "pending"} == project.statuses()
    ((said,),) = query(project.root, "SELECT body FROM task_comments")
    assert "set to done without the server" in said


def test_an_agent_whose_claim_is_lost_is_stopped(tmp_path: Path) -> None:
    lease = "[claims]\nlease = 6\n"
    project = LoopProject(tmp_path, 1, {"*": [["begin", "loose", "hang"]]}, config=lease + ONE)
    loop = project.started()
    project.wait_for("loose", 1)
    query(project.root, "UPDATE ralphgen_claims SET token = token + 1")
    _, said = loop.communicate(timeout=60)

    assert 5 == loop.returncode, said
    assert "lost the claim on its task: Claude Code was stopped" in said
    assert {1: ["claim lost"]} == project.outcomes()
    assert not any(is_running(int(line["text"])) for line in project.log("loose"))


def test_without_the_agents_program_nothing_is_claimed(tmp_path: Path) -> None:
    config = '[loop.agents.mine]\ncommand = ["no-such-agent"]\n'
    project = LoopProject(tmp_path, 1, {}, config=config)
    done = project.loop("--agent", "mine")

    assert 1 == done.returncode
    assert 'the agent "mine" is not installed ("no-such-agent" is not on PATH)' in done.stderr
    assert {} == project.outcomes()
    assert 0 == project.loop("--agent", "mine", "--dry-run").returncode


def test_a_task_that_is_left_open_waits_for_the_others_and_is_blocked_at_last(
    tmp_path: Path,
) -> None:
    project = LoopProject(
        tmp_path, 3, {"1": [["begin"]], "*": [WORKS]}, config=settings(attempts=2)
    )
    done = project.loop()

    assert 5 == done.returncode, done.stderr
    assert [1, 2, 3, 1] == [line["task"] for line in project.log("begin")]
    assert 1 == done.stderr.count('task 1 is blocked; for the reason, see "ralphgen task show 1"')
    assert {1: "blocked", 2: "done", 3: "done"} == project.statuses()


def test_budgets_end_it_with_7(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 9, {"*": [WORKS]})
    many = project.loop("--max-tasks", "2")
    dear = project.loop("--max-cost", "0.6")
    shares = [line["argv"] for line in project.log("begin")][2:]

    assert (7, 7) == (many.returncode, dear.returncode)
    assert ": --max-tasks 2 reached\n\n  2 done " in many.stderr
    assert ": --max-cost 0.6 reached\n\n  5 done      this loop: 3 " in dear.stderr
    assert ["0.6000", "0.3500", "0.1000"] == [
        argv[argv.index("--max-budget-usd") + 1] for argv in shares
    ]
    late = project.loop("--max-time", "1s")
    assert 7 == late.returncode
    assert ": --max-time 1s reached" in late.stderr


def test_reviews_come_in_between(tmp_path: Path) -> None:
    plan = {"opus_review": [[["tool", "list_tasks", {}]]], "*": [WORKS]}
    project = LoopProject(tmp_path, 3, plan)
    done = project.loop("--review-every", "2")

    assert 0 == done.returncode, done.stderr
    assert [1, 2, None, 3] == [line["task"] for line in project.log("begin")]
    assert "review ended after " in done.stderr


def test_a_program_of_the_settings_works_too(tmp_path: Path) -> None:
    command = json.dumps(agent_command(tmp_path / "plan.json"))
    more = f"[loop.agents.mine]\ncommand = {command}\n"
    project = LoopProject(tmp_path, 2, {"*": [WORKS]}, config=settings(more=more))
    dear = project.loop("--agent", "mine", "--max-cost", "1")
    done = project.loop("--agent", "mine")

    assert 2 == dear.returncode
    assert (
        '"--max-cost" cannot be enforced: the agent "mine" does not report its cost' in dear.stderr
    )
    assert "[launch.cost_per_hour] mine = 6.0" in dear.stderr
    assert 0 == done.returncode, done.stderr
    assert {1: "done", 2: "done"} == project.statuses()
    assert [(0.25, "mine")] * 2 == query(
        project.root, "SELECT cost_usd, agent FROM ralphgen_sessions"
    )


def test_time_at_a_rate_is_charged_if_an_agent_reports_no_cost(tmp_path: Path) -> None:
    command = json.dumps(agent_command(tmp_path / "plan.json"))
    more = f"[loop.agents.mine]\ncommand = {command}\n[launch.cost_per_hour]\nmine = 360000.0\n"
    project = LoopProject(tmp_path, 2, {"*": [WORKS]}, config=settings(more=more), cost=None)
    done = project.loop("--agent", "mine", "--max-cost", "5")

    assert 7 == done.returncode, done.stderr
    assert "--max-cost 5 reached" in done.stderr
    assert "; about $" in done.stderr
    assert "  cost        about $" in done.stderr
    assert {1: "done", 2: "pending"} == project.statuses()
    assert "cost        about $" in ralphgen("status", cwd=project.root).stdout
    assert "about $" in ralphgen("session", "list", cwd=project.root).stdout

    query(project.root, "UPDATE tasks SET status = 'pending'")
    again = project.loop("--agent", "mine", "--max-task-cost", "5")
    assert {1: "blocked", 2: "done"} == project.statuses(), again.stderr
    ((reason,),) = query(project.root, "SELECT blocked_by FROM tasks WHERE id = 1")
    assert reason.startswith("its sessions used up about $")


def test_agents_do_not_share_a_worktree_with_checks(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [WORKS]}, config=CHECKED)
    done = project.loop("--parallel", "2")

    assert 2 == done.returncode
    assert "cannot share a worktree" in done.stderr
    assert '"--worktrees"' in done.stderr
    assert [] == project.log("begin")


def test_a_project_without_a_ledger_is_told_how_to_get_one(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {})
    for (name,) in query(
        project.root, "SELECT name FROM sqlite_master WHERE name LIKE 'ralphgen_%' AND type='table'"
    ):
        query(project.root, f"DROP TABLE {name}")
    done = project.loop()

    assert 1 == done.returncode
    assert '"ralphgen db ledger on"' in done.stderr


def test_a_dry_run_shows_what_comes_first_and_changes_nothing(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 3, {})
    query(project.root, "UPDATE tasks SET priority = 'critical' WHERE id = 3")
    done = project.loop("--dry-run", "--max-tasks", "2")
    said = project.loop("--dry-run", "--json")

    assert (0, "3  Task 3\n1  Task 1\n") == (done.returncode, done.stdout)
    assert [3, 1, 2] == [task["id"] for task in json.loads(said.stdout)["tasks"]]
    assert [] == [*(project.root / ".ralph").glob("backups/*.db")]
    assert {} == project.outcomes()


def test_a_dry_run_reports_that_nothing_is_ready_and_names_no_agent(tmp_path: Path) -> None:
    done = LoopProject(tmp_path, 0, {}).loop("--dry-run")

    assert (0, "") == (done.returncode, done.stdout)
    assert "no task is ready\n" == done.stderr


def test_the_database_is_backed_up_before_the_first_task(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [WORKS]})
    done = project.loop()
    (backup,) = (project.root / ".ralph/backups").glob("*.db")

    assert f"backup: {backup}\n" in done.stderr


def test_several_agents_do_each_task_once(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 12, {"*": [WORKS], "5": [["begin", "crash"], WORKS]})
    query(project.root, "UPDATE tasks SET depends_on = '[1, 5]' WHERE id = 12")
    done = project.loop("--parallel", "4")
    begun = [line["task"] for line in project.log("begin")]

    assert 0 == done.returncode, done.stderr
    assert {"done"} == {*project.statuses().values()}
    assert sorted([*range(1, 13), 5]) == sorted(begun)
    assert {1, 5} <= {*begun[: begun.index(12)]}
    assert 5 not in begun[begun.index(12) :]
