"""Tables of a schema, as read from SQLite."""

import sqlite3
from contextlib import closing
from typing import Any

from ralphgen.runtime.engine.sqlite.schema import read_tables

Tables = dict[str, list[dict[str, Any]]]


def tables_of(sql: str) -> Tables:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(sql)
        return read_tables(connection)
