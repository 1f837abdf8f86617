"""The order of results and their pages, filters, typing errors, and what a result holds."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import TYPES, Rye, directive, knowledge, python_tool, serving, session

FIELDS = {
    *("id", "type", "name", "title", "category", "source", "path", "score"),
    *("preview", "signature", "metadata"),
}
ANSWER = {
    *("status", "results", "total", "query", "search_type", "item_type", "source"),
    *("limit", "offset"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A person's session on a project."""
    with serving(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture
def rye(server: Rye) -> Rye:
    """The same, with nothing in the project and with the user."""
    server.clear()
    return server


def entry(rye: Rye, item_id: str, body: str = "needle", **values: Any) -> Path:
    space = str(values.pop("space", "project"))
    return rye.put("knowledge", item_id, knowledge(item_id, body, **values), space=space)


def answer(rye: Rye, query: str = "needle", **given: Any) -> dict[str, Any]:
    return rye.says("search", **{"item_type": "all", "query": query, "source": "project", **given})


def ids(rye: Rye, query: str = "needle", **given: Any) -> list[str]:
    return [result["id"] for result in answer(rye, query, **given)["results"]]


def test_an_answer_repeats_what_was_asked_and_says_how_many_there_are(rye: Rye) -> None:
    entry(rye, "one")
    told = rye.says("search", item_type="knowledge", query="needle")

    assert ANSWER == {*told}
    assert ("success", 1, "needle", "keyword", "knowledge", "all", 10, 0) == tuple(
        told[name]
        for name in (
            *("status", "total", "query", "search_type"),
            *("item_type", "source", "limit", "offset"),
        )
    )


@pytest.mark.parametrize("item_type", TYPES)
def test_a_result_holds_these_fields(rye: Rye, item_type: str) -> None:
    rye.put(item_type, "demo/needle")
    (found,) = answer(rye, item_type=item_type)["results"]
    given = {"description", "tags"} & {*found}  # what is empty is left out

    assert FIELDS | given == {*found}
    assert all(found[name] for name in given)
    assert found["score"] > 0
    assert 0 < len(found["preview"]) <= 200
    assert "unsigned" == found["signature"]


def test_no_hit_is_an_empty_list_and_no_error(rye: Rye) -> None:
    told = answer(rye, "nothing of that kind")

    assert ("success", [], 0) == (told["status"], told["results"], told["total"])
    assert "next_offset" not in told


def test_an_item_is_the_better_the_nearer_to_its_name_the_word_stands(rye: Rye) -> None:
    far = "other words " * 20
    entry(rye, "d", f"{far} needle {far}", title="d")
    rye.put("directive", "c", directive("c", description="The needle", body=far))
    entry(rye, "b", far, title="The needle")
    entry(rye, "needle", far, title="a")
    scores = [result["score"] for result in answer(rye)["results"]]

    assert {"needle", "b"} == {*ids(rye)[:2]}
    assert ["c", "d"] == ids(rye)[2:]
    assert scores == sorted(scores, reverse=True)


def test_words_that_meet_in_no_one_field_count_all_the_same(rye: Rye) -> None:
    """Upstream scored such an item with nothing."""
    entry(rye, "both", "haystack", title="The needle")
    entry(rye, "one", "needle", title="t")
    told = answer(rye, "needle haystack")

    assert ["both"] == [result["id"] for result in told["results"]]
    assert told["results"][0]["score"] > answer(rye, "haystack")["results"][0]["score"]


def test_a_rare_word_counts_more_than_a_common_one(rye: Rye) -> None:
    for number in range(20):
        entry(rye, f"common-{number}", "often here", title="t")
    entry(rye, "rare", "seldom here", title="t")

    assert "rare" == ids(rye, "often OR seldom")[0]


def test_more_of_a_word_and_a_shorter_text_count_more(rye: Rye) -> None:
    entry(rye, "long", "needle " + "other " * 500, title="t")
    entry(rye, "short", "needle other", title="t")
    entry(rye, "often", "needle needle needle other", title="t")

    assert ["often", "short", "long"] == ids(rye)


def test_ties_are_in_the_order_of_spaces_and_ids_at_each_call_and_server(
    rye: Rye,
) -> None:
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


def test_without_a_query_all_are_listed_in_that_order(rye: Rye) -> None:
    for item_type in reversed(TYPES):
        for item_id in ("b", "a"):
            rye.put(item_type, item_id)
    listed = [(result["type"], result["id"]) for result in answer(rye, "")["results"]]

    assert [(item_type, item_id) for item_type in TYPES for item_id in "ab"] == listed


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


@pytest.mark.parametrize("limit", [1, 100])
def test_a_limit_is_kept(rye: Rye, limit: int) -> None:
    for number in range(105):
        entry(rye, f"n{number:03}", "x")

    assert limit == len(ids(rye, "x", limit=limit))


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -1}, {"limit": 101}, {"offset": -1}])
def test_a_limit_that_is_none_is_refused(rye: Rye, wrong: dict[str, int]) -> None:
    error = rye.refuses("search", item_type="all", query="", **wrong)

    assert "VALIDATION_FAILED" == error["code"]


