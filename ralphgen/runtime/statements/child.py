"""The process that runs statements of a project, one call at a time, until its server is gone.

Each message is its length and then plain values, in the form that the interpreter has for them:
both ends are the same server on the same interpreter.
"""

from __future__ import annotations

import marshal
import os
import signal

from ..deferred import Waiter, wait_as
from ..errors import StartError, ToolError, log_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPTION = "--statements"  # with which server.py runs this
LENGTH = 8  # bytes that hold the length of a message
MEMORY = 160_000_000  # bytes for the statements of one call; what may be answered is an eighth
GRACE = 0.4  # seconds in which SQLite, or PostgreSQL, ends a statement by itself
TOO_MUCH = "this needs too much memory and was stopped: ask for fewer rows, or for less of each"


class Limit(Waiter):
    """The limits of one call, which the system enforces whatever the statement does."""

    __slots__ = ("longest", "memory")

    def __init__(self, seconds: float) -> None:
        self.longest = seconds
        self.memory = _memory_limit()

    def limit(self, seconds: float) -> None:
        """End this process if what follows takes longer, or fail it if it needs too much memory.

        0 lifts both limits.
        """
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE if seconds else 0)
        if self.memory is not None:
            import resource

            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (self.memory if seconds else hard, hard))


def serve(open_workspace: Callable[[dict[str, Any]], Any]) -> int:
    """Answer calls on standard input and output; the first message describes the session."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing that is printed is an answer
    workspace: Any = None
    session = receive(source)
    while (call := receive(source)) is not None:
        try:
            wait_as(Limit(call["seconds"]))
            workspace = workspace or open_workspace(session or {})
            run = _made(*call["make"])
            message = packed({"answer": run(workspace, call["arguments"])})
        except (StartError, ToolError) as error:
            message = packed({"refused": str(error)})
        except MemoryError:
            message = packed({"refused": TOO_MUCH, "ends": True})
        except KeyboardInterrupt:  # the call was left, and PostgreSQL was told to cancel it
            os._exit(0)
        except Exception:
            log_exception("statements", make=call["make"][:2])
            message = packed({"failed": True})
        while message:
            message = message[os.write(target, message) :]
    if workspace is not None:
        workspace.close()
    return 0


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


def receive(source: int) -> dict[str, Any] | None:
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


def _memory_limit() -> int | None:
    """Return how many bytes this process may have, or None if the system does not count them."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[0])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
