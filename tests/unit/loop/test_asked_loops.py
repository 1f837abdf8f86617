"""A loop that others see and ask: paused, resumed, stopped, killed, and who may not be asked."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import ralphgen
from loop_projects import PATIENCE, LoopProject, kill, wait_until_gone

from ralphgen.errors import UsageError
from ralphgen.loop.record import ask_loops, read_events, stored_loops
from ralphgen.sessions.store import ask_to_stop, launcher_of, stored_sessions

pytestmark = pytest.mark.slow


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def kinds(project: LoopProject) -> list[str]:
    """The events of the newest loop, as others read them."""
    return [told["event"] for told in read_events(stored_loops(project.root)[0])]


def waiting(tmp_path: Path, tasks: int) -> LoopProject:
    """A project whose first task waits for the file `go`; the others are done at once."""
    plan = {"1": [["begin", ["wait", str(tmp_path / "go")], "done"]]}
    return LoopProject(tmp_path, tasks, plan)


def test_a_paused_loop_begins_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    project = waiting(tmp_path, 2)
    loop = project.started()
    project.wait_for("begin", 1)
    asked = ralphgen("loop", "pause", "--project", project.root)
    until(lambda: "held" in kinds(project))
    (tmp_path / "go").touch()
    until(lambda: "end" in kinds(project))

    assert (0, "") == (asked.returncode, asked.stderr)
    assert f"sent pause to {stored_loops(project.root)[0].loop_id}\n" == asked.stdout
    assert stored_loops(project.root)[0].running
    assert {1: "done", 2: "pending"} == project.statuses()

    ask_loops(project.root, "resume")
    _, said = loop.communicate(timeout=PATIENCE)

    assert 0 == loop.returncode, said
    assert {1: "done", 2: "done"} == project.statuses()
    assert "paused: running sessions continue, no new ones start" in said
    assert not stored_loops(project.root)[0].running


def test_a_loop_that_is_asked_to_stop_ends_as_at_ctrl_c(tmp_path: Path) -> None:
    project = waiting(tmp_path, 2)
    loop = project.started()
    project.wait_for("begin", 1)
    for _ in range(2):  # two requests are not two Ctrl-C
        ask_loops(project.root, "stop")
    until(lambda: "stopping" in kinds(project))
    (tmp_path / "go").touch()
    _, said = loop.communicate(timeout=PATIENCE)

    assert 130 == loop.returncode, said
    assert {1: "done", 2: "pending"} == project.statuses()
    assert ("start", "stop") == (kinds(project)[0], kinds(project)[-1])


def test_stopped_now_it_gives_its_tasks_back(tmp_path: Path) -> None:
    project = waiting(tmp_path, 1)
    loop = project.started()
    project.wait_for("begin", 1)
    ask_loops(project.root, "stop-now", stored_loops(project.root)[0].loop_id)
    _, said = loop.communicate(timeout=PATIENCE)

    assert 143 == loop.returncode, said
    assert ({1: "pending"}, []) == (project.statuses(), project.held())


def test_impossible_requests_are_refused(tmp_path: Path) -> None:
    project = waiting(tmp_path, 1)
    with pytest.raises(UsageError, match="no loop of this project is running on this machine"):
        ask_loops(project.root, "pause")
    with pytest.raises(UsageError, match='unknown request "puase"'):
        ask_loops(project.root, "puase")


def test_a_killed_loop_is_known_for_one_and_can_be_begun_again(tmp_path: Path) -> None:
    project = waiting(tmp_path, 1)
    loop = project.started("--max-tasks", "4", "--max-time", "9m")
    project.wait_for("begin", 1)
    kill(loop)
    wait_until_gone(project.root)
    (stored,) = stored_loops(project.root)
    start = read_events(stored)[0]

    assert not stored.running
    assert "stop" not in kinds(project)
    assert {
        "agent": "claude",
        "parallel": 1,
        "max_tasks": 4,
        "max_cost": None,
        "max_task_cost": None,
        "max_time": "9m",
        "until": "",
        "review_every": None,
        "worktrees": False,
        "onto": "",
        "sandbox": False,
    } == start["options"]


def test_an_error_that_ends_it_early_is_its_last_event(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {})
    done = project.loop("--worktrees")  # without a repository
    last = read_events(stored_loops(project.root)[0])[-1]

    assert done.returncode != 0
    assert ("stop", done.returncode) == (last["event"], last["exit_code"])
    assert last["reason"].partition("\n")[0] in done.stderr


def test_events_are_read_despite_invalid_lines(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {})
    project.loop()
    (stored,) = stored_loops(project.root)
    whole = read_events(stored)
    with stored.path.open("ab") as file:
        file.write(b'\xff{\n[1]\n{"event": 1}\n')

    assert whole == read_events(stored)
    assert whole[-1]["outcomes"] == {"done": 1}


def test_one_session_of_a_loop_is_stopped_and_the_next_task_comes_first(tmp_path: Path) -> None:
    hanging = [["begin", "loose", "hang"], ["begin", "done"]]
    project = LoopProject(tmp_path, 2, {"1": hanging})
    loop = project.started()
    project.wait_for("loose", 1)
    (session,) = [one for one in stored_sessions(project.root) if launcher_of(one.folder)]

    assert loop.pid == launcher_of(session.folder)
    assert ask_to_stop(session.folder)
    _, said = loop.communicate(timeout=PATIENCE)

    assert 0 == loop.returncode, said
    assert {1: ["stopped", "done"], 2: ["done"]} == project.outcomes()
    assert [1, 2, 1] == [line["task"] for line in project.log("begin")]
    assert not any(launcher_of(one.folder) for one in stored_sessions(project.root))


def test_a_launched_session_names_its_watcher_and_is_stopped(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [["begin", "hang"]]})
    launched = project.launched("task_execution", "--task", "1")
    project.wait_for("begin", 1)
    (session,) = stored_sessions(project.root)

    assert launched.pid == launcher_of(session.folder)
    assert ask_to_stop(session.folder)
    _, said = launched.communicate(timeout=PATIENCE)

    assert 130 == launched.returncode, said
    assert "stopped" in said
    assert {1: ["stopped"]} == project.outcomes()
    assert ({1: "pending"}, []) == (project.statuses(), project.held())
    assert not ask_to_stop(session.folder)


def test_a_mark_that_its_process_has_left_is_none(tmp_path: Path) -> None:
    (tmp_path / "launched").write_text("1\n", encoding="utf-8")

    assert launcher_of(tmp_path) is None
    assert not ask_to_stop(tmp_path)
    assert "1\n" == (tmp_path / "launched").read_text(encoding="utf-8")
