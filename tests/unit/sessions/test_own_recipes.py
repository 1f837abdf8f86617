"""A project's own kinds of session, from files and from rows: they take from their base only."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, refused
from driving import Era, create_project, made_here, query
from making_sessions import client_of, opened, session_json

from ralphgen.errors import ProjectError, UsageError

pytestmark = pytest.mark.slow

FILTERS = ("filter_status", "filter_feature", "filter_discipline", "filter_ready")
REVIEW = """
base = "opus_review"
bind = ["feature"]
allow = {ralph = ["list_tasks", "update_task", "update_feature", "append_feature_learning"]}
[narrow]
update_task = ["id", "priority"]
update_feature = ["description", "architecture", "clear"]
"ralph:append_feature_learning" = ["text"]
"""
ONE = """
base = "yap"
bind = ["task"]
[narrow]
set_task_status = ["status"]
update_task = ["description", "clear"]
"""
NARROW = 'base = "task_execution"\nnarrow = {set_task_status = ["status"]}\n'
PERSONA = 'base = "braindump"\nbind = ["discipline"]\n'


def recipe(root: Path, name: str, text: str) -> None:
    folder = root / ".ralph" / "recipes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recipes")
    for name, text in (("review", REVIEW), ("one", ONE), ("narrow", NARROW), ("who", PERSONA)):
        recipe(root, name, text)
    create_project(root)
    rows = (("nightly", "opus_review"), ("a b/../c", "task_execution"), ("lost", "opus_revue"))
    for row in (*rows, ("review", "manual"), ("yap", "manual"), ("nested", "review")):
        query(root, "INSERT INTO recipe_configs (name, base_recipe) VALUES (?, ?)", *row)
    return root


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(
        shutil.copytree(project, tmp_path / "own", ignore=shutil.ignore_patterns("sessions"))
    )


def arguments(tools: Any) -> dict[str, list[str]]:
    """By tool, the names of its arguments."""
    return {tool["name"]: list(tool["inputSchema"]["properties"]) for tool in tools}


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_recipe_file_allows_narrows_and_binds_down_to_the_client(own: Path, era: Era) -> None:
    session = opened(own, "review", feature="auth")
    with client_of(session.mcp_config, era=era) as driver:
        tools = driver.tools()
        hidden = driver.protocol_error("get_task", id=1)
        refusals = [
            driver.refusal("update_task", id=1, description="d"),
            driver.refusal("update_feature", name="auth", description="d"),
            driver.refusal("update_feature", boundaries="b"),
            driver.refusal("update_feature", clear=["boundaries"]),
            driver.refusal("append_feature_learning", text="t", reason="r"),
        ]
        driver.call("update_feature", description="d", clear=["architecture"])
        driver.call("append_feature_learning", text="Sessions rotate")
        driver.call("update_task", id=2, priority="high")

    expected = {
        "list_tasks": [*FILTERS, "limit", "cursor"],
        "update_task": ["id", "priority"],
        "update_feature": ["description", "architecture", "clear"],
        "append_feature_learning": ["text"],
    }
    assert expected == arguments(tools)
    (clearing,) = (tool for tool in tools if tool["name"] == "update_feature")
    fields = clearing["inputSchema"]["properties"]["clear"]["items"]["enum"]
    assert ["description", "architecture"] == fields
    assert "required" not in clearing["inputSchema"]
    assert (-32602, 'Unknown tool: "get_task": the recipe "review" does not include it') == hidden
    for name, refusal in zip(("description", "name", "boundaries"), refusals, strict=False):
        assert f'unknown argument "{name}"' in refusal
    assert "boundaries" in refusals[3]
    assert 'unknown argument "reason"' in refusals[4]
    sql = "SELECT name, description, learnings IS NOT NULL AND learnings <> '[]' FROM features"
    assert [("auth", "d", 1), ("search", None, 0)] == query(own, f"{sql} ORDER BY name")
    assert [("high",)] == query(own, "SELECT priority FROM tasks WHERE id = 2")


def test_the_context_equals_the_recipe_file(own: Path) -> None:
    session = opened(own, "review", feature="auth")
    context = json.loads(session.context.read_bytes())

    assert ("review", "review", "opus_review") == (
        context["recipe"],
        context["base"],
        session.profile,
    )
    narrowed = {
        "update_task": ["id", "priority"],
        "update_feature": ["description", "architecture", "clear"],
        "append_feature_learning": ["text"],
    }
    assert narrowed == context["narrowed_arguments"]["ralph"]
    bound = {
        "update_feature": {"name": "auth"},
        "append_feature_learning": {"feature_name": "auth"},
    }
    assert bound == context["bindings"]["ralph"]


def test_a_recipe_that_binds_a_task_needs_one_and_changes_no_other(own: Path) -> None:
    with pytest.raises(UsageError, match='the recipe "one" needs a task'):
        opened(own, "one")
    session = opened(own, "one", task=2)
    with client_of(session.mcp_config) as driver:
        seen = arguments(driver.tools())
        driver.call("set_task_status", status="skipped")
        driver.call("update_task", description="d")
        refusal = driver.refusal("set_task_status", id=1, status="done")
        read = driver.call("get_task", id=1)["title"]

    assert ("frontend", "auth") == (session.discipline, session.feature)
    assert (["status"], ["description", "clear"]) == (seen["set_task_status"], seen["update_task"])
    assert 'unknown argument "id"' in refusal
    assert "Log in" == read
    sql = "SELECT id, status, description FROM tasks ORDER BY id"
    assert [(1, "pending", None), (2, "skipped", "d")] == query(own, sql)


def test_a_narrowing_recipe_may_drop_bound_tools(own: Path) -> None:
    """task_execution always has a task, so that its id is never asked for."""
    with client_of(opened(own, "narrow", task=1).mcp_config) as driver:
        assert ["status"] == arguments(driver.tools())["set_task_status"]
        assert "blocked" == driver.call("set_task_status", status="blocked")["new"]
        told = driver.client.instructions or ""

    assert "Close the task with set_task_status: done, or blocked." in told


def test_a_recipe_that_binds_a_discipline_is_about_it(own: Path) -> None:
    session = opened(own, "who", discipline="frontend")
    (tool,) = (tool for tool in session.served[0].tools if tool["name"] == "get_discipline")

    assert (None, "frontend") == (session.discipline, session.target)
    assert "frontend" == tool["inputSchema"]["properties"]["name"]["default"]
    with pytest.raises(UsageError, match='the recipe "who" needs a discipline'):
        opened(own, "who")


def test_a_file_that_allows_more_allows_it_from_the_next_regen_on(own: Path) -> None:
    recipe(own, "review", REVIEW.replace('"list_tasks"', '"list_tasks", "get_task"'))
    before = opened(own, "review", feature="auth").served[0].names
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    after = opened(own, "review", feature="auth").served[0].names

    assert "get_task" not in before
    assert "get_task" in after


def test_a_file_that_allows_less_allows_it_no_more_at_once(own: Path) -> None:
    recipe(own, "review", REVIEW.replace('"list_tasks", ', ""))

    assert "list_tasks" not in opened(own, "review", feature="auth").served[0].names


def test_a_recipe_that_is_gone_is_unknown(own: Path) -> None:
    (own / ".ralph" / "recipes" / "one.toml").unlink()

    with pytest.raises(UsageError, match='there is no recipe "one"'):
        opened(own, "one", task=1)


BAD = {
    "more than its base": ('allow = {ralph = ["delete_task"]}', 'does not have "delete_task"'),
    "a tool that is none": ('allow = {ralph = ["list_task"]}', "list_task"),
    "an argument that is none": ('narrow = {get_task = ["id", "ids"]}', 'no argument "ids"'),
    "an argument too few": ("narrow = {get_task = []}", 'cannot be called without "id"'),
    "an argument that is not bound": (
        'bind = ["feature"]\nnarrow = {update_task = ["title"]}',
        'cannot be called without "id"',
    ),
    "a row that is none": ('bind = ["project"]', "bind"),
    "a key that is none": ("disable = []", "disable"),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_a_recipe_that_is_wrong_stops_sessions_of_every_recipe(
    own: Path, text: str, expected: str
) -> None:
    recipe(own, "wrong", f'base = "yap"\n{text}\n')
    with pytest.raises(ProjectError) as caught:
        opened(own, "interactive")
    (problem,) = caught.value.problems

    assert problem.text.startswith(".ralph/recipes/wrong.toml:")
    assert expected in problem.text


def test_a_discussion_may_lose_the_name_that_is_bound_wherever_the_tool_is_seen(own: Path) -> None:
    """Without a discipline the tool is not there, and with one its name is known."""
    recipe(own, "talk", 'base = "discuss"\nnarrow = {update_discipline = ["conventions"]}\n')
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    with client_of(opened(own, "talk", discipline="frontend").mcp_config) as driver:
        driver.call("update_discipline", conventions="c")
        assert ["conventions"] == arguments(driver.tools())["update_discipline"]

    assert "update_discipline" not in opened(own, "talk").served[0].names
    sql = "SELECT name, conventions FROM disciplines ORDER BY name"
    assert [("backend", None), ("frontend", "c")] == query(own, sql)


def test_a_row_is_ruled_by_its_base_and_called_by_its_name(own: Path) -> None:
    facts = session_json(own, "nightly", "--feature", "auth")
    kit = facts["kits"]["ralph"]
    with client_of(facts["mcp_config"]) as driver:
        names = driver.names()
        hidden = driver.protocol_error("delete_task", id=1)
        (prompt,) = driver.portal.call(driver.client.list_prompts).prompts
        narrowed = driver.refusal("update_task", id=1, title="T")
        bound = driver.refusal("update_feature", name="search", description="d")
        comment = driver.call("add_task_comment", task_id=1, body="b")["id"]

    assert ("nightly", "opus_review") == (facts["recipe"], facts["profile"])
    assert (16, "nightly") == (len(names), prompt.name)
    assert names == [tool["name"] for tool in kit["tools"]]
    assert hidden == (
        -32602,
        'Unknown tool: "delete_task": the recipe "nightly" does not include it',
    )
    assert 'unknown argument "title"' in narrowed
    assert 'works only on the feature "auth"' in bound
    assert "for a session of the recipe nightly." in kit["instructions"]
    sql = "SELECT author FROM task_comments WHERE id = ?"
    assert [("nightly",)] == query(own, sql, comment)


def test_a_row_with_an_odd_name_is_a_session_like_another(own: Path) -> None:
    with pytest.raises(UsageError, match="needs a task"):
        opened(own, "a b/../c")
    session = opened(own, "a b/../c", task=1)

    assert session.session_id.startswith("a_b____c-1-")
    assert ("a b/../c", "task_execution") == (session.recipe, session.profile)
    assert 9 == len(session.served[0].names)


def test_a_row_needs_no_regen_and_a_new_base_counts_at_once(own: Path) -> None:
    query(own, "INSERT INTO recipe_configs (name, base_recipe) VALUES ('fresh', 'yap')")
    assert 8 == len(opened(own, "fresh").served[0].names)
    query(own, "UPDATE recipe_configs SET base_recipe = 'discuss' WHERE name = 'fresh'")
    assert 3 == len(opened(own, "fresh").served[0].names)


@pytest.mark.parametrize(
    ("row", "base"), [("lost", "opus_revue"), ("nested", "review")], ids=["typo", "own recipe"]
)
def test_a_row_with_an_unknown_base_is_refused(project: Path, row: str, base: str) -> None:
    said = refused("session", "create", row, "--project", project)

    expected = f'the recipe "{row}" in recipe_configs has the unknown base "{base}"'
    assert expected == said.splitlines()[0]
    assert 'hint: did you mean "opus_review"?' in said


def test_a_row_never_takes_the_place_of_a_recipe_that_is_there(own: Path) -> None:
    assert 8 == len(opened(own, "yap").served[0].names)
    assert 4 == len(opened(own, "review", feature="auth").served[0].names)


def test_rows_and_files_are_among_the_names_that_come_near(project: Path) -> None:
    for wrong, right in (("nightl", "nightly"), ("reviw", "review"), ("yapp", "yap")):
        with pytest.raises(UsageError) as caught:
            opened(project, wrong)
        assert f'did you mean "{right}"?' in caught.value.problems[0].hint


def test_an_era_without_recipe_rows_has_the_built_in_recipes(tmp_path: Path) -> None:
    root = create_project(tmp_path, schema="a0")
    with pytest.raises(UsageError, match='there is no recipe "nightly"'):
        opened(root, "nightly")

    assert 8 == len(opened(root, "yap").served[0].names)
