"""Says in each engine's SQL what the statements of commands leave to it."""

from ralphgen.project.connection import DatabaseConnection
from ralphgen.project.postgresql import PostgresqlConnection
from ralphgen.runtime.engine.postgresql import library as postgresql_library

_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_COLUMNS_OF_POSTGRESQL = (
    "SELECT a.attname::text FROM pg_catalog.pg_attribute AS a "
    "JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = pg_catalog.current_schema() AND c.relname = ? "
    "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)


def column_names(connection: DatabaseConnection, table: str) -> list[str]:
    """Return the names of a table's columns; none where there is no such table."""
    of_postgresql = isinstance(connection, PostgresqlConnection)
    found = connection.execute(_COLUMNS_OF_POSTGRESQL if of_postgresql else _COLUMNS, [table])
    return [name for (name,) in found]


def among(connection: DatabaseConnection, column: str, *, of_texts: bool = False) -> str:
    """Return the condition that a number is in a list, which is given as JSON, or a text."""
    if isinstance(connection, PostgresqlConnection):
        kind = "text" if of_texts else "bigint"
        return f"{column} IN (SELECT item::{kind} FROM json_array_elements_text(?) AS item)"
    return f"{column} IN (SELECT value FROM json_each(?))"


def named(connection: DatabaseConnection, table: str) -> str:
    """Return the name of a table as a text, as the database spells it."""
    if isinstance(connection, PostgresqlConnection):
        return f"'{table}'"
    return f"(SELECT name FROM sqlite_master WHERE type = 'table' AND lower(name) = '{table}')"


def exactly(connection: DatabaseConnection, column: str) -> str:
    """Return a text that is compared, grouped and put in order by its characters alone."""
    of_postgresql = isinstance(connection, PostgresqlConnection)
    return f'{column}::text COLLATE "C"' if of_postgresql else f"{column} COLLATE BINARY"


def holds(connection: DatabaseConnection, column: str) -> str:
    """Return the condition that a column is like a pattern, whose escape is "!", in any case.

    SQLite knows the case of ASCII alone.
    """
    if isinstance(connection, PostgresqlConnection):
        return f"{column}::text ILIKE ? ESCAPE '!'"
    return f"{column} LIKE ? ESCAPE '!'"


def is_text(connection: DatabaseConnection, column: str) -> str:
    """Return the condition that a text is there, and nothing else that SQLite may hold."""
    of_postgresql = isinstance(connection, PostgresqlConnection)
    return f"{column} IS NOT NULL" if of_postgresql else f"typeof({column}) = 'text'"


def encoding_of(connection: DatabaseConnection) -> str:
    """Return the encoding of `stored_bytes`, as Python names it."""
    if isinstance(connection, PostgresqlConnection):
        return "UTF-8"
    ((encoding,),) = connection.execute("PRAGMA encoding").fetchall()
    return str(encoding)


def stored_type(connection: DatabaseConnection, column: str) -> str:
    """Return what a value is stored as: null, text, or another type's name of SQLite."""
    if isinstance(connection, PostgresqlConnection):
        return f"CASE WHEN {column} IS NULL THEN 'null' ELSE 'text' END"
    return f"typeof({column})"


def row_lock(connection: DatabaseConnection) -> str:
    """Return what keeps the rows of a SELECT as they are until its transaction ends."""
    return postgresql_library.ROW_LOCK if isinstance(connection, PostgresqlConnection) else ""


def stored_bytes(connection: DatabaseConnection, column: str) -> str:
    """Return the bytes of a text as the database holds it, in its encoding; UTF-8 in PostgreSQL."""
    if isinstance(connection, PostgresqlConnection):
        return f"convert_to({column}::text, 'UTF8')"
    return f"CAST({column} AS BLOB)"
