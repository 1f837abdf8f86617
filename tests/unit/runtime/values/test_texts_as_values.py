"""Clients that can only send texts: a text that contains JSON of the right type is that value."""

from typing import Any

import pytest
from refused_arguments import refusal

from ralphgen.runtime.encoding import DIGITS, JSON, Digits, read_exact_json, read_written_json
from ralphgen.runtime.values import check_arguments, misfits

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
    """Results of functions are not converted: a text is not a number there."""
    assert [] != misfits({"type": "integer"}, "1", "result")


LONG = "1234567890.12345678901234567890"
DECIMAL = {"type": "string", "format": DIGITS}


@pytest.mark.parametrize(
    ("rule", "given", "value"),
    [
        (DECIMAL, Digits(LONG), LONG),
        (DECIMAL, 0.1, "0.1"),
        (DECIMAL, 7, "7"),
        (DECIMAL, "NaN", "NaN"),
        ({"format": DIGITS}, Digits(LONG), LONG),
        ({"format": DIGITS}, True, True),
        ({"type": "array", "items": DECIMAL}, f"[{LONG}, 2]", [LONG, "2"]),
        ({"type": "object", "properties": {"a": DECIMAL}}, {"a": Digits(LONG)}, {"a": LONG}),
        ({"type": "string", "format": JSON}, {"a": [Digits(LONG)]}, f'{{"a":[{LONG}]}}'),
        ({"type": "string", "format": JSON}, f" [{LONG}, 1.50]", f"[{LONG},1.50]"),
        ({"type": "string", "format": JSON}, "a b", '"a b"'),
        ({"type": "string", "format": JSON}, None, "null"),
        ({"type": "number"}, Digits(LONG), float(LONG)),
        ({"type": "integer"}, Digits("5.0000000000000000"), 5),
        ({}, {"a": [[Digits(LONG)]]}, {"a": [[float(LONG)]]}),
        (INTEGERS, "[5.0000000000000000]", [5]),
    ],
)
def test_a_number_keeps_its_digits_as_text(
    rule: dict[str, Any], given: object, value: object
) -> None:
    found = check_arguments({**schema(rule), "required": ["x"]}, {"x": given})["x"]

    assert repr(value) == repr(found)  # compares the types of items, too


@pytest.mark.parametrize("given", [Digits(LONG), "one", "", True])
def test_text_is_not_a_number_and_a_number_is_not_text(given: object) -> None:
    rule = {"type": "string"} if isinstance(given, Digits) else DECIMAL
    expected = "a string" if isinstance(given, Digits) else "a decimal number"

    assert refusal(schema(rule), {"x": given}).endswith(f"expected {expected}")


@pytest.mark.parametrize(
    "text", ["1e400", "1e-400", "1.23456e-320", "0.10000000000000000001", f"1e{10**20}"]
)
def test_a_number_that_no_double_is_equal_to_is_read_as_text(text: str) -> None:
    assert [text] == read_exact_json(f"[{text}]")


@pytest.mark.parametrize("depth", [201, 99_999])
def test_json_that_is_nested_deeply_is_not_read(depth: int) -> None:
    text = "[" * depth + "]" * depth

    for read in (read_exact_json, read_written_json):
        with pytest.raises(RecursionError):
            read(text)
