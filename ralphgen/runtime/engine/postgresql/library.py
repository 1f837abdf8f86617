"""The engine-specific SQL for PostgreSQL, with the same results as for SQLite."""

from __future__ import annotations

import os

from ...errors import StartError
from .. import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .. import Database, Snapshot

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


def may_read(database: Snapshot, table: str, column: str) -> bool:
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


def named(table: str) -> str:
    """Return the name of a table as text, in the spelling of the database."""
    return f"'{table}'"


def stored_type(column: str) -> str:
    """Return the type of a stored value: null or text."""
    return f"CASE WHEN {column} IS NULL THEN 'null' ELSE 'text' END"


def encoding_of(_database: Snapshot) -> str:
    """Return the encoding of `exact`."""
    return "UTF-8"
