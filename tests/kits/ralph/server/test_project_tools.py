"""The project as a whole: its title, and how far its tasks have come."""

import json
from pathlib import Path

from driving import Driver, connected, create_project, query

MANY = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO features (name, display_name, acronym) SELECT 'feature-' || i, 'F', 'F' || i FROM n;
INSERT INTO tasks (feature, discipline, title, status)
    SELECT name, 'backend', 't', 'in_progress' FROM features;
"""


def test_info_is_the_metadata_row_or_reports_its_absence(project: Path, server: Driver) -> None:
    assert {"title": "Shop", "created": "2026-02-10"} == server.call("get_project_info")

    query(project, "UPDATE metadata SET project_description = ?", "d" * 9_000)
    answer = server.call("get_project_info")

    assert ("d" * 8_000 + "…", ["description"]) == (answer["description"], answer["cut"])

    query(project, "DELETE FROM metadata")

    assert {"title": "Untitled Project"} == server.call("get_project_info")
    assert 'unknown argument "title"' in server.refusal("get_project_info", title="x")


def test_progress_counts_actionable_tasks(project: Path, server: Driver) -> None:
    """Drafts and skipped tasks are not actionable; the percentage is floored."""
    for status in ("draft", "skipped", "done", "done", "blocked", "odd"):
        query(
            project,
            "INSERT INTO tasks (feature, discipline, title, status) "
            "VALUES ('search', 'backend', 't', ?)",
            status,
        )
    by_status = {"blocked": 1, "done": 2, "draft": 1, "odd": 1, "skipped": 1}
    pending = {"total": 2, "actionable": 2, "done": 0, "percent": 0, "by_status": {"pending": 2}}

    assert {
        "total": 8,
        "actionable": 6,
        "done": 2,
        "percent": 33,
        "by_status": {**by_status, "pending": 2},
        "by_feature": {
            "auth": pending,
            "search": {
                "total": 6,
                "actionable": 4,
                "done": 2,
                "percent": 50,
                "by_status": by_status,
            },
        },
    } == server.call("get_project_progress")


def test_progress_of_thousands_of_features_remains_readable(tmp_path: Path) -> None:
    create_project(tmp_path, MANY)
    with connected(tmp_path, "opus_review") as server:
        text = server.ask("get_project_progress")[1]
        answer = json.loads(text)
        query(tmp_path, "UPDATE tasks SET status = hex(randomblob(40)) WHERE id < 3000")
        odd = server.ask("get_project_progress")[1]

    assert len(text) <= 40_000
    assert 5_004 == answer["total"]
    assert 5_002 == len(answer["by_feature"]) + answer["features_left_out"]
    assert len(odd) <= 40_000
    assert 5_004 == json.loads(odd)["total"]


def test_progress_without_tasks_does_not_divide_by_zero(tmp_path: Path) -> None:
    create_project(tmp_path, "DELETE FROM tasks")
    with connected(tmp_path, "opus_review") as server:
        answer = server.call("get_project_progress")

    empty = {"total": 0, "actionable": 0, "done": 0, "percent": 0}
    assert {**empty, "by_status": {}, "by_feature": {}} == answer
