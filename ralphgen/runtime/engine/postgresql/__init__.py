"""The SQL of PostgreSQL with the same results as of SQLite, its DSNs, and its errors as messages.

DSNs that other libraries write become parameters of libpq. Messages state the problem and the
remedy, without SQL text.
"""

from __future__ import annotations

import os
import re

from ...errors import StartError, ToolError
from .. import EMPTY, NOT_UNIQUE, hidden_columns, mentions, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .. import Database, Snapshot
    from .driver import Error

_HEX = "upper(encode(convert_to(name::text, 'UTF8'), 'hex'))"
SAME_NAME = "name = ?"
SAME_LETTERS = 'lower(title COLLATE "C") = lower(? COLLATE "C")'  # only ASCII letters, as on SQLite
TYPED = True  # the column type decides the meaning of a text
DEFER_KEYS = "SET CONSTRAINTS ALL DEFERRED"
DIFFERS = "IS DISTINCT FROM"  # from a value, including NULL
HEX_NAME = f'({_HEX} COLLATE "C")'
HAS_TEXT = "name IS NOT NULL"
# Names sort by their bytes, NULL first.
NAME_KEY = (
    f"((coalesce({_HEX}, '') || CASE WHEN name IS NULL THEN '.n' ELSE '.t' END) COLLATE \"C\")"
)
UNINDEXED = ""
ROW_LOCK = " FOR UPDATE"  # locks the rows of a SELECT against other writers
# Whether the list in `depends_on` may name a task; the caller then parses the matches. A text can
# spell a number in many ways; jsonb has one form for each number, and can have an index.
_NAMING = (
    "(strpos(depends_on::text, ?) > 0 AND (';' || depends_on::text || ';') ~ ? "
    "OR depends_on::text ~ ?)"
)
_NAMING_IN_JSONB = "depends_on @@ ?"
_KIND = (
    "SELECT format_type(atttypid, NULL) FROM pg_attribute "
    "WHERE attrelid = to_regclass('tasks') AND attname = 'depends_on'"
)
_kinds: dict[tuple[str, int], str] = {}
_SPELLING = (
    "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, MDY'; "
    "SET LOCAL IntervalStyle = 'postgres'; SET LOCAL bytea_output = 'hex'; "
    "SET LOCAL extra_float_digits = 1; SET LOCAL standard_conforming_strings = on"
)
RECORD = "ralphgen_record"  # the name of the journal's function and triggers
CHANNEL = "ralphgen"  # of notices; the payload is the name of a schema
GIVEN_NUMBER = " OVERRIDING SYSTEM VALUE"  # for an INSERT with an explicit row number


_OWN_CODE = """
WITH known AS (
    SELECT oid, relname FROM pg_catalog.pg_class
    WHERE relnamespace = pg_catalog.quote_ident(pg_catalog.current_schema())::regnamespace
)
SELECT EXISTS (
    SELECT 1 FROM known JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = known.oid
    WHERE NOT t.tgisinternal AND t.tgname <> 'ralphgen_record'
), EXISTS (
    SELECT 1 FROM known JOIN pg_catalog.pg_attribute AS a ON a.attrelid = known.oid
    WHERE a.attgenerated <> ''
        AND relname IN ('tasks', 'features', 'disciplines', 'task_comments', 'metadata')
)
"""


def own_code(database: Snapshot) -> Sequence[str]:
    """Return the kinds of statements on ralph's tables that run code of the project.

    A "write" runs triggers; generated columns count for a "read" too.
    """
    triggers, generated = database.row(_OWN_CODE) or (0, 0)
    return ("read", "write") if generated else ("write",) if triggers else ()


def settings(schema: str) -> str:
    """Return the settings at the start of a transaction: search path and output formats.

    Each transaction sets them, because a pooler may give it a new session.
    """
    return f"{search_path(schema)}; {_SPELLING}"


def search_path(schema: str) -> str:
    """Return the statement that sets the search path of a transaction to the schema."""
    return f"SET LOCAL search_path = {quoted(schema)}, pg_temp"


def writers_lock(schema: str) -> str:
    """Return the statement that takes the writers' lock until the end of the transaction.

    Only one ralphgen writer of a schema has it at a time.
    """
    name = "'" + f"ralphgen {schema}".replace("'", "''") + "'"
    return f"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended({name}, 0))"


def notice(schema: str) -> str:
    """Return the statement of a writing transaction that notifies the listeners.

    A trigger would also report the app's writes, but it would serialize the app's commits, while
    ralphgen's are serialized anyway.
    """
    name = "'" + schema.replace("'", "''") + "'"
    return f"SELECT pg_catalog.pg_notify('{CHANNEL}', {name})"


