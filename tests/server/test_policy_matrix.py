"""The tools of each kind of session, compared with the lists of SPEC-070 by a live client."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, Era, connected, create_project

READING = """
    list_tasks get_task list_features get_feature list_disciplines get_discipline
    get_project_info get_project_progress read_learnings read_progress
"""
# SPEC-070, "Recipe Tool Profiles": the ALLOWED lists, verbatim.
ALLOWED = {
    "braindump": """
        create_feature create_discipline create_task list_features list_disciplines list_tasks
        get_feature get_discipline get_project_info
    """,
    "yap": """
        list_tasks get_task create_task update_task list_features list_disciplines
        set_task_status get_project_info
    """,
    "ramble": """
        list_features get_feature create_feature update_feature append_feature_learning
        add_feature_context_file list_tasks get_project_info
    """,
    "discuss": "list_disciplines get_discipline update_discipline get_project_info",
    "task_execution": """
        get_task set_task_status add_task_comment append_learning append_progress
        add_feature_context_file read_learnings read_progress get_project_info
    """,
    "opus_review": """
        list_tasks get_task set_task_status update_task create_task add_task_comment list_features
        get_feature update_feature append_feature_learning append_learning append_progress
        read_learnings read_progress get_project_info get_project_progress
    """,
    "enrichment": """
        list_tasks get_task enrich_task update_task create_task list_features get_feature
        list_disciplines get_project_info
    """,
    "interactive": READING,
}
ALL = {
    *READING.split(),
    *(name for names in ALLOWED.values() for name in names.split()),
    "delete_task",
    "delete_feature",
    "delete_discipline",
    "update_task_comment",
    "delete_task_comment",
}
EXPECTED = {**{recipe: set(names.split()) for recipe, names in ALLOWED.items()}, "manual": ALL}
CELLS = [(recipe, era) for recipe in EXPECTED for era in ("auto", "legacy")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("matrix"))


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def cell(project: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Driver]]:
    recipe: str
    era: Era
    recipe, era = request.param
    with connected(project, recipe, era=era) as driver:
        yield recipe, driver


@pytest.mark.thorough
def test_a_session_sees_exactly_the_seeded_tools(cell: tuple[str, Driver]) -> None:
    recipe, driver = cell
    names = driver.names()

    assert EXPECTED[recipe] == set(names)
    assert len(names) == len(set(names))


def test_every_hidden_tool_is_refused_on_call_by_the_name_of_the_recipe(
    cell: tuple[str, Driver],
) -> None:
    recipe, driver = cell
    hidden = sorted(ALL - EXPECTED[recipe])
    expected = [
        (-32602, f'Unknown tool: "{name}": the recipe "{recipe}" does not include it')
        for name in hidden
    ]

    assert expected == [driver.protocol_error(name) for name in hidden]


def test_an_unknown_tool_is_refused_as_such(cell: tuple[str, Driver]) -> None:
    recipe, driver = cell
    near = 'did you mean "list_tasks"?'
    if "list_tasks" not in EXPECTED[recipe]:
        near = f'"list_tasks" is similar, but the recipe "{recipe}" does not include it'

    expected = (-32602, f'Unknown tool: "list_task": this server has none of this name; {near}')
    assert expected == driver.protocol_error("list_task")


def test_nothing_that_a_session_reads_names_a_tool_it_does_not_have(
    cell: tuple[str, Driver],
) -> None:
    recipe, driver = cell
    told = json.dumps(driver.tools()) + str(driver.client.instructions)
    named = set(re.findall(r"[a-z]+(?:_[a-z]+)+", told)) & ALL

    assert EXPECTED[recipe] == named  # and each of its tools is in the list at least


def test_the_instructions_are_short_and_name_every_tool(cell: tuple[str, Driver]) -> None:
    recipe, driver = cell
    told = driver.client.instructions or ""

    assert len(told) <= 2000
    assert EXPECTED[recipe] == set(re.findall(r"[a-z]+(?:_[a-z]+)+", told)) & ALL
    assert recipe in told


def test_closing_is_explained_exactly_if_a_status_can_be_set(cell: tuple[str, Driver]) -> None:
    recipe, driver = cell
    told = "Close the task with set_task_status" in (driver.client.instructions or "")

    assert ("set_task_status" in EXPECTED[recipe]) == told


def test_clear_is_mentioned_exactly_if_an_argument_has_that_name(
    cell: tuple[str, Driver],
) -> None:
    _, driver = cell
    seen = any("clear" in tool["inputSchema"]["properties"] for tool in driver.tools())

    assert seen == ('"clear"' in (driver.client.instructions or ""))


def test_a_review_changes_priority_and_description_of_a_task_and_nothing_else(
    project: Path,
) -> None:
    with connected(project, "opus_review") as driver:
        (tool,) = (tool for tool in driver.tools() if tool["name"] == "update_task")
        refusal = driver.refusal("update_task", id=1, title="Another")

    assert ["id", "description", "priority"] == list(tool["inputSchema"]["properties"])
    assert "title" in refusal


def test_clear_is_not_mentioned_if_the_only_update_is_narrowed(project: Path) -> None:
    with connected(project, "opus_review", enabled_tools={"ralph": ["update_task"]}) as driver:
        told = driver.client.instructions or ""

    assert "Updates change only the given fields." in told
    assert "clear" not in told
