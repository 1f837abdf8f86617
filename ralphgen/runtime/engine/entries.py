"""The entries of the journal: the INSERT that adds one, and the rest of a stopped undo."""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from . import Database

TABLE = "ralphgen_journal"
KEPT = "ralphgen_entries"  # the table of state file entries, on engines with one
PREFIX = "ralphgen_"  # of the tables and triggers of ralphgen
NO_ROW = ""  # the key of a journal entry about a state file line
_UNFINISHED = """
    SELECT j.table_name, u.copy, j.before, j.after
    FROM ralphgen_unfinished AS u JOIN ralphgen_journal AS j USING (number) ORDER BY number
"""
ENDED = "UPDATE ralphgen_sessions SET ended = ?, outcome = 'ended' WHERE id = ?"
ENTRY = f"INSERT INTO {TABLE} (time, session, tool, table_name, row_key, before, after)"


def finish_undo(
    database: Database, rewrite: Callable[[str, str, list[tuple[str, bool]]], None]
) -> None:
    """Finish a stopped undo; within a transaction.

    `rewrite` takes the name of a state file, the name of the copy to replace it with, and pairs of
    a line and whether to restore it; it does nothing if the copy is missing. Raises `OSError` if
    `rewrite` does.
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
    """Return the time in UTC in the format of the ledger: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
