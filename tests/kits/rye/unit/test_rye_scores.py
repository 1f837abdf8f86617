"""Ranking of search results: fields, matches, frequencies and misspellings."""

import re
from collections.abc import Iterator
from math import log
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from rye_projects import directive, knowledge
from rye_searching import scored, words_of
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.queries import allowed_distance, distance_between, pattern_near
from ralphgen.kits.rye.server.searching import search
from ralphgen.runtime.errors import CodedError


def mistyped(word: str, mistakes: int) -> set[str]:
    """Return variants of a word: up to `mistakes` letters swapped, replaced, missing or added."""
    found = {word}
    for _ in range(mistakes):
        for one in sorted(found):
            for at in range(len(one) - 1):
                first, second, after = one[at], one[at + 1], one[at + 2 :]
                for new in (second + first, "x" + second, second, "x" + first + second):
                    found.add(one[:at] + new + after)
    return found


class TestScores:
    """The score of an item."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Iterator[Workspace]:
        with opened(tmp_path) as workspace:
            yield workspace

    def order(self, workspace: Workspace, query: str, **given: Any) -> list[str]:
        return [*scored(workspace, query, **given)]

    def put(self, workspace: Workspace, item_id: str, body: str, **values: Any) -> None:
        workspace.put("knowledge", item_id, knowledge(item_id, body, **values))

    def test_names_count_more_than_descriptions_these_more_than_tags_and_all_more_than_the_body(
        self, workspace: Workspace
    ) -> None:
        self.put(workspace, "x/c", "a needle", title="t", description="hay")
        self.put(workspace, "x/b", "hay", title="t", description="a needle")
        self.put(workspace, "x/a", "hay hay", title="t", description="hay", tags=["needle"])
        self.put(workspace, "x/needle", "hay hay", title="t", description="hay")

        assert ["x/needle", "x/b", "x/a", "x/c"] == self.order(workspace, "needle")

    def test_whole_words_count_more_than_beginnings_and_these_more_than_mistyped_ones(
        self, workspace: Workspace
    ) -> None:
        self.put(workspace, "a", "the skraper runs, which is a scrapes")
        self.put(workspace, "b", "the scrapers run")
        self.put(workspace, "c", "the scraper runs")

        assert ["c", "b", "a"] == self.order(workspace, "scraper", fuzzy={"enabled": True})

    def test_rare_words_score_higher_than_common_ones(self, workspace: Workspace) -> None:
        for item_id in ("a", "b", "c"):
            self.put(workspace, item_id, "common words")
        self.put(workspace, "d", "rare words")

        assert "d" == self.order(workspace, "common OR rare")[0]

    def test_score_equals_bm25(self, workspace: Workspace) -> None:
        """FTS5 computes a part of the score, so every SQLite version must use this formula.

        Items of all spaces count, so the test removes the system space.
        """
        rmtree(workspace.system)
        texts = {
            "a": "needle needle",
            "b": "needle and some more words of hay",
            "c": "hay",
            "d": "",
        }
        sizes, counts = {}, {}
        for item_id, body in texts.items():
            text = knowledge(item_id, body, title="t", tags=[])
            workspace.put("knowledge", item_id, text)
            sizes[item_id] = len(words_of(f"{item_id} t {text}"))
            counts[item_id] = words_of(text).count("needle")
        mean = sum(sizes.values()) / 4
        worth = log(1 + (4 - 2 + 0.5) / (2 + 0.5))
        expected = {
            item_id: round(
                worth * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * sizes[item_id] / mean)), 4
            )
            for item_id, count in counts.items()
            if count
        }

        assert expected == scored(workspace, '"needle"')

    def test_equal_items_have_equal_scores_in_whatever_space(self, workspace: Workspace) -> None:
        place = {"project_path": str(workspace.root), "item_type": "knowledge", "source": "all"}
        text = knowledge("one", "needle and hay")
        for space in ("project", "user"):
            workspace.put("knowledge", "one", text, space=space)
        self.put(workspace, "long", "hay " * 5_000)
        query = {"query": 'needle OR "and hay" OR nee*', **place}
        one, two = search(workspace.rye, query)["results"][:2]

        assert [("project", "one"), ("user", "one")] == [(r["source"], r["id"]) for r in (one, two)]
        assert one["score"] == two["score"] > 0

    @pytest.mark.parametrize("query", ["needle", "nee*", "n*dle", "needel"])
    def test_scores_depend_on_what_there_is_and_not_on_what_is_searched(
        self, workspace: Workspace, query: str
    ) -> None:
        """The scores of two searches are comparable."""
        for number in range(3):
            self.put(workspace, f"n{number}", "needle " * (number + 1), title="t")
            workspace.put("directive", f"d{number}", directive(f"d{number}", body="needle"))
        fuzzy = {"enabled": True}
        narrow = scored(workspace, query, fuzzy=fuzzy)
        wide = scored(workspace, query, fuzzy=fuzzy, item_type="all", source="all")

        assert {"n0", "n1", "n2"} == narrow.keys()
        assert narrow == {item_id: wide[item_id] for item_id in narrow}

    def test_negated_words_do_not_raise_a_score(self, workspace: Workspace) -> None:
        self.put(workspace, "b", "hay")
        self.put(workspace, "a", "hay hay")
        self.put(workspace, "c", "needle")

        assert {"a": 0.0, "b": 0.0} == scored(workspace, "NOT needle")

    def test_fuzzy_search_limits_the_number_of_words(self, workspace: Workspace) -> None:
        query = " ".join(f"word{number}" for number in range(21))

        assert {} == scored(workspace, query)
        with pytest.raises(CodedError, match='words with "fuzzy"') as caught:
            scored(workspace, query, fuzzy={"enabled": True})
        assert {"position": query.index("word20")} == caught.value.facts

    def test_wildcards_take_linear_time(self, workspace: Workspace) -> None:
        self.put(workspace, "a", "a" * 50_000)

        assert {} == scored(workspace, "*a*a*a*a*a*a*a*a*a*a*a*b*c")

    def test_wildcard_matches_words_of_any_length(self, workspace: Workspace) -> None:
        for length in (998, 999, 1000, 40_000):
            self.put(workspace, f"n{length}", f"a{'b' * (length - 2)}c")
        self.put(workspace, "other", f"a{'b' * 40_000}d")

        assert ["n1000", "n40000", "n998", "n999"] == sorted(self.order(workspace, "a*c"))
        assert {} == scored(workspace, "b*c")

    @pytest.mark.parametrize("query", ["w*x", "*x", "body:w*x", "w*x-hay"])
    def test_wildcard_may_match_more_words_than_are_looked_up(
        self, workspace: Workspace, query: str
    ) -> None:
        for item_id in ("a", "b"):
            words = " ".join(f"w{item_id}{number}x hay" for number in range(150))
            self.put(workspace, item_id, words)
            self.put(workspace, f"not-{item_id}", words.replace("x", ""))

            assert {"a", item_id} == scored(workspace, query).keys()

    @pytest.mark.parametrize(
        ("query", "fuzzy"), [("ne*le", False), ("nedle", True)], ids=["wildcard", "mistyped"]
    )
    def test_added_and_removed_words_count_immediately(
        self, workspace: Workspace, query: str, *, fuzzy: bool
    ) -> None:
        told = []
        for body in ("hay", "a needle", "hay", "a needle"):
            self.put(workspace, "a", body)
            told.append([*scored(workspace, query, fuzzy={"enabled": fuzzy})])
        (workspace.root / ".ai/knowledge/a.md").unlink()
        told.append([*scored(workspace, query, fuzzy={"enabled": fuzzy})])

        assert [[], ["a"], [], ["a"], []] == told

    @pytest.mark.parametrize(
        ("word", "typed", "most"),
        [
            ("the", "teh", 1),
            ("the", "hte", 1),
            ("form", "from", 1),
            ("scraper", "scarper", 1),
            ("needle", "needel", 1),
            ("needle", "endele", 2),
            ("abcdefg", "bacdfeg", 2),
            ("abcdefg", "badcefg", 2),
            ("abcdefg", "badcfeg", 3),
        ],
    )
    def test_swapped_letters_are_one_error(
        self, workspace: Workspace, word: str, typed: str, most: int
    ) -> None:
        """At any position, including the border between two indexed pieces of a word."""
        self.put(workspace, "a", word, title="1")

        for distance in (1, 2, 3):
            fuzzy = {"enabled": True, "max_distance": distance}
            expected = {"a"} if distance >= most else set()
            assert expected == scored(workspace, typed, fuzzy=fuzzy).keys()

    def test_every_word_within_a_distance_is_looked_up(self) -> None:
        """One piece has no wrong letter, or two letters are swapped between two pieces."""
        for length in (3, 4, 5, 6, 7):
            word = "abcdefg"[:length]
            most = allowed_distance(word, 3)
            near = re.compile(pattern_near(word, most))
            typed = {
                each for each in mistyped(word, most) if distance_between(word, each, most) <= most
            }

            assert len(typed) >= 3 * length
            assert {each for each in typed if near.fullmatch(each)} == typed