def dsn_of(path: str) -> str:
    """Return the DSN of a database by `path`; raises `StartError` if the variable is not set."""
    variable = path.partition("/")[0]
    dsn = os.environ.get(variable, "")
    if not dsn:
        raise StartError(
            f'the environment variable "{variable}" is not set: set it to the DSN of the '
            "database, such as postgresql://user@host/name"
        )
    return dsn


def naming(database: Database, task: int) -> tuple[str, list[str]]:
    """Return the condition that the list in `depends_on` may name a task, with its values.

    Runs in a transaction; it reads the column type once for each schema version.
    """
    key = (database.path, database.schema_version())
    kind = _kinds.get(key)
    if kind is None:
        (kind,) = database.row(_KIND) or ("",)
        _kinds.clear()
        _kinds[key] = kind
    if kind == "jsonb":
        return _NAMING_IN_JSONB, [f'$.** == {task} || $.** == "{task}"']
    return _NAMING, [str(task), f"[^1-9]{task}[^0-9]", "[0-9][eE]"]


def may_add(database: Snapshot, table: str) -> bool:
    """Return whether this login may add rows to a table; a session login has fewer privileges."""
    sql = "SELECT has_any_column_privilege(?, 'INSERT')"
    return database.row(sql, [quoted(table)]) == (1,)


def can_read(database: Snapshot, table: str, column: str) -> bool:
    """Return whether this login may read a column; a session login has fewer privileges."""
    sql = "SELECT has_column_privilege(?, ?, 'SELECT')"
    return database.row(sql, [quoted(table), column]) == (1,)


def ordered(column: str) -> str:
    """Return an ORDER BY term: the bytes of a column, rows without a value first."""
    return f'({column})::text COLLATE "C" NULLS FIRST'


def exact(column: str) -> str:
    """Return an expression for the bytes of a text."""
    return f"convert_to({column}::text, 'UTF8')"


def holding(column: str) -> str:
    """Return the condition that a text contains another one."""
    return f"strpos({column}::text, ?) > 0"


def comparable(column: str) -> str:
    """Return a comparable expression for a column: some types have no equality."""
    return f"CAST({column} AS TEXT)"


def same_json(column: str) -> str:
    """Return the condition that a column has a JSON value, in any spelling."""
    return f"CAST({column} AS jsonb) = CAST(? AS jsonb)"


def returning(key: str) -> str:
    """Return the end of an INSERT that returns its row number."""
    return f" RETURNING {quoted(key)}"


def next_number(table: str) -> str:
    """Return the SELECT of the next row number; it also advances the table's sequence."""
    sequence = f"pg_get_serial_sequence('{table}', 'id')::regclass"
    behind = "id > coalesce(pg_sequence_last_value(counter), 0)"
    return (
        f"SELECT id, CASE WHEN counter IS NOT NULL AND {behind} THEN setval(counter, id) END "
        f"FROM (SELECT coalesce(max(id), 0) + 1 AS id, {sequence} AS counter FROM {table}) AS next"
    )


def among(column: str, kind: str = "bigint") -> str:
    """Return the condition that a value is in a list, given as JSON."""
    return f"{column} IN (SELECT item::{kind} FROM json_array_elements_text(?) AS item)"


def exactly(column: str) -> str:
    """Return a text that is compared, grouped and ordered by its characters alone."""
    return f'{column}::text COLLATE "C"'


def holds(column: str) -> str:
    """Return the condition that a column is like a pattern, in any case of its letters."""
    return f"{column}::text ILIKE ? ESCAPE '!'"


def is_text(column: str) -> str:
    """Return the condition that a column stores text."""
    return f"{column} IS NOT NULL"


def member(column: str, name: str) -> str:
    """Return a member of a JSON object, as text."""
    return f"(coalesce({column}, '{{}}')::json ->> '{name}')"


def stored_name(table: str) -> str:
    """Return the name of a table as text, in the spelling of the database."""
    return f"'{table}'"


def stored_type(column: str) -> str:
    """Return the type of a stored value: null or text."""
    return f"CASE WHEN {column} IS NULL THEN 'null' ELSE 'text' END"


def encoding_of(_database: Snapshot) -> str:
    """Return the encoding of `exact`."""
    return "UTF-8"


