"""Notices when the files of an open database are removed, replaced or written over.

SQLite finds its log, and the index of that, by their names. Where they were removed, whoever opens
the database next makes others, and neither knows what the other writes: one of them loses it.
"""

from __future__ import annotations

import _thread

from ...system import os
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    Identity = tuple[int, int]

# Of the index, by https://sqlite.org/walformat.html: the salts, which are others each time the log
# begins anew, how many of its frames checkpoints have copied, and how many the last was to copy.
SALTS, COPIED, TO_COPY = slice(32, 40), slice(96, 100), slice(128, 132)


class OpenIndex:
    """The one descriptor that this process has of an index, whoever reads it.

    It is not closed while SQLite may have the index open: POSIX would drop SQLite's locks with it.
    """

    __slots__ = ("descriptor", "identity", "path", "users")

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.identity = _identity(os.fstat(self.descriptor))
        self.path = path
        self.users = 0

    @property
    def is_there(self) -> bool:
        """Whether its file is still the one of that name; SQLite removes it with the last use."""
        try:
            return _identity(os.stat(self.path)) == self.identity
        except OSError:
            return False


_indexes: list[OpenIndex] = []  # of this process, and those that it may yet use again
_indexes_in_use = _thread.allocate_lock()


def _index_of(path: str) -> OpenIndex:
    """Return the index of that name, for one user more; raises OSError where it is none."""
    with _indexes_in_use:
        _close_unused()
        known = next((index for index in _indexes if index.path == path and index.is_there), None)
        if known is None:
            known = OpenIndex(path)
            _indexes.append(known)
        known.users += 1
        return known


def _let_go(index: OpenIndex) -> None:
    """Have one user less of an index; who is the last closes it, once its file is gone."""
    with _indexes_in_use:
        index.users -= 1
        _close_unused()


def _close_unused() -> None:
    """Close the indexes that nobody reads, and whose files no connection has by their names."""
    for index in [*_indexes]:
        if not index.users and not index.is_there:
            _indexes.remove(index)
            os.close(index.descriptor)


class OpenedFiles:
    """The files of a database as one connection has opened them, which stays open meanwhile.

    Outside of WAL that is one file, and SQLite sees by itself what others write to it. In WAL
    nothing but a checkpoint writes to it, and says so in the index.
    """

    __slots__ = ("_checkpoint", "_index", "_logs", "_main", "_path", "_replaced", "_written")

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path = path
        self._main = _identity(os.stat(path))
        self._logs: tuple[tuple[str, Identity], ...] = ()
        self._index: OpenIndex | None = None
        self._replaced = False
        self._checkpoint = (b"", b"", b"")  # salts, copied, to copy
        self._written = (0, 0)
        self.notice_log(connection)

    def notice_log(self, connection: sqlite3.Connection) -> None:
        """Take in the log, where the database has one since a moment ago."""
        log, index = self._path + "-wal", self._path + "-shm"
        if self._index is not None or not os.path.exists(log):
            return
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            return
        try:
            self._index = _index_of(index)
            self._logs = (log, _identity(os.stat(log))), (index, self._index.identity)
            self._remember(self._index)
            if not self._is_idle():  # a checkpoint, or a program that crashed before one
                copy_log(connection)
                self._remember(self._index)
        except OSError:
            self._replaced = True

    def problem(self) -> str:
        """Return "replaced", "removed" for a log that is gone and was not made anew, or ""."""
        removed = False
        try:
            main = os.stat(self._path)
            self._replaced = self._replaced or _identity(main) != self._main
        except OSError:
            self._replaced = True
        for path, identity in self._logs:
            try:
                self._replaced = self._replaced or _identity(os.stat(path)) != identity
            except OSError:
                removed = True
        if self._index is not None and not self._replaced:
            self._replaced = self._is_written_over(self._index, main)
        return "replaced" if self._replaced else "removed" if removed else ""

    @property
    def is_moved(self) -> bool:
        """Whether the database is known to be replaced, or not there by its name; any thread."""
        try:
            return self._replaced or _identity(os.stat(self._path)) != self._main
        except OSError:
            return True

    def close(self) -> None:
        """Let go of the index, after the connection is closed."""
        if self._index is not None:
            _let_go(self._index)
            self._index = None

    def _is_written_over(self, index: OpenIndex, main: os.stat_result) -> bool:
        """Return whether anything but a checkpoint has written to the database.

        `main` was found before the index is read: a checkpoint says in there what it will do.
        """
        now = _read_checkpoint(index)
        copied = now != self._checkpoint or not self._is_idle()
        written = (main.st_mtime_ns, main.st_size) != self._written
        if copied or written:
            self._remember(index)
        cut_off = not now[2]  # SQLite would read it all the same, and the process end there
        return cut_off or (written and not copied)

    def _is_idle(self) -> bool:
        """Return whether no checkpoint was at work when the index was read."""
        return self._checkpoint[1] == self._checkpoint[2]

    def _remember(self, index: OpenIndex) -> None:
        """Note the state, in the order that lets a checkpoint be seen which begins meanwhile."""
        self._checkpoint = _read_checkpoint(index)
        main = os.stat(self._path)
        self._written = (main.st_mtime_ns, main.st_size)


def copy_log(connection: sqlite3.Connection) -> None:
    """Copy what the log holds into the database, as far as that can be done at once."""
    try:
        connection.execute("PRAGMA wal_checkpoint").fetchone()
    except sqlite3.Error:
        return


def _read_checkpoint(index: OpenIndex) -> tuple[bytes, bytes, bytes]:
    """Return what the index says of checkpoints: bytes that are empty where it is cut off."""
    head = os.pread(index.descriptor, TO_COPY.stop, 0)
    return head[SALTS], head[COPIED], head[TO_COPY]


def _identity(about: os.stat_result) -> Identity:
    """Return device and inode."""
    return about.st_dev, about.st_ino
