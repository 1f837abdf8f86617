"""Acronyms are four characters of A-Z and 0-9, the same for the same arguments, never taken."""

from __future__ import annotations

import re
from itertools import product
from string import ascii_uppercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.ralph.server.features import DIGITS, acronym
from ralphgen.runtime.errors import ToolError

FEW = "07AQZ"  # in the order of DIGITS


@pytest.mark.parametrize(
    ("name", "display_name", "expected"),
    [
        ("bookmarks", "Bookmarks", "BKMR"),
        ("aerial", "Aerial", "AERI"),
        ("api", "API", "APII"),
        ("x", "X", "XXXX"),
        ("user-auth", "Authentication", "USAU"),
        ("auth", "User Authentication", "USAU"),
        ("search", "Full Text Search", "FUTS"),
        ("q", "Ask Five Short Questions Now", "AFSQ"),
        ("a_b", "AB", "ABBB"),
        ("nextjs", "NEXT.JS router", "NERO"),
        ("next.js", "NEXT.JS", "NXTJ"),
        ("oauth2", "OAuth2", "OAUT"),
        ("cafe", "Café Straße", "CAST"),
        ("search", "検索 機能", "SRCH"),
        ("検索", "検索", "UNKN"),
        ("!!!", "? !", "UNKN"),
        ("", "", "UNKN"),
        ("検索", "Search", "SRCH"),
    ],
)
def test_an_acronym_is_built_from_its_words(name: str, display_name: str, expected: str) -> None:
    assert expected == acronym(name, display_name, ())


def test_a_collision_is_numbered_in_the_first_free_place() -> None:
    assert "B001" == acronym("bookmarks", "Bookmarks", ["BKMR"])
    assert "B003" == acronym("bookmarks", "Bookmarks", ["BKMR", "B001", "B002", "B004"])


def test_numbers_go_up_to_999() -> None:
    taken = {"BKMR", *(f"B{number:03}" for number in range(1, 999))}

    assert "B999" == acronym("bookmarks", "Bookmarks", taken)


def test_after_999_collisions_letters_come_in() -> None:
    taken = {"BKMR", *(f"B{number:03}" for number in range(1_000))}

    assert "B00A" == acronym("bookmarks", "Bookmarks", taken)


@pytest.fixture
def every_one(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return every acronym for "zebra" in an alphabet of five; 36^4 would take seconds."""
    monkeypatch.setattr("ralphgen.kits.ralph.server.features.DIGITS", FEW)
    numbered = {f"Z{number:03}" for number in range(1, 1_000)}
    return {"ZEBR", "ZBRR", *numbered, *map("".join, product(FEW, repeat=4))}


def test_the_letters_are_all_of_the_alphabet_and_the_digits() -> None:
    assert "".join(sorted(f"{ascii_uppercase}{digits}")) == DIGITS


def test_when_a_first_letter_is_used_up_the_next_one_is_taken(every_one: set[str]) -> None:
    taken = {entry for entry in every_one if entry.startswith("Z")}

    assert "0000" == acronym("zebra", "Zebra", taken)


def test_the_very_last_one_is_found(every_one: set[str]) -> None:
    assert "A7Q0" == acronym("zebra", "Zebra", every_one - {"A7Q0"})


def test_an_exhausted_name_space_is_reported(every_one: set[str]) -> None:
    with pytest.raises(ToolError, match=r"^no acronym is available"):
        acronym("zebra", "Zebra", every_one)


@given(
    st.text(max_size=30),
    st.text(st.sampled_from("ab 9-_.é ßж"), max_size=20) | st.text(max_size=30),
    st.integers(0, 30),
)
def test_any_name_has_a_free_and_stable_acronym(name: str, display_name: str, rows: int) -> None:
    taken: list[str] = []
    for _ in range(rows + 1):
        made = acronym(name, display_name, taken)

        assert re.fullmatch("[A-Z0-9]{4}", made)
        assert made not in taken
        assert made == acronym(name, display_name, set(taken))
        taken.append(made)
