"""A running server keeps its session's folder from being swept, as long as it lives."""

from __future__ import annotations

import os

LOCK = "lock"
_held: list[int] = []  # open for the life of the process


def hold(context: str) -> None:
    """Share the lock beside a context, where there is one, and note that the session is in use."""
    path = os.path.join(os.path.dirname(context), LOCK)
    try:
        file = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return  # a context that was written by hand has none, and is never swept
    _held.append(file)  # where there are no shared locks, an open file cannot be removed
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(path)
    except (ImportError, OSError):
        return  # no such lock on this machine or this file system: a session of a day may go
