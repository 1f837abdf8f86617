"""Finds the sessions that govern a call of Claude Code, from its process and a project's files.

There are two kinds: the session that Claude Code was started in, and those of a subagent's own
servers. A conversation without any is the user's own, and nothing governs it.
"""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.files.main_tree import home_of, is_agents_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Asked = Mapping[str, Any]
    Place = tuple[str, str]  # the project's home, and its folder in the worktree that one is in

SESSIONS = os.path.join(".ralph", "mcp", "sessions")
AGENTS = os.path.join(".claude", "agents")
CONTEXT = "context.json"
CLIENT = "client"  # beside the context of a subagent's server: the conversation that has it
MARK = "RALPHGEN_SESSION"  # the session's id, in all that `ralphgen launch` starts
_CONFIG = re.compile(rf"(?:--mcp-config=)?(/.*/{re.escape(SESSIONS)}/[^/]+)/mcp\.json")


class UnreadableContextError(Exception):
    """There is a session, and what it may do cannot be read."""


class GoverningSession:
    """A session by its context: `facts` as they stand there, `servers` the kits by server's name.

    `tops` are the folders that paths in it are told from: the project's, and its work tree.
    """

    __slots__ = ("facts", "servers", "tops")

    def __init__(self, facts: Mapping[str, Any], place: Place | None, suffix: str = "") -> None:
        project = facts.get("project") or {}
        tops = (project.get("root"), project.get("work_tree"), *(place or ()))
        self.facts = facts
        self.servers = {f"{kit}{suffix}": kit for kit in facts["enabled_tools"]}
        self.tops = tuple(dict.fromkeys(top for top in tops if isinstance(top, str)))

    def of_kit(self, table: str, kit: str) -> Any:
        """Return what a table of the context says of a kit, empty where it says nothing."""
        return (self.facts.get(table) or {}).get(kit) or {}


def project_of(start: str) -> Place | None:
    """Return the project around a folder, as `ralphgen` finds it; None where there is none."""
    at = os.path.realpath(start)
    while True:
        home = home_of(at)
        if any(os.path.isdir(os.path.join(place, ".ralph")) for place in (home, at)):
            return home, at
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def _root(place: Place) -> str:
    """Return the folder whose server and agents count: that of a worktree of the user, or home."""
    home, at = place
    has_server = os.path.isfile(os.path.join(at, ".ralph", "mcp", "manifest.json"))
    return at if has_server and not is_agents_tree(at) else home


def own_session(place: Place | None) -> GoverningSession | None:
    """Return the session that the whole conversation was started in, None if in none.

    A conversation without one is the user's own, whatever `.ralph/mcp/context.json` says. Raises
    `UnreadableContextError` if the context of the session cannot be read.
    """
    folder = _started_in(place)
    return GoverningSession(_read(os.path.join(folder, CONTEXT)), place) if folder else None


def agents_sessions(place: Place | None, asked: Asked) -> list[GoverningSession]:
    """Return the sessions that servers of the asking subagent have made for themselves.

    There are two where a conversation has started it twice. Where there is none yet, what a project
    protects is kept from a subagent of ours all the same. Raises `UnreadableContextError` where
    that cannot be read.
    """
    agent = asked.get("agent_type")
    if place is None or not isinstance(agent, str) or not agent:
        return []
    return [*_made_by(place, agent, asked.get("session_id"))] or _not_yet(place, agent)


def _made_by(place: Place, agent: str, conversation: object) -> Iterator[GoverningSession]:
    """Yield the sessions of an agent's servers in a conversation."""
    folder = os.path.join(place[0], SESSIONS)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name, CLIENT), encoding="utf-8") as file:
                is_ours = file.read() == conversation
            facts = _read(os.path.join(folder, name, CONTEXT)) if is_ours else {}
        except (OSError, ValueError, UnreadableContextError):
            continue  # it has ended, or is no such session
        if is_ours and _agent_name(facts.get("discipline")) == agent:
            yield GoverningSession(facts, place, f"-{agent}")


def _not_yet(place: Place, agent: str) -> list[GoverningSession]:
    """Return a session without servers for an agent that `ralphgen connect` has written."""
    try:
        with open(os.path.join(_root(place), AGENTS, "manifest.json"), "rb") as file:
            written = json.loads(file.read())["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    if f"{agent}.md" not in written:
        return []
    path = os.path.join(_root(place), ".ralph", "mcp", "project.json")
    try:
        with open(path, "rb") as file:
            done = json.loads(file.read())["config"].get("done")
    except (OSError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise UnreadableContextError(f"{quoted(path)} cannot be read") from error
    return [GoverningSession({"enabled_tools": {}, "done": done}, place)]


def _started_in(place: Place | None) -> str:
    """Return the folder of the session that Claude Code was started in, empty where in none."""
    mark = os.environ.get(MARK, "")
    if not mark:
        return _configured()
    if place is None or os.path.basename(mark) != mark or mark in {".", ".."}:
        session = f"this process belongs to the session {quoted(mark)}"
        raise UnreadableContextError(f"{session}, and this project has no such session")
    return os.path.join(place[0], SESSIONS, mark)


def _configured() -> str:
    """Return the folder of the session whose config the command line names, where one can see it.

    So it is started who types what `ralphgen session create` prints.
    """
    try:
        with open(f"/proc/{int(os.environ.get('CLAUDE_PID', ''))}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")]
    except (OSError, ValueError):
        return ""
    return next((found[1] for word in words if (found := _CONFIG.fullmatch(word))), "")


def _read(path: str) -> Mapping[str, Any]:
    facts: dict[str, Any]
    try:
        with open(path, "rb") as file:
            facts = json.loads(file.read())
    except FileNotFoundError as error:
        raise UnreadableContextError("this session has ended") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableContextError(f"{quoted(path)} cannot be read") from error
    tables = ("enabled_tools", "narrowed_arguments", "bindings", "project", "done")
    is_one = isinstance(facts, dict) and "enabled_tools" in facts
    if not is_one or any(not isinstance(facts.get(one) or {}, dict) for one in tables):
        raise UnreadableContextError(f"{quoted(path)} is not the context of a session")
    return facts


def _agent_name(discipline: object) -> str:
    """Return what the subagent of a discipline is called, as `ralphgen connect` has it."""
    return re.sub("[^a-z0-9]+", "-", str(discipline or "").casefold()).strip("-")


def quoted(text: object) -> str:
    """Return a name in quotes, on one line and not long, whatever it is made of."""
    return json.dumps(str(text)[:200])
