"""Stops the agent of one session, by the mark that whoever watches it heeds."""

import time
from pathlib import Path

from ralphgen.board.agents.processes import StartedProcesses
from ralphgen.board.requests import ActionResult, FieldProblem
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.launched import ask_to_stop, has_stopped
from ralphgen.sessions.store import MARK, stored_session

PATIENCE = 15.0  # seconds for an agent to clean up, and for its task to be given back
LOOK = 0.1  # seconds between two looks at whether that is done
PUT_BACK = "a running agent creates it again"
NOBODY = "no agent works in it without a terminal"


def stop_agent(root: Path, session_id: str, started: StartedProcesses) -> ActionResult:
    """End the agent of a session, whose task is given back; its record stays.

    Where the session's mark is gone, whoever watches its agent is ended, if this board started it.
    """
    stored = stored_session(root, session_id)
    if stored is not None and ask_to_stop(stored.folder):
        over = has_stopped(stored.folder, PATIENCE) and _is_over(session_id, started)
    elif started.end(session_id):
        over = _is_over(session_id, started)
    else:
        text = NOBODY if stored is not None else f'there is no session "{one_line(session_id)}"'
        problem = FieldProblem("", text, "end it where it was started")
        return ActionResult(False, "nothing was stopped", (), (problem,))
    if over:
        return ActionResult(True, "the agent has ended, and its task is released")
    late = "the agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    mark = stored.folder / MARK
    return ActionResult(True, late, (f'if it does not end, remove "{mark}": {PUT_BACK}',))


def _is_over(session_id: str, started: StartedProcesses) -> bool:
    end = time.monotonic() + PATIENCE
    while started.runs(session_id) and time.monotonic() < end:
        time.sleep(LOOK)
    return not started.runs(session_id)
