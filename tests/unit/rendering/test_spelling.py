"""Literals: for any value, the emitted text is Python, has the same meaning and is formatted."""

import ast
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from spelling_oracle import HOSTILE, TEXTS, findings, formatting

from ralphgen.spelling import Lines, Name, Value, assignment, entry, keyword, literal

pytestmark = pytest.mark.slow

KEYS = st.lists(st.sampled_from(HOSTILE), max_size=6).map("".join)
SCALARS: st.SearchStrategy[Value] = st.one_of(
    TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
)


def nested(scalars: st.SearchStrategy[Value], *, lines: bool) -> st.SearchStrategy[Value]:
    """Containers of scalars and containers, some of them with one element a line."""

    def containers(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
        plain: st.SearchStrategy[Value] = st.one_of(
            st.lists(values, max_size=3),
            st.lists(values, max_size=3).map(tuple),
            st.dictionaries(KEYS, values, max_size=3),
        )
        return st.one_of(plain, st.lists(values, max_size=3).map(Lines)) if lines else plain

    return st.recursive(scalars, containers, max_leaves=8)


VALUES = nested(SCALARS, lines=False)
LAID_OUT = nested(
    st.one_of(SCALARS, st.sampled_from(["STATUS", "module.function", "m" * 40]).map(Name)),
    lines=True,
)


def statements(number: int, value: Value) -> list[str]:
    """A value at each place where templates write one."""
    return [
        assignment(f"VALUE_{number}", value),
        assignment("LONG_NAME_" * 6 + f"{number}", value),
        assignment(f"ANNOTATED_{number}: object", value),
        f"print(\n    {keyword('name', value, 4)}\n    {keyword('n' * 30, value, 4)}\n)",
        f"D{number} = {{\n    {entry('key', value, 4)}\n    {entry('k' * 20, value, 4)}\n}}",
        f"E{number} = [\n    [\n        {literal(value, 8, suffix=',')},\n        1,\n    ],\n]",
    ]


@given(value=VALUES)
@settings(max_examples=examples(150), deadline=None)
def test_a_literal_means_its_value(value: Value) -> None:
    for indent in (0, 20, 90):
        assert value == ast.literal_eval(literal(value, indent))


@given(values=st.lists(LAID_OUT, min_size=5, max_size=15))
@settings(max_examples=examples(20), deadline=None)
def test_the_formatter_leaves_every_layout_alone(values: list[Value]) -> None:
    lines = [line for number, value in enumerate(values) for line in statements(number, value)]
    source = "\n".join(['"""Values."""', "", *lines, ""])

    assert formatting(source) == ""


@pytest.mark.parametrize("make", [lambda n: ("word " * 30)[:n] + "x", lambda n: "x" * n])
def test_the_formatter_agrees_at_every_length(make: Callable[[int], str]) -> None:
    """A string just fits, just does not, or fits a separate line, at every position."""
    values: list[Value] = [make(length) for length in range(25, 110)]
    values += [[make(length), 1] for length in range(25, 110)]
    values += [(make(length),) for length in range(25, 110)]
    values += [Name("n" * length) for length in range(25, 80)]
    lines = [line for number, value in enumerate(values) for line in statements(number, value)]

    assert formatting("\n".join(['"""Values."""', "", *lines, ""])) == ""


@given(texts=st.lists(TEXTS, min_size=10, max_size=20))
@settings(max_examples=examples(20), deadline=None)
def test_the_linter_has_nothing_against_hostile_strings(texts: list[str]) -> None:
    lines = [assignment(f"TEXT_{number}", text) for number, text in enumerate(texts)]
    lines += [assignment(f"LIST_{number}", [text]) for number, text in enumerate(texts)]
    lines += [assignment(f"KEYS_{number}", {text: [1]}) for number, text in enumerate(texts)]

    assert findings("\n".join(['"""Texts."""', "", *lines, ""])) == ""


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("plain", '"plain"'),
        ('say "hi"', "'say \"hi\"'"),
        ('it\'s "so"', "'it\\'s \"so\"'"),
        ("'\"", '"\'\\""'),
        ("a\\b\n", '"a\\\\b\\n"'),
        ("\0\x85\u2028\u202e\ud800", '"\\x00\\x85\\u2028\\u202e\\ud800"'),
        ("caf\xe9 \u2705 \u65e5\u672c", '"caf\xe9 \u2705 \u65e5\u672c"'),
        ("\u0433\u043e\u0442\u043e\u0432\u043e", '"\u0433\u043e\u0442\u043e\u0432\u043e"'),
        ("p\u0430ss", '"p\\u0430ss"'),
        ([], "[]"),
        ({}, "{}"),
        ((), "()"),
        (("one",), '("one",)'),
        ([True, None, -1, 2e22], "[True, None, -1, 2e22]"),
        ({"a": Name("STATUS")}, '{"a": STATUS}'),
        (Lines([]), "[]"),
        (Lines(["a"]), '[\n    "a",\n]'),
        (Lines(("a",)), '("a",)'),
        ([Lines(("a", "b"))], '[\n    (\n        "a",\n        "b",\n    ),\n]'),
    ],
)
def test_literals_are_spelled_so(value: Value, spelled: str) -> None:
    assert spelled == literal(value)


def test_a_long_string_is_cut_behind_spaces_and_line_ends() -> None:
    text = "First line.\n" + "word " * 20

    expected = (
        "keyword=(\n"
        '        "First line.\\n"\n'
        f'        "{"word " * 18}"\n'
        f'        "{"word " * 2}"\n'
        "    ),"
    )
    assert expected == keyword("keyword", text, 4)


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (float("inf"), ValueError, '"inf" has no literal: expected a finite number'),
        (float("nan"), ValueError, '"nan" has no literal: expected a finite number'),
        (b"", TypeError, '"bytes" has no literal: expected what JSON holds, or a tuple'),
    ],
)
def test_values_without_a_literal_are_refused(
    value: Value, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(sentence)}$"):
        literal([value])
