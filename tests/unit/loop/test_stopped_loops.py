"""A loop that is killed, stopped or abandoned leaves no agent and no claimed task."""

import os
import signal
from pathlib import Path

import pytest
from loop_projects import LoopProject, is_running, kill, wait_until_gone
from planned_agent import WORKS, Steps

pytestmark = pytest.mark.slow
HELD: Steps = ["begin", "loose", ["wait", "go-on"], "done"]


def test_a_loop_killed_at_any_moment_continues_and_leaves_no_agent(tmp_path: Path) -> None:
    plan = {"1": [HELD, WORKS], "2": [HELD, WORKS], "*": [WORKS]}
    project = LoopProject(tmp_path, 4, plan)
    loop = project.started("--parallel", "2")
    project.wait_for("loose", 2)
    kill(loop)
    agents = [line["pid"] for line in project.log("begin")]
    wait_until_gone(project.root, [*agents, *(int(one["text"]) for one in project.log("loose"))])
    done = project.loop("--parallel", "2")

    assert 0 == done.returncode, done.stderr
    assert {"done"} == {*project.statuses().values()}
    assert {1: 2, 2: 2} == {task: len(o) for task, o in project.outcomes().items() if task < 3}
    assert 6 == len(project.log("begin"))


@pytest.mark.parametrize(
    ("signals", "code"), [((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143)]
)
def test_ctrl_c_again_ends_agents_and_gives_their_tasks_back(
    tmp_path: Path, signals: tuple[signal.Signals, ...], code: int
) -> None:
    project = LoopProject(tmp_path, 3, {"*": [HELD]}, config="[loop]\nattempts = 1\n")
    loop = project.started("--parallel", "2")
    project.wait_for("loose", 2)
    for number in signals:
        loop.send_signal(number)
        assert loop.stderr is not None
        while "stopping" not in loop.stderr.readline():
            assert loop.poll() is None
    _, said = loop.communicate(timeout=60)

    assert code == loop.returncode, said
    assert {1: "pending", 2: "pending", 3: "pending"} == project.statuses()
    assert [] == project.held()
    assert not any(is_running(int(line["text"])) for line in project.log("loose"))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_closed_output_ends_the_loop_and_releases_its_tasks(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    project = LoopProject(tmp_path, 2, {"1": [WORKS], "2": [HELD]})
    loop = project.started(*options)
    read, other = (loop.stdout, loop.stderr) if options else (loop.stderr, loop.stdout)
    assert read is not None
    assert other is not None
    read.readline()
    read.close()
    other.read()

    assert 128 + signal.SIGPIPE == loop.wait(60)
    assert [] == project.held()
    assert {"pending", "done"} >= {*project.statuses().values()}
    other.close()


def test_a_closed_terminal_ends_the_loop_and_releases_its_tasks(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 2, {"*": [HELD]})
    terminal, end = os.openpty()
    loop = project.started("--parallel", "2", terminal=end)
    os.close(end)
    project.wait_for("loose", 2)
    os.close(terminal)

    assert 128 + signal.SIGHUP == loop.wait(60)
    assert [] == project.held()
    assert {1: "pending", 2: "pending"} == project.statuses()
    assert not any(is_running(int(line["text"])) for line in project.log("loose"))
