"""Search results: order, pages, limits, filters and misspelled words."""

from pathlib import Path
from typing import Any

import pytest
from rye_projects import Rye, knowledge, session


def entry(rye: Rye, item_id: str, body: str = "needle", **values: Any) -> Path:
    space = str(values.pop("space", "project"))
    return rye.put("knowledge", item_id, knowledge(item_id, body, **values), space=space)


def answer(rye: Rye, query: str = "needle", **given: Any) -> dict[str, Any]:
    return rye.says("search", **{"item_type": "all", "query": query, "source": "project", **given})


def ids(rye: Rye, query: str = "needle", **given: Any) -> list[str]:
    return [result["id"] for result in answer(rye, query, **given)["results"]]


def test_ties_are_in_the_order_of_spaces_and_ids_at_each_call_and_server(rye: Rye) -> None:
    for item_id in ("c", "b", "a"):
        for space in ("user", "project"):
            rye.put("knowledge", item_id, "needle", space=space)
    given = {"item_type": "knowledge", "source": "all", "limit": 100}
    order = [("project", item_id) for item_id in "abc"] + [("user", item_id) for item_id in "abc"]
    told = answer(rye, "body:needle", **given)
    with session(rye.folder, rye.root) as other:
        again = answer(other, "body:needle", **given)

    assert 1 == len({result["score"] for result in told["results"]})
    assert order == [(result["source"], result["id"]) for result in told["results"]]
    assert told == again == answer(rye, "body:needle", **given)


def test_pages_follow_each_other(rye: Rye) -> None:
    for number in range(25):
        entry(rye, f"n{number:02}")
    whole = ids(rye, limit=100)
    first = answer(rye)
    pages = [answer(rye, limit=7, offset=offset) for offset in (0, 7, 14, 21)]

    assert 25 == len(whole)
    assert (10, 10, 25) == (len(first["results"]), first["next_offset"], first["total"])
    assert whole == [result["id"] for page in pages for result in page["results"]]
    assert [7, 14, 21, None] == [page.get("next_offset") for page in pages]
    assert ([], 25) == (ids(rye, offset=25), answer(rye, offset=1_000_000)["total"])


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -1}, {"limit": 101}, {"offset": -1}])
def test_a_limit_that_is_none_is_refused(rye: Rye, wrong: dict[str, int]) -> None:
    error = rye.refuses("search", item_type="all", query="", **wrong)

    assert "VALIDATION_FAILED" == error["code"]


@pytest.mark.parametrize("filters", [{"version": {}}, {"date_from": "soon"}, {"version": ">"}])
def test_a_filter_without_meaning_is_refused(rye: Rye, filters: dict[str, Any]) -> None:
    error = rye.refuses("search", item_type="all", query="", filters=filters)

    assert "VALIDATION_FAILED" == error["code"]
    assert "filters" in error["message"]


@pytest.mark.parametrize(
    ("word", "fuzzy", "expected"),
    [
        ("scarper", None, []),
        ("scarper", {"enabled": False}, []),
        ("scarper", {"max_distance": 3}, ["one"]),
        ("scarper", {}, ["one"]),
        ("scarper", {"enabled": False, "max_distance": 3}, []),
        ("scarper", {"enabled": True}, ["one"]),
        ("scarper", {"enabled": True, "max_distance": 1}, ["one"]),
        ("scaprre", {"enabled": True, "max_distance": 1}, []),
        ("scrapr", {"enabled": True, "max_distance": 1}, ["one"]),
        ("scraper", {"enabled": True}, ["one"]),
        ("scarper NOT html", {"enabled": True}, []),
        ("elephant", {"enabled": True, "max_distance": 3}, []),
    ],
)
def test_words_with_typing_errors_are_found_where_that_is_asked_for(
    rye: Rye, word: str, fuzzy: dict[str, Any] | None, expected: list[str]
) -> None:
    entry(rye, "one", "the scraper of html")
    told = answer(rye, word, fuzzy=fuzzy)
    on = fuzzy is not None and fuzzy.get("enabled", True)

    assert expected == [result["id"] for result in told["results"]]
    assert ("fuzzy" if on else "keyword") == told["search_type"]
