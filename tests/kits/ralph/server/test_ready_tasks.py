"""`filter_ready`: the ready tasks, in their recommended order."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, create_project, query

TASKS: Sequence[tuple[int, str, str | None, str]] = (
    (10, "pending", None, "[]"),
    (11, "pending", "low", "[]"),
    (12, "pending", "critical", "[]"),
    (13, "pending", "high", "[]"),
    (14, "pending", "high", "[]"),
    (15, "pending", "high", "[]"),
    (16, "pending", "low", "[14]"),
    (17, "draft", None, "[16]"),
    (18, "blocked", None, "[15]"),
    (20, "done", "critical", "[]"),
    (21, "skipped", None, "[]"),
    (22, "in_progress", "critical", "[]"),
    (23, "pending", "medium", "[20, 21]"),
    (24, "pending", "critical", "[22]"),
    (25, "pending", "critical", "[999]"),
    (26, "pending", "critical", "[[1]]"),
    (27, "pending", "medium", "20;21"),
    (28, "draft", "critical", "[]"),
    (29, "done", None, "[14]"),
)
"""Id, status, priority and dependencies."""
NEXT = [12, 14, 15, 13, 23, 27, 11, 10]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("ready") / "p", "DELETE FROM tasks")
    for task, status, priority, needs in TASKS:
        sql = (
            "INSERT INTO tasks (id, feature, discipline, title, status, priority, depends_on) "
            "VALUES (?, ?, 'backend', 'T', ?, ?, ?)"
        )
        query(root, sql, task, "auth" if task % 2 else "search", status, priority, needs)
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Any:
    with connected(root) as driver:
        yield driver


def ids(answer: dict[str, Any]) -> list[int]:
    return [task["id"] for task in answer["tasks"]]


def test_the_next_task_comes_first(server: Driver) -> None:
    """By priority, none after low; by how many wait, also through others; by id."""
    answer = server.call("list_tasks", filter_ready=True)

    assert NEXT == ids(answer)
    assert len(NEXT) == answer["total"]
    assert {"ready"} == {task["inferred"] for task in answer["tasks"]}


def test_ready_is_what_the_list_infers(server: Driver) -> None:
    every = server.call("list_tasks", limit=200)["tasks"]

    assert {*NEXT} == {task["id"] for task in every if task["inferred"] == "ready"}


def test_pages_lead_through_all_of_them(server: Driver) -> None:
    found: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        answer = server.call("list_tasks", filter_ready=True, limit=3, **cursor)
        assert len(NEXT) == answer["total"]
        found += ids(answer)
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}

    assert NEXT == found


def test_other_filters_hold_as_well(server: Driver) -> None:
    answer = server.call("list_tasks", filter_ready=True, filter_feature="auth")

    assert [task for task in NEXT if task % 2] == ids(answer)
    assert [] == ids(server.call("list_tasks", filter_ready=True, filter_status="done"))
    assert len(TASKS) == server.call("list_tasks", filter_ready=False)["total"]


@pytest.mark.parametrize("cursor", ["7", "0.0", "a.b.c", "0.0.1.2", "0.0.99999999999999999999", ""])
def test_a_cursor_of_another_list_is_refused(server: Driver, cursor: str) -> None:
    refusal = server.refusal("list_tasks", filter_ready=True, cursor=cursor)

    assert f"invalid cursor {json.dumps(cursor)}" in refusal


def test_a_cursor_of_ready_tasks_is_refused_elsewhere(server: Driver) -> None:
    cursor = server.call("list_tasks", filter_ready=True, limit=1)["next_cursor"]

    assert "invalid cursor" in server.refusal("list_tasks", cursor=cursor)


def test_without_dependencies_all_pending_tasks_are_ready(tmp_path: Path) -> None:
    hide = '[schema]\nhide = ["tasks.depends_on", "tasks.priority"]\n'
    root = create_project(tmp_path / "p", config=hide)

    with connected(root) as driver:
        assert [1, 2] == ids(driver.call("list_tasks", filter_ready=True))


@pytest.mark.thorough
def test_forty_thousand_tasks_are_ordered(tmp_path: Path) -> None:
    rows = (
        "DELETE FROM tasks; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT "
        "40000) INSERT INTO tasks (id, feature, discipline, title, status, depends_on) SELECT i, "
        "'auth', 'backend', 'T', 'pending', CASE WHEN i > 20000 THEN '[' || (i - 20000) || ', ' || "
        "(i - 10000) || ']' ELSE '[]' END FROM n"
    )
    root = create_project(tmp_path / "p", rows)

    with connected(root) as driver:
        answer = driver.call("list_tasks", filter_ready=True, limit=2)

    assert ([1, 2], 20_000) == (ids(answer), answer["total"])
