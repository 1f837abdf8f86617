"""The read-only connection for named queries."""

from __future__ import annotations

from .. import quoted
from .database import Database
from .library import sqlite3
from .query_rules import LONGEST, STEPS, WARMING, QueryGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..queries import Query

DEFINITION = "CREATE VIEW "  # starts each view in the schema table


class QueryReader(Database):
    """A connection with a `guard` that limits the columns of the current query.

    Temporary views with the columns of the query have the names of the tables, so that no other
    column compiles. The guard is a second check. Its queries may run for `seconds`. Raises
    `StartError` as `Database` does.
    """

    __slots__ = ("_shown", "guard")

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(path, seconds, STEPS)
        self._shown: Query | None = None
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self.connection.execute("PRAGMA query_only = ON")
        self.connection.execute(WARMING).fetchall()
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.guard = QueryGuard()
        self.connection.set_authorizer(self.guard)

    def show(self, query: Query) -> None:
        """Make the views of a query, and only those; within a transaction."""
        if self._shown is query:
            return
        self.forget()
        self.connection.execute("PRAGMA query_only = OFF")
        try:
            for (name,) in self.rows("SELECT name FROM temp.sqlite_master WHERE type = 'view'"):
                self.change(f"DROP VIEW temp.{quoted(name)}")
            for name, columns in query.reads.items():
                if name not in query.views:
                    listed = ", ".join(map(exact, columns)) or "1"
                    names = f"({listed})" if columns else ""
                    body = ("SELECT", listed, "FROM", f"main.{quoted(name)}")
                    self.change(f"CREATE TEMP VIEW {quoted(name)}{names} AS {' '.join(body)}")
            for definition in query.views.values():
                self.change(f"CREATE TEMP VIEW {definition.removeprefix(DEFINITION)}")
        finally:
            self.connection.execute("PRAGMA query_only = ON")
        self._shown = query

    def forget(self) -> None:
        """Let the next query make its views again: a failed transaction rolls them back."""
        self._shown = None


def exact(column: str) -> str:
    """Return a column in backticks: SQLite takes "name" as a text if there is no such column."""
    return f"`{column.replace('`', '``')}`"
