"""Reads what a task's processes write, on a thread of its own."""

from __future__ import annotations

import os

from .latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ring import Output

CHUNK = 1 << 16  # bytes of one read: all that a pipe holds
LOOK = 1000  # milliseconds after which a stream that nobody wants any more is closed


class Stream:
    """A pipe whose reading end adds to an output until all that hold the other end are gone.

    `sink` is the file descriptor to write to, which the one who creates the stream closes. `dry`
    opens when nothing more comes. A process that outlives its task may hold the pipe as long as it
    likes, which costs a thread and a file: it ends when the stream is abandoned. Such a process
    gets a SIGPIPE when it writes the next time, as if its terminal was closed.
    """

    __slots__ = ("_abandoned", "_output", "_source", "dry", "sink")

    def __init__(self, output: Output) -> None:
        """Start to read; raises OSError where there are no more files or threads."""
        from threading import Thread

        self._output = output
        self._abandoned = False
        self.dry = Latch()
        self._source, self.sink = os.pipe()
        try:
            Thread(target=self._read, name="task output", daemon=True).start()
        except RuntimeError as error:
            os.close(self._source)
            os.close(self.sink)
            raise OSError(str(error)) from error

    def abandon(self) -> None:
        """Close the stream within a second, whoever still holds its other end."""
        self._abandoned = True

    def _read(self) -> None:
        from select import POLLIN, poll

        ready = poll()
        ready.register(self._source, POLLIN)
        while not self._abandoned:
            if ready.poll(LOOK):
                data = os.read(self._source, CHUNK)
                if not data:
                    break
                self._output.add(data)
        os.close(self._source)
        self._output.end()
        self.dry.open()
