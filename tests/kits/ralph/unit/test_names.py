"""New names have one form, and names that may mean the same are pointed out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.ralph.server.features import name_problem, similar

RULE = 'use lower-case letters and digits, separated by single "-" or "_"'


@pytest.mark.parametrize(
    "name", ["auth", "bookmark-crud", "nextjs_app_router", "a-b_c", "2fa", "7", "v2-api"]
)
def test_kebab_and_snake_names_are_fine(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Auth", ': use "auth"'),
        ("User Auth", ': use "user-auth"'),
        ("userAuth", ': use "user-auth"'),
        ("User_Auth", ': use "user_auth"'),
        ("user__auth", ': use "user_auth"'),
        ("-auth-", ': use "auth"'),
        ("a--b", ': use "a-b"'),
        ("next.js", ': use "next-js"'),
        ("Café", ': use "cafe"'),
        ("../x", ': use "x"'),
        ("", ""),
        ("検索", ""),
        ("--", ""),
    ],
)
def test_a_refusal_suggests_the_form_that_was_meant(name: str, hint: str) -> None:
    assert f'invalid name "{name}": {RULE}{hint}' == name_problem(name)


def test_a_refusal_is_one_line_of_plain_text() -> None:
    assert rf'invalid name "auth\n": {RULE}: use "auth"' == name_problem("auth\n")
    assert rf'invalid name "\ud800": {RULE}' == name_problem("\ud800")


def test_a_refusal_of_a_long_name_remains_short() -> None:
    assert f'invalid name "{"A" * 60}": {RULE}' == name_problem("A" * 100_000)


@given(st.text(max_size=40) | st.text(st.sampled_from("aB1-_ é."), max_size=40))
def test_a_suggested_name_is_valid(name: str) -> None:
    problem = name_problem(name) or ""
    suggested = problem.partition(': use "')[2].removesuffix('"')

    assert not suggested or name_problem(suggested) is None


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("auth", ["authentication", "billing"], ["authentication"]),
        ("authentication", ["auth", "billing"], ["auth"]),
        ("user-auth", ["user_auth", "userauth", "UserAuth"], ["UserAuth", "user_auth", "userauth"]),
        ("bookmark", ["bookmarks", "book"], ["bookmarks", "book"]),
        ("notificatoins", ["notifications"], ["notifications"]),
        ("auth", ["auth"], []),
        ("ui", ["uiux", "uikit"], []),
        ("search", ["billing", "testing"], []),
        ("", ["", "a"], []),
        ("---", ["", "-"], []),
        ("a" * 100_000, ["a" * 99_999], []),
        ("abc", ["abc" + "x" * 100_000], ["abc" + "x" * 100_000]),
    ],
)
def test_names_that_may_mean_the_same_are_found(
    name: str, known: list[str], expected: list[str]
) -> None:
    assert expected == similar(name, known)


def test_at_most_five_are_named_the_likeliest_first() -> None:
    known = [f"task-{letter}" for letter in "hgfedcba"]

    assert ["tas", "task-a", "task-b", "task-c", "task-d"] == similar("task-x", [*known, "tas"])


@given(st.lists(st.text(st.sampled_from("abc-_"), max_size=6), max_size=8))
def test_the_order_of_the_known_names_does_not_count(known: list[str]) -> None:
    assert similar("abc", known) == similar("abc", reversed(known))
