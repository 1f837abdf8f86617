"""Comments on tasks, and who is said to have written them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, query


@pytest.fixture(scope="module")
def agent(project: Path, server: Driver) -> Iterator[Driver]:
    """Yield an agent's session, in addition to the user's."""
    assert server.names()
    with connected(project, "task_execution", discipline="backend") as driver:
        yield driver


def stored(project: Path, comment: int) -> tuple[Any, ...]:
    columns = "task_id, author, discipline, priority, body"
    (row,) = query(project, f"SELECT {columns} FROM task_comments WHERE id = ?", comment)
    return row


def test_the_user_names_the_author(project: Path, server: Driver) -> None:
    answer = server.call(
        "add_task_comment",
        task_id=1,
        author="human",
        body=" as it is\n",
        discipline="frontend",
        priority="high",
    )

    assert 1 == answer["task_id"]
    assert (1, "human", "frontend", "high", " as it is\n") == stored(project, answer["id"])
    ((created, now),) = query(
        project,
        "SELECT substr(created, 1, 11), strftime('%Y-%m-%dT', 'now') FROM task_comments "
        "WHERE id = ?",
        answer["id"],
    )
    assert now == created


def test_an_agent_is_signed_by_the_server(project: Path, agent: Driver) -> None:
    answer = agent.call("add_task_comment", task_id=1, body="b")

    assert (1, "backend", "backend", None, "b") == stored(project, answer["id"])

    closed = agent.call("set_task_status", status="in_progress", summary="s")

    assert (1, "backend", "backend", None, "s") == stored(project, closed["comment"])


@pytest.mark.parametrize("argument", ["author", "discipline", "agent_task_id", "created"])
def test_an_agent_cannot_sign_as_someone_else(agent: Driver, argument: str) -> None:
    text = agent.refusal("add_task_comment", task_id=1, body="b", **{argument: "human"})

    assert f'unknown argument "{argument}"' in text


def test_a_persona_that_is_deleted_meanwhile_still_signs(project: Path, server: Driver) -> None:
    look = {"icon": "Code", "color": "#068d87"}
    server.call("create_discipline", name="passing", display_name="Passing", **look)
    with connected(project, "opus_review", discipline="passing") as agent:
        server.call("delete_discipline", name="passing")
        answer = agent.call("set_task_status", id=1, status="pending", summary="s")

    assert (1, "passing", None, None, "s") == stored(project, answer["comment"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"task_id": 99}, "there is no task 99"),
        ({"body": " \n"}, '"body" must not be blank'),
        ({"author": ""}, '"author" must not be blank'),
        ({"author": None}, 'argument "author" is null'),
        ({"discipline": "backnd"}, 'there is no discipline "backnd": did you mean "backend"?'),
        ({"priority": "urgent"}, 'expected one of "low", "medium", "high", "critical"'),
        ({"body": "a\0"}, '"body" contains the character U+0000'),
        ({"text": "x"}, 'unknown argument "text"'),
    ],
)
def test_a_comment_that_cannot_be_is_refused(
    project: Path, server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    before = query(project, "SELECT COUNT(*) FROM task_comments")
    given = {"task_id": 1, "author": "human", "body": "b", **arguments}

    assert sentence in server.refusal("add_task_comment", **given)
    assert before == query(project, "SELECT COUNT(*) FROM task_comments")


def test_a_comment_is_changed_and_deleted_through_its_own_task_alone(
    project: Path, server: Driver
) -> None:
    comment = server.call("add_task_comment", task_id=1, author="human", body="old")["id"]
    wrong, right = ({"task_id": task, "comment_id": comment} for task in (2, 1))
    refusals = [
        server.refusal("update_task_comment", **wrong, body="new"),
        server.refusal("delete_task_comment", **wrong),
    ]

    assert [f"comment {comment} does not exist on task 2"] * 2 == refusals
    assert '"body" must not be blank' == server.refusal("update_task_comment", **right, body=" ")
    assert '"body" contains the character U+0000' in server.refusal(
        "update_task_comment", **right, body="\0"
    )
    assert (1, "human", None, None, "old") == stored(project, comment)

    changed = server.call("update_task_comment", **right, body="new")

    assert {"id": comment, "task_id": 1} == changed
    assert (1, "human", None, None, "new") == stored(project, comment)
    assert {"deleted": comment, "task_id": 1} == server.call("delete_task_comment", **right)
    assert f"comment {comment} does not exist on task 1" == server.refusal(
        "delete_task_comment", **right
    )
    assert "there is no task 99" == server.refusal(
        "delete_task_comment", task_id=99, comment_id=comment
    )