def test_a_page_that_would_be_too_long_ends_sooner_and_goes_on_from_there(rye: Rye) -> None:
    for number in range(100):
        entry(rye, f"n{number:03}", title="t" * 500, entry_type="e" * 400)
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        told = answer(rye, "", limit=100, offset=offset)
        found += [result["id"] for result in told["results"]]
        offset = told.get("next_offset")

    assert [f"n{number:03}" for number in range(100)] == found


def test_results_can_be_sorted_by_date_and_by_name(rye: Rye) -> None:
    dates = {"c": "2026-01-02", "b": "2026-01-03T00:00:00Z", "a": "2025-12-31", "x/b": None}
    for item_id, date in dates.items():
        entry(rye, item_id, **({"created_at": date} if date else {}))

    assert ["b", "c", "a", "x/b"] == ids(rye, sort_by="date")
    assert ["a", "b", "x/b", "c"] == ids(rye, sort_by="name")
    assert sorted(dates) == sorted(ids(rye, sort_by="score"))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": "alpha"}, "a"),
        ({"tags": ["alpha", "gamma"]}, "ac"),
        ({"tags": "!alpha"}, "bc"),
        ({"category": "area"}, "ab"),
        ({"entry_type": "Reference"}, "abc"),
        ({"version": ">1.9"}, "bc"),
        ({"version": "<=1.10.0", "tags": "beta"}, "ab"),
        ({"date_from": "2026-01-02"}, "bc"),
        ({"date_to": "2026-01-02"}, "b"),
        ({"missing": "x"}, ""),
        ({"type": "knowledge", "source": "project"}, "abc"),
    ],
)
def test_filters_leave_what_says_so_of_itself(
    rye: Rye, filters: dict[str, Any], expected: str
) -> None:
    entry(rye, "area/a", tags=["Alpha", "beta"], version="1.9.0")
    path = entry(rye, "area/b", tags=["beta"], version="1.10.0", created_at="2026-01-02")
    entry(rye, "c", tags=["gamma"], version="2.0.0", created_at="2026-02-01T10:00:00+01:00")
    before = answer(rye, filters=filters)
    rye.sign("knowledge", "area/b")
    after = answer(rye, filters=filters)

    assert path.read_text(encoding="utf-8").startswith("<!-- rye:signed:")
    for told in (before, after):
        assert sorted(expected) == sorted(result["name"] for result in told["results"])
        assert len(expected) == told["total"]


def test_a_tool_is_filtered_by_what_it_says_of_itself(rye: Rye) -> None:
    rye.put("tool", "one", python_tool("one", tool_type="script"))
    rye.put("tool", "two", python_tool("two"))

    assert ["one"] == ids(rye, "", filters={"tool_type": "script"})


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


def test_a_word_as_it_was_typed_goes_before_one_that_is_like_it(rye: Rye) -> None:
    entry(rye, "near", "scraber scrater scramper", title="t")
    entry(rye, "exact", "scraper " + "other " * 200, title="t")

    assert ["exact", "near"] == ids(rye, "scraper", fuzzy={"enabled": True})


@pytest.mark.parametrize("query", ["", "needle", "NOT hay", "need*", "*dle", '"needle"'])
def test_scores_are_numbers_that_json_has(rye: Rye, query: str) -> None:
    for item_id in ("one", "two"):
        entry(rye, item_id)
    for result in answer(rye, query)["results"]:
        assert math.isfinite(result["score"])
        assert 0 <= result["score"]
