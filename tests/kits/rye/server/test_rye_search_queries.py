"""What a query means over the wire: words, phrases, operators, groups, wildcards and fields."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from rye_projects import Rye, directive, knowledge, python_tool, serving, yaml_tool

TEXTS = {
    "alpha": "apple banana cherry",
    "beta": "apple banana",
    "gamma": "cherry apple android",
    "delta": "banana split",
    "epsilon": "apples and create_tool",
    "zeta": "date",
}
"""Bodies by the ids of the entries that have them; they say nothing else that is looked for."""
WORDS = ("apple", "banana", "cherry", "date", "split", "nothing")


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A session on entries of plain words; no test may change them."""
    with serving(tmp_path_factory.mktemp("queries")) as found:
        for item_id, text in TEXTS.items():
            fields: dict[str, Any] = {"title": "t", "entry_type": "e", "tags": []}
            found.put("knowledge", item_id, knowledge(item_id, f"{text}\n", **fields))
        yield found


def matching(rye: Rye, query: str, **given: Any) -> list[str]:
    """The entries that match, in the order of their ids."""
    return sorted(rye.found(query, "knowledge", source="project", limit=100, **given))


def names(*letters: str) -> list[str]:
    """The entries of some first letters."""
    return sorted(name for name in TEXTS if name[0] in letters)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", names(*"abgdez")),
        (" \n ", names(*"abgdez")),
        ("apple", names(*"abge")),  # a word matches those that begin with it
        ("APPLE", names(*"abge")),
        ('"apple"', names(*"abg")),
        ("ppl", []),  # upstream matched any part of a word
        ("apple banana", names(*"ab")),
        ("apple AND banana", names(*"ab")),
        ("apple OR banana", names(*"abgde")),
        ("apple banana OR split", names(*"abd")),
        ("banana AND apple OR split AND banana", names(*"abd")),
        ("apple NOT banana", names(*"ge")),
        ("apple AND NOT banana", names(*"ge")),
        ("NOT apple", names(*"dz")),
        ("NOT NOT apple", names(*"abge")),  # upstream: nothing
        ("NOT (apple OR banana)", names("z")),
        ('"apple banana"', names(*"ab")),
        ('"banana apple"', []),
        ('"apple banan"', []),
        ('"cherry apple" OR date', names(*"gz")),
        ("apple (cherry)", names(*"ag")),  # upstream dropped what is in the parentheses
        ("apple (nothing)", []),
        ("apple (cherry OR banana)", names(*"abg")),
        ("(apple OR split) (cherry OR banana)", names(*"abgd")),
        ("((((apple))))", names(*"abge")),
        ("app*", names(*"abge")),
        ("*rry", names(*"ag")),
        ("b*na", names(*"abd")),
        ("*", names(*"abgdez")),
        ("*pp*", names(*"abge")),
        ("android", names("g")),
        ("and", names(*"ge")),  # in small letters it is a word
        ("apple and", names(*"ge")),
        ("or", []),
        ("create_tool", names("e")),
        ("create-tool", names("e")),
        ("tool", names("e")),
        ("name:alpha", names("a")),
        ("name:alpha OR body:date", names(*"az")),
        ("title:alpha", []),
        ("body:(banana NOT split)", names(*"ab")),
        ('body:"apple banana"', names(*"ab")),
        ("title:t", names(*"abgdez")),
        ("title:apple", []),
        ("apple!!! ...banana?", names(*"ab")),
        ("nothing", []),
    ],
)
def test_a_query_finds_what_it_says(rye: Rye, query: str, expected: list[str]) -> None:
    assert expected == matching(rye, query)


