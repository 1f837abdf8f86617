"""The checklist of dela's design on a repository with every format, and its whole listing."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dela_projects import BOTH_VERSIONS, allow, at_home, entry, fixture_repository, serving
from driving import Driver, connected
from goldens import Goldens, as_json

OF_THE_MACHINE = {"runner_available", "allowlisted"}
ALLOWED = ("test", "show", "fail", "long")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture_repository(tmp_path_factory.mktemp("repository") / "project")


@pytest.fixture(scope="module", params=BOTH_VERSIONS)
def dela(
    root: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Yield a server on the repository, with some allowed make targets and one missing runner."""
    home = tmp_path_factory.mktemp("home")
    with serving(root, home, era=request.param) as driver:
        poetry = entry("Task", root / "pyproject.toml", "report")
        allow(home, entry("Task", root / "Makefile", *ALLOWED), poetry)
        yield driver


@pytest.mark.thorough
@pytest.mark.parametrize("programs", [Path("nowhere"), Path(sys.executable).parent])
def test_the_whole_listing_is_the_golden(
    root: Path, tmp_path: Path, goldens: Goldens, programs: Path
) -> None:
    """The same without any runner as with those, just and task perhaps, that can be asked."""
    with pytest.MonkeyPatch.context() as patch, at_home(tmp_path / "home"):
        patch.setenv("PATH", str(tmp_path / programs))
        with connected(root, kit="dela") as dela:
            answer = dela.call("list_tasks")
    assert "next_cursor" not in answer
    told = {
        "tasks": [_portable(task, root) for task in answer["tasks"]],
        "errors": [_portable(error, root) for error in answer["errors"]],
    }

    text = as_json(told)
    goldens.check("dela/expected_tasks.json", {".": text})


def _portable(told: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the facts that do not depend on the location and the installed programs."""
    kept = {name: value for name, value in told.items() if name not in OF_THE_MACHINE}
    return {**kept, "file_path": os.path.relpath(told["file_path"], root)}


def test_every_task_has_all_fields_and_a_name_of_its_own(dela: Driver, root: Path) -> None:
    tasks = dela.call("list_tasks")["tasks"]
    texts = ("unique_name", "source_name", "runner", "command", "file_path")

    assert len(tasks) == len({task["unique_name"] for task in tasks})
    for task in tasks:
        assert {*texts, "runner_available", "allowlisted", "description"} == task.keys()
        assert {str} == {type(task[name]) for name in texts}
        assert all(task[name] for name in texts if name != "command")
        assert bool(task["command"]) == (task["runner"] != "travis")
        assert {bool} == {type(task[name]) for name in OF_THE_MACHINE}
        assert (root / task["file_path"]).is_relative_to(root)
        assert Path(task["file_path"]).is_file()
