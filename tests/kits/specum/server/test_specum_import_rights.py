"""Which sessions may import the tasks of a spec, and where to."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, create_project, query
from specum_imports import IMPORT
from specum_projects import KITS
from specum_runs import TASKS, changing, lay_spec, ok

ARGUMENTS = {"import_tasks", "feature", "discipline"}


def offered(root: Path, recipe: str, **facts: Any) -> set[str]:
    """Return the arguments of the bridge that a session of the recipe sees."""
    with connected(root, recipe, kit="specum", **facts) as driver:
        for tool in driver.tools():
            if tool["name"] == "ralph_complete_phase":
                seen = ARGUMENTS & set(tool["inputSchema"]["properties"])
                if not seen:
                    refusal = driver.refusal("ralph_complete_phase", **IMPORT)
                    assert 'unknown argument "import_tasks"' in refusal, refusal
                assert bool(seen) == ("import_tasks" in ok(driver, "ralph_help"))
                return seen
    return set()


@pytest.mark.parametrize(
    ("recipe", "may"),
    [
        ("manual", True),
        ("braindump", True),
        ("yap", True),
        ("enrichment", True),
        ("ramble", False),
        ("task_execution", False),
        ("opus_review", False),
        ("discuss", False),
        ("interactive", False),
    ],
)
def test_only_a_session_that_may_create_tasks_may_import_them(
    root: Path, recipe: str, *, may: bool
) -> None:
    assert (ARGUMENTS if may else set()) == offered(root, recipe)


def test_importing_follows_the_right_to_create_tasks(root: Path, tmp_path: Path) -> None:
    """A discipline, a context, and a disabled kit remove it alike."""
    config = KITS + '[disciplines.backend]\ndisable = ["ralph:create_task"]\n'
    disciplined = create_project(tmp_path / "disciplined", config=config)
    alone = create_project(tmp_path / "alone", config='kits = ["specum"]\n')
    specum = context_kits(root)["specum"]

    assert ARGUMENTS == offered(disciplined, "yap")
    assert set() == offered(disciplined, "yap", discipline="backend")
    assert set() == offered(root, "yap", disabled_tools={"ralph": ["create_task"]})
    assert set() == offered(root, "yap", enabled_tools={"specum": specum})
    assert set() == offered(alone, "manual")


def context_kits(root: Path) -> dict[str, list[str]]:
    told: dict[str, list[str]] = json.loads(
        context_for(root, "manual").read_text(encoding="utf-8")
    )["enabled_tools"]
    return told


def test_a_session_that_is_tied_to_a_feature_imports_there_and_nowhere_else(root: Path) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    tied = {"ralph": {"create_task": {"feature": "search"}}}
    with connected(root, "yap", kit="specum", bindings=tied) as driver:
        with changing(root):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        given = {key: value for key, value in IMPORT.items() if key != "feature"}
        ok(driver, "ralph_complete_phase", **given)

    assert 'argument "feature" is "auth", but this session works only on' in refusal
    assert [("search",)] == query(root, "SELECT DISTINCT feature FROM tasks WHERE id > 2")


def test_a_session_that_gives_new_tasks_a_title_alone_imports_none(root: Path) -> None:
    """An import would write the denied fields: description, criteria, dependencies."""
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    narrowed = {"ralph": {"create_task": ["feature", "discipline", "title"]}}
    with connected(root, "yap", kit="specum", narrowed_arguments=narrowed) as driver:
        with changing(root):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        answer = ok(driver, "ralph_complete_phase", phase="tasks", summary="cut")

    assert 'this session cannot import tasks: omit "import_tasks"' == refusal
    assert "import_tasks" not in answer
