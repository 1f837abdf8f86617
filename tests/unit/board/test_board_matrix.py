"""The matrix of tools: each cell compared with its session, and the cells' sentences."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import create_project

from ralphgen.board.matrix import OTHERS, matrix
from ralphgen.kits.project import Project
from ralphgen.planning import listing_bytes, session_tools
from ralphgen.project.schema import open_rows
from ralphgen.runtime.kit import Tool
from ralphgen.runtime.policy import FULL, RULES, WITHIN
from ralphgen.runtime.session import BY_COMMAND, Session
from ralphgen.sessions.decide import Request, context_facts, decide_subject

LISTED = {"visible", "narrowed", "bound"}
DISCIPLINES = (None, "backend", "intern")
TASKS = {"backend": 1, "intern": 2}
RECIPES = (
    "braindump",
    "yap",
    "ramble",
    "discuss",
    "task_execution",
    "opus_review",
    "enrichment",
    "interactive",
    "manual",
    "quick-notes",
    "triage",
)
CASES = ("full", "a0", "a5", "b6", "hostile", "specum", "dela", "acm", "structured_output")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(lay_down("full", tmp_path_factory.mktemp("board") / "project"))


def cells(found: Mapping[str, Any], recipe: str, kit: str = "ralph") -> dict[str, Any]:
    """The cells of a recipe by tool."""
    (grid,) = (grid for grid in found["kits"] if grid["key"] == kit)
    return {
        row["tool"]: cell for row in grid["rows"] for cell in row["cells"] if cell.recipe == recipe
    }


def real(project: Project, recipe: str, discipline: str | None) -> dict[str, Tool]:
    """Return the tools of a session that `ralphgen session create` would make."""
    plan, policy = project.plan, project.plan.policy
    (kit,) = plan.kits
    needs = plan.policy.recipes[recipe].targets
    request = Request(
        recipe,
        task=TASKS[discipline or "backend"] if needs.get("task") == "required" else None,
        feature="auth" if needs.get("feature") == "required" else "",
        discipline=discipline or ("backend" if "discipline" in needs else ""),
    )
    with open_rows(project.root) as rows:
        subject = decide_subject(policy, request, rows)
    facts = context_facts(policy, subject, (kit.key,), "x", {})
    if policy.profile(subject.base) == FULL:
        facts["user"] = BY_COMMAND
    session = Session(kit.key, facts, subject.base, policy, "context.json")
    return session.tools(kit.tools)


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_cell_says_what_a_real_session_has(
    full: Project, recipe: str, discipline: str | None
) -> None:
    seen = real(full, recipe, discipline)
    found = cells(matrix(full, discipline), recipe)

    assert {name: tuple(tool.properties) for name, tool in seen.items()} == {
        name: cell.arguments for name, cell in found.items() if cell.state in LISTED
    }
    assert set(RECIPES) == set(full.plan.policy.recipes)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_listed_and_what_it_costs_is_what_a_server_lists(case: str, tmp_path: Path) -> None:
    generated = Project(lay_down(case, tmp_path / "p"))
    found = matrix(generated, None)

    assert [kit.key for kit in generated.plan.kits] == [grid["key"] for grid in found["kits"]]
    for head in found["recipes"]:
        size = 0
        for kit in generated.plan.kits:
            listed = session_tools(generated.plan, head["name"], kit)
            size += listing_bytes(listed)
            shown = cells(found, head["name"], kit.key)
            assert [tool["name"] for tool in listed] == [
                name for name, cell in shown.items() if cell.state in LISTED
            ]
            assert {*kit.absent} == {n for n, cell in shown.items() if cell.state == "absent"}
        assert round(size / 3.2) == head["tokens"]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_tool_is_called_visible_only_where_nothing_is_taken_from_it(
    full: Project, discipline: str | None
) -> None:
    (kit,) = full.plan.kits
    whole = {tool.name: tool for tool in kit.tools}
    found = matrix(full, discipline)
    for recipe in RECIPES:
        for name, tool in real(full, recipe, discipline).items():
            plain = {
                argument: {key: value for key, value in schema.items() if key != "default"}
                for argument, schema in tool.properties.items()
            }
            same = plain == whole[name].properties
            strict = any(tie.reach != "any" for tie in tool.bound_arguments.values())
            expected = "bound" if strict else "visible" if same else "narrowed"
            assert expected == cells(found, recipe)[name].state, (recipe, name)


SENTENCES = {
    ("task_execution", None, "get_task"): (
        "visible",
        "task_execution sees get_task with all its arguments",
        ('"id" is the session\'s own task where it is left out',),
    ),
    ("interactive", None, "get_project_info"): (
        "visible",
        "interactive sees get_project_info as it is: it takes no arguments",
        (),
    ),
    ("opus_review", None, "update_task"): (
        "narrowed",
        'opus_review sees update_task with "id", "description", "priority" alone',
        (),
    ),
    ("task_execution", "backend", "set_task_status"): (
        "bound",
        'task_execution sees set_task_status, where "id" is the session\'s own task and no other',
        ('"status" is one of "pending", "in_progress", "done", "blocked"',),
    ),
    ("task_execution", None, "add_task_comment"): (
        "bound",
        (
            'task_execution sees add_task_comment, where "task_id" is the session\'s own task or '
            "another task of its feature"
        ),
        ('it takes "task_id", "body", "priority" alone',),
    ),
    ("enrichment", None, "update_task"): (
        "visible",
        "enrichment sees update_task with all its arguments",
        ('in a session about a task, "id" is the session\'s own task and no other',),
    ),
    ("discuss", "intern", "update_discipline"): (
        "bound",
        (
            'discuss sees update_discipline, where "name" is the session\'s own discipline and no '
            "other"
        ),
        ("a session that is about no discipline does not have it",),
    ),
    ("triage", None, "append_feature_learning"): (
        "bound",
        (
            'triage sees append_feature_learning, where "feature_name" is not an argument: it is '
            "the session's own feature"
        ),
        (
            'it takes "text", "reason" alone',
            'its base "opus_review" leaves "source" out',
            '.ralph/recipes/triage.toml:9 leaves "task_id" out',
        ),
    ),
    ("yap", None, "delete_task"): (
        "removed",
        "yap does not have delete_task: the recipe leaves it out",
        (),
    ),
    ("yap", "intern", "delete_task"): (
        "removed",
        "yap does not have delete_task: the recipe leaves it out",
        ('besides, it is taken away by mcp_tool_overrides of the discipline "intern"',),
    ),
    ("quick-notes", None, "get_task"): (
        "removed",
        'quick-notes does not have get_task: its base "braindump" leaves it out',
        (),
    ),
    ("triage", None, "list_features"): (
        "removed",
        "triage does not have list_features: .ralph/recipes/triage.toml:5 does not allow it",
        (),
    ),
    ("manual", "intern", "delete_feature"): (
        "removed",
        (
            "manual does not have delete_feature, taken away by mcp_tool_overrides of the "
            'discipline "intern"'
        ),
        ('it is spelled "ralph:delete_feature" there',),
    ),
    ("manual", "intern", "create_discipline"): (
        "removed",
        (
            "manual does not have create_discipline, taken away by .ralph/ralphgen.toml:7: disable "
            'of the discipline "intern"'
        ),
        (),
    ),
}


@pytest.mark.parametrize(("place", "expected"), SENTENCES.items())
def test_a_sentence_says_what_is_left_and_who_took_the_rest(
    full: Project, place: tuple[str, str | None, str], expected: tuple[str, str, tuple[str, ...]]
) -> None:
    recipe, discipline, tool = place
    cell = cells(matrix(full, discipline), recipe)[tool]

    assert expected == (cell.state, cell.sentence, cell.detail)


def test_an_absent_tool_says_what_the_schema_lacks(tmp_path: Path) -> None:
    found = matrix(Project(lay_down("a0", tmp_path / "p")), None)
    (grid,) = found["kits"]
    (row,) = (row for row in grid["rows"] if row["tool"] == "enrich_task")

    assert {"absent"} == {cell.state for cell in row["cells"]}
    sentence = 'enrich_task is not there: the database has no column "tasks.pseudocode"'
    assert {sentence} == {cell.sentence for cell in row["cells"]}
    assert row["description"].startswith("To ")


def test_an_argument_that_another_tool_brings_is_named_with_that_tool(tmp_path: Path) -> None:
    found = matrix(Project(lay_down("specum", tmp_path / "p")), None)
    cell = cells(found, "task_execution", "specum")["ralph_complete_phase"]

    assert "narrowed" == cell.state
    expected = (
        '"import_tasks", "feature", "discipline" comes with the tool "ralph:create_task" alone'
    )
    assert (expected,) == cell.detail


def test_a_tool_that_is_taken_away_twice_names_both(tmp_path: Path) -> None:
    root = lay_down("full", tmp_path / "p")
    config = root / ".ralph" / "ralphgen.toml"
    text = config.read_text(encoding="utf-8").replace("create_discipline", "delete_task")
    config.write_text(text, encoding="utf-8")
    cell = cells(matrix(Project(root), "intern"), "manual")["delete_task"]

    expected = (
        "manual does not have delete_task, taken away by mcp_tool_overrides of the discipline "
        '"intern" and by .ralph/ralphgen.toml:7: disable of the discipline "intern"'
    )
    assert expected == cell.sentence


def test_a_discipline_that_a_session_is_about_takes_nothing_away(tmp_path: Path) -> None:
    """There no session works as it, as `ralphgen session create discuss --discipline` makes it."""
    root = lay_down("full", tmp_path / "p")
    config = root / ".ralph" / "ralphgen.toml"
    text = config.read_text(encoding="utf-8").replace("create_discipline", "get_discipline")
    config.write_text(text, encoding="utf-8")
    generated = Project(root)
    found = matrix(generated, "intern")

    assert "get_discipline" in real(generated, "discuss", "intern")
    assert "visible" == cells(found, "discuss")["get_discipline"].state
    assert "removed" == cells(found, "manual")["get_discipline"].state


def test_a_discipline_that_is_not_there_takes_nothing_away(full: Project) -> None:
    alone, unknown = matrix(full, None), matrix(full, "nobody")

    assert {**alone, "discipline": "nobody"} == unknown


def test_hostile_names_stay_on_one_line_and_the_whole_is_json(tmp_path: Path) -> None:
    name = "a\u2028\x1b[31m<script>"
    taken = '{"additional_disabled": ["delete_task"]}'
    statement = (
        "INSERT INTO disciplines (name, display_name, acronym, icon, color, mcp_tool_overrides) "
        f"VALUES ('{name}', 'H', 'HOST', 'x', '#fff000', '{taken}');"
    )
    found = matrix(Project(lay_down("full", tmp_path / "p", statement)), name)
    cell = cells(found, "manual")["delete_task"]

    assert "removed" == cell.state
    assert r'of the discipline "a\u2028\x1b[31m<script>"' in cell.sentence
    assert name == json.loads(json.dumps(found))["discipline"]


def test_every_reach_within_bounds_has_words() -> None:
    assert {kind for kind, reach in RULES.values() if reach == WITHIN} == {*OTHERS}


def test_tools_on_tables_of_the_project_stand_behind_those_of_the_kit(tmp_path: Path) -> None:
    config = '[tables.risks]\nnoun = "risk"\n[disciplines.frontend]\ndisable = ["delete_risk"]\n'
    table = "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT)"
    generated = Project(create_project(tmp_path / "p", table, config=config))
    (grid,) = matrix(generated, "frontend")["kits"]
    *_, update, delete = grid["rows"]

    assert ("update_risk", "delete_risk") == (update["tool"], delete["tool"])
    assert {"removed", "visible"} == {cell.state for cell in update["cells"]}
    assert {"removed"} == {cell.state for cell in delete["cells"]}
    assert 'the discipline "frontend"' in delete["cells"][-1].sentence
