"""Journals the changes of one session, and detects each task that becomes done or skipped.

The triggers of the journal see cascades too. They remain in the database, and do nothing for
connections without a session. They watch the tables of the app with a primary key, and the entries
of state files. An entry of the journal holds JSON: every stored column of a new or deleted row, or
the changed columns of an updated one. Bytes are written as `{"blob": "<hex>"}`.

Tasks are compared before the commit: it does not matter which statement, trigger or constraint
wrote the row. A cursor, declared in the message that begins the transaction, has the tasks of that
moment. Its query runs only if the transaction wrote such a row. Before the last comparison the
transaction becomes read-only, and PostgreSQL does not allow a return: a trigger that waits for the
commit cannot write any more.

The same message also counts the written rows of ralphgen's tables. Rows beyond the writes by the
engine come from a trigger, a rule or a function.
"""

from __future__ import annotations

from ...errors import ToolError
from .. import quoted
from ..ledger import DONE, ENDED, FORGED, KEPT, MARKER, PREFIX, TABLE, SessionJournal, moment
from ..ledger import TABLE as JOURNAL
from . import RECORD, search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..ledger import MayClose
    from .database import Database
    from .driver import Cursor


UNWATCHED = (
    'writes to "{}" cannot be recorded, because the login of this server may not create a trigger '
    "on it: nothing was changed; ask the owner of the tables to run "
    '"ralphgen db ledger on"'
)
# Unwatched tables: of the app with a primary key, and the entries of state files.
_UNWATCHED = f"""
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND EXISTS (SELECT 1 FROM pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'p')
    AND NOT EXISTS (SELECT 1 FROM pg_trigger AS t
                    WHERE t.tgrelid = c.oid AND t.tgname = '{RECORD}')
    AND (NOT starts_with(lower(c.relname), '{PREFIX}') OR c.relname = '{KEPT}')
"""
_MAY_WRITE = """
has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE')
"""
# Whether there is a ledger, and whether this login may write to a new, unwatched table. With OFFSET
# the server checks privileges only for the few unwatched tables.
_LOOK = f"""
SELECT to_regclass('{MARKER}') IS NOT NULL,
    EXISTS (SELECT 1 FROM (SELECT c.oid {_UNWATCHED} OFFSET 0) AS c WHERE {_MAY_WRITE})
"""
# By table: whether this login may watch it, and whether it may write to it.
_TABLES = f"""
SELECT c.relname::text, has_table_privilege(c.oid, 'TRIGGER'), {_MAY_WRITE}
{_UNWATCHED} ORDER BY c.relname
"""
_MADE = f"""
SELECT p.prosrc, has_function_privilege(p.oid, 'EXECUTE'),
    has_schema_privilege(n.oid, 'CREATE') AND coalesce(pg_has_role(p.proowner, 'USAGE'), true)
FROM pg_namespace AS n LEFT JOIN pg_proc AS p
    ON p.pronamespace = n.oid AND p.proname = '{RECORD}' AND p.pronargs = 0
WHERE n.nspname = current_schema()
"""
# It runs with the privileges of its owner: logins need none on the journal or the tables it reads.
# The session is found by the login if there is a table of logins, or set by the connection.
_FUNCTION = """
CREATE OR REPLACE FUNCTION {schema}.{record}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC'
SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1
AS '{body}';
REVOKE EXECUTE ON FUNCTION {schema}.{record}() FROM PUBLIC
"""
_BODY = """
DECLARE
    own text := current_setting('ralphgen.session', true);
    tool text := current_setting('ralphgen.tool', true);
    before text; after text; was json; became json; was_key text; key text;
    login_session text; name_of_table text; keys text[]; computed text[]; bytes text[];
BEGIN
    IF to_regclass({logins}) IS NOT NULL THEN
        SELECT one.session INTO login_session FROM {schema}.ralphgen_logins AS one
            WHERE one.login = session_user;
        own := coalesce(login_session, own);
    END IF;
    IF coalesce(own, '') = '' THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(a.attname::text ORDER BY array_position(k.conkey, a.attnum))
            FILTER (WHERE a.attnum = ANY (k.conkey)),
        coalesce(array_agg(a.attname::text) FILTER (WHERE a.attgenerated <> ''), '{{}}'),
        coalesce(array_agg(a.attname::text) FILTER (
            WHERE 'bytea'::regtype IN (t.oid, t.typbasetype)), '{{}}')
        INTO keys, computed, bytes
        FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
            LEFT JOIN pg_constraint AS k ON k.conrelid = a.attrelid AND k.contype = 'p'
        WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped;
    IF keys IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT relname INTO name_of_table FROM pg_class
        WHERE oid = coalesce(pg_partition_root(TG_RELID), TG_RELID);
    IF TG_OP <> 'INSERT' THEN
        was := row_to_json(OLD);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        became := row_to_json(NEW);
    END IF;
    SELECT string_agg((was -> name)::text, ',' ORDER BY place),
           string_agg((became -> name)::text, ',' ORDER BY place)
        INTO was_key, key FROM unnest(keys) WITH ORDINALITY AS named (name, place);
    IF cardinality(keys) > 1 THEN
        was_key := '[' || was_key || ']';
        key := '[' || key || ']';
    END IF;
    WITH sides AS (
        SELECT one.key AS name, one.place, one.value::text AS gone, NULL::text AS come
            FROM json_each(was) WITH ORDINALITY AS one (key, value, place)
        UNION ALL
        SELECT one.key, one.place, NULL, one.value::text
            FROM json_each(became) WITH ORDINALITY AS one (key, value, place)
    ), columns AS (
        SELECT name, min(place) AS place, min(gone) AS gone, min(come) AS come FROM sides
        WHERE name <> ALL (computed) GROUP BY name
    ), spelled AS (
        SELECT place, to_json(name)::text || ':' AS label,
            CASE WHEN name = ANY (bytes) AND gone <> 'null'
                THEN '{{"blob":"' || upper(substr(gone, 5, length(gone) - 5)) || '"}}' ELSE gone END
                AS gone,
            CASE WHEN name = ANY (bytes) AND come <> 'null'
                THEN '{{"blob":"' || upper(substr(come, 5, length(come) - 5)) || '"}}' ELSE come END
                AS come
        FROM columns WHERE was_key IS DISTINCT FROM key OR gone IS DISTINCT FROM come
    )
    SELECT '{{' || string_agg(label || gone, ',' ORDER BY place) || '}}',
           '{{' || string_agg(label || come, ',' ORDER BY place) || '}}'
        INTO before, after FROM spelled;
    IF before IS NULL AND after IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND was_key <> key THEN
        INSERT INTO {schema}.{table} (time, session, tool, table_name, row_key, before, after)
            VALUES ({moment}, own, tool, name_of_table, was_key, before, NULL),
                   ({moment}, own, tool, name_of_table, key, NULL, after);
    ELSE
        INSERT INTO {schema}.{table} (time, session, tool, table_name, row_key, before, after)
            VALUES ({moment}, own, tool, name_of_table, coalesce(key, was_key), before, after);
    END IF;
    RETURN NULL;
END
"""
_MOMENT = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
_NAME = "SELECT set_config('ralphgen.session', ?, true), set_config('ralphgen.tool', ?, true)"


