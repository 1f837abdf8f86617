"""Journals the changes of one connection, row by row: TEMP triggers also see cascades.

Only tables of the app are watched. An entry holds JSON: every stored column of a new or deleted
row, or the changed columns of an updated one. A blob is written as `{"blob": "<hex>"}`; text keeps
its bytes.
"""

from __future__ import annotations

import json

from ...errors import ToolError
from .. import quoted
from ..entries import ENDED, ENTRY, NO_ROW, PREFIX, TABLE, moment
from ..journal import SessionJournal
from ..ledger import MARKER
from .closing import OWN
from .triggers import WatchedTable, replaced_triggers, triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .database import Database

UNWHOLE = (
    "the ledger in the database is incomplete, so this change cannot be recorded: nothing was "
    'changed; ask the user to run "ralphgen db ledger status"'
)
_INFINITY = float("inf")
ROWIDS = ("rowid", "oid", "_rowid_")
_TABLES = """
    SELECT name, wr, strict FROM pragma_table_list
    WHERE schema = 'main' AND type = 'table' AND substr(name, 1, 7) <> 'sqlite_'
    ORDER BY name
"""
_COLUMNS = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, 'main') ORDER BY cid"
_UNIQUE = "SELECT name FROM pragma_index_list(?, 'main') WHERE \"unique\" AND NOT partial"
_INDEXED = "SELECT name FROM pragma_index_info(?, 'main') ORDER BY seqno"
_OWN_TRIGGERS = "SELECT name FROM temp.sqlite_master WHERE type = 'trigger'"
_TRIGGERS_OF_APP = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' LIMIT 1"
_REPLACES = "SELECT 1 FROM main.sqlite_master WHERE sql LIKE '%REPLACE%' LIMIT 1"


class Journal(SessionJournal):
    """The journal of a connection; its triggers are temporary."""

    __slots__ = ("_made", "_noted")
    _database: Database

    def _attach(self) -> None:
        self._made = 0  # the version of triggers made by the previous transaction, or 0
        self._noted = ""  # the last recorded end of the session
        connection = self._database.connection
        connection.create_function("ralphgen_moment", 0, moment)
        connection.create_function("ralphgen_tool", 0, self._tool)
        connection.create_function("ralphgen_real", 1, _real)

    def begin(self) -> None:
        """Journal the rest of this transaction; called within each one.

        Recreates the triggers if the schema changed or the transaction with them was rolled back.
        """
        (version,) = self._database.row("PRAGMA main.schema_version") or (0,)
        if version != self._version or (self._made and self._made != self._triggers()):
            self._watch()
            self._version = version
            self._made = self._triggers()
            self._noted = ""
        else:
            self._made = 0
        if self._ends_with_writes and self._noted != moment():
            self._noted = moment()
            self._database.change(ENDED, (self._noted, self.session))

    def add_line(self, file: str, line: str, *, removed: bool = False) -> int:
        """Add an entry for a line of a state file, and return its number; within a transaction."""
        text = json.dumps({"line": line}, ensure_ascii=False)
        before, after = (text, None) if removed else (None, text)
        return self._database.insert(
            f"{ENTRY} VALUES (?, ?, ?, ?, ?, ?, ?)",
            (moment(), self.session, self._tool(), file, NO_ROW, before, after),
        )

    def add_undone(self, file: str, line: str, copy: str, *, put_back: bool) -> None:
        """Add an entry for a line that an undo removes or restores after the transaction.

        `copy` is the name of the file that then replaces the state file.
        """
        number = self.add_line(file, line, removed=not put_back)
        self._database.change("INSERT INTO ralphgen_unfinished VALUES (?, ?)", (number, copy))

    def _triggers(self) -> int:
        """Return the version of the temporary schema; it changes with the triggers."""
        (version,) = self._database.row("PRAGMA temp.schema_version") or (0,)
        return int(version)

    def _watch(self) -> None:
        """Make the triggers and the session's row; do nothing if the ledger is gone.

        Raises `ToolError` if the ledger is incomplete.
        """
        database = self._database
        for (name,) in database.rows(_OWN_TRIGGERS):
            if name.startswith(PREFIX) and not name.startswith(OWN):
                database.change(f"DROP TRIGGER temp.{quoted(name)}")
        names = [name for name, *_ in database.rows(_TABLES)]
        if TABLE not in names:
            if MARKER in names:
                raise ToolError(UNWHOLE)
            self._ends_with_writes = False
            return
        # Only recursive triggers see the rows that a REPLACE deletes. They are off if the app has
        # triggers: many would recurse without end, or do more than in the app.
        has_triggers = database.row(_TRIGGERS_OF_APP) is not None
        database.change(f"PRAGMA recursive_triggers = {'OFF' if has_triggers else 'ON'}")
        replaces = has_triggers and database.row(_REPLACES) is not None
        for table in watched_tables(database):
            for statement in triggers(table, self.session):
                database.change(statement)
            if replaces:
                for statement in replaced_triggers(
                    table, self.session, _unique_columns(database, table)
                ):
                    database.change(statement)
        self._open_session()


def watched_tables(database: Database) -> list[WatchedTable]:
    """Return the tables of the app, without virtual tables and their shadow tables."""
    found = []
    for name, without_rowid, strict in database.rows(_TABLES):
        if name.lower().startswith(PREFIX):
            continue
        columns = database.rows(_COLUMNS, (name,))
        stored = {column: kind for column, kind, _, hidden in columns if not hidden}
        key = [column for _, column in sorted((pk, column) for column, _, pk, _ in columns if pk)]
        taken = {column.lower() for column, *_ in columns}
        free = [alias for alias in ROWIDS if alias not in taken and not without_rowid]
        number = free[0] if free else None
        if key or number:
            found.append(WatchedTable(name, stored, key, number, strict=bool(strict)))
    return found


def _real(value: float) -> str:
    """Return a number as JSON that reads back exactly; infinity as 1e999."""
    return repr(value) if abs(value) != _INFINITY else f"{'-' if value < 0 else ''}1e999"


def _unique_columns(database: Database, table: WatchedTable) -> list[list[str]]:
    """Return the columns of each unique index on whole columns and on all rows."""
    found = []
    for (index,) in database.rows(_UNIQUE, (table.name,)):
        columns = [name for (name,) in database.rows(_INDEXED, (index,))]
        if {*columns} <= {*table.columns}:
            found.append(columns)
    return found
