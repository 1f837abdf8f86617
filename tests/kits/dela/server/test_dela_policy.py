"""Who may do what with the project's tasks: recipes, disciplines and settings, by live clients."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from command_line import ralphgen
from dela_projects import BOTH_VERSIONS, SIX, allow, at_home, entry, project_with, refusal
from driving import Driver, Era, connected, made_here, quiet
from making_sessions import client_of, opened

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
OF_DOCS = "INSERT INTO tasks (id, feature, discipline, title) VALUES (2, 'build', 'docs', 'Write')"
CAREFUL = """
base = "task_execution"
[narrow]
"dela:task_start" = ["unique_name"]
"dela:task_output" = ["pid", "lines"]
"""
LOOKER = 'base = "task_execution"\nallow = {dela = ["list_tasks", "task_start", "task_stop"]}\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the fixture's repository; its discipline docs cannot start or stop tasks."""
    root = tmp_path_factory.mktemp("policy") / "project"
    lay_down("dela", root, OF_DOCS)
    recipes = root / ".ralph" / "recipes"
    recipes.mkdir()
    (recipes / "careful.toml").write_text(CAREFUL, encoding="utf-8")
    (recipes / "looker.toml").write_text(LOOKER, encoding="utf-8")
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

    def test_a_session_sees_its_tools_and_no_others(self, cell: tuple[str, Driver]) -> None:
        recipe, driver = cell

        assert sorted(PROFILES[recipe]) == sorted(driver.names())

    def test_every_hidden_tool_is_refused_by_the_name_of_the_recipe(
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

    def test_nothing_that_a_session_reads_names_a_tool_that_it_lacks(
        self, cell: tuple[str, Driver]
    ) -> None:
        recipe, driver = cell

        assert set(PROFILES[recipe]) == named(told_by(driver))
        assert set(PROFILES[recipe]) == named(driver.client.instructions or "")

    def test_what_helps_after_a_refusal_is_a_tool_that_the_session_has(
        self, cell: tuple[str, Driver]
    ) -> None:
        recipe, driver = cell
        calls: dict[str, dict[str, Any]] = {
            "task_start": {"unique_name": "no such"},
            "task_status": {"pid": 1},
            "task_output": {"pid": 1},
            "task_stop": {"pid": 1},
        }
        for name in set(calls) & set(PROFILES[recipe]):
            assert named(str(refusal(driver, name, **calls[name]))) <= set(PROFILES[recipe])

    def test_a_session_that_may_start_tasks_starts_them(self, cell: tuple[str, Driver]) -> None:
        """A session that may only look still sees the allowed tasks."""
        recipe, driver = cell
        tasks = {task["unique_name"]: task for task in driver.call("list_tasks")["tasks"]}

        assert tasks["build-s"]["allowlisted"]
        if "task_start" in PROFILES[recipe]:
            answer = driver.call("task_start", unique_name="build-s", wait_for_exit_seconds=60)
            assert "exited" == answer["state"]


class TestDisciplines:
    """A discipline removes tools from its own sessions, and from no others."""

    @pytest.mark.parametrize("era", BOTH_VERSIONS)
    def test_a_discipline_removes_what_its_table_says(self, project: Path, era: Era) -> None:
        session = opened(project, "task_execution", task=2)
        left = [name for name in SIX if name not in {"task_start", "task_stop"}]
        with client_of(session.mcp_config, "dela", era=era) as driver:
            seen, told = driver.names(), told_by(driver)
            refusals = [
                driver.protocol_error(name, unique_name="test-m", pid=1)
                for name in ("task_start", "task_stop")
            ]

        assert ("docs", sorted(left)) == (session.discipline, sorted(seen))
        assert set(left) == named(told)
        assert [
            hidden('discipline "docs"', name, "removes it") for name in ("task_start", "task_stop")
        ] == refusals

    def test_what_it_removes_counts_in_a_recipe_of_the_projects_own_too(
        self, project: Path
    ) -> None:
        (served,) = (
            served for served in opened(project, "looker", task=2).served if "dela" == served.kit
        )

        assert ("list_tasks",) == served.names
        assert {"list_tasks"} == named(served.instructions)


class TestRecipes:
    """A recipe file removes tools and arguments."""

    @pytest.mark.parametrize("era", BOTH_VERSIONS)
    def test_a_start_can_be_narrowed_to_the_name_of_the_task(
        self, project: Path, tmp_path: Path, era: Era
    ) -> None:
        session = opened(project, "careful", task=1)
        home = tmp_path / "home"
        allow(home, entry("Directory", project))
        with at_home(home), client_of(session.mcp_config, "dela", era=era) as driver:
            seen = {tool["name"]: [*tool["inputSchema"]["properties"]] for tool in driver.tools()}
            refusals = {
                name: refusal(driver, "task_start", unique_name="build-s", **{name: value})
                for name, value in {
                    "args": ["x"],
                    "env": {},
                    "cwd": ".",
                    "wait_for_exit_seconds": 1,
                }.items()
            }
            assert {"jobs": []} == driver.call("task_status", unique_name="build-s")
            answer = driver.call("task_start", unique_name="build-s")

        assert (["unique_name"], ["pid", "lines"]) == (seen["task_start"], seen["task_output"])
        assert {-32602} == {refused.code for refused in refusals.values()}
        assert all(f'unknown argument "{name}"' in refusals[name].message for name in refusals)
        assert "exited" == answer["state"]

    def test_nothing_that_such_a_session_reads_names_what_it_lacks(self, project: Path) -> None:
        """Neither of its tools nor of their arguments."""
        session = opened(project, "careful", task=1)
        with client_of(session.mcp_config, "dela") as driver:
            told = told_by(driver)
            refused = str(refusal(driver, "task_start", unique_name="no such"))

        lacking = ("args", "env", "cwd", "wait_for_exit_seconds", "offset", "show_truncation")
        for name in lacking:
            there = re.search(rf"\b{name}\b", _without(told, "list_tasks") + refused)
            assert there is None, name

    def test_what_helps_after_a_refusal_is_a_tool_that_the_recipe_leaves(
        self, project: Path
    ) -> None:
        session = opened(project, "looker", task=1)
        with client_of(session.mcp_config, "dela") as driver:
            refused = str(refusal(driver, "task_stop", pid=1))

        assert named(refused) <= {"list_tasks", "task_start", "task_stop"}


def _without(told: str, tool: str) -> str:
    """Return a listing and instructions without the schema of one tool."""
    return re.sub(rf'\{{"name": "{tool}".*?(?=\{{"name": )', "", told)


class TestSettings:
    """The kit's settings in the project's config."""

    def test_a_project_without_the_kit_has_no_such_server(self, tmp_path: Path) -> None:
        files = {"Makefile": "build:\n"}
        root = project_with(tmp_path / "project", files)
        (root / ".ralph" / "ralphgen.toml").write_text('kits = ["ralph"]\n', encoding="utf-8")
        regenerate(root, force=False, say=quiet)

        assert ["ralph"] == list(json.loads(ralphgen("tools", "--project", root, "--json").stdout))
        assert not (root / ".ralph" / "mcp" / "dela").exists()
