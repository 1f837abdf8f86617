"""Codex as an agent: its command line, and the events of `codex exec --json`."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from ralphgen.agents.agent import (
    EDITING,
    Agent,
    AgentCall,
    AgentLine,
    Event,
    LaunchOptions,
    OutputReader,
    Usage,
    call_line,
    failure_line,
    harmless_lines,
    number,
    prompt_with_system,
    read_event,
    refuse_options,
    some,
)
from ralphgen.agents.claude import tool_name
from ralphgen.agents.process import Entry, Lack, filled, lack_error, session_servers, start_command
from ralphgen.errors import UsageError
from ralphgen.project.lookup import STRUCTURED
from ralphgen.project.root import database_place
from ralphgen.runtime.files.protection import CLIENT_FILES, CLIENT_FOLDERS
from ralphgen.sessions.model import PreparedSession
from ralphgen.spelling import toml_value

CODEX = "codex"  # the program, looked for on PATH
PROFILE = "ralphgen"  # the name of our profile of permissions
KEPT = ".ralph"  # what no command of its may change: servers of ours write there, outside of it
GITS = ".git"  # nor this, though its own sandbox protects it in some versions
PATIENCE = 30  # seconds for a list of servers
REQUIRED = "required MCP servers failed to initialize"
CODEX_BUSY = re.compile(
    r"\b(429 Too Many Requests|503 Service Unavailable|529)\b|rate.limit|usage limit|overloaded"
    r"|at capacity",
    re.IGNORECASE,
)


class Codex(Agent):
    """Codex, the program `codex` on PATH."""

    name = CODEX
    title = "Codex"
    install = 'install it, for example with "npm install -g @openai/codex"'
    lacks = (
        f"Codex ignores the rules of [launch]: its own sandbox cannot change {KEPT}",
        "Codex has a fixed system prompt: the role is added to its first prompt",
        "Codex does not report its cost",
    )
    variables = ("OPENAI_*", "CODEX_*")

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it; it reads the prompt where it prints."""
        refuse_options(options)
        if options.max_turns is not None:
            raise UsageError(
                'Codex does not support "--max-turns"', 'remove it, or use "--timeout"'
            )
        prompt = prompt_with_system(session, options.prompt)
        variables: dict[str, str] = {}
        base = ":workspace"
        command = [CODEX]
        if options.printing:
            command += ["exec", "--json", "--skip-git-repo-check"]
            base = ":workspace" if session.profile in EDITING else ":read-only"
        for setting in (
            *_servers(session, variables),
            *_permissions(base),
            *_others(session),
        ):
            command += ["-c", setting]
        command += some("--model", options.model or session.model)
        command += [*options.passed_through, "--"]
        if not options.printing:
            return AgentCall((*command, *filter(None, [prompt])), "", variables)
        return AgentCall((*command, "-"), prompt, variables)

    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return CodexReader(session)


