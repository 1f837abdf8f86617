"""Which items match a query, held against a plain evaluation of the query over the texts."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from math import log
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeAlias
from unicodedata import normalize

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples
from rye_projects import directive, knowledge
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.search.matching import (
    allowed_distance,
    distance_between,
    pattern_near,
)
from ralphgen.kits.rye.server.search.queries import MOST_WILDCARDS
from ralphgen.kits.rye.server.searching import search
from ralphgen.runtime.errors import CodedError

FIELDS = ("name", "title", "description", "category", "tags", "body")
IDS = ("ab", "area/ba", "area/b_a")
Entry: TypeAlias = dict[str, str]
Query: TypeAlias = tuple[Any, ...]


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as workspace:
        yield workspace


def found(workspace: Workspace, query: str, **given: Any) -> dict[str, float]:
    """The ids of the project's knowledge that a search finds, with their scores."""
    place = {"project_path": str(workspace.root), "item_type": "knowledge", "source": "project"}
    answer = search(workspace.rye, {"query": query, "limit": 100, **place, **given})
    return {result["id"]: result["score"] for result in answer["results"]}


def lay(workspace: Workspace, entries: dict[str, Entry]) -> dict[str, Entry]:
    """Put these entries into the project; what they hold, field by field."""
    fields = {}
    for item_id, entry in entries.items():
        told = {name: entry[name] for name in ("title", "description")}
        text = knowledge(item_id, entry["body"], fenced=False, tags=entry["tags"].split(), **told)
        workspace.put("knowledge", item_id, text)
        category, _, stem = item_id.rpartition("/")
        own = {"name": item_id, "title": entry["title"].strip() or stem, "category": category}
        fields[item_id] = {**entry, **own, "body": text}
    return fields


def words_of(text: str) -> list[str]:
    """The plain words of a text: small letters and digits without accents."""
    return re.findall("[a-z0-9]+", re.sub("[\u0300-\u036f]", "", normalize("NFD", text)).lower())


def holds(words: list[str], wanted: list[Callable[[str], object]]) -> bool:
    """Whether words that are as wanted stand behind each other."""
    size = len(wanted)
    places = range(len(words) - size + 1)
    return any(
        all(fits(word) for fits, word in zip(wanted, words[at : at + size], strict=True))
        for at in places
    )


def wanted_words(kind: str, text: str) -> list[Callable[[str], object]]:
    """What each word of a term or a phrase must be."""
    if kind == "wild":
        patterns = [part for part in re.split("[_-]", re.sub(r"\*+", "*", text)) if part]
        while len(patterns) > 1 and patterns[-1] == "*":
            patterns.pop()
        while len(patterns) > 1 and patterns[0] == "*":
            del patterns[0]
        return [partial(fnmatchcase, pat=pattern) for pattern in patterns]
    *whole, last = words_of(text)
    ends = last.__eq__ if kind == "phrase" else re.compile(last).match
    return [*(part.__eq__ for part in whole), ends]


