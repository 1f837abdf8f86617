"""What is known of a process of a task, while it runs and afterwards."""

from __future__ import annotations

import signal
import time

from .latch import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .groups import Group
    from .pipes import Pipes

RUNNING, EXITED, FAILED = "running", "exited", "failed"
REST = 0.2  # seconds in which what an ended process has written is read, if others hold its pipe


class Job:
    """A process of a task, running or ended.

    `about` is what its starter wants to remember of it, `output` keeps what it and its children
    wrote to their standard output. `state` is "running", "exited" (it ended by itself, with
    `exit_code`) or "failed" (it did not: `error` says why in one sentence, `signal` is the number
    of the signal that ended it, if any). `completed_at` is the time of the end as RFC 3339 says, in
    UTC. The state is the last to change: what is read after it belongs to it.
    """

    __slots__ = (
        "about",
        "completed_at",
        "ended",
        "error",
        "exit_code",
        "finished",
        "group",
        "output",
        "pid",
        "pipes",
        "signal",
        "started",
        "state",
    )

    def __init__(self, group: Group, pipes: Pipes, about: Any) -> None:
        self.group = group
        self.pid = group.pid
        self.pipes = pipes
        self.output: Any = pipes.output  # of the kind that the starter gave
        self.about = about
        self.started = time.monotonic()
        self.finished = 0.0  # seconds of the monotonic clock, once it has ended
        self.ended = Latch()
        self.state = RUNNING
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.error: str | None = None
        self.completed_at: str | None = None

    def elapsed(self) -> int:
        """Return for how many whole seconds it has run."""
        running = self.state == RUNNING
        return int((time.monotonic() if running else self.finished) - self.started)

    def wait(self, seconds: float) -> bool:
        """Wait until the process has ended, for at most these seconds; whether it has.

        What it has written is read by then, unless others hold its pipe and the machine is slow.
        """
        if not self.ended.wait(seconds):
            return False
        self.pipes.dry.wait(self.finished + REST - time.monotonic())
        return True

    def complete(self, code: int | None) -> None:
        """Note how the process has ended: `code` is as `Group.reap` returns it."""
        self.finished = time.monotonic()
        self.completed_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if code is not None and code >= 0:
            self.exit_code = code
        elif code is None:
            self.error = "its exit code is lost: the server's system does not keep it"
        else:
            self.signal = -code
            by_us = self.group.killed and self.signal == signal.SIGKILL
            ended = f"ended by signal {self.signal} ({signal.strsignal(self.signal)})"
            self.error = "did not end when asked to, and was killed" if by_us else ended
        self.state = FAILED if self.error else EXITED
