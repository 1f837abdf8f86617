"""Stored lists and dates are read leniently, written strictly, and never lost."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.runtime import tasks
from ralphgen.runtime.tasks import (
    ESCAPED,
    NULL,
    NUMBERS,
    RAW,
    SEPARATED,
    TEXTS,
    UNREADABLE,
    Decoded,
    decode_integers,
    decode_objects,
    decode_strings,
    encode,
)

ANY_TEXT = st.text(st.characters(), max_size=12)  # halves of surrogate pairs too
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda items: st.lists(items, max_size=3) | st.dictionaries(ANY_TEXT, items, max_size=3),
    max_leaves=8,
)  # fmt: skip


def parts(found: Decoded) -> tuple[list[Any], str | None, bool]:
    """Return every part of a decoded list."""
    return found.values, found.warning, found.readable


@pytest.mark.parametrize(
    ("stored", "values", "warning"),
    [
        (None, [], None),
        ("", [], None),
        (" \n", [], None),
        ("[]", [], None),
        ('["a","b"]', ["a", "b"], None),
        (' ["ä", ""] ', ["ä", ""], None),
        ("null", [], NULL),
        (r"[\"a\",\"b\"]", ["a", "b"], ESCAPED),
        (r"[\"say \\\"hi\\\"\",\"C:\\\\new\"]", ['say "hi"', r"C:\new"], ESCAPED),
        (r"[\"C:\\x\"]", [r"C:\x"], ESCAPED),
        (r"[\"two\\nlines\"]", ["two\nlines"], ESCAPED),
        ('["two\nlines"]', ["two\nlines"], RAW),
        ("login works; logout works ;", ["login works", "logout works"], SEPARATED),
        ("one thing", ["one thing"], SEPARATED),
        ("5", ["5"], SEPARATED),
        (r"say \"hi\"; go", [r"say \"hi\"", "go"], SEPARATED),
        ('["a",1,-2]', ["a", "1", "-2"], NUMBERS),
        (r"[\"a\",1]", ["a", "1"], f"{ESCAPED}; {NUMBERS}"),
    ],
)
def test_a_list_of_strings_is_read_in_every_stored_form(
    stored: str | None, values: list[str], warning: str | None
) -> None:
    assert (values, warning, True) == parts(decode_strings(stored))


@pytest.mark.parametrize(
    "stored",
    [
        '["a",null]',
        '["a",true]',
        '["1.10",1.10]',
        '["a",["b"]]',
        '[{"a":1}]',
        '{"a":1}',
        '"a; b"',
        '["a"',
        "[a; b]",
        '\ufeff["a"]',
        "[NaN]",
        "[" * 100_000,
        b'["a"]',
        7,
    ],
)
def test_a_lossy_list_is_unreadable(stored: object) -> None:
    assert ([], UNREADABLE, False) == parts(decode_strings(stored))


@pytest.mark.parametrize(
    ("stored", "values", "warning"),
    [
        (None, [], None),
        ("[3,1,3]", [3, 1, 3], None),
        ('["3", 1]', [3, 1], TEXTS),
        ("[3.0]", [3], TEXTS),
        ("3; 1", [3, 1], SEPARATED),
        (r"[\"3\"]", [3], f"{ESCAPED}; {TEXTS}"),
    ],
)
def test_a_list_of_ids_is_read_in_every_form(
    stored: str | None, values: list[int], warning: str | None
) -> None:
    found = decode_integers(stored)

    assert (values, warning, True) == parts(found)
    assert all(type(value) is int for value in found.values)


@pytest.mark.parametrize("stored", ["[1.5]", "[true]", '["#3"]', "needs 3", "[1e300]", '{"1":2}'])
def test_a_list_of_ids_with_anything_else_is_unreadable(stored: str) -> None:
    assert ([], UNREADABLE, False) == parts(decode_integers(stored))


def test_objects_keep_every_key_and_its_order() -> None:
    stored = '[{"z":{"b":1,"a":[null]},"name":"x"}]'

    assert stored == encode(decode_objects(stored).values)


@pytest.mark.parametrize(
    "stored", ['[{"a":1},2]', "a; b", '{"a":1}', '[{"a":1,"a":2}]', '[{"a":1e999}]']
)
def test_only_a_list_of_objects_is_readable(stored: str) -> None:
    """A duplicate key counts too: the next write would lose one of the two values."""
    assert ([], UNREADABLE, False) == parts(decode_objects(stored))


def test_lists_are_written_as_ralph_itself_writes_them() -> None:
    assert '["ä \\"x\\"",{"a":[1,true,null]}]' == encode(['ä "x"', {"a": [1, True, None]}])


@given(st.lists(st.dictionaries(ANY_TEXT, JSON_VALUES, max_size=3), max_size=4))
def test_any_written_list_is_stored_by_sqlite_and_read_unchanged(
    values: list[dict[str, Any]],
) -> None:
    connection = sqlite3.connect(":memory:")
    [(stored, valid)] = connection.execute("SELECT ?1, json_valid(?1)", [encode(values)])
    connection.close()

    assert 1 == valid
    assert json.loads(json.dumps(values)) == decode_objects(stored).values


@given(st.lists(ANY_TEXT, max_size=4))
def test_a_list_that_was_escaped_once_more_is_read_as_it_was(values: list[str]) -> None:
    inner = json.dumps(values)
    escaped = json.dumps(inner)[1:-1]

    assert json.loads(inner) == decode_strings(escaped).values


@given(ANY_TEXT)
def test_no_stored_text_is_dropped_in_silence(stored: str) -> None:
    found = decode_strings(stored)
    kept = "".join(found.values)

    assert found.readable or found.values == []
    if found.readable and found.warning == SEPARATED:
        assert re.sub(r"[;\s]", "", stored) == re.sub(r"[;\s]", "", kept)


def test_each_column_gets_the_format_that_it_has_always_had() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", tasks.today())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", tasks.now())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", tasks.now_offset())


def test_the_clock_is_read_in_utc() -> None:
    """In any zone but UTC, the tested time would not be between two other readings.

    The clock of whole seconds turns a few milliseconds after the fine one.
    """
    before = (datetime.now(UTC) - timedelta(seconds=1)).isoformat(timespec="seconds")
    moments = [tasks.now_offset(), tasks.now().replace("Z", "+00:00")]
    after = datetime.now(UTC).isoformat(timespec="seconds")

    assert all(before <= moment <= after for moment in moments)
