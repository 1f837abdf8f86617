"""Receives notices about writes by ralphgen, with LISTEN and NOTIFY."""

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
