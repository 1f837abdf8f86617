"""The process that runs statements of a project, one call at a time, until its server is gone.

Each message is its length and then plain values, in the form that the interpreter has for them:
both ends are the same server on the same interpreter.
"""

from __future__ import annotations

import marshal
import os
import signal

from ..deferred import Waiter, wait_as
from ..errors import NotThereError, StartError, ToolError, log_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPTION = "--statements"  # with which server.py runs this
LENGTH = 8  # bytes that hold the length of a message
MEMORY = 160_000_000  # bytes for the statements of one call; what may be answered is an eighth
GRACE = 0.4  # seconds in which the database ends a statement by itself
TOO_MUCH = "this needs too much memory and was stopped: ask for fewer rows, or for less of each"


class CallLimits(Waiter):
    """The limits of a call, which the system enforces whatever a statement does."""

    __slots__ = ("_memory", "longest")

    def __init__(self) -> None:
        self.longest = 0.0  # seconds of the call that runs
        self._memory: int | None = None  # bytes, with what the process has at its first statement
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the client may have ignored or blocked it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])

    def limit(self, seconds: float) -> None:
        """End this process if what follows takes longer, or fail it if it needs too much memory.

        0 lifts both limits.
        """
        import resource

        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE if seconds else 0)
        if self._memory is None:
            self._memory = _memory() + MEMORY
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = most if not seconds or self._memory == MEMORY else self._memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def serve(open_workspace: Callable[[dict[str, Any]], Any]) -> int:
    """Answer calls on standard input and output; the first message describes the session."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing that is printed is an answer
    limits, workspace = CallLimits(), None
    wait_as(limits)
    try:
        session = _received(source) or {}
        while (call := _received(source)) is not None:
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
    except KeyboardInterrupt:  # the call was left; the driver has cancelled it
        os._exit(0)
    return 0


def _outcome(workspace: Any, call: dict[str, Any]) -> dict[str, Any]:
    """Return what a call comes to: an answer, or a refusal."""
    try:
        return {"answer": _made(*call["make"])(workspace, call["arguments"])}
    except ToolError as error:
        return {"refused": str(error), "missing": isinstance(error, NotThereError)}
    except MemoryError:
        return {"refused": TOO_MUCH, "ends": True}
    except Exception:
        log_exception("statements", make=call["make"][:2])
        return {"failed": True}


def made_of(make: Callable[[Any], Any], about: Any) -> tuple[Any, ...]:
    """Return plain values of which a child makes the tool that `make` makes here."""
    kind = type(about)
    slots = {slot: getattr(about, slot) for slot in kind.__slots__}
    return make.__module__, make.__name__, kind.__module__, kind.__name__, slots


def _made(
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
    return len(data).to_bytes(LENGTH, "big") + data


def _received(source: int) -> dict[str, Any] | None:
    """Return the next message, or None if there is no other end any more."""
    head = _read(source, LENGTH)
    data = _read(source, int.from_bytes(head, "big")) if head else b""
    return marshal.loads(data) if data else None


def _read(source: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(source, size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)


def _memory() -> int:
    """Return how many bytes this process has, or 0 if the system does not count them."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
