"""Makes the tables of a new project in PostgreSQL, where there are none of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.init.recorded import default_schema
from ralphgen.init.stacks import Stack, first_rows
from ralphgen.ledger.tables import definition, now
from ralphgen.project.database import connected, first_line
from ralphgen.project.root import DatabasePlace, place_name
from ralphgen.runtime.engine.postgresql import schema as catalog
from ralphgen.runtime.engine.postgresql.library import settings, writers_lock
from ralphgen.runtime.engine.schema import TABLES

if TYPE_CHECKING:
    import psycopg

_FOUND = (
    "SELECT c.relname::text FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = ANY ($2) AND c.relkind NOT IN ('i', 'I', 'S', 't', 'c')"
)
_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"


def has_tables(place: DatabasePlace) -> bool:
    """Return whether the schema has any table of a project.

    Raises what `connected` raises, and `ProjectError` where that cannot be seen.
    """
    with connected(place) as connection:
        return _has_tables(connection, place.schema)


def create_tables(place: DatabasePlace, title: str, stack: Stack, description: str = "") -> bool:
    """Make the tables and the ledger, with the stack's disciplines; whether there were none.

    All are made or none. The schema is made too where there is none; one with any table of a
    project is left as it is. Raises what `connected` raises, and `ProjectError` where they cannot
    be made.
    """
    with connected(place) as connection:
        import psycopg

        try:
            with connection.transaction():
                connection.execute(
                    f"{settings(place.schema)}; {writers_lock(place.schema)}".encode()
                )
                if _has_tables(connection, place.schema):
                    return False
                make_tables(connection, place.schema)
                for table, row in first_rows(title, stack, description):
                    _add(connection, table, row)
        except psycopg.Error as error:
            text = f"the tables in {place_name(place)} cannot be created: {first_line(error)}"
            hint = "this command needs permission to create tables there"
            raise ProjectError(text, hint) from error
    return True


def make_tables(
    connection: "psycopg.Connection[Any]", schema: str, *, with_ledger: bool = True
) -> None:
    """Make the tables of a project that has none, with the schema where it is missing.

    To be called within a transaction whose search path begins with that schema.
    """
    from psycopg import sql

    named = sql.Identifier(schema)
    if connection.execute(_SCHEMA, [schema]).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(named))
    connection.execute(catalog.defined(default_schema()).encode())
    if with_ledger:
        connection.execute(definition(catalog).encode())
        connection.execute("INSERT INTO ralphgen_ledger (created) VALUES ($1)", [now()])


def _has_tables(connection: "psycopg.Connection[Any]", schema: str) -> bool:
    return connection.execute(_FOUND, [schema, list(TABLES)]).fetchone() is not None


def _add(connection: "psycopg.Connection[Any]", table: str, row: Mapping[str, object]) -> None:
    from psycopg import sql

    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(sql.SQL(f"${at}") for at in range(1, len(row) + 1)),
    )
    connection.execute(statement, [*row.values()])
