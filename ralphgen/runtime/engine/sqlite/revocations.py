"""The sessions with revoked tokens: a list of ids in a file next to the database."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from ...errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .. import Database

FILE = "revoked-sessions"  # one id per line, in the directory of the database
RIGHTS = 0o666  # the read and write bits of a file's mode


class RevokedSessions:
    """The list in the file; each lookup sees all earlier writes."""

    __slots__ = ("_ids", "_path", "_stamp")

    def __init__(self, database: str) -> None:
        self._path = os.path.join(os.path.dirname(database), FILE)
        self._stamp: tuple[int, int, int] | None = None
        self._ids: frozenset[str] = frozenset()

    def holds(self, session: str) -> bool:
        """Return whether a session was ended; raises OSError if the file cannot be read.

        The server creates the file at its start, so a missing file is an error.
        """
        about = os.stat(self._path)
        stamp = (about.st_size, about.st_mtime_ns, about.st_ino)
        if stamp != self._stamp:
            with open(self._path, encoding="ascii", errors="replace") as file:
                self._ids = frozenset(file.read().split())
            self._stamp = stamp
        return session in self._ids

    def close(self) -> None:
        """Do nothing: no file is open."""


def lookup(database: Database) -> Callable[[str], bool]:
    """Return a function that reports whether a session was ended; raises `ToolError`.

    It sees a revocation within a transaction that began before.
    """
    revoked = RevokedSessions(database.path)

    def holds(session: str) -> bool:
        try:
            return revoked.holds(session)
        except OSError as error:
            text = f"the list of ended sessions cannot be read: {error.strerror}"
            raise ToolError(text) from error

    return holds


def create(database: str) -> None:
    """Create an empty list next to a database if it is missing; raises OSError.

    It has the same permissions as the database.
    """
    os.close(_opened(database))


def revoke(database: str, session: str) -> None:
    """Append an id to the list in one write, safe with other writers; raises OSError."""
    file = _opened(database)
    try:
        line = f"\n{session}\n".encode("ascii")  # the last line may be incomplete
        if os.write(file, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    finally:
        os.close(file)


def _opened(database: str) -> int:
    """Open the list for appending, and create it if it is missing."""
    about = os.stat(database)
    path = os.path.join(os.path.dirname(database), FILE)
    adding = os.O_WRONLY | os.O_APPEND
    try:
        file = os.open(path, adding | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, adding)
    with suppress(OSError):  # the user may not belong to the group
        os.fchown(file, -1, about.st_gid)
    os.fchmod(file, about.st_mode & RIGHTS)
    return file
