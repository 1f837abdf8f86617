"""The recipe of a session as a prompt, and texts that never mention tools a session lacks."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import (
    ROWS,
    SCHEMAS,
    connected,
    context_for,
    create_database,
    create_project,
    on_context,
    query,
    quiet,
)
from lanes import shortened
from making_sessions import describe_session, described, opened
from wire import Speaker, running

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.ralph.tools import TOOLS as PLANNED

VERSIONS = ("2025-11-25", "2026-07-28")
# The rows that a session of each recipe can be about, besides none.
ABOUT: dict[str, dict[str, Any]] = {
    "braindump": {},
    "yap": {},
    "ramble": {"feature": "auth"},
    "discuss": {"target_discipline": "backend"},
    "task_execution": {"task_id": 1},
    "opus_review": {"feature": "auth"},
    "enrichment": {"task_id": 1},
}
ARGUMENTS = {"ramble": ["feature"], "opus_review": ["feature"], "enrichment": ["task"]}
ODD = "Früh-Stück v1.2 (kurz)"
LITTLE = "one"
RECIPES = {
    ODD: 'base = "enrichment"\n',
    LITTLE: """
base = "task_execution"
[allow]
ralph = ["set_task_status", "add_task_comment"]
[narrow]
set_task_status = ["status"]
add_task_comment = ["body"]
""",
    "reader": 'base = "opus_review"\nallow = {ralph = ["get_task"]}\n',
    "nothing": 'base = "yap"\nallow = {ralph = []}\n',
    "untold": """
base = "manual"
[allow]
ralph = ["update_task", "update_feature", "update_discipline", "create_feature"]
[narrow]
update_task = ["id", "title"]
update_feature = ["name", "description"]
update_discipline = ["name", "conventions", "clear"]
""",
    "whole": 'base = "manual"\n',
}
TOOLS = {tool.name for tool in PLANNED}
SAMPLES: dict[str, Any] = {"id": 1, "task_id": 1, "name": "auth", "feature_name": "auth"}
LONG = 'Log in with "quotes"\nand lines\u2028' + "x" * 400


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prompts")
    folder = root / ".ralph" / "recipes"
    folder.mkdir(parents=True)
    for name, text in RECIPES.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return create_project(root)


class Asking(Speaker):
    """A session's requests for prompts."""

    def prompts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("prompts/list")["result"]["prompts"]
        return found

    def text(self, name: str, **arguments: str) -> str:
        got = self.ask("prompts/get", name=name, arguments=arguments)["result"]
        (message,) = got["messages"]
        assert ("user", "text") == (message["role"], message["content"]["type"])
        return str(message["content"]["text"])

    def error(self, **params: object) -> tuple[int, str]:
        error = self.ask("prompts/get", **params)["error"]
        return error["code"], error["message"]


@contextmanager
def asking(root: Path, version: str, recipe: str, **facts: object) -> Iterator[Asking]:
    """The server of a session, in one revision of the protocol."""
    with running(root, *on_context(context_for(root, recipe, **facts))) as wire:
        wire.shake_hands(version)
        yield Asking(wire, version)


def steps_in(text: str) -> list[str]:
    """The numbered lines of a prompt."""
    return [line for line in text.splitlines() if line[:1].isdigit()]


def names_in(text: str) -> set[str]:
    """The tools of the kit that a text names."""
    return set(re.findall(r"[a-z]+(?:_[a-z]+)+", text)) & TOOLS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_has_one_prompt_that_is_called_after_its_recipe(
    project: Path, version: str
) -> None:
    with asking(project, version, "task_execution") as server:
        (prompt,) = server.prompts()
        text = server.text("task_execution")
        refusals = [
            server.error(name="yap"),
            server.error(name="task_execution", arguments={"task": "2"}),
            server.error(name="task_execution", arguments={"feature": "auth"}),
        ]
        cursor = server.ask("prompts/list", cursor="1")["error"]["code"]

    assert ("task_execution", []) == (prompt["name"], prompt.get("arguments", []))
    begin = f'{prompt["description"]}\nWork on task 1 of the feature "auth".'
    assert f"{begin}\n\n## Title\n\n```text\nLog in\n```\n" in text
    last = "Close the task with set_task_status: done with a summary, or blocked with a reason."
    assert text.endswith(last)
    assert [-32602] * 4 == [cursor, *(code for code, _ in refusals)]
    told = [message for _, message in refusals]
    expected = [
        'Unknown prompt: "yap"',
        'the prompt "task_execution" has no argument "task"',
        'the prompt "task_execution" has no argument "feature"',
    ]
    assert expected == told


