"""The tool help: topics match the tools of the session, and its examples can be signed."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rye_projects import Rye, put, serving

TOPICS = ["overview", "search", "load", "execute", "sign", "directives", "tools", "knowledge"]
TOOLS = ["search", "load", "execute", "sign"]
FORMATS = {"directives": "directive", "tools": "tool", "knowledge": "knowledge"}
EXAMPLE = re.compile(r"^\.ai/(\w+)/(\S+)\.(\w+):\n\n````\n(.*?)````$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session on a project without items."""
    with serving(tmp_path_factory.mktemp("help")) as session:
        yield session


def content(rye: Rye, topic: str) -> str:
    text = rye.says("help", topic=topic)["content"]
    assert isinstance(text, str)
    return text


def schema(rye: Rye, tool: str) -> dict[str, Any]:
    (listed,) = (entry for entry in rye.driver.tools() if entry["name"] == tool)
    found: dict[str, Any] = listed["inputSchema"]
    return found


def test_without_a_topic_it_is_an_overview_of_the_tools_and_all_topics(rye: Rye) -> None:
    answer = rye.says("help")

    assert ("success", "overview", TOPICS) == (answer["status"], answer["topic"], answer["topics"])
    assert rye.driver.names() == re.findall(r"^- (\w+): ", answer["content"], re.MULTILINE)


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_is_answered_under_its_name(rye: Rye, topic: str) -> None:
    answer = rye.says("help", topic=topic)

    assert (topic, TOPICS) == (answer["topic"], answer["topics"])
    assert 200 < len(answer["content"]) < 4_000


def test_an_unknown_topic_is_refused_by_naming_those_that_there_are(rye: Rye) -> None:
    error = rye.refuses("help", topic="signing")

    assert "VALIDATION_FAILED" == error["code"]
    assert all(f'"{topic}"' in error["message"] for topic in TOPICS)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_help_of_a_tool_covers_its_schema(rye: Rye, tool: str) -> None:
    text = content(rye, tool)
    listed = schema(rye, tool)
    lines = dict(re.findall(r"^- (\w+) \((.*)$", text, re.MULTILINE))

    assert [*listed["properties"]] == [*lines]
    for name, rule in listed["properties"].items():
        assert (name in listed["required"]) == ("required" in lines[name])
        told = [*rule.get("enum", ()), *rule.get("properties", ()), rule.get("description", "")]
        told += [str(rule[limit]) for limit in ("minimum", "maximum") if limit in rule]
        assert [] == [word for word in told if word not in lines[name]]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_example_of_a_tool_is_a_call_that_its_schema_allows(rye: Rye, tool: str) -> None:
    (call,) = re.findall(r"^Example: (.*)$", content(rye, tool), re.MULTILINE)
    given, listed = json.loads(call), schema(rye, tool)

    assert {*listed["required"]} <= {*given} <= {*listed["properties"]}
    for name, value in given.items():
        assert value in listed["properties"][name].get("enum", [value])


@pytest.mark.parametrize("topic", FORMATS)
def test_what_a_format_shows_can_be_signed_as_it_is(rye: Rye, topic: str) -> None:
    shown = EXAMPLE.findall(content(rye, topic))

    assert shown
    for folder, item_id, extension, text in shown:
        put(rye.project / folder / f"{item_id}.{extension}", text)
        answer = rye.sign(FORMATS[topic], item_id)
        assert ("signed", []) == (answer["status"], answer["warnings"]), item_id


def test_what_the_formats_show_can_be_executed(rye: Rye) -> None:
    for topic, item_type in FORMATS.items():
        for folder, item_id, extension, text in EXAMPLE.findall(content(rye, topic)):
            put(rye.project / folder / f"{item_id}.{extension}", text)
            rye.sign(item_type, item_id)

    assert {"said": "HELLO"} == rye.run("tool", "demo/shout", text="hello")["data"]
    assert "hello\n" == rye.run("tool", "demo/echo", text="hello")["data"]["stdout"]
    assert "Say hello to Bob." in json.dumps(rye.run("directive", "demo/greet", who="Bob")["data"])
    assert "By their first name." in rye.run("knowledge", "demo/hello")["data"]["content"]


def test_a_format_leads_to_the_knowledge_that_says_all(rye: Rye) -> None:
    for topic in FORMATS:
        (item_id,) = re.findall(r'item_id "(rye/[\w-]+)"', content(rye, topic))
        assert "system" == rye.load("knowledge", item_id)["source"]


def test_help_needs_no_project_and_takes_nothing_else(rye: Rye) -> None:
    error = rye.refuses("help", topic="overview", item_id="demo/greet")

    assert "VALIDATION_FAILED" == error["code"]
    assert "item_id" in error["message"]
