"""Runs SQL of the project in child processes, which end if a statement exceeds its limit.

A child starts when a call needs one, and runs one call at a time until its server exits. A message
is its length and then marshalled plain values: both ends are the same server on the same
interpreter.
"""

from __future__ import annotations

import _thread
import marshal
import os
import signal
import sys
import time

from ..deferred import DeferredResult, Waiter, wait_as
from ..errors import NotThereError, StartError, ToolError, log_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Make


OPTION = "--statements"  # makes server.py run this module
LENGTH_BYTES = 8  # bytes of the length field
CALL_MEMORY = 160_000_000  # bytes for the statements of one call; an answer may have an eighth
TIMER_GRACE = 0.4  # seconds for the database to end a statement itself
TOO_MUCH = "this needs too much memory and was stopped: ask for fewer rows, or for less of each"


class CallLimits(Waiter):
    """The limits of a call; the operating system enforces them on any statement."""

    __slots__ = ("_memory", "longest")

    def __init__(self) -> None:
        self.longest = 0.0  # seconds of the current call
        self._memory: int | None = None  # bytes, including the use before the first statement
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the client may have ignored or blocked it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])

    def limit(self, seconds: float) -> None:
        """Limit the time and memory of this process: it is killed, or its allocations fail.

        0 lifts both limits.
        """
        import resource

        signal.setitimer(signal.ITIMER_REAL, seconds + TIMER_GRACE if seconds else 0)
        if self._memory is None:
            self._memory = _used_memory() + CALL_MEMORY
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = most if not seconds or self._memory == CALL_MEMORY else self._memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def serve(open_workspace: Callable[[dict[str, Any]], Any]) -> int:
    """Answer calls on standard input and output; the first message describes the session."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # printed text must not mix with answers
    limits, workspace = CallLimits(), None
    wait_as(limits)
    try:
        session = _read_message(source) or {}
        while (call := _read_message(source)) is not None:
            limits.longest = call["seconds"]
            try:
                workspace = workspace or open_workspace(session)
                message = packed(_outcome(workspace, call))
            except StartError as error:
                message = packed({"refused": str(error), "ends": True})
            while message:
                message = message[os.write(target, message) :]
        if workspace is not None:
            workspace.close()
    except KeyboardInterrupt:  # the call was abandoned; the driver cancelled it
        os._exit(0)
    return 0


def _outcome(workspace: Any, call: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call: an answer or a refusal."""
    try:
        return {"answer": _tool_of(*call["make"])(workspace, call["arguments"])}
    except ToolError as error:
        return {"refused": str(error), "missing": isinstance(error, NotThereError)}
    except MemoryError:
        return {"refused": TOO_MUCH, "ends": True}
    except Exception:
        log_exception("statements", make=call["make"][:2])
        return {"failed": True}


def recreation_values(make: Callable[[Any], Any], about: Any) -> tuple[Any, ...]:
    """Return plain values for a child to recreate the tool that `make` returns here."""
    kind = type(about)
    slots = {slot: getattr(about, slot) for slot in kind.__slots__}
    return make.__module__, make.__name__, kind.__module__, kind.__name__, slots


def _tool_of(
    module: str, name: str, of_kind: str, kind: str, slots: dict[str, Any]
) -> Callable[[Any, dict[str, Any]], Any]:
    found = getattr(__import__(of_kind, None, None, [kind]), kind)
    about = found.__new__(found)
    for slot, value in slots.items():
        setattr(about, slot, value)
    decorated = getattr(__import__(module, None, None, [name]), name)
    run: Callable[[Any, dict[str, Any]], Any] = vars(decorated)["make"](about)
    return run


def packed(values: dict[str, Any]) -> bytes:
    """Return a message."""
    data = marshal.dumps(values)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def _read_message(source: int) -> dict[str, Any] | None:
    """Return the next message, or None at the end of the stream."""
    head = _read_bytes(source, LENGTH_BYTES)
    data = _read_bytes(source, int.from_bytes(head, "big")) if head else b""
    return marshal.loads(data) if data else None