@pytest.mark.parametrize("version", VERSIONS)
def test_unbound_arguments_can_be_passed(project: Path, version: str) -> None:
    with asking(project, version, "enrichment") as server:
        (prompt,) = server.prompts()
        free = server.text("enrichment")
        named = server.text("enrichment", task="2")
        refused = [
            server.error(name="enrichment", arguments={"task": task})
            for task in ("99", "0", "-1", "1.0", " 1", "\u0661", "x" * 5000, "9" * 30)
        ]
        unknown = server.error(name="enrichment", arguments={"feature": "auth"})

    (argument,) = prompt["arguments"]
    assert ("task", False) == (argument["name"], argument["required"])
    assert 'Work on task 2 of the feature "auth".\n\n## Title\n\n```text\nShow the form' in named
    begin, *more = steps_in(free)
    assert "1. Take the first draft that list_tasks shows." == begin
    assert [line[3:] for line in more] == [line[3:] for line in steps_in(named)]
    assert [-32602] * len(refused) == [code for code, _ in refused]
    assert "there is no task 99" == refused[0][1]
    assert all(len(message) < 100 for _, message in refused)
    assert (-32602, 'the prompt "enrichment" has no argument "feature"') == unknown


@pytest.mark.parametrize("version", VERSIONS)
def test_the_user_has_no_prompt(project: Path, version: str) -> None:
    with asking(project, version, "manual") as server:
        assert [] == server.prompts()
        assert (-32602, 'Unknown prompt: "manual"') == server.error(name="manual")


def test_an_interactive_session_has_no_prompt(project: Path) -> None:
    assert [] == describe_session(project, "interactive")["prompts"]
    assert [] == describe_session(project, "whole", base="manual")["prompts"]


@pytest.mark.parametrize("recipe", ABOUT)
def test_arguments_are_for_the_rows_that_a_session_can_be_about_and_is_not(
    project: Path, recipe: str
) -> None:
    free = {} if recipe == "task_execution" else dict.fromkeys(ABOUT[recipe])
    for facts, expected in ((free, ARGUMENTS.get(recipe, [])), (ABOUT[recipe], [])):
        (prompt,) = describe_session(project, recipe, **facts)["prompts"]
        assert recipe == prompt["name"]
        assert expected == [argument["name"] for argument in prompt["arguments"]]


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("ramble", "This session works on the feature auth."),
        ("opus_review", "This session works on the feature auth."),
        ("discuss", "This session works on the discipline backend."),
        ("enrichment", 'Work on task 1 of the feature "auth".'),
    ],
)
def test_the_prompt_names_the_row_that_the_session_is_about(
    project: Path, recipe: str, expected: str
) -> None:
    said = describe_session(project, recipe, **ABOUT[recipe])

    assert expected == said["brief"]["task"].splitlines()[1]


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", ABOUT)
@pytest.mark.parametrize("bound", [True, False], ids=["bound", "free"])
def test_the_prompt_names_visible_tools_only_and_each_step_has_its_number(
    project: Path, recipe: str, *, bound: bool
) -> None:
    facts = ABOUT[recipe] if bound or recipe == "task_execution" else dict.fromkeys(ABOUT[recipe])
    said = describe_session(project, recipe, **facts)
    (prompt,) = said["prompts"]
    steps = steps_in(prompt["text"])

    assert names_in(prompt["text"]) <= {tool["name"] for tool in said["tools"]}
    assert [str(at) for at in range(1, len(steps) + 1)] == [step.split(".")[0] for step in steps]
    assert len(prompt["text"]) < 2500


def test_a_title_of_many_lines_is_quoted(project: Path) -> None:
    query(project, "UPDATE tasks SET title = ? WHERE id = 2", LONG)
    try:
        (prompt,) = describe_session(project, "task_execution", task_id=2)["prompts"]
    finally:
        query(project, "UPDATE tasks SET title = 'Show the form' WHERE id = 2")

    quoted = LONG.replace("\u2028", "\n")
    assert f"## Title\n\n```text\n{quoted}\n```\n\n## " in prompt["text"]


