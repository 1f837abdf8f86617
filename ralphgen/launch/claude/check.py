"""Whether Claude Code has the servers and tools of a session, and if not, why."""

from collections.abc import Iterator, Mapping

from ralphgen.launch.claude.command import tool_name
from ralphgen.launch.events import Event, objects
from ralphgen.launch.lacking import Lack
from ralphgen.sessions.model import PreparedSession

CONNECTED = "connected"
UNLISTED = "not listed"  # our own word for a server that Claude Code says nothing of
TIMEOUT_VARIABLE = "MCP_TIMEOUT"  # milliseconds that Claude Code gives a server to start in
START_TIMEOUT = "10000"  # its own 30 s are long for a person who waits for an error
LONGER = f"to allow it a minute to start, set {TIMEOUT_VARIABLE}=60000"


def lacks(session: PreparedSession, start: Event) -> tuple[Lack, ...]:
    """Return what the first event of Claude Code (`system/init`) does not show of the session.

    Claude Code goes on without a server that did not start, and its exit code says nothing of it.
    Tools whose schemas it loads at need stand in that event like all others.
    """
    servers = objects(start.get("mcp_servers"))
    statuses = {str(server.get("name")): str(server.get("status")) for server in servers}
    tools = start.get("tools")
    seen = tools if isinstance(tools, list) else []
    return (*_unconnected(session, start, statuses), *_toolless(session, statuses, seen))


def _unconnected(
    session: PreparedSession, start: Event, statuses: Mapping[str, str]
) -> Iterator[Lack]:
    ours = {served.kit: served for served in session.served}
    for server in (*ours, *session.other_servers):
        status = statuses.get(server, UNLISTED)
        if status != CONNECTED:
            text = f'Claude Code is not connected to the MCP server "{server}" ({status})'
            yield Lack(": ".join([text, *_told(start, server)]), server, ours.get(server))


def _toolless(
    session: PreparedSession, statuses: Mapping[str, str], seen: list[object]
) -> Iterator[Lack]:
    for served in session.served:
        missing = [name for name in served.names if tool_name(served.kit, name) not in seen]
        if missing and statuses.get(served.kit) == CONNECTED:
            named = ", ".join(f'"{name}"' for name in missing)
            text = f'Claude Code does not list {named} of the MCP server "{served.kit}"'
            yield Lack(text, served.kit, served)


def _told(start: Event, server: str) -> Iterator[str]:
    """Yield what Claude Code says of a server's entry that it could not use."""
    for error in objects(start.get("mcp_server_errors")):
        if error.get("name") == server:
            yield str(error.get("message"))
