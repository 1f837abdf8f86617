"""The child processes of a session, started when needed and kept for later calls."""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time

from ..errors import ToolError
from .child import LENGTH, OPTION, packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import StatementCall

MOST = 4  # calls of a session that run at once; the next ones wait
ENDING = 0.5  # seconds for a child that was killed to be gone
LOOK = 0.2  # seconds between two looks at whether a call is wanted still
LEFT = "the call was cancelled"
BUSY = "as many queries of this session run as may at once: try again"


class StatementProcess:
    """A process, and the answer that it has begun to write."""

    __slots__ = ("_data", "_process", "has_ended")

    def __init__(self, workspace: Any) -> None:
        """Start it for the session of a workspace; raises OSError."""
        import subprocess

        session = workspace.session
        program = os.path.join(workspace.folder, "server.py")
        trusting = [word for word in sys.argv if word == "--trust-edited"]
        self._data = bytearray()
        self.has_ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", program, session.kit, OPTION, *trusting],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=workspace.root,
            start_new_session=True,
        )
        self.send(session.described())

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return not self.has_ended and self._process.poll() is None

    def send(self, message: dict[str, Any]) -> None:
        """Write a message; one that is not read any more is not missed: no answer comes."""
        stream = self._process.stdin
        data = memoryview(packed(message))
        try:
            while data and stream is not None:
                data = data[stream.write(data) or 0 :]
        except OSError:
            self.has_ended = True

    def is_there(self, seconds: float) -> bool:
        """Return whether the answer has come within these seconds, or the end of the process."""
        from select import POLLIN, poll

        stream = self._process.stdout
        if stream is None:
            return True
        ready = poll()
        ready.register(stream.fileno(), POLLIN)
        deadline = time.monotonic() + seconds
        while not self._is_whole():
            left = deadline - time.monotonic()
            if not ready.poll(max(0, left) * 1000):
                return False
            data = os.read(stream.fileno(), 1 << 16)
            self._data += data
            if not data:
                self.has_ended = True
                return True
        return True

    def take(self) -> dict[str, Any] | None:
        """Return the answer that is there, or None if the process ended without one."""
        if not self._is_whole():
            return None
        answer: dict[str, Any] = marshal.loads(memoryview(self._data)[LENGTH:])
        self._data = bytearray()
        return answer

    def interrupt(self) -> None:
        """Let the process end, and have the database cancel what it runs."""
        self._signal(signal.SIGINT)

    def wait(self, deadline: float) -> None:
        """Wait until the process has ended, or until a time of the monotonic clock."""
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)

    def close(self) -> int | None:
        """End it and return its exit code, negative for a signal; safe in a signal's handler."""
        self._signal(signal.SIGKILL)
        self.wait(time.monotonic() + ENDING)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return self._process.returncode

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, number)
            except OSError:
                return

    def _is_whole(self) -> bool:
        size = len(self._data) - LENGTH
        return size >= 0 and size >= int.from_bytes(self._data[:LENGTH], "big")


class StatementProcesses:
    """The processes of one session, of which each runs one call at a time."""

    __slots__ = ("_all", "_closed", "_idle", "_slots", "_workspace", "latest")

    def __init__(self, workspace: Any) -> None:
        from queue import SimpleQueue

        self._workspace = workspace
        self._all: dict[StatementProcess, None] = {}
        self._closed = False
        self._idle: list[StatementProcess] = []
        self._slots: SimpleQueue[None] = SimpleQueue()
        self.latest: StatementCall | None = None
        for _ in range(MOST):
            self._slots.put(None)

    def idle(self) -> StatementProcess | None:
        """Return a process that waits for a call, or None."""
        from queue import Empty

        try:
            self._slots.get_nowait()
        except Empty:
            return None
        child = self._next()
        if child is None:
            self._slots.put(None)
        return child

    def take(self, call: StatementCall) -> StatementProcess:
        """Return a process for a call once one may run; raises `ToolError`."""
        from queue import Empty

        while True:
            if call.is_left:
                raise ToolError(LEFT)
            left = call.left()
            if left <= 0:
                raise ToolError(BUSY)
            try:
                self._slots.get(timeout=min(left, LOOK))
                break
            except Empty:
                continue
        try:
            return self._next() or self._started()
        except BaseException:
            self._slots.put(None)
            raise

    def give_back(self, child: StatementProcess, *, keep: bool) -> int | None:
        """Keep a process for the next call, or end it and return its exit code."""
        try:
            if keep and child.is_alive and not self._closed:
                self._idle.append(child)
                return None
            self._all.pop(child, None)
            return child.close()
        finally:
            self._slots.put(None)

    def close(self) -> None:
        """End all of them; safe in a signal's handler."""
        self._closed = True
        for child in [*self._all]:
            child.interrupt()
        deadline = time.monotonic() + ENDING
        for child in [*self._all]:
            child.wait(deadline)
            child.close()

    def _next(self) -> StatementProcess | None:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
            self._all.pop(child, None)
            child.close()
        return None

    def _started(self) -> StatementProcess:
        # The refusals of a database that has moved are those of the session.
        self._workspace.snapshot(lambda: None)
        try:
            child = StatementProcess(self._workspace)
        except OSError as error:
            raise ToolError(f"cannot start a process for it: {error}") from error
        self._all[child] = None
        if self._closed:
            child.interrupt()
        return child
