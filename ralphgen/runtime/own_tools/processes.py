"""The processes that run a project's own tools, and the lines that go to and fro."""

from __future__ import annotations

import json
import os
import sys

from ..errors import ToolError, log
from ..processes import Jobs, NotRunningError, Pipes
from ..processes.secrets import Masker, passed_on
from .child import LONGEST_LINE, OPTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue
    from typing import Any

    from ..processes import Job

MOST = 4  # calls of a session that run at once; the next ones wait
LONGEST_SAID = 2_000  # characters of a line that a tool prints
MOST_SAID = 1_000  # lines of a process that are logged
LOADING = 20  # seconds for a process to be there
LOOK = 0.5  # seconds between two looks at whether a call is wanted still


class Replies:
    """Makes messages of what a process writes, a line each, for one thread that waits for them."""

    weight = 0

    def __init__(self) -> None:
        from queue import SimpleQueue

        self._data = bytearray()
        self.lines: SimpleQueue[bytes | None] = SimpleQueue()

    def add(self, data: bytes) -> None:
        """Take the next bytes; too many without an end are the end."""
        self._data += data
        *whole, rest = self._data.split(b"\n")
        for line in whole:
            self.lines.put(bytes(line))
        self._data = bytearray(rest)
        if len(self._data) > LONGEST_LINE:
            self._data = bytearray()
            self.lines.put(None)

    def end(self) -> None:
        """Say that nothing more comes."""
        self.lines.put(None)

    def drop(self) -> None:
        """Keep nothing."""


class Said:
    """Logs what a tool prints, a line each, as far as anybody could read it."""

    weight = 0

    def __init__(self, kit: str) -> None:

        self._kit = kit
        self._data = b""
        self._lines = 0
        self._masker = Masker()

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, self._data = (self._data + data).split(b"\n")
        for line in whole:
            self._log(line)
        if len(self._data) > LONGEST_SAID:
            self._log(self._data)
            self._data = b""

    def end(self) -> None:
        """Log what has no end of its own."""
        if self._data:
            self._log(self._data)
            self._data = b""

    def drop(self) -> None:
        """Keep nothing."""

    def _log(self, line: bytes) -> None:
        self._lines += 1
        if self._lines <= MOST_SAID:
            text = self._masker.text(line.decode("utf-8", "replace"))[:LONGEST_SAID]
            log("info", self._kit, {"printed by a tool": text})
        elif self._lines == MOST_SAID + 1:
            log("warning", self._kit, "a tool prints more than is logged")


class Channel(Pipes):
    """The streams of a process that is asked again and again: its input stays open."""

    __slots__ = ("_requests", "replies")

    def __init__(self, kit: str) -> None:
        self.replies = Replies()
        self._requests = -1
        super().__init__(self.replies, Said(kit))

    def _make(self) -> None:
        super()._make()
        os.close(self.stdin)
        self.stdin, self._requests = os.pipe()

    def send(self, message: dict[str, Any]) -> None:
        """Write a message; raises OSError where nobody reads any more."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._requests, data) :]

    def close(self) -> None:
        """Let the process read its end."""
        requests, self._requests = self._requests, -1
        if requests >= 0:
            os.close(requests)


class Child:
    """A process that runs tools, and what it is told and tells."""

    __slots__ = ("channel", "job")

    def __init__(self, channel: Channel, job: Job) -> None:
        self.channel = channel
        self.job = job

    def next(self, seconds: float | None = None) -> dict[str, Any] | None:
        """Return its next message, None where it has come to an end or is late."""
        from queue import Empty

        try:
            line = self.channel.replies.lines.get(timeout=seconds)
            message: Any = None if line is None else json.loads(line)
        except (Empty, ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None


class Children:
    """The processes of one session, of which each runs one call at a time."""

    __slots__ = ("_folder", "_idle", "_jobs", "_kit", "_root", "_slots")

    def __init__(self, workspace: Any) -> None:
        self._folder = workspace.folder
        self._kit = workspace.session.kit
        self._root = workspace.work_tree
        self._jobs = Jobs(most=MOST)
        self._idle: list[Child] = []
        from queue import SimpleQueue

        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(MOST):
            self._slots.put(None)

    def take(self, is_over: Callable[[], bool]) -> Child | None:
        """Return a process for a call, whose turn is waited for; None where nobody wants it.

        Raises `ToolError` where none can be started.
        """
        from queue import Empty

        while not is_over():
            try:
                self._slots.get(timeout=LOOK)
            except Empty:
                continue
            try:
                return self._ready()
            except ToolError:
                self._slots.put(None)
                raise
        return None

    def give_back(self, child: Child, *, whole: bool) -> None:
        """Keep a process for the next call, or end it where it did not answer."""
        try:
            if whole and not child.job.ended.is_open:
                self._idle.append(child)
            else:
                self.stop(child)
        finally:
            self._slots.put(None)

    def stop(self, child: Child) -> None:
        """End a process and all that it has started."""
        child.channel.replies.end()  # its pipes are not read while the log is not
        try:
            self._jobs.stop(child.job, 0)
        except NotRunningError:
            child.job.wait(LOOK)
        child.channel.close()
        self._jobs.forget(child.job)

    def close(self) -> None:
        """End all of them."""
        self._jobs.close()

    def _ready(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if not child.job.ended.is_open:
                return child
            self.stop(child)
        channel = Channel(self._kit)
        trusting = [word for word in sys.argv if word == "--trust-edited"]
        program = os.path.join(self._folder, "server.py")
        try:
            job = self._jobs.start(
                [sys.executable, "-I", "-S", program, self._kit, OPTION, *trusting],
                pipes=channel,
                cwd=self._root,
                environment=passed_on(self._folder),
            )
        except OSError as error:
            raise ToolError(f"cannot start a process for it: {error}") from error
        child = Child(channel, job)
        if child.next(LOADING) is None:
            self.stop(child)
            raise ToolError("its process does not start; see the server's log")
        return child
