"""One connection to a server: snapshots for reading, all-or-nothing transactions for writing."""

from __future__ import annotations

import _thread
import os
import sys
import time

from ...deferred import call_began, limit, longest_run, longest_wait, pause, take_time
from ...errors import StartError, ToolError, log
from ...loader import add_packages
from .. import PATIENCE, DatabaseBase, SnapshotBase, busy, postgresql, quoted, unstorable
from . import (
    CHANNEL,
    LATE,
    READ_ONLY,
    RECORD,
    DsnError,
    dsn_of,
    notice,
    settings,
    unreachable,
    writers_lock,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from .. import Catalog, Dialect, StateFiles
    from ..ledger import MayClose, Moved
    from .driver import Connection, Cursor
    from .journal import Closing

    Result = TypeVar("Result")

IN_LINE = 1.0  # seconds of the first wait for the lock
COMING_UP = 3.0  # seconds for a restarted database server to accept connections
SOON = 0.2  # seconds after the start of a server, for its client to list the tools
# Without a sequence, `counter` is NULL and nothing is set.
_FREE = """
    SELECT setval(counter, highest::text::bigint) FROM (
        SELECT pg_get_serial_sequence(?, ?)::regclass AS counter,
            (SELECT max({key}) FROM {table}) AS highest
    ) AS numbers
    WHERE CASE WHEN counter IS NOT NULL
        THEN highest::text::bigint > coalesce(pg_sequence_last_value(counter), 0) END
"""
UNSURE = (
    "the connection to the database broke while this was committed: it may or may not have been "
    "done; look whether it is there before you do it again"
)


class Snapshot(SnapshotBase):
    """One state of a database, for reading: a connection within a transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection[tuple[Any, ...]] | None) -> None:
        self._connection = connection

    @property
    def connection(self) -> Connection[tuple[Any, ...]]:
        """The connection of the driver, within a transaction."""
        if self._connection is None:
            raise ToolError("there is no connection to the database: try again")
        return self._connection

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        return self._run(sql, values).fetchall()

    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one."""
        yield from self._run(sql, values)

    def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        return self._run(sql, values).fetchone()

    def record(self, sql: str, values: Sequence[object] = ()) -> dict[str, Any]:
        """Return the first row by column, empty if there is none."""
        cursor = self._run(sql, values)
        row = cursor.fetchone() or ()
        return {
            one[0]: value for one, value in zip(cursor.description or (), row, strict=bool(row))
        }

    def keep_bytes(self) -> None:
        """Do nothing: all texts are UTF-8."""

    @property
    def sql(self) -> Dialect:
        """The parts of statements that differ between engines."""
        return postgresql

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

    def _run(self, sql: str, values: Sequence[object]) -> Cursor[tuple[Any, ...]]:
        if values:
            postgresql.refuse_unstorable(values)
        return self.connection.execute(postgresql.numbered(sql), values or None)


class Database(DatabaseBase, Snapshot):
    """A connection that opens at its first use, and again after it was lost.

    `path` is the name of the environment variable with the DSN, "/", and the schema. `patience` is
    the time in seconds that a call waits for other writers after its arrival, and the time limit of
    its statements. Each writing transaction first calls the functions in `before_writes`, which
    raise `ToolError` to refuse it, `before_changes` before each statement that changes rows, and
    last the functions in `before_commits`, with the tasks that it made done or skipped. Unless the
    database `has_tasks`, a table `tasks` is like any other. Raises `StartError` if the variable is
    not set.
    """

    sees_redefined_views = False
    __slots__ = (
        "_checks",
        "_closing",
        "_in_use",
        "_is_checked",
        "_opening",
        "_patience",
        "_schema_version",
        "before_changes",
        "before_commits",
        "before_writes",
        "has_tasks",
        "hidden",
        "path",
    )

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        super().__init__(None)
        self.path = path
        self._patience = patience
        self._checks: list[Callable[[], None]] = []
        self._in_use = _thread.allocate_lock()
        self._is_checked = False
        self._opening = _thread.RLock()
        self._schema_version = 0
        self.before_changes: Callable[[], None] | None = None
        self.before_writes: list[Callable[[], None]] = []
        self.before_commits: list[Callable[[Moved], None]] = []
        self.has_tasks = True
        self.hidden: set[str] = set()
        self.known: set[str] = set()
        self._closing: Closing | None = None
        dsn_of(path)

    def change(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one writing statement; returns the number of rows that it changed."""
        return self._write(sql, values).rowcount

    def change_rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run one writing statement that returns rows."""
        return self._write(sql, values).fetchall()

    def insert(self, sql: str, values: Sequence[object]) -> int:
        """Run one INSERT; returns the number of the row, 0 without a RETURNING."""
        cursor = self._write(sql, values)
        row = cursor.fetchone() if cursor.description else None
        return 0 if row is None else int(row[0])

    @staticmethod
    def located(_root: str, named: str) -> str:
        """Return the name: the variable with the DSN, and the schema."""
        return named

    def when_open(self, check: Callable[[], None]) -> None:
        """Call `check` after each new connection.

        If it raises `StartError`, the call that needs the connection is refused with its message.
        """
        self._checks.append(check)

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """The errors of the driver for values that a table refuses."""
        from .driver import REFUSALS

        return REFUSALS

    def broken_keys(self) -> Sequence[tuple[Any, ...]]:
        """Check the deferred foreign keys now; the driver raises an error for a broken one."""
        self.change("SET CONSTRAINTS ALL IMMEDIATE")
        return ()

    def continue_numbers(self, table: str, key: str) -> None:
        """Move the sequence of a table, if it has one, above all numbers."""
        self.row(_FREE.format(key=quoted(key), table=quoted(table)), [quoted(table), key])

    def ignore_keys(self) -> None:
        """Do nothing: keys are always checked."""

    def watch(self) -> bool:
        """Make the missing triggers of the journal; return whether any was missing."""
        from .journal import watch

        return watch(self)

    def unwatch(self) -> None:
        """Remove the triggers of the journal; within a transaction."""
        self.change(f"DROP FUNCTION IF EXISTS {RECORD}() CASCADE")

    def definitions(self) -> str:
        """Return an empty text: one statement reads all columns when a connection is made."""
        return ""

    def schema_version(self) -> int:
        """Return a number that differs after a statement has met a changed schema."""
        return self._schema_version

    def moved(self) -> object:
        """Return a value that differs after a write by another connection; within a transaction."""
        return self.row("SELECT pg_current_snapshot()::text")

    def notices(self) -> WriteNotices:
        """Return a waiter for writes of others, with a separate connection; close it after use."""
        return WriteNotices(self.path)

    @property
    def is_lost(self) -> bool:
        """False: the next call reconnects, even if the database was replaced."""
        return False

    def commits_at_once(self) -> bool:
        """Return False: a commit may have to reconnect."""
        return False

    def reading(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one snapshot; raises `ToolError` if the database fails.

        It may run more than once: after a lost connection it reconnects.
        """
        return self._transaction(work, writes=False)

    def writing(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run in one transaction without other ralphgen writers; all or nothing.

        It may run more than once: after a lost connection or a lost race, it is rolled back and
        tried again until the patience runs out. Raises `ToolError` if the lock remains held, if the
        values are refused, or if the connection broke during the commit.
        """
        return self._transaction(work, writes=True)

    def closing(self, may_close: MayClose, write: Callable[[], Result]) -> Result:
        """Return `write()` and let only these tasks become done."""
        if self._closing is not None:
            self._closing.may_close.append(may_close)
            self._closing.before(self)
        return write()

    def closed_tasks(self) -> Moved:
        """Return the tasks that the open transaction has made done or skipped so far."""
        return () if self._closing is None else self._closing.moved(self)

    def open(self) -> None:
        """Connect and run the checks, unless that is done; raises `ToolError`."""
        if self._is_checked:
            return
        take_time()
        with self._opening:
            if self._connection is not None:  # also if a check on this thread gets here
                return
            self._connection = self._connected()
            self._schema_version += 1
            try:
                for check in self._checks:
                    check()
                self._is_checked = True
            except StartError as error:
                raise ToolError(str(error)) from error
            finally:
                if not self._is_checked:
                    self._drop()

    def open_soon(self) -> None:
        """Connect on a new thread, after a pause for the client to list the tools."""

        def connect() -> None:
            time.sleep(SOON)
            try:
                self.open()
            except ToolError as error:  # the first call tries again
                log("warning", "ralph", str(error))

        _thread.start_new_thread(connect, ())

    def close(self) -> None:
        """Cancel and roll back any statement, and close the connection; safe from any thread."""
        connection = self._connection
        if connection is None:
            return
        if not self._in_use.acquire(blocking=False):
            connection.cancel_safe(timeout=0.5)
            if not self._in_use.acquire(timeout=0.5):
                return
        connection.close()

    def _transaction(self, work: Callable[[], Result], *, writes: bool) -> Result:
        began, retried = call_began(), set[str]()
        while True:
            self.open()
            # A long wait extends the next one, unless that would block other calls.
            in_line = min(max(IN_LINE, time.monotonic() - began), longest_wait())
            try:
                return self._attempt(work, in_line if writes else 0.0)
            except _ClosedError:  # perhaps another program closed it: retry once
                if "closed" in retried:
                    raise
                retried.add("closed")
            except (UnicodeEncodeError, OverflowError) as error:
                raise unstorable(error) from error
            except _errors() as error:
                state = error.sqlstate or ""
                waited = time.monotonic() - began
                if self._connection is None:
                    again = waited < self._patience
                elif state in postgresql.RACES:
                    if waited > self._patience:
                        raise busy(self._patience) from error
                    pause(_jitter())
                    again = True
                else:
                    self._schema_version += state in postgresql.MOVED
                    if state == postgresql.STOPPED:
                        take_time()
                    # Others may have changed the schema or taken the free number.
                    again = state in (*postgresql.MOVED, postgresql.TAKEN) and state not in retried
                    retried.add(state)
                if not again:
                    live, schema = self._connection, self.path.partition("/")[2]
                    login = "" if live is None or live.closed else live.info.user
                    text = postgresql.sentence(error, login, schema, self.hidden, self.known)
                    raise ToolError(text) from error

    def _attempt(self, work: Callable[[], Result], in_line: float) -> Result:
        """Run the work once; `in_line` is 0 if it only reads."""
        from . import driver

        writes = in_line > 0
        with self._in_use:
            connection = self.connection
            commits = False
            try:
                if writes and self.has_tasks:
                    self._watch_tasks()
                began = connection.execute(self._begin(in_line))
                if writes:
                    if self.has_tasks and self._closing is not None:
                        self._closing.begin(began)
                    for check in self.before_writes:
                        check()
                limit(min(self._patience, longest_run()))
                result = work()
                if writes:
                    self._hold_tasks()
                limit(0)
                commits = True
                ended = connection.execute(b"COMMIT")
            except driver.Error as error:
                lost = driver.is_lost(connection)
                if lost:
                    self._drop()
                if driver.is_out_of_memory(error):  # a retry would fail too
                    raise MemoryError from error
                if commits and writes and (lost or error.sqlstate == READ_ONLY):
                    raise ToolError(UNSURE if lost else LATE) from error
                raise
            finally:
                limit(0)
                if self._connection is not None and not driver.is_idle(connection):
                    self._roll_back()
            if ended.statusmessage != "COMMIT":
                raise ToolError("the database rolled this back: nothing was changed; try again")
            return result

    def _write(self, sql: str, values: Sequence[object]) -> Cursor[tuple[Any, ...]]:
        if self.before_changes is not None:
            self.before_changes()
        cursor = self._run(sql, values)
        if self._closing is not None:
            self._closing.note(sql, cursor.rowcount)
        return cursor

    def _watch_tasks(self) -> None:
        if self._closing is None:
            from .journal import Closing

            self._closing = Closing()
        self._closing.prepare(self)

    def _hold_tasks(self) -> None:
        """Raise `ToolError` if a task became done without permission."""
        moved = [] if self._closing is None else self._closing.moved(self, ends=True)
        for task, status in moved:
            if self._closing is not None and self._closing.refuses(task, status):
                from ..ledger import refused

                raise _ClosedError(refused(task))
        for hold in self.before_commits:
            hold(moved)

    def _begin(self, in_line: float) -> bytes:
        """Return the start of a transaction, in one message: settings, limits, and the lock.

        `in_line` is the time in seconds to wait for the lock, 0 to only read. A writing transaction
        notifies the listeners at its end.
        """
        schema = self.path.partition("/")[2]
        milliseconds = int(1000 * min(self._patience, longest_run()))
        text = f"{settings(schema)}; SET LOCAL statement_timeout = {milliseconds}"
        if not in_line:
            return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {text}".encode()
        waits = int(1000 * min(self._patience, longest_run() / 2, in_line))
        limits = f"{text}; SET LOCAL lock_timeout = {waits}"
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        text = f"{begin}; {limits}; {writers_lock(schema)}; {notice(schema)}"
        if self.has_tasks and self._closing is not None and self._closing.keep:
            text = f"{text}; {self._closing.keep}"
        return text.encode()

    def _roll_back(self) -> None:
        from . import driver

        try:
            self.connection.execute(b"ROLLBACK")
        except driver.Error:
            self._drop()

    def _connected(self) -> Connection[tuple[Any, ...]]:
        add_packages()
        from . import driver

        deadline = time.monotonic() + COMING_UP
        while True:
            try:
                return driver.connect(dsn_of(self.path))
            except DsnError as error:
                variable = self.path.partition("/")[0]
                text = f'the DSN in the environment variable "{variable}" has an {error}: remove it'
                raise ToolError(text) from error
            except driver.Error as error:
                starting = isinstance(error, driver.OperationalError)
                if not self._schema_version or not starting or time.monotonic() > deadline:
                    variable = self.path.partition("/")[0]
                    raise ToolError(unreachable(variable, error)) from error
                pause(_jitter() * 10)

    def _drop(self) -> None:
        """Close an unusable connection; the next call opens another."""
        connection, self._connection, self._is_checked = self._connection, None, False
        if connection is not None:
            connection.close()


class _ClosedError(ToolError):
    """A task became done without permission."""


def _errors() -> Any:
    """Return the error class of the driver, or none before its import."""
    driver = sys.modules.get(f"{__package__}.driver")
    return () if driver is None else driver.Error


def _jitter() -> float:
    """Return a random pause of 0.5 to 10 ms, so that two losers do not collide again."""
    return 0.0005 + os.urandom(1)[0] / 255 * 0.0095


PACE = 2.0  # seconds of one wait; other programs write without notices
PROVED = 2.0  # seconds for a test notice to arrive
AGAIN = 30.0  # seconds until the next try if none arrived, as behind a pooler


class WriteNotices:
    """A listening connection for one thread; opened at the first wait, and again if it is lost.

    `path` is the path of a `Database`. The payload of a notice is the schema's name. Only ralphgen
    sends notices, not other programs.
    """

    __slots__ = ("_again", "_connection", "_path")

    def __init__(self, path: str) -> None:
        self._again = 0.0
        self._connection: Connection[Any] | None = None
        self._path = path

    def wait(self, interval: float) -> bool:
        """Wait for a write by ralphgen, `PACE` at most; return whether there may have been one.

        If no notice can arrive, it ends after `interval` seconds. It ends immediately if the
        connection is new: notices of earlier writes did not arrive.
        """
        if self._connection is None:
            if time.monotonic() >= self._again:
                self._connection = self._listening()
                if self._connection is not None:
                    return True
                self._again = time.monotonic() + AGAIN
            time.sleep(interval)
            return False
        from .driver import Error

        schema = self._path.partition("/")[2]
        deadline = time.monotonic() + PACE
        try:
            while (left := deadline - time.monotonic()) > 0:
                heard = [*self._connection.notifies(timeout=left, stop_after=1)]
                if any(notice.payload == schema for notice in heard):
                    return True
        except Error:
            self.close()
            time.sleep(interval)
        return False

    def close(self) -> None:
        """Stop listening."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _listening(self) -> Connection[Any] | None:
        """Return a connection that received a test notice, or None if none arrived."""
        add_packages()
        from . import driver

        own = os.urandom(8).hex()
        try:
            dsn = dsn_of(self._path)
            connection = driver.connect(dsn)
            try:
                connection.execute(f"LISTEN {CHANNEL}".encode())
                with driver.connect(dsn) as other:
                    other.execute(b"SELECT pg_catalog.pg_notify($1, $2)", [CHANNEL, own])
                deadline = time.monotonic() + PROVED
                while (left := deadline - time.monotonic()) > 0:
                    heard = connection.notifies(timeout=left, stop_after=1)
                    if own in {notice.payload for notice in heard}:
                        return connection
            except driver.Error:
                connection.close()
                raise
            connection.close()
        except (driver.Error, StartError, ValueError):
            pass  # the next read reports the problem
        return None
