"""The tools of dela that each recipe has, by live clients."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from dela_projects import SIX, allow, at_home, entry, refusal
from driving import Driver, Era, connected, made_here, quiet

from ralphgen.emit.workflows import regenerate

LOOKING = ("list_tasks", "status")
READING = ("list_tasks", "status", "task_status", "task_output")
WITH_HANDSHAKE = {"manual", "discuss"}
PROFILES = {
    "manual": SIX,
    "interactive": READING,
    "braindump": LOOKING,
    "yap": LOOKING,
    "ramble": LOOKING,
    "enrichment": LOOKING,
    "discuss": LOOKING,
    "task_execution": SIX,
    "opus_review": SIX,
}
# Every recipe without a handshake; with one, the most and the least restricted; all on demand.
CELLS = [
    *((recipe, "auto") for recipe in PROFILES),
    *(
        pytest.param((recipe, "legacy"), marks=() if recipe in WITH_HANDSHAKE else pytest.mark.soak)
        for recipe in PROFILES
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the fixture's repository with its server."""
    root = tmp_path_factory.mktemp("policy") / "project"
    lay_down("dela", root)
    regenerate(root, force=False, say=quiet)
    return made_here(root.resolve())


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def cell(
    project: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Driver]]:
    recipe: str
    era: Era
    recipe, era = request.param
    with (
        at_home(tmp_path_factory.mktemp("home")) as home,
        connected(project, recipe, kit="dela", era=era) as driver,
    ):
        allow(home, entry("Directory", project))
        yield recipe, driver


def named(told: str) -> set[str]:
    """Return the tools that a text mentions."""
    return set(re.findall(r"[a-z_]+", told)) & set(SIX)


def told_by(driver: Driver) -> str:
    """Return everything that a session reads without a call."""
    return json.dumps(driver.tools()) + str(driver.client.instructions)


def hidden(recipe: str, name: str, why: str) -> tuple[int, str]:
    return -32602, f'Unknown tool: "{name}": the {recipe} {why}'


class TestProfiles:
    """The share of each kind of session in the six tools."""

    def test_session_sees_only_its_tools(self, cell: tuple[str, Driver]) -> None:
        recipe, driver = cell

        assert sorted(PROFILES[recipe]) == sorted(driver.names())

    def test_hidden_tool_is_refused_with_the_name_of_the_recipe(
        self, cell: tuple[str, Driver]
    ) -> None:
        """Even with valid arguments, nothing is started."""
        recipe, driver = cell
        given = {"task_start": {"unique_name": "test-m"}}
        others = [name for name in SIX if name not in PROFILES[recipe]]

        for name in others:
            expected = hidden(f'recipe "{recipe}"', name, "does not include it")
            assert expected == driver.protocol_error(name, **given.get(name, {"pid": 1}))
        assert [] == driver.call("status")["running"]

    def test_texts_of_a_session_name_only_its_tools(self, cell: tuple[str, Driver]) -> None:
        recipe, driver = cell

        assert set(PROFILES[recipe]) == named(told_by(driver))
        assert set(PROFILES[recipe]) == named(driver.client.instructions or "")

    def test_refusal_advises_only_available_tools(self, cell: tuple[str, Driver]) -> None:
        recipe, driver = cell
        calls: dict[str, dict[str, Any]] = {
            "task_start": {"unique_name": "no such"},
            "task_status": {"pid": 1},
            "task_output": {"pid": 1},
            "task_stop": {"pid": 1},
        }
        for name in set(calls) & set(PROFILES[recipe]):
            assert named(str(refusal(driver, name, **calls[name]))) <= set(PROFILES[recipe])

    def test_session_with_task_start_starts_tasks(self, cell: tuple[str, Driver]) -> None:
        """A session that may only look still sees the allowed tasks."""
        recipe, driver = cell
        tasks = {task["unique_name"]: task for task in driver.call("list_tasks")["tasks"]}

        assert tasks["build-s"]["allowlisted"]
        if "task_start" in PROFILES[recipe]:
            answer = driver.call("task_start", unique_name="build-s", wait_for_exit_seconds=60)
            assert "exited" == answer["state"]
