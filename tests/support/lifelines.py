"""Detects the start and end of processes that are not children of this one, without polling."""

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60.0  # seconds for operations that take milliseconds on an idle machine


def until(condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds; return whether it does.

    Slow conditions, such as the content of a whole page, are checked less often.
    """
    end, pause = time.monotonic() + PATIENCE, 0.002
    while (begin := time.monotonic()) < end:
        if condition():
            return True
        time.sleep(max(pause, 3 * (time.monotonic() - begin)))
        pause = min(pause * 1.5, 0.05)
    return False


class Lifeline:
    """A named pipe that lives as long as any process that opened it for writing (`exec 3>PATH`)."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def was_held(self) -> bool:
        """Wait until a holder has written a line; whether one has."""
        return until(lambda: b"\n" in self._read())

    def is_held(self) -> bool:
        """Whether a holder lives at this moment, after at least one has been there."""
        return not self._waits(0)

    def was_let_go(self) -> bool:
        """Wait until the last holder has ended; whether it has."""
        return self._waits(PATIENCE)

    def close(self) -> None:
        """Look no longer."""
        os.close(self._file)

    def _waits(self, seconds: float) -> bool:
        poller = select.poll()
        poller.register(self._file, 0)  # the closed other end is always reported
        return bool(poller.poll(seconds * 1000))

    def _read(self) -> bytes:
        try:
            return os.read(self._file, 1 << 12)
        except BlockingIOError:
            return b""


def children() -> set[str]:
    """The processes that this one has started and not waited for; none is known without /proc."""
    listed = [
        path.read_text(encoding="utf-8") for path in Path("/proc/self/task").glob("*/children")
    ]
    return set(" ".join(listed).split())


def open_files() -> int:
    """Return the number of files that this process has open."""
    return len(list(Path("/dev/fd").iterdir()))
