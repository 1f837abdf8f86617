"""One SQLite connection: snapshots for reading, all-or-nothing transactions for writing."""

from __future__ import annotations

import _thread
import os
import time

from ..errors import DeferToSdkError, StartError, ToolError
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Result = TypeVar("Result")

PATIENCE = 20.0  # seconds that a call waits for other writers
READERS = 0.1  # seconds that a commit waits for readers, who keep others from reading meanwhile
READERS_PAUSE = 0.0003  # of them between two tries
UNNAMED = {3091: "SQLITE_CONSTRAINT_DATATYPE"}  # Python 3.11 does not know its name
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Database:
    """A connection with foreign keys on, and its journal mode as the file has it.

    `patience` is for how many seconds a call waits for other writers. Where `time_limit` is not
    None, it waits so many for one that does not end, and raises `DeferToSdkError` then. Raises
    `StartError` when the file cannot be opened as a database.
    """

    __slots__ = ("_file", "_in_use", "_patience", "connection", "path", "time_limit")

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self.path = path
        self._patience = patience
        self.time_limit: float | None = None
        self.connection = _connect(path)
        self._file = _identity(path)
        self._in_use = _thread.allocate_lock()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return every row that the statement answers."""
        return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        found: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return found

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one writing statement; returns the number of rows that it changed."""
        return self.connection.execute(sql, values).rowcount

    def reading(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one snapshot; raises `ToolError` where the file stays locked."""
        return self._transaction("BEGIN", work)

    def writing(self, work: Callable[[], Result]) -> Result:
        """Return `work()` in one transaction that nobody else writes into, or not at all.

        It may run more than once: a lost race is rolled back and tried again, until the patience
        is at its end.
        Raises `ToolError` when the file stays locked or refuses the values.
        """
        return self._transaction("BEGIN IMMEDIATE", work)

    def close(self) -> None:
        """Stop what runs, roll it back and let go of the file; safe from any thread.

        A statement that cannot be stopped within half a second keeps the file: the process ends
        next, and SQLite rolls back what a process leaves behind.
        """
        if not self._in_use.acquire(blocking=False):
            self.connection.interrupt()
            if not self._in_use.acquire(timeout=0.5):
                return
            # The next statement ends the interruption, which would stop the last checkpoint too.
            self.connection.execute("SELECT 1").fetchone()
        if _identity(self.path) == self._file:  # else SQLite would remove the log of another file
            self.connection.close()

    def _transaction(self, begin: str, work: Callable[[], Result]) -> Result:
        wait = _Wait(self.path, self._patience, self.time_limit)
        while True:
            try:
                return self._attempt(begin, work)
            except (UnicodeEncodeError, OverflowError) as error:
                raise ToolError(_unstorable(error)) from error
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise ToolError(_sentence(error)) from error
                wait.pause(error)

    def _attempt(self, begin: str, work: Callable[[], Result]) -> Result:
        with self._in_use:
            self._refuse_another_file()
            self.connection.execute(begin)
            try:
                result = work()
                self._commit()
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            return result

    def _refuse_another_file(self) -> None:
        """Raise `ToolError` where the file that was opened is no longer the one of this name.

        What is written beside it would spoil the new one, and what is read is the old one's.
        """
        if _identity(self.path) != self._file:
            raise ToolError(
                "the database was replaced during this session: nothing was changed; start a new "
                "session"
            )

    def _commit(self) -> None:
        """Commit; outside of WAL this waits for those who read at the moment.

        Nobody new may read meanwhile: the wait is short, while to roll back is to race again.
        """
        deadline = time.monotonic() + READERS
        while True:
            try:
                self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                held = _is_busy(error) and self.connection.in_transaction
                if not held or time.monotonic() > deadline:
                    raise
                time.sleep(READERS_PAUSE)
            else:
                return


class _Wait:
    """One call's wait for other writers: short pauses, until the patience is at its end.

    With a time limit it ends sooner, but not among many short writes, where the file keeps
    changing: the call succeeds before the SDK could have taken it over.
    """

    __slots__ = ("_begun", "_file", "_patience", "_seen", "_time_limit", "deadline")

    def __init__(self, file: str, patience: float, time_limit: float | None) -> None:
        self._file = file
        self._time_limit = time_limit
        self._patience = patience
        self._begun = time.monotonic()
        self._seen: list[int] = []
        self.deadline = self._begun + (patience if time_limit is None else time_limit)

    def pause(self, error: sqlite3.Error) -> None:
        """Sleep; raises `DeferToSdkError` or, at the end of the patience, `ToolError`."""
        now = time.monotonic()
        self._seen = self._seen or _written(self._file)
        if now > self.deadline and self._time_limit is not None:
            seen, self._seen = self._seen, _written(self._file)
            if seen == self._seen:
                raise DeferToSdkError from error
            self.deadline = min(now + self._time_limit, self._begun + self._patience)
        if now > self.deadline:
            text = (
                "the database is busy: another program has held it for "
                f"{self._patience:.0f} seconds; nothing was changed, try again"
            )
            raise ToolError(text) from error
        time.sleep(_jitter(now - self._begun))


def _written(path: str) -> list[int]:
    """Return the times at which the files of the database were last written."""
    times: list[int] = []
    for end in ("", "-wal"):
        try:
            times.append(os.stat(path + end).st_mtime_ns)
        except OSError:
            times.append(0)
    return times


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: str) -> sqlite3.Connection:
    if os.path.isdir(path):
        raise StartError(f'the database "{path}" is a folder: move it to another place')
    if not os.path.isfile(path):
        raise StartError(f'there is no database at "{path}": run "ralphgen init"')
    if not os.path.getsize(path):
        raise StartError(f'the database "{path}" is empty: restore it from a copy')
    connection = None
    try:
        # Tools run on one worker thread, and the connection is closed on the main one.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        connection.text_factory = _text
        _settle(connection)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        hint = 'run "ralphgen doctor"'
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in UNWRITABLE:
            hint = "give yourself the right to write to it and to its folder"
        text = f'"{path}" cannot be opened as a database ({error}): {hint}'
        raise StartError(text) from error
    return connection


def _settle(connection: sqlite3.Connection) -> None:
    """Turn foreign keys on; in WAL, sync at checkpoints only, as the app that shares the file."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode == "wal":
                connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_jitter())
        else:
            return


