"""Keeps the full-text index of items, which catches up with their files at each search.

It lies in a private temporary file, which is made at the first search and nobody else sees. Each
project has a table of its own, with the items of the user and of the system.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import _thread
import time

from ralphgen.runtime.errors import CodedError

from ..failures import EXECUTION_FAILED
from .table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from ..item import Space

    Result = TypeVar("Result")

MOST_TABLES = 20  # that are kept: those that were not searched for the longest time leave first
LONG = 2.0  # seconds of reading, after which a search counts as one that takes long
CACHE = 2_000  # kibibytes of the database in memory


class Index:
    """The tables of the projects that were searched so far."""

    __slots__ = ("_connection", "_in_use", "_made", "_tables")

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._in_use = _thread.allocate_lock()
        self._tables: dict[tuple[str, ...], Table] = {}
        self._made = 0

    def search(
        self,
        spaces: Sequence[Space],
        work: Callable[[Table], Result],
        may_take_long: Callable[[], None],
    ) -> Result:
        """Return what `work` makes of the table of these spaces, as their files are now.

        `may_take_long` is called where reading them takes long; what it raises ends the call, and
        the next one goes on from there. Raises `CodedError` where the index cannot be used; the
        next call makes a new one.
        """
        with self._in_use:
            try:
                return work(self._up_to_date(spaces, may_take_long))
            except sqlite3.Error as error:
                self._forget()
                raise CodedError(EXECUTION_FAILED, _sentence(error)) from error

    def close(self) -> None:
        """Interrupt what runs and close the file; safe from any thread.

        What cannot be interrupted within half a second keeps the file until the process ends.
        """
        if not self._in_use.acquire(blocking=False):
            if self._connection is not None:
                self._connection.interrupt()
            if not self._in_use.acquire(timeout=0.5):
                return
        self._forget()
        self._in_use.release()

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._tables.clear()

    def _up_to_date(self, spaces: Sequence[Space], may_take_long: Callable[[], None]) -> Table:
        if self._connection is None:
            self._connection = _connect()
        table = self._table(self._connection, spaces)
        end = time.monotonic() + LONG
        self._connection.execute("BEGIN")
        try:
            for _ in table.refresh():
                if time.monotonic() > end:
                    may_take_long()
        finally:
            self._connection.execute("COMMIT")
        return table

    def _table(self, connection: sqlite3.Connection, spaces: Sequence[Space]) -> Table:
        """Return the table of these spaces; drops the one that was not used for the longest."""
        key = tuple(space.folder for space in spaces)
        table = self._tables.pop(key, None)
        if table is None:
            self._made += 1
            table = Table(connection, f"items_{self._made}", spaces)
        self._tables[key] = table
        if len(self._tables) > MOST_TABLES:
            self._tables.pop(next(iter(self._tables))).drop()
        return table


def _connect() -> sqlite3.Connection:
    """Open a new database, in memory while it is small, then in a temporary file without a name.

    Raises `CodedError` where this Python's SQLite has no full-text search.
    """
    # Tools run on one worker thread, and the connection is closed on the main one.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")  # after a failure, all of it is thrown away
    connection.execute(f"PRAGMA cache_size = -{CACHE}")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        connection.execute("DROP TABLE probe")
    except sqlite3.OperationalError as error:
        connection.close()
        raise CodedError(
            EXECUTION_FAILED,
            "search needs an SQLite with FTS5, which this Python's has not: have a person run the "
            "server with another Python",
        ) from error
    return connection


def _sentence(error: sqlite3.Error) -> str:
    """Return what to do about a failure of the index, without SQL text."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "the search index cannot be written: free some space for temporary files"
    return "the search index cannot be used: search again, which makes a new one"
