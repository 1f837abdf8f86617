"""Runs processes beside the server, remembers them and what they wrote, and stops them."""

from __future__ import annotations

import os
import sys
import time

from ..errors import ToolError
from .groups import RUNNING, Group, Guard, Job, Stop, end_groups
from .guard import CERTAIN, mark_of
from .pipes import Latch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .pipes import Pipes

CLOSING = 2.0  # seconds that tasks have to end when the server does
SETTLING = 0.5  # seconds in which their ends are noted, unless a handler interrupts who would
HELD = 50  # pipes of ended tasks that are read on, since a process holds them
EMPTYING = 1.0  # seconds in which the pipes of an ended task are read, if nobody holds them
ALWAYS = float("inf")


class FullError(ToolError):
    """As many processes are running as may; nothing was started."""


class NotRunningError(ToolError):
    """The process that should be stopped has ended already."""


class ClosedError(ToolError):
    """The server is ending; nothing was started."""


class PendingStart:
    """A process that is being started: `job` is there when `done` opens, or `problem` is why not.

    That happens on the thread that then watches the process. So a signal's handler that interrupts
    its starter can wait until the process is there to be ended.
    """

    __slots__ = ("done", "job", "problem")

    def __init__(self) -> None:
        self.done = Latch()
        self.job: Job | None = None
        self.problem: Exception = OSError("the process was not started")


