"""Names: every text has a legal one, and no two texts share it."""

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from spelling_oracle import TEXTS

from ralphgen.spelling import argument_name, constant

NAMES = st.one_of(
    st.text("xX_.0123abf -", max_size=8), st.text("x_", min_size=55, max_size=75), TEXTS
)
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
ESCAPES = [constant, argument_name]


@given(names=st.lists(NAMES, min_size=2, max_size=12, unique_by=str.lower))
@settings(max_examples=examples(300), deadline=None)
def test_different_texts_have_different_names(names: list[str]) -> None:
    """This includes a text that equals the name of another one."""
    for escape in ESCAPES:
        texts = [*names, *map(escape, names)]
        caseless = {text.translate(LOWER): text for text in texts}

        assert len(caseless) == len({escape(text) for text in caseless.values()})


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class", "x_class"),
        ("a b", "x_a_20_b"),
        ("x_a_20_b", "x_x__a__20__b"),
        ("x.a.20.b", "a b"),
        ("a__b c", "a_b _c"),
        ("-20", " "),
        ("", "x_"),
        ("", "x."),
        ("_", "x__"),
        ("a" * 65, "a" * 66),
        ("a" * 64, "a" * 65),
        ("a" * 65, "xx_" + "a" * 36),
        ("\u0130", "i\u0307"),
        ("\xe9", "e\u0301"),
        ("\ud800", "\\ud800"),
    ],
)
def test_crafted_texts_do_not_meet(escape: Callable[[str], str], one: str, other: str) -> None:
    assert escape(one) != escape(other)
    assert escape(escape(one)) != escape(escape(other))


@given(text=NAMES)
@settings(max_examples=examples(200), deadline=None)
def test_names_are_legal(text: str) -> None:
    compile(f"{constant(text)} = 1", "module", "exec")

    assert re.fullmatch("[A-Z][A-Z0-9_]{0,63}", constant(text))
    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", argument_name(text))


@pytest.mark.parametrize(
    ("text", "capitals", "argument"),
    [
        ("status", "STATUS", "status"),
        ("myTable2", "MYTABLE2", "myTable2"),
        ("in work", "X_IN_20_WORK", "x.in.20.work"),
        ("due-date", "X_DUE_2D_DATE", "due-date"),
        ("a.b", "X_A_2E_B", "a.b"),
        ("class", "CLASS", "class"),
        ("match", "MATCH", "match"),
        ("list", "LIST", "list"),
        ("OSError", "OSERROR", "OSError"),
        ("__init__", "X_____INIT____", "__init__"),
        ("l", "L", "l"),
        ("I", "X_I", "I"),
        ("2nd", "X_2ND", "2nd"),
        ("", "X_", "x."),
        ("x_a", "X_X__A", "x_a"),
        ("x.a", "X_X_2E_A", "x.x..a"),
        ("\u540d", "X__540D_", "x..540d."),
    ],
)
def test_names_are_spelled_so(text: str, capitals: str, argument: str) -> None:
    assert (capitals, argument) == (constant(text), argument_name(text))
