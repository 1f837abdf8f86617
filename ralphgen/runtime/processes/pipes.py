"""Writes what a process reads, and reads what it writes, on a thread that one can wait for."""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Output(Protocol):
        """Keeps what a process has written, as much of it as it likes."""

        @property
        def weight(self) -> int:
            """About how many bytes of memory what is kept costs."""

        def add(self, data: bytes) -> None:
            """Take the next bytes that were written."""

        def end(self) -> None:
            """Know that nothing more comes."""

        def drop(self) -> None:
            """Let go of what is kept."""


CHUNK = 1 << 16  # bytes of one read: all that a pipe holds
LOOK = 1000  # milliseconds after which pipes that nobody wants any more are closed


class Pipes:
    """The three streams of a process, whose other ends are read and written here.

    What the process and its children write to their standard output is added to `output`, the rest
    to `error`; with none of its own it goes to `output` as well, in its true order. They read
    `given`, or an end of file. Whoever does not read it, or not all of it, is not waited for.

    `open` makes `stdin`, `stdout` and `stderr`, the file descriptors for the process. `pass_on`
    closes them here, once the process has them or will never have them. `dry` opens when nothing
    more is written. A process that outlives its starter may hold the pipes as long as it likes,
    which costs a thread and files: it ends when they are abandoned. Such a process gets a SIGPIPE
    when it writes the next time, as if its terminal was closed.
    """

    __slots__ = (
        "_abandoned",
        "_error",
        "_given",
        "_readers",
        "_reading",
        "_writer",
        "dry",
        "output",
        "stderr",
        "stdin",
        "stdout",
    )

    def __init__(self, output: Output, error: Output | None = None, given: bytes = b"") -> None:
        self.output = output
        self._error = error
        self._given = memoryview(given)
        self._readers: dict[int, Output] = {}
        self._reading = False  # something is on its way from a pipe to who keeps it
        self._writer = -1
        self._abandoned = False
        self.dry = Latch()
        self.stdin = self.stdout = self.stderr = -1

    @property
    def weight(self) -> int:
        """About how many bytes of memory it costs what was read and is kept."""
        return self.output.weight + (self._error.weight if self._error is not None else 0)

    def open(self) -> None:
        """Start to read and to write; raises OSError where there are no more files or threads."""
        from threading import Thread

        try:
            self._make()
            Thread(target=self._serve, name="pipes", daemon=True).start()
        except (OSError, RuntimeError) as error:
            _close(*self._readers, self._writer)
            self.pass_on()
            raise OSError(str(error)) from error

    def pass_on(self) -> None:
        """Close the ends of the process here."""
        _close(*{self.stdin, self.stdout, self.stderr})
        self.stdin = self.stdout = self.stderr = -1

    def abandon(self) -> None:
        """Close the pipes within a second, whoever still holds their other ends."""
        self._abandoned = True

    def is_behind(self) -> bool:
        """Return whether something is written that was not read yet."""
        from fcntl import ioctl
        from termios import FIONREAD

        try:
            written = [ioctl(source, FIONREAD, bytes(4)) for source in list(self._readers)]
        except OSError:  # closed meanwhile: all of it was read
            return False
        return self._reading or any(map(any, written))

    def drop(self) -> None:
        """Let go of what was read."""
        self.output.drop()
        if self._error is not None:
            self._error.drop()

    def _make(self) -> None:
        source, self.stdout = os.pipe()
        self._readers[source] = self.output
        self.stderr = self.stdout
        if self._error is not None:
            source, self.stderr = os.pipe()
            self._readers[source] = self._error
        if self._given:
            self.stdin, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
        else:
            self.stdin = os.open(os.devnull, os.O_RDONLY)

    def _serve(self) -> None:
        from select import POLLIN, POLLOUT, poll

        ready = poll()
        for source in self._readers:
            ready.register(source, POLLIN)
        if self._writer >= 0:
            ready.register(self._writer, POLLOUT)
        while (self._readers or self._writer >= 0) and not self._abandoned:
            for end, _ in ready.poll(LOOK):
                if not (self._write() if end == self._writer else self._read(end)):
                    ready.unregister(end)
                    self._finish(end)
        for end in [*self._readers, self._writer]:
            self._finish(end)

    def _read(self, source: int) -> bool:
        """Return whether something was read."""
        self._reading = True
        data = os.read(source, CHUNK)
        if data:
            self._readers[source].add(data)
        self._reading = False
        return bool(data)

    def _write(self) -> bool:
        """Return whether there is more to be written, and somebody to read it."""
        try:
            self._given = self._given[os.write(self._writer, self._given) :]
        except BlockingIOError:  # less room than an atomic write takes
            return True
        except OSError:  # nobody reads any more
            return False
        return bool(self._given)

    def _finish(self, end: int) -> None:
        _close(end)
        if end in self._readers:
            self._readers.pop(end).end()
            if not self._readers:
                self.dry.open()
        else:
            self._writer = -1
            self._given = memoryview(b"")


def _close(*ends: int) -> None:
    for end in ends:
        if end >= 0:
            os.close(end)


class Latch:
    """Opens once, for all who wait.

    An event of `threading` holds a lock of its own for a moment: a handler that interrupts its
    thread in that moment would wait for it for ever. Here nothing is held that another one needs.
    """

    __slots__ = ("_gate", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._gate = _thread.allocate_lock()
        self._gate.acquire()

    def open(self) -> None:
        """Say that it has happened; only one thread may, and once."""
        self.is_open = True
        self._gate.release()

    def wait(self, seconds: float = _thread.TIMEOUT_MAX) -> bool:
        """Wait until it has happened, for at most these seconds; whether it has."""
        if not self.is_open and self._gate.acquire(timeout=max(0, seconds)):
            self._gate.release()
        return self.is_open


class Tail:
    """Keeps the end of what a process writes: `kept` bytes, which are little.

    `cut` says that it wrote more.
    """

    __slots__ = ("_data", "_kept", "cut")

    def __init__(self, kept: int) -> None:
        self._data = b""
        self._kept = kept
        self.cut = False

    @property
    def weight(self) -> int:
        """How many bytes are kept."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Take the next bytes that were written."""
        written = self._data + data
        self.cut |= len(written) > self._kept
        self._data = written[-self._kept :]

    def end(self) -> None:
        """Know that nothing more comes."""

    def drop(self) -> None:
        """Keep what there is."""

    def text(self) -> str:
        """Return what is kept, with U+FFFD for bytes that are no UTF-8."""
        return self._data.decode("utf-8", "replace")
