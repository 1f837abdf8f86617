"""Marks the sessions whose agents a process of ours watches, and passes on that one is to end.

The mark is a file in the session's folder that the process holds locked: it is one of a process
that lives, whatever has become of others. Its first line is the process, and any further byte asks
that the agent ends. The agent can take it away: then it is put back.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ralphgen.runtime.files import AT_ONCE, NO_LINK
from ralphgen.sessions.held import HeldFile, is_locked
from ralphgen.sessions.store import MARK

ASKED = b"stop\n"
LOOK = 0.1  # seconds between two looks at whether an agent has ended


@contextmanager
def launched_in(folder: Path) -> Iterator[Callable[[], bool]]:
    """Mark the session in a folder as one whose agent this process watches, as long as this lasts.

    What this yields returns whether somebody has asked that the agent ends. Raises `ProjectError`
    where the mark cannot be written.
    """
    path = folder / MARK
    mark = HeldFile(path, f"{os.getpid()}\n".encode())

    def asked() -> bool:
        mark.keep()
        return mark.is_longer

    try:
        yield asked
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        mark.close()


def launcher_of(folder: Path) -> int | None:
    """Return the process that watches an agent in the session of a folder, None where none does."""
    try:
        file = os.open(folder / MARK, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return None
    try:
        first = os.read(file, 32).partition(b"\n")[0]
        return int(first) if first.isdigit() and is_locked(file) else None
    except OSError:  # no file of ours: a folder, or a pipe
        return None
    finally:
        os.close(file)


def ask_to_stop(folder: Path) -> bool:
    """Ask that the agent in the session of a folder ends; False where no process watches one."""
    if launcher_of(folder) is None:
        return False
    try:
        file = os.open(folder / MARK, os.O_WRONLY | os.O_APPEND | AT_ONCE | NO_LINK)
    except OSError:  # it has ended meanwhile
        return False
    try:
        os.write(file, ASKED)
    finally:
        os.close(file)
    return True


def has_stopped(folder: Path, patience: float) -> bool:
    """Return whether no agent is watched in a folder any more, or not after so many seconds."""
    end = time.monotonic() + patience
    while launcher_of(folder) is not None:
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK)
    return True
