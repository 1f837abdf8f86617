"""Answers of at most 8 KiB: output is cut where it is least wanted, and the answer says so."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_BYTES = 8192  # of the JSON text of an answer that carries output
MARK = "... [truncated]"


def size(value: object) -> int:
    """Return the bytes of a value as the JSON of an answer."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def with_text(answer: dict[str, Any], name: str, text: str) -> tuple[dict[str, Any], bool]:
    """Return the answer with the end of a text, as much of it as fits, and whether that is all."""
    room = MAX_BYTES - size({**answer, name: ""})
    kept = _end(text, room)
    return {**answer, name: kept}, kept == text


def newest(lines: Sequence[str], room: int) -> list[str]:
    """Return the last lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    kept = _fitting(list(reversed(lines)), room)
    return list(reversed(kept))


def oldest(lines: Sequence[str], room: int) -> list[str]:
    """Return the first lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    return _fitting(lines, room)


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= size(line) + 1
        if room < 0:
            break
        kept.append(line)
    if lines and not kept:
        kept = [_begin(lines[0], room + size(lines[0]) + 1 - size(MARK)) + MARK]
    return kept


def _begin(text: str, room: int) -> str:
    """Return as much of the beginning of a text as is `room` bytes of JSON."""
    return text[: _fits(text, room, from_end=False)]


def _end(text: str, room: int) -> str:
    """Return as much of the end of a text as fits into `room` bytes of JSON, in whole lines."""
    count = _fits(text, room, from_end=True)
    if count == len(text):
        return text
    kept = text[len(text) - count :]
    head, newline, tail = kept.partition("\n")
    return tail if newline and tail else head


def _fits(text: str, room: int, *, from_end: bool) -> int:
    """Return how many characters at one end of a text fit into `room` bytes of JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if from_end else text[:middle]
        low, high = (middle, high) if size(part) - 2 <= room else (low, middle - 1)
    return low
