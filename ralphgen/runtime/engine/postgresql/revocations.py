"""The sessions with revoked tokens: a table of ids; each process polls it."""

from __future__ import annotations

import _thread
import time

from ...errors import StartError, ToolError
from .database import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# A token is valid for a day at most, so older rows do not matter.
LISTED = "SELECT session FROM ralphgen_revoked WHERE ended > now() - interval '25 hours'"
FOUND = "SELECT 1 FROM ralphgen_revoked WHERE session = ?"
ADDED = "INSERT INTO ralphgen_revoked (session) VALUES (?) ON CONFLICT DO NOTHING"
IS_MADE = "SELECT to_regclass('ralphgen_revoked') IS NOT NULL"
MADE = (
    "CREATE TABLE IF NOT EXISTS ralphgen_revoked "
    "(session text PRIMARY KEY, ended timestamptz NOT NULL DEFAULT now())"
)
PERIOD = 0.4  # seconds between two reads
STALE = 3.0  # seconds until the last read is out of date
PATIENCE = 2.0  # seconds that a read waits


class RevokedSessions:
    """The ids in the table, read by a thread; `place` is the DSN's variable, "/" and the schema."""

    def __init__(self, place: str) -> None:
        self._database = Database(place, PATIENCE)
        self._ended = False
        self._ids: frozenset[str] = frozenset()
        self._looking = _thread.allocate_lock()  # held until the first read has ended
        self._looking.acquire()
        self._until = 0.0
        _thread.start_new_thread(self._look, ())

    def holds(self, session: str) -> bool:
        """Return whether a session was ended; raises OSError if the last read is out of date.

        Sees a new row within a second.
        """
        if not self._until and self._looking.acquire(timeout=STALE):
            self._looking.release()
        if time.monotonic() > self._until:
            raise OSError(0, "the database does not answer")
        return session in self._ids

    def close(self) -> None:
        """Stop reading."""
        self._ended = True
        self._database.close()

    def _look(self) -> None:
        first = True
        while not self._ended:
            begun = time.monotonic()
            try:
                rows = self._database.reading(lambda: self._database.rows(LISTED))
            except (StartError, ToolError):
                pass  # `holds` raises an error, and its caller logs it
            else:
                self._ids, self._until = frozenset(row[0] for row in rows), begun + STALE
            if first:
                self._looking.release()
            first = False
            time.sleep(PERIOD)


def lookup(database: Database) -> Callable[[str], bool]:
    """Return a function that reports whether a session was ended, within a transaction."""
    return lambda session: database.row(FOUND, [session]) is not None


def create(place: str) -> None:
    """Create the table if it is missing; raises `StartError` or `ToolError`."""
    database = Database(place)
    try:
        _create(database)
    finally:
        database.close()


def revoke(place: str, session: str) -> None:
    """Add an id to the list; raises `StartError` or `ToolError`."""
    database = Database(place)
    try:
        _create(database)
        database.writing(lambda: database.change(ADDED, [session]))
    finally:
        database.close()


def _create(database: Database) -> None:
    """Create the table if it is missing, so that an existing one needs no CREATE privilege."""
    if not database.reading(lambda: (database.row(IS_MADE) or (0,))[0]):
        database.writing(lambda: database.change(MADE))
