"""Workers of a server: loops without the database, on machines of two users."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen
from driving import query
from fleets import ENGINES, Fleet, fleet
from http_servers import serving
from lifelines import until
from loop_projects import processes_of
from planned_agent import PROVES, Steps
from proved_projects import git

pytestmark = pytest.mark.slow
PEEK = ["begin", ["run", "sh", "-c", "env; cat /proc/$PPID/environ"], *PROVES[1:]]


@pytest.fixture(params=ENGINES)
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A server with two tasks."""
    with fleet(request.param, tmp_path, 2) as found:
        yield found


def entries(team: Fleet) -> list[tuple[Any, ...]]:
    """Return task, worker and state of each entry of the merge queue."""
    return query(team.root, "SELECT task_id, worker, state FROM ralphgen_merges ORDER BY task_id")


def test_worker_does_tasks_without_the_database(team: Fleet) -> None:
    machine = team.machine("mac-2")
    machine.follow({"*": [PEEK]})
    done = machine.loop(team.server)

    assert 0 == done.returncode, done.stderr
    assert {1: "done", 2: "done"} == team.statuses()
    assert [(1, "mac-2", "waiting"), (2, "mac-2", "waiting")] == entries(team)
    for task, work, tree, session in query(
        team.root, "SELECT task_id, work, tree, session FROM ralphgen_merges"
    ):
        branch = f"ralph/task-{task}-{session}"
        assert work == git(team.origin, "rev-parse", branch).strip()
        assert tree == git(team.origin, "rev-parse", f"{branch}^{{tree}}").strip()
        assert "done" == git(team.origin, "show", f"{branch}:task-{task}.txt")
    assert not (machine.root / ".ralph/db").exists()
    merged = ralphgen("merges", "run", "--project", team.root)
    assert 0 == merged.returncode, merged.stderr
    assert [(1, "mac-2", "merged"), (2, "mac-2", "merged")] == entries(team)
    assert "done" == git(team.origin, "show", "HEAD:task-1.txt")
    seen = "".join(line["text"] for line in machine.log("ran"))
    assert machine.token not in seen
    sql = "SELECT DISTINCT worker FROM ralphgen_evidence WHERE run IS NULL"
    assert [("mac-2",)] == query(team.root, sql)
    sql = "SELECT outcome, turns, cost_usd, worker FROM ralphgen_sessions WHERE agent = 'claude'"
    assert [("done", 3, 0.25, "mac-2")] * 2 == query(team.root, sql)


def stopped(team: Fleet) -> None:
    """Kill the server with all of its processes."""
    for process in (team.server.process.pid, *team.server.workers()):
        os.kill(process, signal.SIGKILL)
    team.server.process.wait()


@pytest.mark.thorough
def test_task_of_a_killed_worker_is_done_by_another(team: Fleet) -> None:
    first, second = team.machine("mac-2"), team.machine("mac-3")
    first.follow({"*": [["begin", "hang"]]})
    second.follow({"*": [PROVES]})
    running = first.started(team.server, "--max-tasks", "1")
    assert until(lambda: 1 == len(first.log("begin")))
    running.kill()
    running.communicate()
    assert [("mac-2",)] == query(
        team.root, "SELECT worker FROM ralphgen_sessions WHERE worker IS NOT NULL"
    )
    query(team.root, "UPDATE ralphgen_claims SET expires = '2020-02-10T00:00:00.000Z'")

    done = second.loop(team.server)
    assert 0 == done.returncode, done.stderr
    assert {1: "done", 2: "done"} == team.statuses()
    assert [(1, "mac-3", "waiting"), (2, "mac-3", "waiting")] == entries(team)


@pytest.mark.thorough
def test_revoked_worker_stops_and_its_task_is_free(team: Fleet) -> None:
    machine = team.machine("mac-2")
    machine.follow({"*": [["begin", "hang"]]})
    running = machine.started(team.server)
    assert until(lambda: 1 == len(machine.log("begin")))
    assert until(lambda: "in_progress" == team.statuses()[1])
    revoked = ralphgen("worker", "revoke", "mac-2", "--project", team.root)
    assert "revoked worker mac-2 and ended 1 session\n" == revoked.stdout
    assert {1: "pending", 2: "pending"} == team.statuses()

    _, told = running.communicate(timeout=120)
    assert 2 == running.returncode, told
    assert "the server refuses this worker" in told
    assert [] == machine.log("end")
    assert [(0,)] == query(team.root, "SELECT attempts FROM ralphgen_claims WHERE task_id = 1")


