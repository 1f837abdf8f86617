"""The status of a project: ready tasks, dependencies, and progress."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from board_rows import LAX, TODAY, add_task, add_tasks, lax_database, stands
from driving import SCHEMAS, connected, create_project, query
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.board.overview import FEATURES, LISTED, STATUS_NAMES, Status, project_status
from ralphgen.board.tasks import TaskLine
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.project.database import FileSnapshot, open_without_trace
from ralphgen.project.root import DATABASE
from ralphgen.runtime.tasks.claims import prerequisite_lists
from ralphgen.runtime.tasks.rows import decode_integers

STATUSES = ("draft", "pending", "in_progress", "done", "blocked", "skipped", "odd")
SAMPLE = ("a0", "a7", "b3", "b6")  # eras that differ most; the others are soaked
Tasks = dict[int, tuple[str, list[int]]]


def of_project(root: Path) -> Status:
    with open_without_trace(root / DATABASE) as file:
        connection = FileSnapshot(file)
        return project_status(connection, Project(root).schema_in(connection), root, TODAY)


def ids(tasks: Iterable[TaskLine]) -> list[int | str]:
    return [task.id for task in tasks]


def database_of(tasks: Tasks) -> sqlite3.Connection:
    connection = lax_database()
    add_tasks(connection, [(task, *rest) for task, rest in tasks.items()])
    return connection


def waiting_for(tasks: Tasks, task: int) -> set[int]:
    """Every other open task that waits for one, step by step until there is no more."""
    opened = {one for one, (status, _) in tasks.items() if status not in ("done", "skipped")}
    found = {task}
    while more := {one for one in opened - found if found & {*tasks[one][1]}}:
        found |= more
    return found - {task}


@given(
    st.dictionaries(
        st.integers(1, 9),
        st.tuples(st.sampled_from(STATUSES), st.lists(st.integers(0, 10), max_size=4)),
    )
)
def test_what_can_be_done_and_what_holds_up_most_are_what_looking_at_each_task_says(
    tasks: Tasks,
) -> None:
    closed = {task for task, (status, _) in tasks.items() if status in ("done", "skipped")}
    opened = sorted(tasks.keys() - closed)
    pending = [task for task in opened if tasks[task][0] == "pending"]
    held_up = {task: len(waiting_for(tasks, task)) for task in opened}
    found = stands(database_of(tasks))
    lines = {line.id: line for line in (*found.holding_up, *found.adrift.tasks)}

    assert sorted(ids(found.ready.tasks)) == [
        task for task in pending if closed.issuperset(tasks[task][1])
    ]
    assert ids(found.holding_up) == sorted(
        (task for task in opened if held_up[task]), key=lambda task: (-held_up[task], task)
    )
    assert ids(found.adrift.tasks) == [task for task in opened if {*tasks[task][1]} - {*tasks}]
    assert {task: held_up[int(task)] for task in lines} == {
        task: line.held_up for task, line in lines.items()
    }
    assert {one for circle in found.circles for one in circle.ids} == {
        task
        for task in opened
        if task in tasks[task][1]
        or any(task in waiting_for(tasks, one) for one in waiting_for(tasks, task))
    }
    assert len(opened) == found.open_total == sum(count for _, count in found.states)


@given(
    st.dictionaries(
        st.integers(1, 9),
        st.tuples(st.sampled_from(STATUSES), st.lists(st.integers(0, 10), max_size=4)),
    )
)
def test_of_many_open_tasks_the_first_are_looked_at(tasks: Tasks) -> None:
    """They may depend on any other task: it exists, but is not examined."""
    closed = {task for task, (status, _) in tasks.items() if status in ("done", "skipped")}
    opened = sorted(tasks.keys() - closed)
    first = opened[:3]
    with patch("ralphgen.board.tasks.MOST_OPEN", 3):
        found = stands(database_of(tasks))

    assert (len(opened), len(first)) == (found.open_total, found.looked_at)
    assert len(first) == sum(count for _, count in found.states)
    assert len(tasks) == found.progress.overall.total
    assert sorted(ids(found.ready.tasks)) == [
        task for task in first if tasks[task][0] == "pending" and closed.issuperset(tasks[task][1])
    ]
    assert ids(found.adrift.tasks) == [task for task in first if {*tasks[task][1]} - {*tasks}]


@given(
    st.lists(st.integers(-3, 10**20)).map(json.dumps)
    | st.text("[]0123456789, \n\"'e.-;x", max_size=12)
    | st.sampled_from(
        [None, 5, 2.5, b"[1]", "[1]\n[2]", "[1],[2]", '["1"]', "[01]", "1;2", "[[1]]"]
    )
)
def test_what_a_task_depends_on_is_read_as_the_tools_read_it(stored: object) -> None:
    """The result does not depend on plain lists next to it."""
    expected = decode_integers(stored).values if decode_integers(stored).readable else None

    assert [[1, 2], expected, []] == prerequisite_lists(["[1, 2]", stored, "[]"])
    assert [expected] == prerequisite_lists([stored])
    assert [expected, expected] == prerequisite_lists([stored, stored])


@pytest.mark.slow
def test_the_tools_say_the_same_of_every_task(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    for task, status in enumerate([*STATUSES, *STATUSES], start=3):
        needed = json.dumps([[], [1], [task - 1, 999], ["3"], [task]][task % 5])
        sql = "INSERT INTO tasks (id, feature, discipline, title, status, depends_on) "
        query(root, f"{sql} VALUES (?, 'auth', 'backend', 'T', ?, ?)", task, status, needed)
    with connected(root) as driver:
        told = driver.call("list_tasks")["tasks"]
    found = of_project(root)
    opened = [task["inferred"] for task in told if task["inferred"] not in ("done", "skipped")]

    assert found.states == tuple(sorted((name, opened.count(name)) for name in {*opened}))
    assert {task["id"] for task in told if task["inferred"] == "ready"} == {*ids(found.ready.tasks)}


def test_ready_tasks_come_by_urgency_then_by_what_they_hold_up() -> None:
    connection = lax_database()
    urgencies = ["low", None, "odd", "critical", "medium", "high", "high", b"high"]
    for task, priority in enumerate(urgencies, start=1):
        add_task(connection, task, "pending", priority=priority)
    add_tasks(connection, [(9, "pending", [7])])

    assert [4, 7, 6, 5, 1, 2, 3, 8] == ids(stands(connection).ready.tasks)


def test_words_block_what_could_be_done_and_are_shown() -> None:
    connection = lax_database()
    add_task(connection, 1, "pending", blocked_by="the vendor")
    add_task(connection, 2, "pending", blocked_by="  ")
    add_task(connection, 3, "blocked", blocked_by="the\nlaw")
    add_task(connection, 4, "blocked")
    add_task(connection, 5, "done", blocked_by="long over")
    add_task(connection, 6, "in_progress", blocked_by="a little")
    found = stands(connection)

    assert [2] == ids(found.ready.tasks)
    assert [(1, "the vendor"), (3, r"the\nlaw"), (4, "")] == [
        (task.id, task.words) for task in found.blocked.tasks
    ]
    assert [(6, "a little")] == [(task.id, task.words) for task in found.in_progress.tasks]


def test_what_is_worked_on_says_since_when_the_longest_untouched_first() -> None:
    connection = lax_database()
    dates = [
        None,
        "2026-02-27",
        "2026-02-10T23:00:00Z",
        "2026-02-11 09:00:00",
        "soon",
        "2099-01-01",
    ]
    for task, updated in enumerate(dates, start=1):
        add_task(connection, task, "in_progress", updated=updated)
    add_task(connection, 7, "in_progress", created="2026-01-01")
    found = stands(connection).in_progress.tasks

    assert [(7, 59), (3, 19), (4, 18), (2, 2), (6, None), (5, None), (1, None)] == [
        (task.id, task.age_days) for task in found
    ]
    assert ("2026-01-01", "soon", "") == (found[0].since, found[5].since, found[6].since)


def test_a_missing_prerequisite_is_named_and_an_unreadable_list_is_no_permission() -> None:
    connection = lax_database()
    add_task(connection, 1, "pending", depends_on="[7, 7, 2, 999999999999999999999]")
    add_task(connection, 2, "pending", depends_on="{broken")
    add_task(connection, 3, "done", depends_on="[8]")
    add_task(connection, 4, "pending", depends_on="3")
    found = stands(connection)

    assert [4] == ids(found.ready.tasks)
    assert [2] == ids(found.unreadable.tasks)
    ((line),) = found.adrift.tasks
    assert (1, (7, 999999999999999999999), (2,)) == (line.id, line.missing, line.waits_for)


def test_circles_are_named_also_those_of_one() -> None:
    connection = lax_database()
    add_tasks(connection, [(task, "pending", [task % 40 + 1]) for task in range(1, 41)])
    add_tasks(connection, [(50, "draft", [50]), (51, "pending", [50]), (60, "done", [60])])
    found = stands(connection)

    assert [(40, tuple(range(1, 21))), (1, (50,))] == [
        (circle.total, circle.ids) for circle in found.circles
    ]
    assert [39] * 20 == [task.held_up for task in found.holding_up]


def test_lists_are_short_and_say_how_much_they_leave_out() -> None:
    connection = lax_database()
    add_tasks(connection, [(task, "pending", []) for task in range(LISTED + 30)])
    connection.executemany(
        "INSERT INTO features (name) VALUES (?)", [(f"f{n}",) for n in range(FEATURES + 300)]
    )
    found = stands(connection)

    assert (LISTED + 30, LISTED, 30) == (
        found.ready.total,
        len(found.ready.tasks),
        found.ready.left_out,
    )
    assert (FEATURES, 301) == (len(found.progress.features), found.progress.features_left_out)


def test_progress_counts_by_feature_and_status_as_people_expect() -> None:
    connection = lax_database()
    connection.execute("INSERT INTO features VALUES ('b', 'Part 10', NULL), ('c', ' ', NULL)")
    connection.execute("INSERT INTO features VALUES ('a', 'part 9', NULL)")
    for task, (feature, status) in enumerate(
        [("b", "done"), ("b", "pending"), ("b", "draft"), ("b", "zig"), ("?", None), ("a", "done")]
    ):
        add_task(connection, task, status, feature=feature)
    found = stands(connection).progress

    assert ("draft", "pending", "done", "", "zig") == found.statuses
    assert [("?", False), ("c", True), ("part 9", True), ("Part 10", True)] == [
        (feature.display_name, feature.known) for feature in found.features
    ]
    counts = found.features[3].counts
    assert (4, 3, 1, 33, (1, 1, 1, 0, 1)) == (
        counts.total,
        counts.actionable,
        counts.done,
        counts.percent,
        counts.by_status,
    )
    assert (6, (1, 1, 2, 1, 1)) == (found.overall.total, found.overall.by_status)


def test_too_many_statuses_are_one_of_them_and_none_is_lost() -> None:
    connection = lax_database()
    for task in range(STATUS_NAMES * 3):
        add_task(connection, task, f"s{task}")
    add_task(connection, 1000, "done")
    found = stands(connection).progress

    assert ("done", "others") == (found.statuses[0], found.statuses[-1])
    assert STATUS_NAMES + 2 == len(found.statuses)
    assert STATUS_NAMES * 3 + 1 == found.overall.total == sum(found.overall.by_status)


ODD: list[Any] = [
    None,
    7,
    -1.5,
    1e999,
    b"\xff\xfe",
    "",
    "x" * 1_000_000,
    "\x1b[31m\n<b>\u202e",
    "\0",
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_any_value_in_any_column_is_survived(odd: object) -> None:
    connection = lax_database(LAX.replace("id INTEGER PRIMARY KEY", "id"))
    names = [row[1] for row in connection.execute("PRAGMA table_info(tasks)")]
    for name in names:
        add_task(connection, 1, "pending", **{"depends_on": "[1]", name: odd})
    add_task(connection, odd, odd, **dict.fromkeys(names[4:], odd))
    connection.execute("INSERT INTO features VALUES (?, ?, ?)", (odd, odd, odd))
    comment = "INSERT INTO task_comments VALUES (?, ?, ?, ?, ?, ?)"
    connection.execute(comment, (odd,) * 6)
    found = stands(connection)
    shown = repr(found)

    assert len(names) + 1 == found.progress.overall.total
    assert "\x1b" not in shown.replace("\\x1b", "")
    assert len(shown) < 100_000


def test_text_that_is_no_utf_8_is_shown_and_changes_nothing_else() -> None:
    connection = lax_database()
    add_tasks(connection, [(1, "pending", []), (2, "pending", [1])])
    spoil = "UPDATE tasks SET title = CAST(x'41ff42' AS TEXT), feature = CAST(x'eda080' AS TEXT)"
    connection.execute(spoil)
    connection.execute("INSERT INTO features (name) VALUES (CAST(x'eda080' AS TEXT))")
    found = stands(connection)

    assert [(1, "A\ufffdB")] == [(task.id, task.title) for task in found.ready.tasks]
    assert 1 == len(found.progress.features)


@pytest.mark.parametrize(
    "era",
    [
        path.stem if path.stem in SAMPLE else pytest.param(path.stem, marks=pytest.mark.soak)
        for path in sorted(SCHEMAS.glob("*.sql"))
        if path.stem not in {"c1", "g2"}
    ],
)
def test_every_era_stands_and_says_what_it_has_no_place_for(tmp_path: Path, era: str) -> None:
    root = create_project(tmp_path, schema=era)
    before = sorted(path.name for path in (root / DATABASE).parent.iterdir())
    found = of_project(root)
    columns = [row[1] for row in query(root, "PRAGMA table_info(features)")]

    assert [1] == ids(found.ready.tasks)
    assert [(1, 1)] == [(task.id, task.held_up) for task in found.holding_up]
    assert ("", "") == (found.lacks, found.comments.lacks)
    assert ("learnings" in columns) == (not found.learnings.lacks)
    assert before == sorted(path.name for path in (root / DATABASE).parent.iterdir())


def test_hidden_and_missing_columns_leave_their_part_out(tmp_path: Path) -> None:
    hidden = '[schema]\nhide = ["tasks.depends_on", "tasks.blocked_by"]\n'
    root = create_project(tmp_path, "UPDATE tasks SET blocked_by = 'secret'", config=hidden)
    found = of_project(root)
    bare = lax_database(
        "CREATE TABLE tasks (id, feature, discipline, title, status); CREATE TABLE features (name);"
        "CREATE TABLE disciplines (name)"
    )
    add_task(bare, 1, "pending")

    assert [1, 2] == ids(found.ready.tasks)
    assert 'the table "tasks" has no column "depends_on"' == found.lacks
    assert "secret" not in repr(found)
    assert 'the database has no table "task_comments"' == stands(bare).comments.lacks
    assert [1] == ids(stands(bare).ready.tasks)


def test_a_database_that_lost_its_heart_is_refused_by_what_is_missing() -> None:
    connection = lax_database(
        "CREATE TABLE tasks (id, feature, title); CREATE TABLE features (name)"
    )
    with pytest.raises(ProjectError) as caught:
        stands(connection)
    (problem,) = caught.value.problems

    assert '"disciplines.name", "tasks.discipline", "tasks.status"' in problem.text