class Journal(SessionJournal):
    """The journal of a connection; it names the session to the triggers in each transaction."""

    __slots__ = ("_named",)
    _database: Database

    def _attach(self) -> None:
        self._named: str | None = None  # the tool that this transaction has set, or None
        self._database.before_changes = self._name

    def begin(self) -> None:
        """Journal the rest of this transaction; called within each one."""
        self._named = None
        database = self._database
        ((has_ledger, is_new),) = database.rows(_LOOK)
        if not has_ledger:
            return
        # New triggers are known to be committed only when a later transaction finds them.
        moved = database.schema_version() != self._version
        if (moved or is_new) and not watch(database):
            self._version = database.schema_version()
        found = self._open_session()
        if self._ends_with_writes and found != (moment(),):
            database.change(ENDED, (moment(), self.session))

    def _name(self) -> None:
        """Set session and tool for the triggers, before the first change or if the tool changed."""
        tool = self._tool()
        if tool != self._named:
            self._named = tool
            self._database.row(_NAME, (self.session, tool))


def watch(database: Database) -> bool:
    """Make the missing triggers of tables; return whether any was missing.

    Runs in a transaction. Raises `ToolError` if this login may write to a table but not create a
    trigger on it: its writes could not be recorded.
    """
    ((schema,),) = database.rows("SELECT current_schema()::text")
    own = quoted(schema)
    logins = "'" + f"{own}.ralphgen_logins".replace("'", "''") + "'"
    made = {"schema": own, "record": RECORD, "table": TABLE, "moment": _MOMENT, "logins": logins}
    body = _BODY.format(**made)
    ((found, may_use, may_make),) = database.rows(_MADE)
    changed = bool(found != body and may_make)
    if changed:
        database.connection.execute(_FUNCTION.format(**made, body=body.replace("'", "''")).encode())
    for table, may_watch, may_write in database.rows(_TABLES):
        if may_watch and (may_use or changed):
            on = f"AFTER INSERT OR UPDATE OR DELETE ON {own}.{quoted(table)} FOR EACH ROW"
            run = f"EXECUTE FUNCTION {own}.{RECORD}()"
            database.connection.execute(f"CREATE TRIGGER {RECORD} {on} {run}".encode())
            changed = True
        elif may_write:
            raise ToolError(UNWATCHED.format(table))
    return changed


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
_VERSION = "pg_catalog.concat(tableoid, ctid)"  # of a row: its partition and position
_KEEP = "DECLARE ralphgen_before NO SCROLL CURSOR FOR "
# A cursor from a trigger is newer than the start of the transaction.
_IS_OURS = b"""
SELECT pg_catalog.count(*) FROM pg_catalog.pg_cursors
WHERE name OPERATOR(pg_catalog.=) 'ralphgen_before'
    AND creation_time OPERATOR(pg_catalog.=) pg_catalog.now()
"""
# The locks show whether the transaction wrote to the table. Rows with an age of at most 0 are from
# this transaction; others may have committed more rows since. A session login may not read the
# age, so it reads all rows; so does every login if another lock shows that a trigger altered a part
# of the table. Rows without an id follow if the table itself was altered, because a policy could
# then hide rows, and for each of ralphgen's tables that was written. TRUNCATE and ALTER take a
# stronger lock, and so does a new trigger of the journal on the table of entries.
_OWN = (
    "(pg_catalog.age(xmin) <= 0 OR EXISTS (SELECT 1 FROM locks WHERE mode <> 'RowExclusiveLock'))"
)
_LEDGER = [  # without the journal
    f"pg_catalog.to_regclass('{PREFIX}{name}')"
    for name in (
        *("claims", "entries", "evidence", "ledger", "logins", "questions"),
        *("revoked", "sessions", "unfinished"),
    )
]
_JOURNAL = f"pg_catalog.to_regclass('{JOURNAL}')"
_COUNT = "pg_catalog.pg_stat_get_xact_tuples_{}({})"
_ADDED, _UPDATED, _DELETED = "inserted", "updated", "deleted"


