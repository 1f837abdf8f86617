"""Tasks: listing, reading, creating, changing, closing and deleting them."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, query

BASE = {"feature": "auth", "discipline": "backend"}


def create(server: Driver, title: str, **fields: Any) -> int:
    task: int = server.call("create_task", **{**BASE, "title": title, **fields})["id"]
    return task


def stored(project: Path, task: int, *columns: str) -> tuple[Any, ...]:
    (row,) = query(project, f"SELECT {', '.join(columns)} FROM tasks WHERE id = ?", task)
    return row


def today(project: Path) -> str:
    ((date,),) = query(project, "SELECT date('now')")
    return str(date)


def test_a_created_task_holds_all_that_was_given(project: Path, server: Driver) -> None:
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
    assert ("agent", today(project), '["a;b","q\\""]') == stored(
        project, answer["id"], "provenance", "created", "tags"
    )


def test_a_new_task_is_a_draft_with_nothing_made_up(project: Path, server: Driver) -> None:
    task = create(server, "Bare")

    assert ("draft", None, None, None, "[]") == stored(
        project, task, "status", "priority", "description", "updated", "tags"
    )


def test_a_repeated_title_is_said_and_not_refused(server: Driver) -> None:
    first = create(server, "Twice")
    again = server.call("create_task", **BASE, title="TWICE")

    assert [f"task {first} of this feature has the same title"] == again["warnings"]


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
        ({"title": "a\0b"}, '"title" holds the character U+0000'),
        ({"description": "\0"}, '"description" holds the character U+0000'),
        ({"status": "done"}, 'argument "status" is "done": expected one of "draft", "pending"'),
        ({"priority": "hihg"}, 'did you mean "high"?'),
        ({"dependson": [1]}, 'unknown argument "dependson": did you mean "depends_on"?'),
        ({"provenance": "human"}, 'unknown argument "provenance"'),
        ({"tags": "a"}, 'argument "tags" is "a": expected an array of strings'),
    ],
)
def test_what_a_new_task_must_not_be_is_refused_and_leaves_no_row(
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
        ({"depends_on": [1]}, 'task 1 cannot wait for itself: leave 1 out of "depends_on"'),
        ({"depends_on": [2]}, '"depends_on" would go round in a circle: 1 → 2 → 1'),
        ({"depends_on": [77]}, '"depends_on" names tasks that do not exist: 77'),
        ({"context_files": ["C:/x"]}, "begins with a drive"),
        ({"id": 4711, "hints": "x"}, "there is no task 4711"),
        ({"id": "1", "hints": "x"}, 'argument "id" is "1": expected an integer'),
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


def test_a_change_to_what_is_there_already_is_none(project: Path, server: Driver) -> None:
    task = create(server, "Same", hints="h")

    assert [] == server.call("update_task", id=task, hints="h", title="Same")["changed"]
    assert (None,) == stored(project, task, "updated")


def test_a_circle_of_five_is_found_from_any_of_them(server: Driver) -> None:
    ids = [create(server, f"Ring {place}") for place in range(5)]
    for task, needed in zip(ids[1:], ids, strict=False):
        server.call("update_task", id=task, depends_on=[needed])
    text = server.refusal("update_task", id=ids[0], depends_on=[1, ids[4]])
    way = " → ".join(str(task) for task in (ids[0], *reversed(ids)))

    assert f'"depends_on" would go round in a circle: {way}' == text


def test_a_new_task_with_a_reused_id_cannot_close_a_circle(project: Path, server: Driver) -> None:
    first = create(server, "Points ahead")
    query(project, "UPDATE tasks SET depends_on = ? WHERE id = ?", f"[{first + 1}]", first)
    text = server.refusal("create_task", **BASE, title="Reused", depends_on=[first])
    own = server.refusal("create_task", **BASE, title="Reused", depends_on=[first + 1])

    assert f"in a circle: {first + 1} → {first} → {first + 1}" in text
    assert f'"depends_on" names tasks that do not exist: {first + 1}' == own


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


def test_a_list_says_once_what_people_call_features_and_disciplines(
    project: Path, server: Driver
) -> None:
    """A name that people use as it is needs no other; nor does a row without a feature."""
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
    """However long they are and whatever they hold: the page goes on and is no longer than any."""
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


def test_inferred_says_what_a_status_comes_to(project: Path, server: Driver) -> None:
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
def test_pages_hold_each_task_once_whatever_comes_between(
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

    assert 'is none of this list: take "next_cursor" of a page' in text
    assert len(text) < 250


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


def test_a_reason_stays_while_blocked_and_goes_on_leaving(project: Path, server: Driver) -> None:
    task = create(server, "Blocked")
    server.call("set_task_status", id=task, status="blocked", reason="no key")
    server.call("set_task_status", id=task, status="blocked")

    assert ("no key",) == stored(project, task, "blocked_by")
    assert "externally_blocked" == server.call("get_task", id=task)["inferred"]

    server.call("set_task_status", id=task, status="pending")

    assert (None,) == stored(project, task, "blocked_by")


def test_what_others_wrote_into_blocked_by_outlives_other_moves(
    project: Path, server: Driver
) -> None:
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

    assert '"body" holds the character U+0000' in refused
    assert ("done",) == stored(project, task, "status")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"status": "done", "reason": "x"}, '"reason" tells why a task is blocked'),
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
def test_closing_a_task_names_those_that_wait_for_nothing_more(server: Driver, status: str) -> None:
    first, second = create(server, "First"), create(server, "Second")
    both = create(server, "Both", status="pending", depends_on=[first, second])
    create(server, "A draft", depends_on=[second])
    server.call("set_task_status", id=first, status="skipped")
    one = create(server, "One", status="pending", depends_on=[second])

    assert [both, one] == server.call("set_task_status", id=second, status=status)["unblocked"]
    assert "unblocked" not in server.call("set_task_status", id=second, status="done")


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


def test_a_task_that_others_wait_for_stays(project: Path, server: Driver) -> None:
    assert (
        'task 1 cannot be deleted: task 2 "Show the form" depends on it; '
        'take 1 out of its "depends_on" first'
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


def test_a_person_writes_on_what_they_have_read_alone(project: Path) -> None:
    query(
        project, "UPDATE tasks SET title = CAST(X'ff41' AS TEXT), estimated_turns = 2 WHERE id = 1"
    )
    columns = {"title": "\ufffdA", "priority": None, "estimated_turns": 2}
    with connected(project, as_read={"task": 1, "columns": columns}) as server:
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
