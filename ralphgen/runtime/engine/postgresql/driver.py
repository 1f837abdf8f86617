"""Connects with psycopg, which is imported with this module: so not before it is needed.

Values come as SQLite has them: yes and no as 1 and 0, numbers as numbers, and everything else,
types of extensions included, as the text that the database writes.
"""

from __future__ import annotations

import re

import psycopg
from psycopg import Connection, Cursor
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, TransactionStatus
from psycopg.types.string import TextLoader

from ...encoding import exact_number
from . import plain_dsn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Buffer = bytes | bytearray | memoryview

# Defaults that a DSN may override: timeouts for new and for silently broken connections.
LIMITS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "ralphgen",
}
__all__ = [
    "REFUSALS",
    "Connection",
    "Cursor",
    "Error",
    "OperationalError",
    "connect",
    "dsn_parameters",
    "is_idle",
    "is_lost",
]
# The types that psycopg itself converts to the same values as SQLite.
PLAIN = ("bytea", "float4", "float8", "int2", "int4", "int8", "oid")
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_BLANKS = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+')
Error = psycopg.Error
REFUSALS = (psycopg.IntegrityError, psycopg.DataError, psycopg.errors.RaiseException)
OperationalError = psycopg.OperationalError


class NumberLoader(Loader):
    """Reads a number of any length without losing a digit."""

    def load(self, data: Buffer) -> Any:
        """Return an integer or a float, or text if no float equals the number."""
        text = bytes(data).decode()
        if text.lstrip("-").isdecimal():
            return int(text)
        return text if text in NOT_FINITE else exact_number(text)


class BooleanLoader(Loader):
    """Reads yes and no."""

    def load(self, data: Buffer) -> Any:
        """Return 1 or 0."""
        return int(bytes(data) == b"t")


class JsonLoader(Loader):
    """Reads jsonb, which the database writes with spaces."""

    def load(self, data: Buffer) -> Any:
        """Return the text without spaces, as the tools write it, with all digits of its numbers."""
        return _BLANKS.sub(rb"\1", bytes(data)).decode()


LOADERS: dict[str, Any] = {"numeric": NumberLoader, "bool": BooleanLoader, "jsonb": JsonLoader}


def dsn_parameters(dsn: str) -> dict[str, Any]:
    """Return the parameters of a DSN of libpq, Prisma, SQLAlchemy, Django, Rails or JDBC.

    Raises `DsnError` for an unsupported parameter, and `Error` for a text that is not a DSN.
    """
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    return {**conninfo_to_dict(plain_dsn(dsn, known))}


def connect(dsn: str) -> Connection[tuple[Any, ...]]:
    """Return a connection in autocommit mode.

    It keeps no state in its session, not even a prepared statement: a pooler may give each
    transaction another session. Raises `Error`, also for a text that is not a DSN, and `DsnError`.
    """
    options: dict[str, Any] = {**LIMITS, **dsn_parameters(dsn), "client_encoding": "UTF8"}
    connection = psycopg.connect(
        autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor, **options
    )
    for kind in connection.adapters.types:
        connection.adapters.register_loader(kind.array_oid, TextLoader)
        if kind.name not in PLAIN:
            connection.adapters.register_loader(kind.oid, LOADERS.get(kind.name, TextLoader))
    return connection


def is_idle(connection: Connection[Any]) -> bool:
    """Return whether a live connection has no open transaction."""
    return connection.info.transaction_status == TransactionStatus.IDLE


def is_out_of_memory(error: Error) -> bool:
    """Return whether this process, not the server, had no memory for an answer."""
    return error.sqlstate is None and "memory" in str(error)


def is_lost(connection: Connection[Any]) -> bool:
    """Return whether the other end of a connection is gone."""
    return connection.closed or connection.info.transaction_status == TransactionStatus.UNKNOWN
