"""What a feature has learned, and what becomes of a learning that is new."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.tasks import Decoded, decode_list, joined, unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Learning = dict[str, Any]

ADDED = "added"
DUPLICATE = "duplicate"
CONFLICT = "conflict"

RANKS = {"human": 4, "opus_reviewed": 3, "agent": 2, "auto": 1}
HUMAN = "human"
UNKNOWN_SOURCE = "auto"
SOURCES = ("agent", "auto", HUMAN)  # of new learnings: a review is not claimed, it is done
UNKNOWN_SOURCES = "unknown sources read as auto"

LONGEST = 500  # characters
ALIKE = 0.7  # of the words: above it, two texts speak of the same thing
SHORTEST = 3  # bytes of a word that says anything
REDACTED = "[redacted]"

# Patterns are compiled at their first use: a server starts without them.
# Phrases by which stored text would give orders to the agent that reads it.
_ORDERS = (
    r"(?i)\bignore\s+(?:all|previous)\b|\b(?:important|system|critical)\s*:"
    r"|</?\s*(?:system-reminder|system|instructions)\b[^<>]*>"
    r"|\byou\s+are\s+now\b|\bforget\s+everything\b|\bnew\s+instructions\b"
)
# What shows nothing, changes the direction of text, or splits a Latin word unseen.
_INVISIBLE = (
    "[\u00ad\u200b\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
    "|(?<=[A-Za-z])[\u200c\u200d]+(?=[A-Za-z])"
)
_NEGATION = (
    r"(?i)\b(?:\w+n['\u2019\u02bc]t|dont|do\s+not|never|not|avoid|instead\s+of|rather\s+than|cannot"
    r"|stop|remove|delete)\b"
)


class Appended:
    """What became of a new learning.

    `kind` is "added", "duplicate" or "conflict", `learnings` the list to store, `text` the new
    text as it would be stored. Of the older learning that a duplicate repeats or a conflict
    contradicts, `stored` is the text and `hit_count` the count as it is now; else `None` and 1.
    """

    __slots__ = ("hit_count", "kind", "learnings", "stored", "text", "warnings")

    def __init__(
        self,
        kind: str,
        learnings: list[Learning],
        *,
        text: str,
        warnings: list[str],
        older: Learning | None = None,
    ) -> None:
        self.kind = kind
        self.learnings = learnings
        self.text = text
        self.warnings = warnings
        self.stored: str | None = older["text"] if older else None
        self.hit_count = _hits(older) if older else 1


def decode(stored: object) -> Decoded:
    """Return the learnings that a column holds, each an object with "text" and a known "source".

    A bare text is an automatic learning, and an unknown source reads as "auto". Anything else
    makes the whole list unreadable: it must not be written over.
    """
    found = decode_list(stored)
    learnings = [_learning(item) for item in found.values]
    if not found.readable or None in learnings:
        return unreadable()
    strange = any(
        isinstance(item, dict) and "source" in item and item["source"] != _source(item)
        for item in found.values
    )
    return Decoded(learnings, joined(found.warning, UNKNOWN_SOURCES if strange else None))


def append(
    learnings: Sequence[Learning],
    text: str,
    source: str,
    reason: str | None,
    task_id: int | None,
    now: str,
) -> Appended:
    """Return how a new learning relates to the stored `learnings`; change none of them.

    Texts are alike if they are equal up to white space, or share more than 70 % of their longer
    words. Alike and both with a negation or both without: a duplicate, which is one more hit of
    the older, unless its own task repeats itself. Alike but only one with a negation: a conflict,
    and both are kept. `now` is the moment as learnings store it. Text that is not a person's is
    sanitised. Raises `ToolError` for a blank text and for a source that is not of `SOURCES`.
    """
    if source not in SOURCES:
        known = ", ".join(f'"{name}"' for name in SOURCES)
        raise ToolError(f'invalid source "{source}": use {known}')
    clean, warnings = sanitised(text, source, "text")
    if not clean.strip():
        raise ToolError('"text" must not be blank')
    why, more = sanitised(reason or "", source, "reason")
    warnings += more
    kind, at = _met(learnings, clean)
    if kind == DUPLICATE:
        older = _hit(learnings[at], task_id)
        kept = [*learnings[:at], older, *learnings[at + 1 :]]
        return Appended(kind, kept, text=clean, warnings=warnings, older=older)
    contradicted = learnings[at] if kind == CONFLICT else None
    kept = [*learnings, _new(clean, source, why, task_id, now)]
    return Appended(kind, kept, text=clean, warnings=warnings, older=contradicted)


def best(learnings: Sequence[Learning], limit: int = 50) -> list[Learning]:
    """Return the learnings most to be trusted: reviewed first, then by source, then by hits."""
    return sorted(learnings, key=_trust, reverse=True)[:limit]


def sanitised(text: str, source: str, field: str) -> tuple[str, list[str]]:
    """Return text that is safe to show to an agent, with warnings on what was changed.

    A person's text only loses control characters. All other text also loses invisible characters
    and phrases that give orders, and what exceeds 500 characters; no letter changes its case.
    """
    plain = without_controls(text)
    if source == HUMAN:
        return plain, []
    visible = re.sub(_INVISIBLE, "", plain)
    whole = re.sub(_ORDERS, REDACTED, visible).strip()
    # A cut within a word can leave a phrase that was none: "you are nowhere".
    cut = whole[:LONGEST]
    warnings = []
    if re.search(_ORDERS, visible) or re.search(_ORDERS, cut):
        warnings.append(f'phrases in "{field}" that give orders to its reader were redacted')
    if len(whole) > LONGEST:
        warnings.append(f'"{field}" was cut to {LONGEST} characters, of {len(whole)}')
    return re.sub(_ORDERS, REDACTED, cut).strip(), warnings


def _learning(item: object) -> Learning | None:
    """Return a stored item as a learning, `None` where it is none."""
    if isinstance(item, str):
        return _new(item, UNKNOWN_SOURCE, "", None, "")
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        return None
    return item if _source(item) == item.get("source") else {**item, "source": UNKNOWN_SOURCE}


def _new(text: str, source: str, reason: str, task_id: int | None, now: str) -> Learning:
    """Return a learning with the keys and in the order that Ralph itself writes."""
    learning: Learning = {"text": text}
    if reason.strip():
        learning["reason"] = reason
    learning["source"] = source
    if task_id is not None:
        learning["task_id"] = task_id
    return {**learning, "created": now, "hit_count": 1, "reviewed": False, "review_count": 0}


def _met(learnings: Sequence[Learning], text: str) -> tuple[str, int]:
    """Return whether a text is new, a duplicate or a conflict, and the index of the one it met.

    A duplicate anywhere comes before a conflict: else, of two learnings in conflict, the second
    would be added again each time it is said.
    """
    for at, learning in enumerate(learnings):
        if learning["text"].split() == text.split():
            return DUPLICATE, at
    words = _words(text)
    alike = [
        at for at, old in enumerate(learnings) if _likeness(_words(old["text"]), words) > ALIKE
    ]
    for at in alike:
        if _negated(learnings[at]["text"]) == _negated(text):
            return DUPLICATE, at
    return (CONFLICT, alike[0]) if alike else (ADDED, len(learnings))


def _words(text: str) -> set[str]:
    """Return the words of three bytes or more, in lower case, without the marks around them."""
    words = (_bare(word).lower() for word in text.split())
    return {word for word in words if len(word.encode("utf-8", "surrogatepass")) >= SHORTEST}


def _bare(word: str) -> str:
    """Return the word from its first letter or digit to its last."""
    places = [at for at, character in enumerate(word) if character.isalnum()]
    return word[places[0] : places[-1] + 1] if places else ""


def _likeness(these: set[str], those: set[str]) -> float:
    """Return the shared part of all words (Jaccard); nothing is like a text without words."""
    return len(these & those) / len(these | those) if these and those else 0


def _negated(text: str) -> bool:
    return re.search(_NEGATION, text) is not None


def _hit(learning: Learning, task_id: int | None) -> Learning:
    """Return the learning with one hit more, unless the task that wrote it says it again."""
    own = task_id is not None and learning.get("task_id") == task_id
    return {**learning, "hit_count": _hits(learning) + (not own)}


def _hits(learning: Learning) -> int:
    count = learning.get("hit_count")
    return count if isinstance(count, int) and count > 0 else 1


def _source(learning: Learning) -> str:
    """Return the source, as far as it is known."""
    source = learning.get("source")
    return source if isinstance(source, str) and source in RANKS else UNKNOWN_SOURCE


def _trust(learning: Learning) -> tuple[bool, int, int]:
    return learning.get("reviewed") is True, RANKS[_source(learning)], _hits(learning)