# Prisma, Heroku, SQLAlchemy, Django (dj-database-url, django-environ), Rails, and JDBC.
_SCHEME = re.compile(
    r"(?:jdbc:)?(?:postgres(?:ql)?|pgsql|psql|postgis|timescale(?:gis)?)(?:\+\w+)?://",
    re.IGNORECASE,
)
# Parameters that name a schema.
_SCHEMAS = ("schema", "currentschema")
# Parameters of pools and of other drivers: they do not change which database is meant.
_DROPPED = frozenset(
    {
        *("adapter", "async_fallback", "autosave", "checkout_timeout", "client_encoding"),
        *("command_timeout", "conn_health_checks", "conn_max_age", "connection_limit", "encoding"),
        *("advisory_locks", "idle_timeout", "max_idle", "max_overflow", "max_queries", "min_idle"),
        *("max_connections", "max_lifetime", "min_connections", "min_messages", "min_size"),
        *("max_size", "native_uuids", "pgbouncer", "pool", "pool_max", "pool_min"),
        *("pool_mode", "pool_pre_ping", "pool_recycle", "pool_size", "pool_timeout"),
        *("prepare_threshold", "preparethreshold", "prepared_statement_cache_size"),
        *("prepared_statement_name_func", "prepared_statements", "reaping_frequency"),
        *("reconnect", "rewritebatchedstatements", "single_sentence", "socket_timeout"),
        *("sockettimeout", "sslaccept", "statement_cache_mode", "statement_cache_size"),
        *("statement_limit", "stringtype", "tcpkeepalive", "timeout", "use_native_hstore"),
        *("variables", "default_auto_field", "disable_server_side_cursors", "supa"),
        *("max_cached_statement_lifetime", "max_cacheable_statement_size", "uselibpqcompat"),
        *("executemany_mode", "insertmanyvalues_page_size", "native_inet_types", "workaround"),
    }
)
# Other drivers' names for parameters of libpq.
_RENAMED = {
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "database": "dbname",
    "logintimeout": "connect_timeout",
    "ssl_ca": "sslrootcert",
    "sslidentity": "sslcert",
    "username": "user",
}
_TRUE, _FALSE = ("1", "on", "require", "t", "true", "yes"), ("0", "disable", "f", "false", "no")


class DsnError(ValueError):
    """A DSN that libpq cannot use: the message names the parameter, never a value."""


def is_url(dsn: str) -> bool:
    """Return whether a DSN is a URL rather than libpq's list of keywords."""
    return _SCHEME.match(dsn.strip()) is not None


def plain_dsn(dsn: str, known: Collection[str]) -> str:
    """Return the URL that libpq reads, without the parameters of pools and other drivers.

    `known` are the parameters of libpq. A list of keywords is returned unchanged. Raises
    `DsnError` for a parameter that is neither known nor safe to drop.
    """
    from urllib.parse import parse_qsl, quote

    text = dsn.strip()
    match = _SCHEME.match(text)
    if match is None:
        return text
    address, _, query = text[match.end() :].partition("?")
    kept: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        lower = name.lower()
        named = _RENAMED.get(lower, lower)
        if lower in ("ssl", "sslmode") and value.lower() in (*_TRUE, *_FALSE):
            kept.append(("sslmode", "require" if value.lower() in _TRUE else "disable"))
        elif lower in _DROPPED or lower in _SCHEMAS:
            continue
        elif named in known:
            kept.append((named, value))
        else:
            raise DsnError(f'unsupported parameter "{name[:60]}"')
    parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in kept)
    return f"postgresql://{address}{'?' * bool(parameters)}{parameters}"


def schema_of(dsn: str) -> str:
    """Return the schema that a URL names, empty without one."""
    if not is_url(dsn):
        return ""
    from urllib.parse import parse_qsl, urlsplit

    for name, value in parse_qsl(urlsplit(dsn.strip()).query):
        if name.lower() in _SCHEMAS:
            return value.split(",")[0].strip().strip('"')
    return ""


RACES = ("40001", "40P01", "55P03")  # serialization, deadlock, a lock that is held
STOPPED = "57014"
MOVED = ("42703", "42P01", "0A000")  # no such column, no such table, a plan with other columns
TAKEN = "23505"
NO_RIGHT = "42501"
READ_ONLY = "25006"
LATE = (
    "a trigger of the database still waited for the commit to write, after three rounds in which "
    "waiting triggers ran: nothing was changed; ask the user to let no deferred trigger defer "
    "another"
)
DOCTOR = 'the database cannot be used: ask the user to run "ralphgen doctor"'
SENTENCES = {
    "22001": "the database refuses this: a value is too long",
    "23502": 'the database refuses this: "{column}" must not be empty',
    "23503": "the database refuses this: a referenced row is missing, or another row refers to "
    "this one; look it up and try again",
    "23514": "the database refuses this: a value breaks a rule of its table",
    READ_ONLY: "the database is read-only: nothing was changed; fix its permissions",
    "428C9": "the database refuses this: {message}; leave it out",  # a column that it fills
    NO_RIGHT: "the login of this server may not do this ({message}): nothing was changed; ask the "
    "user for the privilege",
    "42804": "the database refuses this: a value has the wrong type",
    "42883": "the database refuses this: it cannot compare values of this type",
    "53100": "the disk is full: nothing was changed; free some space and try again",
    "57014": "the database took too long and was stopped: nothing was changed; request less, or "
    "ask the user to check for an endless trigger or view",
    "P0001": "the database refuses this: {message}",
}
CLASSES = {"22": "the database refuses this: a value has the wrong type"}
# By kind of object, the rights that a login of ralphgen needs.
RIGHTS = {
    **dict.fromkeys(("table", "relation", "view"), "SELECT, INSERT, UPDATE, DELETE ON"),
    "sequence": "SELECT, UPDATE ON SEQUENCE",
    "schema": "USAGE, CREATE ON SCHEMA",
}
MISSING = "does not exist"
LOGINS = ("authentication failed", "no password supplied", "pg_hba.conf", "role ")


