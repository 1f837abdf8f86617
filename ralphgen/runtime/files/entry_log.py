"""Text files that grow at their end: one entry a write, and pages read from the end."""

from __future__ import annotations

import json
import os
import re
import stat
import time

from ..errors import ToolError
from .read import AT_ONCE, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader

LIMIT = 2_000  # characters of an entry
PAGE_CHARACTERS = 39_500  # of a page as JSON, so that an answer with its other fields has 40,000
INDENT = "\n    "  # of an entry's further lines: no text can begin an entry of its own

# What no line of text needs; tabs and newlines stay.
_LINE_ENDS = "\r\x85\u2028\u2029"  # each is one to some readers
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CURSOR = re.compile("[0-9]{1,18}", re.ASCII)
_ENTRY_START = re.compile(rb"^[^ \t\r\n]", re.MULTILINE)
# A character takes four bytes at most, and the window may begin within one.
_WINDOW = 4 * PAGE_CHARACTERS + 4
_CHUNK = 1 << 20
# Each byte as "n" (ends a line), "s" (white space) or "x", so that line starts can be counted.
_KINDS = bytes(
    {10: ord("n"), 9: ord("s"), 13: ord("s"), 32: ord("s")}.get(i, ord("x")) for i in range(256)
)


class Page:
    """Entries from the end of a file, in the file's order.

    `text` is the file's own text, with U+FFFD for bytes that are not UTF-8; `entries` counts the
    entries that begin in it, `total` those of the file. `next_cursor` leads to the text before
    this page, `None` at the file's beginning.
    """

    __slots__ = ("entries", "next_cursor", "text", "total")

    def __init__(self, text: str, entries: int, total: int, next_cursor: str | None) -> None:
        self.text = text
        self.entries = entries
        self.total = total
        self.next_cursor = next_cursor


def append_entry(path: str, tag: str, text: str, limit: int = LIMIT) -> int:
    """Add `- <moment in UTC> [tag] text` to the end of a file; returns the bytes written.

    A missing file is created, its folder is not. Further lines are indented, control characters
    are left out. The entry is one write, so entries of several processes never mix. Raises
    `ToolError` for blank text, for text over `limit` characters, and where the file cannot be
    written: it is then as it was.
    """
    body = without_controls(text).strip()
    if not body:
        raise ToolError("the text must not be blank")
    if len(body) > limit:
        raise ToolError(
            f"the text has {len(body)} characters and an entry holds {limit} at most: shorten it, "
            "or make several entries"
        )
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    shown_tag = " ".join(without_controls(tag).replace("[", "(").replace("]", ")").split())
    entry = f"- {moment} [{shown_tag}] {body.replace(chr(10), INDENT)}\n"
    try:
        return _written(path, entry.encode("utf-8"))
    except OSError as error:
        raise ToolError(_failure(path, "written", error)) from error


def read_entries(path: str, limit: int, before: str | None = None) -> Page:
    """The last `limit` entries of a file, or those that end where the cursor `before` points.

    An entry is a line with the indented and blank lines after it, so each line that a person
    wrote counts as one. A page holds less where it would grow too long; of an entry longer than a
    page, the last part comes first. All pages together are the whole file. However long the file,
    only the page is held in memory, but `total` takes one pass over it. A missing file is empty.
    Raises `ToolError` where the file cannot be read, and for a cursor that is not of this file.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            size = _size(path, file.fileno())
            end = size if before is None else _offset(before, size)
            first = max(0, end - _WINDOW)
            file.seek(first)
            start, text, entries = _last(file.read(end - first), first, limit)
            total = _count(file, size)
    except FileNotFoundError:
        return Page("", 0, 0, None)
    except OSError as error:
        raise ToolError(_failure(path, "read", error)) from error
    return Page(text, entries, total, str(start) if start else None)


def read_text(path: str) -> str:
    """The whole text of a file, with U+FFFD for bytes that are not UTF-8; empty where none is.

    Raises `ToolError` where the file cannot be read.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            _size(path, file.fileno())
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ToolError(_failure(path, "read", error)) from error


