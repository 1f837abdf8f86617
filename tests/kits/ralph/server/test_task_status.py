"""The status of a task: accompanying changes, and refused transitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import Driver, connected, query, quiet
from task_rows import create, stored, today

from ralphgen.emit.workflows import regenerate


def test_done_stamps_and_anything_else_takes_the_stamp_back(project: Path, server: Driver) -> None:
    task = create(server, "Stamps", status="pending")
    answer = server.call("set_task_status", id=task, status="done")

    assert ({"id": task, "old": "pending", "new": "done"}, []) == (
        {key: answer[key] for key in ("id", "old", "new")},
        answer["unblocked"],
    )
    assert (today(project), today(project)) == stored(project, task, "completed", "updated")

    query(project, "UPDATE tasks SET completed = '2020-01-01' WHERE id = ?", task)
    server.call("set_task_status", id=task, status="done")

    assert ("2020-01-01",) == stored(project, task, "completed")

    server.call("set_task_status", id=task, status="in_progress")

    assert (None, "in_progress") == stored(project, task, "completed", "status")


def test_a_reason_remains_only_while_blocked(project: Path, server: Driver) -> None:
    task = create(server, "Blocked")
    server.call("set_task_status", id=task, status="blocked", reason="no key")
    server.call("set_task_status", id=task, status="blocked", reason="no key")

    assert ("no key",) == stored(project, task, "blocked_by")
    assert "externally_blocked" == server.call("get_task", id=task)["inferred"]

    server.call("set_task_status", id=task, status="pending")

    assert (None,) == stored(project, task, "blocked_by")


def test_foreign_text_in_blocked_by_outlives_other_moves(project: Path, server: Driver) -> None:
    task = create(server, "Needs the parser")
    query(project, "UPDATE tasks SET blocked_by = 'needs parser (#16)' WHERE id = ?", task)
    server.call("set_task_status", id=task, status="in_progress")

    assert ("needs parser (#16)",) == stored(project, task, "blocked_by")


def test_a_summary_is_a_comment_of_the_same_transaction(project: Path, server: Driver) -> None:
    task = create(server, "Closes")
    answer = server.call("set_task_status", id=task, status="done", summary="All is well")
    (comment,) = server.call("get_task", id=task)["comments"]

    assert (answer["comment"], "All is well") == (comment["id"], comment["body"])

    refused = server.refusal("set_task_status", id=task, status="pending", summary="nul \0")

    assert '"body" contains the character U+0000' in refused
    assert ("done",) == stored(project, task, "status")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"status": "done", "reason": "x"}, '"reason" is only for the status'),
        ({"status": "blocked", "reason": " "}, '"reason" must not be blank'),
        ({"status": "done", "summary": "\t"}, '"summary" must not be blank'),
        ({"status": "DONE"}, 'did you mean "done"?'),
        ({}, 'argument "status" is missing'),
        ({"status": "done", "id": 4711}, "there is no task 4711"),
    ],
)
def test_a_move_that_cannot_be_is_refused(
    project: Path, server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    before = stored(project, 1, "*")

    assert sentence in server.refusal("set_task_status", **{"id": 1, **arguments})
    assert before == stored(project, 1, "*")


@pytest.mark.parametrize("status", ["done", "skipped"])
def test_closing_a_task_names_the_unblocked_tasks(server: Driver, status: str) -> None:
    first, second = create(server, "First"), create(server, "Second")
    both = create(server, "Both", status="pending", depends_on=[first, second])
    create(server, "A draft", depends_on=[second])
    server.call("set_task_status", id=first, status="skipped")
    one = create(server, "One", status="pending", depends_on=[second])

    assert [both, one] == server.call("set_task_status", id=second, status=status)["unblocked"]
    assert "unblocked" not in server.call("set_task_status", id=second, status="done")


WITHOUT_BLOCKED_BY = "ALTER TABLE tasks DROP COLUMN blocked_by"
WITHOUT_COMMENTS = "DROP TABLE task_comments"


@pytest.mark.thorough
def test_a_reason_without_a_column_is_a_comment(tmp_path: Path) -> None:
    with served(tmp_path, WITHOUT_BLOCKED_BY) as server:
        task = create(server, "No key", status="pending")
        refused = server.refusal("set_task_status", id=task, status="blocked")
        answer = server.call("set_task_status", id=task, status="blocked", reason="no key")
        (comment,) = server.call("get_task", id=task)["comments"]

    assert '"blocked" needs a "reason"' in refused
    assert (answer["comment"], "Blocked: no key") == (comment["id"], comment["body"])


@pytest.mark.thorough
def test_a_reason_that_nothing_can_store_is_not_required(tmp_path: Path) -> None:
    with served(tmp_path, WITHOUT_BLOCKED_BY, WITHOUT_COMMENTS) as server:
        task = create(server, "No key", status="pending")
        answer = server.call("set_task_status", id=task, status="blocked")
        (schema,) = [one for one in server.tools() if one["name"] == "set_task_status"]

    assert "blocked" == answer["new"]
    assert "reason" not in schema["inputSchema"]["properties"]


@contextmanager
def served(folder: Path, *statements: str) -> Iterator[Driver]:
    """Yield a server of a project whose schema was changed."""
    root = lay_down("full", folder / "p", *statements)
    regenerate(root, force=False, say=quiet)
    with connected(root, "manual") as server:
        yield server
