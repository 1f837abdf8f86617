"""The processes that a server runs for its client: their start, their output and their end."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

from ..errors import ToolError
from .guard import CERTAIN, VARIABLE, end_quietly, kill, mark_of, reach, with_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from subprocess import Popen
    from typing import Any, Protocol

    class Output(Protocol):
        """Keeps the output of a process, as much of it as it likes."""

        @property
        def weight(self) -> int:
            """Approximate memory cost of the kept output, in bytes."""

        def add(self, data: bytes) -> None:
            """Take the next bytes that were written."""

        def end(self) -> None:
            """Know that nothing more comes."""

        def drop(self) -> None:
            """Discard the kept output."""


PIPE_SIZE = 1 << 16  # bytes of one read: the capacity of a pipe
ABANDONED_WITHIN = 1000  # milliseconds until abandoned pipes are closed


class Pipes:
    """The three streams of a process; their other ends are read and written here.

    The standard output of the process and its children is added to `output`, their standard error
    to `error`; without `error`, it goes to `output` as well, in its true order. They read `given`,
    or an end of file. Unread input blocks nothing.

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
        """Approximate memory cost of the data that was read and is kept, in bytes."""
        return self.output.weight + (self._error.weight if self._error is not None else 0)

    def open(self) -> None:
        """Start to read and to write; raises OSError if there are no more files or threads."""
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
        """Close the pipes within a second, even if a process still holds their other ends."""
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
        """Discard the data that was read."""
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
            for end, _ in ready.poll(ABANDONED_WITHIN):
                if not (self._write() if end == self._writer else self._read(end)):
                    ready.unregister(end)
                    self._finish(end)
        for end in [*self._readers, self._writer]:
            self._finish(end)

    def _read(self, source: int) -> bool:
        """Return whether something was read."""
        self._reading = True
        data = os.read(source, PIPE_SIZE)
        if data:
            self._readers[source].add(data)
        self._reading = False
        return bool(data)

    def _write(self) -> bool:
        """Return whether there is more to write, and a reader for it."""
        try:
            self._given = self._given[os.write(self._writer, self._given) :]
        except BlockingIOError:  # less room than an atomic write takes
            return True
        except OSError:  # no reader is left
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
    """Opens once, for every waiting thread.

    An event of `threading` holds its own lock for a moment: a handler that interrupts its thread in
    that moment would wait for it forever. Here no lock is held that another thread needs.
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
    """Keeps the end of a process's output: `kept` bytes, which are few.

    `cut` is true if it wrote more.
    """

    __slots__ = ("_data", "_kept", "cut")

    def __init__(self, kept: int) -> None:
        self._data = b""
        self._kept = kept
        self.cut = False

    @property
    def weight(self) -> int:
        """Number of kept bytes."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Take the next bytes that were written."""
        written = self._data + data
        self.cut |= len(written) > self._kept
        self._data = written[-self._kept :]

    def end(self) -> None:
        """Know that nothing more comes."""

    def drop(self) -> None:
        """Keep the data: it is small."""

    def text(self) -> str:
        """Return the kept data as text, with U+FFFD for bytes that are not UTF-8."""
        return self._data.decode("utf-8", "replace")


GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
STOP_POLL = 0.1  # seconds between two looks of a waiting thread for a less patient one
GUARD_EXIT = 1.0  # seconds for the guard to end by itself
RUNNING, EXITED, FAILED = "running", "exited", "failed"
REST_OF_OUTPUT = 0.2  # seconds for others that hold the pipe of an ended process to write on
READ_BY = 2.0  # seconds to read the output of an ended process on a busy machine
POLL = 0.01  # seconds between two looks whether it is


class Group:
    """A process and its descendants: `pid` is the id of the process, its group and its session.

    The process is waited for only when the group has no holder left, so its id is never reused
    while a signal is sent to it; the creator of the group holds it. `gone` opens when the process
    has ended. `killed` is true if it did not end on request. `token` is in the environment of all
    of them, so processes that leave the session can be found as well.
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
        """Start the process with its own ends of `pipes`.

        Raises OSError if it cannot be started.
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
        """Hold the group no longer; return whether it has no holder left and needs `reap`."""
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

    `how` is the outcome when `done` opens: a word, or "" if there was nothing to end.
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

    def remaining_seconds(self) -> float:
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
        while not group.gone.wait(min(STOP_POLL, left())) and left() > 0:
            pass  # it may be hastened meanwhile
    end_quietly(leaders, mark, left)
    for group in groups:
        group.killed |= not group.gone.is_open
    deadline = time.monotonic() + CERTAIN
    kill(leaders, mark, deadline)
    for group in groups:
        group.gone.wait(deadline - time.monotonic())


