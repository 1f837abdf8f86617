"""Lines on requests wait for a moment, and are written together."""

import asyncio
import sys

import pytest

from ralphgen.runtime.http import metrics as request_log
from ralphgen.runtime.http.metrics import RequestLog


class Written:
    """A standard error that keeps each write."""

    def __init__(self) -> None:
        """Begin empty."""
        self.writes: list[str] = []

    def write(self, text: str) -> None:
        """Take one."""
        self.writes.append(text)


def test_lines_of_a_moment_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(request_log, "DELAY", 0.01)

    async def ask() -> None:
        log = RequestLog()
        for number in range(3):
            log.add(f"{number}\n")
        assert [] == written.writes
        await asyncio.sleep(0.1)
        log.add("later\n")
        await asyncio.sleep(0.1)

    asyncio.run(ask())

    assert ["0\n1\n2\n", "later\n"] == written.writes


def test_no_write_exceeds_the_atomic_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several workers write to one pipe, which mixes longer writes."""
    written = Written()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(request_log, "WHOLE", 10)

    async def ask() -> None:
        log = RequestLog()
        for line in ("äää\n", "1\n", "2\n", "longer than any\n", "3\n"):
            log.add(line)
        log.write()
        log.write()

    asyncio.run(ask())

    assert ["äää\n1\n", "2\n", "longer than any\n", "3\n"] == written.writes
