"""Faults of other task servers that must not come back: which tasks there are, and how they start.

The numbers are those of the list of faults that this kit was built against.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import Refusal, allowed_names, printed, project_with, refusal, serving
from driving import Driver

FILES = {
    "Makefile": """\
        build:
        \t@echo 1
        build-m:
        \t@echo 2
        build-s:
        \t@echo 3
        """,
    "build.sh": "#!/bin/sh\necho 4\n",
    "build-make.sh": "#!/bin/sh\necho 5\n",
    "my script.sh": "#!/bin/sh\necho 'a name of two words'\n",
    "plain.sh": "echo not executable\n",
    "package.json": '{"scripts": {"build prod": "echo of two words"}}',
    "package-lock.json": "{}",
    "compose.yaml": "services:\n  on:\n    image: x\n  n:\n    image: y\n",
    "Taskfile.yml": """\
        version: 3
        tasks:
          yes: echo a
          no: echo b
          off: echo c
          0o7: echo d
          1.10: echo e
          null: echo f
          2026-02-10: echo g
        """,
    ".github/workflows/release.yml": "name: yes\non: push\njobs:\n  on:\n    runs-on: x\n",
}
DOCKER = """#!/bin/sh
[ "$1 $2" = "compose version" ] && exit {code}
echo "$@"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("listing"), FILES)


@pytest.fixture(scope="module")
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with serving(root, tmp_path_factory.mktemp("home")) as driver:
        yield driver


def tasks(dela: Driver, runner: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dela.call("list_tasks", runner=runner)["tasks"]
    return found


def test_r9_no_two_tasks_bear_one_unique_name_and_each_starts_its_own(dela: Driver) -> None:
    """Although some tasks bear the names that others would get."""
    listed = dela.call("list_tasks")["tasks"]
    names = [task["unique_name"] for task in listed]
    found = {
        task["command"]: printed(dela, task["unique_name"])
        for task in listed
        if task["source_name"].startswith("build") and task["runner"] in {"make", "sh"}
    }

    assert sorted(set(names)) == sorted(names)
    assert {
        "make build": "1\n",
        "make build-m": "2\n",
        "make build-s": "3\n",
        "./build.sh": "4\n",
        "./build-make.sh": "5\n",
    } == found


def test_r21_a_script_that_is_not_executable_is_started_as_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a shell where there is one, and not at all where there is none."""
    root = project_with(tmp_path / "project", FILES)
    with serving(root, tmp_path / "home") as dela:
        (plain,) = (task for task in tasks(dela, "sh") if task["source_name"] == "plain.sh")
        assert (True, "sh ./plain.sh") == (plain["runner_available"], plain["command"])
        assert "not executable\n" == printed(dela, "plain")
    monkeypatch.setenv("PATH", str(tmp_path / "home"))
    with serving(root, tmp_path / "home") as dela:
        (plain,) = (task for task in tasks(dela, "sh") if task["source_name"] == "plain.sh")
        found = refusal(dela, "task_start", unique_name="plain")

    assert not plain["runner_available"]
    hint = "Make the script executable, or install a POSIX shell as sh"
    assert Refusal(-32011, "Runner 'sh' is not available for task 'plain'", hint) == found


def test_r22_docker_without_its_compose_plugin_runs_no_service(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the plugin is there: then it does, in the same session."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    place(docker, DOCKER.format(code=1))
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    with serving(root, tmp_path / "home") as dela:
        before = {task["runner_available"] for task in tasks(dela, "docker compose")}
        code, message, _ = refusal(dela, "task_start", unique_name="up")
        assert ({False}, -32011) == (before, code)
        assert "Runner 'docker compose' is not available for task 'up'" == message

        place(docker, DOCKER.format(code=0))
        after = {task["runner_available"] for task in tasks(dela, "docker compose")}
        assert ({True}, "compose up\n") == (after, printed(dela, "up"))


def place(program: Path, text: str) -> None:
    """Put a program there, whole at every moment."""
    draft = program.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(program)


def test_r23_a_name_with_a_space_is_one_word(dela: Driver) -> None:
    commands = {task["source_name"]: task["command"] for task in tasks(dela, "sh")}
    (script,) = tasks(dela, "npm")

    assert "'./my script.sh'" == commands["my script.sh"]
    assert ("build prod", "npm run 'build prod'") == (script["unique_name"], script["command"])
    assert "a name of two words\n" == printed(dela, "my script")


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_r23_npm_gets_it_as_one_word_too(dela: Driver) -> None:
    assert "of two words three\n" in printed(dela, "build prod", args=["three"])


def test_r24_a_change_of_a_file_is_seen_by_the_next_call(tmp_path: Path) -> None:
    """By a listing and by a start, and also where a file comes or goes."""
    root = project_with(tmp_path / "project", FILES)
    with serving(root, tmp_path / "home") as dela:
        assert "1\n" == printed(dela, "build-mak")
        (root / "Makefile").write_text("fresh:\n\t@echo fresh\n", encoding="utf-8")
        assert "fresh\n" == printed(dela, "fresh")
        assert ["fresh"] == [task["unique_name"] for task in tasks(dela, "make")]
        assert -32012 == refusal(dela, "task_start", unique_name="build-mak").code

        (root / "GNUmakefile").write_text("first:\n\t@echo first\n", encoding="utf-8")
        assert ["first"] == [task["unique_name"] for task in tasks(dela, "make")]
        assert "first\n" == printed(dela, "first")

        (root / "GNUmakefile").unlink()
        assert "fresh\n" == printed(dela, "fresh")
        (root / "plain.sh").unlink()
        assert "plain" not in allowed_names(dela)


def test_r25_a_file_that_cannot_be_read_is_told_and_hides_no_other(tmp_path: Path) -> None:
    """Until it is mended."""
    broken = {
        "Taskfile.yml": "tasks: [",
        "package.json": "{",
        "pyproject.toml": "[",
        "pom.xml": "<",
    }
    root = project_with(tmp_path / "project", {**FILES, **broken})
    with serving(root, tmp_path / "home") as dela:
        answer = dela.call("list_tasks")
        told = {Path(error["file_path"]).name: error["error"] for error in answer["errors"]}
        assert set(broken) == set(told)
        assert all(told.values())
        assert {"make", "docker compose", "sh"} <= {task["runner"] for task in answer["tasks"]}

        for name in broken:
            (root / name).unlink()
        assert [] == dela.call("list_tasks")["errors"]


def test_r28_names_that_yaml_takes_for_other_things_are_names(dela: Driver) -> None:
    names = [task["source_name"] for task in tasks(dela, "task")]
    services = [task["source_name"] for task in tasks(dela, "docker compose")]
    (workflow,) = tasks(dela, "act")

    assert ["yes", "no", "off", "0o7", "1.10", "null", "2026-02-10"] == names
    assert ["up", "down", "on", "n"] == services
    assert ("release", "yes") == (workflow["source_name"], workflow["description"])
