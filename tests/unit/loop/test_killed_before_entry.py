"""Work of a loop or worker that is killed after its task is done, but before its work enters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from fleets import ENGINES, Fleet, Machine, fleet
from lifelines import until
from loop_projects import LoopProject, kill, wait_until_gone
from planned_agent import PROVES
from proved_projects import check, git

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
HANGS = [*PROVES, "hang"]


@pytest.mark.parametrize("waits", [True, False])
def test_next_loop_merges_work_of_a_killed_loop(tmp_path: Path, waits: bool) -> None:
    project = LoopProject(
        tmp_path, 1, {"*": [HANGS]}, config=check("there", "true"), repository=True
    )
    git(project.root, "commit", "--quiet", "--all", "--allow-empty", "--message", "settings")
    loop = project.started("--worktrees")
    project.wait_for("said", 2)
    assert {1: "done"} == project.statuses()
    kill(loop)
    if waits:
        wait_until_gone(project.root)
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "done" == git(project.root, "show", "HEAD:task-1.txt")
    assert [(1, "merged")] == query(project.root, "SELECT task_id, state FROM ralphgen_merges")
    assert [] == project.held()


@pytest.fixture(params=ENGINES)
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A server with one task."""
    with fleet(request.param, tmp_path, 1) as found:
        yield found


def killed(team: Fleet) -> Machine:
    """Kill a worker whose agent has closed its task, and return its machine."""
    machine = team.machine("mac-2")
    machine.follow({"*": [HANGS]})
    running = machine.started(team.server)
    assert until(lambda: 2 == len(machine.log("said"))), running.communicate()
    assert {1: "done"} == team.statuses()
    kill(running)
    wait_until_gone(machine.root)
    return machine


def test_restarted_worker_enters_its_finished_work(team: Fleet) -> None:
    machine = killed(team)
    done = machine.loop(team.server)

    assert 0 == done.returncode, done.stderr
    sql = "SELECT task_id, worker, state FROM ralphgen_merges"
    assert [(1, "mac-2", "waiting")] == query(team.root, sql)
    merged = ralphgen("merges", "run", "--project", team.root)
    assert 0 == merged.returncode, merged.stderr
    assert "done" == git(team.origin, "show", "HEAD:task-1.txt")


def test_work_of_a_lost_worker_is_done_by_another(team: Fleet) -> None:
    lost, other = killed(team), team.machine("mac-3")
    other.follow({"*": [PROVES]})
    query(team.root, "UPDATE ralphgen_claims SET expires = '2020-02-10T00:00:00.000Z'")
    done = other.loop(team.server)

    assert 0 == done.returncode, done.stderr
    sql = "SELECT task_id, worker, state FROM ralphgen_merges"
    assert [(1, "mac-3", "waiting")] == query(team.root, sql)
    late = lost.loop(team.server)
    assert 0 == late.returncode, late.stderr
    assert "this session has lost its claim" in late.stderr
    assert [(1, "mac-3", "waiting")] == query(team.root, sql)
    sql = "SELECT worker, outcome FROM ralphgen_sessions WHERE worker IS NOT NULL ORDER BY worker"
    assert [("mac-2", "failed"), ("mac-3", "done")] == query(team.root, sql)
