"""Parsing of YAML tools and the schema of their parameters."""

import pytest

from ralphgen.kits.rye.server.formats.tools import parse_yaml_tool


def problems(text: str) -> tuple[str, ...]:
    return parse_yaml_tool(text, "hello").problems


class TestReading:
    """The metadata of a tool."""

    def test_what_is_not_said_is_not_there(self) -> None:
        assert {"version": "1.0.0"} == parse_yaml_tool("version: 1.0.0", "a").metadata

    def test_a_list_of_parameters_is_a_schema(self) -> None:
        found = parse_yaml_tool(
            "parameters:\n"
            "  - {name: who, required: true, description: whom}\n"
            "  - {name: times, type: integer, default: 1, minimum: 1}\n"
            "  - {name: tone, required: false, enum: [warm, cold]}\n",
            "a",
        )

        assert () == found.problems
        assert found.metadata["config_schema"] == {
            "type": "object",
            "properties": {
                "who": {"type": "string", "description": "whom"},
                "times": {"type": "integer", "default": 1, "minimum": 1},
                "tone": {"type": "string", "enum": ["warm", "cold"]},
            },
            "additionalProperties": False,
            "required": ["who"],
        }
        assert 3 == len(found.metadata["parameters"])

    def test_an_empty_list_allows_no_parameters(self) -> None:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}

        assert schema == parse_yaml_tool("parameters: []", "a").metadata["config_schema"]

    def test_other_schemas_are_none_of_the_parameters(self) -> None:
        assert "config_schema" not in parse_yaml_tool("input_schema: {}", "a").metadata


class TestProblems:
    """Problems, each with the expected value."""

    @pytest.mark.parametrize("text", ["", "- a", "text", "# none"])
    def test_a_tool_is_an_object(self, text: str) -> None:
        assert ("must be a YAML mapping",) == problems(text)

    @pytest.mark.parametrize(
        "parameters", ["", "{}", "a", "[a]", "[{}]", "[{name: 1}]", "[{name: ''}]", "{name: a}"]
    )
    def test_parameters_are_a_list_of_objects_with_names(self, parameters: str) -> None:
        expected = '"parameters" must be a list of objects with a "name"'

        assert (expected,) == problems(f"parameters: {parameters}")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("parameters: [{name: a}, {name: a}]", 'duplicate parameter "a"'),
            (
                "parameters: [{name: a, required: maybe}]",
                '"required" of the parameter "a" must be true or false, found "maybe"',
            ),
            (
                "parameters: []\nconfig_schema: {}",
                'has both "config_schema" and "parameters": remove one',
            ),
            ("config: a", '"config" must be an object, found "a"'),
            ("config_schema:", '"config_schema" must be an object, found null'),
            ("env_config: []", '"env_config" must be an object, found a list'),
            ("executor_id: 1", '"executor_id" must be a string or null, found 1'),
            ("a: 1\na: 2", 'line 2 ("a: 2"): duplicate key "a"'),
            ("a: 1\n---\nb: 2", 'line 2 ("---"): is not valid YAML: but found another document'),
        ],
    )
    def test_they_are_said(self, text: str, problem: str) -> None:
        assert (problem,) == problems(text)
