"""A session about one row changes that row, names it by itself, and reads all others."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, create_project, query, quiet
from making_sessions import describe_session

from ralphgen.emit.workflows import regenerate

MORE = """
INSERT INTO tasks (id, feature, discipline, title) VALUES (3, 'search', 'backend', 'Find');
INSERT INTO tasks (id, feature, discipline, title, status)
    VALUES (4, 'auth', 'backend', 'A draft', 'draft');
INSERT INTO tasks (id, feature, discipline, title, status)
    VALUES (5, 'auth', 'backend', 'Another draft', 'draft');
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks 1, 2, 4 and 5 are of the feature auth, task 3 is of search; 4 and 5 are drafts."""
    return create_project(tmp_path_factory.mktemp("bound"), MORE)


@pytest.fixture(scope="module")
def agent(project: Path) -> Iterator[Driver]:
    """Yield the client of an agent that executes task 1."""
    with connected(project, "task_execution", task_id=1) as driver:
        yield driver


def schema_of(described: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the input schema of one of the tools that a session sees."""
    (entry,) = (entry for entry in described["tools"] if entry["name"] == tool)
    schema: dict[str, Any] = entry["inputSchema"]
    return schema


def status(project: Path, task: int) -> str:
    return str(query(project, "SELECT status FROM tasks WHERE id = ?", task)[0][0])


@pytest.mark.parametrize("wanted", ["in_progress", "done", "pending"])
def test_an_agent_moves_its_own_task_without_naming_it(
    project: Path, agent: Driver, wanted: str
) -> None:
    agent.call("set_task_status", status="blocked", reason="waits")
    answer = agent.call("set_task_status", status=wanted)

    assert (1, "blocked", wanted) == (answer["id"], answer["old"], answer["new"])
    assert wanted == status(project, 1)
    assert "pending" == status(project, 2)


def test_a_blocked_agent_gives_the_reason(project: Path, agent: Driver) -> None:
    agent.call("set_task_status", id=1, status="pending")
    refusal = agent.refusal("set_task_status", status="blocked")

    assert '"blocked" needs a "reason"' in refusal
    assert "pending" == status(project, 1)
    agent.call("set_task_status", status="blocked", reason="no key")
    expected = [("blocked", "no key")]
    assert expected == query(project, "SELECT status, blocked_by FROM tasks WHERE id = 1")


@pytest.mark.parametrize("refused", ["draft", "skipped", "doen"])
def test_drafts_and_skipped_tasks_are_not_for_an_agent_to_decide_on(
    project: Path, agent: Driver, refused: str
) -> None:
    agent.call("set_task_status", status="in_progress")
    refusal = agent.refusal("set_task_status", status=refused)

    assert "in_progress" == status(project, 1)
    listed = re.findall(r'"([a-z_]+)"', refusal)
    assert {"pending", "in_progress", "done", "blocked"} == set(listed) - {"status", refused}


@pytest.mark.parametrize("other", [2, 3, 99])
def test_another_task_is_refused_by_its_number(project: Path, agent: Driver, other: int) -> None:
    before = query(project, "SELECT id, status, updated FROM tasks WHERE id <> 1")
    refusal = agent.refusal("set_task_status", id=other, status="done")

    expected = f'"id" is {other}, but this session works only on the task 1: omit the argument'
    assert expected in refusal
    assert before == query(project, "SELECT id, status, updated FROM tasks WHERE id <> 1")


def test_any_task_can_be_read_and_the_bound_one_without_its_number(agent: Driver) -> None:
    assert "Log in" == agent.call("get_task")["title"]
    assert "Find" == agent.call("get_task", id=3)["title"]


@pytest.mark.parametrize(("named", "task"), [({}, 1), ({"task_id": 1}, 1), ({"task_id": 2}, 2)])
def test_comments_go_to_tasks_of_the_bound_feature_with_their_author(
    project: Path, agent: Driver, named: dict[str, int], task: int
) -> None:
    answer = agent.call("add_task_comment", body="b", **named)

    sql = "SELECT task_id, author, agent_task_id FROM task_comments WHERE id = ?"
    assert [(task, "backend", 1)] == query(project, sql, answer["id"])


def test_a_summary_is_a_comment_of_the_agent_at_work(project: Path, agent: Driver) -> None:
    answer = agent.call("set_task_status", status="done", summary="did it")

    sql = "SELECT task_id, body, agent_task_id FROM task_comments WHERE id = ?"
    assert [(1, "did it", 1)] == query(project, sql, answer["comment"])


