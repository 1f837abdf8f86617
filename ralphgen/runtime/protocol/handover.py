"""Gives a connection that the front has begun to the SDK: what it must know, then the rest."""

from __future__ import annotations

import io
import json
import os

from .fast_path import REPLAYED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Source(io.RawIOBase):
    """Bytes that were read already, and then those of a file descriptor."""

    def __init__(self, begun: bytes, file: int) -> None:
        super().__init__()
        self._begun = begun
        self._file = file

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer as far as one read does; 0 at the end."""
        view = memoryview(buffer)
        if not self._begun:
            data = os.read(self._file, len(view))
        else:
            data, self._begun = self._begun[: len(view)], self._begun[len(view) :]
        view[: len(data)] = data
        return len(data)


class Sink(io.TextIOBase):
    """Text to a file descriptor, without the one line that answers a replayed handshake."""

    def __init__(self, file: int, *, replayed: bool) -> None:
        super().__init__()
        self._file = file
        self._replayed = replayed

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def write(self, text: str, /) -> int:
        """Write whole lines at once."""
        if self._replayed and json.loads(text).get("id") == REPLAYED:
            self._replayed = False
            return len(text)
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._file, data) :]
        return len(text)


def streams(
    replay: Sequence[bytes], rest: bytes, source: int, sink: int
) -> tuple[io.TextIOWrapper, Sink]:
    """What the SDK reads and writes: `rest` was read and not answered, `replay` comes before it."""
    begun = b"".join(replay) + rest
    text = io.TextIOWrapper(
        io.BufferedReader(Source(begun, source)), encoding="utf-8", errors="replace"
    )
    return text, Sink(sink, replayed=bool(replay))
