"""Serves a kit in a session that is made for it and ends with it, for a client's own config."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from ralphgen.errors import RalphgenError, Say
from ralphgen.launch.record import open_record
from ralphgen.launch.servers import session_servers
from ralphgen.project.root import ProjectPlace
from ralphgen.runtime.context import BY_CLIENT
from ralphgen.runtime.files.write import write_new
from ralphgen.sessions.claims import keep_claim
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request
from ralphgen.sessions.end import end_session
from ralphgen.sessions.store import CLIENT, OURS_ALONE

CONVERSATION = (
    "CLAUDE_CODE_SESSION_ID"  # its id, which Claude Code gives the servers that it starts
)
ENDING = ("SIGTERM", "SIGINT", "SIGHUP")  # with which a client ends a server, as far as there are


def serve_session(
    place: ProjectPlace,
    request: Request,
    *,
    say: Say,
    trust_edited: bool,
    options: Sequence[str] = (),
) -> int:
    """Run the server of the kit that the request names in a session of its own, to its end.

    Standard input and output are the server's. The session works in the place's work tree, holds
    its task as long as this process lives, and ends with it: a task that is still in_progress then
    is pending again. What nobody has trusted is refused, since nobody can be asked. The server gets
    `options` besides. Returns its exit code; raises as `create_session` does.
    """
    session = create_session(
        place.root,
        request,
        say=say,
        ask=_nobody,
        work_tree=place.work_tree,
        trust_edited=trust_edited,
        user=BY_CLIENT,
    )
    try:
        if conversation := os.environ.get(CONVERSATION):  # for the hooks of the plugin
            write_new(str(session.folder / CLIENT), conversation.encode(), mode=OURS_ALONE)
        open_record(session, say)
        (entry,) = [session_servers(session)[kit] for kit in request.kits]
        with keep_claim(session.claim):
            return _run([entry["command"], *entry["args"], *options])
    finally:
        with suppress(RalphgenError):  # what a server still holds goes with its lease
            end_session(place.root, session.session_id)


def _nobody(_shown: object) -> bool:
    return False


def _run(command: list[str]) -> int:
    """Return the exit code of a server, which is ended when somebody ends this process."""
    with subprocess.Popen(command) as server:

        def end(_number: int, _frame: FrameType | None) -> None:
            server.terminate()

        for name in ENDING:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), end)
        return server.wait()
