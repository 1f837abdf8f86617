"""The workflow of an agent: find, read, write, sign, try and use items with all five tools."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import Rye, directive, knowledge, put, python_tool, serving, yaml_tool

CALL = re.compile(r'[Cc]all (\w+) with item_type "(\w+)"(?: and|,) item_id "([^"]+)"')
QUERY = re.compile(r'Call search with item_type "(\w+)" and the words of the \w+: ([^.]+)\.')
GIT = """
import subprocess

def execute(params, project_path):
    done = subprocess.run(
        ["git", params["command"], *params.get("args", [])], cwd=project_path,
        capture_output=True, text=True, check=True,
    )
    return {"output": done.stdout}
"""
GIT_SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"enum": ["status", "init"]},
        "args": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["command"],
    "additionalProperties": False,
}
COUNTS = """
def execute(params, project_path):
    with open(f"{project_path}/{params['file']}") as file:
        return {"lines": sum(1 for _ in file)}
"""
COUNTS_SCHEMA = {
    "type": "object",
    "properties": {"file": {"type": "string"}},
    "required": ["file"],
    "additionalProperties": False,
}
SAY_SCHEMA = {**COUNTS_SCHEMA, "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture
def rye(tmp_path: Path) -> Iterator[Rye]:
    """Yield a user's session on a project without items, with the default policies."""
    with serving(tmp_path) as found:
        yield found


def test_check_git_status(rye: Rye) -> None:
    """The example of the original idea: search, load, execute; plus a signature."""
    rye.put("tool", "capabilities/git", python_tool("capabilities/git", GIT, schema=GIT_SCHEMA))
    (found,) = rye.says("search", item_type="tool", query="git")["results"]
    loaded = rye.load("tool", found["id"])
    schema = loaded["metadata"]["config_schema"]
    call = {
        "item_type": "tool",
        "item_id": found["id"],
        "parameters": {"command": schema["properties"]["command"]["enum"][0]},
    }
    refused = rye.refuses("execute", **call)
    signed = rye.sign("tool", found["id"])
    rye.run("tool", "git", command="init", args=["--quiet"])
    answer = rye.says("execute", **call)

    assert ("git", "capabilities", "unsigned") == (
        found["name"],
        found["category"],
        loaded["signature"]["state"],
    )
    assert (GIT_SCHEMA, "What git does") == (schema, loaded["metadata"]["description"])
    assert ("UNSIGNED", "signed") == (refused["code"], signed["status"])
    assert 'sign it with "sign"' in refused["message"]
    assert ("success", "valid") == (answer["status"], answer["metadata"]["signature"])
    assert ".ai/" in answer["data"]["output"]
    assert isinstance(answer["metadata"]["duration_ms"], int)


class Agent:
    """Follows a directive of the system literally, to write `text` as an item.

    `given` are the parameters for trying the new item.
    """

    def __init__(self, rye: Rye, text: str, given: dict[str, Any]) -> None:
        self.rye = rye
        self.text = text
        self.given = given
        self.path = Path()
        self.answers: list[dict[str, Any]] = []

    def follow(self, name: str, **inputs: str) -> list[str]:
        """Follow the steps in order and return their names."""
        answer = self.rye.run("directive", name, **inputs)
        assert "Follow this directive" in answer["instructions"]
        steps = answer["data"]["steps"]
        for step in steps:
            self._look(step["action"])
            self._write(step["action"], inputs.get("kind", "python"))
            self._call(step["action"])
        return [step["name"] for step in steps]

    def _look(self, action: str) -> None:
        for item_type, words in QUERY.findall(action):
            query = " ".join(re.findall(r"\w+", words))
            assert [] == self.rye.found(query, item_type), "one exists"

    def _write(self, action: str, kind: str) -> None:
        if not action.startswith("Write the file"):
            return
        paths = re.findall(r"\.ai/\S+\.(?:md|py|yaml)", action)
        self.path = self.rye.root / paths[0 if kind == "python" else -1]
        put(self.path, self.text)

    def _call(self, action: str) -> None:
        for tool, item_type, item_id in CALL.findall(action):
            given: dict[str, Any] = {"item_type": item_type, "item_id": item_id}
            if tool == "execute":
                parameters = {"parameters": self.given} if self.given else {}
                assert "dry_run true" in action
                checked = self.rye.says(tool, **given, dry_run=True, **parameters)
                assert "validation_passed" == checked["status"]
                if "with a wrong parameter, which must be refused" in action:
                    wrong = self.rye.refuses(tool, **given, parameters={"wrong": 1})
                    assert "VALIDATION_FAILED" == wrong["code"]
                given |= parameters
            self.answers.append(self.rye.says(tool, **given))


