"""Claude Code as a process: its lines as they come, and an end that leaves nothing behind."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ralphgen.launch.descendants import Family, family, kill, survivors

GRACE = 5.0  # seconds to clean up in; Claude Code takes up to 1.5 for the commands it runs
POLL = 0.2  # seconds between looks at whether the process still lives
TURN = 0.02  # seconds between looks at whether all have ended
PIECE = 1 << 16


class OutOfTimeError(Exception):
    """The deadline passed while the process still ran."""


class Running:
    """A command in a session of its own that reads `prompt`; its standard error is ours.

    Leaving the block ends it with everything that it started, whatever the reason. Claude Code
    puts commands that it runs into sessions of their own: it ends them when it is told to end, and
    where it does not, they are found as its descendants. What has cut itself loose (`nohup … &`)
    cannot be found.
    """

    def __init__(self, command: Sequence[str], prompt: str, root: Path) -> None:
        """Raises `OSError` where the command cannot be run."""
        self._known: Family = {}
        self._pipe, writing = os.pipe()
        try:
            with tempfile.TemporaryFile() as given:  # a pipe would fill up while nobody reads it
                given.write(prompt.encode("utf-8", "surrogateescape"))
                given.seek(0)
                self._process = subprocess.Popen(
                    command, cwd=root, stdin=given, stdout=writing, start_new_session=True
                )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._pipe)

    def lines(self, deadline: float | None) -> Iterator[str]:
        """Each line without its end, until the process has ended; a last half line counts.

        A descendant that keeps the pipe open is not waited for. Raises `OutOfTimeError` when
        `time.monotonic()` passes the deadline.
        """
        kept: list[bytes] = []
        for piece in self._pieces(deadline):
            *whole, rest = piece.split(b"\n")
            for part in whole:
                yield _decoded([*kept, part])
                kept = []
            kept.append(rest)
        if any(kept):
            yield _decoded(kept)

    def wait(self, deadline: float | None) -> int:
        """The exit code of a process that ends by itself; negative for a signal."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._process.wait(left)
        except subprocess.TimeoutExpired as error:
            raise OutOfTimeError from error

    def interrupt(self) -> None:
        """Pass on what a person typed, and give it time to end; typed again, there is none."""
        self._signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.wait(GRACE)

    def stop(self) -> None:
        """End it and its descendants: TERM first, KILL for what is left after `GRACE`."""
        self._known = family(self._process.pid)  # before they lose their parent
        self._signal(signal.SIGTERM)
        try:
            self._await_end()
        finally:  # also where a signal breaks off the waiting
            kill(self._known)
            self._await_end()
            self._process.wait()

    def _await_end(self) -> None:
        """Wait up to `GRACE` until nothing is left of all that was ever seen here."""
        end = time.monotonic() + GRACE
        while True:
            self._process.poll()
            self._known = survivors(self._known) | family(self._process.pid)
            if not self._known or time.monotonic() >= end:
                return
            time.sleep(TURN)

    def _pieces(self, deadline: float | None) -> Iterator[bytes]:
        """What the process writes, as it comes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while True:
                ended = self._process.poll() is not None
                if selector.select(0 if ended else POLL):
                    piece = os.read(self._pipe, PIECE)
                    if not piece:
                        return
                    yield piece
                elif ended:
                    return
                if deadline is not None and time.monotonic() >= deadline:
                    raise OutOfTimeError

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group; it outlives its first process as long as it has others."""
        with suppress(ProcessLookupError, PermissionError):  # the latter where all are zombies
            os.killpg(self._process.pid, number)


def _decoded(parts: Sequence[bytes]) -> str:
    return b"".join(parts).decode(errors="replace").removesuffix("\r")
