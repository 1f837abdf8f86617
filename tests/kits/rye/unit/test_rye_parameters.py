"""Tool parameters, which follow a schema, and directive inputs."""

from socket import create_server
from typing import Any

import pytest

from ralphgen.kits.rye.server import values as parameters
from ralphgen.kits.rye.server.formats import directives as inputs
from ralphgen.runtime.failures import CodedError

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

    def test_without_a_schema_all_are_taken(self) -> None:
        given = {"a": [1, {"b": None}]}

        assert given == parameters.checked(None, given, "demo/x")

    def test_defaults_are_filled_in_where_objects_are(self) -> None:
        found = parameters.checked(NESTED, {"options": {"depth": 9}}, "demo/x")

        assert {"name": "x", "options": {"depth": 9, "list": []}} == found

    def test_no_object_is_made_for_the_defaults_in_it(self) -> None:
        assert {"name": "x"} == parameters.checked(NESTED, {}, "demo/x")

    def test_what_was_given_and_the_schema_stay_as_they_are(self) -> None:
        given: dict[str, Any] = {"options": {}}
        found = parameters.checked(NESTED, given, "demo/x")
        found["options"]["list"].append(1)

        assert {"options": {}} == given
        assert [] == parameters.checked(NESTED, given, "demo/x")["options"]["list"]

    def test_a_default_must_fit_too(self) -> None:
        error = tool_error({"properties": {"n": {"type": "integer", "default": "no"}}}, {})

        assert ["parameters.n: 'no' is not of type 'integer'"] == error.facts["issues"]

    def test_a_text_is_no_number(self) -> None:
        error = tool_error({"properties": {"n": INTEGER}}, {"n": "5"})

        assert "VALIDATION_FAILED" == error.code
        assert "for the tool \"demo/x\": parameters.n: '5' is not of type" in str(error)

    def test_all_that_is_wrong_is_named_with_its_path(self) -> None:
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
    def test_at_most_twenty_problems_are_named_and_each_is_short(self) -> None:
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
    def test_a_schema_that_is_none_is_named(self, schema: Any, why: str) -> None:
        error = tool_error(schema, {"a": "x"})

        assert "VALIDATION_FAILED" == error.code
        assert 'the parameter schema of the tool "demo/x" is not valid' in str(error)
        assert why in str(error)

    def test_a_number_that_cannot_be_computed_with_is_no_crash(self) -> None:
        error = tool_error({"properties": {"a": {"multipleOf": 0.1}}}, {"a": 10**400})

        assert "cannot check the parameters" in str(error)

    @pytest.mark.slow
    def test_nobody_is_asked_for_a_schema(self) -> None:
        with create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            tool_error({"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/x"}, {})

            with pytest.raises(BlockingIOError):
                server.accept()

    @pytest.mark.slow
    def test_references_within_the_schema_are_followed(self) -> None:
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
    def test_a_value_becomes_one_of_its_type(self, kind: str, given: Any, expected: Any) -> None:
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
    def test_a_value_of_another_type_is_refused(self, kind: str, given: Any, why: str) -> None:
        error = input_error([entry(kind=kind)], {"k": given})

        assert "VALIDATION_FAILED" == error.code
        assert f'"k" {why}' in str(error)

    def test_what_is_required_must_be_given_and_not_null(self) -> None:
        entries = [entry("a", required=True), entry("b", required=True)]
        error = input_error(entries, {"b": None})

        assert ['"a" is missing', '"b" is missing'] == error.facts["issues"]
        assert ["a", "b"] == [told["name"] for told in error.facts["inputs"]]

    def test_a_default_is_of_the_type_and_makes_nothing_missing(self) -> None:
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
    def test_what_is_not_declared_is_refused(
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
    def test_limits_hold(
        self, rule: dict[str, str], kind: str, fits: Any, fails: Any, why: str
    ) -> None:
        inputs.checked_inputs([entry(kind=kind, **rule)], {"k": fits})

        assert f'"k" {why}' in str(input_error([entry(kind=kind, **rule)], {"k": fails}))

    def test_what_is_true_or_false_has_no_limits(self) -> None:
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
    def test_an_input_stands_where_it_is_named(self, text: str, expected: str) -> None:
        values = {"who": "Bob", "list": [1, "a"], "yes": True}

        assert expected == inputs.with_inputs(text, values)

    def test_what_was_put_in_is_not_looked_at_again(self) -> None:
        values = {"a": "{input:b}${inputs.b}", "b": "secret", "c": "{input:"}

        assert "{input:b}${inputs.b}" == inputs.with_inputs("{input:a}", values)
        assert "{input:b}" == inputs.with_inputs("{input:c}b}", values)

    def test_texts_are_found_wherever_they_are(self) -> None:
        steps = [{"name": "{input:a}", "content": ["x {input:a}", {"text": "{input:a}"}], "n": 1}]

        assert [{"name": "1", "content": ["x 1", {"text": "1"}], "n": 1}] == inputs.with_inputs(
            steps, {"a": 1}
        )
