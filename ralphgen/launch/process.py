"""Claude Code as a process: its lines as they come, and an end that leaves nothing behind."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

from ralphgen.runtime.processes.jobs import Jobs, NotRunningError
from ralphgen.runtime.processes.pipes import Pipes

GRACE = 5.0  # seconds to clean up in; Claude Code takes up to 1.5 for the commands it runs
FOREVER = threading.TIMEOUT_MAX
POLL = 0.2  # seconds between looks at whether the process still lives


class OutOfTimeError(Exception):
    """The deadline passed while the process still ran."""


class _Pieces:
    """What is read from standard output, for the thread that waits for it."""

    weight = 0

    def __init__(self) -> None:
        self.queue: SimpleQueue[bytes] = SimpleQueue()

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.queue.put(data)

    def end(self) -> None:
        """Take note of the end; whoever waits sees that the process has ended."""

    drop = end


class _PassedOn(_Pieces):
    """What is read from standard error, which is written to ours."""

    def add(self, data: bytes) -> None:
        """Write the next bytes, where anybody reads them."""
        with suppress(OSError):
            while data:
                data = data[os.write(2, data) :]


class Running:
    """A command in a session of its own that reads `prompt`; its standard error is passed on.

    Leaving the block ends it with everything that it started, whatever the reason: what is in its
    session or has its mark in the environment, which on Linux finds what has cut itself loose too
    (`nohup … &`), and elsewhere its descendants. Where we are killed, it is ended all the same.
    """

    def __init__(self, command: Sequence[str], prompt: str, root: Path) -> None:
        """Start it; raises `OSError` where the command cannot be run."""
        self._pieces = _Pieces()
        self._jobs = Jobs(most=1)
        given = prompt.encode("utf-8", "surrogateescape")
        pipes = Pipes(self._pieces, _PassedOn(), given)
        try:
            self._job = self._jobs.start(
                command, pipes=pipes, cwd=str(root), environment=os.environ
            )
        except BaseException:  # also where a signal breaks off the start
            self._jobs.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:  # also where a signal breaks off the waiting
            self._jobs.close()

    def lines(self, deadline: float | None) -> Iterator[str]:
        """Yield each line without its end, until the process has ended; a last half line counts.

        A descendant that keeps the pipe open is not waited for. Raises `OutOfTimeError` when
        `time.monotonic()` passes the deadline.
        """
        kept: list[bytes] = []
        while piece := self._next(deadline):
            *whole, rest = piece.split(b"\n")
            for part in whole:
                yield _decoded([*kept, part])
                kept = []
            kept.append(rest)
        if any(kept):
            yield _decoded(kept)

    def wait(self, deadline: float | None) -> int:
        """Return the exit code of a process that ends by itself; negative for a signal."""
        left = FOREVER if deadline is None else deadline - time.monotonic()
        if not self._job.wait(left):
            raise OutOfTimeError
        code = self._job.exit_code
        return -(self._job.signal or 0) if code is None else code

    def interrupt(self) -> None:
        """Pass on what a person typed, and give it time to end; typed again, there is none."""
        with suppress(KeyboardInterrupt):
            self._jobs.signal(self._job, signal.SIGINT)
            self._job.wait(GRACE)

    def stop(self) -> None:
        """End it and its descendants: TERM first, KILL for what is left after `GRACE`."""
        with suppress(NotRunningError):
            self._jobs.stop(self._job, GRACE)

    def _next(self, deadline: float | None) -> bytes:
        """Return what the process writes next; nothing when it has ended and all is read."""
        while True:
            ended = self._job.wait(0)
            if not ended and deadline is not None and time.monotonic() >= deadline:
                raise OutOfTimeError
            try:
                return self._pieces.queue.get(not ended, POLL)
            except Empty:
                if ended:
                    return b""


def _decoded(parts: Sequence[bytes]) -> str:
    return b"".join(parts).decode(errors="replace").removesuffix("\r")
