"""Journals the changes of one session, row by row: triggers also see cascades.

The triggers remain in the database, and do nothing for connections without a session. They watch
the tables of the app with a primary key, and the entries of state files. An entry of the journal
holds JSON: every stored column of a new or deleted row, or the changed columns of an updated one.
Bytes are written as `{"blob": "<hex>"}`.
"""

from __future__ import annotations

from ...errors import ToolError
from .. import quoted
from ..entries import ENDED, KEPT, PREFIX, TABLE, moment
from ..journal import SessionJournal
from ..ledger import MARKER
from .library import RECORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .database import Database

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
