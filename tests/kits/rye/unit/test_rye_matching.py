"""Matching of queries, compared with a plain evaluation over the texts."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples
from rye_projects import knowledge
from rye_searching import distance, scored, words_of
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.queries import MOST_WILDCARDS
from ralphgen.runtime.errors import CodedError

FIELDS = ("name", "title", "description", "category", "tags", "body")
IDS = ("ab", "area/ba", "area/b_a")
Entry: TypeAlias = dict[str, str]
Query: TypeAlias = tuple[Any, ...]


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as workspace:
        yield workspace


def lay(workspace: Workspace, entries: dict[str, Entry]) -> dict[str, Entry]:
    """Write the entries to the project and return their searchable fields."""
    fields = {}
    for item_id, entry in entries.items():
        told = {name: entry[name] for name in ("title", "description")}
        text = knowledge(item_id, entry["body"], fenced=False, tags=entry["tags"].split(), **told)
        workspace.put("knowledge", item_id, text)
        category, _, stem = item_id.rpartition("/")
        own = {"name": item_id, "title": entry["title"].strip() or stem, "category": category}
        fields[item_id] = {**entry, **own, "body": text}
    return fields


def holds(words: list[str], wanted: list[Callable[[str], object]]) -> bool:
    """Return whether consecutive words satisfy the predicates in order."""
    size = len(wanted)
    places = range(len(words) - size + 1)
    return any(
        all(fits(word) for fits, word in zip(wanted, words[at : at + size], strict=True))
        for at in places
    )


def wanted_words(kind: str, text: str) -> list[Callable[[str], object]]:
    """Return a predicate for each word of a term or phrase."""
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


def matches(query: Query, entry: Entry, field: str = "", *, mistakes: int = 0) -> bool:
    """Return whether an entry matches, per README and the module's description of queries."""
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
    """Return the text of a query."""
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


@pytest.mark.thorough
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ENTRIES, min_size=3, max_size=3), QUERIES, st.integers(0, 3))
def test_a_search_finds_what_a_plain_evaluation_finds(
    workspace: Workspace, entries: list[Entry], query: Query, mistakes: int
) -> None:
    """Each example rewrites the same files, so a stale index would return an older text."""
    assume(spelled(query).count("*") <= MOST_WILDCARDS)
    fields = lay(workspace, dict(zip(IDS, entries, strict=True)))
    fuzzy = {"enabled": mistakes > 0, "max_distance": mistakes or 1}
    expected = {item_id for item_id in IDS if matches(query, fields[item_id], mistakes=mistakes)}

    assert expected == scored(workspace, spelled(query), fuzzy=fuzzy).keys()


@settings(max_examples=examples(100), deadline=None)
@given(st.text(st.characters(), max_size=30), st.text(max_size=60))
def test_no_query_and_no_text_breaks_a_search(workspace: Workspace, query: str, text: str) -> None:
    lay(workspace, {"ab": {"title": text, "description": "", "tags": "", "body": text}})
    for fuzzy in (False, True):
        with suppress(CodedError):  # a valid answer, not a failure
            scored(workspace, query, fuzzy={"enabled": fuzzy})
