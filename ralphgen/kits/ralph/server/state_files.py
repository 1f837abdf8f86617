"""Keeps on record what a session writes: rows of the database, and lines of the state files."""

from __future__ import annotations

import os

from ralphgen.runtime.database.entries import finish_undo
from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.errors import log
from ralphgen.runtime.files.entry_log import rewrite_entries, take_back_entry, write_entry
from ralphgen.runtime.sqlite.journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workspace import Workspace


def open_journal(workspace: Workspace) -> Journal:
    """Return what keeps on record all that the session of a workspace writes.

    Called within its first transaction, it does what a stopped undo has left to be done besides.
    """

    def rewrite(file: str, copy: str, lines: list[tuple[str, bool]]) -> None:
        path = os.path.join(workspace.ralph_folder, os.path.basename(file))
        copied = os.path.join(workspace.ralph_folder, "backups", os.path.basename(copy))
        rewrite_entries(path, copied, lines)

    try:
        finish_undo(workspace.database, rewrite)
    except OSError as error:  # a full disk is no reason to refuse a write
        log("warning", "ralph", f"an undo could not be finished: {error}")
    session = workspace.session
    facts = {
        "recipe": session.recipe,
        "discipline": session.discipline,
        "task_id": session.task,
        "feature": session.feature,
    }
    return Journal(
        workspace.database,
        session.session_id,
        facts,
        lambda: workspace.tool,
        ends_with_writes=session.folder is None,
    )


def append_recorded(workspace: Workspace, path: str, entry: str, tool: str, *, once: bool) -> int:
    """Add an entry to a state file, with its line in the journal; return the bytes written.

    The file is written within the transaction, so that no undo rewrites it meanwhile. Raises
    `ToolError` where one of them cannot be written: the other is then as it was too, as it is where
    the call is put off.
    """
    if not workspace.database.commits_at_once():
        take_time()  # it may have to wait, or to begin anew, once the entry was appended
    written: list[int] = []

    def work() -> int:
        workspace.tool = tool
        if not written:
            written.append(write_entry(path, entry, once=once))
        if written[0] and workspace.journal is not None:
            workspace.journal.add_line(os.path.basename(path), entry)
        return written[0]

    try:
        return workspace.database.writing(work)
    except Exception:
        if written:
            take_back_entry(path, entry, written[0])
        raise