def distance(one: str, other: str) -> int:
    """How many letters are added, removed, replaced or swapped with the next, as it is defined."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return distance(one[1:], other[1:])
    nearer = [(one[1:], other), (one, other[1:]), (one[1:], other[1:])]
    if one[:2] == other[1::-1] and one[1:]:
        nearer.append((one[2:], other[2:]))
    return 1 + min(distance(*pair) for pair in nearer)


def mistyped(word: str, mistakes: int) -> set[str]:
    """Words that come of one by so many mistakes: swapped, replaced, missing and added letters."""
    found = {word}
    for _ in range(mistakes):
        for one in sorted(found):
            for at in range(len(one) - 1):
                first, second, after = one[at], one[at + 1], one[at + 2 :]
                for new in (second + first, "x" + second, second, "x" + first + second):
                    found.add(one[:at] + new + after)
    return found


def matches(query: Query, entry: Entry, field: str = "", *, mistakes: int = 0) -> bool:
    """Whether an entry matches, by what README and the module say of queries."""
    kind, *parts = query
    if kind in ("AND", "OR"):
        join = all if kind == "AND" else any
        return join(matches(part, entry, field, mistakes=mistakes) for part in parts)
    if kind == "NOT":
        return not matches(parts[0], entry, field, mistakes=mistakes)
    if kind == "field":
        return matches(parts[1], entry, parts[0], mistakes=mistakes)
    texts = [words_of(entry[name]) for name in ([field] if field else FIELDS)]
    if any(holds(words, wanted_words(kind, parts[0])) for words in texts):
        return True
    term = words_of(parts[0])
    if kind != "term" or len(term) > 1:
        return False
    most = min(mistakes, {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2}.get(len(term[0]), 3))
    return most > 0 and any(distance(term[0], word) <= most for text in texts for word in text)


def spelled(query: Query) -> str:
    """A query as an agent writes it."""
    kind, *parts = query
    if kind in ("AND", "OR"):
        sign = " OR " if kind == "OR" else " "
        return f"({sign.join(map(spelled, parts))})"
    if kind == "NOT":
        return f"NOT {spelled(parts[0])}"
    if kind == "field":
        return f"{parts[0]}:{spelled(parts[1])}"
    return f'"{parts[0]}"' if kind == "phrase" else str(parts[0])


WORDS = st.text("abAÁ", min_size=1, max_size=4) | st.sampled_from(["abba", "babab", "aabbaab"])
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from(" _-./\n")), max_size=8).map(
    lambda pairs: "".join(word + apart for word, apart in pairs)
)
TERMS = st.lists(WORDS, min_size=1, max_size=3).map("_".join)
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
WILD = st.lists(st.text("ab*", min_size=1, max_size=4), min_size=1, max_size=3).map("-".join)
LEAVES = st.one_of(
    st.tuples(st.just("term"), TERMS),
    st.tuples(st.just("phrase"), PHRASES),
    st.tuples(st.just("wild"), WILD.filter(lambda text: "*" in text)),
)
QUERIES: st.SearchStrategy[Query] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.just("field"), st.sampled_from(FIELDS), LEAVES),
        st.tuples(
            st.just("field"),
            st.sampled_from(FIELDS),
            st.tuples(st.sampled_from(["AND", "OR"]), LEAVES, LEAVES),
        ),
    ),
    max_leaves=6,
)
ENTRIES = st.fixed_dictionaries(
    {"title": TEXTS, "description": TEXTS, "tags": TEXTS, "body": TEXTS}
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ENTRIES, min_size=3, max_size=3), QUERIES, st.integers(0, 3))
def test_a_search_finds_what_a_plain_evaluation_finds(
    workspace: Workspace, entries: list[Entry], query: Query, mistakes: int
) -> None:
    """The same files are written again for each example: what is found is never an older text."""
    assume(spelled(query).count("*") <= MOST_WILDCARDS)
    fields = lay(workspace, dict(zip(IDS, entries, strict=True)))
    fuzzy = {"enabled": mistakes > 0, "max_distance": mistakes or 1}
    expected = {item_id for item_id in IDS if matches(query, fields[item_id], mistakes=mistakes)}

    assert expected == found(workspace, spelled(query), fuzzy=fuzzy).keys()


@settings(max_examples=examples(100), deadline=None)
@given(st.text(st.characters(), max_size=30), st.text(max_size=60))
def test_no_query_and_no_text_breaks_a_search(workspace: Workspace, query: str, text: str) -> None:
    lay(workspace, {"ab": {"title": text, "description": "", "tags": "", "body": text}})
    for fuzzy in (False, True):
        with suppress(CodedError):  # which is an answer, and nothing that breaks
            found(workspace, query, fuzzy={"enabled": fuzzy})


class TestScores:
    """What makes one item better than another."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Iterator[Workspace]:
        with opened(tmp_path) as workspace:
            yield workspace

    def order(self, workspace: Workspace, query: str, **given: Any) -> list[str]:
        return [*found(workspace, query, **given)]

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

    def test_rare_words_count_more_than_common_ones(self, workspace: Workspace) -> None:
        for item_id in ("a", "b", "c"):
            self.put(workspace, item_id, "common words")
        self.put(workspace, "d", "rare words")

        assert "d" == self.order(workspace, "common OR rare")[0]

    def test_the_score_is_that_of_bm25(self, workspace: Workspace) -> None:
        """FTS5 is asked for its part of it, so that another SQLite must have the same formula.

        The items of all spaces count: here those of the system are taken away.
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

        assert expected == found(workspace, '"needle"')

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
        """So that those of two searches can be compared."""
        for number in range(3):
            self.put(workspace, f"n{number}", "needle " * (number + 1), title="t")
            workspace.put("directive", f"d{number}", directive(f"d{number}", body="needle"))
        fuzzy = {"enabled": True}
        narrow = found(workspace, query, fuzzy=fuzzy)
        wide = found(workspace, query, fuzzy=fuzzy, item_type="all", source="all")

        assert {"n0", "n1", "n2"} == narrow.keys()
        assert narrow == {item_id: wide[item_id] for item_id in narrow}

    def test_scores_depend_neither_on_the_order_of_writing_nor_on_earlier_searches(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        texts = {f"n{number}": "needle " * number + "hay " * 20 for number in range(1, 9)}
        for item_id, text in texts.items():
            self.put(workspace, item_id, text)
            found(workspace, "needle", item_type="all", source="all")
        with opened(tmp_path / "again") as other:
            for item_id in reversed(texts):
                self.put(other, item_id, texts[item_id])

            assert found(other, "needle OR h*y") == found(workspace, "needle OR h*y")

    def test_equals_are_in_the_order_of_their_ids(self, workspace: Workspace) -> None:
        for item_id in ("c", "a", "x/b", "b"):
            self.put(workspace, item_id, "needle", title="t", category="", id="x")

        assert ["a", "b", "c"] == [
            name for name in self.order(workspace, "needle") if "/" not in name
        ]

    def test_what_must_not_be_there_alone_makes_no_item_better(self, workspace: Workspace) -> None:
        self.put(workspace, "b", "hay")
        self.put(workspace, "a", "hay hay")
        self.put(workspace, "c", "needle")

        assert {"a": 0.0, "b": 0.0} == found(workspace, "NOT needle")

    def test_many_words_are_too_many_to_be_mistyped(self, workspace: Workspace) -> None:
        query = " ".join(f"word{number}" for number in range(21))

        assert {} == found(workspace, query)
        with pytest.raises(CodedError, match='too many for "fuzzy"') as caught:
            found(workspace, query, fuzzy={"enabled": True})
        assert {"position": query.index("word20")} == caught.value.facts

    def test_wildcards_take_linear_time(self, workspace: Workspace) -> None:
        self.put(workspace, "a", "a" * 50_000)

        assert {} == found(workspace, "*a*a*a*a*a*a*a*a*a*a*a*b*c")

    def test_a_wildcard_in_words_of_any_length(self, workspace: Workspace) -> None:
        for length in (998, 999, 1000, 40_000):
            self.put(workspace, f"n{length}", f"a{'b' * (length - 2)}c")
        self.put(workspace, "other", f"a{'b' * 40_000}d")

        assert ["n1000", "n40000", "n998", "n999"] == sorted(self.order(workspace, "a*c"))
        assert {} == found(workspace, "b*c")

    @pytest.mark.parametrize("query", ["w*x", "*x", "body:w*x", "w*x-hay"])
    def test_a_wildcard_for_more_words_than_are_looked_up(
        self, workspace: Workspace, query: str
    ) -> None:
        for item_id in ("a", "b"):
            words = " ".join(f"w{item_id}{number}x hay" for number in range(150))
            self.put(workspace, item_id, words)
            self.put(workspace, f"not-{item_id}", words.replace("x", ""))

            assert {"a", item_id} == found(workspace, query).keys()

    @pytest.mark.parametrize(
        ("query", "fuzzy"), [("ne*le", False), ("nedle", True)], ids=["wildcard", "mistyped"]
    )
    def test_words_that_come_and_go_are_known_at_once(
        self, workspace: Workspace, query: str, *, fuzzy: bool
    ) -> None:
        told = []
        for body in ("hay", "a needle", "hay", "a needle"):
            self.put(workspace, "a", body)
            told.append([*found(workspace, query, fuzzy={"enabled": fuzzy})])
        (workspace.root / ".ai/knowledge/a.md").unlink()
        told.append([*found(workspace, query, fuzzy={"enabled": fuzzy})])

        assert [[], ["a"], [], ["a"], []] == told

    def test_letters_may_be_wrong_anywhere_in_a_word(self, workspace: Workspace) -> None:
        near = "eedle nedle needl edle need nele xneedle xxneedle neexdle needlex needlexx nxxdle"
        for number, word in enumerate(near.split()):
            self.put(workspace, f"n{number}", word)
        for number, word in enumerate(("eexl", "xxxneedle", "nee", "nxedxx")):
            self.put(workspace, f"far{number}", word)

        expected = {f"n{number}" for number in range(len(near.split()))}
        assert expected == found(workspace, "needle", fuzzy={"enabled": True}).keys()

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
    def test_two_letters_that_are_swapped_are_one_error(
        self, workspace: Workspace, word: str, typed: str, most: int
    ) -> None:
        """Wherever they stand: also where the pieces of a word meet that are looked up."""
        self.put(workspace, "a", word, title="1")

        for distance in (1, 2, 3):
            fuzzy = {"enabled": True, "max_distance": distance}
            expected = {"a"} if distance >= most else set()
            assert expected == found(workspace, typed, fuzzy=fuzzy).keys()

    def test_every_word_within_a_distance_is_looked_up(self) -> None:
        """No letter is wrong in a piece, or two are swapped where two pieces meet."""
        for length in (3, 4, 5, 6, 7):
            word = "abcdefg"[:length]
            most = allowed_distance(word, 3)
            near = re.compile(pattern_near(word, most))
            typed = {
                each for each in mistyped(word, most) if distance_between(word, each, most) <= most
            }

            assert len(typed) >= 3 * length
            assert {each for each in typed if near.fullmatch(each)} == typed
