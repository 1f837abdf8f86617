"""Hints of a search on misspelled words, fields and filters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_searching import answer, put
from rye_workspaces import Workspace, opened

FUZZY = '"fuzzy": {} also finds misspelled words'
FIELDS = "use name, title, description, category, tags, body"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with opened(tmp_path) as workspace:
        put(workspace, "area/one", "the scraper", title="t", tags=["web"], author="x")
        yield workspace


def hint(workspace: Workspace, query: str = "", **given: Any) -> str | None:
    told: str | None = answer(workspace, query, **given).get("hint")
    return told


@pytest.mark.parametrize(
    "query", ["scarper", "scarper NOT web", "title:scarper", "(zz OR scarper)"]
)
def test_where_words_are_not_found_they_may_be_mistyped(workspace: Workspace, query: str) -> None:
    assert FUZZY == hint(workspace, query)
    assert hint(workspace, query, fuzzy={}) is None
    assert FUZZY == hint(workspace, query, fuzzy={"enabled": False})


@pytest.mark.parametrize(
    "query",
    ["", "scraper", '"scarper"', "scarp*", "ab", "two_words", " ".join(["word"] * 21)],
    ids=["empty", "found", "phrase", "wildcard", "short", "several parts", "too many"],
)
def test_what_fuzzy_would_not_help_has_no_such_hint(workspace: Workspace, query: str) -> None:
    assert hint(workspace, query) is None


@pytest.mark.parametrize(
    "query", ["tag:web", "scraper OR tag:web", '(tag:"web")', "tag:(web OR x)"]
)
def test_what_stands_as_a_field_and_is_none_is_named(workspace: Workspace, query: str) -> None:
    expected = f'"tag:" is not a field: {FIELDS}; did you mean "tags"?'

    assert expected == hint(workspace, query)


def test_where_no_field_is_like_it_none_is_suggested(workspace: Workspace) -> None:
    assert f'"xyz:" is not a field: {FIELDS}' == hint(workspace, "xyz:web")


def test_a_filter_for_what_no_item_says_is_named(workspace: Workspace) -> None:
    asks = "matches no field of the searched items"

    assert f'"filters.tag" {asks}; did you mean "tags"?' == hint(workspace, filters={"tag": "web"})
    assert f'"filters.zzzz" {asks}' == hint(workspace, filters={"author": "x", "zzzz": "!a"})
    assert f'"filters.date_to" {asks}' == hint(workspace, filters={"date_to": "2026-01-01"})


@pytest.mark.parametrize("filters", [{"author": "y"}, {"tags": "none"}, {"source": "user"}])
def test_a_filter_for_what_items_say_is_not(workspace: Workspace, filters: dict[str, str]) -> None:
    assert 0 == answer(workspace, filters=filters)["total"]
    assert hint(workspace, filters=filters) is None