@pytest.mark.thorough
def test_work_continues_when_the_server_is_back(team: Fleet, tmp_path: Path) -> None:
    machine, mark = team.machine("mac-2"), str(tmp_path / "go")
    steps: Steps = ["begin", ["write", "task-{task}.txt", "done"], ["wait", mark], "check", "done"]
    machine.follow({"*": [steps]})
    running = machine.started(team.server)
    assert until(lambda: "in_progress" == team.statuses()[1])
    stopped(team)
    Path(mark).touch()
    time.sleep(2)
    with serving(team.root, "--port", str(team.server.port)):
        _, told = running.communicate(timeout=240)

    assert 0 == running.returncode, told
    assert {1: "done", 2: "done"} == team.statuses()
    assert [(1, "mac-2", "waiting"), (2, "mac-2", "waiting")] == entries(team)


@pytest.mark.thorough
def test_agent_stops_when_the_lease_ends_without_a_server(tmp_path: Path) -> None:
    with fleet("sqlite", tmp_path, 1, lease=6) as team:
        machine = team.machine("mac-2")
        machine.follow({"*": [["hang"]]})
        running = machine.started(team.server)
        assert until(lambda: 1 == len(machine.log("begin")))
        assert processes_of(machine.plan)
        stopped(team)
        try:
            assert until(lambda: not processes_of(machine.plan))
        finally:
            running.send_signal(signal.SIGTERM)
            _, told = running.communicate(timeout=120)
    assert "task 1 claim lost" in told
    assert [] == machine.log("end")


def test_clone_with_other_rules_is_refused(team: Fleet) -> None:
    machine = team.machine("mac-2")
    machine.follow({"*": [PROVES]})
    path = machine.root / ".ralph/ralphgen.toml"
    path.write_text(path.read_text("utf-8").replace('"pass"', '"0"'), "utf-8")
    ralphgen("trust", "--yes", "--project", machine.root, more=machine.environment)
    done = machine.loop(team.server, "--max-tasks", "1")

    assert 1 == done.returncode
    assert "lacks the rules on done of the server" in done.stderr
    assert [] == machine.log("begin")
    assert {1: "pending", 2: "pending"} == team.statuses()
    assert [] == query(team.root, "SELECT 1 FROM ralphgen_claims WHERE session IS NOT NULL")


def test_failing_checks_and_changed_files_close_nothing(team: Fleet) -> None:
    machine = team.machine("mac-2")
    late = ["begin", ["write", "a", "1"], "check", ["write", "a", "2"], "done"]
    machine.follow({"*": [late]})
    done = machine.loop(team.server, "--max-tasks", "1")

    assert 7 == done.returncode, done.stderr
    said = [line["text"] for line in machine.log("said")]
    assert "have not passed on the current files" in said[-1]
    assert {1: "pending", 2: "pending"} == team.statuses()
    assert [] == entries(team)


def merged(team: Fleet) -> list[tuple[Any, ...]]:
    """Return task, state, runner and reason of each entry of the merge queue."""
    sql = "SELECT task_id, state, runner, reason FROM ralphgen_merges ORDER BY number"
    return query(team.root, sql)


def test_worker_with_the_right_to_it_merges(team: Fleet) -> None:
    machine = team.machine("mac-2", "--merge")
    machine.follow({"*": [PROVES]})
    before = git(team.root, "rev-parse", "HEAD")
    done = machine.loop(team.server)

    assert 0 == done.returncode, done.stderr
    assert 'worker mac-2 runs the merge queue of "' in done.stderr
    assert [(1, "merged", "mac-2", None), (2, "merged", "mac-2", None)] == merged(team)
    assert {1: "done", 2: "done"} == team.statuses()
    for task in (1, 2):
        assert f"task {task}: merged: as " in done.stderr
        assert "done" == git(team.origin, "show", f"HEAD:task-{task}.txt")
    assert before == git(team.root, "rev-parse", "HEAD")
    log = git(team.origin, "log", "--first-parent", "--merges", "--format=%H %(trailers)")
    assert 2 == log.count("Ralphgen-Batch: ")
    assert {one.split()[0] for one in log.splitlines() if one[40:41] == " "} == {
        commit for (commit,) in query(team.root, "SELECT merged FROM ralphgen_sessions")
    }
    assert [] == query(team.root, "SELECT 1 FROM ralphgen_runner WHERE expires <> ''")
    assert not (machine.root / ".ralph/db").exists()