def _read_bytes(source: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(source, size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)


def _used_memory() -> int:
    """Return the size of this process in bytes, or 0 if it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


PROCESSES = 4  # parallel calls of a session; more calls wait
KILL_WAIT = 0.5  # seconds for a killed child to exit
POLL = 0.2  # seconds between checks for cancellation
CANCELLED = "the call was cancelled"
BUSY = "as many queries of this session run as may at once: try again"


class StatementProcess:
    """A process, and the part of its answer that has arrived."""

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
        """Whether the process accepts calls."""
        return not self.has_ended and self._process.poll() is None

    def send(self, message: dict[str, Any]) -> None:
        """Write a message; if the process has closed its input, note its end."""
        stream = self._process.stdin
        data = memoryview(packed(message))
        try:
            while data and stream is not None:
                data = data[stream.write(data) or 0 :]
        except OSError:
            self.has_ended = True

    def is_there(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether the answer or the end of the process arrived."""
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
        """Return the complete answer, or None if the process ended without one."""
        if not self._is_whole():
            return None
        answer: dict[str, Any] = marshal.loads(memoryview(self._data)[LENGTH_BYTES:])
        self._data = bytearray()
        return answer

    def interrupt(self) -> None:
        """Interrupt the process, so that the database cancels its statement."""
        self._signal(signal.SIGINT)

    def wait(self, deadline: float) -> None:
        """Wait until the process has ended, or until a time of the monotonic clock."""
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)

    def close(self) -> int | None:
        """End it and return its exit code, negative for a signal; safe in a signal's handler."""
        self._signal(signal.SIGKILL)
        self.wait(time.monotonic() + KILL_WAIT)
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
        size = len(self._data) - LENGTH_BYTES
        return size >= 0 and size >= int.from_bytes(self._data[:LENGTH_BYTES], "big")


class StatementProcesses:
    """The processes of one session; each runs one call at a time."""

    __slots__ = ("_all", "_closed", "_idle", "_slots", "_workspace", "latest")

    def __init__(self, workspace: Any) -> None:
        from queue import SimpleQueue

        self._workspace = workspace
        self._all: dict[StatementProcess, None] = {}
        self._closed = False
        self._idle: list[StatementProcess] = []
        self._slots: SimpleQueue[None] = SimpleQueue()
        self.latest: StatementCall | None = None
        for _ in range(PROCESSES):
            self._slots.put(None)

    def idle(self) -> StatementProcess | None:
        """Return an idle process, or None."""
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
                raise ToolError(CANCELLED)
            left = call.remaining_seconds()
            if left <= 0:
                raise ToolError(BUSY)
            try:
                self._slots.get(timeout=min(left, POLL))
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
        deadline = time.monotonic() + KILL_WAIT
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
        # Refuse a changed schema here, with the messages of the session.
        self._workspace.snapshot(lambda: None)
        try:
            child = StatementProcess(self._workspace)
        except OSError as error:
            raise ToolError(f"cannot start a process for it: {error}") from error
        self._all[child] = None
        if self._closed:
            child.interrupt()
        return child


USUAL_LIMIT = 20  # seconds for a call without another limit
QUICK_WAIT = 0.05  # seconds to wait for an answer before serving other calls
TURN_WAIT = 0.3  # seconds to wait for the previous call
WRITER_WAIT = 20.0  # seconds to wait for other writers, in addition to the limit
START_WAIT = 20.0  # seconds for a child to be ready
ENDED = "the process that ran this ended: nothing was changed; try again"
LOST = "the process that ran this did not answer: look whether it was done before you try again"
TOO_LONG = (
    "this took longer than {} and was stopped: nothing was changed; ask for less, or have a user "
    "look for a trigger or a view that does not end"
)


def begin(
    workspace: Any, make: Make, about: Any, arguments: dict[str, Any]
) -> dict[str, Any] | DeferredResult:
    """Start a call of the tool that `make` returns; return its answer, or a deferred result."""
    # Without process groups, the children of a child could not be killed.
    if OPTION in sys.argv or not hasattr(os, "killpg"):
        answer: dict[str, Any] = make(about)(workspace, arguments)
        return answer
    call = StatementCall(_children(workspace), make, about, arguments)
    if call.is_answered_at_once():
        return call.outcome()
    return DeferredResult(call.outcome, call.leave, finishes=True)


