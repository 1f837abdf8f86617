"""Clients that can only send texts: a text that contains JSON of the right type is that value."""

from typing import Any

import pytest
from refused_arguments import refusal

from ralphgen.runtime.values.arguments import check_arguments, misfits

INTEGERS = {"type": "array", "items": {"type": "integer"}}
STRINGS = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}}


def schema(rule: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": rule}}


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (INTEGERS, "[1]", [1]),
        (INTEGERS, ' [1, 2.0, "3"] ', [1, 2, 3]),
        (INTEGERS, "[]", []),
        (STRINGS, '["a"]', ["a"]),
        (STRINGS, '["1", "[2]"]', ["1", "[2]"]),
        ({"type": "integer"}, "1", 1),
        ({"type": "integer"}, "-7.0", -7),
        ({"type": "integer", "enum": [0, 1, 3]}, "3", 3),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        (OBJECT, '{"id": "7", "more": "8"}', {"id": 7, "more": "8"}),
        ({"type": "string"}, "1", "1"),
        ({"type": "string"}, '["a"]', '["a"]'),
        ({}, "[1]", "[1]"),
    ],
)
def test_a_text_is_the_value_that_it_contains(
    rule: dict[str, Any], text: str, value: object
) -> None:
    found = check_arguments(schema(rule), {"x": text})["x"]

    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize("items", [["1", 2], "[1, 2]"])
def test_texts_inside_an_array_count_too(items: object) -> None:
    assert {"x": [1, 2]} == check_arguments(schema(INTEGERS), {"x": items})


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"type": "integer"}, "one"),
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "true"),
        ({"type": "integer"}, '"1"'),
        ({"type": "integer"}, "9" * 5000),
        ({"type": "integer", "enum": [0, 1, 3]}, "2"),
        ({"type": "integer", "minimum": 1}, "0"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "-Infinity"),
        ({"type": "boolean"}, "True"),
        ({"type": "boolean"}, "1"),
        (INTEGERS, "1, 2"),
        (INTEGERS, "[1"),
        (INTEGERS, '["a"]'),
        (INTEGERS, "[" * 100_000),
        (OBJECT, "[]"),
        (OBJECT, "null"),
        (OBJECT, ""),
    ],
)
def test_any_other_text_is_refused(rule: dict[str, Any], text: str) -> None:
    assert 'argument "x' in refusal(schema(rule), {"x": text})


def test_an_answer_that_is_checked_must_have_the_type_itself() -> None:
    """What a function answers is not converted: a text is no number there."""
    assert [] != misfits({"type": "integer"}, "1", "result")
