"""One SQLite connection: snapshots for reading, all-or-nothing transactions for writing.

A connection detects that the files of its database were removed, replaced or overwritten. SQLite
opens its log and the log's index by name. If they were removed, the next program that opens the
database creates new ones, and each program misses the writes of the other: some get lost.
"""

from __future__ import annotations

import _imp
import _thread
import time
from marshal import dumps

from ...deferred import call_began, limit, longest_run, pause, take_time
from ...errors import StartError, ToolError
from ...loader import KEY, PLAIN
from ...system import os, variable
from .. import PATIENCE, DatabaseBase, SnapshotBase, busy, quoted, sqlite, unstorable
from . import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from .. import Catalog, Dialect, StateFiles, WriteNotices
    from ..ledger import MayClose, Moved
    from .journal import Closing

    Result = TypeVar("Result")
    Identity = tuple[int, int]


READERS = 0.1  # seconds that a commit waits for readers; no one can start reading meanwhile
READERS_PAUSE = 0.0003  # seconds between two tries
FOREVER = float("inf")
DEFINITIONS = (
    "SELECT name, CAST(sql AS BLOB) FROM sqlite_master WHERE type IN ('table', 'view') "
    "ORDER BY name, rowid"
)
STEPS = 100_000  # of SQLite's VM between checks of clock and signals: milliseconds
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
FILES = {
    "replaced": "the database was replaced during this session: nothing was changed; start a new "
    "session",
    "removed": 'the log of the database ("ralph.db-wal") was removed during this session: nothing '
    "was changed; start a new session",
}
UNSURE = (
    "the database was replaced while this was written: look in a new session whether it is there"
)


class Snapshot(SnapshotBase):
    """One state of a database, for reading: a connection within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        return self.connection.execute(sql, values).fetchall()

    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one."""
        cursor = self.connection.execute(sql, values)
        try:
            yield from cursor
        finally:
            cursor.close()

    def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        found: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return found

    def record(self, sql: str, values: Sequence[object] = ()) -> dict[str, Any]:
        """Return the first row by column, empty if there is none."""
        cursor = self.connection.execute(sql, values)
        row = cursor.fetchone() or ()
        return {one[0]: value for one, value in zip(cursor.description, row, strict=bool(row))}

    def keep_bytes(self) -> None:
        """Read bytes that are not UTF-8 as surrogates from now on."""
        self.connection.text_factory = _exact_text

    @property
    def sql(self) -> Dialect:
        """The parts of statements that differ between engines."""
        return sqlite

    @property
    def catalog(self) -> Catalog:
        """The statements that list the parts of a schema."""
        from . import schema

        return schema

    @property
    def entries(self) -> StateFiles:
        """The entries of the state files."""
        from . import state_files

        return state_files


