"""The tools on the project, and guards of all tools."""

import json
import subprocess
from pathlib import Path

import pytest
from driving import (
    ROWS,
    SCHEMAS,
    Driver,
    connected,
    context_for,
    create_database,
    create_project,
    on_context,
    query,
    quiet,
    server_command,
)

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError

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


BROKEN = b'["caf\xe9"]'


def respelled(root: Path, *changes: tuple[str, str], config: str = "") -> Path:
    """Write a project whose schema differs from a8 in these texts."""
    text = (SCHEMAS / "a8.sql").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    create_database(root, text, ROWS)
    if config:
        (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return root


@pytest.mark.parametrize(
    ("column", "tool", "arguments"),
    [
        ("learnings", "append_feature_learning", {"text": "Tokens expire after an hour."}),
        ("context_files", "add_feature_context_file", {"file_path": "src/auth.py"}),
    ],
)
def test_invalid_bytes_are_not_rewritten(
    tmp_path: Path, column: str, tool: str, arguments: dict[str, str]
) -> None:
    root = create_project(tmp_path)
    query(root, f"UPDATE features SET {column} = CAST(? AS TEXT) WHERE name = 'auth'", BROKEN)
    with connected(root) as server:
        text = server.refusal(tool, feature_name="auth", **arguments)

    assert "ask the user to fix it" in text
    stored = query(root, f"SELECT CAST({column} AS BLOB) FROM features WHERE name = 'auth'")
    assert [(BROKEN,)] == stored


def test_a_discipline_is_named_letter_by_letter(tmp_path: Path) -> None:
    """If the database ignores letter case, the policy would miss removed tools."""
    config = '[disciplines.backend]\ndisable = ["create_task"]\n'
    table = "CREATE TABLE disciplines (\n    name           TEXT PRIMARY KEY"
    root = respelled(tmp_path, (table, f"{table} COLLATE NOCASE"), config=config)
    context = context_for(root, "manual", discipline="Backend")
    command = server_command(root, *on_context(context), "--check")
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)

    assert 2 == done.returncode
    assert 'there is no discipline "Backend"' in done.stderr


@pytest.mark.parametrize(
    "text", ['{"additional_disabled": ["create_task"], "additional_disabled": []}', "[" * 100_000]
)
def test_an_override_that_could_be_read_in_two_ways_is_refused(tmp_path: Path, text: str) -> None:
    root = create_project(tmp_path, "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT")
    query(root, "UPDATE disciplines SET mcp_tool_overrides = ? WHERE name = 'backend'", text)

    with pytest.raises(ProjectError, match='"backend" has an invalid mcp_tool_overrides'):
        regenerate(root, force=False, say=quiet)


@pytest.mark.parametrize("stored", ['[1, "x"]', "[1e0]", "[10e-1]"])
def test_a_task_that_may_still_be_waited_for_is_not_deleted(tmp_path: Path, stored: str) -> None:
    root = create_project(tmp_path)
    query(root, "UPDATE tasks SET depends_on = ? WHERE id = 2", stored)
    with connected(root) as server:
        text = server.refusal("delete_task", id=1)

    assert "task 1 cannot be deleted" in text
    assert [(1,), (2,)] == query(root, "SELECT id FROM tasks ORDER BY id")


@pytest.mark.thorough
def test_deleting_is_not_offered_if_its_guard_is_hidden(tmp_path: Path) -> None:
    root = create_project(tmp_path, config='[schema]\nhide = ["tasks.depends_on"]\n')
    with connected(root) as server:
        code, text = server.protocol_error("delete_task", id=1)

    assert -32602 == code
    assert '"tasks.depends_on"' in text


def test_a_new_task_does_not_inherit_the_comments_of_a_deleted_one(tmp_path: Path) -> None:
    """Ids come back, and not every schema deletes comments with their task."""
    root = respelled(tmp_path, (" REFERENCES tasks (id) ON DELETE CASCADE", ""))
    with connected(root) as server:
        server.call("add_task_comment", task_id=2, author="Ada", body="Old.")
        server.call("delete_task", id=2)
        new = server.call("create_task", feature="auth", discipline="backend", title="New")
        task = server.call("get_task", id=new["id"])

    assert 2 == new["id"]
    assert "comments" not in task


def test_the_key_of_a_row_cannot_be_emptied(tmp_path: Path) -> None:
    root = respelled(tmp_path, ("acronym          TEXT NOT NULL UNIQUE", "acronym          TEXT"))
    with connected(root) as server:
        text = server.refusal("update_feature", name="auth", clear=["acronym"])

    assert '"clear[0]" is "acronym"' in text
    assert [("AUTH",)] == query(root, "SELECT acronym FROM features WHERE name = 'auth'")


def test_a_foreign_table_of_comments_is_left_alone(tmp_path: Path) -> None:
    root = create_project(
        tmp_path,
        "DROP TABLE task_comments",
        "CREATE TABLE task_comments (nr INTEGER PRIMARY KEY, task INTEGER, txt TEXT)",
    )
    with connected(root) as server:
        assert "Log in" == server.call("get_task", id=1)["title"]
        assert "add_task_comment" not in server.names()


def test_a_migration_of_columns_that_no_tool_uses_does_not_end_the_session(tmp_path: Path) -> None:
    root = create_project(
        tmp_path,
        "ALTER TABLE tasks ADD COLUMN junk TEXT",
        config='[schema]\nhide = ["tasks.junk"]\n',
    )
    with connected(root) as server:
        query(root, "ALTER TABLE tasks DROP COLUMN junk")
        query(root, "ALTER TABLE recipe_configs DROP COLUMN updated")

        assert 2 == server.call("list_tasks")["total"]


def test_disabled_tools_of_a_context_are_disabled(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    with connected(root, disabled_tools={"ralph": ["delete_task"]}) as server:
        assert "delete_task" not in server.names()
