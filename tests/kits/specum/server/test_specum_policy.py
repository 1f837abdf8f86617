"""The tools of each kind of session, and texts that mention only these."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, create_project
from specum_projects import KITS, STATE
from specum_runs import POINTER, TASKS, changing, lay_spec, ok

from ralphgen.kits.specum import TOOLS

ALL = {tool.name for tool in TOOLS}
LOOKS = {"ralph_status", "ralph_help"}
PLANS = ALL - {"ralph_implement"}
SEES = {
    "manual": ALL,
    "interactive": LOOKS,
    "braindump": PLANS,
    "yap": PLANS,
    "ramble": PLANS,
    "enrichment": PLANS,
    "discuss": LOOKS,
    "task_execution": LOOKS | {"ralph_implement", "ralph_complete_phase"},
    "opus_review": LOOKS,
}
# The project's own recipes, with few tools; `least` has every tool with minimal arguments.
OWN = {
    "researcher": 'base = "yap"\nallow = {specum = ["ralph_research"]}\n',
    "closer": 'base = "yap"\nallow = {specum = ["ralph_complete_phase", "ralph_switch"]}\n',
    "worker": 'base = "manual"\nallow = {ralph = [], specum = ["ralph_implement"]}\n',
    "canceller": 'base = "manual"\nallow = {specum = ["ralph_cancel", "ralph_start"]}\n',
    "nothing": 'base = "manual"\nallow = {specum = []}\n',
    "least": """
base = "manual"
[narrow]
ralph_start = []
ralph_cancel = []
ralph_complete_phase = ["phase", "summary"]
ralph_research = []
ralph_requirements = []
ralph_design = []
ralph_tasks = []
ralph_implement = []
""",
}
# Arguments with names outside everyday language.
TELLING = {"spec_name", "max_iterations", "import_tasks", "delete_files"}
RUNNING = {"phase": "execution", "taskIteration": 5, "lastServedTask": "1.1"}
SCENES: Mapping[str, Mapping[str, Any]] = {
    **{phase: {"state": {"phase": phase}} for phase in ("research", "requirements", "design")},
    "tasks": {"state": {"phase": "tasks"}, "tasks": TASKS},
    "no tasks": {"state": {"phase": "tasks"}, "tasks": "# None\n"},
    "execution": {"state": {"phase": "execution"}, "tasks": TASKS},
    "blocked": {"state": RUNNING, "tasks": TASKS},
    "worn out": {"state": {"phase": "execution", "globalIteration": 100}, "tasks": TASKS},
    "completed": {"tasks": TASKS.replace("[ ]", "[x]")},
    "at its end": {"state": {"phase": "execution"}, "tasks": TASKS.replace("[ ]", "[x]")},
    "no state": {"tasks": TASKS},
    "corrupt": {"state": "{", "tasks": TASKS},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("policy")
    folder = root / ".ralph" / "recipes"
    folder.mkdir(parents=True)
    for name, text in OWN.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return create_project(root, config=KITS)


@pytest.mark.parametrize(("recipe", "names"), SEES.items())
def test_a_session_has_the_tools_of_its_kind_and_is_refused_all_others(
    project: Path, recipe: str, names: set[str]
) -> None:
    with connected(project, recipe, kit="specum") as driver:
        tools = {tool["name"]: tool for tool in driver.tools()}
        refused = {name: driver.protocol_error(name) for name in ALL - names}
        told = driver.client.instructions or ""

    assert names == tools.keys()
    assert names == named_in(told)
    assert len(told) <= 2000
    expected = {
        name: (-32602, f'Unknown tool: "{name}": the recipe "{recipe}" does not include it')
        for name in ALL - names
    }
    assert expected == refused
    if "ralph_cancel" in names:
        arguments = list(tools["ralph_cancel"]["inputSchema"]["properties"])
        whole = ["spec_name", "delete_files"]
        assert (whole if recipe == "manual" else whole[:1]) == arguments


@pytest.mark.parametrize("recipe", [name for name in SEES if name != "manual"])
def test_only_the_user_deletes_files(project: Path, recipe: str) -> None:
    if "ralph_cancel" not in SEES[recipe]:
        return
    lay_spec(project, "kept", state={"phase": "design"})
    with connected(project, recipe, kit="specum") as driver:
        with changing(project):
            refusal = driver.refusal("ralph_cancel", spec_name="kept", delete_files=True)
        with changing(project, f"specs/kept/{STATE}"):
            ok(driver, "ralph_cancel", spec_name="kept")

    assert 'unknown argument "delete_files"' in refusal


def named_in(text: str) -> set[str]:
    """Return the tools of the kit that a text names."""
    return set(re.findall(r"\bralph_[a-z_]+", text)) & ALL


def calls(tools: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield valid and invalid calls of every tool that a session sees."""
    samples: dict[str, list[Any]] = {
        "name": ["auth", "other", "no such", "Nö"],
        "spec_name": ["auth", "other", ".."],
        "goal": ["Fix the login", "???"],
        "phase": ["research", "requirements", "design", "tasks", "execution"],
        "summary": ["did it", " "],
        "quick": [True],
        "import_tasks": [True],
        "max_iterations": [1, 0],
        "delete_files": [False],
    }
    for tool, entry in tools.items():
        schema = entry["inputSchema"]
        least = {name: samples[name][0] for name in schema.get("required", ())}
        yield tool, {}
        yield tool, least
        yield tool, {**least, "no_such": 1}
        for name in schema["properties"]:
            for value in samples.get(name, ()):
                phase = {"phase": "tasks"} if name == "import_tasks" else {}
                yield tool, {**least, **phase, name: value}


