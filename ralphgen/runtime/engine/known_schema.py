"""Remembers which definitions of tables were found to be the schema that a server was built for.

To read the columns out of them can take half of the time in which a server starts. What was found
is kept in the user's cache, under a digest of all that it depends on.
"""

from __future__ import annotations

from ..kept import open_kept
from ..values.encoding import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from . import Database


def record_name(database: Database, manifest: Mapping[str, Any]) -> str:
    """Return the name of the record for the current tables and the expected ones.

    Empty if the engine reads the columns as fast.
    """
    found = database.definitions()
    if found is None:
        return ""
    files = manifest.get("files", {})
    readers = [(path, files[path]) for path in files if path.startswith("runtime/engine/")]
    return f"schema-{sha256_hex(repr((found, readers, manifest['schema'])).encode())[:32]}"


def is_known(name: str) -> bool:
    """Return whether it was recorded that these tables are the expected ones."""
    kept = open_kept(name) if name else None
    if kept is not None:
        kept[2]()
    return kept is not None


def remember(name: str) -> None:
    """Record that these tables are the expected ones."""
    from ..bytecode import keep

    if name:
        keep(name)
