"""The checklist of dela's design on a repository with every format, and its whole listing."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dela_projects import (
    BOTH_VERSIONS,
    allow,
    allowed_names,
    at_home,
    begun,
    entry,
    fixture_repository,
    job,
    refusal,
    serving,
)
from driving import Driver, connected
from goldens import Goldens

OF_THE_MACHINE = {"runner_available", "allowlisted"}
ALLOWED = ("test", "show", "fail", "long")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture_repository(tmp_path_factory.mktemp("repository") / "project")


@pytest.fixture(scope="module", params=BOTH_VERSIONS)
def dela(
    root: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """A server on the repository, in which some make targets are allowed and one runner lacks."""
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

    text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
    goldens.check("dela/expected_tasks.json", {".": text})


def _portable(told: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """What is the same wherever the repository lies and whatever is installed there."""
    kept = {name: value for name, value in told.items() if name not in OF_THE_MACHINE}
    return {**kept, "file_path": os.path.relpath(told["file_path"], root)}


def test_a_name_that_is_there_twice_is_told_apart_by_its_runner(dela: Driver) -> None:
    tasks = {task["unique_name"]: task for task in dela.call("list_tasks")["tasks"]}

    assert ("make", "make test") == (tasks["test-m"]["runner"], tasks["test-m"]["command"])
    assert ("npm", "npm run test") == (tasks["test-n"]["runner"], tasks["test-n"]["command"])
    assert "test" == tasks["test-m"]["source_name"] == tasks["test-n"]["source_name"]
    assert "test" not in tasks


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


def test_only_what_is_allowed_can_be_started(dela: Driver) -> None:
    assert ["test-m", "long", "fail", "show", "report"] == allowed_names(dela)
    assert -32010 == refusal(dela, "task_start", unique_name="test-n").code
    assert -32010 == refusal(dela, "task_start", unique_name="build-s").code


def test_a_missing_runner_is_told_with_what_helps(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with serving(root, tmp_path / "home") as dela:
        code, message, data = refusal(dela, "task_start", unique_name="report")

    assert (-32011, "Runner 'poetry' is not available for task 'report'") == (code, message)
    assert "Install poetry" in data


def test_what_ends_within_a_second_is_answered_with_its_output(dela: Driver) -> None:
    good = dela.call("task_start", unique_name="test-m")
    bad = dela.call("task_start", unique_name="fail")

    assert {"state", "exit_code", "initial_output"} == good.keys() == bad.keys()
    assert ("exited", 0) == (good["state"], good["exit_code"])
    assert good["initial_output"].endswith("Built\nRun the tests\ndone\n")
    assert ("exited", 2) == (bad["state"], bad["exit_code"])
    assert bad["initial_output"].startswith("oops\n")


@pytest.mark.thorough
def test_what_takes_longer_is_found_read_and_stopped(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="long")
    pid = answer["pid"]
    assert ("running", "start\n") == (answer["state"], answer["initial_output"])
    assert [pid] == [told["pid"] for told in dela.call("status")["running"]]
    assert [pid] == [each["pid"] for each in jobs_of(dela, "long") if "running" == each["state"]]
    assert ["start"] == dela.call("task_output", pid=pid, lines=1)["lines"]
    assert "graceful" == dela.call("task_stop", pid=pid)["status"]

    assert [] == dela.call("status")["running"]
    assert "running" != job(dela, pid)["state"]


def jobs_of(dela: Driver, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dela.call("task_status", unique_name=name)["jobs"]
    return found


def test_two_of_one_task_are_told_apart_by_their_arguments(dela: Driver) -> None:
    pids = {size: begun(dela, "long", "start", args=[f"N={size}"]) for size in (1, 2)}
    told = {each["pid"]: each["args"] for each in dela.call("status")["running"]}
    for pid in pids.values():
        dela.call("task_stop", pid=pid)

    assert {pids[1]: ["N=1"], pids[2]: ["N=2"]} == told
