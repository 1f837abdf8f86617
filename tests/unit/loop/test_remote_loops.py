"""Workers of a server: loops without the database, on machines of two users."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import RALPHGEN, ralphgen
from driving import query
from fleets import Fleet, fleet
from http_servers import serving
from lifelines import until
from loop_projects import processes_of
from planned_agent import PROVES, Steps
from postgresql import needs_postgresql
from proved_projects import check, git, python

pytestmark = pytest.mark.slow
MERGES_NO_BAD = """
import os, pathlib, sys
bad = [*pathlib.Path().glob("bad-*")]
sys.exit(f"no {bad[0]}" if bad and pathlib.Path().resolve().name == "merge" else 0)
"""
"""A check that fails on bad files, but only in the worktree in which work is merged."""
HOLDS = """
import pathlib, sys, time
place = pathlib.Path(sys.argv[1])
if pathlib.Path().resolve().name == "merge":
    place.with_name("begun").touch()
while pathlib.Path().resolve().name == "merge" and place.exists():
    time.sleep(0.02)
"""
"""A check that takes as long as a file exists, but only in that worktree."""
BAD: Steps = ["begin", ["write", "bad-{task}.txt", "done"], "check", "done"]
PEEK: Steps = [
    "begin",
    ["run", "sh", "-c", "env; cat /proc/$PPID/environ"],
    ["run", str(RALPHGEN), "call", "ralph:get_task"],
    *PROVES[1:],
]


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.thorough])]
)
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A server with two tasks."""
    with fleet(request.param, tmp_path, 2) as found:
        yield found


def entries(team: Fleet) -> list[tuple[Any, ...]]:
    """Return task, worker and state of each entry of the merge queue."""
    return query(team.root, "SELECT task_id, worker, state FROM ralphgen_merges ORDER BY task_id")


@pytest.mark.thorough
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
    assert '"title":"Task 1"' in seen.replace(": ", ":")
    sql = "SELECT DISTINCT worker FROM ralphgen_evidence WHERE run IS NULL"
    assert [("mac-2",)] == query(team.root, sql)
    sql = "SELECT outcome, turns, cost_usd, worker FROM ralphgen_sessions WHERE agent = 'claude'"
    assert [("done", 3, 0.25, "mac-2")] * 2 == query(team.root, sql)


