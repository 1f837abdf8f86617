"""Messages about refused arguments, and the values of accepted ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples
from refused_arguments import refusal

from ralphgen.runtime.values import (
    SHOWN_PROBLEMS,
    SHOWN_UNKNOWN,
    check_arguments,
    nearest,
    shortened,
)

REPOSITORY = Path(__file__).parents[4]
PROBLEMS = Path(__file__).parent / "problems.txt"
"""Lines: arguments for TASK, which get "id" if the line is not about it, and their sentence."""
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


@pytest.mark.parametrize("case", PROBLEMS.read_text(encoding="utf-8").splitlines())
def test_each_kind_of_problem_has_its_sentence(case: str) -> None:
    given, _, line = case.partition(" | ")
    first = {} if line.startswith('argument "id"') else {"id": 7}

    assert line == refusal(TASK, first | json.loads(given))


def test_a_long_text_is_cut_and_its_length_is_told() -> None:
    line = f'argument "title" is "{"a" * 80}…": expected 1 to 200 characters (it has 300)'

    assert line == refusal(TASK, {"id": 7, "title": "a" * 300})


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
    lines = refusal(TASK, {"id": 7, "step": {"zoo": 1, "count": "x2"}}).split("\n")
    expected = [
        'argument "step.name" is missing: expected a string',
        'argument "step.count" is "x2": expected an integer',
        'unknown argument "step.zoo": "step" takes "name", "count"',
    ]

    assert expected == lines


def test_a_tool_without_arguments_refuses_any() -> None:
    line = 'unknown argument "foo": this tool takes no arguments'

    assert line == refusal(NO_ARGUMENTS, {"foo": 1})


def test_arguments_must_be_an_object() -> None:
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
def test_an_arguments_own_sentence_replaces_its_messages(
    deliver: dict[str, object],
) -> None:
    rule = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"deliver": rule}, "required": ["deliver"]}

    text = refusal(schema, {**deliver, "foo": 1}, {"deliver": "say where", "foo": "not this"})
    expected = 'say where\nunknown argument "foo": this tool takes "deliver"'

    assert expected == text


def test_an_arguments_own_sentence_is_silent_while_the_argument_is_right() -> None:
    line = 'argument "id" is "x7": expected an integer'

    assert line == refusal(TASK, {"id": "x7", "title": "a"}, {"title": "say a title"})


@pytest.mark.parametrize(("more", "noun"), [(1, "argument"), (2, "arguments")])
def test_unknown_arguments_that_are_not_named_are_counted(more: int, noun: str) -> None:
    unknown = dict.fromkeys((f"x{place}" for place in range(SHOWN_UNKNOWN + more)), 1)

    assert refusal(TASK, {"id": 7, "title": "a"} | unknown).endswith(
        f"\nand {more} more unknown {noun}"
    )


@pytest.mark.thorough
@pytest.mark.slow
def test_a_flood_of_wrong_items_and_names_gives_a_short_answer() -> None:
    tags = [{"at": place} for place in range(100_000)]
    unknown = dict.fromkeys((f"argument{place}" for place in range(50_000)), 1)

    lines = refusal(TASK, {"id": "x7", "tags": tags, "env": {"A": 1}} | unknown).split("\n")
    starts = [
        'argument "id" is "x7": expected an integer',
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
    "x" * 500_000,
    [0] * 100_000,
    10**6000,
    -(10**6000),
    1e308,
    float("nan"),
    deep(50_000),
    {"\udfff" * 200: "\udfff" * 200},
]


def test_hostile_values_are_answered_with_short_printable_lines() -> None:
    for value in HOSTILE:
        lines = refusal(TASK, dict.fromkeys(TASK["properties"], value)).split("\n")
        assert all(line.isprintable() and len(line) < 320 for line in lines)


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
        "import sys; from ralphgen.runtime.values import check_arguments as check;"
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