class CodexReader(OutputReader):
    """What the events of Codex have shown."""

    def __init__(self, session: PreparedSession | None) -> None:
        super().__init__()
        self._session = session

    def take(self, line: str) -> AgentLine | None:
        """Return what a line is; None where it is no event."""
        event = read_event(line)
        if event is None:
            return None
        match event.get("type"):
            case "thread.started":
                self.started = True
            case "error" | "turn.failed":
                self.rate_limited = CODEX_BUSY.search(_codex_message(event)) is not None
            case "item.started" | "item.completed":
                self.rate_limited = False  # it goes on
        if event.get("type") in {"turn.completed", "turn.failed"}:
            self.ended = True
            self.is_error = event["type"] == "turn.failed"
            usage = event.get("usage")
            counts = usage if isinstance(usage, dict) else {}
            self.usage = Usage(
                tokens_in=number(counts.get("input_tokens")),
                tokens_out=number(counts.get("output_tokens")),
            )
        item = event.get("item")
        found = item if isinstance(item, dict) else {}
        tool = _tool(found)[0] if event.get("type") == "item.started" else ""
        return AgentLine(line, tuple(harmless_lines(_texts(event, found))), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Take why it did not begin, where a server of the session has not started."""
        _, told, names = complaint.rpartition(REQUIRED)
        session = self._session
        if session is not None and code and told and not self.started:
            ours = {served.kit: served for served in session.served}
            every = (*ours, *session.other_servers)
            text = 'Codex is not connected to the MCP server "{}"'
            found = tuple(
                Lack(text.format(name), name, ours.get(name))
                for name in every
                if re.search(rf"(^|[\s,;]){re.escape(name)}:", names)
            )
            if found:
                self.refusal = lambda: lack_error(found, session)


def _servers(session: PreparedSession, variables: dict[str, str]) -> Iterator[str]:
    """Yield the settings of the session's servers; `variables` get what their headers are."""
    ours = {served.kit: served.names for served in session.served}
    place = database_place(session.root)
    if place is not None:  # for the servers, and not for what the agent runs
        yield f"shell_environment_policy.exclude={toml_value([place.dsn_env])}"
    for name, entry in session_servers(session).items():
        setting: dict[str, Any] = {"required": True, "default_tools_approval_mode": "approve"}
        if "command" in entry:
            program, *arguments = (
                [entry["command"], *entry["args"], STRUCTURED]
                if name in ours
                else start_command(session, name)
            )
            setting |= {"command": program, "args": arguments}
        else:
            setting |= {"url": filled(entry["url"]), "env_http_headers": {}}
            for at, (header, value) in enumerate(entry.get("headers", {}).items()):
                variable = f"RALPHGEN_{len(variables)}_{at}"
                variables[variable] = filled(value)
                setting["env_http_headers"][header] = variable
        if name in ours:
            setting["enabled_tools"] = list(ours[name])
            if place is not None:
                setting["env_vars"] = [place.dsn_env]
        if "timeout" in entry:
            setting["tool_timeout_sec"] = entry["timeout"] // 1000
        yield f"mcp_servers.{name}={toml_value(setting)}"


def _permissions(base: str) -> Iterator[str]:
    """Yield the settings of a sandbox that keeps from commands what is the servers' alone."""
    kept = [KEPT, GITS, *sorted(CLIENT_FOLDERS), *sorted(CLIENT_FILES)]
    rules = {":workspace_roots": dict.fromkeys(kept, "read")}
    yield f'default_permissions="{PROFILE}"'
    yield f"permissions.{PROFILE}={toml_value({'extends': base, 'filesystem': rules})}"


def _others(session: PreparedSession) -> Iterator[str]:
    """Yield settings that leave out the servers of the person's and the project's own settings."""
    program = shutil.which(CODEX)
    if program is None:
        return  # that is said where it is started
    own: Mapping[str, Entry] = session_servers(session)
    command = [program, "mcp", "list", "--json"]
    try:
        done = subprocess.run(
            command,
            cwd=session.work_tree,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        listed = [str(one["name"]) for one in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
        text = "Codex does not list the MCP servers of its settings, so they cannot be disabled"
        raise UsageError(text, 'see "codex mcp list --json"') from error
    yield from (f"mcp_servers.{name}.enabled=false" for name in listed if name not in own)


def _texts(event: Event, item: Event) -> Iterator[str]:
    """Yield what an event says to a person; whatever it does not know, it leaves out."""
    match event.get("type"):
        case "thread.started":
            yield "session with Codex"
        case "error" | "turn.failed":
            yield f"failed: {_codex_message(event)}"
        case "turn.completed":
            yield "ended: completed"
        case "item.started" if _tool(item)[0]:
            yield call_line(*_tool(item))
        case "item.completed":
            yield from _completed(item)


def _completed(item: Event) -> Iterator[str]:
    match item:
        case {"type": "agent_message", "text": str(text)} if text.strip():
            yield text.strip("\n")
        case {"type": "error"}:
            yield f"failed: {_codex_message(item)}"
        case {"type": "file_change", "changes": list(changes)}:
            paths = [str(one.get("path")) for one in changes if isinstance(one, dict)]
            yield call_line("edit", {"paths": ", ".join(paths)})
        case {"status": "failed"} if _tool(item)[0]:
            yield failure_line(_tool(item)[0], _failure(item))


def _tool(item: Event) -> tuple[str, object]:
    """Return the tool that an item calls, and with what; "" for an item that calls none."""
    match item:
        case {"type": "mcp_tool_call", "server": str(server), "tool": str(tool)}:
            return tool_name(server, tool), item.get("arguments")
        case {"type": "command_execution"}:
            return "shell", {"command": item.get("command")}
    return "", None


def _failure(item: Event) -> str:
    """Return why a call has failed."""
    if item.get("type") == "command_execution":
        return f"exit code {item.get('exit_code')}: {item.get('aggregated_output')}"
    error, result = item.get("error"), item.get("result")
    if isinstance(error, dict):
        return _codex_message(error)
    content = result.get("content") if isinstance(result, dict) else None
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks)


def _codex_message(event: Event) -> str:
    error = event.get("error")
    return str(error.get("message") if isinstance(error, dict) else event.get("message"))