def test_a_comment_on_a_task_of_another_feature_is_refused(project: Path, agent: Driver) -> None:
    count = query(project, "SELECT COUNT(*) FROM task_comments")
    refusal = agent.refusal("add_task_comment", task_id=3, body="b")

    expected = 'task 3 belongs to another feature: this session can comment only on tasks of "auth"'
    assert expected == refusal
    assert count == query(project, "SELECT COUNT(*) FROM task_comments")
    assert "there is no task 99" == agent.refusal("add_task_comment", task_id=99, body="b")


def test_context_files_are_registered_on_the_own_feature_only(project: Path, agent: Driver) -> None:
    assert agent.call("add_feature_context_file", file_path="src/a.ts")["added"]
    agent.call("add_feature_context_file", feature_name="auth", file_path="src/b.ts")
    refusal = agent.refusal("add_feature_context_file", feature_name="search", file_path="src/c.ts")

    expected = '"feature_name" is "search", but this session works only on the feature "auth"'
    assert expected in refusal
    sql = "SELECT name, context_files FROM features ORDER BY name"
    expected_rows = [("auth", ["src/a.ts", "src/b.ts"]), ("search", [])]
    found = [(name, json.loads(files or "[]")) for name, files in query(project, sql)]
    assert expected_rows == found


BOUND = {
    "task_execution": (
        {"task_id": 1},
        {
            ("get_task", "id"): 1,
            ("set_task_status", "id"): 1,
            ("add_task_comment", "task_id"): 1,
            ("add_feature_context_file", "feature_name"): "auth",
        },
    ),
    "enrichment": (
        {"task_id": 4},
        {
            ("get_task", "id"): 4,
            ("enrich_task", "id"): 4,
            ("update_task", "id"): 4,
            ("get_feature", "name"): "auth",
            ("create_task", "feature"): "auth",
        },
    ),
    "discuss": (
        {"target_discipline": "frontend"},
        {("get_discipline", "name"): "frontend", ("update_discipline", "name"): "frontend"},
    ),
    "ramble": (
        {"feature": "search"},
        {
            ("get_feature", "name"): "search",
            ("update_feature", "name"): "search",
            ("append_feature_learning", "feature_name"): "search",
            ("add_feature_context_file", "feature_name"): "search",
        },
    ),
    "opus_review": (
        {"feature": "search"},
        {
            ("get_feature", "name"): "search",
            ("create_task", "feature"): "search",
            ("update_feature", "name"): "search",
            ("append_feature_learning", "feature_name"): "search",
        },
    ),
}


@pytest.mark.parametrize(("recipe", "about"), [(name, BOUND[name]) for name in BOUND], ids=BOUND)
def test_the_schema_shows_a_bound_row_as_the_default_of_an_optional_argument(
    project: Path, recipe: str, about: tuple[dict[str, Any], dict[tuple[str, str], Any]]
) -> None:
    facts, expected = about
    described = describe_session(project, recipe, **facts)
    defaults = {
        (tool["name"], argument): schema["default"]
        for tool in described["tools"]
        for argument, schema in tool["inputSchema"]["properties"].items()
        if "default" in schema
    }

    assert expected == defaults
    for tool, argument in expected:
        assert argument not in schema_of(described, tool).get("required", [])


@pytest.mark.parametrize("recipe", ["braindump", "yap", "manual", "interactive"])
def test_a_session_about_nothing_has_no_defaults(project: Path, recipe: str) -> None:
    assert '"default"' not in json.dumps(describe_session(project, recipe)["tools"])


def test_enrichment_of_a_task_enriches_that_task_only(project: Path) -> None:
    with connected(project, "enrichment", task_id=4) as driver:
        refusals = [
            driver.refusal("enrich_task", id=5, pseudocode="p"),
            driver.refusal("update_task", id=5, title="Taken"),
            driver.refusal("update_task", id=99, title="Taken"),
        ]
        driver.call("update_task", hints="h")
        answer = driver.call("enrich_task", pseudocode="p")
        created = driver.call("create_task", discipline="backend", title="A part")
        other = driver.call("create_task", feature="search", discipline="backend", title="B")

    assert 3 == sum("this session works only on the task 4" in refusal for refusal in refusals)
    assert (4, "pending") == (answer["id"], answer["status"])
    sql = "SELECT feature FROM tasks WHERE id = ?"
    assert [("auth",)] == query(project, sql, created["id"])
    assert [("search",)] == query(project, sql, other["id"])
    sql = "SELECT title, status FROM tasks WHERE id = 5"
    assert [("Another draft", "draft")] == query(project, sql)


def test_enrichment_of_no_task_in_particular_names_each(project: Path) -> None:
    with connected(project, "enrichment") as driver:
        refusal = driver.refusal("enrich_task", pseudocode="p")
        answer = driver.call("enrich_task", id=5, pseudocode="p")

    assert '"id"' in refusal
    assert (5, "pending") == (answer["id"], answer["status"])


