"""Keeps the entries of the state files as rows that all machines of a project share.

A project without a ledger has no table for them, so they are files on each machine. The first
argument of most functions is the workspace of the kit.
"""

from __future__ import annotations

import os

from ...files import entry_log
from ..ledger import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .. import Snapshot

    Rows = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_OCTETS = "octet_length(convert_to(entry, 'UTF8')) + 1"  # with the end of its line
_SIZE = f"SELECT count(*), coalesce(sum({_OCTETS}), 0)::bigint FROM {KEPT} WHERE file = ?"
# The entries with a part between two offsets, in bytes from the end.
_BETWEEN = f"""
SELECT entry, behind::bigint FROM (
    SELECT number, entry, octets, sum(octets) OVER (ORDER BY number DESC) AS behind
    FROM (SELECT number, entry, {_OCTETS} AS octets FROM {KEPT} WHERE file = ?) AS sized
) AS placed WHERE behind > ? AND behind - octets < ? ORDER BY number
"""
# The text is compared before the pattern, which costs more.
_SAME = rf"""
SELECT 1 FROM {KEPT} WHERE file = ? AND substr(entry, strpos(entry, '] ') + 2) = ?
    AND entry ~ '^- [^ \n]+ \[[^]\n]*\] ' LIMIT 1
"""


def read_page(workspace: Any, file: str, limit: int, before: str | None = None) -> entry_log.Page:
    """Return the last `limit` entries, with the same pages and cursors as for a file."""
    if not workspace.tables.ledger:
        path = os.path.join(workspace.ralph_folder, file)
        return entry_log.read_entries(path, limit, before)
    database = workspace.database
    page: entry_log.Page = database.reading(lambda: page_of(database.rows, file, limit, before))
    return page


def stored_page(database: Snapshot, folder: str, file: str, limit: int) -> entry_log.Page:
    """Return the last `limit` entries: from the rows, or without a ledger from the file."""
    if database.row("SELECT to_regclass(?) IS NOT NULL", [KEPT]) == (1,):
        return page_of(database.rows, file, limit)
    return entry_log.read_entries(os.path.join(folder, file), limit)


def page_of(rows: Rows, file: str, limit: int, before: str | None = None) -> entry_log.Page:
    """Return the last `limit` entries of a file, or those before a cursor, from its rows.

    `rows` runs a statement, within a transaction. Raises `ToolError` as
    `entry_log.read_entries` does.
    """
    ((total, size),) = rows(_SIZE, [file])
    if not total:
        return entry_log.Page("", 0, 0, None)
    end = size if before is None else entry_log.offset_of(before, size)
    first = max(0, end - entry_log.WINDOW)
    found = rows(_BETWEEN, [file, size - end, size - first])
    if not found:  # the cursor is at the beginning
        return entry_log.Page("", 0, total, None)
    begin = size - found[0][1]
    whole = "".join(f"{entry}\n" for entry, _ in found).encode()
    window = whole[first - begin : end - begin]
    start, text, entries = entry_log.last_entries(window, first, limit)
    return entry_log.Page(text, entries, total, str(start) if start else None)


def append_entry(workspace: Any, file: str, entry: str, tool: str, *, once: bool) -> int:
    """Add an entry of `entry_log.entry_of` to a file, by a tool; return its bytes.

    Adds nothing and returns 0 if `once` is set and the entry exists; the writers' lock prevents a
    race. Raises `ToolError` if it cannot be written.
    """
    if not workspace.tables.ledger:
        path = os.path.join(workspace.ralph_folder, file)
        return entry_log.write_entry(path, entry, once=once)
    database = workspace.database

    def work() -> int:
        workspace.tool = tool
        if once and database.row(_SAME, [file, entry.partition("] ")[2]]):
            return 0
        database.change(f"INSERT INTO {KEPT} (file, entry) VALUES (?, ?)", [file, entry])
        return len(entry.encode()) + 1

    written: int = database.writing(work)
    return written


def finish_stopped_undo(_workspace: object) -> None:
    """Do nothing: an undo reverts rows in one transaction, so none can be unfinished."""
