"""Keeps the newest lines of what a process writes, within a number of lines and of bytes."""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque

LONGEST = 1 << 12  # bytes of a line; a longer one is kept in pieces
LONGEST_CHARACTER = 4  # bytes
OVERHEAD = 48  # bytes of memory that a line costs besides its text
CONTINUING = range(0x80, 0xC0)  # the bytes of a character after its first


class OutputPage:
    r"""Some neighbouring lines, and what there was when they were read.

    `lines` end in "\n" as they were written: a piece of an overlong line does not, nor does a
    line that has only begun, so that together they are the text. `offset` is the number of the
    first of them; lines are numbered from 0 since the start, also those that are gone. `first` is
    the number of the oldest line that is kept, which is how many are gone, and `total` the number
    of all that ever were. `received` are the bytes that were ever written. `begun` says that the
    last of these lines may still grow, and `next` where to read on, which is that line again.
    """

    __slots__ = ("begun", "first", "lines", "next", "offset", "received", "total")

    def __init__(
        self, lines: list[str], *, offset: int, first: int, total: int, received: int, begun: bool
    ) -> None:
        self.lines = lines
        self.offset = offset
        self.first = first
        self.total = total
        self.received = received
        self.begun = begun
        self.next = offset + len(lines) - begun


class OutputBuffer:
    r"""What a process has written, line by line; one thread adds to it while others read.

    At most `lines` lines of together at most `size` bytes (of UTF-8, with the "\n") are kept: the
    newest. What is not UTF-8 is replaced by U+FFFD, and "\r\n" by "\n". A line of more than
    `LONGEST` bytes becomes several. One that has begun counts as a line. Secrets of the environment
    are masked.
    """

    __slots__ = (
        "_begun",
        "_decoder",
        "_kept",
        "_lines",
        "_lock",
        "_longest",
        "_masker",
        "_received",
        "_size",
        "_used",
        "_whole",
    )

    def __init__(self, lines: int, size: int) -> None:
        from codecs import getincrementaldecoder
        from collections import deque

        from ralphgen.runtime.processes.secrets import Masker

        self._masker = Masker()
        self._lines = max(lines, 1)
        self._size = max(size, LONGEST_CHARACTER + 1)
        self._longest = min(LONGEST, self._size - 1)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._kept: deque[bytes] = deque()
        self._used = 0  # bytes of the kept lines
        self._whole = 0  # lines ever, without the one that has begun
        self._begun = b""
        self._received = 0
        self._lock = _thread.allocate_lock()

    def add(self, data: bytes) -> None:
        """Take the next bytes that were written."""
        with self._lock:
            self._received += len(data)
            self._take(self._decoder.decode(data))
            self._trim()

    def end(self) -> None:
        """Take the line that has begun as it is: no more is written."""
        with self._lock:
            self._take(self._decoder.decode(b"", final=True))
            if self._begun:
                self._keep_piece(self._begun)
                self._begun = b""
            self._trim()

    @property
    def weight(self) -> int:
        """About how many bytes of memory what is kept costs."""
        return self._used + len(self._begun) + OVERHEAD * len(self._kept)

    def drop(self) -> None:
        """Let go of all lines, also of one that has begun; they count as ever."""
        with self._lock:
            self._whole += bool(self._begun)
            self._begun = b""
            self._kept.clear()
            self._used = 0

    def read(self, start: int, count: int) -> OutputPage:
        """Return at most `count` lines from the line numbered `start`, or from the oldest kept."""
        with self._lock:
            return self._page(start, count)

    def tail(self, count: int) -> OutputPage:
        """Return the newest `count` lines."""
        with self._lock:
            return self._page(self._whole + bool(self._begun) - count, count)

    def _page(self, start: int, count: int) -> OutputPage:
        from itertools import islice

        first = self._whole - len(self._kept)
        total = self._whole + bool(self._begun)
        offset = min(max(start, first), total)
        stop = min(offset + max(count, 0), total)
        lines = list(islice(self._kept, offset - first, stop - first))
        begun = bool(self._begun) and offset < stop == total
        if begun:
            lines.append(self._begun)
        return OutputPage(
            [line.decode() for line in lines],
            offset=offset,
            first=first,
            total=total,
            received=self._received,
            begun=begun,
        )

    def _take(self, text: str) -> None:
        """Keep the lines that are whole now; the rest is the line that has begun.

        Lines are looked at by the window, not one by one: a process may write millions of them.
        """
        data = self._masker.text(self._begun.decode() + text).encode()
        kept = start = 0
        while True:
            # All lines up to the last end within the window are short enough.
            end = data.rfind(b"\n", start, start + self._longest + 1) + 1
            if end:
                start = end
                continue
            if len(data) - start <= self._longest:
                break
            self._keep(data[kept:start])
            kept = start + self._longest
            while data[kept] in CONTINUING:
                kept -= 1  # to where a character begins
            self._keep_piece(data[start:kept])
            start = kept
        self._keep(data[kept:start])
        self._begun = data[start:]

    def _keep(self, run: bytes) -> None:
        """Keep some lines that are whole, or the newest where they are too many."""
        if not run:
            return
        run = run.replace(b"\r\n", b"\n")
        self._whole += run.count(b"\n")
        newest = run[:-1].rsplit(b"\n", self._lines)[-self._lines :]
        self._kept.extend([line + b"\n" for line in newest])
        self._used += sum(map(len, newest)) + len(newest)

    def _keep_piece(self, piece: bytes) -> None:
        self._whole += 1
        self._kept.append(piece)
        self._used += len(piece)

    def _trim(self) -> None:
        """Let go of the oldest lines until the rest, with the begun one, is within the limits."""
        lines = self._lines - bool(self._begun)
        size = self._size - len(self._begun)
        kept = self._kept
        while len(kept) > lines or self._used > size:
            self._used -= len(kept.popleft())


def weight_of(lines: int, size: int) -> int:
    """Return about how many bytes of memory an output within these limits costs at most."""
    return size + OVERHEAD * min(lines, size)
