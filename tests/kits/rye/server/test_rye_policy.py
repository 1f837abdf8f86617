"""The rye tools of each kind of session; no text mentions unavailable tools."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import quiet
from rye_projects import HTTP_CLIENT, Rye, python_tool, rye_project, serving, session

from ralphgen.emit.workflows import regenerate
from ralphgen.planning import PROFILES

EVERY = ["search", "load", "execute", "sign", "help"]
LOOKS = ["search", "load", "help"]
FULL = ("manual", "task_execution", "opus_review")
TOPICS = ["overview", "search", "load", "execute", "sign", "directives", "tools", "knowledge"]
LOADING = ["item_type", "item_id", "project_path", "source"]
COPYING = ["destination", "overwrite"]
# An XML tag and a Python function of the formats are called `execute` as well.
HIDDEN = re.compile(r"(?<!<)\b(sign|execute(?!\()|destination|overwrite|dry_run)\b")
LESS = """
[disciplines.reading]
disable = ["rye:load", "rye:sign"]
"""
RECIPE = """
base = "manual"
allow = { rye = ["search", "execute", "help"] }
[narrow]
"rye:execute" = ["item_type", "item_id", "project_path", "parameters"]
"rye:search" = ["item_type", "query", "project_path"]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with an item of every type; tests must not change it."""
    folder = tmp_path_factory.mktemp("policy")
    root = rye_project(folder / "project", 'policy = { tool = "off" }')
    with session(folder, root) as rye:
        for item_type in ("directive", "tool", "knowledge"):
            rye.put(item_type, "demo/sample")
        rye.put("tool", "demo/broken", "nothing of a tool\n")
        rye.put("tool", "other/sample", python_tool("other/sample"))
    return folder


@pytest.fixture(scope="module", params=PROFILES)
def seen(request: pytest.FixtureRequest, project: Path) -> Iterator[tuple[str, Rye]]:
    """Yield a session of each kind on that project."""
    profile = str(request.param)
    with session(project, project / "project", profile) as rye:
        yield profile, rye


@pytest.fixture(scope="module")
def looking(project: Path) -> Iterator[Rye]:
    """Yield a read-only session."""
    with session(project, project / "project", "interactive") as rye:
        yield rye


def arguments(rye: Rye, tool: str) -> list[str]:
    (listed,) = (entry for entry in rye.driver.tools() if entry["name"] == tool)
    return [*listed["inputSchema"]["properties"]]


def instructions(rye: Rye) -> str:
    return str(rye.driver.client.instructions)


def test_a_kind_of_session_has_everything_or_only_looks(seen: tuple[str, Rye]) -> None:
    profile, rye = seen

    assert (EVERY if profile in FULL else LOOKS) == rye.driver.names()


def test_only_who_has_everything_copies(seen: tuple[str, Rye]) -> None:
    profile, rye = seen
    expected = [*LOADING, *COPYING] if profile in FULL else LOADING

    assert expected == arguments(rye, "load")


def test_help_is_offered_on_what_is_there(seen: tuple[str, Rye]) -> None:
    profile, rye = seen
    hidden = [] if profile in FULL else ["execute", "sign"]
    expected = [topic for topic in TOPICS if topic not in hidden]
    overview = rye.says("help")
    refusals = [rye.refuses("help", topic=topic)["message"] for topic in hidden]

    assert expected == overview["topics"]
    assert f"Topics of help: {', '.join(expected[1:])}." in overview["content"]
    assert [f'unknown topic "{topic}"' for topic in hidden] == [
        refusal.partition(":")[0] for refusal in refusals
    ]


def test_what_is_not_there_cannot_be_called(seen: tuple[str, Rye]) -> None:
    profile, rye = seen
    given = {"item_type": "tool", "item_id": "demo/sample", "project_path": str(rye.root)}
    for tool in EVERY:
        if tool not in rye.driver.names():
            _, message = rye.driver.protocol_error(tool, **given)
            assert f'Unknown tool: "{tool}": the recipe "{profile}" does not include it' == message


def test_nothing_is_copied_by_who_only_looks(looking: Rye) -> None:
    error = looking.refuses("load", item_type="tool", item_id=HTTP_CLIENT, destination="user")

    assert "VALIDATION_FAILED" == error["code"]
    assert not (looking.user / "tools").exists()


def test_neither_lists_nor_instructions_speak_of_what_is_not_there(looking: Rye) -> None:
    told = json.dumps(looking.driver.tools()) + instructions(looking)

    assert [] == HIDDEN.findall(told)


def test_the_instructions_name_each_tool_that_is_there(seen: tuple[str, Rye]) -> None:
    _, rye = seen
    named = re.findall(
        r"^(\w+) (?:finds|reads|runs|checks|explains)", instructions(rye), re.MULTILINE
    )

    assert rye.driver.names() == named
    assert len(instructions(rye)) <= 2_000


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("load", {"item_type": "tool", "item_id": "demo/nothing"}),
        ("load", {"item_type": "tool", "item_id": "sample"}),
        ("load", {"item_type": "tool", "item_id": "../sample"}),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "project_path": "here"}),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "project_path": "/"}),
        ("load", {"item_type": "tools", "item_id": "demo/sample"}),
        ("search", {"item_type": "all", "query": "(one OR"}),
        ("search", {"item_type": "all", "query": "one", "limit": 0}),
        ("search", {"item_type": "all", "query": "one", "limits": 5}),
        ("help", {"topic": "nothing"}),
    ],
)
def test_no_refusal_speaks_of_what_is_not_there(
    looking: Rye, tool: str, given: dict[str, Any]
) -> None:
    error = looking.refuses(tool, **given)

    assert [] == HIDDEN.findall(json.dumps(error))


@pytest.mark.parametrize("item_id", ["demo/broken", "demo/sample", HTTP_CLIENT])
def test_no_answer_speaks_of_what_is_not_there(looking: Rye, item_id: str) -> None:
    answer = looking.load("tool", item_id)

    assert [] == HIDDEN.findall(json.dumps({**answer, "content": "", "metadata": {}}))


def test_a_discipline_takes_tools_away_and_nothing_speaks_of_them(tmp_path: Path) -> None:
    with serving(tmp_path, "task_execution", more=LESS, discipline="reading") as rye:
        names = rye.driver.names()
        overview = rye.says("help")
        errors = [
            rye.refuses("execute", item_type="tool", item_id="demo/nothing"),
            rye.refuses("execute", item_type="tool", item_id=f"{HTTP_CLIENT}s"),
        ]
        rye.put("tool", "demo/sample")
        errors.append(rye.refuses("execute", item_type="tool", item_id="demo/sample"))
        texts = [rye.says("help", topic=topic)["content"] for topic in overview["topics"]]
        told = "\n".join([*texts, instructions(rye), json.dumps(errors)])

    assert ["search", "execute", "help"] == names
    assert "UNSIGNED" == errors[-1]["code"]
    told = told.replace("ask the user to sign it", "")
    assert [] == re.findall(r"(?<!<)\b(?:load|sign)\b", told)


def test_a_recipe_of_ones_own_takes_tools_and_arguments_away(tmp_path: Path) -> None:
    root = rye_project(tmp_path / "project", 'policy = "off"')
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    (recipes / "errand.toml").write_text(RECIPE, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with session(tmp_path, root, "errand") as rye:
        rye.put("tool", "demo/sample")
        names, taken = rye.driver.names(), arguments(rye, "execute")
        topics = rye.says("help")["topics"]
        lines = re.findall(
            r"^- (\w+) \(", rye.says("help", topic="execute")["content"], re.MULTILINE
        )
        answer = rye.run("tool", "demo/sample", who="Bob")

    assert ["search", "execute", "help"] == names
    assert ["item_type", "item_id", "project_path", "parameters"] == taken == lines
    assert ["overview", "search", "execute", "directives", "tools", "knowledge"] == topics
    assert {"who": "Bob"} == answer["data"]["params"]
