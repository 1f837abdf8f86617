"""Sections of a brief: no text closes its fence, and cuts are ordered and reported."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.kits.ralph.server.brief import (
    BETWEEN,
    SHORTEST_TEXT,
    Section,
    clean,
    fenced,
    fit,
    item,
    sizes,
)

FENCES = st.sampled_from(
    ["```", "````", "`", "\n", "\n```\n", "   ```", "~~~", "\r", "\u2028", "x"]
)
TEXTS = st.lists(FENCES | st.text(max_size=8), max_size=12).map("".join)
ALPHABET = st.characters(codec="utf-8", exclude_characters="`")


def blocks(text: str) -> list[str]:
    """Return the text in the fences, as CommonMark 0.31 reads it (section 4.5)."""
    found: list[str] = []
    fence = ""
    for line in re.split(r"\r\n|\n|\r", text):
        opening = re.match(r" {0,3}(`{3,})[^`]*$", line)
        closing = re.match(r" {0,3}(`{3,})[ \t]*$", line)
        if not fence and opening:
            fence = opening[1]
            found.append("")
        elif fence and closing and len(closing[1]) >= len(fence):
            fence = ""
        elif fence:
            found[-1] += f"{line}\n"
    assert not fence
    return found


@settings(max_examples=examples(500))
@given(TEXTS)
def test_no_text_closes_its_own_fence(text: str) -> None:
    quoted = clean(text)

    assert [f"{quoted}\n"] == blocks(f"before\n\n{fenced(quoted)}\n\nafter")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("\n \n  a\n\n", "  a"),
        ("a\x1b[31mb\x00\x07", "a[31mb"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("\ud800", "\ufffd"),
        (b"\xff", "\ufffd"),
        (7, "7"),
        (" \t ", ""),
    ],
)
def test_stored_values_become_text_without_controls(value: object, expected: str) -> None:
    assert expected == clean(value)


@given(TEXTS)
def test_an_item_begins_one_item_alone(text: str) -> None:
    first, *more = item(text).split("\n")

    assert first.startswith("- ")
    assert all(line.startswith("  ") for line in more)


def cuttable(draw: st.DrawFn, rank: int | None, at: int) -> Section:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=6))
    texts = [f"{text}{at}{'word ' * draw(st.integers(0, 60))}" for text in texts]
    newest = draw(st.booleans())
    return Section(f"S{at}", texts, rank=rank, resource=f"ralph://x/{at}", newest=newest)


@st.composite
def briefs(draw: st.DrawFn) -> list[Section]:
    ranks = draw(st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=7))
    return [cuttable(draw, rank, at) for at, rank in enumerate(ranks)]


@pytest.mark.thorough
@settings(max_examples=examples(300))
@given(briefs(), st.floats(0, 1.1))
def test_sections_are_cut_in_order_and_only_as_far_as_needed(
    sections: list[Section], share: float
) -> None:
    before = [section.text() for section in sections]
    most = int(len(BETWEEN.join(before)) * share)
    fit(sections, most)
    after = [section.text() for section in sections]
    total = len(BETWEEN.join(after))
    ranked = sorted(
        (section.rank, at) for at, section in enumerate(sections) if section.rank is not None
    )
    cut = [at for at, section in enumerate(sections) if section.is_cut]

    assert total <= most or all(is_least(sections[at]) for _, at in ranked)
    assert [] == [at for at in cut if sections[at].rank is None]
    if len(BETWEEN.join(before)) <= most:
        assert [] == cut
    # A section is cut only if the preceding ones show as little as possible.
    last = max((place for place, (_, at) in enumerate(ranked) if at in cut), default=-1)
    assert all(is_least(sections[at]) for _, at in ranked[: max(last, 0)])
    for at, (old, new) in enumerate(zip(before, after, strict=True)):
        assert len(new) <= len(old)
        assert (at in cut) == (f"ralph://x/{at}" in new)
        assert (at in cut) == (new != old)


def is_least(section: Section) -> bool:
    """Return whether a section is hidden, or hiding it would take more room."""
    if section.is_cut and not section.kept:
        return True
    bare = Section(section.title, section.items, rank=0, resource=section.resource)
    bare.kept = ()
    return len(bare.text()) >= len(section.text())


@given(st.text(alphabet=ALPHABET, min_size=200, max_size=400), st.integers(130, 180))
def test_a_text_is_shown_as_far_as_there_is_room(text: str, most: int) -> None:
    section = Section("Long", [text], rank=0, resource="ralph://tasks/1")
    section.shorten(most)

    assert most == len(section.text())
    assert section.kept[0].endswith("…")
    assert text.startswith(section.kept[0][:-1])
    assert len(section.kept[0]) > SHORTEST_TEXT


def test_the_newest_comments_and_the_best_learnings_remain_longest() -> None:
    texts = [f"- {'x' * 100}{number}" for number in range(9)]
    for newest, kept in ((True, texts[-2:]), (False, texts[:2])):
        section = Section("C", texts, rank=0, resource="ralph://tasks/1", newest=newest)
        section.shorten(320)

        assert kept == list(section.kept)
        assert "(2 of 9 are shown; the whole is in ralph://tasks/1)" in section.text()


def test_sizes_give_the_end_of_each_section() -> None:
    whole, cut = Section("A", ["a"]), Section("B", ["b" * 300], rank=0, resource="ralph://tasks/1")
    fit([whole, cut], 200)

    assert [
        {"part": "task", "title": "A", "characters": len(whole.text())},
        {"part": "task", "title": "B", "characters": len(cut.text()), "cut": "ralph://tasks/1"},
    ] == sizes("task", [whole, cut])


def test_the_users_words_are_not_quoted_and_never_cut() -> None:
    section = Section("", ["```\n{{ x }} {tools}"], quoted=False)
    fit([section], 3)

    assert "```\n{{ x }} {tools}" == section.text()
