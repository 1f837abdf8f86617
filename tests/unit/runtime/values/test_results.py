"""Answers fit an agent: they obey the size limits, and cuts are reported."""

import json
from typing import Any

import lanes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.runtime.values import MAX_CHARACTERS, fitted, page, shorten_record, size

SHORT = st.text(max_size=20)
LONG = st.sampled_from("a\x01é\ud800").map(lambda character: character * 4_000)
MANY = (SHORT | st.integers()).map(lambda item: [item] * 400)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | SHORT | LONG | MANY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SHORT | LONG, inner, max_size=4),
    max_leaves=6,
)
NAMES = st.sampled_from(["id", "title", "tags", "depends_on", "comments", "a b"])
RECORDS = st.dictionaries(NAMES, VALUES, max_size=6)


@settings(max_examples=examples(60), deadline=None)
@given(RECORDS)
def test_any_record_fits_and_is_text_that_utf_8_can_carry(record: dict[str, Any]) -> None:
    text = json.dumps(fitted(record), ensure_ascii=False, separators=(",", ":"))

    assert len(text.encode().decode()) <= MAX_CHARACTERS


@settings(max_examples=examples(60), deadline=None)
@given(RECORDS, st.integers(300, 5_000))
def test_cut_parts_are_named(record: dict[str, Any], room: int) -> None:
    short = fitted(record, room)
    named = {name.split(".")[0] for name in short.get("cut", [])}
    changed = {name for name in record if short.get(name, "gone") != whole(record[name])}

    assert size(short) <= room
    assert changed == named & record.keys()


def whole(value: Any) -> Any:
    """The value with U+FFFD for each half of a surrogate pair, as answers show it."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    return value


def test_a_fitting_answer_is_unchanged() -> None:
    record = {"id": 7, "tags": ["a", None, 1.5], "more": {"deep": [{"x": True}]}, "no": {}}

    assert record == fitted(record)


def test_too_long_texts_lists_and_members_are_cut() -> None:
    record = {
        "title": "t" * 11,
        "tags": ["a"] * 4,
        "comments": [{"body": "b" * 12, "author": "x"}],
        "env": {str(number): number for number in range(5)},
    }

    assert {
        "title": "t" * 10 + "…",
        "tags": ["a"] * 3,
        "comments": [{"body": "b" * 10 + "…", "author": "x"}],
        "env": {"0": 0, "1": 1, "2": 2},
        "cut": ["comments.body", "env", "tags", "title"],
    } == shorten_record(record, 10, 3)


def test_too_deep_values_are_cut() -> None:
    deep: Any = "core"
    for _ in range(900):
        deep = [deep]

    assert ["more"] == fitted({"more": deep})["cut"]
    assert size(fitted({"more": deep})) < 200


def test_fields_go_one_by_one_where_cutting_is_not_enough() -> None:
    record: dict[str, Any] = {f"field{number:04}": "\x01" * 20 for number in range(400)}
    short = fitted({"id": 7, **record})

    assert size(short) <= MAX_CHARACTERS
    assert 7 == short["id"]
    assert {"\x01" * 20} == {value for name, value in short.items() if name.startswith("field")}
    assert "field0000" in short["cut"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("value", [1, "x" * 9_000, {"a" * 200: ["y"] * 100}])
@pytest.mark.parametrize(
    "name", lanes.shortened(("\x01" * 200, "n" * 200, "a.b." * 50), "\x01" * 200)
)
def test_of_thousands_of_names_some_are_kept_and_some_are_named(name: str, value: object) -> None:
    record = {f"{name}{number}": value for number in range(3_000)}
    short = fitted(dict(record))

    assert size(short) <= MAX_CHARACTERS
    assert len(short) > 2
    assert short["cut"][-1].endswith(" more")


def test_names_are_text_that_utf_8_can_carry() -> None:
    assert {"\ufffd": 1} == fitted({"\ud800": 1})
    assert json.dumps(fitted({"\ud800": "x" * 50_000}), ensure_ascii=False).encode()


@pytest.mark.parametrize("limit", [1, 7, 200])
def test_a_page_ends_at_its_limit_or_where_it_grows_too_long(limit: int) -> None:
    rows = [{"id": number, "title": "\x01" * 499} for number in range(limit + 1)]
    answer = page("tasks", rows, range(limit + 1), limit=limit, total=999)
    kept = len(answer["tasks"])

    assert min(limit, 12) == kept
    assert (str(kept - 1), 999) == (answer["next_cursor"], answer["total"])
    assert size(answer) <= MAX_CHARACTERS


def test_the_last_page_leads_nowhere() -> None:
    assert {"tasks": [{"id": 1}], "total": 1} == page("tasks", [{"id": 1}], [1], limit=1, total=1)
    assert {"tasks": [], "total": 0} == page("tasks", [], [], limit=1, total=0)


def test_a_page_leads_on_even_past_a_row_that_fills_it() -> None:
    huge = {f"field{number}": ["\x01" * 500] * 50 for number in range(9)}
    answer = page("tasks", [huge, {"id": 2}, {"id": 3}], [1, 2, 3], limit=2, total=3)

    assert size(answer) <= MAX_CHARACTERS
    assert "field0" in answer["tasks"][0]["cut"]
    assert str(len(answer["tasks"])) == answer["next_cursor"]
