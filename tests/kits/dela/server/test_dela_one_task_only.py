"""A task that is allowed starts no other one, by its folder, its arguments or its variables."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dela_projects import allow, at_home, entry, project_with
from driving import Driver, connected
from mcp import MCPError
from real_runners import PLACES, needs

WHOLE = 60  # seconds to wait for the end of what ends soon
GUARDED = {
    "Makefile": "build: ; @echo allowed\n",
    "two/Makefile": "build: ; @echo denied\n",
    "two/package.json": '{"scripts": {"build": "true"}}',
    "package.json": '{"scripts": {"pack": "echo allowed"}}',
    "package-lock.json": "{}",
    "near/package.json": '{"scripts": {"pack": "echo denied"}}',
    "near/deep/.keep": "",
    "pom.xml": "<project><modelVersion>4.0.0</modelVersion></project>",
    "justfile": """\
        set quiet
        mod ship
        alias d := deploy
        ok:
            echo allowed
        deploy:
            echo denied
        [private]
        hidden:
            echo denied
        """,
    "ship.just": "to:\n    @echo denied\n",
    "near/justfile": "ok:\n    @echo denied\n",
    "near/shell.sh": "#!/bin/sh\necho denied\n",
    "around/Makefile": "X := $(shell echo denied >&2)\ninclude ../Makefile\n",
    "linked/.keep": "",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A server on a project in which a few tasks of the root alone are allowed."""
    root = project_with(tmp_path_factory.mktemp("guarded"), GUARDED)
    (root / "linked/Makefile").symlink_to("../Makefile")
    denied = [entry("Deny", root / name) for name in ("two", "near", "ship.just")]
    given = [entry("File", root / name) for name in ("Makefile", "package.json")]
    given.append(entry("Task", root / "pom.xml", "verify"))
    with at_home(tmp_path_factory.mktemp("home")) as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLACES)
        allow(home, *given, entry("Task", root / "justfile", "ok"), *denied)
        with connected(root, kit="dela") as driver:
            yield driver


def attempt(dela: Driver, **given: Any) -> str:
    """The output of a task, or the code of its refusal."""
    try:
        _, text = dela.ask("task_start", {"wait_for_exit_seconds": WHOLE, **given})
    except MCPError as error:
        return str(error.error.code)
    return str(json.loads(text)["initial_output"])


class TestGuard:
    """What prints "denied" is not allowed, or denied outright."""

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "name",
        [
            pytest.param("build", marks=needs("make")),
            pytest.param("pack", marks=needs("npm", "node")),
            pytest.param("ok", marks=needs("just")),
        ],
    )
    def test_these_are_allowed(self, guarded: Driver, name: str) -> None:
        assert "allowed" in attempt(guarded, unique_name=name)

    @needs("make")
    def test_not_the_target_of_a_folder_that_has_two_of_the_name(self, guarded: Driver) -> None:
        assert "denied" not in attempt(guarded, unique_name="build", cwd="two")

    @needs("npm", "node")
    def test_not_the_script_of_a_package_between(self, guarded: Driver) -> None:
        assert "denied" not in attempt(guarded, unique_name="pack", cwd="near/deep")

    @needs("just")
    @pytest.mark.parametrize(
        "words",
        [
            ["deploy"],
            ["ship::to"],
            ["d"],
            ["hidden"],
            ["ship", "to"],
        ],
    )
    def test_not_another_recipe(self, guarded: Driver, words: list[str]) -> None:
        assert "denied" not in attempt(guarded, unique_name="ok", args=words)

    @pytest.mark.parametrize(
        ("name", "variables"),
        [
            pytest.param("ok", {"JUST_JUSTFILE": "near/justfile"}, marks=needs("just")),
            pytest.param(
                "pack", {"npm_config_script_shell": "./near/shell.sh"}, marks=needs("npm", "node")
            ),
        ],
    )
    def test_not_by_a_variable_of_the_runner(
        self, guarded: Driver, name: str, variables: dict[str, str]
    ) -> None:
        assert "denied" not in attempt(guarded, unique_name=name, env=variables)

    @pytest.mark.parametrize("word", ["deploy", "exec:java", "integration-test", "deploy:deploy"])
    def test_not_another_goal(self, guarded: Driver, word: str) -> None:
        assert "-32602" == attempt(guarded, unique_name="verify", args=[word])

    @pytest.mark.parametrize(
        "given",
        [
            {"args": [".EXTRA_PREREQS=deploy"]},
            {"env": {".EXTRA_PREREQS": "deploy"}},
            {"env": {"WORDS": "$(shell echo denied)"}},
            {"env": {"HOME": "near"}},
            {"args": ["x" * 100_000]},
        ],
    )
    def test_not_by_a_variable_of_make(self, guarded: Driver, given: dict[str, Any]) -> None:
        assert "-32602" == attempt(guarded, unique_name="build", **given)

    @pytest.mark.parametrize("word", ["--file=near/pom.xml", "-fnear/pom.xml", "-s=x", "-f"])
    def test_not_the_goal_of_another_project(self, guarded: Driver, word: str) -> None:
        assert "-32602" == attempt(guarded, unique_name="verify", args=[word])

    @pytest.mark.parametrize("folder", ["around", "linked"])
    def test_not_by_a_file_below_that_includes_it_or_is_a_link_to_it(
        self, guarded: Driver, folder: str
    ) -> None:
        assert "-32010" == attempt(guarded, unique_name="build", cwd=folder)
        listed = guarded.call("list_tasks", cwd=folder)["tasks"]
        assert [False] == [task["allowlisted"] for task in listed if task["unique_name"] == "build"]
