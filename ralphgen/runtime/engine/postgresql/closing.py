"""Notices each task that becomes done or skipped: by comparing the tasks before the commit.

So it does not matter which statement, trigger or constraint wrote the row. A cursor keeps the tasks
as the transaction found them. Its query runs only if the transaction has written such a row.
"""

from __future__ import annotations

from ..closing import DONE
from .library import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..closing import MayClose
    from .database import Database

_IS_TASKS = """
SELECT count(*), bool_and(has_column_privilege(attrelid, 'xmin', 'SELECT'))
FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class AS c ON c.oid = attrelid
WHERE attrelid = to_regclass('tasks') AND relkind IN ('r', 'p') AND NOT attisdropped
    AND attname IN ('id', 'status') AND has_column_privilege(attrelid, attnum, 'SELECT')
"""
KEEP = """
DECLARE ralphgen_before NO SCROLL CURSOR FOR SELECT id, lower(status::text) FROM tasks
WHERE lower(status::text) IN ('done', 'skipped')
"""
# The locks tell whether the transaction has written to the table. What it has written itself is not
# older than its own number, which is the age 0; rows that others have committed since may be there.
# The login of a session may not read that number, and looks at all rows, as everyone does once a
# trigger has altered the table, which another lock tells.
_OWN = (
    "(pg_catalog.age(xmin) <= 0 OR EXISTS (SELECT 1 FROM locks WHERE mode <> 'RowExclusiveLock'))"
)
_WRITTEN = """
WITH RECURSIVE parts (part) AS (SELECT CAST(CAST('tasks' AS regclass) AS oid) UNION
    SELECT inhrelid FROM pg_catalog.pg_inherits JOIN parts ON inhparent = part),
locks (mode) AS (SELECT mode FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND relation IN (SELECT part FROM parts))
SELECT id, lower(status::text) FROM tasks WHERE EXISTS (SELECT 1 FROM locks)
    AND {own} AND lower(status::text) IN ('done', 'skipped') ORDER BY id
"""
# A trigger that waits for the commit can let another one wait, each time that it is run.
_RUN_WAITING = "SET CONSTRAINTS ALL IMMEDIATE; " * 5


class Closing:
    """Which tasks a transaction finds done or skipped, and which of them may become done."""

    __slots__ = ("_before", "_version", "_written", "may_close")

    def __init__(self) -> None:
        self._before: set[tuple[Any, ...]] | None = None
        self._version = -1  # of the schema that is known to have tasks
        self._written = b""
        self.may_close: list[MayClose] = []

    def knows(self, database: Database) -> bool:
        """Return whether there are tasks to keep in mind."""
        return self._version == database.schema_version()

    def begin(self, database: Database) -> None:
        """Begin with a transaction, which has kept the tasks that are known."""
        self._before = None
        self.may_close.clear()
        if self.knows(database):
            return
        columns, sees_own = database.row(_IS_TASKS) or (0, 0)
        if columns == len(("id", "status")):
            database.connection.execute(KEEP.encode())
            self._version = database.schema_version()
            written = _WRITTEN.format(own=_OWN if sees_own else "true")
            # A trigger may have set the path to other tables.
            path = search_path(database.path.partition("/")[2])
            self._written = f"{_RUN_WAITING}{path}; {written}".encode()

    def before(self, database: Database) -> set[tuple[Any, ...]]:
        """Return the tasks that the transaction has found, and let its statements alter the table.

        As long as the cursor is open the server refuses to disable a trigger of it.
        """
        if self._before is None and self.knows(database):
            self._before = {*database.connection.execute(b"FETCH ALL FROM ralphgen_before")}
            database.connection.execute(b"CLOSE ralphgen_before")
        return self._before or set()

    def moved(self, database: Database) -> list[tuple[int, str]]:
        """Return the tasks that the transaction has made done or skipped, at its end.

        What waits for the commit runs first.
        """
        if not self.knows(database):
            return []
        cursor = database.connection.execute(self._written)
        while cursor.nextset():
            continue
        written = cursor.fetchall()
        if not written:
            return []
        before = self.before(database)
        return [(task, status) for task, status in written if (task, status) not in before]

    def refuses(self, task: int, status: str) -> bool:
        """Return whether a task may not have become so."""
        return status == DONE and not any(may_close(task) for may_close in self.may_close)
