"""Execution of tools: the agent receives their results, output and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from rye_projects import MOST, PYTHON_RUNTIME, SUBPROCESS, Rye, python_tool, yaml_tool

SETTINGS = 'policy = { tool = "off" }'

SCHEMA = {
    "type": "object",
    "properties": {
        "who": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
        "times": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "tone": {"enum": ["warm", "dry"]},
        "place": {"type": "object", "properties": {"city": {"default": "Rome"}}},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "none": {"type": "null"},
    },
    "required": ["who"],
    "additionalProperties": False,
}
TOOL = {"item_type": "tool", "item_id": "demo/t"}


def python(rye: Rye, code: str, **names: Any) -> Path:
    """Write a Python tool."""
    return rye.put("tool", "demo/t", python_tool("demo/t", code, **names))


def shell(rye: Rye, script: str, *arguments: str, **config: Any) -> None:
    """Write a command tool that runs a shell script with arguments."""
    told = {"command": "sh", "args": ["-c", script, "sh", *arguments], **config}
    rye.put("tool", "demo/t", yaml_tool("demo/t", config=told), extension=".yaml")


def data(rye: Rye, **parameters: Any) -> Any:
    return rye.run("tool", "demo/t", **parameters)["data"]


class TestPython:
    """Python tools: one function, called with the parameters and the project."""

    @pytest.mark.parametrize(
        "code",
        [
            "def execute(params, project_path): return [params, project_path]",
            "async def execute(params, project_path): return [params, project_path]",
            (
                "import asyncio\n\nasync def execute(params, project_path):\n"
                "    await asyncio.sleep(0)\n    return [params, project_path]"
            ),
        ],
    )
    def test_it_is_called_and_waited_for(self, rye: Rye, code: str) -> None:
        python(rye, code)

        assert [{"a": {"b": [1, None, "ü"]}}, str(rye.root)] == data(rye, a={"b": [1, None, "ü"]})

    def test_tools_of_its_folder_can_be_imported(self, rye: Rye) -> None:
        python(rye, "import neighbour\n\ndef execute(p, q): return neighbour.X")
        rye.put("tool", "demo/neighbour", python_tool("demo/neighbour", "X = 1\n"))

        assert 1 == data(rye)

    def test_it_runs_in_the_project(self, rye: Rye) -> None:
        python(rye, "import os\n\ndef execute(p, q): return os.getcwd()")

        assert str(rye.root) == data(rye)


class TestCommands:
    """Command tools: the author writes the arguments, the output is the data."""

    def test_parameters_stand_where_they_are_named(self, rye: Rye) -> None:
        rye.put("tool", "demo/t", yaml_tool("demo/t"), extension=".yaml")
        found = data(rye, text="a b; echo $HOME | rm `x` $(y) && 'q'")

        assert "a b; echo $HOME | rm `x` $(y) && 'q'\n" == found["stdout"]
        assert ("", 0) == (found["stderr"], found["return_code"])

    def test_without_a_command_nothing_runs(self, rye: Rye) -> None:
        rye.put("tool", "demo/t", yaml_tool("demo/t", config={}), extension=".yaml")
        error = rye.refuses("execute", **TOOL)

        assert "VALIDATION_FAILED" == error["code"]
        assert '"config.command"' in error["message"]


class TestLongOutput:
    """An answer has a limited size and names the fields that were cut."""

    def test_200_kb_of_a_python_tool_are_cut_and_named(self, rye: Rye) -> None:
        python(rye, "def execute(p, q): return {'text': 'x' * 200_000, 'n': 1}")
        answer = rye.run("tool", "demo/t")

        assert (["data.text"], 1) == (answer["cut"], answer["data"]["n"])
        assert 10_000 < len(answer["data"]["text"]) < MOST

    def test_what_is_more_than_the_server_keeps_says_so(self, rye: Rye) -> None:
        shell(rye, "head -c 3000000 /dev/zero | tr '\\0' 'x'")

        assert True is data(rye)["stdout_truncated"]


class TestParameters:
    """Parameters are checked against the tool's schema before anything runs."""

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("given", "word"),
        [
            ({}, "'who' is a required property"),
            ({"who": 7}, "parameters.who: 7 is not of type 'string'"),
            ({"who": "B"}, "parameters.who: 'B' is too short"),
            ({"who": "bob"}, "does not match"),
            ({"who": "Bob", "times": "3"}, "parameters.times: '3' is not of type 'integer'"),
            ({"who": "Bob", "times": 6}, "greater than the maximum"),
            ({"who": "Bob", "times": True}, "is not of type 'integer'"),
            ({"who": "Bob", "tone": "cold"}, "is not one of"),
            ({"who": "Bob", "tags": [1]}, "parameters.tags[0]"),
            ({"who": "Bob", "tags": ["a", "b", "c"]}, "parameters.tags"),
            ({"who": "Bob", "none": 0}, "is not of type 'null'"),
            ({"who": "Bob", "extra": 1}, "'extra' was unexpected"),
        ],
    )
    @pytest.mark.parametrize("dry_run", [False, True])
    def test_what_does_not_fit_is_refused_and_nothing_runs(
        self, rye: Rye, given: dict[str, Any], word: str, dry_run: bool
    ) -> None:
        python(rye, "def execute(p, q): open('ran', 'w').close()", schema=SCHEMA)
        error = rye.refuses("execute", **TOOL, parameters=given, dry_run=dry_run)

        assert "VALIDATION_FAILED" == error["code"]
        assert word in " ".join(error["issues"])
        assert not (rye.root / "ran").exists()


class TestADryRun:
    """A dry run reports the planned execution and changes nothing."""

    def test_nothing_is_run_or_written(self, rye: Rye) -> None:
        code = "open('imported', 'w').close()\n\ndef execute(p, q): open('ran', 'w').close()"
        python(rye, code, schema=SCHEMA)
        before = sorted(rye.folder.rglob("*"))
        answer = rye.says("execute", **TOOL, dry_run=True, parameters={"who": "Bob"})

        assert before == sorted(rye.folder.rglob("*"))
        assert ("validation_passed", {"who": "Bob", "times": 2}, 2) == (
            answer["status"],
            answer["parameters"],
            answer["validated_pairs"],
        )
        assert ["demo/t", PYTHON_RUNTIME, SUBPROCESS] == [
            element["item_id"] for element in answer["chain"]
        ]
        assert "data" not in answer

    def test_no_request_is_sent_and_no_secret_told(self, rye: Rye) -> None:
        config = {"url": "https://example.com/{a}?k=${HOME}", "method": "post"}
        text = yaml_tool("demo/t", executor_id="http_client", config=config)
        rye.put("tool", "demo/t", text, extension=".yaml")
        answer = rye.says("execute", **TOOL, dry_run=True, parameters={"a": "b c"})

        assert "POST" == answer["resolved"]["method"]
        assert "${HOME}" in answer["resolved"]["url"]
        assert str(rye.folder / "home") not in json.dumps(answer["resolved"])