def missing_grant(error: Error, login: str, schema: str) -> str:
    """Return the GRANT that gives a login the missing right on a table, sequence or schema.

    Empty for any other error, and for the login of a session, whose recipe decides about rights.
    """
    what = (error.diag.message_primary or "").partition("permission denied for ")[2]
    kind, _, name = what.removeprefix("materialized ").partition(" ")
    if kind not in RIGHTS or not name or login.startswith("ralphgen_"):
        return ""
    place = quoted(schema) if kind == "schema" else f"{quoted(schema)}.{quoted(name)}"
    return f"GRANT {RIGHTS[kind]} {place} TO {quoted(login)};"


def sentence(
    error: Error,
    login: str,
    schema: str,
    hidden: Collection[str] = (),
    known: Collection[str] = (),
) -> str:
    """Return a sentence on an error of a statement, which a login ran on a schema.

    It names no `hidden` column, by table for `known` tables.
    """
    state = error.sqlstate or ""
    told = error.diag
    if grant := missing_grant(error, login, schema):
        may = "the login of this server may not do this"
        return f"{may} ({told.message_primary}): nothing was changed; ask the owner to run: {grant}"
    table = told.table_name or ""
    unseen = hidden_columns(hidden, table)
    if not unseen and table.lower() not in known:  # perhaps a partition of a table with some
        unseen = {one.rpartition(".")[2] for one in hidden}
    if state == TAKEN:
        key = _key(told.message_detail or "")
        if not key or mentions(key, unseen):
            return NOT_UNIQUE
        is_primary = (told.constraint_name or "").endswith("_pkey")
        how = "already exists" if is_primary else "is already taken"
        return f'the database refuses this: "{table}.{key}" {how}'
    column = f"{table}.{told.column_name}"
    if (told.column_name or "").lower() in unseen:
        return EMPTY
    text = SENTENCES.get(state) or CLASSES.get(state[:2]) or DOCTOR
    return text.format(column=column, message=told.message_primary)


def unreachable(variable: str, error: Error) -> str:
    """Return a sentence on a failed connection, without any part of the DSN."""
    text = str(error)
    problem = "cannot be reached: see that it runs"
    if not text.startswith(("connection ", "consuming ", "could not ")) and not error.sqlstate:
        problem = "is named by no DSN: write one, such as postgresql://user@host/name"
    elif any(words in text for words in LOGINS):
        problem = "refuses the login: see the user and the password"
    elif MISSING in text:
        problem = "does not exist: see the name"
    return f'the database that the environment variable "{variable}" names {problem}'


def _key(detail: str) -> str:
    """Return the columns out of `Key (name)=(value) already exists.`."""
    return detail.partition("(")[2].partition(")=")[0]


LIMIT = 2**63  # bound of the integers in a column
REMEMBERED = 1_000  # statements
_remembered: dict[str, bytes] = {}
_VALUES = r"'[^']*'|\"[^\"]*\"|\?"  # quoted text; a "?" in it is not a placeholder


def numbered(sql: str) -> bytes:
    """Return a statement with $1, $2 and so on for each "?" placeholder."""
    known = _remembered.get(sql)
    if known is not None:
        return known
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] != "?":
            return found[0]
        count += 1
        return f"${count}"

    if len(_remembered) == REMEMBERED:
        _remembered.clear()
    text = _remembered[sql] = re.sub(_VALUES, place, sql).encode()
    return text


def refuse_unstorable(values: Sequence[object]) -> None:
    """Raise the errors of SQLite's driver for values that no column can store."""
    for value in values:
        if isinstance(value, int) and not -LIMIT <= value < LIMIT:
            raise OverflowError
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                "a string contains the character U+0000, which the database cannot store"
            )