def create_scene(root: Path, scene: str) -> None:
    """Replace the specs of a project with the spec of a scene."""
    for path in sorted((root / "specs").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if scene == "no spec":
        return
    if scene == "lost":
        (root / POINTER).write_text("gone\n", encoding="utf-8")
        lay_spec(root, "auth", current=False)
        return
    folder = lay_spec(root, "auth", **SCENES[scene])
    (folder / ".progress.md").write_text("## Original Goal\n\nLog in\n", encoding="utf-8")
    if scene in {"execution", "corrupt"}:
        for name in ("research.md", "requirements.md", "design.md"):
            (folder / name).write_text(f"# {name}\n", encoding="utf-8")


# One kind of session for each set of tools and arguments.
UNLIKE = ("manual", "yap", "ramble", "task_execution", "interactive", *OWN)


SCENARIOS = ("no spec", "lost", *SCENES)
# Each recipe gets a quarter of the scenarios in turn; `least` gets half of them.
QUARTERS = {name: SCENARIOS[at % 4 :: 4] for at, name in enumerate(UNLIKE)}
SAMPLES = [*{**QUARTERS, "least": SCENARIOS[::2]}.items()]
SWEEP = [pytest.param(name, SCENARIOS, marks=pytest.mark.soak) for name in UNLIKE]


@pytest.mark.parametrize(("recipe", "scenes"), [*SAMPLES, *SWEEP])
def test_no_word_names_a_tool_or_an_argument_that_the_session_does_not_have(
    project: Path, recipe: str, scenes: tuple[str, ...]
) -> None:
    """This covers lists, instructions, prompts, answers and refusals, for any specs."""
    (project / "specs").mkdir(exist_ok=True)
    with connected(project, recipe, kit="specum") as driver:
        tools = {tool["name"]: tool for tool in driver.tools()}
        told = [json.dumps([*tools.values()]), str(driver.client.instructions)]
        told += prompt_texts(driver)
        for scene in scenes:
            for tool, arguments in calls(tools):
                create_scene(project, scene)
                told.append(driver.ask(tool, arguments)[1])

    takes = {name for tool in tools.values() for name in tool["inputSchema"]["properties"]}
    for text in told:
        assert named_in(text) <= tools.keys(), text
        words = set(re.findall(r"[a-z_]+", text))
        assert not words & (TELLING - takes), text


def prompt_texts(driver: Driver) -> list[str]:
    """Return the descriptions and contents of a session's prompts."""
    client, call = driver.client, driver.portal.call
    prompts = call(client.list_prompts).prompts
    texts = [prompt.model_dump_json() for prompt in prompts]
    return texts + [call(client.get_prompt, prompt.name).model_dump_json() for prompt in prompts]


def test_guidance_without_the_end_of_a_phase_still_is_whole(project: Path) -> None:
    """Only the sentences on the tool that is missing are left out of a prompt."""
    create_scene(project, "research")
    with connected(project, "researcher", kit="specum") as driver:
        little = ok(driver, "ralph_research")
    with connected(project, kit="specum") as driver:
        whole = ok(driver, "ralph_research")

    assert "### When Complete\nSummarize the work in two or three sentences." in little
    gone = [line for line in whole.splitlines() if line not in little.splitlines()]
    assert len(gone) < 12, gone
    for heading in re.findall(r"^#+ .*$", whole, re.MULTILINE):
        assert heading in little


def test_a_discipline_removes_tools(tmp_path: Path) -> None:
    """From the database or the config, of all kits or of one, in the words of the refusal."""
    config = f"""{KITS}
[disciplines.backend]
disable = ["specum:ralph_start", "ralph_cancel"]
"""
    root = create_project(
        tmp_path,
        "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT",
        """UPDATE disciplines SET mcp_tool_overrides = '{"additional_disabled": ["ralph_switch"]}'
           WHERE name = 'backend'""",
        config=config,
    )
    gone = {"ralph_start", "ralph_cancel", "ralph_switch"}
    with connected(root, "yap", kit="specum", discipline="backend") as driver:
        assert PLANS - gone == set(driver.names())
        error = driver.protocol_error("ralph_start", goal="a")
        assert "No specs found.\n" == ok(driver, "ralph_status")
        assert "No current spec." == driver.refusal("ralph_research")
    with connected(root, "yap", kit="specum", discipline="frontend") as driver:
        assert PLANS == set(driver.names())

    why = 'the discipline "backend" removes it'
    assert (-32602, f'Unknown tool: "ralph_start": {why}') == error


def test_text_remains_text_with_structured_output(tmp_path: Path) -> None:
    """Instructions to an agent have no fields: there is no output schema and no repetition."""
    config = f"{KITS}structured_output = true\n"
    root = create_project(tmp_path, config=config)
    with connected(root, kit="specum") as driver:
        assert [] == [tool["name"] for tool in driver.tools() if "outputSchema" in tool]
        text, structured = driver.both("ralph_help", {})
    with connected(root) as driver:
        assert driver.both("get_task", {"id": 1})[1] is not None

    assert structured is None
    assert text.startswith("## Spec-driven workflow")
