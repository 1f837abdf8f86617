"""Five tools without a prefix over stdio: arguments, errors and undisturbed frames."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rye_projects import (
    TYPES,
    Rye,
    frames,
    rye_project,
    serving,
    session,
    variables,
)
from wire import Wire

OFF = 'policy = "off"'
CONTRACT = {
    "search": (
        ["item_type", "query", "project_path"],
        ["source", "limit", "offset", "sort_by", "filters", "fuzzy"],
    ),
    "load": (["item_type", "item_id", "project_path"], ["source", "destination", "overwrite"]),
    "execute": (["item_type", "item_id", "project_path"], ["parameters", "dry_run", "source"]),
    "sign": (["item_type", "item_id", "project_path"], ["source", "parameters"]),
    "help": ([], ["topic"]),
}
"""Required and optional arguments of each tool."""


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session on a project with an item of every type; read-only."""
    with serving(tmp_path_factory.mktemp("protocol"), settings=OFF) as found:
        for item_type in TYPES:
            found.put(item_type, "demo/sample")
        yield found


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """Yield a bare server that runs any tool; each of its lines must be a frame."""
    root = rye_project(tmp_path / "project", OFF)
    with frames(root, variables(tmp_path)) as found:
        yield found


def schemas(rye: Rye) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool["inputSchema"] for tool in rye.driver.tools()}


def test_there_are_exactly_five_tools_of_bare_names(rye: Rye) -> None:
    assert ["search", "load", "execute", "sign", "help"] == rye.driver.names()


def test_each_has_a_sentence_and_takes_nothing_that_it_does_not_name(rye: Rye) -> None:
    for tool in rye.driver.tools():
        assert 20 < len(tool["description"]) < 300
        assert tool["inputSchema"]["additionalProperties"] is False
        Draft202012Validator.check_schema(tool["inputSchema"])


@pytest.mark.parametrize("tool", CONTRACT)
def test_a_tool_takes_what_the_contract_names(rye: Rye, tool: str) -> None:
    required, optional = CONTRACT[tool]
    schema = schemas(rye)[tool]

    assert [*required, *optional] == [*schema["properties"]]
    assert required == schema.get("required", [])


def test_types_and_sources_are_words_of_lists(rye: Rye) -> None:
    found = schemas(rye)
    types, sources = ["directive", "tool", "knowledge"], ["project", "user", "system"]

    for tool in ("load", "execute", "sign"):
        assert types == found[tool]["properties"]["item_type"]["enum"]
    assert [*types, "all"] == found["search"]["properties"]["item_type"]["enum"]
    assert [*sources, "all"] == found["search"]["properties"]["source"]["enum"]
    for tool in ("load", "execute"):
        assert sources == found[tool]["properties"]["source"]["enum"]
    assert ["project", "user"] == found["sign"]["properties"]["source"]["enum"]
    assert ["project", "user"] == found["load"]["properties"]["destination"]["enum"]


def test_clients_are_told_which_tools_only_look_and_which_may_do_harm(rye: Rye) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in rye.driver.tools()}

    assert ["search", "help"] == [name for name in hints if hints[name].get("readOnlyHint")]
    assert ["execute"] == [name for name in hints if hints[name]["openWorldHint"]]
    assert hints["execute"]["destructiveHint"] is True
    assert hints["sign"]["idempotentHint"] is True


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_every_tool_answers_a_client_of_either_era(tmp_path: Path, era: Any) -> None:
    with serving(tmp_path, settings=OFF, era=era) as rye:
        rye.put("tool", "demo/sample")
        found = rye.found("sample")
        source = rye.load("tool", "demo/sample")["source"]
        ran = rye.run("tool", "demo/sample", who="Bob")["data"]["params"]
        signed = rye.sign("tool", "demo/sample")["status"]
        helped = rye.says("help")["topic"]

    assert (["demo/sample"], "project", {"who": "Bob"}) == (found, source, ran)
    assert ("signed", "overview") == (signed, helped)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("mcp__rye__search", "search"),
        ("mcp__plugin_ralphgen_rye__load", "load"),
        ("mcp__rye__serach", "search"),
        ("Sign", "sign"),
        ("executes", "execute"),
    ],
)
def test_an_unknown_tool_is_refused_with_the_nearest_name(rye: Rye, name: str, tool: str) -> None:
    _, message = rye.driver.protocol_error(name)

    assert message.endswith(f'this server has none of this name; did you mean "{tool}"?')


