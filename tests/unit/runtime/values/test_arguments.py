"""Arguments are accepted exactly when JSON Schema accepts them, and refusals name everything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lanes import examples

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import (
    SHOWN_PROBLEMS,
    SHOWN_UNKNOWN,
    check_arguments,
    nearest,
    shortened,
)

REPOSITORY = Path(__file__).parents[4]
TASK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "status": {"type": "string", "enum": ["draft", "pending", "in_progress", "done"]},
        "weight": {"type": "number", "minimum": 0, "maximum": 1},
        "limit": {"type": "integer", "minimum": 1},
        "blocked": {"type": "boolean"},
        "slug": {"type": "string", "minLength": 3, "pattern": "^[a-z-]+$"},
        "tags": {
            "type": "array",
            "items": {"type": "string", "maxLength": 20},
            "minItems": 1,
            "maxItems": 40,
            "uniqueItems": True,
        },
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "step": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        "anything": {"description": "any JSON value", "default": 5},
    },
    "required": ["id"],
    "additionalProperties": False,
}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def refusal(
    schema: dict[str, Any], arguments: object, refusals: dict[str, str] | None = None
) -> str:
    """Return what the checker says against these arguments."""
    with pytest.raises(ToolError) as caught:
        check_arguments(schema, arguments, refusals)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, 'argument "id" is missing: expected an integer'),
        ({"id": None}, 'argument "id" is null: expected an integer'),
        ({"id": "7"}, 'argument "id" is "7": expected an integer'),
        ({"id": True}, 'argument "id" is true: expected an integer'),
        ({"id": 5.5}, 'argument "id" is 5.5: expected an integer'),
        ({"id": float("nan")}, 'argument "id" is NaN: expected an integer'),
        ({"weight": float("-inf")}, 'argument "weight" is -Infinity: expected a finite number'),
        ({"weight": "1"}, 'argument "weight" is "1": expected a number'),
        ({"weight": 1.5}, 'argument "weight" is 1.5: expected a number from 0 to 1'),
        ({"limit": 0}, 'argument "limit" is 0: expected an integer of at least 1'),
        ({"blocked": "yes"}, 'argument "blocked" is "yes": expected true or false'),
        ({"title": 5}, 'argument "title" is 5: expected a string'),
        ({"title": ""}, 'argument "title" is "": expected 1 to 200 characters (it has 0)'),
        (
            {"title": "a" * 300},
            f'argument "title" is "{"a" * 80}…": expected 1 to 200 characters (it has 300)',
        ),
        (
            {"slug": "A"},
            (
                'argument "slug" is "A": expected at least 3 characters (it has 1)'
                " and text that matches /^[a-z-]+$/"
            ),
        ),
        (
            {"slug": "abc\n"},
            'argument "slug" is "abc\\n": expected text that matches /^[a-z-]+$/',
        ),
        (
            {"status": "dona"},
            (
                'argument "status" is "dona": expected one of "draft", "pending", "in_progress",'
                ' "done"; did you mean "done"?'
            ),
        ),
        (
            {"status": "In-Progress"},
            (
                'argument "status" is "In-Progress": expected one of "draft", "pending",'
                ' "in_progress", "done"; did you mean "in_progress"?'
            ),
        ),
        (
            {"status": "zzz"},
            'argument "status" is "zzz": expected one of "draft", "pending", "in_progress", "done"',
        ),
        (
            {"status": ["done"]},
            (
                'argument "status" is ["done"]: expected one of "draft", "pending", "in_progress",'
                ' "done"'
            ),
        ),
        ({"tags": "ui"}, 'argument "tags" is "ui": expected an array of strings'),
        ({"tags": []}, 'argument "tags" is []: expected 1 to 40 items (it has 0)'),
        ({"tags": ["a", "b", 5]}, 'argument "tags[2]" is 5: expected a string'),
        (
            {"tags": ["a", "b", "a"]},
            'argument "tags" is ["a", "b", "a"]: expected distinct items ("a" is repeated)',
        ),
        (
            {"tags": ["a" * 21]},
            f'argument "tags[0]" is "{"a" * 21}": expected at most 20 characters (it has 21)',
        ),
        (
            {"env": ["A=1"]},
            'argument "env" is ["A=1"]: expected an object whose values are strings',
        ),
        ({"env": {"A": 1}}, 'argument "env.A" is 1: expected a string'),
        ({"env": {'"': {}}}, 'argument "env.\\"" is {}: expected a string'),
        ({"step": 5}, 'argument "step" is 5: expected an object'),
        ({"step": {}}, 'argument "step.name" is missing: expected a string'),
        ({"step": {"name": None}}, 'argument "step.name" is null: expected a string'),
        (
            {"step": {"name": "a", "cuont": 1}},
            'unknown argument "step.cuont": did you mean "count"?',
        ),
        (
            {"step": {"name": "a", "x": 1}},
            'unknown argument "step.x": "step" takes "name", "count"',
        ),
        ({"titel": "a"}, 'unknown argument "titel": did you mean "title"?'),
        ({"titel": None}, 'unknown argument "titel": did you mean "title"?'),
        (
            {"foo": 1},
            (
                'unknown argument "foo": this tool takes "id", "title", "status", "weight",'
                ' "limit", "blocked", "slug", "tags", "env", "step", "anything"'
            ),
        ),
    ],
)
def test_each_kind_of_problem_has_its_sentence(arguments: dict[str, object], line: str) -> None:
    given_id = arguments if line.startswith('argument "id"') else {"id": 7} | arguments

    assert line == refusal(TASK, given_id)


@pytest.mark.parametrize(
    ("rule", "value", "line"),
    [
        (
            {"type": "number", "maximum": 0.5},
            1,
            'argument "x" is 1: expected a number of at most 0.5',
        ),
        (
            {"type": "string", "maxLength": 1},
            "ab",
            'argument "x" is "ab": expected at most 1 character (it has 2)',
        ),
        (
            {"type": "array", "minItems": 1},
            [],
            'argument "x" is []: expected at least 1 item (it has 0)',
        ),
        ({"type": "array"}, 1, 'argument "x" is 1: expected an array'),
        ({"enum": ["a"]}, None, 'argument "x" is null: expected one of "a"'),
    ],
)
def test_a_range_with_one_end_and_a_bare_rule_have_their_words(
    rule: dict[str, object], value: object, line: str
) -> None:
    schema = {"type": "object", "properties": {"x": rule}, "required": ["x"]}

    assert line == refusal(schema, {"x": value})


def test_problems_come_in_schema_order_with_unknown_names_last_in_alphabetical_order() -> None:
    lines = refusal(TASK, {"zoo": 1, "foo": 1, "tags": 5, "title": 5}).split("\n")
    starts = [*lines[:3], *(line.partition(":")[0] for line in lines[3:])]
    expected = [
        'argument "id" is missing: expected an integer',
        'argument "title" is 5: expected a string',
        'argument "tags" is 5: expected an array of strings',
        'unknown argument "foo"',
        'unknown argument "zoo"',
    ]

    assert expected == starts


def test_members_of_an_object_are_named_in_schema_order() -> None:
    lines = refusal(TASK, {"id": 7, "step": {"zoo": 1, "count": "2"}}).split("\n")
    expected = [
        'argument "step.name" is missing: expected a string',
        'argument "step.count" is "2": expected an integer',
        'unknown argument "step.zoo": "step" takes "name", "count"',
    ]

    assert expected == lines


def test_a_tool_without_arguments_says_so() -> None:
    line = 'unknown argument "foo": this tool takes no arguments'

    assert line == refusal(NO_ARGUMENTS, {"foo": 1})


def test_arguments_that_are_no_object_are_refused() -> None:
    line = "the arguments are [1]: expected an object"

    assert line == refusal(TASK, [1])


@pytest.mark.parametrize("arguments", [None, {}])
def test_no_arguments_are_an_empty_object(arguments: dict[str, object] | None) -> None:
    nothing: dict[str, object] = {}

    assert nothing == check_arguments(NO_ARGUMENTS, arguments)


def test_null_optional_arguments_are_left_out_and_whole_floats_become_integers() -> None:
    arguments = {"id": 5.0, "title": None, "step": {"name": "a", "count": 2.0}, "weight": 1.0}
    expected = '{"id": 5, "weight": 1.0, "step": {"name": "a", "count": 2}}'

    assert expected == json.dumps(check_arguments(TASK, arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"weight": 0, "limit": 1, "title": "a", "slug": "a-z", "tags": ["a" * 20]},
        {"weight": 1, "title": "a" * 200, "tags": [str(place) for place in range(40)]},
        {"env": {}, "step": {"name": ""}, "anything": [None], "blocked": False},
    ],
)
def test_values_at_the_ends_of_their_ranges_are_kept(arguments: dict[str, object]) -> None:
    whole = {"id": 7} | arguments

    assert whole == check_arguments(TASK, whole)


def test_the_given_arguments_are_not_changed() -> None:
    arguments = {"id": 5.0, "title": None, "step": {"name": "a", "count": 2.0}, "tags": ["a"]}
    before = json.dumps(arguments)

    check_arguments(TASK, arguments)

    assert before == json.dumps(arguments)


@pytest.mark.parametrize("deliver", [{}, {"deliver": "x"}, {"deliver": {"a": 1, "b": 2}}])
def test_an_arguments_own_sentence_replaces_all_that_is_said_of_it(
    deliver: dict[str, object],
) -> None:
    rule = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"deliver": rule}, "required": ["deliver"]}

    text = refusal(schema, {**deliver, "foo": 1}, {"deliver": "say where", "foo": "not this"})
    expected = 'say where\nunknown argument "foo": this tool takes "deliver"'

    assert expected == text


def test_an_arguments_own_sentence_is_silent_while_the_argument_is_right() -> None:
    line = 'argument "id" is "7": expected an integer'

    assert line == refusal(TASK, {"id": "7", "title": "a"}, {"title": "say a title"})


@pytest.mark.slow
def test_a_flood_of_wrong_items_and_names_gives_a_short_answer() -> None:
    tags = [{"at": place} for place in range(100_000)]
    unknown = dict.fromkeys((f"argument{place}" for place in range(50_000)), 1)

    lines = refusal(TASK, {"id": "7", "tags": tags, "env": {"A": 1}} | unknown).split("\n")
    starts = [
        'argument "id" is "7": expected an integer',
        *('argument "tags' for _ in range(SHOWN_PROBLEMS)),
        f'argument "tags" has more problems than these {SHOWN_PROBLEMS}',
        'argument "env.A" is 1: expected a string',
        *('unknown argument "argument' for _ in range(SHOWN_UNKNOWN)),
        f"and {len(unknown) - SHOWN_UNKNOWN} more unknown arguments",
    ]

    assert len(starts) == len(lines)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def deep(levels: int) -> object:
    """Return a value nested so deeply that a recursive reader fails."""
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


HOSTILE = [
    "\ud800",
    "\0",
    "a\u2028b",
    "x" * 5_000_000,
    [0] * 1_000_000,
    10**6000,
    -(10**6000),
    1e308,
    float("nan"),
    deep(50_000),
    {"\udfff" * 200: "\udfff" * 200},
]


@pytest.mark.parametrize("name", sorted(TASK["properties"]))
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values_are_answered_with_short_printable_lines(name: str, value: object) -> None:
    try:
        check_arguments(TASK, {"id": 1, name: value})
    except ToolError as refused:
        text = str(refused)

        assert all(line.isprintable() and len(line) < 320 for line in text.split("\n"))


def test_hostile_names_are_answered_with_short_printable_lines() -> None:
    names = ["\ud800", "\0\n\u2028", "x" * 5_000_000, ""]

    lines = refusal(TASK, {"id": 1} | dict.fromkeys(names, 1)).split("\n")

    assert len(names) == len(lines)
    assert all(line.isprintable() and len(line) < 320 for line in lines)


@pytest.mark.slow
def test_unique_items_too_deep_to_compare_are_refused() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}

    assert refusal(schema, {"x": [deep(50_000)]}).endswith("expected items nested less deeply")


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, "b", None, True], "c": {}}, '{"a": [1, "b", null, true], "c": {}}'),
        ("é \U0001f600 \u202e\t", '"é \U0001f600 \\u202e\\t"'),
        ("x" * 80, f'"{"x" * 80}"'),
        ("x" * 81, f'"{"x" * 80}…"'),
        ("\0" * 81, '"' + r"\u0000" * 13 + '…"'),
        (list(range(100)), f"{str(list(range(100)))[:80]}…"),
    ],
)
def test_a_shortened_value_is_json_on_one_line(value: object, text: str) -> None:
    assert text == shortened(value)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("titel", ["id", "title"], "title"),
        ("featureName", ["feature_name", "name"], "feature_name"),
        ("IN PROGRESS", ["in_progress", "done"], "in_progress"),
        ("-- a -- b", ["__ab"], "__ab"),
        ("foo", ["id", "title"], None),
        ("foo", [], None),
        ("x" * 10_000, ["x" * 10_000], None),
    ],
)
def test_the_nearest_name_is_near_or_none(name: str, known: list[str], near: str | None) -> None:
    assert near == nearest(name, known)


@example("a-b", ["ab", "a_b"])
@given(st.text(max_size=8), st.lists(st.text("abAB_-", max_size=4)))
@settings(database=None, deadline=None, max_examples=examples(30))
def test_the_nearest_name_does_not_depend_on_the_order(name: str, known: list[str]) -> None:
    assert nearest(name, known) == nearest(name, reversed(known))


@pytest.mark.slow
def test_importing_the_checker_and_checking_a_right_call_loads_no_difflib() -> None:
    program = (
        "import sys; from ralphgen.runtime.values.arguments import check_arguments as check;"
        "check({'properties': {'x': {'type': 'string'}}}, {'x': 'a'});"
        "print('difflib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    expected = "False\n"

    assert expected == done.stdout


# The oracle: jsonschema, with `$` as in ECMA-262, on arguments without their optional nulls.


def oracle(schema: dict[str, Any]) -> Draft202012Validator:
    """Return jsonschema's validator; `$` stands nowhere in our schemas but in patterns."""
    return Draft202012Validator(json.loads(json.dumps(schema).replace("$", r"$(?!\\n)")))


def without_optional_nulls(
    schema: dict[str, Any], arguments: dict[str, object]
) -> dict[str, object]:
    """Return the arguments but for those that are null and may be absent."""
    may_be_absent = set(schema["properties"]) - set(schema["required"])
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in may_be_absent
    }


def wrong_arguments(schema: dict[str, Any], arguments: dict[str, object]) -> set[str]:
    """Return the names of the top-level arguments that the oracle refuses."""
    kept = without_optional_nulls(schema, arguments)
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
    """Return rules in which each keyword may be absent: a strategy's None stands for that."""
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
    """Draw a schema with arguments that fit it, or fit but for one value, or are wild."""
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

    assert (not wrong) == accepts(schema, arguments)
    if not wrong:
        assert without_optional_nulls(schema, arguments) == check_arguments(schema, arguments)


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
