"""A project's own instructions to agents: its prompts and its recipes."""

import json
import shutil
from pathlib import Path

import pytest
from briefs import brief, full_project, say
from command_line import ralphgen
from driving import context_for, made_here, on_context, query, quiet
from making_sessions import client_of, described, opened, session_json
from wire import refused as server_refused

from ralphgen.emit.workflows import regenerate


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_project(tmp_path_factory.mktemp("brief") / "p")


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(project, tmp_path / "own"))


class TestOwnWords:
    """`.ralph/prompts`."""

    def test_words_are_added_unchanged(self, own: Path) -> None:
        say(own, "all", "\ufeff# Ours\n\n```\n{{ x }} {tools}\n")
        say(own, "task_execution", "Test first.\r\n")
        say(own, "yap", "Never told.")
        system = brief(own, "task_execution", task=2)["system"]

        ours = "## Instructions of the project, from .ralph/prompts"
        assert system.endswith(
            f"\n\n{ours}/all.md\n\n# Ours\n\n```\n{{{{ x }}}} {{tools}}"
            f"\n\n{ours}/task_execution.md\n\nTest first.\r"
        )

    def test_words_are_read_when_the_session_is_created(self, own: Path) -> None:
        file = say(own, "all", "Be kind.")
        session = opened(own, "yap")
        file.write_text("Be cruel.", encoding="utf-8")
        said = described(session.served[0].command)["brief"]["system"]

        assert said.endswith("Be kind.")

    def test_a_row_stands_for_its_base_under_another_name(self, own: Path) -> None:
        sql = "INSERT INTO recipe_configs (name, base_recipe) VALUES ('nightly', 'yap')"
        query(own, sql)
        for name in ("yap", "nightly", "discuss"):
            say(own, name, f"Words of {name}.")
        system = brief(own, "nightly")["system"]

        assert "Words of yap.\n" in system
        assert system.endswith("Words of nightly.")
        assert "discuss" not in system

    def test_a_file_of_no_recipe_is_named(self, own: Path) -> None:
        say(own, "task-execution", "Test first.")
        said = ralphgen("session", "brief", "yap", "--project", own).stderr

        name = ".ralph/prompts/task-execution.md"
        assert f"warning: {name} has no effect: there is no such recipe" in said

    def test_a_default_context_holds_none_and_may_not(self, own: Path) -> None:
        say(own, "all", "Be kind.")
        done = ralphgen("session", "create", "yap", "--default", "--project", own)
        path = own / ".ralph/mcp/context.json"
        facts = json.loads(path.read_bytes())

        assert 0 == done.returncode
        assert "brief" not in facts
        facts["brief"] = {"prompt": "Be cruel."}
        path.write_text(json.dumps(facts), encoding="utf-8")

        assert '"brief" is for sessions alone' in server_refused(own)

    @pytest.mark.parametrize(
        "value",
        [[], {"prompt": 1}, {"max_characters": "1"}, {"words": [{"file": "a"}]}, {"other": "x"}],
    )
    def test_a_context_contains_nothing_else(self, own: Path, value: object) -> None:
        context = context_for(own, "yap", brief=value)

        assert '"brief" ' in server_refused(own, *on_context(context))


RECIPE = """
base = "yap"
description = "Sort what came in."
prompt = '''
Read {tools} and ```sort```.
Then stop.
'''
model = "haiku"
"""


class TestRecipes:
    """`description`, `prompt` and `model` of a recipe."""

    @pytest.fixture
    def triage(self, own: Path) -> Path:
        folder = own / ".ralph/recipes"
        folder.mkdir()
        (folder / "triage.toml").write_text(RECIPE, encoding="utf-8")
        regenerate(own, force=False, say=quiet)
        return own

    def test_a_recipe_describes_its_purpose_and_steps(self, triage: Path) -> None:
        facts = session_json(triage, "triage")
        with client_of(facts["mcp_config"]) as driver:
            (prompt,) = driver.portal.call(driver.client.list_prompts).prompts
            told = driver.client.instructions or ""

        assert "Sort what came in." == prompt.description
        assert told.startswith(
            "The project's database, for a session of the recipe triage. Sort what came in.\n"
        )
        assert facts["system"].startswith('Recipe of this session: "triage". Sort what came in.\n')
        steps = "Read {tools} and ```sort```.\nThen stop."
        assert f"Sort what came in.\n\n## What to do\n\n{steps}" == facts["prompt"]
        assert "haiku" == facts["model"]

    def test_a_recipe_of_the_user_can_have_a_prompt(self, own: Path) -> None:
        folder = own / ".ralph/recipes"
        folder.mkdir()
        text = 'base = "manual"\nprompt = "Sweep the floor."\n'
        (folder / "sweep.toml").write_text(text, encoding="utf-8")
        regenerate(own, force=False, say=quiet)
        said = described(opened(own, "sweep").served[0].command)

        assert ["sweep"] == [prompt["name"] for prompt in said["prompts"]]
        assert said["brief"]["task"].endswith("## What to do\n\nSweep the floor.")
