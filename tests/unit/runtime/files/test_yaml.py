"""YAML of anybody is read within bounds, and no scalar in it has a type."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.runtime.files.yaml import (
    LARGEST_YAML,
    LARGEST_YAML_WITHOUT_C,
    TOO_DEEP,
    YamlError,
    compose,
    read_texts,
)

SECONDS = 5  # for input that could take minutes
VALUES = st.recursive(
    st.sampled_from(["", "a", "on", "3", "2020-01-01", "~", "x: y", "é"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab<", max_size=2), inner),
    max_leaves=12,
)


def refusal(text: str, most: int = LARGEST_YAML) -> YamlError:
    """Why a text is not read."""
    with pytest.raises(YamlError) as caught:
        read_texts(text, most)
    return caught.value


class TestTexts:
    """Every scalar is its literal text."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("a: 1\nb: [on, 3, ~]", {"a": "1", "b": ["on", "3", "~"]}),
            ("c: {d: 2020-01-01}", {"c": {"d": "2020-01-01"}}),
            ("", None),
            ("# nothing", None),
            ("a", "a"),
            ("a: &x [1]\nb: *x", {"a": ["1"], "b": ["1"]}),
            ("a: 1\na: 2", {"a": "2"}),
            ("<<: {a: 1}", {"<<": {"a": "1"}}),
            ("1: a\nyes: b", {"1": "a", "yes": "b"}),
            ("a: >-\n  b\n  c", {"a": "b c"}),
        ],
    )
    def test_a_value_is_made_of_texts(self, text: str, value: object) -> None:
        assert value == read_texts(text).value

    @given(VALUES)
    def test_it_is_what_the_library_reads(self, value: object) -> None:
        text = yaml.safe_dump(value, allow_unicode=True)

        assert yaml.load(text, Loader=yaml.BaseLoader) == read_texts(text).value  # noqa: S506

    @pytest.mark.parametrize(
        ("text", "tagged"),
        [
            ("a: !!binary zz", True),
            ("a: !x y", True),
            ("!!set {a, b}", True),
            ("!!omap [a: b]", True),
            ("? !!int 3\n: 4", True),
            ("a: !!str 3", False),
            ("a: [b, {c: d}]", False),
        ],
    )
    def test_a_tag_that_changes_the_value_is_reported(self, text: str, tagged: bool) -> None:
        assert tagged is read_texts(text).tagged

    def test_the_used_nodes_are_counted(self) -> None:
        assert 0 == read_texts("").count
        assert 6 == read_texts("a: &x [1]\nb: *x").count


class TestRefusals:
    """Input that would block or crash the parser is refused, with a line if there is one."""

    @pytest.mark.parametrize(
        ("text", "why", "line"),
        [
            ("x: [", "is not valid YAML: did not find expected node content", 2),
            ("a: 1\n b: 2", "is not valid YAML: mapping values are not allowed in this context", 2),
            ("a: *x", "is not valid YAML: found undefined alias", 1),
            ("a\n---\nb", "is not valid YAML: but found another document", 2),
            ("a: \x00", "is not valid YAML: unacceptable character #x0000", 0),
            ("a: 1\n[b]: 1", "a key must be a string", 2),
            ("%TAG ! tag:x\n" * 101 + "--- a", 'contains "%TAG" more than 100 times', 0),
        ],
    )
    def test_an_error_has_a_reason_and_a_position(self, text: str, why: str, line: int) -> None:
        error = refusal(text)

        assert str(error).startswith(why)
        assert line == error.line

    @pytest.mark.parametrize("most", [5, LARGEST_YAML])
    def test_it_has_so_many_characters_and_no_more(self, most: int) -> None:
        assert "x" * most == read_texts("x" * most, most).value
        assert f"is YAML of more than {most} characters" == str(refusal("x" * (most + 1), most))

    @pytest.mark.slow
    def test_without_the_parser_in_c_it_has_fewer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("CBaseLoader", "CSafeLoader"):
            monkeypatch.delattr(yaml, name, raising=False)

        assert {"a": ["1"]} == read_texts("a: [1]").value
        assert TOO_DEEP == str(refusal("[" * 9000))
        too_long = f"is YAML of more than {LARGEST_YAML_WITHOUT_C} characters"
        assert too_long == str(refusal("x" * (LARGEST_YAML_WITHOUT_C + 1)))

    @pytest.mark.parametrize("levels", [100, 101, 20_000])
    @pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
    def test_it_is_so_deep_and_no_deeper(self, opening: str, levels: int) -> None:
        closing = {"[": "]", "{a: ": "}"}.get(opening, "")
        text = opening * levels + "x" + closing * levels
        if levels == 100:
            if opening != "? ":
                assert 1 <= read_texts(text).count
            assert compose(text, typed=True)
        else:
            assert TOO_DEEP == str(refusal(text))

    def test_aliases_make_nothing_deeper(self) -> None:
        parts = ["a0: &a0 " + "[" * 30 + "]" * 30]
        parts += [f"a{i}: &a{i} " + "[" * 30 + f"*a{i - 1}" + "]" * 30 for i in (1, 2, 3)]

        assert read_texts("\n".join(parts[:3])).value
        assert TOO_DEEP == str(refusal("\n".join(parts)))
        assert TOO_DEEP == str(refusal("a: &a [*a]"))

    def test_aliases_share_their_target(self) -> None:
        parts = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        parts += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
        began = time.process_time()
        found = read_texts("\n".join(parts))

        assert found.count < 500
        assert time.process_time() - began < SECONDS

    def test_a_typed_node_has_the_tag_of_its_form(self) -> None:
        kinds = {
            node.value: node.tag.rpartition(":")[2]
            for node in compose("[3, on, a, 2020-01-01]", typed=True).value  # type: ignore[union-attr]
        }

        assert {"3": "int", "on": "bool", "a": "str", "2020-01-01": "timestamp"} == kinds
