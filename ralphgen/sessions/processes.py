"""The servers that hold a session's lock: found without guessing, and ended as a client would."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ralphgen.runtime.access.session_lock import LOCK
from ralphgen.sessions.store import try_lock

PATIENCE = 5_000  # milliseconds for what takes some
OPTION = "--context"  # that names the session on a server's command line
_PROC = Path("/proc")


class Lock:
    """The lock of a session's folder, kept open so that it is known after its file is gone."""

    def __init__(self, folder: Path) -> None:
        """Opens the lock in `folder`, if there is one; a link is none."""
        self._file: int | None = None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with suppress(OSError):
            self._file = os.open(folder / LOCK, flags)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    def is_held(self) -> bool:
        """Whether a server holds it; none where the machine has no such locks."""
        return self._file is not None and not try_lock(self._file)

    def end_holders(self, context: Path) -> int:
        """End each server that was started with `context` and holds this lock; how many ended.

        Only where the machine lets a process be named for certain (Linux): a number alone may mean
        another process by the time that the signal is sent.
        """
        if self._file is None or not hasattr(os, "pidfd_open"):
            return 0
        return sum(_ended(pid, context, self._file) for pid in _numbers())


def _numbers() -> Iterator[int]:
    with suppress(OSError):
        for entry in _PROC.iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                yield int(entry.name)


def _ended(pid: int, context: Path, lock: int) -> bool:
    """End a process if it is such a server; whether it was one and has ended."""
    try:
        if not _serves(pid, context):
            return False
        process = os.pidfd_open(pid)
        try:  # from here on, a number that came to mean another process is of no harm
            return _serves(pid, context) and _has_open(pid, lock) and _terminated(process)
        finally:
            os.close(process)
    except OSError:  # it has ended meanwhile, or is another user's
        return False


def _terminated(process: int) -> bool:
    """Whether the process of a descriptor ends when it is asked to."""
    signal.pidfd_send_signal(process, signal.SIGTERM)
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(PATIENCE))


def _serves(pid: int, context: Path) -> bool:
    """Whether the command line of a process names the context."""
    words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == OPTION.encode()]
    return os.path.realpath(context) in [os.path.realpath(os.fsdecode(path)) for path in named]


def _has_open(pid: int, file: int) -> bool:
    own = os.fstat(file)
    for entry in (_PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(entry.stat(), own):
                return True
    return False
