"""The entries of the journal: how one is added, and what an undo has left to be done."""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import Database

TABLE = "ralphgen_journal"
KEPT = "ralphgen_entries"  # the table of the entries of state files, where the engine has one
PREFIX = "ralphgen_"  # of the names of our own tables and triggers
NO_ROW = ""  # the key of an entry on a line of a state file
_UNFINISHED = """
    SELECT j.table_name, u.copy, j.before, j.after
    FROM ralphgen_unfinished AS u JOIN ralphgen_journal AS j USING (number) ORDER BY number
"""
ENDED = "UPDATE ralphgen_sessions SET ended = ?, outcome = 'ended' WHERE id = ?"
ENTRY = f"INSERT INTO {TABLE} (time, session, tool, table_name, row_key, before, after)"


def finish_undo(
    database: Database, rewrite: Callable[[str, str, list[tuple[str, bool]]], None]
) -> None:
    """Do what an undo that was stopped has left to be done; within a transaction.

    `rewrite` takes the name of a state file, that of the copy that takes its place, and lines with
    whether they are put back; it does nothing where the copy is gone. Raises `OSError` as it does.
    """
    left: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for file, copy, before, after in database.rows(_UNFINISHED):
        line = json.loads(after or before)["line"]
        left.setdefault((file, copy), []).append((line, before is None))
    for (file, copy), lines in left.items():
        rewrite(file, copy, lines)
    if left:
        database.change("DELETE FROM ralphgen_unfinished")


def moment() -> str:
    """Return the moment in UTC, as it stands in the ledger: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
