"""What a task's status and its claim do to each other, and the timer that keeps a session's own."""

from __future__ import annotations

import time

from ralphgen.runtime.engine import claims
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.processes.launched import is_below_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.engine import Database

    from .workspace import Workspace

CLOSED = (*MET, "blocked")
TRIES = 3  # at renewing in a third of a lease, where the database cannot be written


def follow_status(workspace: Workspace, task: int, new: str, *, force: bool) -> None:
    """Let the claim on a task follow its new status, in a transaction that is open.

    The session that holds it lets go of a task that it closes, and has it again when it opens it.
    For any other the claim ends, with `force` also a live one. Raises `ToolError` for a live one
    without.
    """
    if not workspace.tables.ledger:
        return
    database, session = workspace.database, workspace.session
    own = session.claim
    if own is not None and own["task"] == task:
        if new in CLOSED and not own["kept"]:
            claims.release(database, task, session.session_id, fence=False)
            return
        claims.take_again(database, task, session.session_id, own["token"], own["lease"])
        claims.begin(database, task, in_progress=new == "in_progress")
        return
    if not force:
        refuse_held(workspace, task)
    elif is_below_launch():
        raise ToolError('"force" is for the user, and this is an agent\'s session')
    claims.release(database, task)
    if new == "pending" and session.profile == FULL:
        claims.forget_attempts(database, task)


def refuse_to_write(workspace: Workspace, database: Database) -> None:
    """Raise `ToolError` where the session's claim is lost, or a row is not as it was read."""
    session = workspace.session
    own = session.claim
    if own is not None:
        claims.refuse_lost(database, own["task"], session.session_id, own["token"])
    if session.as_read is not None:
        from ralphgen.runtime.tasks.rows import refuse_changed

        refuse_changed(database, workspace.tables, session.as_read)


def refuse_held(workspace: Workspace, task: int) -> None:
    """Raise `ToolError` where another session holds a task."""
    claim = holder(workspace, task)
    if claim is not None:
        raise ToolError(held_by(workspace, task, claim))


def holder(workspace: Workspace, task: int) -> claims.Claim | None:
    """Return the claim of another session on a task, None where none holds it."""
    if not workspace.tables.ledger:
        return None
    claim = claims.claim_of(workspace.database, task)
    if claim is None or claim.session == workspace.session.session_id or not claims.is_live(claim):
        return None
    return claim


def held_by(workspace: Workspace, task: int, claim: claims.Claim) -> str:
    """Return the refusal of a task that another session holds."""
    text = f"task {task} is claimed by {claims.holder_of(claim)}: nothing was changed"
    if workspace.session.is_users:
        text += '; the user can end that claim with "force"'
    return text


def forget(workspace: Workspace, task: int) -> None:
    """Let nobody hold a task that is deleted or new: its id may have been another's."""
    if workspace.tables.ledger:
        claims.release(workspace.database, task)
        claims.forget_attempts(workspace.database, task)


def add_holders(workspace: Workspace, records: Sequence[dict[str, Any]]) -> None:
    """Say of tasks who holds them, and which are stale: begun by a session that is gone."""
    found = claims.claims(workspace.database) if workspace.tables.ledger else {}
    for record in records:
        claim = found.get(record["id"])
        if claim is None:
            continue
        live, status = claims.is_live(claim), record.get("status")
        if live:
            record["held_by"] = claim.session
            record["inferred"] = "held" if status == "pending" else record["inferred"]
        elif status == "in_progress" and claim.began is not None:
            record |= {"held_by": claim.session, "inferred": "stale"}


def keep_claim(workspace: Workspace, claim: Mapping[str, int]) -> None:
    """Renew the session's claim now and every third of its lease, until it is lost."""
    session, third = workspace.session, claim["lease"] / 3
    database: Database | None = None
    while True:
        pause = third
        try:
            if database is None:  # one for all: to close one would end the locks of the others
                database = workspace.database.another()
            if not _renewed(database, session.session_id, claim):
                return
        except (StartError, ToolError):  # the next try may go through before the lease ends
            pause = third / TRIES
        time.sleep(pause)


def _renewed(database: Database, session: str, claim: Mapping[str, int]) -> bool:
    task, token, lease = claim["task"], claim["token"], claim["lease"]
    return database.writing(lambda: claims.renew(database, task, session, token, lease))
