"""The sessions whose tokens a person has ended: a list of ids in a file beside the database."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

FILE = "revoked-sessions"  # one id a line, in the folder of the database
RIGHTS = 0o666  # of a file's mode: who may read and write it


class RevokedSessions:
    """What the file beside a database lists; each look sees what was written before it."""

    __slots__ = ("_ids", "_path", "_stamp")

    def __init__(self, database: str) -> None:
        self._path = os.path.join(os.path.dirname(database), FILE)
        self._stamp: tuple[int, int, int] | None = None
        self._ids: frozenset[str] = frozenset()

    def holds(self, session: str) -> bool:
        """Return whether a session was ended; raises OSError where nobody can tell.

        The file is there since the server began: without it nobody can.
        """
        about = os.stat(self._path)
        stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
        if stamp != self._stamp:
            with open(self._path, encoding="ascii", errors="replace") as file:
                self._ids = frozenset(file.read().split())
            self._stamp = stamp
        return session in self._ids

    def close(self) -> None:
        """Nothing is held."""


def create(database: str) -> None:
    """Make an empty list beside a database where there is none; raises OSError.

    Who may write the one may write the other.
    """
    os.close(_opened(database))


def revoke(database: str, session: str) -> None:
    """Add an id to the list beside a database, whole whatever others add; raises OSError."""
    file = _opened(database)
    try:
        line = f"\n{session}\n".encode("ascii")  # another's may have been cut off
        if os.write(file, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    finally:
        os.close(file)


def _opened(database: str) -> int:
    """Return the list beside a database, open for adding to it, made where it is not there."""
    about = os.stat(database)
    path = os.path.join(os.path.dirname(database), FILE)
    adding = os.O_WRONLY | os.O_APPEND
    try:
        file = os.open(path, adding | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, adding)
    with suppress(OSError):  # of a group to which this user does not belong
        os.fchown(file, -1, about.st_gid)
    os.fchmod(file, about.st_mode & RIGHTS)
    return file
