"""Tool parameters, which follow a schema, and directive inputs."""

from socket import create_server
from typing import Any

import pytest

from ralphgen.kits.rye.server import values as parameters
from ralphgen.kits.rye.server.formats import directives as inputs
from ralphgen.runtime.errors import CodedError

INTEGER = {"type": "integer"}
NESTED = {
    "properties": {
        "name": {"type": "string", "default": "x"},
        "options": {
            "type": "object",
            "properties": {"depth": {"type": "integer", "default": 3}, "list": {"default": []}},
        },
    }
}


def tool_error(schema: Any, given: dict[str, Any]) -> CodedError:
    with pytest.raises(CodedError) as caught:
        parameters.checked(schema, given, "demo/x")
    return caught.value


def entry(name: str = "k", kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "required": False, **more}


def input_error(entries: list[dict[str, Any]], given: dict[str, Any]) -> CodedError:
    with pytest.raises(CodedError) as caught:
        inputs.checked_inputs(entries, given)
    return caught.value


class TestToolParameters:
    """JSON Schema, draft 2020-12, without remote references."""

    def test_parameters_without_a_schema_are_accepted(self) -> None:
        given = {"a": [1, {"b": None}]}

        assert given == parameters.checked(None, given, "demo/x")

    def test_defaults_are_filled_in_within_objects(self) -> None:
        found = parameters.checked(NESTED, {"options": {"depth": 9}}, "demo/x")

        assert {"name": "x", "options": {"depth": 9, "list": []}} == found

    def test_defaults_create_no_objects(self) -> None:
        assert {"name": "x"} == parameters.checked(NESTED, {}, "demo/x")

    def test_parameters_and_schema_are_not_modified(self) -> None:
        given: dict[str, Any] = {"options": {}}
        found = parameters.checked(NESTED, given, "demo/x")
        found["options"]["list"].append(1)

        assert {"options": {}} == given
        assert [] == parameters.checked(NESTED, given, "demo/x")["options"]["list"]

    def test_default_must_match_the_schema(self) -> None:
        error = tool_error({"properties": {"n": {"type": "integer", "default": "no"}}}, {})

        assert ["parameters.n: 'no' is not of type 'integer'"] == error.facts["issues"]

    def test_text_is_not_converted_to_a_number(self) -> None:
        error = tool_error({"properties": {"n": INTEGER}}, {"n": "5"})

        assert "VALIDATION_FAILED" == error.code
        assert "for the tool \"demo/x\": parameters.n: '5' is not of type" in str(error)

    def test_every_problem_is_named_with_its_path(self) -> None:
        schema = {
            "properties": {"a": INTEGER, "b": {"items": INTEGER}},
            "required": ["c"],
            "additionalProperties": False,
        }
        error = tool_error(schema, {"a": "x", "b": [1, "y"], "d": 0})

        assert [
            "parameters: 'c' is a required property",
            "parameters: Additional properties are not allowed ('d' was unexpected)",
            "parameters.a: 'x' is not of type 'integer'",
            "parameters.b[1]: 'y' is not of type 'integer'",
        ] == error.facts["issues"]

    @pytest.mark.slow
    def test_problems_are_limited_in_number_and_length(self) -> None:
        error = tool_error(
            {"items": INTEGER, "additionalProperties": INTEGER},
            {f"k{number}": "x" * 5000 for number in range(50)},
        )

        assert 20 == len(error.facts["issues"])
        assert 300 == max(len(issue) for issue in error.facts["issues"])

    @pytest.mark.thorough
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("schema", "why"),
        [
            ({"type": "strin"}, "config_schema.type: 'strin' is not valid"),
            ({"properties": {"a": {"pattern": "("}}}, "config_schema.properties.a.pattern: '('"),
            ({"$ref": "http://127.0.0.1:9/x"}, 'it refers to "http://127.0.0.1:9/x"'),
            ({"$ref": "file:///etc/passwd"}, 'it refers to "file:///etc/passwd"'),
            ({"$ref": "#/$defs/no"}, 'it refers to "/$defs/no"'),
            ({"$ref": "#"}, "endless self-reference"),
        ],
    )
    def test_invalid_schema_is_named(self, schema: Any, why: str) -> None:
        error = tool_error(schema, {"a": "x"})

        assert "VALIDATION_FAILED" == error.code
        assert 'the parameter schema of the tool "demo/x" is not valid' in str(error)
        assert why in str(error)

    def test_huge_number_does_not_crash_the_check(self) -> None:
        error = tool_error({"properties": {"a": {"multipleOf": 0.1}}}, {"a": 10**400})

        assert "cannot check the parameters" in str(error)

    @pytest.mark.slow
    def test_remote_references_are_not_fetched(self) -> None:
        with create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            tool_error({"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/x"}, {})

            with pytest.raises(BlockingIOError):
                server.accept()

    @pytest.mark.slow
    def test_local_references_are_followed(self) -> None:
        schema = {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": INTEGER}}

        assert {"a": 1} == parameters.checked(schema, {"a": 1}, "demo/x")
        assert "parameters.a" in str(tool_error(schema, {"a": "x"}))


class TestDirectiveInputs:
    """A directive is text, so its inputs can be strings."""

    @pytest.mark.parametrize(
        ("kind", "given", "expected"),
        [
            ("string", "a", "a"),
            ("string", 5, "5"),
            ("string", True, "true"),
            ("integer", "5", 5),
            ("integer", 5.0, 5),
            ("number", "1.5", 1.5),
            ("number", 2, 2),
            ("boolean", "Yes", True),
            ("boolean", False, False),
            ("array", "[1, 2]", [1, 2]),
            ("array", [1], [1]),
            ("object", '{"a": 1}', {"a": 1}),
            ("path", "x/y", "x/y"),
            (" Integer ", "7", 7),
        ],
    )
    def test_value_is_converted_to_its_type(self, kind: str, given: Any, expected: Any) -> None:
        found = inputs.checked_inputs([entry(kind=kind)], {"k": given})["k"]

        assert (expected, type(expected)) == (found, type(found))

    @pytest.mark.parametrize(
        ("kind", "given", "why"),
        [
            ("string", [1], "must be a string, found a list"),
            ("integer", "5.5", 'must be an integer, found "5.5"'),
            ("integer", "five", 'must be a number, found "five"'),
            ("integer", "1e999", "must be a number"),
            ("number", True, "must be a number, found true"),
            ("number", "NaN", "must be a number"),
            ("boolean", "maybe", 'must be true or false, found "maybe"'),
            ("boolean", 1, "must be true or false, found 1"),
            ("array", '{"a": 1}', "must be a list in JSON"),
            ("object", "[" * 100_000, "must be an object in JSON"),
        ],
    )
    def test_value_of_another_type_is_refused(self, kind: str, given: Any, why: str) -> None:
        error = input_error([entry(kind=kind)], {"k": given})

        assert "VALIDATION_FAILED" == error.code
        assert f'"k" {why}' in str(error)

    def test_required_input_must_not_be_missing_or_null(self) -> None:
        entries = [entry("a", required=True), entry("b", required=True)]
        error = input_error(entries, {"b": None})

        assert ['"a" is missing', '"b" is missing'] == error.facts["issues"]
        assert ["a", "b"] == [told["name"] for told in error.facts["inputs"]]

    def test_default_satisfies_a_required_input(self) -> None:
        entries = [entry("n", "integer", required=True, default="3"), entry("m")]

        assert {"n": 3} == inputs.checked_inputs(entries, {})

    @pytest.mark.parametrize(
        ("names", "given", "why"),
        [
            (("project_name", "other"), "projectName", 'did you mean "project_name"?'),
            (("a", "b"), "zzz", 'expected "a", "b"'),
            ((), "a", "the directive takes none"),
        ],
    )
    def test_undeclared_input_is_refused(
        self, names: tuple[str, ...], given: str, why: str
    ) -> None:
        error = input_error([entry(name) for name in names], {given: "x"})

        assert f'unknown input "{given}": {why}' in str(error)

    @pytest.mark.parametrize(
        ("rule", "kind", "fits", "fails", "why"),
        [
            ({"enum": "low | high"}, "string", "low", "mid", "must be one of low, high"),
            ({"enum": "1,2"}, "integer", "2", "3", "must be one of 1, 2"),
            ({"min": "2"}, "integer", 2, 1, "must be at least 2"),
            ({"max": "2"}, "number", 2, "2.1", "must be at most 2"),
            ({"min": "2"}, "string", "ab", "a", "must be at least 2"),
            ({"max": "1"}, "array", [1], [1, 2], "must be at most 1"),
        ],
    )
    def test_limits_are_enforced(
        self, rule: dict[str, str], kind: str, fits: Any, fails: Any, why: str
    ) -> None:
        inputs.checked_inputs([entry(kind=kind, **rule)], {"k": fits})

        assert f'"k" {why}' in str(input_error([entry(kind=kind, **rule)], {"k": fails}))

    def test_booleans_have_no_limits(self) -> None:
        assert {"k": True} == inputs.checked_inputs([entry(kind="boolean", min="2")], {"k": "true"})


class TestReferences:
    """References to inputs in the text of a directive."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("{input:who} and ${inputs.who}", "Bob and Bob"),
            ("{input:no} ${inputs.no}", "{input:no} ${inputs.no}"),
            ("[{input:no?}]", "[]"),
            ("{input:no:some one}{input:no|x}{input:no:}", "some onex"),
            ("{input:who?}{input:who:y}", "BobBob"),
            ("{input:list}{input:yes}", '[1, "a"]true'),
            ("{who} ${HOME} {env:HOME}", "{who} ${HOME} {env:HOME}"),
        ],
    )
    def test_input_replaces_its_reference(self, text: str, expected: str) -> None:
        values = {"who": "Bob", "list": [1, "a"], "yes": True}

        assert expected == inputs.with_inputs(text, values)

    def test_inserted_input_is_not_expanded(self) -> None:
        values = {"a": "{input:b}${inputs.b}", "b": "secret", "c": "{input:"}

        assert "{input:b}${inputs.b}" == inputs.with_inputs("{input:a}", values)
        assert "{input:b}" == inputs.with_inputs("{input:c}b}", values)

    def test_references_are_found_in_nested_values(self) -> None:
        steps = [{"name": "{input:a}", "content": ["x {input:a}", {"text": "{input:a}"}], "n": 1}]

        assert [{"name": "1", "content": ["x 1", {"text": "1"}], "n": 1}] == inputs.with_inputs(
            steps, {"a": 1}
        )
