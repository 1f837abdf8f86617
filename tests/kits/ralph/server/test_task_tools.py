"""Tasks: creating, changing, reading and deleting them."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, create_project, query
from task_rows import BASE, create, stored, today


def test_a_created_task_holds_every_argument(project: Path, server: Driver) -> None:
    given = {
        "description": "What is to do",
        "priority": "high",
        "acceptance_criteria": ["it works"],
        "depends_on": [1, 2, 1],
        "tags": ["a;b", 'q"'],
        "context_files": ["./src//a.ts", "src/a.ts"],
        "output_artifacts": ["dist/x"],
        "hints": "plain; text",
        "estimated_turns": 3.0,
    }
    answer = server.call("create_task", **BASE, title="Whole", status="pending", **given)
    task = server.call("get_task", id=answer["id"])

    assert {
        **given,
        **BASE,
        "title": "Whole",
        "status": "pending",
        "depends_on": [1, 2],
        "context_files": ["src/a.ts"],
        "estimated_turns": 3,
    }.items() <= task.items()
    assert "pending" == answer["status"]
    assert ['"src/a.ts" does not exist in the project'] == answer["warnings"]
    assert ("human", today(project), '["a;b","q\\""]') == stored(
        project, answer["id"], "provenance", "created", "tags"
    )


def test_a_new_task_is_a_draft_with_nothing_made_up(project: Path, server: Driver) -> None:
    task = create(server, "Bare")

    assert ("draft", None, None, None, "[]") == stored(
        project, task, "status", "priority", "description", "updated", "tags"
    )


def test_a_repeated_title_is_reported_and_not_refused(server: Driver) -> None:
    first = create(server, "Twice")
    again = server.call("create_task", **BASE, title="TWICE")

    assert [f"task {first} of this feature has the same title"] == again["warnings"]


def test_the_only_name_there_is_agrees_with_its_number(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    with connected(root) as server:
        server.call("delete_feature", name="search")
        refused = server.refusal("create_task", **{**BASE, "feature": "zzz"}, title="x")

    assert 'there is no feature "zzz": there is only "auth"' in refused


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"feature": "auht"}, 'there is no feature "auht": did you mean "auth"?'),
        ({"feature": "zzz"}, 'there is no feature "zzz": there are "auth", "search"'),
        ({"discipline": "Frontend"}, 'there is no discipline "Frontend": did you mean "frontend"?'),
        ({"title": " \n"}, '"title" must not be blank'),
        ({"depends_on": [1, 98, 99]}, '"depends_on" names tasks that do not exist: 98, 99'),
        ({"depends_on": [10**30]}, f'"depends_on" names tasks that do not exist: {10**30}'),
        ({"context_files": ["../x"]}, '"context_files": the path "../x" has ".." as a part'),
        ({"output_artifacts": ["/x"]}, '"output_artifacts": the path "/x" is absolute'),
        ({"estimated_turns": 2**63}, "an integer is beyond 64 bits"),
        ({"title": "a\0b"}, '"title" contains the character U+0000'),
        ({"description": "\0"}, '"description" contains the character U+0000'),
        ({"status": "done"}, 'argument "status" is "done": expected one of "draft", "pending"'),
        ({"priority": "hihg"}, 'did you mean "high"?'),
        ({"dependson": [1]}, 'unknown argument "dependson": did you mean "depends_on"?'),
        ({"provenance": "human"}, 'unknown argument "provenance"'),
        ({"tags": "a"}, 'argument "tags" is "a": expected an array of strings'),
    ],
)
def test_an_invalid_new_task_is_refused_and_leaves_no_row(
    project: Path, server: Driver, change: dict[str, Any], sentence: str
) -> None:
    before = query(project, "SELECT * FROM tasks")
    text = server.refusal("create_task", **{**BASE, "title": "No", **change})

    assert sentence in text
    assert before == query(project, "SELECT * FROM tasks")


def test_null_and_omitted_leave_alone_and_clear_empties(project: Path, server: Driver) -> None:
    fields = {"description": "d", "hints": "h", "tags": ["t"], "priority": "low"}
    task = create(server, "Patch", **fields, acceptance_criteria=["c"])
    columns = ("description", "hints", "tags", "priority", "acceptance_criteria", "updated")
    nulls = server.call("update_task", id=task, title="Patched", description=None, tags=None)

    assert {"id": task, "changed": ["title"]} == nulls
    assert ("d", "h", '["t"]', "low", '["c"]', today(project)) == stored(project, task, *columns)

    cleared = server.call(
        "update_task", id=task, clear=["description", "tags"], acceptance_criteria=[], hints=""
    )

    assert ["acceptance_criteria", "description", "hints", "tags"] == cleared["changed"]
    assert (None, "", "[]", "low", "[]", today(project)) == stored(project, task, *columns)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "nothing to change: give at least one field"),
        ({"title": None, "clear": []}, "nothing to change: give at least one field"),
        ({"title": ""}, '"title" must not be blank'),
        ({"clear": ["title"]}, 'argument "clear[0]" is "title": expected one of'),
        ({"clear": ["hints"], "hints": "x"}, '"hints" is both set and named in "clear"'),
        ({"status": "done"}, 'unknown argument "status"'),
        ({"feature": "search"}, 'unknown argument "feature"'),
        ({"depends_on": [1]}, 'task 1 cannot depend on itself: remove 1 from "depends_on"'),
        ({"depends_on": [2]}, '"depends_on" would create a cycle: 1 → 2 → 1'),
        ({"depends_on": [77]}, '"depends_on" names tasks that do not exist: 77'),
        ({"context_files": ["C:/x"]}, "begins with a drive"),
        ({"id": 4711, "hints": "x"}, "there is no task 4711"),
        ({"id": "one", "hints": "x"}, 'argument "id" is "one": expected an integer'),
        ({"id": True, "hints": "x"}, 'argument "id" is true: expected an integer'),
        ({"id": 2**64, "hints": "x"}, "an integer is beyond 64 bits"),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    project: Path, server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    before = stored(project, 1, "*")
    text = server.refusal("update_task", **{"id": 1, **arguments})

    assert sentence in text
    assert before == stored(project, 1, "*")


def test_a_change_to_the_current_value_is_not_recorded(project: Path, server: Driver) -> None:
    task = create(server, "Same", hints="h")

    assert [] == server.call("update_task", id=task, hints="h", title="Same")["changed"]
    assert (None,) == stored(project, task, "updated")


def test_a_circle_of_five_is_found_from_any_of_them(server: Driver) -> None:
    ids = [create(server, f"Ring {place}") for place in range(5)]
    for task, needed in zip(ids[1:], ids, strict=False):
        server.call("update_task", id=task, depends_on=[needed])
    text = server.refusal("update_task", id=ids[0], depends_on=[1, ids[4]])
    way = " → ".join(str(task) for task in (ids[0], *reversed(ids)))

    assert f'"depends_on" would create a cycle: {way}' == text


def test_a_new_task_with_a_reused_id_cannot_close_a_circle(project: Path, server: Driver) -> None:
    first = create(server, "Points ahead")
    query(project, "UPDATE tasks SET depends_on = ? WHERE id = ?", f"[{first + 1}]", first)
    text = server.refusal("create_task", **BASE, title="Reused", depends_on=[first])
    own = server.refusal("create_task", **BASE, title="Reused", depends_on=[first + 1])

    assert f"a cycle: {first + 1} → {first} → {first + 1}" in text
    assert f'"depends_on" names tasks that do not exist: {first + 1}' == own


def test_a_task_shows_what_it_needs_and_what_needs_it(server: Driver) -> None:
    needed = create(server, "Needed")
    task = create(server, "Between", depends_on=[needed])
    after = create(server, "After", depends_on=[task])
    for body in ("first", "last"):
        server.call("add_task_comment", task_id=needed, author="human", body=body)
    answer = server.call("get_task", id=task)

    assert [
        {
            "id": needed,
            "title": "Needed",
            "status": "draft",
            "last_comment": {"author": "human", "body": "last"},
        }
    ] == answer["dependencies"]
    assert [{"id": after, "title": "After", "status": "draft"}] == answer["dependents"]


def test_the_newest_twenty_comments_are_shown_with_the_total(server: Driver) -> None:
    task = create(server, "Talked about")
    for number in range(23):
        server.call("add_task_comment", task_id=task, author="human", body=f"{number}")
    answer = server.call("get_task", id=task)

    assert [str(number) for number in range(3, 23)] == [row["body"] for row in answer["comments"]]
    assert 23 == answer["comments_total"]


def test_long_fields_are_cut_and_named(server: Driver) -> None:
    task = create(server, "T" * 9_000, description="d" * 8_001, hints="h" * 8_000)
    answer = server.call("get_task", id=task)
    (row,) = [row for row in server.call("list_tasks", limit=200)["tasks"] if row["id"] == task]

    assert ["description", "title"] == answer["cut"]
    assert ("d" * 8_000 + "…", "h" * 8_000) == (answer["description"], answer["hints"])
    assert (["title"], "T" * 500 + "…") == (row["cut"], row["title"])


def test_no_answer_is_longer_than_an_agent_can_read(project: Path, server: Driver) -> None:
    """Escapes count: a control character is six characters of JSON."""
    bad = "\x01" * 50_000
    task = create(server, bad, description=bad, hints=bad, tags=[bad] * 20)
    for _ in range(21):
        server.call("add_task_comment", task_id=task, author=bad, body=bad)
    query(
        project,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        "INSERT INTO tasks (feature, discipline, title, status, depends_on) "
        "SELECT 'search', 'backend', ?, 'pending', ? FROM n",
        "\x02" * 100,
        f"[{task}]",
    )
    texts = [
        server.ask("get_task", {"id": task})[1],
        server.ask("list_tasks", {"limit": 200})[1],
        server.ask("list_tasks", {"limit": 200, "filter_feature": "search"})[1],
        server.ask("delete_task", {"id": task})[1],
        server.ask("set_task_status", {"id": task, "status": "done"})[1],
        server.ask("create_task", {**BASE, "title": bad, "feature": bad})[1],
        server.ask("create_task", {**BASE, "title": "x", "context_files": ["y" * 999] * 500})[1],
        server.ask("update_task", {"id": task, bad: bad})[1],
    ]
    query(project, "DELETE FROM tasks WHERE feature = 'search'")

    assert [] == [text[:200] for text in texts if len(text) > 40_000]
    assert "dependents" in json.loads(texts[0])["cut"]
    assert ["unblocked"] == json.loads(texts[4])["cut"]


def test_a_task_with_dependents_remains(project: Path, server: Driver) -> None:
    assert (
        'task 1 cannot be deleted: task 2 "Show the form" depends on it; '
        'first remove 1 from its "depends_on"'
    ) == server.refusal("delete_task", id=1)
    assert "there is no task 4711" == server.refusal("delete_task", id=4711)
    assert 1 == stored(project, 1, "id")[0]


def test_deleting_names_what_still_mentions_the_task(project: Path, server: Driver) -> None:
    task = create(server, "Goes")
    query(project, "UPDATE tasks SET depends_on = ? WHERE id = ?", f"[{task}]", task)
    server.call("append_feature_learning", feature_name="auth", text="A fact", task_id=task)
    server.call("add_task_comment", task_id=task, author="human", body="cascades")
    (comment,) = query(
        project,
        "INSERT INTO task_comments (task_id, author, body, agent_task_id) "
        "VALUES (1, 'backend', 'b', ?) RETURNING id",
        task,
    )[0]
    answer = server.call("delete_task", id=task)

    assert {
        "deleted": task,
        "still_named_by": [f"comment {comment} on task 1", 'a learning of the feature "auth"'],
    } == answer
    assert [] == query(project, "SELECT id FROM task_comments WHERE task_id = ?", task)


def test_enriching_keeps_the_lists_that_are_left_out(project: Path, server: Driver) -> None:
    task = create(server, "Sketch", acceptance_criteria=["a"], context_files=["src/a.ts"])
    answer = server.call("enrich_task", id=task, pseudocode="do it", acceptance_criteria=["b"])

    assert {"id": task, "status": "pending"} == answer
    assert ("pending", "do it", today(project), '["b"]', '["src/a.ts"]') == stored(
        project, task, "status", "pseudocode", "enriched_at", "acceptance_criteria", "context_files"
    )
    assert f'task {task} is "pending": only a draft can be enriched' == server.refusal(
        "enrich_task", id=task, pseudocode="again"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pseudocode": " "}, '"pseudocode" must not be blank'),
        ({}, 'argument "pseudocode" is missing'),
        ({"pseudocode": "x", "context_files": ["~/x"]}, 'begins with "~"'),
        ({"pseudocode": "x", "id": 4711}, "there is no task 4711"),
    ],
)
def test_an_enrichment_that_cannot_be_leaves_the_draft(
    project: Path, server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    task = create(server, "Stays a draft")

    assert sentence in server.refusal("enrich_task", **{"id": task, **arguments})
    assert ("draft", None) == stored(project, task, "status", "pseudocode")


def test_the_user_overwrites_only_the_version_they_read(project: Path) -> None:
    query(
        project, "UPDATE tasks SET title = CAST(X'ff41' AS TEXT), estimated_turns = 2 WHERE id = 1"
    )
    columns = {"title": "\ufffdA", "priority": None, "estimated_turns": 2}
    with connected(project, as_read={"kind": "task", "key": 1, "columns": columns}) as server:
        server.call("update_task", id=1, hints="not read, and so not looked at")
        server.call("update_task", id=1, hints="again", priority="high")
        said = [
            server.refusal("update_task", id=1, priority="low"),
            server.refusal("set_task_status", id=1, status="skipped"),
            server.refusal("add_task_comment", task_id=1, author="me", body="x"),
        ]
        read = server.call("get_task", id=1)

    assert ["task 1 was changed since it was read: nothing was changed"] * 3 == said
    assert ("again", "high", "pending") == tuple(read[n] for n in ("hints", "priority", "status"))
