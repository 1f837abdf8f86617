"""Claude Code as an agent: its command line, its stream of events, and its log-in."""

import os
import re
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
    amount,
    call_line,
    failure_line,
    harmless_lines,
    number,
    objects,
    prints,
    read_event,
    refuse_options,
    some,
    text_of,
)
from ralphgen.agents.process import Lack, lack_error
from ralphgen.project.root import project_home
from ralphgen.runtime.files.protection import CLIENT_FILES, CLIENT_FOLDERS, CLIENT_PARTS
from ralphgen.sessions.model import CLAUDE, PreparedSession

EDIT_MODE = "acceptEdits"
# A rule for Edit holds for Write and for redirections in Bash too; one for Write would hold for
# nothing. Rules are relative to the folder that Claude Code is started in.
# What is denied is the server, the data, and the settings that could widen the next session; and
# the folder itself, which could be moved away, changed there, and moved back.
DENIED = (
    "Edit(.ralph)",
    "Edit(.ralph/mcp/**)",
    "Edit(.ralph/db/**)",
    "Edit(.ralph/recipes/**)",
    "Edit(.ralph/prompts/**)",  # what later sessions are told to do
    "Edit(.ralph/specum/**)",
    "Edit(.ralph/queries/**)",
    "Edit(.ralph/tools/**)",
    "Edit(.ralph/plugin/**)",
    "Edit(.ralph/ralphgen.toml)",
)
# What git reads its settings and hooks from, wherever it is: a repository's is above its projects.
DENIED_EVERYWHERE = ("Edit(//**/.[gG][iI][tT])", "Edit(//**/.[gG][iI][tT]/**)")
# From these, later sessions of this client or another one take permissions, programs and servers.
CLAUDE_SETTINGS = (
    *("Edit(**/.claude)", "Edit(**/.claude/settings*.json)", "Edit(**/.claude/agents/**)"),
    *("Edit(**/.claude/commands/**)", "Edit(**/.claude/hooks/**)"),
    *(f"Edit(**/{folder}/**)" for folder in sorted(CLIENT_FOLDERS - {".claude"})),
    *(f"Edit(**/{name})" for name in sorted(CLIENT_FILES)),
    *(
        f"Edit(**/{folder}/{name})"
        for folder, names in CLIENT_PARTS.items()
        for one in sorted(names)
        for name in ((one,) if "." in one else (one, f"{one}/**"))
    ),
)

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]")


def default_command(session: PreparedSession) -> tuple[str, ...]:
    """Return the command line that starts Claude Code in a session, with the recipe's own prompt.

    Where it is to print, it reads the prompt from standard input.
    """
    options = LaunchOptions(prompt=session.prompt, printing=prints(session.profile))
    return launch_command(session, options)


def tool_name(server: str, tool: str = "") -> str:
    """Return what Claude Code calls a tool of a server, or without a tool the whole server.

    It spells with an underscore what a model's API does not take in a name.
    """
    parts = ("mcp", server, tool) if tool else ("mcp", server)
    return "__".join(_UNNAMEABLE.sub("_", part) for part in parts)


def launch_command(session: PreparedSession, options: LaunchOptions) -> tuple[str, ...]:
    """Return every argument of Claude Code, from its name on.

    A session that prints reads its prompt from standard input, where it has no limit and no
    process list shows it. In a conversation the prompt is the last argument, behind `--`. What is
    passed through comes behind our own options: Claude Code adds up lists of tools and of servers,
    and of any other option the last one counts. Lists are not the last of ours, because they would
    swallow a word that follows. Raises `UsageError` for what cannot be started.
    """
    refuse_options(options)
    settings = session.launch
    mode = settings.permission_mode or (EDIT_MODE if session.profile in EDITING else "")
    turns = "" if options.max_turns is None else str(options.max_turns)
    cost = "" if options.max_cost is None else f"{options.max_cost:.4f}"
    command = [CLAUDE]
    if options.printing:
        command += ["-p", "--output-format", "stream-json", "--verbose"]
    command += some("--allowedTools", *allowed_tools(session), *settings.allow)
    command += some("--disallowedTools", *_denied(session))
    command += ["--mcp-config", str(session.mcp_config), "--strict-mcp-config"]
    if session.without_settings:
        command += ["--setting-sources", "user"]
    if session.system_file is not None:  # in a file: a command line is for everybody to read
        command += ["--append-system-prompt-file", str(session.system_file)]
    command += some("--permission-mode", mode)
    command += some("--model", options.model or session.model)
    command += some("--max-turns", turns)
    command += some("--max-budget-usd", cost)
    command += options.passed_through
    if not options.printing:
        command += some("--", options.prompt)
    return tuple(command)