def test_a_directive_is_created_as_the_system_says(rye: Rye) -> None:
    text = directive("desk/tidy", description="Put the desk in order", body="\nMind {input:who}.\n")
    agent = Agent(rye, text, {"who": "Bob"})
    steps = agent.follow(
        "rye/create_directive", id="desk/tidy", purpose="Put the desk in order every evening"
    )
    read, signed, executed = agent.answers

    assert ["look_around", "read_the_format", "settle", "write", "sign", "try"] == steps
    assert ("system", "rye/directive-format") == (read["source"], read["item_id"])
    assert rye.file("directive", "desk/tidy") == agent.path == Path(signed["path"])
    assert ("signed", []) == (signed["status"], signed["warnings"])
    assert ("Mind Bob.", "valid") == (executed["data"]["body"], executed["metadata"]["signature"])
    assert ["desk/tidy"] == rye.found("desk", "directive")


@pytest.mark.parametrize(
    ("kind", "text", "given", "expected"),
    [
        (
            "python",
            python_tool("desk/count", COUNTS, schema=COUNTS_SCHEMA),
            {"file": "three.txt"},
            {"lines": 3},
        ),
        (
            "command",
            yaml_tool("desk/count", config_schema=SAY_SCHEMA),
            {"text": "three"},
            {"stdout": "three\n", "stderr": "", "return_code": 0},
        ),
    ],
)
def test_a_tool_is_created_as_the_system_says(
    rye: Rye, kind: str, text: str, given: dict[str, Any], expected: object
) -> None:
    put(rye.root / "three.txt", "a\nb\nc\n")
    agent = Agent(rye, text, given)
    agent.follow("rye/create_tool", id="desk/count", purpose="Number the pencils", kind=kind)
    read, signed, executed = agent.answers

    extension = ".py" if kind == "python" else ".yaml"
    assert rye.file("tool", "desk/count", extension=extension) == agent.path
    assert ("rye/tool-format", "signed", []) == (
        read["item_id"],
        signed["status"],
        signed["warnings"],
    )
    assert (expected, "valid") == (executed["data"], executed["metadata"]["signature"])


def test_knowledge_is_created_as_the_system_says(rye: Rye) -> None:
    text = knowledge("desk/lamps", "Lamps blind who sits opposite.\n", title="Where lamps stand")
    agent = Agent(rye, text, {})
    steps = agent.follow("rye/create_knowledge", id="desk/lamps", title="Where lamps stand")
    read, signed, executed = agent.answers
    for_strangers = rye.found("lamps opposite", "knowledge")

    assert ["look_around", "read_the_format", "write", "sign", "try"] == steps
    assert "rye/knowledge-format" == read["item_id"]
    assert rye.file("knowledge", "desk/lamps") == agent.path
    assert ("signed", []) == (signed["status"], signed["warnings"])
    assert "Lamps blind who sits opposite." == executed["data"]["content"].strip()
    assert "desk/lamps" in for_strangers[:3]


def test_who_follows_it_again_is_told_that_there_is_one(rye: Rye) -> None:
    """The first step finds the item that an earlier run wrote."""
    rye.signed("tool", "desk/count", python_tool("desk/count", tool_description="Number pencils"))
    told = rye.run("directive", "rye/create_tool", id="desk/other", purpose="Number pencils")
    ((item_type, words),) = QUERY.findall(told["data"]["steps"][0]["action"])

    assert ["desk/count"] == rye.found(words, item_type)
