"""Ends a session of which nothing runs any more."""

from pathlib import Path

from ralphgen.errors import MissingError, ProjectError
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import opened_database
from ralphgen.runtime.engine.ledger import close_session
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.claims import release_held
from ralphgen.sessions.snapshot import end_protection
from ralphgen.sessions.store import StoredSession, end_folder, stored_sessions
from ralphgen.suggestion import suggestion

ENDED = "ended"  # the outcome of a session that a person ends


def end_session(root: Path, session_id: str) -> tuple[StoredSession, int | None]:
    """End the session of this id and return it with the task that it released, or None.

    Nothing can be started in it then. Its record stays until it is pruned, and the ledger says when
    it ended. Raises `MissingError` if there is no such session, and `ProjectError` where one of
    its servers runs.
    """
    kept = {one.session_id: one for one in stored_sessions(root)}
    if session_id not in kept:
        hint = suggestion(session_id, kept, "the sessions", "ralphgen session list")
        raise MissingError(f'there is no session "{one_line(session_id)}"', hint)
    if not end_folder(kept[session_id].folder):
        raise ProjectError(
            f'a server of the session "{session_id}" is running', "stop its client, then try again"
        )
    _close_row(root, session_id)
    project = kept[session_id].facts.get("project")
    work_tree = project.get("work_tree") if isinstance(project, dict) else None
    end_protection(root, Path(work_tree or root), session_id)
    return kept[session_id], release_held(root, session_id, ENDED)


def _close_row(root: Path, session_id: str) -> None:
    """Put on record that a session of the ledger has ended; a project without one keeps none."""
    if read_state(root).version is not None:
        facts = {"ended": now(), "outcome": ENDED}
        with opened_database(root) as database:
            database.writing(lambda: close_session(database, session_id, facts))
