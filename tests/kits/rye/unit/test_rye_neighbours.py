"""Imports of a Python tool from its directory, under the same policy as the tool."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import python_tool
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.signing import sign
from ralphgen.runtime.errors import CodedError

pytestmark = pytest.mark.slow

POLICY = {"directive": "warn", "tool": "integrity", "knowledge": "warn"}
TOOL = "import helper\n\n\ndef execute(params, project_path):\n    return helper.value()\n"
HELPER = "def value():\n    return 'helped'\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with opened(tmp_path, policy=POLICY) as workspace:
        yield workspace


def put(workspace: Workspace, item_id: str, code: str, *, signed: bool = True) -> Path:
    """Write a Python file, sign it by default, and return its path."""
    path = workspace.put("tool", item_id, python_tool(item_id, code))
    if signed:
        sign(
            workspace.rye,
            {"item_type": "tool", "item_id": item_id, "project_path": str(workspace.root)},
        )
    return path


def test_tool_imports_its_neighbours(workspace: Workspace) -> None:
    put(workspace, "demo/t", TOOL)
    put(workspace, "demo/helper", "from deeper import value\n")
    put(workspace, "demo/deeper", "import helper\n\n" + HELPER)

    assert "helped" == workspace.run("demo/t")["data"]


def test_neighbours_are_imported_at_the_top_level_and_in_functions(workspace: Workspace) -> None:
    put(
        workspace,
        "t",
        "def execute(params, project_path):\n    from helper import value\n    return value()\n",
    )
    put(workspace, "helper", HELPER)

    assert "helped" == workspace.run("t")["data"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_unsigned_neighbour_is_refused_before_anything_runs(
    workspace: Workspace, *, dry_run: bool
) -> None:
    put(workspace, "demo/t", "open('ran', 'w').close()\n" + TOOL)
    put(workspace, "demo/helper", HELPER, signed=False)
    error = workspace.refuses("tool", "demo/t", dry_run=dry_run)

    assert ("UNSIGNED", "demo/t", "demo/helper") == (
        error.code,
        error.facts["item_id"],
        error.facts["imported"],
    )
    assert 'the tool "demo/t" imports "helper": the tool "demo/helper" of the project' in str(error)
    assert not (workspace.root / "ran").exists()


def test_indirect_neighbour_is_accepted(workspace: Workspace) -> None:
    put(workspace, "demo/t", TOOL)
    put(workspace, "demo/helper", "from deeper import value\n")
    path = put(workspace, "demo/deeper", HELPER)
    path.write_text(path.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")

    assert "INTEGRITY_FAILED" == workspace.refuses("tool", "demo/t").code


@pytest.mark.parametrize("place", ["other/helper", "demo/deep/helper", "helper"])
def test_file_in_another_directory_is_not_a_neighbour(workspace: Workspace, place: str) -> None:
    put(workspace, "demo/t", TOOL)
    put(workspace, place, HELPER)
    (workspace.root / "helper.py").write_text(HELPER, encoding="utf-8")
    error = workspace.refuses("tool", "demo/t")

    assert "ModuleNotFoundError: No module named 'helper'" in str(error)


def test_file_in_another_space_is_not_a_neighbour(workspace: Workspace) -> None:
    put(workspace, "demo/t", TOOL)
    workspace.put("tool", "demo/helper", python_tool("demo/helper", HELPER), space="user")

    assert "ModuleNotFoundError" in str(workspace.refuses("tool", "demo/t"))


def test_neighbour_does_not_shadow_a_standard_module(workspace: Workspace) -> None:
    put(workspace, "demo/t", "import json\n\n\ndef execute(p, q):\n    return json.dumps([])\n")
    put(workspace, "demo/json", "raise SystemExit\n", signed=False)

    assert "[]" == workspace.run("demo/t")["data"]


def test_neighbour_that_changed_after_its_check_does_not_run(workspace: Workspace) -> None:
    put(
        workspace,
        "demo/t",
        "with open(__file__.replace('/t.py', '/helper.py'), 'a') as file:\n"
        "    file.write('VALUE = 2')\n" + TOOL,
    )
    put(workspace, "demo/helper", HELPER)
    error = workspace.refuses("tool", "demo/t")

    assert '"helper.py" has changed since it was checked: execute the tool again' in str(error)


def test_file_without_an_entry_is_signed_with_a_warning_but_not_executed(
    workspace: Workspace,
) -> None:
    workspace.put("tool", "demo/helper", python_tool("demo/helper", HELPER))
    named: dict[str, Any] = {"item_type": "tool", "item_id": "demo/helper"}
    answer = sign(workspace.rye, {**named, "project_path": str(workspace.root)})
    nothing = "no function to call: expected execute(params, project_path) or main(…)"

    assert [f"{nothing}, so only tools in its directory can use it, by import"] == answer[
        "warnings"
    ]
    for dry_run in (False, True):
        error = workspace.refuses("tool", "demo/helper", dry_run=dry_run)
        assert ("VALIDATION_FAILED", f'in the tool "demo/helper" {nothing}') == (
            error.code,
            str(error),
        )


def test_warning_policy_names_an_unsigned_neighbour(tmp_path: Path) -> None:
    with opened(tmp_path, policy={**POLICY, "tool": "warn"}) as workspace:
        put(workspace, "demo/t", TOOL)
        put(workspace, "demo/helper", HELPER, signed=False)
        answer = workspace.run("demo/t")

    (warning,) = answer["metadata"]["warnings"]
    assert 'the tool "demo/helper" of the project space is unsigned' in warning


@pytest.mark.parametrize("name", ["helper.yaml", "helper.py"])
def test_only_python_items_are_neighbours(workspace: Workspace, name: str) -> None:
    put(workspace, "demo/t", TOOL)
    outside = workspace.root / "outside.py"
    outside.write_text(HELPER, encoding="utf-8")
    (workspace.root / ".ai/tools/demo" / name).symlink_to(outside)
    with pytest.raises(CodedError, match="ModuleNotFoundError"):
        workspace.run("demo/t")
