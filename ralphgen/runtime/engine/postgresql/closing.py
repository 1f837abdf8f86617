"""Notices each task that becomes done or skipped: by comparing the tasks before the commit.

It does not matter which statement, trigger or constraint wrote the row. A cursor, declared in the
message that begins the transaction, has the tasks of that moment. Its query runs only if the
transaction has written such a row. Before the last comparison the transaction becomes read-only,
which PostgreSQL lets no one undo: a trigger that still waits for the commit cannot write.
"""

from __future__ import annotations

from ...errors import ToolError
from .. import quoted
from ..closing import DONE, FORGED
from ..ledger import EVIDENCE
from .library import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..closing import MayClose
    from .database import Database

ALTERED = (
    'a trigger of the database altered the table "tasks" in this write: nothing was changed; ask '
    "the user to remove that from the trigger"
)
MEDDLED = (
    "a trigger of the database closed or replaced ralphgen's cursor on tasks: nothing was changed; "
    'ask the user to remove the statements on "ralphgen_before" from their triggers'
)
_STATUS = "pg_catalog.lower(pg_catalog.rtrim(pg_catalog.concat(status)))"  # needs no cast
_IS_TASKS = """
SELECT count(*), bool_and(has_table_privilege(attrelid, 'SELECT'))
FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class AS c ON c.oid = attrelid
WHERE attrelid = to_regclass(?) AND relkind IN ('r', 'p') AND NOT attisdropped
    AND attname IN ('id', 'status') AND has_column_privilege(attrelid, attnum, 'SELECT')
"""
_MET = "SELECT id, {status}, {version} FROM tasks WHERE {status} IN ('done', 'skipped')"
_VERSION = "pg_catalog.concat(tableoid, ctid)"  # of a row: its part of the table, and its place
_KEEP = "DECLARE ralphgen_before NO SCROLL CURSOR FOR "
# A trigger can only declare it later than the transaction began.
_IS_OURS = b"""
SELECT pg_catalog.count(*) FROM pg_catalog.pg_cursors
WHERE name OPERATOR(pg_catalog.=) 'ralphgen_before'
    AND creation_time OPERATOR(pg_catalog.=) pg_catalog.now()
"""
# The locks tell whether the transaction has written to the table. What it has written itself is not
# older than its own number, which is the age 0; rows that others have committed since may be there.
# The login of a session may not read that number, and looks at all rows, as everyone does once a
# trigger has altered a part of the table, which another lock tells. Rows without an id follow
# if the table itself was altered, so that a policy could hide rows, or evidence was written.
_OWN = (
    "(pg_catalog.age(xmin) <= 0 OR EXISTS (SELECT 1 FROM locks WHERE mode <> 'RowExclusiveLock'))"
)
_WRITTEN = """
WITH RECURSIVE parts (part) AS (SELECT CAST(CAST('tasks' AS regclass) AS oid) UNION
    SELECT inhrelid FROM pg_catalog.pg_inherits JOIN parts ON inhparent = part),
locks (mode, part) AS (SELECT mode, relation FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND relation IN (SELECT part FROM parts))
(SELECT * FROM ({met} AND EXISTS (SELECT 1 FROM locks) AND {own}) AS met ORDER BY id)
UNION ALL SELECT NULL, 'altered', NULL FROM locks
    WHERE mode = 'AccessExclusiveLock' AND part = CAST('tasks' AS regclass)
UNION ALL SELECT NULL, CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger
        WHERE tgrelid = relation AND NOT tgisinternal) THEN 'trigger' ELSE 'evidence' END, NULL
    FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND relation = pg_catalog.to_regclass('{evidence}')
"""
_LAST = """
SELECT pg_catalog.concat(CAST(? AS oid), pg_catalog.currtid2(
    CAST(CAST(CAST(? AS oid) AS regclass) AS text), CAST(? AS tid)))
"""
# A trigger that waits for the commit can let another one wait, each time that it is run.
_RUN_WAITING = "SET CONSTRAINTS ALL IMMEDIATE; " * 3


class Closing:
    """Which tasks a transaction finds done or skipped, and which of them may become done.

    `keep` is the statement that declares the cursor, empty if there are no tasks. `records` means
    that the transaction has a statement that writes evidence.
    """

    __slots__ = ("_before", "_version", "_written", "keep", "may_close", "records")

    def __init__(self) -> None:
        self._before: dict[tuple[Any, ...], str] | None = None
        self._version = -1  # of the schema
        self._written = ""
        self.keep = ""
        self.may_close: list[MayClose] = []
        self.records = False

    def prepare(self, database: Database) -> None:
        """Prepare for a transaction, before it begins."""
        self._before, self.records = None, False
        self.may_close.clear()
        if self._version == database.schema_version():
            return
        schema = database.path.partition("/")[2]
        columns, sees_versions = database.row(_IS_TASKS, [f"{quoted(schema)}.tasks"]) or (0, 0)
        has_tasks = columns == len(("id", "status"))
        met = _MET.format(status=_STATUS, version=_VERSION if sees_versions else "''")
        self.keep = f"{_KEEP}{met}" if has_tasks else ""
        own = _OWN if sees_versions else "true"
        written = _WRITTEN.format(met=met, own=own, evidence=EVIDENCE)
        self._written = f"{search_path(schema)}; {written}"  # a trigger may have set another path
        self._version = database.schema_version()

    def before(self, database: Database) -> dict[tuple[Any, ...], str]:
        """Return the tasks at the start, each with its version; statements may alter the table now.

        As long as the cursor is open the server refuses to disable a trigger of it.
        """
        if self._before is None and self.keep:
            connection = database.connection
            if connection.execute(_IS_OURS).fetchone() != (1,):
                raise ToolError(MEDDLED)
            rows = connection.execute(b"FETCH ALL FROM ralphgen_before")
            self._before = {(task, status): version for task, status, version in rows}
            connection.execute(b"CLOSE ralphgen_before")
        return self._before or {}

    def moved(self, database: Database, *, ends: bool = False) -> list[tuple[int, str]]:
        """Return the tasks that the transaction has made done or skipped.

        Triggers that wait for the commit run first. If the transaction `ends`, none of them can
        write afterwards. A task that was deleted and added again counts, if versions are visible.
        """
        if not self.keep:
            return []
        end = "SET TRANSACTION READ ONLY; " if ends else ""
        cursor = database.connection.execute(f"{_RUN_WAITING}{end}{self._written}".encode())
        while cursor.nextset():
            continue
        written = cursor.fetchall()
        facts = {status for task, status, _ in written if task is None}
        if "altered" in facts:
            raise ToolError(ALTERED)
        if "trigger" in facts or ("evidence" in facts and not self.records):
            raise ToolError(FORGED)
        rows = [row for row in written if row[0] is not None]
        if not rows:
            return []
        before, moved = self.before(database), []
        for task, status, version in rows:
            old = before.get((task, status))
            if version != old and (old is None or version != _last_version(database, old)):
                moved.append((task, status))
        return moved

    def refuses(self, task: int, status: str) -> bool:
        """Return whether a task may not have become so."""
        return status == DONE and not any(may_close(task) for may_close in self.may_close)


def _last_version(database: Database, version: str) -> str:
    """Return the version of a row that updates alone have made of another."""
    part, _, place = version.partition("(")
    ((last,),) = database.rows(_LAST, [part, part, f"({place}"])
    return str(last)