def test_a_recipe_with_an_odd_name_has_a_prompt_that_clients_can_name(project: Path) -> None:
    session = opened(project, ODD, task=2)
    (prompt,) = described(session.served[0].command)["prompts"]

    assert "Fr_h-St_ck_v1.2__kurz_" == prompt["name"]
    assert "```text\nShow the form\n```" in prompt["text"]
    assert session.brief is not None
    assert f"{session.brief.system}\n\n{session.prompt}" == prompt["text"]


def hidden_arguments(root: Path, said: dict[str, Any]) -> dict[str, set[str]]:
    """Return, by tool, the arguments that the user has and this session does not."""
    whole = {
        tool["name"]: set(tool["inputSchema"]["properties"])
        for tool in describe_session(root, "manual")["tools"]
    }
    return {
        tool["name"]: whole[tool["name"]] - set(tool["inputSchema"]["properties"])
        for tool in said["tools"]
    }


def texts_in(schema: object) -> Iterator[str]:
    """Yield every text in a schema except keys."""
    inner = schema.values() if isinstance(schema, dict) else schema
    for value in inner if isinstance(inner, Iterable) else ():
        yield from (value,) if isinstance(value, str) else texts_in(value)


CELLS = [*ABOUT, "interactive", LITTLE, "reader", "nothing", "untold"]


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", CELLS)
def test_no_word_names_a_tool_or_an_argument_that_the_session_does_not_have(
    project: Path, recipe: str
) -> None:
    """Descriptions, instructions, the prompt and refusals alike."""
    about = {"task_id": 1} if recipe in {"task_execution", LITTLE} else {}
    session = context_for(project, recipe, **about)
    with running(project, *on_context(session)) as wire:
        told = wire.shake_hands(VERSIONS[0])["instructions"]
        server = Asking(wire, VERSIONS[0])
        tools = server.ask("tools/list")["result"]["tools"]
        texts = [server.text(prompt["name"]) for prompt in server.prompts()]
        refusals = {tool["name"]: list(refused_calls(server, tool)) for tool in tools}
    visible = {tool["name"] for tool in tools}
    hidden = hidden_arguments(project, {"tools": tools})

    assert names_in(json.dumps(tools) + told + str(texts) + str(refusals)) <= visible
    for tool in tools:
        for argument in hidden[tool["name"]]:
            assert argument not in re.findall(r"\w+", tool["description"])
            assert argument not in [*texts_in(tool["inputSchema"]["properties"])]
            assert not [text for text in refusals[tool["name"]] if f'"{argument}"' in text]
    if not any("clear" in tool["inputSchema"]["properties"] for tool in tools):
        assert "clear" not in told


TASKS = {"backend": 1, "frontend": 2}
SENTENCE = re.compile(r"(?<=[.:;])\s+|\n")
DISCIPLINE_TAKES = """
ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;
UPDATE disciplines SET mcp_tool_overrides =
    '{"additional_disabled": ["ralph:update_task", "ralph:append_feature_learning"]}'
    WHERE name = 'backend';
"""
NARROWED = {
    "terse": """
base = "opus_review"
[narrow]
update_task = ["id", "description"]
update_feature = ["name", "description"]
append_feature_learning = ["feature_name", "text"]
""",
    "short": """
base = "ramble"
[narrow]
list_tasks = ["limit"]
append_feature_learning = ["feature_name", "text"]
update_feature = ["name", "boundaries", "clear"]
""",
    "brisk": """
base = "discuss"
[narrow]
update_discipline = ["name", "description"]
""",
}


