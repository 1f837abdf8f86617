"""Workers of a server: loops without the database, on machines of two users."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import query
from fleets import ENGINES, Fleet, fleet
from planned_agent import PROVES
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
    seen = "".join(line["text"] for line in machine.log("ran"))
    assert machine.token not in seen
    sql = "SELECT DISTINCT worker FROM ralphgen_evidence WHERE check_name = 'tests'"
    assert [("mac-2",)] == query(team.root, sql)
    sql = "SELECT outcome, turns, cost_usd, worker FROM ralphgen_sessions WHERE agent = 'claude'"
    assert [("done", 3, 0.25, "mac-2")] * 2 == query(team.root, sql)