class Guard:
    """The program that ends tasks when the server is killed; tasks run without it, too."""

    __slots__ = ("_lock", "_process", "_token", "_tried")

    def __init__(self, token: str) -> None:
        """`token` is what the tokens of all tasks begin with."""
        self._token = token
        self._process: Popen[bytes] | None = None
        self._tried = False
        self._lock = _thread.allocate_lock()

    @property
    def is_begun(self) -> bool:
        """True if a start was attempted."""
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
                    (sys.executable, "-I", "-S", GUARD, self._token),
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # readers of the server's own must see them close
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
        """Report that a task has ended, before its id can be reused."""
        self._tell(b"-%d\n" % leader)

    def close(self) -> None:
        """Let the program end."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        import subprocess

        process.stdin.close()
        try:
            process.wait(GUARD_EXIT)
        except subprocess.TimeoutExpired:
            return  # it is still ending stubborn processes

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

    `about` is any value that its starter attaches, `output` keeps the standard output of the
    process and its children. `state` is "running", "exited" (it ended by itself, with `exit_code`)
    or "failed" (it did not: `error` has the reason in one sentence, `signal` is the number of the
    signal that ended it, if any). `completed_at` is the time of the end in the format of RFC 3339,
    in UTC. The state is the last to change: values read after it belong to it.
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
        self.output: Any = pipes.output  # its type is the starter's choice
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
        """Wait until the process has ended, for at most these seconds; return whether it has.

        Its output is read by then, unless that takes more than two seconds.
        """
        if not self.ended.wait(seconds):
            return False
        is_dry = self.pipes.dry.wait(self.finished + REST_OF_OUTPUT - time.monotonic())
        while not is_dry and time.monotonic() < self.finished + READ_BY and self.pipes.is_behind():
            is_dry = self.pipes.dry.wait(POLL)
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


CLOSE_GRACE = 2.0  # seconds that tasks have to end when the server does
SETTLING = 0.5  # seconds to note their ends, unless a handler interrupts the thread that does
OPEN_PIPES = 50  # pipes of ended tasks that are read on, since a process holds them
DRAINING = 1.0  # seconds to read the pipes of an ended task, if no process holds them
FOREVER = float("inf")


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

    At most `most` run at once. An ended process is forgotten `keep` seconds later, when `kept`
    others have ended after it, or on request; a running one never is. Ended processes, the first to
    end first, lose their output if all of it exceeds `budget` bytes, and their pipes if leftover
    processes hold too many. No lock guards this: each step is one atomic operation of a list or a
    dict, so a handler can interrupt any thread.

    Processes that a task leaves behind when it ends by itself live on until the server ends; when a
    task is stopped, they end too. Each task has a token in its environment, which identifies its
    processes on Linux wherever they have gone.
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
        "_sandbox",
        "_slots",
        "_stops",
        "_token",
        "most",
    )

    def __init__(
        self,
        *,
        most: int,
        keep: float = FOREVER,
        kept: int = sys.maxsize,
        budget: int = sys.maxsize,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        self.most = most
        self._sandbox = sandbox
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

        `pipes` are its own, and not open yet. Raises `FullError`, `ClosedError`, and OSError if the
        process cannot be started; then nothing is remembered.
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
        """Return a slot that was taken."""
        self._slots.append(None)

    def running(self) -> list[Job]:
        """Return the running processes, the oldest first."""
        self._collect()
        return [job for job in list(self._jobs) if job.state == RUNNING]

    def all(self) -> list[Job]:
        """Return all remembered processes, the newest first."""
        self._collect()
        return list(self._jobs)[::-1]

    def find(self, pid: int) -> Job | None:
        """Return the one of a process id: the running one, else the newest that had it."""
        found = [job for job in self.all() if job.pid == pid]
        return next((job for job in found if job.state == RUNNING), found[0] if found else None)

    def stop(self, job: Job, grace: float) -> str:
        """End a process and everything that it has started, by force after the grace, in seconds.

        Returns "graceful" if the process ended when asked to, "killed", or "failed" if it is
        running still. Raises `NotRunningError`. If it is being stopped already, the answer is that
        of the other call, which takes no longer than this grace from now.
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
        """Send a signal to the group of a process; does nothing if the process has ended."""
        if job.group.hold():
            try:
                os.killpg(job.pid, number)
            except ProcessLookupError:
                return
            finally:
                self._let_go(job)

    def forget(self, job: Job) -> None:
        """Forget an ended process and its output; a running process is kept."""
        if job.state != RUNNING:
            job.pipes.abandon()
            self._jobs.pop(job, None)

    def close(self) -> None:
        """End every started process, by force after two seconds; no more can be started.

        May be called again at any moment, also by a handler that interrupts it.
        """
        self._closed = True
        deadline = time.monotonic() + CLOSE_GRACE
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
            end_groups([job.group], mark_of(job.group.token), stop.remaining_seconds)
        finally:
            self._let_go(job)
        if job.group.gone.is_open:
            job.wait(CERTAIN)
            stop.how = "killed" if job.group.killed else "graceful"

    def _run(self, pending: PendingStart, create: Callable[[], Job]) -> None:
        """Start a process and watch it to its end; runs on a separate thread."""
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
        if self._sandbox is not None:
            from .sandbox import contained

            argv, environment = contained(argv, cwd, environment, self._sandbox)
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
        """Forget processes that ended long ago, and the oldest if there are too many."""
        ended = self._ended()
        surplus = len(ended) - self._kept
        limit = time.monotonic() - self._keep
        for index, job in enumerate(ended):
            if index < surplus or job.finished <= limit:
                self.forget(job)
        self._spare(ended)

    def _ended(self) -> list[Job]:
        """Return the remembered processes that have ended, the first to end first."""
        ended = [job for job in list(self._jobs) if job.state != RUNNING]
        return sorted(ended, key=_end_of)

    def _spare(self, ended: list[Job]) -> None:
        """Limit the costs of ended processes; the first to end give way."""
        limit = time.monotonic() - DRAINING
        held = [job for job in ended if job.finished < limit and not job.pipes.dry.is_open]
        for job in held[:-OPEN_PIPES]:
            job.pipes.abandon()
        room = self._budget
        for job in reversed(ended):
            room -= job.pipes.weight
            if room < 0:
                job.pipes.drop()


def _end_of(job: Job) -> float:
    return job.finished
