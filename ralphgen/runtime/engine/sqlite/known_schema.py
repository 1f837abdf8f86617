"""Remembers which definitions of tables were found to be the schema that a server was built for.

To read the columns out of them takes half of the time in which a server starts. What was found is
kept in the user's cache, under a digest of all that it depends on.
"""

from __future__ import annotations

from ...kept import open_kept
from ...values.encoding import sha256_hex
from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

READERS = (
    "runtime/engine/schema.py",
    "runtime/engine/sqlite/schema.py",
    "runtime/engine/sqlite/check_constraints.py",
)
DEFINITIONS = (
    "SELECT name, CAST(sql AS BLOB) FROM sqlite_master WHERE type IN ('table', 'view') "
    "ORDER BY name, rowid"
)


def record_name(connection: sqlite3.Connection, manifest: Mapping[str, Any]) -> str:
    """Return the name of the record for the tables that there are, and for what is expected."""
    found = connection.execute(DEFINITIONS).fetchall()
    readers = [manifest.get("files", {}).get(path) for path in READERS]
    whole = (sqlite3.sqlite_version, readers, manifest["schema"], found)
    return f"schema-{sha256_hex(repr(whole).encode())[:32]}"


def is_known(name: str) -> bool:
    """Return whether it was recorded that these tables are the expected ones."""
    kept = open_kept(name)
    if kept is not None:
        kept[2]()
    return kept is not None


def remember(name: str) -> None:
    """Record that these tables are the expected ones."""
    from ...bytecode import keep

    keep(name)
