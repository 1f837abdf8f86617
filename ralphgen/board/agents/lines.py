"""Reads logs that grow at their end, page by page from there: how long they are does not count."""

import os
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ralphgen.runtime.files import AT_ONCE, NO_LINK

PIECE = 64 * 1024  # bytes read at once
PAGE_BYTES = 1024 * 1024  # bytes of a page
COUNTED = 16 * PAGE_BYTES
LINES = 60  # lines of a page, if so many are there


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of a log, the oldest first, each with the place at which it begins.

    They stand from `first` on; before it there are older ones, unless it is 0. `newest` says that
    nothing stands after them.
    """

    lines: tuple[tuple[int, bytes], ...]
    first: int
    newest: bool


NOTHING = LogPage((), 0, True)


def page_of_log(path: Path, end: int | None, lines: int = LINES) -> LogPage:
    """Return the last lines of a log before the place `end`, which is that of a line; None for all.

    A line that is not written to its end is left out, and one that is longer than a page. Where
    there is no such file, there are none.
    """
    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return NOTHING
    try:
        size = os.fstat(file).st_size
        stop = size if end is None else max(0, min(end, size))
        text, first = b"", stop
        while first and len(text) < PAGE_BYTES and text.count(b"\n") <= lines:
            start = max(0, first - PIECE)
            text, first = os.pread(file, first - start, start) + text, start
    except OSError:
        return NOTHING
    finally:
        os.close(file)
    return _page(text, first, lines, newest=stop == size)


def count_lines(path: Path) -> int:
    """Return how many lines a log has, of a very long one those at its begin."""
    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return 0
    try:
        pieces = (os.pread(file, PAGE_BYTES, at) for at in range(0, COUNTED, PAGE_BYTES))
        return sum(piece.count(b"\n") for piece in takewhile(bool, pieces))
    except OSError:
        return 0
    finally:
        os.close(file)


def _page(text: bytes, first: int, lines: int, *, newest: bool) -> LogPage:
    begin = first
    if first:  # the first line is cut off, or its begin is not known
        cut = text.find(b"\n") + 1
        text, first = text[cut:], first + cut
    found: list[tuple[int, bytes]] = []
    at = first
    for part in text.split(b"\n")[:-1]:  # behind the last line end there is nothing, or a half line
        found.append((at, part))
        at += len(part) + 1
    kept = tuple(found[-lines:])
    return LogPage(kept, kept[0][0] if kept else begin, newest)