def _sum(kinds: Sequence[str], tables: Sequence[str]) -> str:
    """Return an expression: how many rows of tables were written in one of these ways."""
    counts = (_COUNT.format(kind, table) for table in tables for kind in kinds)
    return " + ".join(f"coalesce({count}, 0)" for count in counts)


# The number of ralphgen's tables, and the rows written since the connection last reported them to
# the server, which never happens within a transaction: of the journal (added, otherwise), of the
# other tables of ralphgen, and of the tables that the journal watches (added, updated, deleted).
_COUNTS = f"""
SELECT pg_catalog.concat_ws(' ', pg_catalog.num_nonnulls({_JOURNAL}, {", ".join(_LEDGER)}),
    {_sum([_ADDED], [_JOURNAL])}, {_sum([_UPDATED, _DELETED], [_JOURNAL])},
    {_sum([_ADDED, _UPDATED, _DELETED], _LEDGER)}, coalesce(pg_catalog.sum(added), 0),
    coalesce(pg_catalog.sum(updated), 0), coalesce(pg_catalog.sum(deleted), 0))
FROM (SELECT {_COUNT.format(_ADDED, "tgrelid")}, {_COUNT.format(_UPDATED, "tgrelid")},
    {_COUNT.format(_DELETED, "tgrelid")} FROM pg_catalog.pg_trigger WHERE tgname = '{RECORD}'
) AS watched (added, updated, deleted)
"""
_WRITTEN = f"""
WITH RECURSIVE held (mode, part) AS (SELECT mode, relation FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND mode NOT IN ('AccessShareLock', 'RowShareLock')),
parts (part, of) AS (
    SELECT CAST(of AS oid), CAST(of AS oid) FROM pg_catalog.unnest(
        ARRAY[CAST('tasks' AS regclass), {_JOURNAL}, {", ".join(_LEDGER)}]) AS of
    UNION SELECT inhrelid, of FROM pg_catalog.pg_inherits JOIN parts ON inhparent = part),
locks (mode, part) AS (SELECT mode, part FROM held JOIN parts USING (part)
    WHERE of = CAST('tasks' AS regclass))
(SELECT * FROM ({{met}} AND EXISTS (SELECT 1 FROM locks) AND {{own}}) AS met ORDER BY id)
UNION ALL SELECT NULL, 'altered', NULL FROM locks
    WHERE mode = 'AccessExclusiveLock' AND part = CAST('tasks' AS regclass)
UNION ALL SELECT NULL, CASE WHEN relhasrules OR part <> of OR mode <> 'RowExclusiveLock'
        THEN 'forged' ELSE CAST(relname AS text) END, CASE WHEN relhastriggers THEN 'trigger' END
    FROM held JOIN parts USING (part) JOIN pg_catalog.pg_class AS c ON c.oid = part
    WHERE of <> CAST('tasks' AS regclass)
        AND NOT (mode = 'ShareRowExclusiveLock' AND relname = '{KEPT}')
UNION ALL SELECT NULL, NULL, ({_COUNTS})
"""
# Excludes the triggers of ralphgen: on the table of entries, and on claims for session roles.
_TRIGGERS = f"""
SELECT 1 FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_proc AS p ON p.oid = tgfoid
WHERE tgrelid = pg_catalog.to_regclass(?) AND NOT tgisinternal AND NOT (
    pronamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace AND (
        tgname = '{RECORD}' AND proname = '{RECORD}'
        OR tgname = 'ralphgen_guard' AND proname = 'ralphgen_claim_guard'))
"""
# A row that was moved to another key has two entries, as if it was deleted and added.
_NEWEST = f"""
SELECT count(*) FILTER (WHERE before IS NULL), count(*) FILTER (WHERE after IS NULL)
FROM (SELECT before, after FROM {JOURNAL} ORDER BY number DESC LIMIT ?) AS newest
"""
_MAY_READ = f"SELECT pg_catalog.has_table_privilege('{JOURNAL}', 'SELECT')"
_LAST = """
SELECT pg_catalog.concat(CAST(? AS oid), pg_catalog.currtid2(
    CAST(CAST(CAST(? AS oid) AS regclass) AS text), CAST(? AS tid)))
"""
# A trigger that waits for the commit can let another one wait, each time that it is run.
_RUN_WAITING = "SET CONSTRAINTS ALL IMMEDIATE; " * 3


