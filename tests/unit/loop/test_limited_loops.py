"""`ralphgen loop` with agents that reach a limit, are logged out, or use up a task's budget."""

import json
import signal
import time
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from loop_projects import LoopProject
from planned_agent import WORKS, Steps, agent_command, write_plan

pytestmark = pytest.mark.slow
HOUR = 3_600
STRICT = "[loop]\nattempts = 1\nno_progress = 1\n"
LIMITED: Steps = ["begin", ["limited", 2 * HOUR]]
LOGGED_OUT: Steps = ["begin", ["refused", "authentication_failed"]]
OPEN: Steps = ["begin"]


def with_two(folder: Path, tasks: int, first: Steps, second: Steps = WORKS) -> LoopProject:
    """A project with the agents claude and mine, which follow one plan each."""
    other = write_plan(folder / "other.json", {"*": [second]})
    more = f"[loop.agents.mine]\ncommand = {json.dumps(agent_command(other))}\n"
    return LoopProject(folder, tasks, {"*": [first]}, config=STRICT + more)


def loop_of(project: LoopProject) -> dict[str, object]:
    done = ralphgen("status", "--json", "--project", project.root)
    found: dict[str, object] = json.loads(done.stdout)["loop"]
    return found


def attempts(project: LoopProject) -> int:
    return sum(made for (made,) in query(project.root, "SELECT attempts FROM ralphgen_claims"))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--parallel", "2")])
def test_another_agent_continues_at_a_limit(tmp_path: Path, options: tuple[str, ...]) -> None:
    project = with_two(tmp_path, 3, LIMITED)
    done = project.loop("--agent", "claude,mine", *options)

    assert 0 == done.returncode, done.stderr
    assert {1: "done", 2: "done", 3: "done"} == project.statuses()
    assert done.stderr.count("claude: limit until ") == 1
    assert "; mine goes on\n" in done.stderr
    assert 0 == attempts(project)
    by_agent = dict(
        query(
            project.root,
            "SELECT agent, group_concat(DISTINCT outcome) FROM ralphgen_sessions GROUP BY 1",
        )
    )
    assert {"claude": "rate limited", "mine": "done"} == by_agent


def test_events_of_a_limit_and_of_a_logged_out_agent(tmp_path: Path) -> None:
    project = with_two(tmp_path, 1, LOGGED_OUT, ["begin", ["limited", 30 * HOUR]])
    done = project.loop("--agent", "claude,mine", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (refusal,) = [one for one in events if one["event"] == "unavailable"]
    (limit,) = [one for one in events if one["event"] == "limit"]

    assert 7 == done.returncode, done.stderr
    assert ("claude", "not logged in") == (refusal["agent"], refusal["reason"])
    assert ("mine", None, None) == (limit["agent"], limit["window"], limit["next"])
    assert limit["resets_at"].endswith("Z")
    assert "usage_limit" == events[-1]["cause"]
    assert ["claude", "mine"] == [one["agent"] for one in events if one["event"] == "session"]
    assert {1: ["unavailable", "rate limited"]} == project.outcomes()
    assert {1: "pending"} == project.statuses()
    assert 0 == attempts(project)
    assert [] == project.held()


def test_agents_that_are_all_unavailable_end_the_loop(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 2, {"*": [LOGGED_OUT]}, config=STRICT)
    done = project.loop()

    assert 1 == done.returncode, done.stderr
    assert "claude: not available in this run: not logged in\n" in done.stderr
    assert "no agent is available: claude: not logged in" in done.stderr
    assert "unavailable" == loop_of(project)["cause"]
    assert {1: "pending", 2: "pending"} == project.statuses()
    assert 0 == attempts(project)


def test_interrupt_ends_the_wait_for_a_reset(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [LIMITED]}, config=STRICT)
    loop = project.started()
    project.wait_for("end", 1)
    assert loop.stderr is not None
    for line in loop.stderr:
        if "retrying in 2 h 00 min" in line:
            break
    began = time.monotonic()
    loop.send_signal(signal.SIGINT)
    _, said = loop.communicate(timeout=60)

    assert 130 == loop.returncode, said
    assert 10 > time.monotonic() - began


@pytest.mark.thorough
def test_sessions_of_a_task_share_its_budget(tmp_path: Path) -> None:
    config = "[loop]\nattempts = 9\nno_progress = 9\n"
    project = LoopProject(tmp_path, 2, {"1": [OPEN], "*": [WORKS]}, config=config)
    done = project.loop("--max-task-cost", "0.4")
    argvs = [line["argv"] for line in project.log("begin") if line["task"] == 1]
    reason = "its sessions used up $0.50 of --max-task-cost 0.4"

    assert 5 == done.returncode, done.stderr
    assert ["0.4000", "0.1500"] == [argv[argv.index("--max-budget-usd") + 1] for argv in argvs]
    assert {1: "blocked", 2: "done"} == project.statuses()
    assert [(reason,)] == query(project.root, "SELECT blocked_by FROM tasks WHERE id = 1")

    query(project.root, "UPDATE tasks SET status = 'pending' WHERE id = 1")
    again = project.loop("--max-task-cost", "0.5")  # which is used up already
    assert 5 == again.returncode, again.stderr
    assert {1: "blocked", 2: "done"} == project.statuses()
    assert {1: ["open", "open", "out of budget"], 2: ["done"]} == project.outcomes()
    assert [] == project.held()

    query(project.root, "UPDATE tasks SET status = 'pending' WHERE id = 1")
    project.follow({"*": [WORKS]})
    more = project.loop("--max-task-cost", "0.8")
    assert 0 == more.returncode, more.stderr
    assert {1: "done", 2: "done"} == project.statuses()


@pytest.mark.thorough
def test_session_without_a_cost_uses_up_its_share_unless_a_limit_ended_it(tmp_path: Path) -> None:
    config = "[loop]\nattempts = 9\nno_progress = 9\n"
    plan = {"1": [OPEN], "2": [["begin", "limited"], WORKS]}
    project = LoopProject(tmp_path, 2, plan, config=config, cost=None)
    done = project.loop("--max-task-cost", "2")

    assert 5 == done.returncode, done.stderr
    assert {1: "blocked", 2: "done"} == project.statuses()
    assert {1: ["open"], 2: ["rate limited", "done"]} == project.outcomes()