@pytest.mark.thorough
def test_loop_of_a_worker_that_blocks_a_task_needs_the_user(team: Fleet) -> None:
    machine = team.machine("mac-2")
    machine.follow({"1": [["begin", "blocked"]], "*": [PROVES]})

    done = machine.loop(team.server)

    assert {1: "blocked", 2: "done"} == team.statuses()
    assert 5 == done.returncode, done.stderr
    assert "claude, 1 agent\n" in done.stderr
    assert "tasks ready" not in done.stderr


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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_bad_work_among_several_goes_back_with_its_output(tmp_path: Path) -> None:
    with fleet("sqlite", tmp_path, 4, checks=check("tests", *python(MERGES_NO_BAD))) as team:
        first, second = team.machine("mac-2"), team.machine("mac-3", "--merge")
        first.follow({"3": [BAD], "*": [PROVES]})
        second.follow({"3": [["begin"]]})
        done = first.loop(team.server)
        assert 0 == done.returncode, done.stderr
        assert [(task, "waiting", None, None) for task in (1, 2, 3, 4)] == merged(team)
        done = second.loop(team.server, "--max-tasks", "1")
        assert 7 == done.returncode, done.stderr
        assert {1: "done", 2: "done", 3: "pending", 4: "done"} == team.statuses()
        done = first.loop(team.server)
        assert 0 == done.returncode, done.stderr
        done = second.loop(team.server)

        assert 5 == done.returncode, done.stderr
        rows = merged(team)
        assert ["merged", "merged", "returned", "merged", "returned"] == [one[1] for one in rows]
        assert {"mac-3"} == {one[2] for one in rows}
        sql = "SELECT session FROM ralphgen_merges WHERE state = 'returned' ORDER BY number"
        sessions = [session for (session,) in query(team.root, sql)]
        for row, session in zip((rows[2], rows[4]), sessions, strict=True):
            kept = f"the work is kept on ralph/task-3-{session}"
            assert f'"tests" failed on the merged files; {kept}' == row[3]
            assert git(team.origin, "show", f"ralph/task-3-{session}:bad-3.txt")
        assert {1: "done", 2: "done", 3: "blocked", 4: "done"} == team.statuses()
        assert "task 3 is blocked" in done.stderr
        bodies = [one for (one,) in query(team.root, "SELECT body FROM task_comments")]
        assert 2 == sum("It was not merged" in one and "no bad-3.txt" in one for one in bodies)
        assert "bad-3.txt" not in git(team.origin, "ls-tree", "--name-only", "HEAD")
        assert [] == query(team.root, "SELECT 1 FROM ralphgen_runs WHERE worker <> 'mac-3'")
        sql = "SELECT DISTINCT worker FROM ralphgen_evidence WHERE run IS NOT NULL"
        assert [("mac-3",)] == query(team.root, sql)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Fleet, Path]]:
    """A server with two tasks whose work waits, and a file that a check of the queue waits for."""
    hold = tmp_path / "hold"
    hold.touch()
    with fleet("sqlite", tmp_path, 2, checks=check("tests", *python(HOLDS), str(hold))) as team:
        machine = team.machine("mac-2")
        machine.follow({"*": [PROVES]})
        done = machine.loop(team.server)
        assert 0 == done.returncode, done.stderr
        yield team, hold


@pytest.mark.thorough
def test_queue_of_a_killed_worker_is_resumed_by_another(held: tuple[Fleet, Path]) -> None:
    team, hold = held
    first, second = team.machine("mac-3", "--merge"), team.machine("mac-4", "--merge")
    running = first.started(team.server)
    assert until(hold.with_name("begun").exists)
    other = second.started(team.server)
    time.sleep(1)
    running.kill()
    running.communicate()
    assert [("mac-3",)] == query(team.root, "SELECT worker FROM ralphgen_runs WHERE ended IS NULL")
    hold.unlink()
    assert [("waiting",), ("waiting",)] == query(team.root, "SELECT state FROM ralphgen_merges")
    query(team.root, "UPDATE ralphgen_runner SET expires = '2020-02-10T00:00:00.000Z'")

    _, told = other.communicate(timeout=120)
    assert 0 == other.returncode, told
    assert [(1, "merged", "mac-4", None), (2, "merged", "mac-4", None)] == merged(team)
    assert [] == query(team.root, "SELECT 1 FROM ralphgen_runs WHERE ended IS NULL")
    log = git(team.origin, "log", "--first-parent", "--merges", "--format=%s")
    assert 2 == len(log.splitlines())


@pytest.mark.thorough
def test_worker_that_is_revoked_as_it_merges_lands_nothing(held: tuple[Fleet, Path]) -> None:
    team, hold = held
    machine = team.machine("mac-3", "--merge")
    before = git(team.origin, "rev-parse", "HEAD")
    running = machine.started(team.server)
    assert until(hold.with_name("begun").exists)
    assert 0 == ralphgen("worker", "revoke", "mac-3", "--project", team.root).returncode
    hold.unlink()

    _, told = running.communicate(timeout=120)
    assert 2 == running.returncode, told
    assert "the server refuses this worker" in told
    assert before == git(team.origin, "rev-parse", "HEAD")
    assert ["waiting", "waiting"] == [one[1] for one in merged(team)]
    done = ralphgen("merges", "run", "--project", team.root)
    assert 0 == done.returncode, done.stderr
    assert ["merged", "merged"] == [one[1] for one in merged(team)]