class Jobs:
    """The processes of tasks; for many threads, and `close` also for a signal's handler.

    At most `most` run at once. One that has ended is forgotten `keep` seconds later, or when `kept`
    have ended after it, or when it is said to; one that is running never is. Of those that have
    ended, the first to end lose their output where all is more than `budget` bytes, and their pipes
    where too many are held by what they have left behind. No lock guards this: each step is one
    operation of a list or a dict, which is whole, so that a handler can interrupt whichever thread
    it likes.

    What a task leaves behind when it ends by itself lives on until the server ends; when a task is
    stopped, nothing of it does. Each task has a token in its environment, by which its processes
    are known on Linux wherever they have gone.
    """

    __slots__ = (
        "_budget",
        "_closed",
        "_guard",
        "_jobs",
        "_keep",
        "_kept",
        "_numbers",
        "_pending",
        "_slots",
        "_stops",
        "_token",
        "most",
    )

    def __init__(
        self,
        *,
        most: int,
        keep: float = ALWAYS,
        kept: int = sys.maxsize,
        budget: int = sys.maxsize,
    ) -> None:
        self.most = most
        self._keep = keep
        self._kept = kept
        self._budget = budget
        self._slots = [None] * most  # one for each process that may be started
        self._pending: dict[PendingStart, None] = {}
        self._jobs: dict[Job, None] = {}  # oldest first
        self._stops: dict[Job, Stop] = {}
        self._token = f"{os.urandom(8).hex()}."
        self._numbers = iter(range(1, sys.maxsize))
        self._guard = Guard(self._token)
        self._closed = False

    def start(
        self,
        argv: Sequence[str],
        *,
        pipes: Pipes,
        cwd: str,
        environment: Mapping[str, str],
        about: Any = None,
    ) -> Job:
        """Start a process in a folder, which is its PWD too, with all of its environment.

        `pipes` are its own, and not open yet. Raises `FullError`, `ClosedError`, and OSError where
        the process cannot be started; then nothing is remembered.
        """
        from threading import Thread

        self._collect()
        self.take()
        pending = PendingStart()

        def create() -> Job:
            return self._create(argv, pipes, cwd, environment, about)

        thread = Thread(target=self._run, args=(pending, create), name="task", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self.give_back()
            raise OSError(str(error)) from error
        pending.done.wait()
        if pending.job is None:
            raise pending.problem
        return pending.job

    def take(self) -> None:
        """Let something count as a process that runs; raises `FullError`."""
        try:
            self._slots.pop()
        except IndexError:
            raise FullError(f"{self.most} processes are running, which is the maximum") from None

    def give_back(self) -> None:
        """Let what was taken count no longer."""
        self._slots.append(None)

    def running(self) -> list[Job]:
        """Return those that are running, the oldest first."""
        self._collect()
        return [job for job in list(self._jobs) if job.state == RUNNING]

    def all(self) -> list[Job]:
        """Return all that are remembered, the newest first."""
        self._collect()
        return list(self._jobs)[::-1]

    def find(self, pid: int) -> Job | None:
        """Return the one of a process id: the running one, else the newest that had it."""
        found = [job for job in self.all() if job.pid == pid]
        return next((job for job in found if job.state == RUNNING), found[0] if found else None)

    def stop(self, job: Job, grace: float) -> str:
        """End a process and all that it has started, by force after the grace, in seconds.

        Returns "graceful" if the process ended when asked to, "killed", or "failed" if it is
        running still. Raises `NotRunningError`. Where it is being stopped already, the answer is
        that of the other, which takes no longer than this grace from now.
        """
        self._collect()
        own = Stop(grace)
        stop = self._stops.setdefault(job, own)
        if stop is own:
            try:
                self._stop(job, stop)
            finally:
                self._stops.pop(job, None)
                stop.done.open()
            self._spare(self._ended())
        else:
            stop.hasten(grace)
            stop.done.wait()
        if not stop.how:
            raise NotRunningError(f"Job with PID {job.pid} is not running")
        return stop.how

    def signal(self, job: Job, number: int) -> None:
        """Send a signal to the group of a process; nothing happens where it has ended."""
        if job.group.hold():
            try:
                os.killpg(job.pid, number)
            except ProcessLookupError:
                return
            finally:
                self._let_go(job)

    def forget(self, job: Job) -> None:
        """Let go of a process that has ended, and of what it wrote; one that runs is kept."""
        if job.state != RUNNING:
            job.pipes.abandon()
            self._jobs.pop(job, None)

    def close(self) -> None:
        """End all that was started, by force after two seconds; nothing can be started any more.

        May be called again at any moment, also by a handler that interrupts it.
        """
        self._closed = True
        deadline = time.monotonic() + CLOSING
        for pending in list(self._pending):
            pending.done.wait(deadline - time.monotonic())
        held = [job for job in list(self._jobs) if job.group.hold()]
        if self._guard.is_begun:  # else there was no task ever
            mark = mark_of(self._token, whole=False)
            end_groups([job.group for job in held], mark, lambda: deadline - time.monotonic())
        for job in held:
            self._let_go(job)
        settled = time.monotonic() + SETTLING
        for job in held:
            job.ended.wait(settled - time.monotonic())
        for job in list(self._jobs):
            job.pipes.abandon()
        self._guard.close()

    def _stop(self, job: Job, stop: Stop) -> None:
        """End a process, and note how that went."""
        if not job.group.hold():
            return
        stop.how = "failed"
        try:
            end_groups([job.group], mark_of(job.group.token), stop.left)
        finally:
            self._let_go(job)
        if job.group.gone.is_open:
            job.wait(CERTAIN)
            stop.how = "killed" if job.group.killed else "graceful"

    def _run(self, pending: PendingStart, create: Callable[[], Job]) -> None:
        """Start a process and watch it to its end, on a thread of its own."""
        self._pending[pending] = None  # from here on, `close` waits for it
        try:
            pending.job = create()
        except (OSError, ToolError) as error:
            pending.problem = error
        finally:
            if pending.job is None:
                self.give_back()
            self._pending.pop(pending, None)
            pending.done.open()
        if pending.job is not None:
            pending.job.group.watch()
            self._let_go(pending.job)
            self._spare(self._ended())

    def _create(
        self,
        argv: Sequence[str],
        pipes: Pipes,
        cwd: str,
        environment: Mapping[str, str],
        about: Any,
    ) -> Job:
        if self._closed:
            raise ClosedError("the server is ending")
        if not hasattr(os, "killpg"):
            raise OSError("starting processes requires a POSIX system")
        self._guard.start()
        token = f"{self._token}{next(self._numbers)}"
        pipes.open()
        try:
            group = Group(argv, pipes=pipes, cwd=cwd, environment=environment, token=token)
        finally:
            pipes.pass_on()
        self._guard.add(group.pid)
        job = Job(group, pipes, about)
        self._jobs[job] = None
        return job

    def _let_go(self, job: Job) -> None:
        """Hold the group of a job no longer; the last to do so notes how its process has ended."""
        if not job.group.release():
            return
        self._guard.remove(job.pid)
        job.complete(job.group.reap())
        self.give_back()
        job.ended.open()

    def _collect(self) -> None:
        """Forget those that ended long ago, and the oldest where there are too many."""
        ended = self._ended()
        surplus = len(ended) - self._kept
        limit = time.monotonic() - self._keep
        for index, job in enumerate(ended):
            if index < surplus or job.finished <= limit:
                self.forget(job)
        self._spare(ended)

    def _ended(self) -> list[Job]:
        """Return those that have ended and are remembered, the first to end first."""
        ended = [job for job in list(self._jobs) if job.state != RUNNING]
        return sorted(ended, key=_by_end)

    def _spare(self, ended: list[Job]) -> None:
        """Let those that have ended cost no more than they may; the first to end give way."""
        limit = time.monotonic() - EMPTYING
        held = [job for job in ended if job.finished < limit and not job.pipes.dry.is_open]
        for job in held[:-HELD]:
            job.pipes.abandon()
        room = self._budget
        for job in reversed(ended):
            room -= job.pipes.weight
            if room < 0:
                job.pipes.drop()


def _by_end(job: Job) -> float:
    return job.finished