def _denied(session: PreparedSession) -> tuple[str, ...]:
    """Return what may not be edited, in the worktree and in the root and home of the project.

    These two are named from the root of the file system; as a whole they may hold the worktree.
    """
    tops = dict.fromkeys((session.root, project_home(session.root)))
    below = [
        rule.replace("(.ralph/", f"(/{top}/.ralph/")
        for top in tops
        if top != session.work_tree
        for rule in DENIED[1:]
    ]
    return (*DENIED, *CLAUDE_SETTINGS, *below, *DENIED_EVERYWHERE)


def allowed_tools(session: PreparedSession) -> tuple[str, ...]:
    """Return the enabled tools of our servers, and the discipline's own servers as a whole."""
    ours = [tool_name(served.kit, name) for served in session.served for name in served.names]
    return (*ours, *(tool_name(server) for server in session.other_servers))


def is_start(event: Event) -> bool:
    """Return whether the event says which servers and tools the session has."""
    return event.get("type") == "system" and event.get("subtype") == "init"


def is_result(event: Event) -> bool:
    """Return whether the event says how the session ended, and what it has used."""
    return event.get("type") == "result"


class Transcript:
    """Turns events into lines; it remembers the calls, so that a failure can name its tool.

    Whatever it does not know, it leaves out: each version of Claude Code adds events.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def lines(self, event: Event) -> Iterator[str]:
        """Return the lines for an event; a subagent's are indented."""
        indent = "  " if event.get("parent_tool_use_id") else ""
        return harmless_lines(self._texts(event), indent)

    def _texts(self, event: Event) -> Iterator[str]:
        match event.get("type"):
            case "assistant" | "user":
                for block in blocks(event):
                    yield from self._block(block)
            case "system":
                yield from _system(event)
            case "result":
                yield _result(event)

    def _block(self, block: Event) -> Iterator[str]:
        match block:
            case {"type": "text", "text": str(text)} if text.strip():
                yield text.strip("\n")
            case {"type": "tool_use", "name": str(name), "id": identity}:
                self._calls[str(identity)] = name
                yield call_line(name, block.get("input"))
            case {"type": "tool_result", "is_error": True, "tool_use_id": identity}:
                name = self._calls.get(str(identity), "a tool")
                yield failure_line(name, text_of(block.get("content")))


def blocks(event: Event) -> Iterator[Event]:
    """Yield the blocks of a message; of what a user says, only the results of tools."""
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in objects(content):
        if event["type"] == "assistant" or block.get("type") == "tool_result":
            yield block


def _system(event: Event) -> Iterator[str]:
    match event:
        case {"subtype": "init", "model": model}:
            servers = [
                f"{server.get('name')} {server.get('status')}"
                for server in objects(event.get("mcp_servers"))
            ]
            yield f"session with {model}: {', '.join(servers) or 'no MCP server'}"
        case {"subtype": "api_retry", "attempt": attempt, "max_retries": most}:
            cause = event.get("error_status") or event.get("error")
            yield f"API error ({cause}): attempt {attempt} of {most}"


