"""Connects with psycopg, which is imported with this module: so not before it is needed.

Values come as SQLite has them: times and JSON as text, yes and no as 1 and 0, numbers as numbers.
"""

from __future__ import annotations

import json

import psycopg
from psycopg import Connection, Cursor
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Buffer = bytes | bytearray | memoryview

# What a DSN may say otherwise: when a connection that is not made, or died silently, is given up.
LIMITS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "application_name": "ralphgen",
}
__all__ = ["Connection", "Cursor", "Error", "OperationalError", "connect", "is_idle", "is_lost"]
TEXTS = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "json")
Error = psycopg.Error
OperationalError = psycopg.OperationalError


class NumberLoader(Loader):
    """Reads a number of any length."""

    def load(self, data: Buffer) -> Any:
        """Return an integer where it is one, else a float."""
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdecimal() else float(text)


class BooleanLoader(Loader):
    """Reads yes and no."""

    def load(self, data: Buffer) -> Any:
        """Return 1 or 0."""
        return int(bytes(data) == b"t")


class JsonLoader(Loader):
    """Reads JSON that PostgreSQL has spelled anew."""

    def load(self, data: Buffer) -> Any:
        """Return it as compact text, as the tools write it."""
        value = json.loads(bytes(data))
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


LOADERS: dict[str, Any] = {
    **dict.fromkeys(TEXTS, TextLoader),
    "numeric": NumberLoader,
    "bool": BooleanLoader,
    "jsonb": JsonLoader,
}


def connect(dsn: str) -> Connection[tuple[Any, ...]]:
    """Return a connection that commits each statement where nobody begins a transaction.

    Nothing is kept in its session, not even a prepared statement: a pooler may give each
    transaction another one. Raises `Error`, for a DSN that is none too.
    """
    options: dict[str, Any] = {**LIMITS, **conninfo_to_dict(dsn), "client_encoding": "UTF8"}
    connection = psycopg.connect(
        autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor, **options
    )
    for kind, loader in LOADERS.items():
        connection.adapters.register_loader(kind, loader)
    return connection


def is_idle(connection: Connection[Any]) -> bool:
    """Return whether no transaction is open on a connection that is there."""
    return connection.info.transaction_status == TransactionStatus.IDLE


def is_out_of_memory(error: Error) -> bool:
    """Return whether this process, not the server, had no memory for an answer."""
    return error.sqlstate is None and "memory" in str(error)


def is_lost(connection: Connection[Any]) -> bool:
    """Return whether the other end of a connection is gone."""
    return connection.closed or connection.info.transaction_status == TransactionStatus.UNKNOWN
