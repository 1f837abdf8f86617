"""Arguments are accepted exactly when JSON Schema accepts them: held against another checker."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lanes import examples
from refused_arguments import refusal

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values import check_arguments, decoded


@pytest.mark.parametrize(
    ("items", "distinct"),
    [
        ([1, True, 0, False, None, "1"], True),
        ([[1], [True]], True),
        ([{"a": 1}, {"a": True}, {"b": 1}], True),
        ([1, 1.0], False),
        ([[True], [1], [True]], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
    ],
)
def test_items_are_compared_as_json_compares_them(items: list[object], *, distinct: bool) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}

    assert distinct == accepts(schema, {"x": items})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("b", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("^[a-z\\n]+$", "abc\n", True),
        ("^[a$]+$", "a$", True),
        ("^[$\\n]+$", "$\n", True),
        ("\\$\\n$", "5$\n", True),
        ("a$|\\n$", "b\n", True),
    ],
)
def test_a_pattern_is_searched_and_its_end_is_the_very_end(
    pattern: str, text: str, *, matches: bool
) -> None:
    rule = {"type": "string", "pattern": pattern}

    assert matches == accepts({"type": "object", "properties": {"x": rule}}, {"x": text})


# The oracle: jsonschema, with `$` as in ECMA-262, on arguments without their optional nulls.


def oracle(schema: dict[str, Any]) -> Draft202012Validator:
    """Return jsonschema's validator; `$` occurs only in patterns of our schemas."""
    return Draft202012Validator(json.loads(json.dumps(schema).replace("$", r"$(?!\\n)")))


def without_optional_nulls(
    schema: dict[str, Any], arguments: dict[str, object]
) -> dict[str, object]:
    """Return the arguments without optional nulls."""
    may_be_absent = set(schema["properties"]) - set(schema["required"])
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in may_be_absent
    }


def decode(schema: dict[str, Any], arguments: dict[str, object]) -> dict[str, Any]:
    """Return the arguments with JSON texts read as values of the schema's types."""
    found = decoded(schema, arguments)
    assert isinstance(found, dict)
    return found


def wrong_arguments(schema: dict[str, Any], arguments: dict[str, object]) -> set[str]:
    """Return the names of the top-level arguments that the oracle refuses."""
    kept = without_optional_nulls(schema, decode(schema, arguments))
    wrong = {name for name in schema["required"] if name not in kept}
    for name, value in kept.items():
        rule = schema["properties"].get(name)
        if rule is None or not oracle(rule).is_valid(value):
            wrong.add(name)
    assert bool(wrong) is not oracle(schema).is_valid(kept)
    return wrong


def accepts(schema: dict[str, Any], arguments: dict[str, object]) -> bool:
    """Tell whether the checker accepts these arguments."""
    try:
        check_arguments(schema, arguments)
    except ToolError:
        return False
    return True


# No name is the start of another before a dot: "a" is not among them, since "a.b" is.
NAMES = ["id", "title", "tags", "a.b", "x-y", "env"]
WORDS = ["draft", "done", "a", "", "é", "5"]
ENDS = st.sampled_from([None, 0, 1, 2])
STRINGS = st.one_of(st.sampled_from(WORDS), st.text("ab5\n\0\ud800é", max_size=4))
NUMBERS = st.one_of(
    st.integers(-2, 4), st.sampled_from([0.0, 1.0, 5.0, 1.5, -0.0, 1e308, 2**70, -(2**70)])
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, STRINGS)
WILD = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return rules whose keywords may be absent: a strategy's None means that."""
    return st.fixed_dictionaries(keywords).map(
        lambda rule: {name: value for name, value in rule.items() if value is not None}
    )