class Closing:
    """Which tasks a transaction finds done or skipped, and which of them may become done.

    `keep` are the statements that declare the cursor, and count; empty if there are no tasks.
    """

    __slots__ = (
        *("_before", "_counts", "_makes_tables", "_version", "_written", "_wrote"),
        *("keep", "may_close"),
    )

    def __init__(self) -> None:
        self._before: dict[tuple[Any, ...], str] | None = None
        self._counts: list[int] = []  # at the begin
        self._makes_tables = False  # of ralphgen
        self._version = -1  # of the schema
        self._wrote: dict[str, int] = {}  # rows of ralphgen's tables, by its own statements
        self._written = ""
        self.keep = ""
        self.may_close: list[MayClose] = []

    def prepare(self, database: Database) -> None:
        """Prepare for a transaction, before it begins."""
        self._before, self._makes_tables = None, False
        self._wrote.clear()
        self.may_close.clear()
        if self._version == database.schema_version():
            return
        schema = database.path.partition("/")[2]
        columns, sees_versions = database.row(_IS_TASKS, [f"{quoted(schema)}.tasks"]) or (0, 0)
        has_tasks = columns == len(("id", "status"))
        met = _MET.format(status=_STATUS, version=_VERSION if sees_versions else "''")
        self.keep = f"{_KEEP}{met}; {_COUNTS}" if has_tasks else ""
        own = _OWN if sees_versions else "true"
        # A trigger may have set another path.
        self._written = f"{search_path(schema)}; {_WRITTEN.format(met=met, own=own)}"
        self._version = database.schema_version()

    def begin(self, cursor: Cursor[tuple[Any, ...]]) -> None:
        """Take the answer to `keep`, the last of a message."""
        while cursor.nextset():
            continue
        self._counts = _numbers(cursor.fetchone()) if self.keep else []

    def note(self, sql: str, changed: int) -> None:
        """Note the number of rows that a statement wrote to tables of ralphgen."""
        if PREFIX not in sql:
            return
        verb, *words = sql.split(None, 3)
        if verb == "CREATE":
            self._makes_tables = True
        elif verb in ("DELETE", "INSERT", "UPDATE"):
            table = words[verb != "UPDATE"].strip('"')
            self._wrote[table] = self._wrote.get(table, 0) + changed

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
        rows = [row for row in written if row[0] is not None]
        facts = {name: fact for task, name, fact in written if task is None}
        if "altered" in facts:
            raise ToolError(ALTERED)
        if self._is_forged(database, facts):
            raise ToolError(FORGED)
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

    def _is_forged(self, database: Database, facts: Mapping[str | None, str | None]) -> bool:
        """Return whether others than ralphgen's own statements have written its tables.

        `facts` are whether a table that was written has triggers, by name, and the counts.
        """
        if self._makes_tables:
            return False
        counts = _numbers((facts[None],))
        tables = {name: fact for name, fact in facts.items() if name}
        if tables.keys() - {*self._wrote, JOURNAL}:
            return True
        if any(fact and database.row(_TRIGGERS, [name]) for name, fact in tables.items()):
            return True
        now = zip(counts, self._counts, strict=True)
        number, added, changed, others, new, updated, deleted = (one - was for one, was in now)
        own = self._wrote.get(JOURNAL, 0)
        if number or others > sum(self._wrote.values()) - own or changed > own:
            return True
        entries = added + changed - own - new - updated - deleted  # more than one a row
        return entries > 0 and entries > _moved(database, added, new, deleted)


def _moved(database: Database, entries: int, new: int, deleted: int) -> int:
    """Return how many rows got another key, as the newest entries of the journal tell."""
    if database.row(_MAY_READ) != (True,):
        return entries
    ((added, gone),) = database.rows(_NEWEST, [entries])
    return int(min(added - new, gone - deleted))


def _numbers(row: tuple[Any, ...] | None) -> list[int]:
    return [*map(int, (row or ("",))[-1].split())]


def _last_version(database: Database, version: str) -> str:
    """Return the version of a row that updates alone have made of another."""
    part, _, place = version.partition("(")
    ((last,),) = database.rows(_LAST, [part, part, f"({place}"])
    return str(last)
