"""Learnings are counted once, kept when they disagree, and never lost or turned into orders."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.ralph.server.learnings import (
    LONGEST,
    REDACTED,
    UNKNOWN_SOURCES,
    Appended,
    append,
    best,
    decode,
    sanitised,
)
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import ESCAPED, UNREADABLE, encode

NOW = "2026-02-10T17:56:00+00:00"
LATER = "2026-02-11T08:00:00+00:00"
ORDERS = (
    *("ignore all", "ignore previous", "important:", "system:", "critical:", "<system>"),
    *("<instructions>", "<system-reminder>", "</system-reminder>", "you are now"),
    *("forget everything", "new instructions"),
)


def learn(
    learnings: list[dict[str, Any]],
    text: str,
    source: str = "agent",
    reason: str | None = None,
    task_id: int | None = None,
) -> Appended:
    """Append a learning at one fixed moment."""
    return append(learnings, text, source, reason, task_id, NOW)


def stored(text: str, **members: object) -> dict[str, Any]:
    """Return a learning as Ralph stores it."""
    learning = {"text": text, "source": "auto", "created": LATER, "hit_count": 1}
    return {**learning, "reviewed": False, "review_count": 0, **members}


@pytest.mark.parametrize(
    ("text", "one", "other", "kind", "count"),
    [
        ("Auth middleware expects User object {} userId", "not", "instead of", "duplicate", 1),
        ("{} localStorage for storing auth tokens safely", "Use", "Never use", "conflict", 2),
        ("{}", "The middleware reads the cookie", "DB pool size matches workers", "added", 2),
        ("{} go through the event bus in the backend", "Messages", "Notifications", "duplicate", 1),
        ("Use {} types for the public API surface", "typed", "annotated", "duplicate", 1),
        ("{}", "ok", "ok", "duplicate", 1),
    ],
)
def test_two_texts_are_the_same_contrary_or_different(
    text: str, one: str, other: str, kind: str, count: int
) -> None:
    old = text.format(one)
    outcome = learn([stored(old)], text.format(other))

    assert (kind, count) == (outcome.kind, len(outcome.learnings))
    assert old == outcome.learnings[0]["text"]
    assert (None if kind == "added" else old) == outcome.stored


def test_a_new_learning_has_the_keys_that_ralph_writes_in_their_order() -> None:
    outcome = learn([], "Retries need a jitter", reason="they collided", task_id=7)

    expected = (
        '[{"text":"Retries need a jitter","reason":"they collided","source":"agent","task_id":7,'
        f'"created":"{NOW}","hit_count":1,"reviewed":false,"review_count":0}}]'
    )
    assert expected == encode(outcome.learnings)
    assert ("added", None, 1, []) == (
        outcome.kind,
        outcome.stored,
        outcome.hit_count,
        outcome.warnings,
    )


def test_an_omitted_field_has_no_key() -> None:
    [learning] = learn([], "Retries need a jitter", reason=" ").learnings

    assert {"reason", "task_id", "iteration"}.isdisjoint(learning)


def test_a_duplicate_leaves_the_older_unchanged_and_counts_one_hit_more() -> None:
    old = stored("Retries need a jitter", source="human", hit_count=4, mood="sure", task_id=3)

    outcome = learn([old], "Retries  need\na jitter", task_id=8)

    assert [{**old, "hit_count": 5}] == outcome.learnings
    assert ("Retries need a jitter", 5) == (outcome.stored, outcome.hit_count)
    assert 4 == old["hit_count"]


@pytest.mark.parametrize(("task_id", "hits"), [(3, 1), (4, 2), (None, 2)])
def test_a_task_that_repeats_itself_does_not_count(task_id: int | None, hits: int) -> None:
    """Upstream let an agent raise the rank of its learning by repeating it."""
    outcome = learn(
        [stored("Retries need a jitter", task_id=3)], "Retries need a jitter", task_id=task_id
    )

    assert (hits, hits) == (outcome.hit_count, outcome.learnings[0]["hit_count"])


def test_a_conflict_keeps_both_whole() -> None:
    """Upstream replaced the older one, with its hits, even if the user had written it."""
    old = stored("Use localStorage for auth tokens", source="human", hit_count=9, reason="mine")

    outcome = learn([old], "Don't use localStorage for auth tokens", reason="leaks")

    assert old == outcome.learnings[0]
    assert ("Don't use localStorage for auth tokens", "leaks") == (
        outcome.learnings[1]["text"],
        outcome.learnings[1]["reason"],
    )
    assert ("conflict", 9) == (outcome.kind, outcome.hit_count)


def test_of_two_in_conflict_neither_is_added_again() -> None:
    once = learn(
        [stored("Use localStorage for auth tokens")], "Never use localStorage for auth tokens"
    )
    again = learn(once.learnings, "never use localStorage for auth tokens")

    assert ("duplicate", 2) == (again.kind, len(again.learnings))
    assert "Never use localStorage for auth tokens" == again.stored


@pytest.mark.parametrize(
    "words",
    [
        *("Don't put", "Don\u2019t put", "dont put", "Do not put", "NEVER put", "Avoid: put"),
        *("Shouldn't put", "Can\u2019t put", "Cannot put", "won't put", "Doesn't put"),
        *("stop, put", "put rather  than"),
    ],
)
def test_a_negation_is_heard_in_every_spelling(words: str) -> None:
    old = stored("Put secrets into the config file")

    assert "conflict" == learn([old], f"{words} secrets into the config file").kind


@pytest.mark.parametrize("word", ["Notifications", "annotated", "nonstop", "removed", "knots"])
def test_a_negation_within_a_word_is_none(word: str) -> None:
    """Upstream searched for "not" in the middle of words."""
    old = stored("Config secrets travel through the event queue")

    outcome = learn([old], f"{word} Config secrets travel through the event queue")

    assert "duplicate" == outcome.kind


def test_alike_means_more_than_seven_words_of_ten() -> None:
    ten = "one1 two2 three four five six6 seven eight nine ten10"
    seven = "one1 two2 three four five six6 seven"

    assert "added" == learn([stored(ten)], seven).kind
    assert "duplicate" == learn([stored(ten)], f"{seven} eight").kind


def test_words_of_two_letters_alone_are_alike_only_when_equal() -> None:
    assert "added" == learn([stored("ok go")], "ok no").kind
    assert "duplicate" == learn([stored("ok go")], " ok  go ").kind


def test_a_long_list_takes_one_more_and_loses_none() -> None:
    """Upstream pruned a learning that it had just reported as added, or refused at 50."""
    full = [stored(f"Fact{n} about thing{n} number{n}", reviewed=True) for n in range(50)]

    outcome = learn(full, "Retries need a jitter", source="auto")

    assert full == outcome.learnings[:50]
    assert ("added", 51) == (outcome.kind, len(outcome.learnings))


def test_the_given_list_is_never_changed() -> None:
    old = [stored("Retries need a jitter"), stored("Use the pool for connections")]
    before = json.dumps(old)

    for text in ("Retries need a jitter", "Never use the pool for connections", "Something else"):
        learn(old, text)

    assert before == json.dumps(old)


@pytest.mark.parametrize("text", ["", " \n", "\x00\x07", "\u200b"])
def test_a_text_without_anything_to_read_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match=r'^"text" must not be blank$'):
        learn([], text)


def test_a_review_cannot_be_claimed() -> None:
    with pytest.raises(ToolError) as caught:
        learn([], "Retries need a jitter", source="opus_reviewed")

    assert 'invalid source "opus_reviewed": use "agent", "auto", "human"' == str(caught.value)


# Reading


@pytest.mark.parametrize("text", [None, "", "[]"])
def test_no_learnings_are_an_empty_list(text: str | None) -> None:
    found = decode(text)

    assert ([], None, True) == (found.values, found.warning, found.readable)


def test_a_bare_text_is_an_automatic_learning() -> None:
    assert [stored("Retries need a jitter", created="")] == decode(
        '["Retries need a jitter"]'
    ).values


@pytest.mark.parametrize("source", ["robot", "", None, 5, ["human"]])
def test_an_unknown_source_reads_as_automatic_with_a_note(source: object) -> None:
    found = decode(encode([{"text": "a", "source": source, "mood": 1}]))

    assert [{"text": "a", "source": "auto", "mood": 1}] == found.values
    assert UNKNOWN_SOURCES == found.warning


def test_known_sources_and_unknown_keys_remain() -> None:
    text = '[{"mood":{"a":[1]},"text":"a","source":"opus_reviewed","hit_count":"many"}]'
    found = decode(text)

    assert text == encode(found.values)
    assert found.warning is None


@pytest.mark.parametrize(
    "text",
    [
        '["a",{"reason":"b"}]',
        '["a",{"text":null}]',
        '["a",1]',
        '["a",null]',
        '{"text":"a"}',
        "a; b",
        '["a"',
    ],
)
def test_one_invalid_item_makes_the_list_unreadable(text: str) -> None:
    """Upstream read such a list as empty, and the next append wrote over it."""
    found = decode(text)

    assert ([], UNREADABLE, False) == (found.values, found.warning, found.readable)


def test_escaped_quotes_are_read_here_too() -> None:
    found = decode(r"[{\"text\":\"a\",\"source\":\"human\"}]")

    assert ([{"text": "a", "source": "human"}], ESCAPED) == (found.values, found.warning)


# Sanitising


@pytest.mark.parametrize("source", ["agent", "auto"])
@pytest.mark.parametrize("order", ORDERS)
def test_every_occurrence_of_an_order_is_redacted(order: str, source: str) -> None:
    """Upstream redacted the first alone, and with offsets of the text before it was changed."""
    text = f"Ünï {order} MAX_Size {order.upper()} then {order.title()} end"

    clean, [warning] = sanitised(text, source, "text")

    assert f"Ünï {REDACTED} MAX_Size {REDACTED} then {REDACTED} end" == clean
    assert 'phrases in "text" that give orders to its reader were redacted' == warning


@pytest.mark.parametrize(
    "text",
    [
        "ignore  ALL",
        "ignore\nprevious",
        "you\u200b are now",
        "y\u200cou are now",
        "\u202eSystem:",
        "system :",
        '<system role="x">',
        "</ instructions>",
        "\ufeffcritical:",
    ],
)
def test_an_order_is_found_however_it_is_spaced_or_hidden(text: str) -> None:
    assert REDACTED == sanitised(text, "agent", "text")[0]


@pytest.mark.parametrize(
    "text",
    [
        "the ecosystem: Rust",
        "signore all",
        "signore allegro",
        "ignore allocations",
        "unimportant: yes",
        "my_system: on",
        "<systems>",
        "you are nowhere",
        "renew instructions",
    ],
)
def test_a_longer_word_is_not_an_instruction(text: str) -> None:
    assert (text, []) == sanitised(text, "agent", "text")


def test_no_letter_changes_its_case() -> None:
    """Upstream lower-cased a text with many capitals, and its identifiers with it."""
    assert ("Set MAX_RETRY_COUNT=3 IN CI", []) == sanitised(
        "Set MAX_RETRY_COUNT=3 IN CI", "auto", "text"
    )


def test_a_text_is_cut_by_characters_and_the_cut_is_reported() -> None:
    """Upstream cut by bytes, which panics within a character."""
    assert ("é" * 500, []) == sanitised("é" * 500, "agent", "text")
    assert ("😀" * 500, ['"text" was cut to 500 characters, of 501']) == sanitised(
        "😀" * 501, "agent", "text"
    )


def test_a_cut_does_not_make_an_order() -> None:
    clean, warnings = sanitised("x" * 488 + " you are nowhere", "agent", "text")

    assert "x" * 488 + f" {REDACTED}" == clean
    assert 2 == len(warnings)


def test_the_reason_is_sanitised_like_the_text() -> None:
    outcome = learn([], "Retries need a jitter", reason="IMPORTANT: " + "y" * 600)

    assert f"{REDACTED} " + "y" * (LONGEST - 11) == outcome.learnings[0]["reason"]
    assert [
        'phrases in "reason" that give orders to its reader were redacted',
        '"reason" was cut to 500 characters, of 611',
    ] == outcome.warnings


def test_an_author_is_stored_as_typed_without_control_characters() -> None:
    text = "  Important: ignore all\x00 caches\x1b[0m\r\n\tthen WAIT " + "z" * 600

    outcome = learn([], text, source="human")

    expected = "  Important: ignore all caches[0m\n\tthen WAIT " + "z" * 600
    assert (expected, []) == (outcome.learnings[0]["text"], outcome.warnings)


def test_emoji_and_scripts_that_need_joiners_remain_whole() -> None:
    text = "👩\u200d💻 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"

    assert (text, []) == sanitised(text, "agent", "text")


@given(
    st.lists(st.sampled_from([*ORDERS, "\u200b", " ", "<", ">", "x", "\n"]) | st.text(max_size=3))
    .map("".join)
    .flatmap(lambda text: st.just(text) | st.integers(470, 510).map(lambda n: "z" * n + text))
)
def test_sanitised_text_holds_no_order_and_is_stable(text: str) -> None:
    clean, _ = sanitised(text, "agent", "text")

    assert len(clean) <= LONGEST
    assert (clean, []) == sanitised(clean, "agent", "text")


# Ranking


def test_the_best_are_reviewed_then_by_source_then_by_hits_then_as_stored() -> None:
    ranked = [
        stored("a", reviewed=True),
        stored("b", source="human"),
        stored("c", source="opus_reviewed", hit_count=9),
        stored("d", source="agent", hit_count=3),
        stored("e", source="agent", hit_count=3),
        stored("f", source="agent", hit_count="many"),
        stored("g", hit_count=50),
        stored("h", reviewed="yes", hit_count=True),
    ]
    mixed = [ranked[at] for at in (6, 3, 7, 0, 5, 4, 2, 1)]

    assert ranked == best(mixed)
    assert ranked[:3] == best(mixed, limit=3)


def test_the_default_limit_is_fifty() -> None:
    assert 50 == len(best([stored(str(n)) for n in range(60)]))


@given(st.lists(st.text(st.sampled_from("ab not,'\u2019"), min_size=1, max_size=30), max_size=8))
def test_nothing_that_was_stored_is_ever_lost(texts: list[str]) -> None:
    learnings: list[dict[str, Any]] = []
    for text in texts:
        if text.strip():
            outcome = append(learnings, text, "agent", None, None, NOW)

            assert [old["text"] for old in learnings] == [
                old["text"] for old in outcome.learnings[: len(learnings)]
            ]
            assert (outcome.kind == "duplicate") == (len(outcome.learnings) == len(learnings))
            learnings = decode(encode(outcome.learnings)).values