def without_controls(text: str) -> str:
    """Text whose lines end in a plain newline, without control characters other than tabs."""
    lines = text.replace("\r\n", "\n")
    for end in _LINE_ENDS:
        lines = lines.replace(end, "\n")
    # Half a surrogate pair cannot be written as UTF-8: it becomes U+FFFD.
    whole = lines.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROLS.sub("", whole)


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting for anyone: a pipe of that name would keep the server hanging."""
    return os.open(path, flags | AT_ONCE, 0o644)


def _size(path: str, file: int) -> int:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f'"{os.path.basename(path)}" is not a regular file')
    return status.st_size


def _failure(path: str, verb: str, error: OSError) -> str:
    return f'"{os.path.basename(path)}" cannot be {verb}: {reason(error)}'


def _written(path: str, entry: bytes) -> int:
    """Add the entry in a single write, on a line of its own."""
    file = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if _size(path, file):
            os.lseek(file, -1, os.SEEK_END)
            entry = entry if os.read(file, 1) == b"\n" else b"\n" + entry
        written = os.write(file, entry)
        if written < len(entry):
            _take_back(file, written)
            raise ToolError(
                f'"{os.path.basename(path)}" cannot be written: there is room for {written} bytes '
                f"and the entry has {len(entry)}"
            )
        return written
    finally:
        os.close(file)


def _take_back(file: int, written: int) -> None:
    """Remove what was just written, unless another process has written after it."""
    end = os.lseek(file, 0, os.SEEK_CUR)
    if os.fstat(file).st_size == end:
        os.ftruncate(file, end - written)


def _offset(cursor: str, size: int) -> int:
    """Return the place in the file that a cursor stands for."""
    if not _CURSOR.fullmatch(cursor) or int(cursor) > size:
        raise ToolError(
            f'the cursor "{cursor[:40]}" is none of this file: take "next_cursor" of a page, or '
            "leave it out to begin at the end"
        )
    return int(cursor)


def _last(window: bytes, first: int, limit: int) -> tuple[int, str, int]:
    """Return where the page begins in the file, its text, and how many entries begin in it.

    `window` is what stands before the page's end, from the file's byte `first` on.
    """
    starts = [match.start() for match in _ENTRY_START.finditer(window) if match.start()]
    if not first and window:
        starts.insert(0, 0)
    pieces: list[str] = []
    end, room = len(window), PAGE_CHARACTERS
    for start in reversed(starts[-max(limit, 1) :]):
        piece = _decoded(window[start:end])
        room -= _characters(piece)
        if room < 0:
            break
        pieces.append(piece)
        end = start
    if pieces or not window:
        return first + end, _shown("".join(reversed(pieces))), len(pieces)
    tail = _tail(_decoded(window[starts[-1] if starts else 0 :]))
    return first + len(window) - len(tail.encode("utf-8", "surrogateescape")), _shown(tail), 0


def _tail(text: str) -> str:
    """The end of a text that is longer than a page, from the beginning of a line if it can be."""
    tail = text[-PAGE_CHARACTERS:]
    while (excess := _characters(tail) - PAGE_CHARACTERS) > 0:
        tail = tail[-(-excess // 6) :]  # JSON spells a character in six at most
    line = tail.find("\n") + 1
    return tail[line:] or tail


def _decoded(data: bytes) -> str:
    """Return text from which the same bytes can be made again."""
    return data.decode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    """Decoded text with U+FFFD for what is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _characters(text: str) -> int:
    """Return the characters of a text as JSON, without its quotes."""
    return len(json.dumps(text, ensure_ascii=False)) - 2


def _count(file: BufferedReader, size: int) -> int:
    """Return the entries that begin in the first `size` bytes."""
    file.seek(0)
    total, before = 0, b"n"
    for at in range(0, size, _CHUNK):
        kinds = file.read(min(_CHUNK, size - at)).translate(_KINDS)
        total += (before + kinds).count(b"nx") + (not at and kinds[:1] in {b"n", b"s"})
        before = kinds[-1:]
    return total
