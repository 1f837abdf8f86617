"""Every recipe for every discipline: the remaining tools and arguments, and their cost."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import connected, quiet
from goldens import Goldens, as_json

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.planning import listing_bytes, session_tools

CASE = "full"
TASKS = {"backend": 1, "intern": 2}  # a task of each persona
PERSONAS = (None, *TASKS)
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
CELLS = [
    (recipe, persona)
    for recipe in RECIPES
    for persona in PERSONAS
    if persona is not None or recipe != "task_execution"  # a task has a persona
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Project]:
    root = lay_down(CASE, tmp_path_factory.mktemp("matrix") / "project")
    return root, regenerate(root, force=False, say=quiet)


def rows(recipe: str, persona: str | None) -> dict[str, int | str]:
    """Return the rows of a session of the cell, by kind."""
    if recipe == "discuss":
        return {"discipline": "backend"}
    if recipe == "triage":
        return {"feature": "auth"}
    if recipe == "task_execution" and persona is not None:
        return {"task": TASKS[persona], "feature": "auth"}
    return {}


def cell(tools: list[dict[str, Any]], whole: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the tools of a list, with their arguments unless complete, and the list's size."""
    return {"bytes": listing_bytes(tools), "tools": [describe(tool, whole) for tool in tools]}


def describe(tool: dict[str, Any], whole: dict[str, dict[str, Any]]) -> str:
    given = tool["inputSchema"]["properties"]
    if given == whole[tool["name"]]["inputSchema"]["properties"]:
        return str(tool["name"])
    arguments = [
        f"{name}={json.dumps(rule['default'])}" if "default" in rule else name
        for name, rule in given.items()
    ]
    return f"{tool['name']}({', '.join(arguments)})"


def everything(generated: Project) -> dict[str, dict[str, Any]]:
    (kit,) = generated.plan.kits
    return {tool["name"]: tool for tool in session_tools(generated.plan, "manual", kit)}


def test_the_matrix_is_the_golden(project: tuple[Path, Project], goldens: Goldens) -> None:
    plan = project[1].plan
    (kit,) = plan.kits
    matrix: dict[str, dict[str, Any]] = {}
    for recipe, persona in CELLS:
        about = rows(recipe, persona)
        tools = session_tools(plan, recipe, kit, discipline=persona, rows=about)
        matrix.setdefault(recipe, {})[persona or ""] = cell(tools, everything(project[1]))
    text = as_json(matrix)

    assert set(RECIPES) == set(plan.policy.recipes)
    goldens.check(f"{CASE}/expected_matrix.json", {".": text})


@pytest.mark.parametrize(("recipe", "persona"), CELLS)
def test_a_live_client_sees_the_tools_of_the_matrix(
    project: tuple[Path, Project], recipe: str, persona: str | None
) -> None:
    root, generated = project
    (kit,) = generated.plan.kits
    about = rows(recipe, persona)
    facts: dict[str, Any] = {
        "discipline": persona,
        "target_discipline": about.get("discipline"),
        "feature": about.get("feature"),
        "task_id": about.get("task"),
    }
    expected = session_tools(generated.plan, recipe, kit, discipline=persona, rows=about)
    with connected(root, recipe, **facts) as driver:
        assert expected == driver.tools()
