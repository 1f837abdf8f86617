"""Keeps the entries of the state files in text files next to the database, for users to read.

The first argument of most functions is the workspace of the kit.
"""

from __future__ import annotations

import os

from ...deferred import take_time
from ...errors import log
from ...files import entry_log
from ..ledger import finish_undo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .. import Snapshot


def read_page(workspace: Any, file: str, limit: int, before: str | None = None) -> entry_log.Page:
    """Return the last `limit` entries of a file, as `entry_log.read_entries` does."""
    return entry_log.read_entries(os.path.join(workspace.ralph_folder, file), limit, before)


def stored_page(_database: Snapshot, folder: str, file: str, limit: int) -> entry_log.Page:
    """Return the last `limit` entries of a file in a folder."""
    return entry_log.read_entries(os.path.join(folder, file), limit)


def append_entry(workspace: Any, file: str, entry: str, tool: str, *, once: bool) -> int:
    """Add an entry of `entry_log.entry_of` to a file, by a tool; return the bytes written.

    Writes nothing if `once` is set and the file has the entry. With a ledger, the file is written
    within the transaction of the journal entry, so that no undo rewrites it meanwhile. Raises
    `ToolError` if either cannot be written: then neither changes. A deferred call changes neither.
    """
    path = os.path.join(workspace.ralph_folder, file)
    if not workspace.tables.ledger:
        return entry_log.write_entry(path, entry, once=once)
    if not workspace.database.commits_at_once():
        take_time()  # the commit may have to wait or restart after the entry was appended
    written: list[int] = []

    def work() -> int:
        workspace.tool = tool
        if not written:
            written.append(entry_log.write_entry(path, entry, once=once))
        if written[0] and workspace.journal is not None:
            workspace.journal.add_line(file, entry)
        return written[0]

    try:
        done: int = workspace.database.writing(work)
    except Exception:
        if written:
            entry_log.take_back_entry(path, entry, written[0])
        raise
    return done


def finish_stopped_undo(workspace: Any) -> None:
    """Finish the file changes of a stopped undo; within a transaction."""

    def rewrite(file: str, copy: str, lines: list[tuple[str, bool]]) -> None:
        path = os.path.join(workspace.ralph_folder, os.path.basename(file))
        copied = os.path.join(workspace.ralph_folder, "backups", os.path.basename(copy))
        entry_log.rewrite_entries(path, copied, lines)

    try:
        finish_undo(workspace.database, rewrite)
    except OSError as error:  # do not refuse a write because of a full disk
        log("warning", "ralph", f"an undo could not be finished: {error}")
