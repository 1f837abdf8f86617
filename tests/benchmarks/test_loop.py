"""A loop with eight workers or one, and the time to claim a task among more and more."""

import json
import resource
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from figures import topic
from loop_projects import LoopProject
from planned_agent import Steps
from proved_projects import proved_project

from ralphgen.kits.ralph.rows import writing_tasks
from ralphgen.kits.registry import KITS
from ralphgen.project.inspect import inspect_project
from ralphgen.runtime.tasks.assignment import claim_task
from ralphgen.runtime.tasks.claims import next_tasks

pytestmark = pytest.mark.benchmark

CLOSES: Steps = ["read", ["comment", "looked at {task}"], "begin", "done"]
ROUNDS = 20


def processor_seconds() -> float:
    """Return the CPU time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def calls_of(root: Path) -> list[dict[str, object]]:
    """The calls of all sessions, as their servers have put them on record."""
    files = (root / ".ralph/mcp/sessions").glob("*/calls.jsonl")
    texts = (file.read_text(encoding="utf-8") for file in files)
    return [json.loads(line) for text in texts for line in text.splitlines()]


@pytest.mark.parametrize(("workers", "tasks"), [(8, 400), (1, 50)])
def test_a_loop_over_many_tasks(tmp_path: Path, workers: int, tasks: int) -> None:
    project = LoopProject(tmp_path, tasks, {"*": [CLOSES]})
    with topic("A loop with agents that only read, comment and close") as table:
        row = f"{workers} at once, {tasks} tasks"
        begun, used = time.perf_counter(), processor_seconds()
        loop = project.started("--parallel", str(workers))
        _, said = loop.communicate()
        taken = time.perf_counter() - begun
        assert 0 == loop.returncode, said
        calls = calls_of(project.root)
        sessions = [line["task"] for line in project.log("begin")]
        table.add(row, "tasks a second", tasks / taken)
        table.add(row, "CPU s a task", (processor_seconds() - used) / tasks)
        table.add(row, "a call ms", *(float(str(call["ms"])) for call in calls))
        table.add(row, "the longest call ms", max(float(str(call["ms"])) for call in calls))
        table.add(row, "refused calls", sum(not call["ok"] for call in calls))
        table.add(row, "tasks begun twice", len(sessions) - len({*sessions}))
        assert ["done"] == [*{*project.statuses().values()}]


@pytest.mark.parametrize("tasks", [100, 20_000, 200_000])
def test_claims_among_many_tasks(tmp_path: Path, tasks: int) -> None:
    root = proved_project(tmp_path / "p", "", repository=False)
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
        connection.executemany(
            "INSERT INTO tasks (feature, discipline, title, status) "
            "VALUES ('auth', 'backend', ?, 'pending')",
            [(f"Task {number}",) for number in range(tasks)],
        )
        connection.commit()
    schema = inspect_project(root, KITS).schema
    with (
        topic("Claims of tasks") as table,
        writing_tasks(root, schema) as (database, tables),
    ):
        row = f"one of {tasks:,} ready tasks"
        for number in range(ROUNDS if tasks < 200_000 else 5):
            begun = time.perf_counter()
            found = database.reading(lambda: next_tasks(database, tables))
            chosen = time.perf_counter()
            claim_task(database, tables, f"s-{number}", found[0], 900)
            taken = time.perf_counter()
            table.add(row, "next, without a lock ms", (chosen - begun) * 1000)
            table.add(row, "claim, in a transaction ms", (taken - chosen) * 1000)
