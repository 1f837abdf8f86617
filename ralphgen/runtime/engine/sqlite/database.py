"""One SQLite connection: snapshots for reading, all-or-nothing transactions for writing."""

from __future__ import annotations

import _thread
import time

from ...deferred import call_began, limit, longest_run, pause, take_time
from ...encoding import sha256_hex
from ...errors import StartError, ToolError
from ...system import os, variable
from .. import PATIENCE, DatabaseBase, SnapshotBase, busy, quoted, unstorable
from . import library
from .library import sqlite3
from .opened_files import OpenedFiles, copy_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from .. import Catalog, Dialect, StateFiles, WriteNotices
    from ..closing import MayClose, Moved
    from .closing import Closing

    Result = TypeVar("Result")

READERS = 0.1  # seconds that a commit waits for readers, who keep others from reading meanwhile
READERS_PAUSE = 0.0003  # of them between two tries
FOREVER = float("inf")
DEFINITIONS = (
    "SELECT name, CAST(sql AS BLOB) FROM sqlite_master WHERE type IN ('table', 'view') "
    "ORDER BY name, rowid"
)
STEPS = 100_000  # of SQLite's machine between two looks at the clock, and at signals: milliseconds
UNNAMED = {3091: "SQLITE_CONSTRAINT_DATATYPE"}  # Python 3.11 does not know its name
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

    __slots__ = ("connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return every row that the statement answers."""
        return self.connection.execute(sql, values).fetchall()

    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one, for who may not want all of them."""
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
        return library

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
    """A connection with foreign keys on, and its journal mode as the file has it.

    `patience` is for how many seconds after its arrival a call waits for other writers, and for how
    many its statements may run, looked at after so many `steps` of SQLite's machine. What is in
    `before_writes` is called at the begin of each transaction that writes, within it, and refuses
    the write by raising `ToolError`; `before_commits` at its end, with the tasks that it has made
    done or skipped. Unless the database `has_tasks`, a table of that name is like any other. Raises
    `StartError` when the file cannot be opened as a database.
    """

    sees_redefined_views = True
    __slots__ = (
        "_closing",
        "_files",
        "_in_use",
        "_limit",
        "_lost",
        "_patience",
        "before_commits",
        "before_writes",
        "has_tasks",
        "path",
    )

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

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one writing statement; returns the number of rows that it changed."""
        return self.connection.execute(sql, values).rowcount

    def change_rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run one writing statement that answers rows."""
        return self.rows(sql, values)

    def insert(self, sql: str, values: Sequence[object]) -> int:
        """Run one INSERT; returns the number of the row."""
        return self.connection.execute(sql, values).lastrowid or 0

    @staticmethod
    def located(root: str, named: str) -> str:
        """Return the path of the database that has this name in the project with this home.

        The user's variable counts before a relative name; a session has recorded its absolute path.
        """
        if not os.path.isabs(named):
            named = variable("RALPH_DATABASE") or named
        return os.path.normpath(os.path.join(root, named))

    def when_open(self, check: Callable[[], None]) -> None:
        """Have a check made of the database that was opened: at once, since it is open."""
        check()

    def open_soon(self) -> None:
        """Do nothing: it is open."""

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """What the driver raises for values that a table refuses."""
        return (sqlite3.IntegrityError,)

    def broken_keys(self) -> Iterator[tuple[Any, ...]]:
        """Yield each foreign key that leads nowhere: table, number of the row, parent, key."""
        for (table,) in self.rows(self.catalog.TABLE_NAMES):
            try:
                yield from self.rows(f"PRAGMA main.foreign_key_check({quoted(table)})")
            except sqlite3.OperationalError:  # a key that leads to columns which are no key
                continue

    def continue_numbers(self, table: str, key: str) -> None:
        """Do nothing: the next number is above all others."""

    def ignore_keys(self) -> None:
        """Check no foreign key from now on; outside of a transaction."""
        self.change("PRAGMA foreign_keys = OFF")

    def watch(self) -> bool:
        """Return that nothing was made: the triggers are those of a connection."""
        return False

    def unwatch(self) -> None:
        """Do nothing: a connection takes its triggers with it."""

    def definitions(self) -> str:
        """Return a digest of the definitions of all tables and views."""
        return sha256_hex(repr((sqlite3.sqlite_version, self.rows(DEFINITIONS))).encode())

    def schema_version(self) -> int:
        """Return what differs after any change of the schema; within a transaction."""
        (version,) = self.row("PRAGMA schema_version") or (0,)
        return int(version)

    def moved(self) -> object:
        """Return what differs after any write of another connection; within a transaction."""
        return self.row("PRAGMA data_version")

    def notices(self) -> WriteNotices | None:
        """Return None: nobody tells of writes of others, and `moved` has to be asked."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether only another connection can be used: the file is another; safe in any thread."""
        return self._lost or self._files.is_moved

    def commits_at_once(self) -> bool:
        """Return whether a commit waits for nobody who reads."""
        return self.row("PRAGMA journal_mode") == ("wal",)

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

    def closing(self, may_close: MayClose, write: Callable[[], Result]) -> Result:
        """Return `write()`, by which these tasks may become done, and no others."""
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
        if self._problem() != "replaced":  # else SQLite would spoil files of others
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
                    raise ToolError(_sentence(error)) from error
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
            if begin == "BEGIN":  # a write may have waited for others with a patience of its own
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
            from .closing import Closing

            self._closing = Closing(self)
        self._closing.begin(self)

    def _problem(self) -> str:
        """Return what happened to the files, a key of `FILES`; save what a removed log holds.

        As long as nobody has made another log, nobody has read or written without this one.
        """
        problem = self._files.problem()
        self._lost = problem != ""
        if problem == "removed":
            copy_log(self.connection)
        return problem

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


class _Limit:
    """The end of the time for a transaction, of which a statement, or a trigger, knows nothing."""

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline = FOREVER

    def is_over(self) -> bool:
        """Return whether to stop; called while a statement runs, where signals are handled too."""
        return time.monotonic() > self.deadline


def in_memory() -> sqlite3.Connection:
    """Return a connection to a new database in memory, on which statements can be compiled."""
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
    """Decode stored text, with U+FFFD for bytes that are no UTF-8."""
    return raw.decode("utf-8", "replace")


def _exact_text(raw: bytes) -> str:
    """Decode stored text, of which the same bytes can be made again."""
    return raw.decode("utf-8", "surrogateescape")


def _jitter(waited: float = 0.0) -> float:
    """Return a random pause of 0.5 to 10 ms, so that two losers do not collide again.

    Who has waited longer looks more often, so that nobody is left behind.
    """
    most = max(0.001, min(0.0095, 0.002 / max(waited, 0.001)))  # less from 0.2 seconds on
    return 0.0005 + os.urandom(1)[0] / 255 * most


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
        "SQLITE_CONSTRAINT_PRIMARYKEY": f'the database refuses this: "{column}" already exists',
        "SQLITE_CONSTRAINT_CHECK": "the database refuses this: a value breaks a rule of its table",
        "SQLITE_CONSTRAINT_DATATYPE": "the database refuses this: a value has the wrong type",
        "SQLITE_CONSTRAINT_TRIGGER": f"the database refuses this: {column}",
        "SQLITE_FULL": "the disk is full: nothing was changed; free some space and try again",
        "SQLITE_INTERRUPT": "the database took too long and was stopped: nothing was changed; "
        "request less, or ask the user to check for an endless trigger or view",
        "SQLITE_READONLY": "the database is read-only: nothing was changed; fix its permissions",
        "SQLITE_TOOBIG": "the database refuses this: a value is too long",
    }
    known = sentences.get(name) or sentences.get("_".join(name.split("_")[:2]))
    return known or 'the database cannot be used: ask the user to run "ralphgen doctor"'
