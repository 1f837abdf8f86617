"""Tasks of other tools become tasks of the project, once, and a broken file changes nothing."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from driving import query, quiet

from ralphgen.errors import ProjectError
from ralphgen.exchange.adopt import READERS, import_tasks
from ralphgen.exchange.move import export_text

PEERS = Path(__file__).parent / "peers"
SQL = "SELECT id, title, status, depends_on, tags, priority FROM tasks WHERE id > 2 ORDER BY id"
HOMES = ("auth", "backend")


def take(root: Path, peer: str, path: Path, **options: Any) -> int:
    given = {"homes": HOMES, "dry_run": False, "say": quiet}
    return len(import_tasks(root, peer, path, **{**given, **options}))


def test_task_master(root: Path) -> None:
    take(root, "task-master", PEERS / "task-master")

    assert [
        (3, "Log in", "done", "[]", '["task-master:master/1"]', "high"),
        (4, "Show the form", "in_progress", "[3,5,6]", '["task-master:master/2"]', "medium"),
        (5, "Fields", "in_progress", "[3]", '["task-master:master/2.1"]', None),
        (6, "Button", "pending", "[5,3]", '["task-master:master/2.2"]', None),
        (7, "Later", "draft", "[]", '["task-master:master/3"]', "low"),
        (8, "Log in on a phone", "pending", "[]", '["mobile","task-master:mobile/1"]', "medium"),
    ] == query(root, SQL)
    assert [("A form with e-mail and password.\n\nHash with argon2.",)] == query(
        root, "SELECT description FROM tasks WHERE id = 3"
    )


def test_backlog(root: Path) -> None:
    take(root, "backlog", PEERS / "backlog")

    assert [
        (3, "Maybe single sign-on", "draft", "[]", '["backlog:DRAFT-1"]', None),
        (4, "Log in", "done", "[5]", '["auth","web","backlog:TASK-1"]', "high"),
        (5, "Remember me", "pending", "[]", '["backlog:TASK-1.1"]', "low"),
        (6, "Show the form", "in_progress", "[4]", '["backlog:TASK-2"]', None),
        (7, "Tidy: logs & traces", "pending", "[]", '["backlog:TASK-3"]', None),
    ] == query(root, SQL)
    assert [
        (4, "backlog", "With argon2.", None),
        (4, "backlog", "Works with the test account.", None),
        (6, "@ben", "The button is too small.", "2026-11-22T21:30:00Z"),
    ] == query(root, "SELECT task_id, author, body, created FROM task_comments ORDER BY id")
    assert [('["a right password lets in","a wrong one does not"]', "2026-11-22")] == query(
        root, "SELECT acceptance_criteria, completed FROM tasks WHERE id = 4"
    )


def test_beads(root: Path) -> None:
    take(root, "beads", PEERS / "beads")

    assert [
        (3, "Logging in", "pending", "[4,5]", '["beads:bd-1a2b"]', "high"),
        (4, "Hash passwords", "done", "[]", '["auth","beads:bd-1a2b.1"]', "critical"),
        (5, "Show the form", "in_progress", "[4]", '["web","beads:bd-1a2b.2"]', "medium"),
        (6, "A typo on the page", "blocked", "[]", '["beads:bd-3c4d"]', "low"),
    ] == query(root, SQL)
    assert [("beads", "Works"), ("ben", "The button is too small.")] == query(
        root, "SELECT author, body FROM task_comments ORDER BY id"
    )


def test_spec_kit(root: Path) -> None:
    take(root, "spec-kit", PEERS / "spec-kit")
    tag = "spec-kit:001-user-auth"

    assert [
        (3, "done", "[]", f'["{tag}/T001"]'),
        (4, "done", "[3]", f'["{tag}/T002"]'),
        (5, "pending", "[3]", f'["{tag}/T003"]'),
        (6, "pending", "[4,5]", f'["US1","{tag}/T004"]'),
        (7, "pending", "[6,4]", f'["US1","{tag}/T005"]'),
    ] == query(root, "SELECT id, status, depends_on, tags FROM tasks WHERE id > 2 ORDER BY id")


@pytest.mark.parametrize("peer", READERS)
def test_a_second_import_changes_nothing_and_a_dry_run_neither(root: Path, peer: str) -> None:
    before = export_text(root)

    assert take(root, peer, PEERS / peer, dry_run=True)
    assert before == export_text(root)
    assert take(root, peer, PEERS / peer)
    after = export_text(root)
    assert not take(root, peer, PEERS / peer)
    assert after == export_text(root)


def test_new_tasks_are_imported_with_their_dependencies(root: Path, tmp_path: Path) -> None:
    shutil.copytree(PEERS / "beads", tmp_path / "b")
    file = tmp_path / "b/.beads/issues.jsonl"
    take(root, "beads", file)
    query(root, "UPDATE tasks SET title = 'ours' WHERE id = 4")
    more = {
        "id": "bd-7",
        "title": "More",
        "status": "open",
        "priority": 2,
        "dependencies": [{"depends_on_id": "bd-1a2b.1", "type": "blocks"}],
    }
    file.write_text(file.read_text(encoding="utf-8") + json.dumps(more), encoding="utf-8")

    assert 1 == take(root, "beads", file)
    assert [("[4]",)] == query(root, "SELECT depends_on FROM tasks WHERE title = 'More'")
    assert [("ours",)] == query(root, "SELECT title FROM tasks WHERE id = 4")


def test_a_missing_feature_and_discipline_are_named(root: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        take(root, "beads", PEERS / "beads", homes=("autj", "bakend"))

    assert ['there is no discipline "bakend"', 'there is no feature "autj"'] == [
        problem.text for problem in caught.value.problems
    ]
    assert 'did you mean "auth"?' in str(caught.value)


def test_fields_without_a_column_are_reported(root: Path) -> None:
    query(root, "ALTER TABLE tasks DROP COLUMN hints")
    said: list[str] = []
    take(root, "beads", PEERS / "beads", say=said.append)

    assert any('no column "tasks.hints"' in line for line in said)


TASK = {"id": 1, "title": "x", "status": "pending", "dependencies": [], "subtasks": []}


def tags(*tasks: object) -> str:
    return json.dumps({"master": {"tasks": tasks}})


@pytest.mark.parametrize(
    ("peer", "text", "said"),
    [
        ("task-master", "[" * 100_000, "invalid JSON"),
        ("task-master", "[]", "expected an object of tags"),
        ("task-master", '{"tasks": {}}', '"tasks" is not a list of objects'),
        ("task-master", tags({**TASK, "title": ["x"]}), '"title" is not a string'),
        ("task-master", tags({**TASK, "title": " \n"}), "has no title"),
        (
            "task-master",
            tags({**TASK, "dependencies": [2]}, {**TASK, "id": 2, "dependencies": [1]}),
            "tasks would wait for each other",
        ),
        ("beads", '{"id": "bd-1"', "issues:1: invalid JSON"),
        ("beads", '{"title": "x"}', 'an object with an "id"'),
        ("beads", '{"id": "bd-1", "status": "open", "dependencies": 3}', "not a list of objects"),
        ("backlog", "# no front", "does not start with YAML"),
        ("backlog", "---\ntitle: x\n---\n", 'its YAML has no "id"'),
        ("spec-kit", "# Tasks\n\n- [ ] no id\n", "contains no task"),
    ],
)
def test_a_file_without_a_readable_record_changes_nothing(
    root: Path, tmp_path: Path, peer: str, text: str, said: str
) -> None:
    (tmp_path / "issues").write_text(text, encoding="utf-8")
    before = export_text(root)
    with pytest.raises(ProjectError) as caught:
        take(root, peer, tmp_path / "issues")

    assert said in str(caught.value)
    assert before == export_text(root)


@pytest.mark.parametrize("peer", READERS)
def test_a_directory_without_a_peer_is_refused(root: Path, tmp_path: Path, peer: str) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "pipe", "missing"):
        with pytest.raises(ProjectError):
            take(root, peer, tmp_path / name)
