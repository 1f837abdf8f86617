"""What a query means over the wire: words, phrases, operators, groups, wildcards and fields."""

from collections.abc import Iterator
from typing import Any

import pytest
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
