"""Runs the project's SQL: named queries, and the statements of custom tools.

Queries that read use a read-only transaction. The statements of tools cannot write ralphgen's
tables: the server's EXPLAIN lists the written tables, because the text can express a write in many
ways.
"""

from __future__ import annotations

import json
import re

from ...deferred import longest_run, take_time
from ...errors import ToolError
from ...statements import in_child
from .. import postgresql, unstorable
from ..ledger import PREFIX
from ..queries import (
    MOST_BYTES,
    MOVED,
    Query,
    answer,
    bytes_of,
    changing_by,
    records,
    whole_records,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..queries import Run
    from .database import Database
    from .driver import Cursor

    Records = list[dict[str, Any]]


__all__ = ["Query", "asking", "changing"]
GONE = ("42703", "42P01", "42883", "42704", "42P18", "42804")  # the schema has changed
STOPPED = "57014"
BAD_VALUE = ("22", "21", "2F")  # classes of errors about values


@in_child
def asking(query: Query) -> Run:
    """Return the tool of a reading query; its first argument is the kit's workspace."""

    def ask(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        values = query.values(arguments)
        skipped, limit = (0, 1) if query.kind == "one" else query.begin(arguments)
        # One additional row shows that there are more.
        wrapped = f"SELECT * FROM ({query.sql}\n) AS query LIMIT {limit + 1} OFFSET {skipped}"
        milliseconds = int(1000 * min(query.seconds, longest_run()))

        def work() -> dict[str, Any]:
            connection = workspace.database.connection
            connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
            names, rows = _of_query(workspace, query, wrapped, values)
            found: dict[str, Any] = answer(query, records(names, rows), skipped, limit)
            return found

        shown: dict[str, Any] = workspace.database.reading(work)
        return shown

    return ask


@in_child
def changing(query: Query) -> Run:
    """Return the tool of a writing query; its first argument is the workspace."""

    def run(workspace: Any, values: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        if workspace.database.before_changes is not None:
            workspace.database.before_changes()
        return _of_query(workspace, query, query.sql, values)

    return changing_by(query, run)


def _of_query(
    workspace: Any, query: Query, sql: str, values: dict[str, Any]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and the rows; raises `ToolError` for invalid values."""
    from . import driver

    given = list(values.values())
    postgresql.refuse_unstorable(given)
    try:
        cursor = workspace.database.connection.execute(sql.encode(), given or None)
    except (UnicodeEncodeError, OverflowError) as error:
        raise unstorable(error) from error
    except driver.Error as error:
        state = error.sqlstate or ""
        said = str(error.diag.message_primary or "")
        if state == STOPPED and query.kind != "exec":
            take_time()  # runs the call again if that allows more time
            raise ToolError(query.took_too_long) from error
        if state in GONE:
            raise ToolError(MOVED.format(query.name, said)) from error
        if state == postgresql.NO_RIGHT:
            text = f'the query "{query.name}" reads what the login of this session may not: {said}'
            raise ToolError(text) from error
        if state[:2] in BAD_VALUE:
            raise ToolError(f'the query "{query.name}" fails on these values: {said}') from error
        raise
    return [column.name for column in cursor.description], cursor.fetchall()


AT_ONCE = 100  # rows
LEDGER = "what ralphgen keeps for itself cannot be written"
SETTINGS = "a statement of a tool cannot change who writes, nor what watches it"
ALWAYS_HIDDEN = ("disciplines.mcp_servers",)  # may hold secrets
LONGEST_NAME = 63  # bytes; the server cuts longer ones
# Built-in functions that are not immutable but read only their arguments.
_HARMLESS = """
age array_agg array_to_json array_to_string clock_timestamp concat concat_ws date date_part
date_trunc extract format gen_random_uuid generate_series json_agg json_build_array
json_build_object json_object_agg jsonb_agg jsonb_build_array jsonb_build_object jsonb_object_agg
length now random row_to_json statement_timestamp string_to_array time timestamp timestamptz
timezone to_char to_date to_json to_jsonb to_timestamp to_tsquery to_tsvector
transaction_timestamp
"""
# Casts to these types read names of tables, functions and logins.
_OF_CATALOGS = """
regclass regcollation regnamespace regoper regoperator regproc regprocedure regrole regtype
"""
# The server has only this white space: other kinds, such as U+00A0, are parts of names.
_TOKENS = r"""(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|--|/\*|\w+|[^ \t-\r]"""
# Each function, table and view outside the system schemas: whether it can be read unchanged, and
# the definition of a view. A table that inherits shares its rows with its parent.
_NAMES = """
WITH RECURSIVE hidden (oid) AS (
    SELECT oid FROM pg_catalog.pg_class
    WHERE relnamespace = CAST(pg_catalog.current_schema() AS pg_catalog.regnamespace)
        AND ARRAY[CAST(relname AS text), pg_catalog.lower(relname)] && CAST(? AS text[])
    UNION
    SELECT CASE i.inhrelid WHEN h.oid THEN i.inhparent ELSE i.inhrelid END
    FROM hidden h JOIN pg_catalog.pg_inherits i ON h.oid IN (i.inhrelid, i.inhparent)
)
SELECT CAST(relname AS text), relkind IN ('r', 'p', 'v', 'm')
        AND relnamespace = CAST(pg_catalog.current_schema() AS pg_catalog.regnamespace)
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.oid = c.oid)
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_rewrite r
            WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'),
    CASE WHEN relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
WHERE relkind NOT IN ('i', 'I', 't', 'c') AND n.nspname <> 'information_schema'
    AND NOT pg_catalog.starts_with(n.nspname, 'pg_')
UNION ALL
SELECT CAST(proname AS text), false, NULL
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_IMPURE = """
SELECT proname FROM pg_catalog.pg_proc
WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND provolatile <> 'i'
"""
# Settings that functions could change.
_STATE = """
SELECT current_setting('ralphgen.session', true), current_setting('ralphgen.tool', true),
    current_user::text, current_setting('session_replication_role')
"""


def reader(workspace: Any, _hide: Sequence[str]) -> Any:
    """Return the connection for the reading tools of a session."""
    return workspace.database


def read_records(
    database: Database, sql: str, values: Sequence[object], most: int, hide: Sequence[str]
) -> Records:
    """Return at most `most` rows of a statement, by column; within a read-only transaction.

    Raises `ToolError` if it could read hidden columns, or changes the settings of the connection.
    """
    _refuse_hidden(database, sql, hide)
    before = database.row(_STATE)
    if sql.lstrip()[:7].upper() == "EXPLAIN":  # returns a few lines
        rows, _ = _records(_run(database, sql, values), most)
    else:
        _run(database, f"DECLARE found NO SCROLL CURSOR FOR {sql}", values)
        rows = _fetched(database, most)
    if before != database.row(_STATE):
        raise ToolError(SETTINGS)
    return rows


def write_records(
    database: Database, sql: str, values: Sequence[object], most: int, hide: Sequence[str]
) -> tuple[Records, int]:
    """Return at most `most` rows of a writing statement, and how many it changed.

    Runs in a transaction, and runs deferred triggers before it returns. Raises `ToolError` if the
    statement writes to ralphgen's tables or could read hidden columns.
    """
    if re.search(rf'(?i)\b(?:INTO|UPDATE|FROM)\s+"?{PREFIX}', sql):
        raise ToolError(LEDGER)
    _refuse_hidden(database, sql, hide)
    plan = _run(database, f"EXPLAIN (FORMAT JSON) {sql}", values).fetchall()
    written = {name.lower() for (text,) in plan for name in _changed_tables(text)}
    if any(name.startswith(PREFIX) for name in written):
        raise ToolError(LEDGER)
    if database.before_changes is not None:
        database.before_changes()
    before = database.row(_STATE)
    done = _records(_run(database, sql, values), most)
    database.connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
    if before != database.row(_STATE):
        raise ToolError(SETTINGS)
    if "tasks" in written:
        # The caller checks that these are proved; no later task may become done.
        closed = {task for task, _ in database.closed_tasks()}
        database.closing(closed.__contains__, lambda: None)
    return done


def _run(database: Database, sql: str, values: Sequence[object]) -> Cursor[tuple[Any, ...]]:
    """Run one statement, in a pipeline: there, the server refuses a second one in the text."""
    postgresql.refuse_unstorable(values)
    connection = database.connection
    with connection.pipeline():
        return connection.execute(postgresql.numbered(sql), values or None)


def _fetched(database: Database, most: int) -> Records:
    """Fetch the rows of the cursor in batches: the driver would load all of them."""
    rows: Records = []
    room = MOST_BYTES
    while len(rows) < most:
        cursor = database.connection.execute(b"FETCH %d FROM found" % min(AT_ONCE, most))
        names = [column.name for column in cursor.description or ()]
        found = whole_records(names, cursor, room)
        room -= sum(map(bytes_of, found))
        rows += found
        if cursor.rowcount < AT_ONCE:
            break
    return rows[:most]


def _records(cursor: Cursor[tuple[Any, ...]], most: int) -> tuple[Records, int]:
    if cursor.description is None:
        return [], cursor.rowcount
    names = [column.name for column in cursor.description]
    return whole_records(names, cursor.fetchmany(most)), cursor.rowcount


def _changed_tables(plan: str) -> Iterator[str]:
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


def _refuse_hidden(database: Database, sql: str, hide: Sequence[str]) -> None:
    """Raise `ToolError` if a statement could read hidden columns, judging by its names.

    It may name neither a table with hidden columns, nor objects that can read tables indirectly.
    The definitions of its views are checked too.
    """
    dots = [(entry, at) for entry in (*ALWAYS_HIDDEN, *hide) for at in range(len(entry))]
    named = [entry[:at] for entry, at in dots if entry[at] == "."]  # a name may have a dot
    tables = [*named, *map(str.lower, named)]
    definitions: dict[str, list[str]] = {}
    impure = {name for (name,) in database.rows(_IMPURE)} - {*_HARMLESS.split()}
    denied = {*_OF_CATALOGS.split()}
    for name, readable, definition in database.rows(_NAMES, (tables,)):
        if not readable:
            denied.add(name.lower())
        definitions.setdefault(name.lower(), []).extend(filter(None, (definition,)))
    waiting = [sql]
    seen: set[str] = set()
    while waiting:
        tokens = re.findall(_TOKENS, waiting.pop())
        for at, token in enumerate(tokens):
            if token[0] == "'":
                if "\\" in token:
                    raise ToolError(
                        "a statement of a tool cannot contain a backslash: use a parameter"
                    )
                continue
            name = token[1:-1].replace('""', '"') if len(token) > 1 and token[0] == '"' else token
            name = name.lower()
            after = tokens[at + 1] if at + 1 < len(tokens) else ""
            if _is_unclear(name, after) or not (
                token.isascii() or len(token) > 1 or token.isalnum()
            ):
                raise ToolError(f"a statement of a tool cannot contain {token}: use a parameter")
            if (
                name in denied
                or name.startswith((PREFIX, "pg_"))
                or name == "information_schema"
                or (after == "(" and name in impure)
            ):
                raise ToolError(
                    f'a statement of a tool cannot use "{name}": it could show hidden columns'
                )
            if name not in seen:
                seen.add(name)
                waiting += definitions.get(name, ())


def _is_unclear(name: str, after: str) -> bool:
    """Return whether the server could parse a token differently."""
    return (
        name in ("--", "/*", "\\", "$", "'", '"')
        or "$" in name
        or len(name.encode()) > LONGEST_NAME
        or (name == "u" and after == "&")
    )
