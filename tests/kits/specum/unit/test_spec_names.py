"""A spec's name is safe as a folder, and one made from a goal can be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.specum.server.store import free_name, name_from_goal, problem_of

UNFIT = ": use only a-z, 0-9 and hyphens"
NAMES = st.from_regex(re.compile(r"[a-z0-9-]{0,31}[a-z0-9][a-z0-9-]{0,32}"), fullmatch=True)


@pytest.mark.parametrize("name", ["auth", "a", "7", "user-auth-2", "a-", "a--b", "a" * 64])
def test_a_name_of_small_letters_digits_and_hyphens_fits(name: str) -> None:
    assert "" == problem_of(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the spec name is empty: use a-z, 0-9 and hyphens"),
        ("Bad Name", f'invalid spec name "Bad Name"{UNFIT}, such as "bad-name"'),
        ("../x", f'invalid spec name "../x"{UNFIT}, such as "x"'),
        ("..", f'invalid spec name ".."{UNFIT}'),
        ("auth\n", f'invalid spec name "auth\\n"{UNFIT}, such as "auth"'),
        ("---", 'invalid spec name "---": start with a letter or a digit'),
        ("-rf", 'invalid spec name "-rf": start with a letter or a digit, such as "rf"'),
        ("a" * 65, f'the spec name "{"a" * 64}…" has 65 characters: use at most 64'),
    ],
)
def test_the_problem_of_a_name_is_one_sentence(name: str, problem: str) -> None:
    assert problem == problem_of(name)


@pytest.mark.parametrize(
    "name",
    ["a/b", "/etc", "a\0b", ".", ".hidden", "a.b", "a_b", "\uff41", "é", "UPPER", "a b", "٣"],
)
def test_whatever_else_a_folder_may_be_called_is_refused(name: str) -> None:
    assert problem_of(name)


@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("Add user authentication", "add-user-authentication"),
        ("  Add: OAuth2, *and* JWT!  ", "add-oauth2-and-jwt"),
        ("Füge schöne Größen hinzu", "fuge-schone-grossen-hinzu"),
        ("Žluťoučký kůň \u2013 Ærø, Łódź", "zlutoucky-kun-aero-lodz"),
        ("tabs\tand\nlines\u00a0too", "tabs-and-lines-too"),
        ("pre-commit -- hooks", "pre-commit-hooks"),
        ("$& {{goal}} {% raw %}", "goal-raw"),
        ("!!! ???", ""),
        ("日本語", ""),
        ("", ""),
        ("---", ""),
        ("x" * 60, "x" * 50),
        ("a" * 50 + " b", "a" * 50),
        ("a" * 49 + " b", "a" * 49),
        (
            "Build a dashboard that shows the weekly numbers of every team",
            "build-a-dashboard-that-shows-the-weekly-numbers-of",
        ),
        (
            "Build a dashboard that shows the weekly numbers for everyone",
            "build-a-dashboard-that-shows-the-weekly-numbers",
        ),
    ],
)
def test_a_goal_gives_a_name_of_its_first_whole_words(goal: str, name: str) -> None:
    assert name == name_from_goal(goal)


@given(st.text() | st.text(st.sampled_from("aÉß-\u2013 \n9/."), max_size=120))
def test_a_name_from_any_goal_fits_or_is_empty(goal: str) -> None:
    name = name_from_goal(goal)

    assert not name or not problem_of(name)
    assert 50 >= len(name)
    assert name == name.strip("-")
    assert name == name_from_goal(name)


@pytest.mark.parametrize(
    ("name", "taken", "free"),
    [
        ("auth", set(), "auth"),
        ("auth", {"other"}, "auth"),
        ("auth", {"auth"}, "auth-2"),
        ("auth", {"auth", "auth-2", "auth-4"}, "auth-3"),
        ("dup-2", {"dup-2"}, "dup-2-2"),
        ("a" * 64, {"a" * 64}, "a" * 62 + "-2"),
        ("a" * 61 + "-bc", {"a" * 61 + "-bc"}, "a" * 61 + "-2"),
    ],
)
def test_a_taken_name_gets_the_first_number_that_is_free(
    name: str, taken: set[str], free: str
) -> None:
    assert free == free_name(name, taken)


@given(NAMES.filter(lambda name: len(name) <= 64 and name[0] != "-"), st.integers(0, 12))
def test_a_free_name_fits_and_is_not_taken(name: str, times: int) -> None:
    taken: set[str] = set()
    for _ in range(times):
        taken.add(free_name(name, taken))
    free = free_name(name, taken)

    assert "" == problem_of(free)
    assert free not in taken
    assert times == len(taken)