def _text(raw: bytes) -> str:
    """Decode stored text, with U+FFFD for bytes that are no UTF-8."""
    return raw.decode("utf-8", "replace")


def _jitter(waited: float = 0.0) -> float:
    """Return a random pause of 0.5 to 10 ms, so that two losers do not collide again.

    Who has waited longer looks more often, so that nobody is left behind; but only in the first
    second, since whoever holds the file for that long is no crowd of short writes.
    """
    most = 0.0095 if waited > 1 else min(0.0095, 0.002 / max(waited, 0.001))  # less from 0.2 on
    return 0.0005 + os.urandom(1)[0] / 255 * most


def _unstorable(error: UnicodeEncodeError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return "an integer is beyond 64 bits, which the database cannot hold"
    found = ord(error.object[error.start])
    return f"a text holds U+{found:04X}, half of a surrogate pair: send well-formed Unicode"


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY


def _sentence(error: sqlite3.Error) -> str:
    """Return a sentence on an SQLite error and what to do, without SQL text."""
    code = getattr(error, "sqlite_errorcode", 0)  # not there where Python itself refuses
    name = str(UNNAMED.get(code) or getattr(error, "sqlite_errorname", ""))
    column = str(error).rpartition(": ")[2]
    sentences = {
        "SQLITE_CONSTRAINT_FOREIGNKEY": "the database refuses this: a row that it names, or that "
        "still names it, is in the way; look it up and try again",
        "SQLITE_CONSTRAINT_NOTNULL": f'the database refuses this: "{column}" must not be empty',
        "SQLITE_CONSTRAINT_UNIQUE": f'the database refuses this: "{column}" is taken already',
        "SQLITE_CONSTRAINT_PRIMARYKEY": f'the database refuses this: "{column}" exists already',
        "SQLITE_CONSTRAINT_CHECK": "the database refuses this: a value breaks a rule of its table",
        "SQLITE_CONSTRAINT_DATATYPE": "the database refuses this: a value has the wrong type",
        "SQLITE_CONSTRAINT_TRIGGER": f"the database refuses this: {column}",
        "SQLITE_FULL": "the disk is full: nothing was changed; free some space and try again",
        "SQLITE_READONLY": "the database is read-only: nothing was changed; fix its permissions",
        "SQLITE_TOOBIG": "the database refuses this: a value is too long",
    }
    known = sentences.get(name) or sentences.get("_".join(name.split("_")[:2]))
    return known or 'the database cannot be used: a person should run "ralphgen doctor"'
