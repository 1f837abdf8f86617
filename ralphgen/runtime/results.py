"""Answers of a size that an agent can read: pages, and records whose long parts are cut."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PAGE = 50  # rows of a page, where the caller does not say
MAX_CHARACTERS = 40_000  # of an answer
LONG_TEXT = 8_000  # characters of a field that are shown of a single record
LONG_TEXT_IN_LIST = 500
STEPS = ((LONG_TEXT, 1_000), (4_000, 500), (2_000, 200), (1_000, 100), (400, 50), (100, 20))


def size(value: object) -> int:
    """The characters of a value as compact JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def page(
    name: str, rows: Sequence[dict[str, Any]], cursors: Sequence[object], *, limit: int, total: int
) -> dict[str, Any]:
    """The first rows of a list, at most `limit` of them and within the size of an answer.

    `rows` may hold one row more than `limit`, the sign that there are others; `cursors` says,
    row by row, after what the next page begins.
    """
    kept: list[dict[str, Any]] = []
    room = MAX_CHARACTERS - 200
    for row in rows[:limit]:
        record = shortened(row, LONG_TEXT_IN_LIST, PAGE)
        room -= size(record) + 1
        if room < 0 and kept:
            break
        kept.append(record)
    answer: dict[str, Any] = {name: kept, "total": total}
    if len(kept) < len(rows):
        answer["next_cursor"] = str(cursors[len(kept) - 1])
    return answer


def fitted(record: dict[str, Any]) -> dict[str, Any]:
    """The record, its longest parts cut until it fits an answer; `cut` names what is not whole."""
    for characters, items in STEPS:
        candidate = shortened(record, characters, items)
        if size(candidate) <= MAX_CHARACTERS:
            break
    return candidate


def shortened(record: dict[str, Any], characters: int, items: int) -> dict[str, Any]:
    """A copy without texts over `characters` or lists over `items`, its cut fields in `cut`."""
    cut: list[str] = []
    short = {
        name: _short(value, characters, items, name, cut, depth=0) for name, value in record.items()
    }
    return {**short, "cut": sorted(set(cut))} if cut else short


def _short(
    value: Any, characters: int, items: int, name: str, cut: list[str], *, depth: int
) -> Any:
    if isinstance(value, str) and len(value) > characters:
        cut.append(name)
        return value[:characters] + "…"
    if isinstance(value, list):
        if len(value) > items:
            cut.append(name)
        return [
            _short(item, characters, items, name, cut, depth=depth + 1) for item in value[:items]
        ]
    if isinstance(value, dict) and depth < len(STEPS):
        return {
            key: _short(item, characters, items, f"{name}.{key}", cut, depth=depth + 1)
            for key, item in value.items()
        }
    return value