def _children(workspace: Any) -> StatementProcesses:
    """Return the processes of a session; closing the workspace ends them."""
    found = [one for one in workspace.beside if isinstance(one, StatementProcesses)]
    if not found:
        found = [StatementProcesses(workspace)]
        workspace.beside.append(found[0])
    return found[0]


class StatementCall:
    """One call: it is answered, refused, abandoned or stopped."""

    __slots__ = (
        "_before",
        "_begun",
        "_child",
        "_children",
        "_is_awaited",
        "_lock",
        "_request",
        "_seconds",
        "_took_too_long",
        "done",
        "is_left",
    )

    def __init__(
        self, children: StatementProcesses, make: Make, about: Any, arguments: dict[str, Any]
    ) -> None:
        from threading import Event

        self._seconds = float(getattr(about, "seconds", USUAL_LIMIT))
        self._took_too_long = str(getattr(about, "took_too_long", ""))
        self._request = {"make": recreation_values(make, about), "arguments": arguments}
        self._begun = time.monotonic()
        self._child: StatementProcess | None = None
        self._children = children
        self._is_awaited = False
        self._lock = _thread.allocate_lock()  # guards changes of `_child`
        self.done = Event()
        self.is_left = False
        self._before, children.latest = children.latest, self

    def remaining_seconds(self) -> float:
        """Return the remaining seconds of its limit."""
        return self._begun + self._seconds - time.monotonic()

    def is_answered_at_once(self) -> bool:
        """Start it if a child is idle; return whether the answer arrives within `QUICK_WAIT`."""
        if self._before is not None and not self._before.done.is_set():
            return False
        child = self._children.idle()
        if child is None:
            return False
        self._send(child)
        return child.is_there(QUICK_WAIT)

    def outcome(self) -> dict[str, Any]:
        """Wait for the answer and return it; raises `ToolError`."""
        with self._lock:
            if self._is_awaited:
                raise ToolError(CANCELLED)
            self._is_awaited = True
        try:
            return self._outcome()
        finally:
            self._before = None
            self.done.set()

    def leave(self) -> None:
        """Abandon the call: a running statement is rolled back."""
        with self._lock:
            self.is_left = True
            if self._child is not None:
                self._child.interrupt()
            is_awaited = self._is_awaited
        if not is_awaited:  # and may never be
            _thread.start_new_thread(self._give_up, ())

    def _give_up(self) -> None:
        """Return the child to the pool once the call has ended."""
        try:
            self.outcome()
        except (RuntimeError, ToolError):
            return

    def _outcome(self) -> dict[str, Any]:
        child = self._child
        if child is None:
            wait_as(None)  # this thread does not hold the turn on the workspace
            if self._before is not None:
                self._before.done.wait(TURN_WAIT)
                self._begun = time.monotonic()
            child = self._children.take(self)
            self._send(child)
        deadline = time.monotonic() + self._seconds + WRITER_WAIT + START_WAIT
        is_there = child.is_there(POLL)
        while not is_there and not self.is_left and time.monotonic() < deadline:
            is_there = child.is_there(POLL)
        if self.is_left:
            child.is_there(KILL_WAIT)
        answer = child.take()
        with self._lock:
            self._child = None
        keep = answer is not None and "ends" not in answer
        code = self._children.give_back(child, keep=keep)
        if answer is None:
            raise ToolError(self._ended(code) if is_there else LOST)
        if "refused" in answer:
            kind = NotThereError if answer.get("missing") else ToolError
            raise kind(str(answer["refused"]))
        if "failed" in answer:
            raise RuntimeError("a statement failed in its process; see the server's log")
        found: dict[str, Any] = answer["answer"]
        return found

    def _send(self, child: StatementProcess) -> None:
        with self._lock:
            self._child = child
            if self.is_left:
                child.interrupt()
        child.send({**self._request, "seconds": max(self.remaining_seconds(), QUICK_WAIT)})

    def _ended(self, code: int | None) -> str:
        """Return why the process has ended."""
        if self.is_left:
            return CANCELLED
        if code == -signal.SIGALRM and self._took_too_long:
            return self._took_too_long
        if code == -signal.SIGALRM:
            seconds = f"{self._seconds:g}"
            return TOO_LONG.format("1 second" if seconds == "1" else f"{seconds} seconds")
        return ENDED
