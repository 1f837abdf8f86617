"""Loops with asking agents: the rest continues, the user answers, the next session reads it."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen
from loop_projects import LoopProject, kill
from planned_agent import WORKS, Steps

pytestmark = pytest.mark.slow
CONFIG = "[loop]\nattempts = 1\nno_progress = 1\n"
QUESTION = {"status": "blocked", "question": "Which time zone?", "options": ["UTC", "local"]}
READS: Steps = ["prompt", *WORKS]
ASKS: Steps = ["prompt", "begin", ["tool", "set_task_status", QUESTION]]


def answered(project: LoopProject, task: int, text: str = "UTC") -> None:
    done = ralphgen("task", "answer", str(task), text, "-C", project.root)
    assert 0 == done.returncode, done.stderr


def prompts(project: LoopProject) -> list[str]:
    """Return the prompts of agents, in order."""
    return [line["text"] for line in project.log("prompt")]


@pytest.mark.thorough
def test_a_question_costs_no_attempt_and_the_answer_is_read_by_the_next_session(
    tmp_path: Path,
) -> None:
    plan = {"1": [ASKS, READS], "*": [WORKS]}
    project = LoopProject(tmp_path, 3, plan, config=CONFIG)
    done = project.loop("--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]

    assert 5 == done.returncode, done.stderr
    assert {1: "blocked", 2: "done", 3: "done"} == project.statuses()
    assert {1: ["asked"], 2: ["done"], 3: ["done"]} == project.outcomes()
    (asked,) = [one for one in events if one["event"] == "question"]
    del asked["time"]
    assert {"event": "question", "task": 1, "question": 1} == asked
    assert "needs_user" == events[-1]["cause"]
    assert 5 == project.loop().returncode  # also a loop that finds it

    answered(project, 1)
    assert 0 == project.loop().returncode
    assert {1: "done", 2: "done", 3: "done"} == project.statuses()
    before, after = prompts(project)
    assert "Answer: UTC" not in before
    assert "- Which time zone?\n  Answer: UTC" in after


def test_a_running_loop_takes_an_answered_task_up(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    plan = {"1": [ASKS, READS], "2": [["begin", ["wait", str(gate)], "done"]]}
    project = LoopProject(tmp_path, 2, plan, config=CONFIG)
    running = project.started()
    project.wait_for("said", 1)
    project.wait_for("begin", 2)
    answered(project, 1)
    gate.touch()
    _, errors = running.communicate(timeout=60)

    assert 0 == running.returncode, errors
    assert {1: "done", 2: "done"} == project.statuses()
    assert "task 1: question 1" in errors


@pytest.mark.thorough
def test_a_loop_that_was_killed_keeps_the_question_and_its_answer(tmp_path: Path) -> None:
    plan = {"1": [[*ASKS, "hang"], READS]}
    project = LoopProject(tmp_path, 1, plan, config=CONFIG)
    running = project.started()
    project.wait_for("said", 1)
    kill(running)

    answered(project, 1)
    assert 0 == project.loop().returncode
    assert {1: "done"} == project.statuses()
    assert "Answer: UTC" in prompts(project)[-1]


@pytest.mark.thorough
def test_in_a_worktree_an_answer_before_the_session_ends_costs_no_attempt(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    plan = {"1": [[*ASKS, ["wait", str(gate)]], READS]}
    project = LoopProject(tmp_path, 1, plan, config=CONFIG, repository=True)
    running = project.started("--worktrees")
    project.wait_for("said", 1)
    answered(project, 1)
    gate.touch()
    _, errors = running.communicate(timeout=60)

    assert 0 == running.returncode, errors
    assert {1: "done"} == project.statuses()
    assert ["asked", "done"] == project.outcomes()[1]
    assert "Answer: UTC" in prompts(project)[-1]