def test_a_discussion_changes_its_own_discipline_only(project: Path) -> None:
    with connected(project, "discuss", target_discipline="frontend") as driver:
        refusal = driver.refusal("update_discipline", name="backend", conventions="c")
        driver.call("update_discipline", conventions="c")
        read = driver.call("get_discipline", name="backend")["name"]
        own = driver.call("get_discipline")["conventions"]

    expected = 'is "backend", but this session works only on the discipline "frontend"'
    assert expected in refusal
    assert ("backend", "c") == (read, own)
    sql = "SELECT name, conventions FROM disciplines ORDER BY name"
    assert [("backend", None), ("frontend", "c")] == query(project, sql)


def test_a_discussion_about_no_discipline_cannot_change_any(project: Path) -> None:
    with connected(project, "discuss", target_discipline=None) as driver:
        names = driver.names()
        code, message = driver.protocol_error("update_discipline", name="backend")
        read = driver.call("get_discipline", name="backend")["name"]

    assert ["list_disciplines", "get_discipline", "get_project_info"] == names
    assert (-32602, True) == (code, "about one row" in message)
    assert "backend" == read


@pytest.mark.parametrize("recipe", ["ramble", "opus_review"])
def test_a_session_about_a_feature_changes_no_other(project: Path, recipe: str) -> None:
    with connected(project, recipe, feature="auth") as driver:
        answer = driver.call("append_feature_learning", text=f"Sessions of {recipe} rotate")
        driver.call("update_feature", description=recipe)
        refusals = [
            driver.refusal("update_feature", name="search", description="d"),
            driver.refusal("append_feature_learning", feature_name="search", text="t"),
        ]
        read = driver.call("get_feature", name="search")["name"]

    assert "added" == answer["outcome"]
    assert 2 == sum('works only on the feature "auth"' in refusal for refusal in refusals)
    assert "search" == read
    sql = "SELECT description, learnings FROM features WHERE name = 'search'"
    ((description, learnings),) = query(project, sql)
    assert (None, []) == (description, json.loads(learnings or "[]"))


def test_a_review_of_a_feature_may_look_at_all_tasks_and_close_any(project: Path) -> None:
    with connected(project, "opus_review", feature="search") as driver:
        driver.call("set_task_status", id=2, status="skipped")
        refusals = {
            name: driver.refusal("update_task", id=2, **{name: value})
            for name, value in (("title", "T"), ("hints", "h"), ("clear", ["description"]))
        }
        driver.call("update_task", id=2, priority="high", description="d")

    for name, refusal in refusals.items():
        assert f'unknown argument "{name}"' in refusal
    sql = "SELECT title, status, priority, description FROM tasks WHERE id = 2"
    assert [("Show the form", "skipped", "high", "d")] == query(project, sql)


@pytest.mark.parametrize("era", ["a0", "b6"])
def test_arguments_are_bound_in_every_era(tmp_path: Path, era: str) -> None:
    create_project(tmp_path, schema=era)
    with connected(tmp_path, "task_execution") as driver:
        refusal = driver.refusal("set_task_status", id=2, status="done")
        driver.call("set_task_status", status="done", summary="s")
        driver.call("add_task_comment", task_id=2, body="b")

    assert "works only on the task 1" in refusal
    assert ("done", "pending") == (status(tmp_path, 1), status(tmp_path, 2))
    sql = "SELECT task_id FROM task_comments ORDER BY id"
    assert [(1,), (2,)] == query(tmp_path, sql)


def test_a_migrated_database_binds_as_before(tmp_path: Path) -> None:
    """Statuses that came with a migration are not an agent's, and new columns are no way round."""
    root = create_project(tmp_path)
    path = root / ".ralph" / "db" / "ralph.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "ALTER TABLE tasks ADD COLUMN risk_level TEXT CHECK (risk_level IN ('low', 'high'));"
            "ALTER TABLE task_comments ADD COLUMN mood TEXT"
        )
    regenerate(root, force=False, say=quiet)
    with connected(root, "task_execution") as driver:
        comment = driver.call("add_task_comment", body="b", mood="glad")["id"]
        refusals = [
            driver.refusal("set_task_status", status="done", risk_level="low"),
            driver.refusal("set_task_status", id=2, status="done"),
        ]
    with connected(root, "enrichment", task_id=2) as driver:
        driver.call("update_task", risk_level="high")
        other = driver.refusal("update_task", id=1, risk_level="high")

    assert [("glad", 1)] == query(
        root, "SELECT mood, agent_task_id FROM task_comments WHERE id = ?", comment
    )
    assert 'unknown argument "risk_level"' in refusals[0]
    assert "works only on the task 1" in refusals[1]
    assert "works only on the task 2" in other
    assert [(None,), ("high",)] == query(root, "SELECT risk_level FROM tasks ORDER BY id")
