"""What the index keeps of an item beside its words: what lists show and filters ask for."""

from __future__ import annotations

from ..item import DIRECTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..formats.parsed import Parsed
    from ..item import Item

LONGEST = 500  # characters of a text
MOST = 50  # values of a list, and facts of an item
MOST_PROBLEMS = 3
LARGEST_INTEGER = 1 << 63
SHOWN_ABOVE = {"id", "name", "title", "description", "category", "tags"}  # beside the metadata
PREAMBLE = "preamble"  # of a directive, which the preview shows


def facts_of(item: Item, parsed: Parsed, bare: str) -> dict[str, Any]:
    """What is kept of an item, as JSON.

    `start` is where its body begins in its text, and `opening` what says what it is for.
    """
    start = max(bare.rfind(parsed.body), 0) if parsed.body else 0
    metadata, opening = dict(parsed.metadata), start
    if item.type == DIRECTIVE:
        preamble = metadata.pop(PREAMBLE, "")
        opening = 0 if preamble else max(bare.find(parsed.description), 0)
    return {
        "title": (parsed.title or item.name)[:LONGEST],
        "description": parsed.description[:LONGEST],
        "tags": [tag[:LONGEST] for tag in parsed.tags[:MOST]],
        "metadata": _small(metadata),
        "problems": [problem[:LONGEST] for problem in parsed.problems[:MOST_PROBLEMS]],
        "start": start,
        "opening": opening,
    }


def shown_metadata(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a result, with its tags."""
    metadata = {name: value for name, value in facts["metadata"].items() if value not in ("", [])}
    return {**metadata, "tags": facts["tags"]} if facts["tags"] else metadata


def _small(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that is a single value or a list of such, short."""
    kept: dict[str, Any] = {}
    for name, value in metadata.items():
        short = None if name in SHOWN_ABOVE or len(kept) == MOST else _short(value)
        if short is not None:
            kept[str(name)[:LONGEST]] = short
    return kept


def _short(value: Any) -> Any:
    """A value as it is kept, None where it is not."""
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, (list, tuple)):
        kept = [_short(item) for item in value[:MOST] if not isinstance(item, (list, tuple))]
        return [item for item in kept if item is not None]
    if isinstance(value, (int, float)) and -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return value
    return None
