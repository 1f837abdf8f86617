"""Starts a task's process in a session of its own, knows of it, and ends it with all its own."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

from .guard import CERTAIN, VARIABLE, end_quietly, kill, reach, with_descendants
from .pipes import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from subprocess import Popen
    from typing import Any

    from .pipes import Pipes

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
SLICE = 0.1  # seconds after which somebody who waits looks whether others are less patient
PARTING = 1.0  # seconds in which the guard ends by itself
RUNNING, EXITED, FAILED = "running", "exited", "failed"
REST = 0.2  # seconds in which those that hold the pipe of an ended process may write on
BEHIND = 2.0  # seconds in which what an ended process has written is read on a busy machine
LOOK = 0.01  # seconds between two looks whether it is


class Group:
    """A process, and those that it starts: `pid` is the id of it, of its group and its session.

    The process is waited for only when nobody holds the group any more, so that its id is never
    another's while a signal is sent to it; the one who creates the group holds it. `gone` opens
    when the process has ended. `killed` says that it did not when it was asked to. `token` is in
    the environment of all, so that those who leave the session can be found as well.
    """

    __slots__ = ("_holders", "_lock", "_lost", "_process", "gone", "killed", "pid", "token")

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        pipes: Pipes,
        token: str,
    ) -> None:
        """Start the process with the ends of pipes that are its own.

        Raises OSError where it cannot be started.
        """
        import subprocess

        try:
            process = subprocess.Popen(
                argv,
                stdin=pipes.stdin,
                stdout=pipes.stdout,
                stderr=pipes.stderr,
                cwd=cwd,
                env={**environment, "PWD": cwd, VARIABLE: token},
                start_new_session=True,
            )
        except ValueError as error:  # a NUL in a word, "=" in the name of a variable
            raise OSError(f"the command cannot be passed on: {error}") from error
        self._process: Popen[bytes] | None = process
        self.pid = process.pid
        self.token = token
        self.gone = Latch()
        self.killed = False
        self._holders = 1
        self._lost = False
        self._lock = _thread.RLock()  # a handler may interrupt the thread that has it

    def watch(self) -> None:
        """Wait until the process has ended, without taking its id from it."""
        try:
            _wait_for(self.pid)
        except ChildProcessError:  # SIGCHLD is ignored: the system has waited in our place
            self._lost = True
        self.gone.open()

    def hold(self) -> bool:
        """Keep the id of the process from being given to another; whether it is still its own."""
        with self._lock:
            if self._holders and not self._lost:
                self._holders += 1
                return True
            return False

    def release(self) -> bool:
        """Hold the group no longer; whether nobody does, so that `reap` is to be called."""
        with self._lock:
            self._holders -= 1
            return not self._holders

    def reap(self) -> int | None:
        """Return the exit code of the process, negative for the signal that ended it; None if lost.

        To be called once: nothing of the process is kept.
        """
        process, self._process = self._process, None
        code = process.wait() if process is not None else None
        return None if self._lost else code


class Stop:
    """The end of a group that is under way, which others can join, and hasten.

    `how` is what came of it when `done` opens: a word, or "" where there was nothing to be ended.
    """

    __slots__ = ("_deadline", "_lock", "done", "how")

    def __init__(self, grace: float) -> None:
        self._deadline = time.monotonic() + grace
        self._lock = _thread.allocate_lock()
        self.done = Latch()
        self.how = ""

    def hasten(self, grace: float) -> None:
        """Let it take no longer than this from now on."""
        with self._lock:
            self._deadline = min(self._deadline, time.monotonic() + grace)

    def left(self) -> float:
        """Return the seconds left for an end without force; negative when they are over."""
        return self._deadline - time.monotonic()


def end_groups(groups: Sequence[Group], mark: bytes, left: Callable[[], float]) -> None:
    """End all processes of groups, which must be held, and all others with a mark, by TERM.

    When no seconds are `left`, they are killed. Returns when they have ended, or did not although
    they were killed.
    """
    leaders = with_descendants({group.pid for group in groups})
    reach(leaders, mark, signal.SIGTERM)
    for group in groups:
        while not group.gone.wait(min(SLICE, left())) and left() > 0:
            pass  # it may be hastened meanwhile
    end_quietly(leaders, mark, left)
    for group in groups:
        group.killed |= not group.gone.is_open
    deadline = time.monotonic() + CERTAIN
    kill(leaders, mark, deadline)
    for group in groups:
        group.gone.wait(deadline - time.monotonic())


class Guard:
    """The program that ends tasks when the server is killed; where it is not, they run as well."""

    __slots__ = ("_lock", "_process", "_token", "_tried")

    def __init__(self, token: str) -> None:
        """`token` is what the tokens of all tasks begin with."""
        self._token = token
        self._process: Popen[bytes] | None = None
        self._tried = False
        self._lock = _thread.allocate_lock()

    @property
    def is_begun(self) -> bool:
        """Whether it was to be started."""
        return self._tried

    def start(self) -> None:
        """Start the program, once."""
        import subprocess

        with self._lock:
            if self._tried:
                return
            self._tried = True
            try:
                process = subprocess.Popen(
                    (sys.executable, "-I", "-S", PROGRAM, self._token),
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # who reads the server's must see them close
                    cwd="/",
                    # It must outlive a server that is part of another one's task.
                    env={name: os.environ[name] for name in os.environ if name != VARIABLE},
                    start_new_session=True,
                )
            except OSError:
                return
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
            self._process = process

    def add(self, leader: int) -> None:
        """Say that a task has started."""
        self._tell(b"+%d\n" % leader)

    def remove(self, leader: int) -> None:
        """Say that a task has ended; its id must not be another's yet."""
        self._tell(b"-%d\n" % leader)

    def close(self) -> None:
        """Let the program end."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        import subprocess

        process.stdin.close()
        try:
            process.wait(PARTING)
        except subprocess.TimeoutExpired:
            return  # it still ends what would not end

    def _tell(self, line: bytes) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.write(line)
        except (OSError, ValueError):  # it was killed, or let go of this moment
            return


def _wait_for(pid: int) -> None:
    """Wait until a child has ended, and leave it to be waited for."""
    if sys.platform != "darwin" or sys.version_info >= (3, 13):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return
    import select  # this system has no other way before Python 3.13

    event = select.kevent(
        pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
    )
    queue = select.kqueue()
    try:
        queue.control([event], 1)
    except ProcessLookupError:  # it has ended already
        return
    finally:
        queue.close()


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

        What it has written is read by then, unless that takes more than two seconds.
        """
        if not self.ended.wait(seconds):
            return False
        is_dry = self.pipes.dry.wait(self.finished + REST - time.monotonic())
        while not is_dry and time.monotonic() < self.finished + BEHIND and self.pipes.is_behind():
            is_dry = self.pipes.dry.wait(LOOK)
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
