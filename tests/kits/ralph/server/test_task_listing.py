"""The listed tasks, in pages, with their computed states."""

import json
from pathlib import Path

import pytest
from driving import Driver, query
from task_rows import create


def test_filters_meet_and_misspelled_ones_are_mended(project: Path, server: Driver) -> None:
    query(project, "INSERT INTO features VALUES ('f1','F','FFF1',NULL,NULL,'','',NULL,NULL,'','')")
    mine = create(server, "Mine", feature="f1")
    create(server, "Other", feature="f1", discipline="frontend")
    create(server, "Pending", feature="f1", status="pending")
    listed = server.call(
        "list_tasks", filter_feature="f1", filter_discipline="backend", filter_status="draft"
    )

    assert ([mine], 1) == ([task["id"] for task in listed["tasks"]], listed["total"])
    assert 'did you mean "search"?' in server.refusal("list_tasks", filter_feature="serach")
    assert 'did you mean "backend"?' in server.refusal("list_tasks", filter_discipline="bakend")
    assert 'did you mean "done"?' in server.refusal("list_tasks", filter_status="doen")


def test_a_list_holds_each_display_name_once(project: Path, server: Driver) -> None:
    """The list omits display names equal to the name, and kinds of rows without any."""
    rows = {"ui": 'The "UI"', "plain": "plain", "called": "Called  ü"}
    for number, (name, called) in enumerate(rows.items()):
        query(
            project,
            "INSERT INTO features (name, display_name, acronym, created) VALUES (?, ?, ?, '')",
            *(name, called, f"NM{number:02}"),
        )
    for name in (*rows, "ui"):
        create(server, f"of {name}", feature=name, discipline="backend")
    called = server.call("list_tasks", limit=200)["display_names"]
    one = server.call("list_tasks", filter_feature="plain")

    assert (rows["ui"], rows["called"]) == (called["feature"]["ui"], called["feature"]["called"])
    assert "plain" not in called["feature"]
    assert {"discipline": {"backend": "Backend"}} == one["display_names"]


def test_names_leave_room_for_the_tasks(project: Path, server: Driver) -> None:
    """Long names with any content do not prevent further pages or exceed a page's limit."""
    for number in range(200):
        name, called = f"{number:03}-{'n' * 60}", '\\"\n' * 200
        query(
            project,
            "INSERT INTO features (name, display_name, acronym, created) VALUES (?, ?, ?, '')",
            *(name, called, f"L{number:03}"),
        )
        query(
            project,
            "INSERT INTO tasks (feature, discipline, title, status) VALUES (?, 'backend', ?, ?)",
            *(name, "t" * 400, "skipped"),
        )
    _, text = server.ask("list_tasks", {"limit": 200, "filter_status": "skipped"})
    answer = json.loads(text)
    query(project, "DELETE FROM tasks WHERE length(title) = 400")

    assert 40_000 >= len(text)
    assert len(answer["display_names"]["feature"]) > 10
    assert len(answer["tasks"]) > 40
    assert "next_cursor" in answer


def test_inferred_explains_a_computed_status(project: Path, server: Driver) -> None:
    query(project, "INSERT INTO features VALUES ('inf','I','INFR',NULL,NULL,'','',NULL,NULL,'','')")
    done, skipped, draft = (create(server, title, feature="inf") for title in ("d", "s", "r"))
    server.call("set_task_status", id=done, status="done")
    server.call("set_task_status", id=skipped, status="skipped")
    needs = {"ready": [done, skipped], "waiting_on_deps": [done, draft]}
    for title, ids in needs.items():
        create(server, title, feature="inf", status="pending", depends_on=ids)
    gone = create(server, "waiting_on_deps", feature="inf", status="pending")
    query(project, "UPDATE tasks SET depends_on = '[9999]' WHERE id = ?", gone)
    blocked = create(server, "externally_blocked", feature="inf")
    server.call("set_task_status", id=blocked, status="blocked", reason="no key")
    listed = server.call("list_tasks", filter_feature="inf")["tasks"]

    assert ["done", "skipped", "draft"] == [task["inferred"] for task in listed[:3]]
    assert [task["title"] for task in listed[3:]] == [task["inferred"] for task in listed[3:]]
    assert [{"id": 9999, "missing": True}] == server.call("get_task", id=gone)["dependencies"]


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_pages_hold_each_task_once_despite_concurrent_changes(
    project: Path, server: Driver, limit: int
) -> None:
    """Ids below one are unusual and not forbidden; new rows come while a client pages."""
    query(
        project,
        "INSERT OR IGNORE INTO tasks (id, feature, discipline, title) "
        "VALUES (-5, 'auth', 'backend', 'below'), (0, 'auth', 'backend', 'zero')",
    )
    before = [row[0] for row in query(project, "SELECT id FROM tasks ORDER BY id")]
    seen: list[int] = []
    cursor = None
    while True:
        answer = server.call("list_tasks", limit=limit, cursor=cursor)
        seen += [task["id"] for task in answer["tasks"]]
        cursor = answer.get("next_cursor")
        if cursor is None:
            break
        if len(seen) <= 3 * limit:
            create(server, f"Between {limit} {cursor}")

    assert sorted(set(seen)) == seen
    assert before == seen[: len(before)]
    assert len(seen) == answer["total"]


@pytest.mark.parametrize("cursor", ["x", "", "1.5", "1" * 5_000, "٣", "9" * 19, "1\n"])
def test_a_cursor_of_no_page_is_refused(server: Driver, cursor: str) -> None:
    text = server.refusal("list_tasks", cursor=cursor)

    assert ': use "next_cursor" of a page' in text
    assert len(text) < 250
