"""Whether Claude Code has the servers and tools of a session, and if not, why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.launch.command import tool_name
from ralphgen.launch.stream import Event, objects
from ralphgen.sessions.model import PreparedSession, Served
from ralphgen.sessions.server_query import ServerQueryError, query_server

CONNECTED = "connected"
UNLISTED = "not listed"  # our own word for a server that Claude Code says nothing of
HINT = '"ralphgen doctor" looks for the cause'
THEIRS = "see mcp_servers of the discipline: does its command run?"


@dataclass(frozen=True, slots=True)
class Lack:
    """What a session has and Claude Code has not; `served` is the server, where it is ours."""

    text: str
    served: Served | None


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


def lack_error(found: tuple[Lack, ...]) -> RalphgenError:
    """Return the error for what is lacking, with what our own servers refuse to start for."""
    problems = []
    for lack in found:
        said = "" if lack.served is None else own_words(lack.served)
        hint = HINT if lack.served is not None else THEIRS
        problems.append(Problem(f"{lack.text}: {said}" if said else lack.text, hint))
    return ProjectError.of(problems)


def own_words(served: Served) -> str:
    """Return the line with which a server refuses to start, empty where it would start now."""
    try:
        query_server(served.command, "--check")
    except ServerQueryError as error:
        return str(error)
    return ""


def _unconnected(
    session: PreparedSession, start: Event, statuses: Mapping[str, str]
) -> Iterator[Lack]:
    ours = {served.kit: served for served in session.served}
    for server in (*ours, *session.other_servers):
        status = statuses.get(server, UNLISTED)
        if status != CONNECTED:
            text = f'Claude Code has no connection to the MCP server "{server}" ({status})'
            yield Lack(": ".join([text, *_told(start, server)]), ours.get(server))


def _toolless(
    session: PreparedSession, statuses: Mapping[str, str], seen: list[object]
) -> Iterator[Lack]:
    for served in session.served:
        missing = [name for name in served.names if tool_name(served.kit, name) not in seen]
        if missing and statuses.get(served.kit) == CONNECTED:
            named = ", ".join(f'"{name}"' for name in missing)
            yield Lack(f'Claude Code has not got {named} of the MCP server "{served.kit}"', served)


def _told(start: Event, server: str) -> Iterator[str]:
    """Yield what Claude Code says of a server's entry that it could not use."""
    for error in objects(start.get("mcp_server_errors")):
        if error.get("name") == server:
            yield str(error.get("message"))