@pytest.mark.parametrize(
    ("query", "position", "words"),
    [
        ("apple OR", 6, '"OR" has no word after it'),  # upstream: everything
        ("OR apple", 0, '"OR" has no word before it'),
        ("AND", 0, '"AND" has no word'),
        ("apple AND", 6, '"AND" has no word after it'),
        ("NOT", 0, '"NOT" has no word after it'),
        ("apple AND OR banana", 6, '"AND" has no word after it'),
        ("(apple", 0, '"(" is not closed'),
        ("apple (banana", 6, '"(" is not closed'),
        ("apple)", 5, '")" has no matching'),
        ("apple ()", 6, "the group is empty"),
        ('apple "banana', 6, "the quote is not closed"),
        ("title:", 0, 'no word after "title:"'),
        ("!?", 0, "no letters or digits"),
        ("(" * 51 + "apple" + ")" * 51, 50, "groups are nested more than 50"),
        (
            "(" * 900 + "apple" + ")" * 900,
            50,
            "groups are nested more than 50",
        ),  # upstream: recursion
        ("apple " * 201, 1200, "more than 200 terms"),
        ("x" * 2001, 2000, "2,001 characters"),
    ],
)
def test_a_query_without_meaning_is_refused_at_its_place(
    rye: Rye, query: str, position: int, words: str
) -> None:
    error = rye.refuses("search", item_type="knowledge", query=query)

    assert ("INVALID_QUERY", position) == (error["code"], error["position"])
    assert words in error["message"]


def test_what_is_deep_and_long_but_within_bounds_is_answered(rye: Rye) -> None:
    assert names(*"abge") == matching(rye, "(" * 50 + "apple" + ")" * 50)
    assert names(*"abge") == matching(rye, "apple " * 200)


Found = frozenset[str]
LEAVES = st.sampled_from(WORDS).map(lambda word: (f'"{word}"', having(word)))
"""Queries, each with what it must find."""


def having(word: str) -> Found:
    return frozenset(name for name, text in TEXTS.items() if word in text.split())


def negated(one: tuple[str, Found]) -> tuple[str, Found]:
    return f"NOT ({one[0]})", frozenset(TEXTS) - one[1]


def put_together(parts: tuple[str, tuple[str, Found], tuple[str, Found]]) -> tuple[str, Found]:
    sign, (one, found), (other, more) = parts
    return f"({one}) {sign} ({other})", found | more if sign == "OR" else found & more


QUERIES = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(negated)
        | st.tuples(st.sampled_from(["AND", "OR", ""]), inner, inner).map(put_together)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(QUERIES)
def test_any_query_finds_what_a_reference_finds(rye: Rye, query: tuple[str, Found]) -> None:
    text, expected = query

    assert sorted(expected) == matching(rye, text)


PIECES = st.sampled_from([*'()"*:-', " ", "AND ", "OR ", "NOT ", "title:", "apple", "é测", "\0"])


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PIECES | st.characters(exclude_categories=["Cs"]), max_size=20).map("".join))
def test_any_text_is_answered_or_refused_at_one_of_its_characters(rye: Rye, query: str) -> None:
    failed, answer = rye.ask("search", item_type="knowledge", query=query)

    if failed:
        assert "INVALID_QUERY" == answer["error"]["code"]
        assert 0 <= answer["error"]["position"] <= len(query)
    assert names("a", "b") == matching(rye, "apple banana")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "Café"),
        ("CAFÉ", "cafe"),
        ("strasse", "Straße"),
        ("ﬁre", "fire"),
        ("测试", "一些测试内容"),
        ("привет", "ПРИВЕТ"),
        ("2026", "in 2026-01"),
        ("http-client", "the http_client"),
    ],
)
def test_words_are_found_however_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, query: str, text: str
) -> None:
    with serving(tmp_path_factory.mktemp("written")) as rye:
        rye.put("knowledge", "one", knowledge("one", text))
        rye.put("knowledge", "two", knowledge("two", "else"))

        assert ["one"] == matching(rye, query)


def test_every_part_of_an_item_is_searched_and_can_be_named(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving(tmp_path_factory.mktemp("parts")) as rye:
        rye.put("knowledge", "nid/kname", knowledge("nid/kname", "kbody", title="ktitle"))
        rye.put("knowledge", "tagged", knowledge("tagged", tags=["ktag", "two"]))
        rye.put("directive", "dname", directive("dname", description="ddescription", body="dbody"))
        rye.put("tool", "tname", python_tool("tname", "def tcode(): pass\n"))
        text = yaml_tool("yname", description="ydescription here")
        rye.put("tool", "yname", text, extension=".yaml")
        expected = {
            "name:kname": "nid/kname",
            "title:ktitle": "nid/kname",
            "category:nid": "nid/kname",
            "body:kbody": "nid/kname",
            "tags:ktag": "tagged",
            "description:ddescription": "dname",
            "description:ydescription": "yname",
            "body:tcode": "tname",
            "body:dbody": "dname",
        }
        found = {query: "".join(rye.found(query, source="project")) for query in expected}

    assert expected == found