class Database(DatabaseBase, Snapshot):
    """A connection with foreign keys on, in the journal mode of the file.

    `patience` is the time in seconds that a call waits for other writers after its arrival, and the
    time limit of its statements, checked every `steps` of SQLite's VM. Each writing transaction
    first calls the functions in `before_writes`, which raise `ToolError` to refuse it, and last the
    functions in `before_commits`, with the tasks that it made done or skipped. Unless the database
    `has_tasks`, a table `tasks` is like any other. Raises `StartError` if the file cannot be opened
    as a database.
    """

    sees_redefined_views = True

    def __init__(self, path: str, patience: float = PATIENCE, steps: int = STEPS) -> None:
        self.path = path
        self._patience = patience
        super().__init__(_connect(path))
        self._files = OpenedFiles(path, self.connection)
        self._limit = _Limit()
        self._lost = False
        self.connection.set_progress_handler(self._limit.is_over, steps)
        self._in_use = _thread.allocate_lock()
        self._closing: Closing | None = None
        self.before_writes: list[Callable[[], None]] = []
        self.before_commits: list[Callable[[Moved], None]] = []
        self.has_tasks = True
        self.hidden: set[str] = set()
        self.known: set[str] = set()

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one writing statement; returns the number of rows that it changed."""
        return self.connection.execute(sql, values).rowcount

    def change_rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run one writing statement that returns rows."""
        return self.rows(sql, values)

    def insert(self, sql: str, values: Sequence[object]) -> int:
        """Run one INSERT; returns the number of the row."""
        return self.connection.execute(sql, values).lastrowid or 0

    @staticmethod
    def located(root: str, named: str) -> str:
        """Return the path of the database with this name, in the project with this home.

        The user's variable overrides a relative name; a session records the absolute path.
        """
        if not os.path.isabs(named):
            named = variable("RALPH_DATABASE") or named
        return os.path.normpath(os.path.join(root, named))

    def when_open(self, check: Callable[[], None]) -> None:
        """Call `check` immediately: the database is open."""
        check()

    def open_soon(self) -> None:
        """Do nothing: the database is open."""

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """The errors of the driver for values that a table refuses."""
        return (sqlite3.IntegrityError,)

    def broken_keys(self) -> Iterator[tuple[Any, ...]]:
        """Yield each broken foreign key: table, number of the row, parent, key."""
        for (table,) in self.rows(self.catalog.TABLE_NAMES):
            try:
                yield from self.rows(f"PRAGMA main.foreign_key_check({quoted(table)})")
            except sqlite3.OperationalError:  # a foreign key to columns without a unique index
                continue

    def continue_numbers(self, table: str, key: str) -> None:
        """Do nothing: the next number is above all others."""

    def ignore_keys(self) -> None:
        """Check no foreign key from now on; outside of a transaction."""
        self.change("PRAGMA foreign_keys = OFF")

    def watch(self) -> bool:
        """Return False: each connection makes temporary triggers."""
        return False

    def unwatch(self) -> None:
        """Do nothing: temporary triggers end with their connection."""

    def definitions(self) -> str:
        """Return a digest of the definitions of all tables and views."""
        whole = dumps((sqlite3.sqlite_version, self.rows(DEFINITIONS)), PLAIN)
        return _imp.source_hash(KEY, whole).hex()

    def schema_version(self) -> int:
        """Return a number that differs after any change of the schema; within a transaction."""
        (version,) = self.row("PRAGMA schema_version") or (0,)
        return int(version)

    def moved(self) -> object:
        """Return a value that differs after a write by another connection; within a transaction."""
        return self.row("PRAGMA data_version")

    def notices(self) -> WriteNotices | None:
        """Return None: SQLite has no notices, so poll `moved`."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether the file was replaced, so only a new connection works; safe in any thread."""
        return self._lost or self._files.is_moved

    def commits_at_once(self) -> bool:
        """Return whether a commit never waits for readers."""
        return self.row("PRAGMA journal_mode") == ("wal",)

    def reading(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one snapshot; raises `ToolError` if the file remains locked."""
        return self._transaction("BEGIN", work)

    def writing(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run in one transaction without other writers; all or nothing.

        It may run more than once: a lost race is rolled back and tried again until the patience
        runs out. Raises `ToolError` if the file remains locked or refuses the values.
        """
        return self._transaction("BEGIN IMMEDIATE", work)

    def closing(self, may_close: MayClose, write: Callable[[], Result]) -> Result:
        """Return `write()` and let only these tasks become done."""
        closing = self._closing
        if closing is None:
            return write()
        before, closing.may_close = closing.may_close, may_close
        try:
            return write()
        finally:
            closing.may_close = before

    def closed_tasks(self) -> Moved:
        """Return the tasks that the open transaction has made done or skipped so far."""
        return () if self._closing is None else self._closing.settled(self)

    def end_restriction(self) -> None:
        """Set the authorizer that applies if no other one does."""
        self.connection.set_authorizer(None if self._closing is None else self._closing.authorize)

    def close(self) -> None:
        """Interrupt and roll back any statement, and close the file; safe from any thread.

        If a statement does not stop within half a second, the file remains open: the process ends
        next, and SQLite rolls back its unfinished transaction.
        """
        if not self._in_use.acquire(blocking=False):
            self.connection.interrupt()
            if not self._in_use.acquire(timeout=0.5):
                return
            # Clear the interrupt with a statement: it would stop the last checkpoint too.
            self.connection.execute("SELECT 1").fetchone()
        if self._problem() != "replaced":  # else SQLite would damage files of others
            self.connection.close()
            self._files.close()

    def _transaction(self, begin: str, work: Callable[[], Result]) -> Result:
        began = call_began()
        while True:
            try:
                return self._attempt(begin, work, began)
            except (UnicodeEncodeError, OverflowError) as error:
                raise unstorable(error) from error
            except sqlite3.Error as error:
                if not _is_busy(error):
                    if self._closing is not None and self._closing.refused:
                        raise ToolError(self._closing.refused) from error
                    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                        take_time()
                    from .schema import sentence

                    raise ToolError(sentence(error, self.hidden)) from error
                waited = time.monotonic() - began
                if waited > self._patience:
                    raise busy(self._patience) from error
                pause(_jitter(waited))

    def _attempt(self, begin: str, work: Callable[[], Result], began: float) -> Result:
        with self._in_use:
            if problem := self._problem():
                raise ToolError(FILES[problem])
            now = time.monotonic()
            seconds = min(self._patience, longest_run())
            if begin == "BEGIN":  # a write may have spent its own patience on other writers
                seconds = max(0.1, seconds - (now - began))
            self._limit.deadline = now + seconds
            self.connection.execute(begin)
            is_kept = begin == "BEGIN"
            try:
                limit(seconds)
                if begin != "BEGIN":
                    if self.has_tasks:
                        self._watch_tasks()
                    for check in self.before_writes:
                        check()
                result = work()
                if begin != "BEGIN" and self.before_commits and (moved := self.closed_tasks()):
                    for hold in self.before_commits:
                        hold(moved)
                limit(0)
                self._commit()
                is_kept = True
            finally:
                limit(0)
                if not is_kept and self._closing is not None:
                    self._closing.rolled_back()
                self._limit.deadline = FOREVER
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            self._files.notice_log(self.connection)
            if begin != "BEGIN" and self._problem():
                raise ToolError(UNSURE)
            return result

    def _watch_tasks(self) -> None:
        if self._closing is None:
            from .journal import Closing

            self._closing = Closing(self)
        self._closing.begin(self)

    def _problem(self) -> str:
        """Return the problem with the files, a key of `FILES` or ""; save a removed log.

        Until there is a new log, no other program has read or written without this one.
        """
        problem = self._files.problem()
        self._lost = problem != ""
        if problem == "removed":
            copy_log(self.connection)
        return problem

    def _commit(self) -> None:
        """Commit; without WAL this waits for current readers.

        The wait blocks new readers, so it is short; a rollback would mean another race.
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


class _Limit:
    """The deadline of a transaction, independent of its statements and triggers."""

    def __init__(self) -> None:
        self.deadline = FOREVER

    def is_over(self) -> bool:
        """Return whether to stop; called while a statement runs, so signals are handled too."""
        return time.monotonic() > self.deadline


def in_memory() -> sqlite3.Connection:
    """Return a connection to a new in-memory database, for compiling statements."""
    return sqlite3.connect(":memory:", isolation_level=None)


def _connect(path: str) -> sqlite3.Connection:
    if os.path.isdir(path):
        raise StartError(f'the database "{path}" is a directory: move it elsewhere')
    if not os.path.isfile(path):
        raise StartError(f'no database at "{path}": run "ralphgen init"')
    if not os.path.getsize(path):
        raise StartError(f'the database "{path}" is empty: restore it from a backup')
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
    """Decode stored text, with U+FFFD for invalid UTF-8."""
    return raw.decode("utf-8", "replace")


def _exact_text(raw: bytes) -> str:
    """Decode stored text without loss: it encodes to the same bytes."""
    return raw.decode("utf-8", "surrogateescape")


def _jitter(waited: float = 0.0) -> float:
    """Return a random pause of 0.5 to 10 ms, so that two losers do not collide again.

    The pause gets shorter with the wait, for fairness.
    """
    most = max(0.001, min(0.0095, 0.002 / max(waited, 0.001)))  # less from 0.2 seconds on
    return 0.0005 + os.urandom(1)[0] / 255 * most


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY


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
