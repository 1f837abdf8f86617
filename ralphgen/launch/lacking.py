"""What a session has and its agent has not, as an error with the cause where one is found."""

import json
import shlex
from dataclasses import dataclass

from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.launch.probe import failure_of
from ralphgen.sessions.model import PreparedSession, Served
from ralphgen.sessions.server_query import ServerQueryError, query_server

HINT = 'find the cause with "ralphgen doctor"'
THEIRS = "check mcp_servers of the discipline"


@dataclass(frozen=True, slots=True)
class Lack:
    """What a session has and its agent has not, of which server; `served` where it is ours."""

    text: str
    server: str
    served: Served | None


def lack_error(
    found: tuple[Lack, ...], session: PreparedSession, longer: str = ""
) -> RalphgenError:
    """Return the error for what is lacking, with the cause where one is found.

    `longer` is a hint on how a server gets more time to start in.
    """
    problems = []
    for lack in found:
        if lack.served is not None:
            said, hint = own_words(lack.served), HINT
        else:
            said, hint = _their_words(lack.server, session, longer)
        problems.append(Problem(f"{lack.text}: {said}" if said else lack.text, hint))
    return ProjectError.of(problems)


def _their_words(server: str, session: PreparedSession, longer: str) -> tuple[str, str]:
    """Return why a discipline's server does not start, where that shows, and a hint."""
    try:
        entry = json.loads(session.mcp_config.read_bytes())["mcpServers"][server]
    except (OSError, ValueError, LookupError):
        return "", THEIRS
    if "command" not in entry:
        return "", f"{THEIRS}: is its URL reachable, and are its headers valid?"
    failure = failure_of(entry, session.root)
    said = f"{shlex.quote(entry['command'])} {failure}" if failure else ""
    return said, f"{THEIRS}; {longer}" if longer else THEIRS


def own_words(served: Served) -> str:
    """Return the line with which a server refuses to start, empty where it would start now."""
    try:
        query_server(served.command, "--check")
    except ServerQueryError as error:
        return str(error)
    return ""