SCALAR_RULES = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean"])}),
    optional(
        type=st.sampled_from([None, "string"]),
        minLength=ENDS,
        maxLength=ENDS,
        pattern=st.sampled_from([None, "^[a-z]+$", "5", "a$", "^"]),
    ),
    optional(
        type=st.sampled_from([None, "integer", "number"]),
        minimum=st.sampled_from([None, -1, 0, 0.5]),
        maximum=st.sampled_from([None, 1, 2.5]),
    ),
    optional(
        type=st.sampled_from([None, "string"]),
        enum=st.lists(st.sampled_from(WORDS), min_size=1, unique=True),
        description=st.just("an annotation"),
        default=st.just("ignored"),
    ),
)


def deeper(rules: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return rules for arrays and objects of what `rules` allow."""
    properties = st.dictionaries(st.sampled_from(NAMES), rules, max_size=2)
    return st.one_of(
        optional(type=st.just("array"), items=rules, minItems=ENDS, maxItems=ENDS),
        # Sorting, jsonschema overlooks some repeated items that hold booleans: scalars only.
        optional(type=st.just("array"), items=SCALAR_RULES, uniqueItems=st.booleans()),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": rules}),
        optional(
            type=st.just("object"),
            properties=properties,
            required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
            additionalProperties=st.one_of(st.none(), st.booleans(), rules),
        ),
        st.sampled_from([{}, {"type": "array"}, {"type": "object"}]),
    )


RULES = st.recursive(SCALAR_RULES, deeper, max_leaves=4)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an input schema of the kind that tools have."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), RULES, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def fitting(rule: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that fit `rule`, or nearly: the ends of ranges are hit and missed."""
    if "enum" in rule:
        return st.sampled_from([*rule["enum"], "donne"])
    if rule.get("type") == "array":
        return st.lists(fitting(rule.get("items", {})), max_size=3)
    if rule.get("type") == "object":
        return fitting_object(rule)
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "string": STRINGS,
        "integer": NUMBERS,
        "number": NUMBERS,
        "boolean": st.booleans(),
    }
    return scalars.get(rule.get("type", ""), WILD)


def fitting_object(rule: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that have what `rule` requires, and at times more."""
    properties = rule.get("properties", {})
    required = rule.get("required", [])
    others = rule.get("additionalProperties")
    other = fitting(others) if isinstance(others, dict) else WILD
    extra = st.dictionaries(st.sampled_from(NAMES), other, max_size=0 if others is False else 2)
    known = st.fixed_dictionaries(
        {name: fitting(properties.get(name, {})) for name in required},
        optional={
            name: fitting(member) for name, member in properties.items() if name not in required
        },
    )
    return st.tuples(extra, known).map(lambda pair: pair[0] | pair[1])


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a schema with arguments that fit it, fit except for one value, or are wild."""
    schema = draw(schemas())
    arguments = dict(draw(fitting_object(schema)))
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*NAMES, "titel", "\ud800"]))
        if draw(st.booleans()):
            arguments[name] = draw(WILD)
        else:
            arguments.pop(name, None)
    return schema, arguments


PROPERTY = settings(
    database=None,
    deadline=None,
    max_examples=examples(250),
    suppress_health_check=[HealthCheck.too_slow],
)


@example(({"properties": {"x": {"minimum": 5}}, "required": []}, {"x": True}))
@given(calls())
@PROPERTY
def test_arguments_are_accepted_exactly_when_json_schema_accepts_them(
    call: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, arguments = call
    wrong = wrong_arguments(schema, arguments)
    arguments = decode(schema, arguments)

    assert (not wrong) == accepts(schema, arguments)
    if not wrong:
        assert without_optional_nulls(schema, arguments) == check_arguments(schema, arguments)


@pytest.mark.thorough
@given(calls())
@PROPERTY
def test_each_wrong_argument_and_no_right_one_has_a_line(
    call: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, arguments = call
    wrong = wrong_arguments(schema, arguments)
    lines = [] if not wrong else refusal(schema, arguments).split("\n")
    named = {
        name
        for name in {*arguments, *schema["properties"]}
        for line in lines
        if re.match(rf'(unknown )?argument "{re.escape(json.dumps(name)[1:-1])}["\[.]', line)
    }

    assert wrong == named
