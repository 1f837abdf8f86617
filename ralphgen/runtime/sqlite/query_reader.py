"""The connection on which named queries read: it can do nothing else."""

from __future__ import annotations

from .database import Database
from .library import sqlite3
from .query_rules import LONGEST, STEPS, WARMING, QueryGuard


class QueryReader(Database):
    """A connection whose `guard` says what the query that runs may read.

    Its queries run for so many seconds. Raises `StartError` as `Database` does.
    """

    __slots__ = ("guard",)

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(path, seconds, STEPS)
        self.connection.execute("PRAGMA query_only = ON")
        self.connection.execute(WARMING).fetchall()
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.guard = QueryGuard()
        self.connection.set_authorizer(self.guard)
