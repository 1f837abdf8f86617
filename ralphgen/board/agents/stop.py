"""Stops the agent of one session, by the mark that whoever watches it heeds."""

from pathlib import Path

from ralphgen.board.requests import ActionResult, FieldProblem
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.launched import ask_to_stop, has_stopped
from ralphgen.sessions.store import stored_session

PATIENCE = 15.0  # seconds for an agent to clean up, and for its task to be given back
NOBODY = "no agent works in it that ralphgen has started without a terminal"


def stop_agent(root: Path, session_id: str) -> ActionResult:
    """End the agent of a session, whose task is given back; its record stays."""
    stored = stored_session(root, session_id)
    if stored is None or not ask_to_stop(stored.folder):
        text = NOBODY if stored is not None else f'there is no session "{one_line(session_id)}"'
        problem = FieldProblem("", text, "end it where it was started")
        return ActionResult(False, "nothing was stopped", (), (problem,))
    if has_stopped(stored.folder, PATIENCE):
        return ActionResult(True, "the agent has ended, and its task is given back")
    return ActionResult(True, "the agent was asked to end: that takes longer than usual")
