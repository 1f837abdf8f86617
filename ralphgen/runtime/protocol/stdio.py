"""The server as a process: its standard streams and the signals that end it."""

from __future__ import annotations

import os
import sys

from ..errors import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ..kit import Workspace

signal = __import__("_signal")  # all of `signal` but its enumerations, which import `enum`


class Ending:
    """How the process ends on SIGINT and SIGTERM: at once, cleanly, with exit code 0.

    Claude Code sends SIGINT, and SIGTERM 100 ms later. The SDK's reader thread sits in a blocking
    read then, so that the interpreter cannot end by itself.
    """

    __slots__ = ("_workspace",)

    def __init__(self) -> None:
        self._workspace: Workspace | None = None
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGTERM, self._stop)
        if hasattr(signal, "SIGCHLD"):  # ignored by a client, it would be so here: no exit codes
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def hold(self, workspace: Workspace) -> None:
        """Close the workspace before the end."""
        self._workspace = workspace

    def end(self) -> NoReturn:
        """Let go of everything and leave; a further signal no longer interrupts this."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._workspace is not None:
            self._workspace.close()
        os._exit(0)

    def _stop(self, _signal: int, _frame: object) -> NoReturn:
        if self._workspace is None:
            raise SystemExit(0)  # a database that is being opened is closed on the way out
        self.end()


class Wire:
    """Keeps the protocol's two streams from everything else that runs in this process.

    `source` and `sink` are the streams, as file descriptors of our own. What a module prints goes
    to standard error, and a child process reads nothing.
    """

    __slots__ = ("sink", "source")

    def __init__(self) -> None:
        # Where one was closed at the start, its number may be that of a file of ours by now.
        if sys.stdin is None or sys.stdout is None:
            text = "standard input or output is closed: an MCP client must start this server"
            raise StartError(text)
        self.source, self.sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def write(self, text: str) -> None:
        """Write text that is not the protocol's to where it would go."""
        with os.fdopen(self.sink, "w", encoding="utf-8") as stream:
            stream.write(text)
