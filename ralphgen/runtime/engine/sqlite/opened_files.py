"""Detects that the files of an open database were removed, replaced or overwritten.

SQLite opens its log and the log's index by name. If they were removed, the next program that opens
the database creates new ones, and each program misses the writes of the other: some get lost.
"""

from __future__ import annotations

import _thread

from ...system import os
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    Identity = tuple[int, int]

# Offsets in the index (https://sqlite.org/walformat.html): the salts, which change at each restart
# of the log, the number of frames copied by checkpoints, and the target of the last checkpoint.
SALTS, COPIED, TO_COPY = slice(32, 40), slice(96, 100), slice(128, 132)


class OpenIndex:
    """The only descriptor of an index in this process, shared by all readers.

    It is not closed while SQLite may have the index open: POSIX would drop SQLite's locks with it.
    """

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.identity = _identity(os.fstat(self.descriptor))
        self.path = path
        self.users = 0

    @property
    def is_there(self) -> bool:
        """Whether the path still has this file; SQLite removes it with the last connection."""
        try:
            return _identity(os.stat(self.path)) == self.identity
        except OSError:
            return False


_indexes: list[OpenIndex] = []  # of this process, including reusable ones
_indexes_in_use = _thread.allocate_lock()


def _index_of(path: str) -> OpenIndex:
    """Return the index at a path and count one more user; raises OSError if it is missing."""
    with _indexes_in_use:
        _close_unused()
        known = next((index for index in _indexes if index.path == path and index.is_there), None)
        if known is None:
            known = OpenIndex(path)
            _indexes.append(known)
        known.users += 1
        return known


def _let_go(index: OpenIndex) -> None:
    """Count one user less; an unused index is closed once its file is gone."""
    with _indexes_in_use:
        index.users -= 1
        _close_unused()


def _close_unused() -> None:
    """Close the unused indexes that are no longer at their paths."""
    for index in [*_indexes]:
        if not index.users and not index.is_there:
            _indexes.remove(index)
            os.close(index.descriptor)


class OpenedFiles:
    """The files of a database as one open connection sees them.

    Without WAL there is one file, and SQLite itself detects the writes of others. In WAL mode, only
    checkpoints write to it, and they record that in the index.
    """

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
        """Note the files of the log if the database has a new one."""
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
        """Return "replaced", "removed" for a log that is gone and was not recreated, or ""."""
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
        """Whether the database is known to be replaced or missing; safe in any thread."""
        try:
            return self._replaced or _identity(os.stat(self._path)) != self._main
        except OSError:
            return True

    def close(self) -> None:
        """Release the index; call it after closing the connection."""
        if self._index is not None:
            _let_go(self._index)
            self._index = None

    def _is_written_over(self, index: OpenIndex, main: os.stat_result) -> bool:
        """Return whether anything but a checkpoint has written to the database.

        `main` is from before the read of the index: a checkpoint announces its work there.
        """
        now = _read_checkpoint(index)
        copied = now != self._checkpoint or not self._is_idle()
        written = (main.st_mtime_ns, main.st_size) != self._written
        if copied or written:
            self._remember(index)
        cut_off = not now[2]  # reading a truncated index would crash SQLite
        return cut_off or (written and not copied)

    def _is_idle(self) -> bool:
        """Return whether no checkpoint was running when the index was read."""
        return self._checkpoint[1] == self._checkpoint[2]

    def _remember(self, index: OpenIndex) -> None:
        """Note the state: the index first, so that a new checkpoint is not missed."""
        self._checkpoint = _read_checkpoint(index)
        main = os.stat(self._path)
        self._written = (main.st_mtime_ns, main.st_size)


def copy_log(connection: sqlite3.Connection) -> None:
    """Copy the log into the database, as far as possible without waiting."""
    try:
        connection.execute("PRAGMA wal_checkpoint").fetchone()
    except sqlite3.Error:
        return


def _read_checkpoint(index: OpenIndex) -> tuple[bytes, bytes, bytes]:
    """Return the checkpoint fields of the index; empty bytes if it is truncated."""
    head = os.pread(index.descriptor, TO_COPY.stop, 0)
    return head[SALTS], head[COPIED], head[TO_COPY]


def _identity(about: os.stat_result) -> Identity:
    """Return device and inode."""
    return about.st_dev, about.st_ino
