"""Opens a project's database in PostgreSQL for reading, and never shows the password in its DSN."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.project.root import Postgresql
from ralphgen.runtime.engine.postgresql.dsn import DsnError
from ralphgen.runtime.engine.postgresql.failures import LOGINS, MISSING
from ralphgen.runtime.engine.postgresql.library import settings
from ralphgen.runtime.engine.postgresql.statements import numbered

if TYPE_CHECKING:
    import psycopg

EXAMPLE = "postgresql://me@localhost/shop"
INSTALL = "pipx install --force '.[postgresql]'"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class NoConnectionError(ProjectError):
    """No connection can be made: the variable is not set, or nobody answers as expected."""


class PostgresqlConnection:
    """A connection whose statements mark values by "?", as those of SQLite do."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        """Run statements on `connection`."""
        self.raw = connection

    def execute(self, sql: str, values: Sequence[object] = ()) -> Any:
        """Return the cursor of a statement.

        Raises `ValueError` for a text that PostgreSQL cannot hold, and what psycopg raises.
        """
        if any(isinstance(value, str) and "\0" in value for value in values):
            raise ValueError("a string contains a NUL")
        return self.raw.execute(numbered(sql), values or None)


@contextmanager
def open_postgresql(place: Postgresql) -> Iterator[PostgresqlConnection]:
    """A read-only connection, which sees one moment of the database.

    Names without a schema are those of the project's. Raises `NoConnectionError` where there is no
    connection to be had, `ProjectError` for a DSN that is none, without psycopg, and where the
    database refuses to be read.
    """
    with connected(place) as connection:
        import psycopg

        try:
            connection.execute(f"{_BEGIN}; {settings(place.schema)}".encode())
            yield PostgresqlConnection(connection)
        except psycopg.Error as error:
            text = f"the database in {place.dsn_env} cannot be read: {first_line(error)}"
            raise ProjectError(text, 'run "ralphgen doctor"') from error


@contextmanager
def connected(place: Postgresql) -> Iterator["psycopg.Connection[Any]"]:
    """A connection as servers have one, which commits each statement by itself.

    Raises what `open_postgresql` raises.
    """
    dsn = _dsn(place.dsn_env)
    require_psycopg()
    import psycopg

    from ralphgen.runtime.engine.postgresql.driver import connect, dsn_parameters

    try:
        password = dsn_parameters(dsn).get("password")
    except DsnError as error:
        raise ProjectError(
            f'the DSN in the variable "{place.dsn_env}" has an {error}',
            "remove it from the DSN, or set it in the app itself",
        ) from None
    except psycopg.ProgrammingError:
        raise ProjectError(
            f'the variable "{place.dsn_env}" does not contain a PostgreSQL DSN',
            f"set {place.dsn_env}, for example: export {place.dsn_env}={EXAMPLE}",
        ) from None  # what psycopg says holds a part of it
    try:
        connection = connect(dsn)
    except psycopg.Error as error:
        reason = _without(first_line(error), password)
        raise NoConnectionError(
            f"cannot connect to the database in {place.dsn_env}: {reason}",
            f"check that the server is running and that {place.dsn_env} is correct",
        ) from None
    with connection:
        yield connection


def require_psycopg() -> None:
    """Raise `ProjectError` unless psycopg is installed."""
    try:
        import_module("ralphgen.runtime.engine.postgresql.driver")
    except ImportError as error:
        raise ProjectError(
            "PostgreSQL requires psycopg, which is not installed",
            f"in a clone of ralphgen, run: {INSTALL}",
        ) from error


def is_away(place: Postgresql) -> bool:
    """Return whether nobody answers at the DSN; one that refuses the login or the name is there."""
    try:
        with connected(place):
            return False
    except NoConnectionError as error:
        return not any(words in str(error) for words in (*LOGINS, MISSING))
    except ProjectError:
        return False


def _dsn(variable: str) -> str:
    dsn = os.environ.get(variable, "")
    if not dsn.strip():
        raise NoConnectionError(
            f'the variable "{variable}" is not set; it has to contain a PostgreSQL DSN',
            f"set {variable}, for example: export {variable}={EXAMPLE}",
        )
    return dsn


def first_line(error: Exception) -> str:
    """Return what PostgreSQL says of an error, without what it adds below."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _without(text: str, secret: object) -> str:
    return re.sub(re.escape(str(secret)), "…", text) if secret else text
