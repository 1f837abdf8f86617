"""Notices each task that becomes done or skipped: by comparing the tasks before the commit.

So it does not matter which statement, trigger or constraint wrote the row.
"""

from __future__ import annotations

from ..closing import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..closing import MayClose
    from .database import Database

_IS_TASKS = """
SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass('tasks')
    AND attname IN ('id', 'status') AND NOT attisdropped
    AND has_column_privilege(attrelid, attnum, 'SELECT')
"""
_TASKS = """
SELECT coalesce(string_agg(id || ' ' || lower(status::text), ',' ORDER BY id), '') FROM tasks
WHERE lower(status::text) IN ('done', 'skipped')
"""


class Closing:
    """Which tasks a transaction finds done or skipped, and which of them may become done."""

    __slots__ = ("_before", "_version", "may_close")

    def __init__(self) -> None:
        self._before = ""
        self._version = -1  # of the schema that is known to have tasks
        self.may_close: list[MayClose] = []

    def begin(self, database: Database) -> None:
        """Take down the tasks in the transaction that has begun."""
        self.may_close.clear()
        if database.row(_IS_TASKS) == (2,):
            self._version = database.schema_version()
        self._before = self._found(database)

    def moved(self, database: Database) -> list[tuple[int, str]]:
        """Return the tasks that the transaction has made done or skipped, at its end.

        What waits for the commit runs first.
        """
        if self._version != database.schema_version():
            return []
        database.connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
        after = self._found(database)
        if after == self._before:
            return []
        known = {*self._before.split(",")}
        new = [one.partition(" ") for one in after.split(",") if one and one not in known]
        return [(int(task), status) for task, _, status in new]

    def refuses(self, task: int, status: str) -> bool:
        """Return whether a task may not have become so."""
        return status == DONE and not any(may_close(task) for may_close in self.may_close)

    def _found(self, database: Database) -> str:
        if self._version != database.schema_version():
            return ""
        ((found,),) = database.rows(_TASKS)
        return str(found)
