"""Runs the statements of a project's own tools on PostgreSQL: ralphgen's tables stay as they are.

What a statement writes is asked of the server, since its text can say so in many ways.
"""

from __future__ import annotations

import json

from ..database.entries import PREFIX
from ..database.queries import MOST_BYTES, bytes_of, kept_records
from ..errors import ToolError
from . import statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .database import Database
    from .driver import Cursor

    Records = list[dict[str, Any]]

AT_ONCE = 100  # rows
LEDGER = "what ralphgen keeps for itself cannot be written"
SETTINGS = "a statement of a tool cannot change who writes, nor what watches it"
# What functions could set, and what triggers and functions have done to the tables of ralphgen;
# entries of the journal are made by its own triggers.
_STATE = """
SELECT current_setting('ralphgen.session', true), current_setting('ralphgen.tool', true),
    current_user::text, current_setting('session_replication_role'), (
    SELECT sum(CASE relname WHEN 'ralphgen_journal' THEN 0 ELSE n_tup_ins END + n_tup_upd
               + n_tup_del)
    FROM pg_stat_xact_user_tables WHERE starts_with(relname, 'ralphgen_'))
"""


def reader(workspace: Any, _hide: Sequence[str]) -> Any:
    """Return the connection on which the tools of a session read; hidden columns stay visible."""
    return workspace.database


def read_records(database: Database, sql: str, values: Sequence[object], most: int) -> Records:
    """Return at most so many rows of a statement, by column; within a transaction that only reads.

    Raises `ToolError` for one that changes the settings of the connection.
    """
    before = database.row(_STATE)
    if sql.lstrip()[:7].upper() == "EXPLAIN":  # which answers lines, and few of them
        rows, _ = _records(_run(database, sql, values), most)
    else:
        _run(database, f"DECLARE found NO SCROLL CURSOR FOR {sql}", values)
        rows = _fetched(database, most)
    _refuse_changed(before, database.row(_STATE))
    return rows


def write_records(
    database: Database, sql: str, values: Sequence[object], most: int, _hide: Sequence[str]
) -> tuple[Records, int]:
    """Return at most so many rows of a statement that writes, and how many it changed.

    Within a transaction, to which what a trigger does belongs too, also one that would wait for
    the commit. Raises `ToolError` where it writes what ralphgen keeps for itself.
    """
    plan = _run(database, f"EXPLAIN (FORMAT JSON) {sql}", values).fetchall()
    if any(name.lower().startswith(PREFIX) for (text,) in plan for name in _written(text)):
        raise ToolError(LEDGER)
    if database.before_changes is not None:
        database.before_changes()
    before = database.row(_STATE)
    done = _records(_run(database, sql, values), most)
    database.connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
    _refuse_changed(before, database.row(_STATE))
    return done


def _run(database: Database, sql: str, values: Sequence[object]) -> Cursor[tuple[Any, ...]]:
    """Run one statement: in a pipeline the server takes no second one behind it."""
    statements.refuse_unstorable(values)
    connection = database.connection
    with connection.pipeline():
        return connection.execute(statements.numbered(sql), values or None)


def _fetched(database: Database, most: int) -> Records:
    """Return the rows of what was declared, some at a time: the driver has them all at once."""
    rows: Records = []
    room = MOST_BYTES
    while len(rows) < most:
        cursor = database.connection.execute(b"FETCH %d FROM found" % min(AT_ONCE, most))
        names = [column.name for column in cursor.description or ()]
        found = kept_records(names, cursor, room)
        room -= sum(map(bytes_of, found))
        rows += found
        if cursor.rowcount < AT_ONCE:
            break
    return rows[:most]


def _records(cursor: Cursor[tuple[Any, ...]], most: int) -> tuple[Records, int]:
    if cursor.description is None:
        return [], cursor.rowcount
    names = [column.name for column in cursor.description]
    return kept_records(names, cursor.fetchmany(most)), cursor.rowcount


def _written(plan: str) -> Iterator[str]:
    """Yield the name of each table that a plan writes."""
    waiting: list[Any] = [json.loads(plan)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if part.get("Node Type") == "ModifyTable":
                yield part.get("Relation Name", "")
                yield from (one.get("Relation Name", "") for one in part.get("Target Tables", ()))
            waiting += part.values()


def _refuse_changed(before: tuple[Any, ...] | None, after: tuple[Any, ...] | None) -> None:
    """Raise `ToolError` where a statement has done by functions or triggers what it may not."""
    if before is None or after is None or before[:-1] != after[:-1]:
        raise ToolError(SETTINGS)
    if before[-1] != after[-1]:
        raise ToolError(LEDGER)