def _result(event: Event) -> str:
    """Return how it ended, with turns, seconds and dollars as far as they are known."""
    outcome = event.get("terminal_reason") or event.get("subtype") or "no reason"
    facts = [str(outcome)]
    if isinstance(turns := event.get("num_turns"), int):
        facts.append(f"{turns} turn" if turns == 1 else f"{turns} turns")
    if isinstance(duration := event.get("duration_ms"), int | float):
        facts.append(f"{duration / 1000:.1f} s")
    if isinstance(cost := event.get("total_cost_usd"), int | float):
        facts.append(f"${cost:.4f}")
    return f"ended: {', '.join(facts)}"


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


SPENT = frozenset({"error_max_turns", "error_max_budget_usd"})  # subtypes of a result
BUSY_STATUSES = frozenset({429, 529})  # of the API: a rate limit, and overloaded
BUSY_WORDS = frozenset({"rate_limit", "overloaded"})


class ClaudeCode(Agent):
    """Claude Code, the program `claude` on PATH."""

    name = CLAUDE
    title = "Claude Code"
    install = 'install it, for example with "npm install -g @anthropic-ai/claude-code"'
    reports_cost = True
    variables = ("ANTHROPIC_*", "CLAUDE_*", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT")
    leaves_out_settings = True

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it; it reads the prompt where it prints."""
        variables = {} if TIMEOUT_VARIABLE in os.environ else {TIMEOUT_VARIABLE: START_TIMEOUT}
        given = options.prompt if options.printing else ""
        return AgentCall(launch_command(session, options), given, variables)

    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return ClaudeReader(session)


class ClaudeReader(OutputReader):
    """What the events of Claude Code have shown."""

    def __init__(self, session: PreparedSession | None) -> None:
        super().__init__()
        self._session = session
        self._transcript = Transcript()

    def take(self, line: str) -> AgentLine | None:
        """Return what a line is; None where it is no event."""
        event = read_event(line)
        if event is None:
            return None
        if is_start(event) and not self.started:
            self.started = True
            self.model = str(event.get("model") or "")
            session = self._session
            if session is not None and (found := lacks(session, event)):
                self.refusal = lambda: lack_error(found, session, LONGER)
        self._note(event)
        called = [block for block in blocks(event) if block.get("type") == "tool_use"]
        tool = str(called[-1].get("name")) if called else ""
        return AgentLine(line, tuple(self._transcript.lines(event)), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Take nothing: its last event has said it all."""

    def _note(self, event: Event) -> None:
        """Take what the event says of the model, of the end, and of what was used."""
        if event.get("subtype") == "api_retry" or event.get("type") == "assistant":
            self.rate_limited = _is_busy(event)
        if is_result(event):
            self.ended = True
            self.is_error = bool(event.get("is_error"))
            self.out_of_budget = event.get("subtype") in SPENT
            self.rate_limited = self.is_error and (self.rate_limited or _is_busy(event))
            self.usage = usage_of(event)


def _is_busy(event: Event) -> bool:
    """Return whether the event says that the model does not answer for now."""
    statuses = (event.get("error_status"), event.get("api_error_status"))
    return (
        bool(BUSY_STATUSES.intersection(filter(number, statuses)))
        or event.get("error") in BUSY_WORDS
    )


def usage_of(result: Event) -> Usage:
    """Return what the last event of Claude Code says of turns, tokens and cost.

    Its tokens count by model where they can: when the budget is used up, the sum stays at 0.
    """
    models = result.get("modelUsage")
    by_model = objects([*models.values()]) if isinstance(models, dict) else []
    usage = result.get("usage")
    counted: list[Mapping[str, Any]] = [usage] if isinstance(usage, dict) else []
    into = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
    spelled = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(
        turns=number(result.get("num_turns")),
        tokens_in=_sum(by_model, into) if by_model else _sum(counted, spelled),
        tokens_out=_sum(by_model or counted, ("outputTokens", "output_tokens")),
        cost=amount(result.get("total_cost_usd")),
    )


def _sum(counts: list[Mapping[str, Any]], keys: tuple[str, ...]) -> int | None:
    """Return the sum of what the counts hold under these keys; None where they hold nothing."""
    numbers = [number(count.get(key)) for count in counts for key in keys]
    known = [found for found in numbers if found is not None]
    return sum(known) if known else None
