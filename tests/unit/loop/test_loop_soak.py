"""Eight parallel agents on fifty tasks, with crashes and kills of agents and of the loop."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from driving import query
from loop_projects import LoopProject, kill, wait_until_gone
from planned_agent import WORKS

WORKERS, TASKS = 8, 50


@pytest.mark.soak
def test_fifty_tasks_are_done_once_by_eight_agents(tmp_path: Path) -> None:
    plan = {str(task): [["begin", "crash"], WORKS] for task in range(1, TASKS, 7)}
    project = LoopProject(
        tmp_path, TASKS, {**plan, "*": [WORKS]}, config="[loop]\nno_progress = 20\n"
    )
    for task in range(11, TASKS + 1):
        query(project.root, "UPDATE tasks SET depends_on = ? WHERE id = ?", f"[{task - 10}]", task)
    done = project.loop("--parallel", str(WORKERS))
    spans: dict[int, list[tuple[float, str]]] = {}
    for event in ("begin", "end"):
        for line in project.log(event):
            spans.setdefault(line["task"], []).append((line["time"], event))

    assert 0 == done.returncode, done.stderr
    assert {"done"} == {*project.statuses().values()}
    assert TASKS == len(project.log("end"))
    assert TASKS + len(plan) == len(project.log("begin"))
    for task in range(11, TASKS + 1):
        assert max(spans[task - 10])[0] < min(spans[task])[0]


@pytest.mark.soak
def test_agents_and_loops_that_are_killed_leave_nothing_undone(tmp_path: Path) -> None:
    config = "[loop]\nattempts = 100\nno_progress = 100\n"
    project = LoopProject(tmp_path, TASKS, {"*": [WORKS]}, config=config)
    for seconds in (2, 9, 4.5, 3.2, 7, 5.9):
        loop = project.started("--parallel", str(WORKERS))
        end = time.monotonic() + seconds
        while loop.poll() is None and time.monotonic() < end:
            time.sleep(seconds / 7)
            if agents := project.log("begin"):
                with suppress(ProcessLookupError):
                    os.kill(agents[-1]["pid"], signal.SIGKILL)
        kill(loop)
        wait_until_gone(project.root)
    done = project.loop("--parallel", str(WORKERS))

    assert 0 == done.returncode, done.stderr
    assert {"done"} == {*project.statuses().values()}
    assert [] == project.held()
