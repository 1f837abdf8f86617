"""Answers Claude Code: a session's forbidden calls and changes, and whether its work is proved.

It is copied into the plugin, and runs on the standard library with the `python3` on PATH, from 3.9
on. It is an additional guardrail in front of the servers and the gate of `done`, which do not
depend on it. Claude Code names the event as the first argument and writes the rest to standard
input. Two kinds of sessions govern a call: the session that Claude Code was started in, and the
sessions of a subagent's own servers. A conversation without any is the user's own, and nothing
governs it.
"""

from __future__ import annotations

import json
import os
import re
import sys

from ralphgen.runtime.files.main_tree import (
    RALPH,
    home_of,
    is_agents_tree,
    is_client_setting,
    is_of_git,
    pattern_of,
    repository_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Asked = Mapping[str, Any]
    Place = tuple[str, str]  # the project's home, and its folder in the worktree that one is in


SESSIONS = os.path.join(".ralph", "mcp", "sessions")
AGENTS = os.path.join(".claude", "agents")
CONTEXT = "context.json"
CLIENT = "client"  # next to the context of a subagent's server: the conversation that has it
MARK = "RALPHGEN_SESSION"  # the session's id, in every process that `ralphgen launch` starts
_CONFIG = re.compile(rf"(?:--mcp-config=)?(/.*/{re.escape(SESSIONS)}/[^/]+)/mcp\.json")


class UnreadableContextError(Exception):
    """There is a session, and its permissions cannot be read."""


class GoverningSession:
    """A session by its context: `facts` are its values, `servers` the kits by server name.

    Paths are relative to the folders in `tops`: the project's, and its worktree.
    """

    __slots__ = ("facts", "servers", "tops")

    def __init__(self, facts: Mapping[str, Any], place: Place | None, suffix: str = "") -> None:
        project = facts.get("project") or {}
        tops = (project.get("root"), project.get("work_tree"), *(place or ()))
        self.facts = facts
        self.servers = {f"{kit}{suffix}": kit for kit in facts["enabled_tools"]}
        self.tops = tuple(dict.fromkeys(top for top in tops if isinstance(top, str)))

    def of_kit(self, table: str, kit: str) -> Any:
        """Return the entry of a kit in a table of the context, empty if there is none."""
        return (self.facts.get(table) or {}).get(kit) or {}


def project_of(start: str) -> Place | None:
    """Return the project around a folder, as `ralphgen` finds it, or None."""
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

    A conversation without one is the user's own, regardless of `.ralph/mcp/context.json`. Raises
    `UnreadableContextError` if the context of the session cannot be read.
    """
    folder = _started_in(place)
    return GoverningSession(_read(os.path.join(folder, CONTEXT)), place) if folder else None


def agents_sessions(place: Place | None, asked: Asked) -> list[GoverningSession]:
    """Return the sessions that servers of the asking subagent have created for themselves.

    There are two if a conversation has started it twice. If there is none yet, the project's
    protected files are still kept from a subagent of ours. Raises `UnreadableContextError` if that
    state cannot be read.
    """
    agent = asked.get("agent_type")
    if place is None or not isinstance(agent, str) or not agent:
        return []
    return [*_sessions_of(place, agent, asked.get("session_id"))] or _not_yet(place, agent)


def _sessions_of(place: Place, agent: str, conversation: object) -> Iterator[GoverningSession]:
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
    """Return the folder of the session whose config is on the command line, if that is readable.

    This covers a user who runs the command that `ralphgen session create` prints.
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
    """Return the name of a discipline's subagent, as `ralphgen connect` forms it."""
    return re.sub("[^a-z0-9]+", "-", str(discipline or "").casefold()).strip("-")


def quoted(text: object) -> str:
    """Return a name in quotes, on one line and shortened, safe for any value."""
    return json.dumps(str(text)[:200])


BEFORE_TOOL = "PreToolUse"
FILE_TOOLS = ("Edit", "MultiEdit", "NotebookEdit", "Write")
PATHS = ("file_path", "notebook_path", "path")
WORKTREES = "worktrees"  # no agent may edit the rest of `.ralph` by hand
TOOLS = "enabled_tools"
CLOSING = "set_task_status"
SECONDS = 590  # for the gate; Claude Code ends a hook after 600


def main(event: str, said: bytes) -> dict[str, Any]:
    """Return the answer to an event, in the format of Claude Code: empty if nothing is denied.

    Undecidable calls are denied, and a session with an undecidable state may stop.
    """
    try:
        if event != BEFORE_TOOL:
            return _before_end(event, said)
        reason = _before_tool(said)
    except Exception as error:  # no call may slip through on any error
        if event != BEFORE_TOOL:
            return {"systemMessage": f"ralphgen: the hook has failed: {quoted(error)}"}
        reason = f"cannot read the permissions of this session: {error}"
    if not reason:
        return {}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": f"ralphgen: {reason}"}
    return {"hookSpecificOutput": {"hookEventName": BEFORE_TOOL, **decision}}


def _before_tool(said: bytes) -> str:
    """Return why a tool may not be called, empty if it may."""
    asked = _object(said)
    place = project_of(os.environ.get("CLAUDE_PROJECT_DIR") or _text(asked, "cwd") or ".")
    own = own_session(place)
    governing = [*filter(None, [own]), *agents_sessions(place, asked or {})]
    if not governing:
        return ""
    if asked is None or not isinstance(asked.get("tool_input"), dict):
        return "cannot read the call that Claude Code reports"
    name = _text(asked, "tool_name")
    reasons = _tool_reasons if name.startswith("mcp__") else _file_reasons
    if name not in FILE_TOOLS and reasons is _file_reasons:
        return ""
    return next((reason for one in governing for reason in reasons(one, asked)), "")


def _tool_reasons(session: GoverningSession, asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the session has not got a tool of one of its servers with these arguments."""
    _, server, tool = [*_text(asked, "tool_name").split("__", 2), "", ""][:3]
    kit = session.servers.get(server)
    if kit is None:
        return
    recipe = quoted(session.facts.get("recipe"))
    names = {re.sub("[^a-zA-Z0-9_-]", "_", name): name for name in session.of_kit(TOOLS, kit)}
    if tool not in names:
        yield f"a session of the recipe {recipe} has no tool {quoted(tool)}"
        return
    tool, given = names[tool], asked["tool_input"]
    kept = session.of_kit("narrowed_arguments", kit).get(tool)
    bound = session.of_kit("bindings", kit).get(tool, {})
    for argument, value in given.items():
        if kept is not None and argument not in kept:
            yield f"{tool} has no argument {quoted(argument)} in the recipe {recipe}"
        if argument in bound and str(value) != str(bound[argument]):
            yield f"this session is about {argument} {quoted(bound[argument])}, and no other"


def _file_reasons(session: GoverningSession, asked: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the session may not write the file that a tool of Claude Code names."""
    named = [asked["tool_input"][key] for key in PATHS if key in asked["tool_input"]]
    if not named or not all(isinstance(path, str) for path in named):
        yield "cannot find the file that this call writes"
        return
    start = _text(asked, "cwd") or "."
    globs = (session.facts.get("done") or {}).get("protect", ())
    patterns = [pattern_of(glob, session.tops[0]) for glob in globs]
    for whole in dict.fromkeys(one for path in named for one in _possible_paths(start, path)):
        around = project_of(os.path.dirname(whole))  # it may be in a third work tree of the project
        trees = around if around is not None and around[0] in session.tops else ()
        paths = (whole, os.path.realpath(whole))
        seen = [*_relative_paths((*session.tops, *trees), paths)]
        if any(map(is_of_git, seen or paths)) or (not seen and _is_in_repository(session, paths)):
            yield f"{quoted(whole)} is git's: no session may change it by hand"
        for below in seen:
            folder, _, rest = below.partition("/")
            ours = folder.casefold() == RALPH and rest.partition("/")[0].casefold() != WORKTREES
            if (
                ours
                or is_client_setting(below)
                or any(pattern.match(below) for pattern in patterns)
            ):
                yield f"{quoted(below)} is protected: no session may change it"


def _is_in_repository(session: GoverningSession, paths: tuple[str, ...]) -> bool:
    """Return whether a path is in the git directory of the session's repository."""
    trees = filter(None, map(repository_of, session.tops))
    return any(_relative_paths(tuple({tree.common for tree in trees}), paths))


def _possible_paths(start: str, path: str) -> Iterator[str]:
    """Yield the possible meanings of a path: Claude Code strips blanks, and handles `~` itself."""
    for said in (path, path.strip()):
        for spelled in (said, os.path.expanduser(said)):
            yield os.path.normpath(os.path.join(start, spelled))


def _relative_paths(tops: tuple[str, ...], paths: tuple[str, ...]) -> Iterator[str]:
    """Yield each path relative to each folder that contains it, however these are spelled."""
    for top in tops:
        for path in dict.fromkeys(paths):
            parts: list[str] = []
            at = path
            while at != os.path.dirname(at):
                if _is_same(at, top):
                    yield "/".join(reversed(parts))
                    break
                parts.append(os.path.basename(at))
                at = os.path.dirname(at)


def _is_same(path: str, top: str) -> bool:
    try:
        return os.path.samefile(path, top)
    except OSError:
        return False


def _before_end(event: str, said: bytes) -> dict[str, Any]:
    """Return the answer of `ralphgen gate` for a session that has to close a task, else nothing.

    If a subagent has several sessions, each of them has to be unproved to block its end.
    """
    asked = _object(said) or {}
    place = project_of(os.environ.get("CLAUDE_PROJECT_DIR") or _text(asked, "cwd") or ".")
    governing = [*agents_sessions(place, asked)]
    if event == "Stop":
        try:
            governing += filter(None, [own_session(place)])
        except UnreadableContextError:
            return {}  # it was ended, and holds no task any more
    answer: dict[str, Any] = {}
    for session in governing:
        conversation = _text(asked, "session_id")
        if (
            conversation and event != "Stop"
        ):  # a conversation has many subagents, each with its own tries
            conversation += f" {session.facts.get('session_id')}"
        answer = _gated(session, conversation) if _closes_task(session) else {}
        if answer.get("decision") != "block":
            break
    return answer


def _closes_task(session: GoverningSession) -> bool:
    """Return whether the session is there to close its task."""
    task = session.facts.get("task_id")
    bound = (session.of_kit("bindings", kit).get(CLOSING, {}) for kit in session.servers.values())
    return task is not None and any(one.get("id") == task for one in bound)


def _gated(session: GoverningSession, conversation: str) -> dict[str, Any]:
    """Return the answer of the gate for the work tree and the task of a session."""
    import subprocess

    project = session.facts.get("project") or {}
    tree = project.get("work_tree") or project.get("root")
    try:
        done = subprocess.run(
            ["ralphgen", "gate", "--hook", *(["--project", tree] if isinstance(tree, str) else ())],
            env={**os.environ, MARK: str(session.facts.get("session_id"))},
            input=json.dumps({"session_id": conversation} if conversation else {}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"systemMessage": f"ralphgen: the gate did not run: {type(error).__name__}"}
    return _object(done.stdout) or {}


def _object(said: bytes) -> dict[str, Any] | None:
    """Return a JSON object, or None for any other text."""
    try:
        asked = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return asked if isinstance(asked, dict) else None


def _text(asked: Mapping[str, Any] | None, key: str) -> str:
    value = (asked or {}).get(key)
    return value if isinstance(value, str) else ""


if __name__ == "__main__":
    answer = main(sys.argv[1], sys.stdin.buffer.read())
    if answer:
        sys.stdout.write(json.dumps(answer).replace("\x7f", "\\u007f"))
