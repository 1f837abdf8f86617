"""The server as a process: its standard streams and the signals that end it."""

from __future__ import annotations

import _thread
import sys

from ..errors import StartError
from ..system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from ..kit import Workspace

signal = __import__("_signal")  # all of `signal` but its enumerations, which import `enum`
CHUNK = 1 << 16
HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
ENDING = (signal.SIGINT, signal.SIGTERM, HANG_UP)


class Ending:
    """How the process ends on SIGINT, SIGTERM and SIGHUP: at once, cleanly, with exit code 0.

    Claude Code sends SIGINT, and SIGTERM 100 ms later; a terminal that is closed sends SIGHUP.
    Threads may wait for anything then, so that the interpreter cannot end by itself.
    """

    __slots__ = ("_ending", "_last", "_thread", "_watching", "_workspace")

    def __init__(self) -> None:
        self._ending: set[int] = set()  # threads that end the process
        self._last = _thread.allocate_lock()  # held by the one that does
        self._thread = _thread.get_ident()
        self._watching = False
        self._workspace: Workspace | None = None
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN or number != HANG_UP:  # as `nohup` asks
                signal.signal(number, self._stop)
        if hasattr(signal, "SIGCHLD"):  # ignored by a client, it would be so here: no exit codes
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def hold(self, workspace: Workspace) -> None:
        """Close the workspace before the end."""
        self._workspace = workspace

    def watch(self) -> None:
        """End on signals from a thread of its own too, from now on.

        A signal may reach any thread, and one that reaches the first just before it begins to read
        does not interrupt that.
        """
        if self._watching:
            return
        self._watching = True
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell)

        def wait() -> None:
            os.read(told, 1)
            self.end()

        _thread.start_new_thread(wait, ())

    def end(self) -> NoReturn:
        """Let go of everything and leave; a further signal no longer interrupts this.

        Any thread may call this; whichever comes second waits for the end.
        """
        thread = _thread.get_ident()
        self._ending.add(thread)
        self._last.acquire()
        if thread == self._thread:
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN)
        if self._workspace is not None:
            self._workspace.close()
        os._exit(0)

    def _stop(self, _signal: int, _frame: object) -> None:
        if self._workspace is None:
            raise SystemExit(0)  # a database that is being opened is closed on the way out
        if _thread.get_ident() not in self._ending:
            self.end()


class Wire:
    """Keeps the protocol's two streams from everything else that runs in this process.

    `source` and `sink` are the streams, as file descriptors of our own. What a module prints goes
    to standard error, and a child process reads nothing.
    """

    __slots__ = ("_writing", "sink", "source")

    def __init__(self) -> None:
        # Where one was closed at the start, its number may be that of a file of ours by now.
        if sys.stdin is None or sys.stdout is None:
            text = "standard input or output is closed: an MCP client must start this server"
            raise StartError(text)
        self.source, self.sink = os.dup(0), os.dup(1)
        self._writing = _thread.allocate_lock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def lines(self) -> Iterator[bytes]:
        """Yield each line that is not empty, without its end: a line feed or a carriage return."""
        begun: list[bytes] = []
        while chunk := os.read(self.source, CHUNK):
            *ends, last = chunk.replace(b"\r", b"\n").split(b"\n")
            for end in ends:
                line = b"".join((*begun, end)) if begun else end
                begun.clear()
                if line:
                    yield line
            if last:
                begun.append(last)
        if begun:
            yield b"".join(begun)

    def send(self, line: bytes) -> None:
        """Write a line of the protocol, whole; raises OSError where the client is gone."""
        with self._writing:
            while line:
                line = line[os.write(self.sink, line) :]

    def write(self, text: str) -> None:
        """Write text that is not the protocol's to where it would go."""
        with os.fdopen(self.sink, "w", encoding="utf-8") as stream:
            stream.write(text)