@pytest.fixture(scope="module")
def narrowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which recipes lack arguments and a discipline lacks tools."""
    root = tmp_path_factory.mktemp("narrowed")
    folder = root / ".ralph" / "recipes"
    folder.mkdir(parents=True)
    for name, text in NARROWED.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return create_project(root, DISCIPLINE_TAKES)


def absent_arguments(texts: str, tools: list[dict[str, Any]], hidden: dict[str, set[str]]) -> Any:
    """Yield each sentence with an argument that the tools which it is about do not have.

    A sentence is about the tools that it names, else about all of them.
    """
    shown = {tool["name"]: {*tool["inputSchema"]["properties"]} for tool in tools}
    for sentence in SENTENCE.split(texts):
        named = names_in(sentence) & set(shown)
        words = set(re.findall(r"[a-z_]+", sentence)) if named else set()
        quoted = set(re.findall(r'"([a-z_]+)"', sentence))
        about = named or set(shown)
        for tool in about:
            had = set[str]().union(*(shown[one] for one in named))
            for argument in (words | quoted) & hidden[tool] - had:
                yield tool, argument, sentence


@pytest.mark.thorough
@pytest.mark.parametrize("discipline", shortened(TASKS, "backend"))
@pytest.mark.parametrize("recipe", [*ABOUT, *NARROWED])
def test_prompts_name_only_arguments_of_the_tools_that_they_speak_of(
    narrowed: Path, recipe: str, discipline: str
) -> None:
    base = tomllib.loads(NARROWED[recipe])["base"] if recipe in NARROWED else recipe
    about = {**ABOUT[base], "discipline": discipline, "base": base}
    if "task_id" in about:
        about["task_id"] = TASKS[discipline]
    said = describe_session(narrowed, recipe, **about)
    texts = "\n".join([said["instructions"], *(prompt["text"] for prompt in said["prompts"])])
    tools, hidden = said["tools"], hidden_arguments(narrowed, said)

    assert said["prompts"]
    assert names_in(texts) <= {tool["name"] for tool in tools}
    assert [] == list(absent_arguments(texts, tools, hidden))


def test_the_review_names_the_tool_whose_fields_can_be_emptied(project: Path) -> None:
    assert (
        'list a field in "clear" of update_feature to empty it'
        in (describe_session(project, "opus_review")["instructions"])
    )


def refused_calls(server: Asking, tool: dict[str, Any]) -> Iterator[str]:
    """Yield a tool's answers to calls with many kinds of faults."""
    schema = tool["inputSchema"]
    least = {name: SAMPLES.get(name, "x") for name in schema.get("required", ())}
    calls: list[dict[str, Any]] = [{}, least, {**least, "no_such": 1}]
    for name, value in schema["properties"].items():
        calls += [{**least, name: odd} for odd in ({"a": 1}, None, "", 99, ["nobody"])]
        calls += [{**least, name: wanted} for wanted in value.get("enum", ())]
    for arguments in calls:
        result = server.ask("tools/call", name=tool["name"], arguments=arguments)["result"]
        if result.get("isError"):
            yield result["content"][0]["text"]


def test_closing_mentions_reason_and_summary_only_if_offered(
    project: Path,
) -> None:
    said = describe_session(project, LITTLE, task_id=1)
    (prompt,) = said["prompts"]

    for text in (said["instructions"], prompt["text"]):
        assert "Close the task with set_task_status: done, or blocked." in text
        assert "summary" not in text
    assert {"status"} == set(said["tools"][0]["inputSchema"]["properties"])
    with connected(project, LITTLE, task_id=1) as driver:
        assert "blocked" == driver.call("set_task_status", status="blocked")["new"]
        assert 1 == driver.call("set_task_status", status="pending")["id"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statuses", "closing"),
    [
        (("todo", "in_progress", "done"), ": done with a summary."),
        (("pending", "done", "blocked"), ": done with a summary, or blocked with a reason."),
        (("pending", "in_progress"), "."),
    ],
)
def test_only_statuses_of_the_project_are_mentioned(
    tmp_path: Path, statuses: tuple[str, ...], closing: str
) -> None:
    text = (SCHEMAS / "a8.sql").read_text(encoding="utf-8")
    values = ", ".join(f"'{status}'" for status in statuses)
    old = "TEXT NOT NULL DEFAULT 'pending'"
    checked = text.replace(old, f"TEXT NOT NULL CHECK (status IN ({values})) DEFAULT 'pending'")
    assert text != checked
    create_database(
        tmp_path, checked.replace("DEFAULT 'pending'", f"DEFAULT '{statuses[0]}'"), ROWS
    )
    regenerate(tmp_path, force=False, say=quiet)
    said = describe_session(tmp_path, "task_execution")
    (prompt,) = said["prompts"]

    assert f"Close the task with set_task_status{closing}" in said["instructions"]
    assert prompt["text"].endswith(f"Close the task with set_task_status{closing}")
    assert ("in_progress" in statuses) == ("in_progress" in prompt["text"])


def test_a_session_without_tools_still_states_its_purpose(project: Path) -> None:
    said = describe_session(project, "nothing")
    (prompt,) = said["prompts"]

    assert [] == said["tools"]
    assert set() == names_in(prompt["text"] + said["instructions"])
    assert "nothing" == prompt["name"]
