"""Opens a project's database to be changed, in whichever engine it is, and journals the changes."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ralphgen.errors import ProjectError
from ralphgen.project.connection import DatabaseConnection
from ralphgen.project.database import ALONE, no_database
from ralphgen.project.postgresql import PostgresqlConnection, require_psycopg
from ralphgen.project.root import database_name, database_named, has_database, postgresql_place
from ralphgen.runtime.engine.postgresql import database as postgresql
from ralphgen.runtime.engine.postgresql import journal as postgresql_journal
from ralphgen.runtime.engine.sqlite import database as sqlite
from ralphgen.runtime.engine.sqlite import journal as sqlite_journal
from ralphgen.runtime.errors import StartError, ToolError

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database


class RowJournal(Protocol):
    """What puts on record each row that a connection changes, by the same names on both engines."""

    def begin(self) -> None:
        """Have all that comes next in this transaction journaled; to be called within each one."""


@contextmanager
def opened_database(root: Path) -> Iterator["Database"]:
    """The project's database, to be changed; raises `ProjectError` where that cannot be."""
    with connected_database(root) as database:
        try:
            yield database
        except (ToolError, sqlite3.Error) as error:  # the latter of what is read by itself
            raise ProjectError(f"{database_name(root)}: {error}") from error


@contextmanager
def connected_database(root: Path, patience: float = sqlite.PATIENCE) -> Iterator["Database"]:
    """The project's database, whose own errors reach the caller.

    `patience` is for how many seconds it waits for other writers. Raises `ProjectError` where it
    cannot be opened; one of PostgreSQL is not before its first use.
    """
    on_postgresql = postgresql_place(root) is not None
    if not has_database(root):
        raise no_database(database_name(root))
    if on_postgresql:
        require_psycopg()
    with nullcontext() if on_postgresql else ALONE:
        try:
            opened = postgresql.Database if on_postgresql else sqlite.Database
            database: Database = opened(database_named(root), patience)
        except StartError as error:
            raise ProjectError(str(error)) from error
        try:
            yield database
        finally:
            database.close()


def of_postgresql(database: "Database") -> postgresql.Database | None:
    """Return a database of PostgreSQL as what it is, None for one of SQLite."""
    return database if isinstance(database, postgresql.Database) else None


def connection_of(database: "Database") -> DatabaseConnection:
    """Return the connection of a database for what reads its facts; within a transaction."""
    own = of_postgresql(database)
    connection: DatabaseConnection = database.connection
    return connection if own is None else PostgresqlConnection(own.connection)


def journal_of(
    database: "Database",
    session: str,
    facts: Mapping[str, Any],
    tool: Callable[[], str],
    *,
    ends_with_writes: bool = False,
) -> RowJournal:
    """Return what journals the changes of a connection; the arguments are those of a `Journal`."""
    made: Any = sqlite_journal if of_postgresql(database) is None else postgresql_journal
    journal: RowJournal = made.Journal(
        database, session, facts, tool, ends_with_writes=ends_with_writes
    )
    return journal
