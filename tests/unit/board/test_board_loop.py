"""The loop on the board: started, watched, paused, stopped, cut off and begun again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import Elements, Running, notice_in, part, running_board, whole
from lifelines import until
from loop_projects import LoopProject, kill, wait_until_gone

from ralphgen.loop.record import ask_loops, stored_loops

pytestmark = pytest.mark.slow

FIELDS = {
    "agent": "claude",
    "parallel": "",
    "max_tasks": "",
    "max_cost": "",
    "max_time": "",
    "review_every": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopProject]:
    """A project whose first task waits for the file `go`."""
    plan = {"1": [["begin", ["wait", str(tmp_path / "go")], "done"]]}
    found = LoopProject(tmp_path, 2, plan)
    monkeypatch.setenv("PATH", found.environment["PATH"])
    yield found
    (tmp_path / "go").touch()
    wait_until_gone(found.root)


def asked(board: Running, word: str, root: Path) -> str:
    """The page after something was asked of the loop that runs."""
    fields = {"ask": word, "loop": stored_loops(root)[0].loop_id}
    return board.follow(board.post("loop/ask", fields))


def test_a_loop_is_started_paused_resumed_and_ends(project: LoopProject, tmp_path: Path) -> None:
    with running_board(project.root) as board:
        before = part(whole(board, "loop"), "loop")
        started = board.follow(board.post("loop/start", {**FIELDS, "max_time": "9m"}))
        project.wait_for("begin", 1)
        assert until(lambda: "#1" in part(whole(board, "loop"), "loop"))
        running = part(whole(board, "loop"), "loop")
        second = board.act("loop/start", FIELDS)
        paused = asked(board, "pause", project.root)
        assert until(lambda: "Paused" in part(whole(board, "loop"), "loop"))
        held = part(whole(board, "loop"), "loop")
        (tmp_path / "go").touch()
        assert until(lambda: project.statuses()[1] == "done")
        asked(board, "resume", project.root)
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))
        ended = part(whole(board, "loop"), "loop")

    assert "Start a loop" in before
    assert "the loop has begun" in notice_in(started)
    assert "Running" in running
    assert "Task 1" in running
    assert 'href="/sessions/task_execution-1-' in running
    assert 'action="/loop/start"' not in running
    assert not second["ok"]
    assert "stop it first" == second["problems"][0]["hint"]
    assert "it begins nothing more" in notice_in(paused)
    assert 'value="resume"' in held
    assert {1: "done", 2: "done"} == project.statuses()
    assert "nothing is ready" in ended
    assert "$0.50" in ended
    (given,) = [one for one in Elements(ended).of("input") if one.get("name") == "max_time"]
    assert "9m" == given["value"]


def test_a_loop_is_stopped_and_its_task_given_back(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("loop/start", FIELDS)
        project.wait_for("begin", 1)
        page = asked(board, "stop-now", project.root)
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))
        again = board.act("loop/ask", {"ask": "pause", "loop": ""})
        unknown = board.act("loop/ask", {"ask": "delete", "loop": ""})

    assert "their tasks are given back" in notice_in(page)
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (False, False) == (again["ok"], unknown["ok"])


def test_a_loop_outlives_the_board_and_another_board_knows_it(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("loop/start", FIELDS)
        project.wait_for("begin", 1)
    with running_board(project.root) as board:
        page = part(whole(board, "loop"), "loop")
        ask_loops(project.root, "stop-now")
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))

    assert "Running" in page


def test_a_killed_loop_is_begun_again_with_what_it_was_held_to(
    project: LoopProject, tmp_path: Path
) -> None:
    loop = project.started("--max-tasks", "5")
    project.wait_for("begin", 1)
    kill(loop)
    with running_board(project.root) as board:
        page = part(whole(board, "loop"), "loop")
        (tmp_path / "go").touch()
        assert until(lambda: board.act("loop/start", {**FIELDS, "max_tasks": "5"})["ok"])
        assert until(lambda: {1: "done", 2: "done"} == project.statuses())
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))

    assert "Cut off" in page
    assert "Go on where it was cut off" in page
    (given,) = [one for one in Elements(page).of("input") if one.get("name") == "max_tasks"]
    assert "5" == given["value"]


def test_what_the_command_refuses_is_refused_in_its_words(project: LoopProject) -> None:
    with running_board(project.root) as board:
        wrong = board.post("loop/start", {**FIELDS, "max_time": "<b>soon", "max_tasks": "3"})
        page = board.follow(wrong)
        typed = whole(board, wrong.headers["location"].partition("#")[0])
        agent = board.act("loop/start", {**FIELDS, "agent": "sh"})
        number = board.act("loop/start", {**FIELDS, "parallel": "-1 --json"})

    assert '"<b>soon" is no duration' in notice_in(page)
    assert "<b>soon" not in page
    assert 'value="3"' in part(typed, "loop")
    assert (False, False) == (agent["ok"], number["ok"])
    assert [] == stored_loops(project.root)


def test_a_number_that_is_none_is_refused_without_the_frame_of_a_terminal(
    project: LoopProject,
) -> None:
    with running_board(project.root) as board:
        outcome = board.act("loop/start", {**FIELDS, "max_cost": "abc"})

    (problem,) = outcome["problems"]
    assert problem["text"].startswith("Invalid value for '--max-cost': ")
    assert problem["text"].endswith(" as a number")
    assert not set("─│╭╯") & set(problem["text"])
