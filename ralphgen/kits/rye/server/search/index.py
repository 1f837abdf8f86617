"""Finds items by their words: a full-text index that keeps up with the files at each search.

It lies in a private temporary file, which is made at the first search and nobody else sees. Each
type of a space is a shelf, a table of its own, so that what a word is worth there depends on the
files alone, and not on what was searched before.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import _thread
import time

from ralphgen.runtime.errors import CodedError

from ..failures import EXECUTION_FAILED
from .table import Shelf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from ..item import Space

    Result = TypeVar("Result")

MOST_SHELVES = 60  # that are kept, those that were not searched for the longest time leave first
LONG = 2.0  # seconds of reading, after which it counts as something that takes its time
CACHE = 2_000  # kibibytes of the database in memory


class Index:
    """The shelves that were searched so far."""

    __slots__ = ("_connection", "_in_use", "_made", "_shelves")

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._in_use = _thread.allocate_lock()
        self._shelves: dict[tuple[str, str, str], Shelf] = {}
        self._made = 0

    def look(
        self,
        places: Sequence[tuple[str, Space]],
        work: Callable[[list[Shelf]], Result],
        begin: Callable[[], None],
    ) -> Result:
        """`work` on the shelves of these types and spaces, as their files are now.

        `begin` is called where reading them takes long; what it raises ends the call, and the next
        one goes on from there. Raises `CodedError` where the index cannot be used; the next call
        makes a new one.
        """
        with self._in_use:
            try:
                return work(self._up_to_date(places, begin))
            except sqlite3.Error as error:
                self._forget()
                raise CodedError(EXECUTION_FAILED, _sentence(error)) from error

    def close(self) -> None:
        """Stop what runs and let go of the file; safe from any thread.

        What cannot be stopped within half a second keeps the file until the process ends.
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
        self._shelves.clear()

    def _up_to_date(
        self, places: Sequence[tuple[str, Space]], begin: Callable[[], None]
    ) -> list[Shelf]:
        """The shelves, with what was changed."""
        if self._connection is None:
            self._connection = _connect()
        shelves = [self._shelf(self._connection, *place) for place in places]
        while len(self._shelves) > MOST_SHELVES:
            self._shelves.pop(next(iter(self._shelves))).drop()
        end = time.monotonic() + LONG
        self._connection.execute("BEGIN")
        try:
            for shelf in shelves:
                for _ in shelf.keep_up():
                    if time.monotonic() > end:
                        begin()
        finally:
            self._connection.execute("COMMIT")
        return shelves

    def _shelf(self, connection: sqlite3.Connection, item_type: str, space: Space) -> Shelf:
        key = item_type, space.name, space.folder
        shelf = self._shelves.pop(key, None)
        if shelf is None:
            self._made += 1
            shelf = Shelf(connection, f"shelf_{self._made}", item_type, space)
        self._shelves[key] = shelf
        return shelf


def _connect() -> sqlite3.Connection:
    """A new database that lies in a temporary file without a name, and in memory while small.

    Raises `CodedError` where this Python's SQLite has no full-text search.
    """
    # Tools run on one worker thread, and the connection is closed on the main one.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")  # what fails is thrown away as a whole
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
    """What to do about a failure of the index, without SQL text."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "the search index cannot be written: free some space for temporary files"
    return "the search index cannot be used: search again, which makes a new one"
