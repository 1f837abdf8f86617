"""TEMP triggers on one connection: for the journal, and to detect a task that becomes done.

They also fire for changes by triggers of the application, foreign keys, REPLACE and UPSERT, and
leave no trace in the database. A trigger of the application that writes ralphgen's own tables does
not compile: it could forge evidence.

The journal watches only tables of the app. An entry holds JSON: every stored column of a new or
deleted row, or the changed columns of an updated one. A blob is written as `{"blob": "<hex>"}`;
text keeps its bytes.
"""

from __future__ import annotations

import json

from ...errors import ToolError
from .. import quoted
from ..ledger import (
    DONE,
    ENDED,
    ENTRY,
    FORGED,
    MARKER,
    MET,
    NO_ROW,
    PREFIX,
    TABLE,
    SessionJournal,
    moment,
    nobody,
    refused,
)
from ..ledger import TABLE as JOURNAL
from . import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from ..ledger import MayClose
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


SIMPLE = ("INT", "INTEGER", "TEXT")  # types of a strict table
AT_ONCE = 60  # columns that one call of `json_object` takes


class WatchedTable:
    """A table of the app: its stored columns with their types, and its key.

    `number` is the name of the rowid, None if there is none. `key` has the columns of the primary
    key, or `number` without one. `simple` are the columns that can hold only text, integers and
    NULL.
    """

    __slots__ = ("columns", "key", "name", "number", "simple")

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        key: Sequence[str],
        number: str | None,
        *,
        strict: bool,
    ) -> None:
        self.name = name
        self.columns = columns
        self.key = key or [number or ""]
        self.number = number
        kinds = SIMPLE if strict else ()
        self.simple = frozenset(name for name, kind in columns.items() if kind.upper() in kinds)


def triggers(table: WatchedTable, session: str) -> list[str]:
    """Return the CREATE TRIGGER statements of one table."""
    old, new = (_Row(table, name) for name in ("OLD", "NEW"))
    changed = " OR ".join(_differs(column, kind) for column, kind in table.columns.items())
    moved = " OR ".join(_differs(column, "") for column in table.key)
    added = _entry(table, session, new.key(), "NULL", new.whole())
    taken = _entry(table, session, old.key(), old.whole(), "NULL")
    updated = _entry(table, session, new.key(), old.updated(), new.updated())
    return [
        _trigger(table, "insert", "INSERT", "", added),
        _trigger(table, "delete", "DELETE", "", taken),
        _trigger(table, "update", "UPDATE", f"WHEN NOT ({moved}) AND ({changed})", updated),
        _trigger(table, "move", "UPDATE", f"WHEN {moved}", f"{taken} {added}"),
    ]


def replaced_triggers(
    table: WatchedTable, session: str, unique: Iterable[Sequence[str]]
) -> list[str]:
    """Return the CREATE TRIGGER statements for rows that a REPLACE deletes without triggers.

    A row in conflict on the `unique` columns may also survive or be updated: an undo then finds
    the row and does not change it.
    """
    row = _Row(table, "there")
    who = f"ralphgen_moment(), {_literal(session)}, ralphgen_tool(), {_literal(table.name)}"
    found = f"SELECT {who}, {row.key()}, {row.whole()}, NULL"
    there = f"FROM {quoted(table.name)} AS there"
    ways = " OR ".join(f"({_same(columns, 'NEW')})" for columns in [table.key, *unique])
    others = f"({ways}) AND NOT ({_same(table.key, 'OLD')})"
    watched = f"main.{quoted(table.name)}"
    return [
        f"CREATE TEMP TRIGGER {quoted(f'{PREFIX}{name}_{table.name}')} BEFORE {event} ON {watched} "
        f"BEGIN {ENTRY} {found} {there} WHERE {which}; END"
        for name, event, which in (("replaced", "INSERT", ways), ("ousted", "UPDATE", others))
    ]


def _same(columns: Sequence[str], row: str) -> str:
    return " AND ".join(f"there.{quoted(one)} = {row}.{quoted(one)}" for one in columns)


def _trigger(table: WatchedTable, name: str, event: str, condition: str, body: str) -> str:
    own = quoted(f"{PREFIX}{name}_{table.name}")
    watched = f"main.{quoted(table.name)}"
    return f"CREATE TEMP TRIGGER {own} AFTER {event} ON {watched} {condition} BEGIN {body} END"


def _entry(table: WatchedTable, session: str, key: str, before: str, after: str) -> str:
    who = f"ralphgen_moment(), {_literal(session)}, ralphgen_tool(), {_literal(table.name)}"
    return f"{ENTRY} VALUES ({who}, {key}, {before}, {after});"


def _differs(column: str, kind: str) -> str:
    """Return the condition that an update gives a column another value, or one of another type."""
    name = quoted(column)
    value = f"OLD.{name} COLLATE BINARY IS NOT NEW.{name}"
    if any(word in kind.upper() for word in ("INT", "CHAR", "TEXT")):
        return value  # 1 and 1.0 are the same there
    return f"{value} OR typeof(OLD.{name}) <> typeof(NEW.{name})"


class _Row:
    """A row in a trigger, as SQL expressions for its JSON."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: WatchedTable, row: str) -> None:
        self._row = row
        self._table = table

    def key(self) -> str:
        """Return the expression for the key as JSON: its value, or the list of its values."""
        values = [self._value(column) for column in self._table.key]
        return values[0] if len(values) == 1 else f"'[' || {_joined(values)} || ']'"

    def whole(self) -> str:
        """Return the expression for an object of all columns: one call if JSON has their types."""
        columns = [*self._table.columns]
        members = [f"({_name(one)} || {self._value(one)})" for one in columns]
        by_one = f"'{{' || {_joined(members)} || '}}'"
        if len(columns) > AT_ONCE:
            return by_one
        pairs = ", ".join(f"{_literal(one)}, {self._row}.{quoted(one)}" for one in columns)
        odd = " OR ".join(
            f"typeof({self._row}.{quoted(one)}) IN ('blob', 'real')"
            for one in columns
            if one not in self._table.simple
        )
        return f"CASE WHEN {odd or 0} THEN {by_one} ELSE json_object({pairs}) END"

    def updated(self) -> str:
        """Return the expression for an object of the columns that an update changes.

        It has all columns if the key is the rowid: VACUUM can give it to another row.
        """
        if self._table.key == [self._table.number]:
            return self.whole()
        members = [
            f"CASE WHEN {_differs(one, kind)} THEN ',' || {_name(one)} || {self._value(one)} "
            "ELSE '' END"
            for one, kind in self._table.columns.items()
        ]
        return f"'{{' || substr({' || '.join(members)}, 2) || '}}'"

    def _value(self, column: str) -> str:
        value = f"{self._row}.{quoted(column)}"
        if column in self._table.simple:
            return f"json_quote({value})"
        return (
            f"CASE typeof({value}) WHEN 'blob' THEN '{{\"blob\":\"' || hex({value}) || '\"}}' "
            f"WHEN 'real' THEN ralphgen_real({value}) ELSE json_quote({value}) END"
        )


def _joined(parts: Sequence[str]) -> str:
    return " || ',' || ".join(parts)


def _name(column: str) -> str:
    return _literal(f"{json.dumps(column, ensure_ascii=False)}:")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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
