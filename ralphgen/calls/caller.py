"""Opens servers for calls: of the session that a command belongs to, or of the recipe asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from ralphgen.calls.connection import ServerConnection
from ralphgen.calls.context import made_options, own_options, read_policy
from ralphgen.errors import Say, UsageError, plain
from ralphgen.project.root import ProjectPlace
from ralphgen.runtime.policy import FULL, Policy
from ralphgen.runtime.processes.launched import launched_session
from ralphgen.sessions.decide import TASKS, Request, no_tasks
from ralphgen.sessions.server_command import server_command
from ralphgen.suggestion import suggestion
from ralphgen.trust.verify import TRUST_EDITED


@contextmanager
def open_server(
    place: ProjectPlace,
    kit: str,
    tool: str,
    request: Request | None,
    *,
    trust_edited: bool,
    say: Say,
    apart: bool = False,
) -> Iterator[ServerConnection]:
    """A connection to the server of a kit in a project, which works where somebody is in it.

    The server has the `tool`. One that runs `apart` is out of reach of this terminal's Ctrl-C.

    Without a `request`, it is that of a person, or below `ralphgen launch` that of the session that
    was launched, with its policy. Raises `UsageError` for a request that is made there, for a kit
    or a tool that the project does not have, and as a session does.
    """
    root, session_id = place.root, launched_session()
    if session_id and request is not None:
        raise UsageError(
            f'this shell can use only the tools of its session "{plain(session_id)}"',
            "omit --recipe, --task, --feature and --discipline",
        )
    start = server_command(root, [kit], trust_edited=trust_edited, say=say)
    policy = read_policy(root, trust_edited=trust_edited)
    refuse_unknown(policy, kit, tool)
    if session_id:
        with ServerConnection(
            (*start, kit, *own_options(root, session_id, kit)), kit
        ) as connection:
            yield connection
        return
    trusting = (TRUST_EDITED,) if trust_edited else ()
    with made_options(root, place.work_tree, policy, request or Request(FULL)) as options:
        connection = ServerConnection((*start, kit, *trusting, *options), kit, apart=apart)
    with connection:
        yield connection


def refuse_unknown(policy: Policy, kit: str, tool: str) -> None:
    """Raise `UsageError` for a kit or a tool that the project does not have."""
    if kit == TASKS and kit not in policy.kits:
        raise no_tasks(policy.kits)
    if kit not in policy.kits:
        hint = suggestion(kit, policy.kits, "the kits", "ralphgen tools")
        raise UsageError(f'this project has no kit "{kit}"', hint)
    if not policy.knows(kit, tool):
        names = sorted(policy.allowed(FULL, kit))
        hint = suggestion(tool, names, "the tools", "ralphgen tools")
        raise UsageError(f'the kit "{kit}" has no tool "{tool}"', hint)
