"""Text files that grow at their end: one entry a write, and pages read from the end."""

from __future__ import annotations

import json
import os
import re
import stat
import time

from ..errors import ToolError
from . import AT_ONCE, NO_LINK, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import BufferedReader

LIMIT = 2_000  # characters of an entry
PAGE_CHARACTERS = 39_500  # of a page as JSON, so that an answer with its other fields has 40,000
INDENT = "\n    "  # of an entry's further lines, so no text can start a new entry

# Characters removed from lines of text; tabs and newlines are kept.
_LINE_ENDS = "\r\x85\u2028\u2029"  # each is one to some readers
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CURSOR = re.compile("[0-9]{1,18}", re.ASCII)
_ENTRY_START = re.compile(rb"^[^ \t\r\n]", re.MULTILINE)
_MOMENT = re.compile(rb"^- (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) \[", re.MULTILINE)
# Bytes that hold a page: a character takes four at most, and the window may begin within one.
WINDOW = 4 * PAGE_CHARACTERS + 4
_CHUNK = 1 << 20
# Each byte as "n" (ends a line), "s" (white space) or "x", so that line starts can be counted.
_KINDS = bytes(
    {10: ord("n"), 9: ord("s"), 13: ord("s"), 32: ord("s")}.get(i, ord("x")) for i in range(256)
)


class Page:
    """Entries from the end of a file, in the file's order.

    `text` is the file's own text, with U+FFFD for bytes that are not UTF-8. `entries` counts the
    entries that begin in it, `total` all entries of the file. `next_cursor` leads to the text
    before this page, `None` at the file's beginning.
    """

    __slots__ = ("entries", "next_cursor", "text", "total")

    def __init__(self, text: str, entries: int, total: int, next_cursor: str | None) -> None:
        self.text = text
        self.entries = entries
        self.total = total
        self.next_cursor = next_cursor


def append_entry(path: str, tag: str, text: str, limit: int = LIMIT, *, once: bool = False) -> int:
    """Add `- <moment in UTC> [tag] text` to the end of a file; return the bytes written.

    With `once`, nothing is written if one of the newest entries (the last mebibyte) has this text.

    A missing file is created, its folder is not. Further lines are indented, control characters are
    left out. The entry is one write, so entries of several processes never mix. Raises `ToolError`
    for blank text, for text over `limit` characters, and if the file cannot be written; the file is
    then unchanged.
    """
    return write_entry(path, entry_of(tag, text, limit), once=once)


def entry_of(tag: str, text: str, limit: int = LIMIT) -> str:
    """Return the text of an entry of this moment; raises `ToolError` as `append_entry` does."""
    body = without_controls(text).strip()
    if not body:
        raise ToolError("the text must not be blank")
    if len(body) > limit:
        raise ToolError(
            f"the text has {len(body)} characters, but an entry can have at most {limit}: shorten "
            "it, or split it into several entries"
        )
    body = body.replace("\n", INDENT)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    shown_tag = " ".join(without_controls(tag).replace("[", "(").replace("]", ")").split())
    return f"- {moment} [{shown_tag}] {body}"


def write_entry(path: str, entry: str, *, once: bool = False) -> int:
    """Add an entry that `entry_of` has made to the end of a file, as `append_entry` does."""
    try:
        if once and _holds(path, entry.partition("] ")[2]):
            return 0
        return _append_entry(path, f"{entry}\n".encode())
    except OSError as error:
        raise ToolError(_failure(path, "written", error)) from error


def take_back_entry(path: str, entry: str, written: int) -> None:
    """Remove an entry from the end of a file, `written` bytes, unless another was added since."""
    try:
        file = _opened(path, os.O_RDWR)
    except OSError:
        return  # it is gone, or can no longer be changed
    try:
        end = os.lseek(file, 0, os.SEEK_END)
        added = os.pread(file, written, max(0, end - written))
        if added.lstrip(b"\n") == f"{entry}\n".encode():
            os.ftruncate(file, end - written)
    finally:
        os.close(file)


def count_entry(path: str, entry: str) -> int:
    """Return how often a file has an entry; raises `ToolError` if it cannot be read."""
    try:
        with open(path, "rb", opener=_opened) as file:
            return len(re.findall(_pattern_of(entry), file.read(), re.MULTILINE))
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise ToolError(_failure(path, "read", error)) from error


def rewrite_entries(path: str, copy: str, changes: Sequence[tuple[str, bool]]) -> None:
    """Remove entries from a file, or restore them at the place of their moment, each once.

    `changes` are entries and whether to restore them. The file at `copy` then replaces the file. If
    `copy` is missing, an earlier call did all of this, and nothing is done. Raises `OSError`.
    """
    if not os.path.lexists(copy):
        return
    try:
        with open(path, "rb", opener=_opened) as file:
            mode, data = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read()
    except FileNotFoundError:
        mode, data = 0o644, b""
    changed = data
    for entry, put_back in changes:
        changed = _with_entry(changed, entry) if put_back else _without_entry(changed, entry)
    with open(copy, "wb", opener=lambda name, flags: os.open(name, flags | NO_LINK)) as file:
        file.write(changed)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(copy, mode)
    os.replace(copy, path)


