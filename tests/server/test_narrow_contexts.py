"""A context removes tools and never adds any; without a context only reading tools remain."""

import json
from pathlib import Path

import pytest
from contexts import GOOD, beside
from driving import connected, create_project, quiet
from wire import running

from ralphgen.emit.workflows import regenerate

TAKES = """
ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;
UPDATE disciplines SET mcp_tool_overrides = '{"additional_disabled": ["ralph:create_task"]}'
    WHERE name = 'backend';
"""
CONFIG = '[disciplines.frontend]\ndisable = ["list_tasks"]\n'
OWN_RECIPE = 'base = "yap"\nallow = {ralph = ["list_tasks", "get_task", "update_task"]}\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("closed")
    return create_project(root, TAKES, config=CONFIG)


def test_the_default_context_is_read_if_none_is_named(project: Path) -> None:
    with beside(project, GOOD), running(project) as server:
        server.shake_hands()
        listed = server.ask("tools/list")["result"]["tools"]

    assert ["list_tasks", "create_task"] == [tool["name"] for tool in listed]


def test_without_a_context_only_reading_tools_are_served_with_a_warning(
    project: Path,
) -> None:
    with running(project) as server:
        server.shake_hands()
        listed = server.ask("tools/list")["result"]["tools"]
        server.leave()
        (line,) = server.errors().splitlines()

    assert all(tool["annotations"]["readOnlyHint"] for tool in listed)
    assert 10 == len(listed)
    assert "interactive" in json.loads(line)["data"]


def test_a_context_removes_tools_and_never_adds_any(project: Path) -> None:
    few = {"ralph": ["list_tasks", "delete_task"]}
    with connected(project, "yap", enabled_tools=few) as driver:
        assert ["list_tasks"] == driver.names()

        expected = (
            -32602,
            'Unknown tool: "create_task": this session\'s context does not enable it',
        )
        assert expected == driver.protocol_error("create_task")
        assert 'the recipe "yap" does not include it' in driver.protocol_error("delete_task")[1]


def test_a_kit_that_the_context_does_not_name_has_no_tools(project: Path) -> None:
    with connected(project, "manual", enabled_tools={}) as driver:
        assert [] == driver.names()
        assert "no tools" in (driver.client.instructions or "")


@pytest.mark.parametrize(
    ("discipline", "taken"), [("backend", "create_task"), ("frontend", "list_tasks")]
)
def test_tools_removed_by_a_discipline_are_absent_everywhere(
    project: Path, discipline: str, taken: str
) -> None:
    with connected(project, "yap", discipline=discipline) as driver:
        expected = (-32602, f'Unknown tool: "{taken}": the discipline "{discipline}" removes it')
        assert expected == driver.protocol_error(taken)
        assert taken not in driver.names()
        assert taken not in (driver.client.instructions or "")


def test_a_recipe_that_is_a_row_is_ruled_by_its_base_and_called_by_its_name(project: Path) -> None:
    hostile = 'my "own"\nrecipe\u2028# {{ x }} ' + "x" * 3000
    with connected(project, hostile, base="discuss", target_discipline="backend") as driver:
        told = driver.client.instructions or ""
        names, (_, refusal) = driver.names(), driver.protocol_error("list_tasks")

    assert ["list_disciplines", "get_discipline", "update_discipline", "get_project_info"] == names
    assert r"my \"own\"\nrecipe\u2028#".replace(r"\"", '"') in told.splitlines()[0]
    assert len(told) <= 2000
    assert r'the recipe "my "own"\nrecipe\u2028#' in refusal


def test_a_custom_recipe_keeps_the_allowed_tools_of_its_base(tmp_path: Path) -> None:
    create_project(tmp_path)
    (tmp_path / ".ralph" / "recipes").mkdir()
    (tmp_path / ".ralph" / "recipes" / "sweep.toml").write_text(OWN_RECIPE, encoding="utf-8")
    regenerate(tmp_path, force=False, say=quiet)
    with connected(tmp_path, "sweep", base="yap") as driver:
        assert ["list_tasks", "get_task", "update_task"] == driver.names()
        assert 'the recipe "sweep" does not include it' in driver.protocol_error("create_task")[1]
