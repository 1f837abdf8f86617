"""TEMP triggers on one connection that detect each task that becomes done or skipped.

They also fire for changes by triggers of the application, foreign keys, REPLACE and UPSERT, and
leave no trace in the database. A trigger of the application that writes ralphgen's own tables does
not compile: it could forge evidence.
"""

from __future__ import annotations

from ...errors import ToolError
from ..closing import DONE, FORGED, MET, nobody, refused
from ..entries import PREFIX
from ..entries import TABLE as JOURNAL
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ..closing import MayClose
    from .database import Database

WRITING = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)
OWN = "ralphgen_closing_"  # prefix of the trigger names
_IS_TASKS = """
SELECT count(*) FROM main.sqlite_master AS one JOIN pragma_table_xinfo(one.name, 'main') AS field
WHERE one.type = 'table' AND lower(one.name) = 'tasks' AND lower(field.name) IN ('id', 'status')
"""
_TRIGGERS = "SELECT name, lower(tbl_name) FROM main.sqlite_master WHERE type = 'trigger'"
# AFTER, because the rowid and converted values are known only then. It checks every update: a
# generated column or the rowid can also change a task.
_TRIGGER = """
CREATE TEMP TRIGGER IF NOT EXISTS {own}{event} AFTER {event} ON main.tasks
WHEN lower(CAST(NEW.status AS TEXT)) IN {met}
    AND {moved} NOT ralphgen_may_become(NEW.id, lower(CAST(NEW.status AS TEXT)))
BEGIN SELECT RAISE(ABORT, 'a task cannot become done by this write'); END
"""
_MOVED = """
(OLD.status COLLATE BINARY IS NOT NEW.status OR OLD.id IS NOT NEW.id) AND
"""


class Closing:
    """The triggers of a connection; `may_close` decides which tasks may become done now.

    `moved` are the tasks that the open transaction made done or skipped, and `refused` is the
    reason for an abort.
    """

    __slots__ = ("_triggers", "_version", "may_close", "moved", "refused")

    def __init__(self, database: Database) -> None:
        self._version = -1  # the schema version of the triggers
        self.may_close: MayClose = nobody
        self.moved: list[tuple[Any, str]] = []
        self.refused = ""
        self._triggers: dict[str, str] = {}  # triggers of the database: table by name
        database.connection.create_function("ralphgen_may_become", 2, self._may_become)
        database.connection.set_authorizer(self.authorize)

    def begin(self, database: Database) -> None:
        """Watch the tasks in the started transaction; remake the triggers if the schema changed."""
        self.moved, self.refused = [], ""
        (version,) = database.row("PRAGMA main.schema_version") or (0,)
        if version != self._version:
            self._triggers = dict(database.rows(_TRIGGERS))
            if database.row(_IS_TASKS) == (2,):
                for event, moved in (("INSERT", ""), ("UPDATE", _MOVED)):
                    database.change(_TRIGGER.format(own=OWN, event=event, met=MET, moved=moved))
            self._version = version
        if any(table.startswith(PREFIX) for table in self._triggers.values()):
            raise ToolError(FORGED)  # such a trigger can ignore a row without any write

    def settled(self, database: Database) -> list[tuple[Any, str]]:
        """Return the tasks that the transaction has made done or skipped, at its end."""
        sql = "SELECT lower(CAST(status AS TEXT)) FROM main.tasks WHERE id = ?"
        found = dict(self.moved).items()
        return [(task, new) for task, new in found if database.row(sql, [task]) == (new,)]

    def rolled_back(self) -> None:
        """Look for the triggers again: a transaction that is rolled back may have made them."""
        self._version = -1

    def authorize(
        self, action: int, table: str | None, _column: object, _base: object, by: str | None
    ) -> int:
        """Return whether a part of a statement is allowed; `by` is its trigger or view."""
        if action in WRITING and is_forged(table or "", by, self._triggers):
            self.refused = FORGED
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _may_become(self, task: Any, status: str) -> bool:
        if status == DONE and not self.may_close(task):
            self.refused = refused(task)
            return False
        self.moved.append((task, status))
        return True


def is_forged(table: str, by: str | None, triggers: Collection[str]) -> bool:
    """Return whether a trigger other than the journal's writes a table of ralphgen.

    `triggers` are the triggers of the database, not of the connection; names may be equal.
    """
    is_journal = table == JOURNAL and by is not None and by.startswith(PREFIX)
    is_ours = is_journal and by not in triggers
    return by is not None and table.lower().startswith(PREFIX) and not is_ours