def read_entries(path: str, limit: int, before: str | None = None) -> Page:
    """Return the last `limit` entries of a file, or the entries before the cursor `before`.

    An entry is a line with the indented and blank lines after it, so each hand-written line counts
    as one. A page holds fewer entries if it would grow too long; of an entry longer than a page,
    the last part comes first. All pages together are the whole file. Only the page is held in
    memory, however long the file, but `total` takes one pass over it. A missing file is empty.
    Raises `ToolError` if the file cannot be read, and for a cursor that is not of this file.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            size = _size(path, file.fileno())
            end = size if before is None else offset_of(before, size)
            first = max(0, end - WINDOW)
            file.seek(first)
            start, text, entries = last_entries(file.read(end - first), first, limit)
            total = _count(file, size)
    except FileNotFoundError:
        return Page("", 0, 0, None)
    except OSError as error:
        raise ToolError(_failure(path, "read", error)) from error
    return Page(text, entries, total, str(start) if start else None)


def offset_of(cursor: str, size: int) -> int:
    """Return the byte position of a cursor in a file of `size`; `ToolError` if it is invalid."""
    if not _CURSOR.fullmatch(cursor) or int(cursor) > size:
        raise ToolError(
            f'invalid cursor "{cursor[:40]}": use "next_cursor" of a page, or '
            "omit it to start at the end"
        )
    return int(cursor)


def last_entries(window: bytes, first: int, limit: int) -> tuple[int, str, int]:
    """Return a page's start in the file, its text, and the number of entries that begin in it.

    `window` is the content before the page's end, from the file's byte `first` on: `WINDOW` bytes
    of it are enough. `limit` is the maximum number of entries of a page.
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
        return first + end, _printable_text("".join(reversed(pieces))), len(pieces)
    # The end of a text that is longer than a page, from a line's beginning if it can be.
    text = _decoded(window[starts[-1] if starts else 0 :])
    tail = text[-PAGE_CHARACTERS:]
    while (excess := _characters(tail) - PAGE_CHARACTERS) > 0:
        tail = tail[-(-excess // 6) :]  # JSON spells a character in six at most
    line = tail.find("\n") + 1
    tail = tail[line:] or tail
    return (
        first + len(window) - len(tail.encode("utf-8", "surrogateescape")),
        _printable_text(tail),
        0,
    )


def without_controls(text: str) -> str:
    """Return text whose lines end in a newline, without control characters other than tabs."""
    lines = text.replace("\r\n", "\n")
    for end in _LINE_ENDS:
        lines = lines.replace(end, "\n")
    # Half a surrogate pair cannot be written as UTF-8: it becomes U+FFFD.
    whole = lines.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROLS.sub("", whole)


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting for anyone: a pipe of that name would keep the server hanging.

    No link is followed: it may lead out of the project.
    """
    return os.open(path, flags | AT_ONCE | NO_LINK, 0o644)


def _size(path: str, file: int) -> int:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f'"{os.path.basename(path)}" is not a regular file')
    return status.st_size


def _failure(path: str, verb: str, error: OSError) -> str:
    why = "it is a link" if os.path.islink(path) else reason(error)
    return f'"{os.path.basename(path)}" cannot be {verb}: {why}'


def _holds(path: str, body: str) -> bool:
    """Return whether one of the newest entries has this text, with any moment and tag."""
    try:
        with open(path, "rb", opener=_opened) as file:
            file.seek(max(0, _size(path, file.fileno()) - _CHUNK))
            newest = file.read()
    except FileNotFoundError:
        return False
    entry = rb"^- [^ \n]+ \[[^\]\n]*\] " + re.escape(body.encode("utf-8")) + rb"\n(?![ \t])"
    return re.search(entry, newest, re.MULTILINE) is not None


def _without_entry(data: bytes, entry: str) -> bytes:
    """Return the bytes of a file without the last entry of this text."""
    matches = [*re.finditer(_pattern_of(entry), data, re.MULTILINE)]
    return data[: matches[-1].start()] + data[matches[-1].end() :] if matches else data


def _with_entry(data: bytes, entry: str) -> bytes:
    """Return the bytes of a file with an entry, before the first one of a later moment."""
    if re.search(_pattern_of(entry), data, re.MULTILINE):
        return data
    own = entry.encode()
    later = (one.start() for one in _MOMENT.finditer(data) if one[1] > own[2:22])
    at = next(later, len(data))
    gap = b"" if data[:at].endswith(b"\n") or not at else b"\n"
    return data[:at] + gap + own + b"\n" + data[at:]


def _pattern_of(entry: str) -> bytes:
    return b"^" + re.escape(entry.encode()) + rb"(?:\n(?![ \t])|\Z)"


def _append_entry(path: str, entry: bytes) -> int:
    """Add the entry in a single write, on a new line."""
    file = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        if _size(path, file):
            os.lseek(file, -1, os.SEEK_END)
            entry = entry if os.read(file, 1) == b"\n" else b"\n" + entry
        written = os.write(file, entry)
        if written < len(entry):
            end = os.lseek(file, 0, os.SEEK_CUR)
            if os.fstat(file).st_size == end:
                os.ftruncate(file, end - written)
            raise ToolError(
                f'"{os.path.basename(path)}" cannot be written: the disk has room for {written} of '
                f"{len(entry)} bytes"
            )
        return written
    finally:
        os.close(file)


def _decoded(data: bytes) -> str:
    """Return text that preserves every byte, even invalid UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def _printable_text(text: str) -> str:
    """Return decoded text with U+FFFD for bytes that are not UTF-8."""
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