@pytest.mark.parametrize(
    "name", ["find", "mcp__rye__search", "Search", "", "search\0", "list_tasks"]
)
def test_an_unknown_tool_is_an_error_of_the_protocol(rye: Rye, name: str) -> None:
    code, message = rye.driver.protocol_error(name, item_type="all", query="")

    assert -32602 == code
    assert "Unknown tool: " in message


@pytest.mark.parametrize(
    ("tool", "given", "named"),
    [
        ("search", {"query": ""}, "item_type"),
        ("search", {"item_type": "all"}, "query"),
        ("search", {"item_type": "all", "query": "", "project_path": None}, "project_path"),
        ("search", {"item_type": "system", "query": ""}, "item_type"),
        ("search", {"item_type": "all", "query": 5}, "query"),
        ("search", {"item_type": "all", "query": "", "limit": "five"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": "true"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": "[5]"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": True}, "limit"),
        ("search", {"item_type": "all", "query": "", "filters": []}, "filters"),
        ("search", {"item_type": "all", "query": "", "fuzzy": True}, "fuzzy"),
        ("search", {"item_type": "all", "query": "", "fuzzy": {"on": True}}, "fuzzy"),
        ("search", {"item_type": "all", "query": "", "fuzzy": {"max_distance": 4}}, "max_distance"),
        ("search", {"item_type": "all", "query": "", "fields": {}}, "fields"),
        ("search", {"item_type": "all", "query": "", "sort_by": "size"}, "sort_by"),
        ("load", {"item_type": "all", "item_id": "demo/sample"}, "item_type"),
        ("load", {"item_type": "tool"}, "item_id"),
        ("load", {"item_type": "tool", "item_id": ["demo/sample"]}, "item_id"),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "source": "all"}, "source"),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "overwrite": 1}, "overwrite"),
        ("execute", {"item_type": "tool", "item_id": "demo/sample", "parameters": "x"}, "paramet"),
        ("execute", {"item_type": "tool", "item_id": "demo/sample", "timeout": 5}, "timeout"),
        ("sign", {"item_type": "tool", "item_id": "demo/sample", "source": "system"}, "source"),
        ("sign", {"item_type": "tool", "item_id": "demo/sample", "location": "user"}, "location"),
        ("help", {"topic": 5}, "topic"),
    ],
)
def test_wrong_arguments_are_refused_by_naming_them(
    rye: Rye, tool: str, given: dict[str, Any], named: str
) -> None:
    error = rye.refuses(tool, **given)

    assert "VALIDATION_FAILED" == error["code"]
    assert named in error["message"]


def test_null_stands_for_an_argument_that_is_left_out(rye: Rye) -> None:
    optional = dict.fromkeys(CONTRACT["search"][1])
    given = {"item_type": "tool", "query": "", "project_path": str(rye.root), **optional}
    failed, text = rye.driver.ask("search", given)
    answer = json.loads(text)

    assert (False, "all", 10, 0) == (failed, answer["source"], answer["limit"], answer["offset"])


def test_two_sessions_on_one_project_see_each_others_items(tmp_path: Path) -> None:
    root = rye_project(tmp_path / "project")
    with session(tmp_path, root) as one, session(tmp_path, root) as other:
        before = other.found("needle")
        one.put("knowledge", "needle")
        after = [one.found("needle"), other.found("needle")]
        one.sign("knowledge", "needle")
        state = other.load("knowledge", "needle")["signature"]["state"]

    assert ([], [["needle"], ["needle"]], "valid") == (before, after, state)
