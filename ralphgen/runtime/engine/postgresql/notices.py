"""Hears when one of ours has written, where the database passes that on: LISTEN and NOTIFY."""

from __future__ import annotations

import os
import time

from ...errors import StartError
from ...loader import add_packages
from .library import CHANNEL, dsn_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .driver import Connection

PACE = 2.0  # seconds after which one looks for what others have written who tell nobody
PROVED = 2.0  # seconds in which a notice of our own has to come
AGAIN = 30.0  # seconds until it is tried anew where none came, as behind a pooler


class WriteNotices:
    """A connection that listens, for one thread; made when it is first waited on, and anew if lost.

    `path` is that of a `Database`. Ours tell the schema's name when they write, and nothing else;
    programs of others tell nobody.
    """

    __slots__ = ("_again", "_connection", "_path")

    def __init__(self, path: str) -> None:
        self._again = 0.0
        self._connection: Connection[Any] | None = None
        self._path = path

    def wait(self, interval: float) -> bool:
        """Wait until one of ours has written, `PACE` at most; return whether one may have.

        Where none can be heard it is over after `interval` seconds. It is over at once where the
        connection was just made: what was written before was not heard.
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
        """Listen no more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _listening(self) -> Connection[Any] | None:
        """Return a connection that has heard a notice of another one, None where none does."""
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
            pass  # who reads says what is wrong
        return None
