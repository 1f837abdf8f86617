"""Writes the lines on requests in batches: one write for each cost a tenth of a request."""

from __future__ import annotations

import asyncio
import select
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DELAY = 0.1  # seconds for which a line may wait
# Bytes that are written as a whole among what the other workers write to the same pipe.
WHOLE = getattr(select, "PIPE_BUF", 512)


class RequestLog:
    """The lines of a worker that wait to be written; who ends it calls `write`."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Take a line, with its end; called in the event loop."""
        if not self._lines:
            asyncio.get_running_loop().call_later(DELAY, self.write)
        self._lines.append(line)

    def write(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        with suppress(OSError):  # nobody reads the log
            for batch in _batches(lines):
                sys.stderr.write(batch)


def _batches(lines: list[str]) -> Iterator[str]:
    """Yield the lines joined, each batch as long as is written as a whole."""
    batch: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode())
        if batch and size + length > WHOLE:
            yield "".join(batch)
            batch = []
            size = 0
        batch.append(line)
        size += length
    if batch:
        yield "".join(batch)
