"""Keeps on record what a session writes: rows of the database, and entries of the state files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphgen.runtime.engine import Journal

    from .workspace import Workspace


def open_journal(workspace: Workspace) -> Journal:
    """Return what keeps on record all that the session of a workspace writes.

    Called within its first transaction, it does what a stopped undo has left to be done besides.
    """
    workspace.database.entries.finish_stopped_undo(workspace)
    session = workspace.session
    facts = {
        "recipe": session.recipe,
        "discipline": session.discipline,
        "task_id": session.task,
        "feature": session.feature,
    }
    return workspace.database.journal(
        session.session_id,
        facts,
        lambda: workspace.tool,
        ends_with_writes=session.folder is None,
    )
