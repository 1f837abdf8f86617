"""The programs that ralphgen starts as agents: Claude Code, Codex, Gemini CLI and named ones."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.agents.agent import (
    EDITING,
    NO_LIMIT,
    Agent,
    AgentCall,
    AgentLine,
    Event,
    LaunchOptions,
    Limit,
    OutputReader,
    Usage,
    amount,
    call_line,
    failure_line,
    harmless_lines,
    number,
    objects,
    prints,
    prompt_with_system,
    read_event,
    refuse_options,
    some,
    text_of,
)
from ralphgen.agents.process import Entry, Lack, filled, lack_error, session_servers, start_command
from ralphgen.errors import ProgramError, ProjectError, UsageError, harmless, suggestion
from ralphgen.files import WRITE_HINT
from ralphgen.project.config import AgentSettings, Config
from ralphgen.project.lookup import STRUCTURED
from ralphgen.project.root import database_place, project_home
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import reason, write_new
from ralphgen.runtime.files.main_tree import CLIENT_FILES, CLIENT_FOLDERS, CLIENT_PARTS, GIT_PART
from ralphgen.sessions.model import CLAUDE, PreparedSession
from ralphgen.sessions.store import GEMINI_HOME, OURS_ALONE, PROMPT, SYSTEM, remove_inner
from ralphgen.spelling import toml_value

EDIT_MODE = "acceptEdits"
# A rule for Edit also covers Write and redirections in Bash; a rule for Write would have no effect.
# Rules are relative to the start folder of Claude Code. The server, the data, and the settings that
# could widen the next session are denied; and so is the folder itself, which could otherwise be
# moved away, changed there, and moved back.
DENIED = (
    "Edit(.ralph)",
    "Edit(.ralph/mcp/**)",
    "Edit(.ralph/db/**)",
    "Edit(.ralph/recipes/**)",
    "Edit(.ralph/prompts/**)",  # instructions for later sessions
    "Edit(.ralph/specum/**)",
    "Edit(.ralph/queries/**)",
    "Edit(.ralph/tools/**)",
    "Edit(.ralph/plugin/**)",
    "Edit(.ralph/ralphgen.toml)",
)
# The files with git's settings and hooks, at any level: a repository may be above its projects.
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

CLAUDE_HOME_VARIABLE = "CLAUDE_CONFIG_DIR"
KNOWN_BY = 20  # last characters of an API key: Claude Code identifies the key by them
NO_SANDBOX = '{"sandbox":{"enabled":false}}'
_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]")


def default_command(session: PreparedSession) -> tuple[str, ...]:
    """Return the command line that starts Claude Code in a session, with the recipe's own prompt.

    A session that prints reads the prompt from standard input.
    """
    options = LaunchOptions(prompt=session.prompt, printing=prints(session.profile))
    return launch_command(session, options)


def tool_name(server: str, tool: str = "") -> str:
    """Return Claude Code's name for a tool of a server, or for the whole server without a tool.

    Characters that a model's API does not allow in names become underscores.
    """
    parts = ("mcp", server, tool) if tool else ("mcp", server)
    return "__".join(_UNNAMEABLE.sub("_", part) for part in parts)


def launch_command(session: PreparedSession, options: LaunchOptions) -> tuple[str, ...]:
    """Return every argument of Claude Code, from its name on.

    A session that prints reads its prompt from standard input, where it has no limit and no process
    list shows it. In a conversation the prompt is the last argument, after `--`. Passed-through
    arguments follow our own options: Claude Code merges lists of tools and of servers, and the last
    value of any other option wins. Our last option is not a list, because a list would swallow the
    next word. Raises `UsageError` for an impossible request.
    """
    refuse_options(options)
    settings = session.launch
    mode = settings.permission_mode or (EDIT_MODE if session.profile in EDITING else "")
    turns = "" if options.max_turns is None else str(options.max_turns)
    cost = "" if options.max_cost is None else f"{options.max_cost:.4f}"
    command = [CLAUDE]
    if options.printing:
        command += ["-p", "--output-format", "stream-json", "--verbose"]
    shell = ["Bash"] if session.contained and session.profile in EDITING else []
    command += some("--allowedTools", *allowed_tools(session), *shell, *settings.allow)
    command += some("--disallowedTools", *_denied(session))
    command += ["--mcp-config", str(session.mcp_config), "--strict-mcp-config"]
    if session.without_settings:
        command += ["--setting-sources", "user"]
    if session.contained:  # its own sandbox cannot start in ours
        command += ["--settings", NO_SANDBOX]
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
    """Return the rules against edits in the worktree and in the project's root and home.

    Rules for the latter two use absolute paths; they cover parts only, since these folders may
    contain the worktree. An installation of ralphgen in the worktree has a rule, too.
    """
    tops = dict.fromkeys((session.root, project_home(session.root)))
    below = [
        rule.replace("(.ralph/", f"(/{top}/.ralph/")
        for top in tops
        if top != session.work_tree
        for rule in DENIED[1:]
    ]
    installed = Path(sys.prefix).resolve()
    if installed.is_relative_to(session.work_tree.resolve()):
        below.append(f"Edit(/{installed}/**)")
    return (*DENIED, *CLAUDE_SETTINGS, *below, *DENIED_EVERYWHERE)


def _settled_home(session: PreparedSession) -> Path:
    """Create the folder of Claude Code in a sandbox, with the answers to its first questions.

    The folder of the user is not there, and the first start would call hosts that are refused.
    """
    home = session.folder / "claude"
    home.mkdir(mode=0o700, exist_ok=True)
    key = os.environ.get("ANTHROPIC_API_KEY", "")[-KNOWN_BY:]
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [key] if key else []},
        "projects": {str(session.work_tree): {"hasTrustDialogAccepted": True}},
    }
    write_new(str(home / ".claude.json"), json.dumps(known).encode(), mode=OURS_ALONE)
    return home


def allowed_tools(session: PreparedSession) -> tuple[str, ...]:
    """Return the enabled tools of our servers, and the discipline's own servers as a whole."""
    ours = [tool_name(served.kit, name) for served in session.served for name in served.names]
    return (*ours, *(tool_name(server) for server in session.other_servers))


def is_start(event: Event) -> bool:
    """Return whether the event lists the session's servers and tools."""
    return event.get("type") == "system" and event.get("subtype") == "init"


def is_result(event: Event) -> bool:
    """Return whether the event reports the session's end and its usage."""
    return event.get("type") == "result"


class Transcript:
    """Turns events into lines; it remembers the calls, so that a failure can name its tool.

    Unknown events are left out: each version of Claude Code adds events.
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
    """Yield the blocks of a message; for the user's messages, only tool results."""
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
    """Return how it ended, with turns, seconds and dollars if known."""
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
UNLISTED = "not listed"  # our own word for a server that Claude Code does not report
TIMEOUT_VARIABLE = "MCP_TIMEOUT"  # milliseconds that Claude Code waits for a server's start
START_TIMEOUT = "10000"  # its own 30 s are long for a user who waits for an error
LONGER = f"to allow it a minute to start, set {TIMEOUT_VARIABLE}=60000"


def lacks(session: PreparedSession, start: Event) -> tuple[Lack, ...]:
    """Return the parts of the session that Claude Code's first event (`system/init`) lacks.

    Claude Code continues without a server that did not start, and its exit code does not report it.
    The event includes tools whose schemas are loaded on demand.
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
            errors = [
                str(error.get("message"))
                for error in objects(start.get("mcp_server_errors"))
                if error.get("name") == server
            ]
            yield Lack(": ".join([text, *errors]), server, ours.get(server))


def _toolless(
    session: PreparedSession, statuses: Mapping[str, str], seen: list[object]
) -> Iterator[Lack]:
    for served in session.served:
        missing = [name for name in served.names if tool_name(served.kit, name) not in seen]
        if missing and statuses.get(served.kit) == CONNECTED:
            named = ", ".join(f'"{name}"' for name in missing)
            text = f'Claude Code does not list {named} of the MCP server "{served.kit}"'
            yield Lack(text, served.kit, served)


SPENT = frozenset({"error_max_turns", "error_max_budget_usd"})  # subtypes of a result
BUSY_STATUSES = frozenset({429, 529})  # of the API: a rate limit, and overloaded
BUSY_WORDS = frozenset({"rate_limit", "overloaded"})
NO_LOGIN, NO_CREDIT, NO_ACCESS = "not logged in", "no credit", "its plan gives no access"
CLAUDE_REFUSALS = {  # errors of a message that no later session of this run gets past
    "authentication_failed": NO_LOGIN,
    "billing_error": NO_CREDIT,
    "oauth_org_not_allowed": "its organization gives no access",
}
WINDOW = re.compile(r"[a-z0-9_]{1,40}")  # such as five_hour


class ClaudeCode(Agent):
    """Claude Code, the program `claude` on PATH."""

    name = CLAUDE
    title = "Claude Code"
    install = 'install it, for example with "npm install -g @anthropic-ai/claude-code"'
    reports_cost = True
    variables = ("ANTHROPIC_*", "CLAUDE_*", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT")
    leaves_out_settings = True
    hosts = ("api.anthropic.com", "platform.claude.com")
    base_urls = ("ANTHROPIC_BASE_URL",)

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return the call that starts it; if it prints, it reads the prompt from standard input."""
        variables = {} if TIMEOUT_VARIABLE in os.environ else {TIMEOUT_VARIABLE: START_TIMEOUT}
        if session.contained:
            variables[CLAUDE_HOME_VARIABLE] = str(_settled_home(session))
        given = options.prompt if options.printing else ""
        return AgentCall(launch_command(session, options), given, variables)

    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return ClaudeReader(session)


class ClaudeReader(OutputReader):
    """Collects the state of a session from the events of Claude Code."""

    def __init__(self, session: PreparedSession | None) -> None:
        super().__init__()
        self._session = session
        self._transcript = Transcript()
        self._refusal = ""  # why the last message failed

    def take(self, line: str) -> AgentLine | None:
        """Return the parsed line, or None if it is not an event."""
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
        """Do nothing: its last event has reported everything."""

    def _note(self, event: Event) -> None:
        """Record the event's limits, outcome and usage."""
        if event.get("type") == "rate_limit_event":
            self.limit = _claude_limit(event.get("rate_limit_info"))
        if event.get("subtype") == "api_retry" or event.get("type") == "assistant":
            self.rate_limited = _is_busy(event)
            self._refusal = CLAUDE_REFUSALS.get(str(event.get("error")), "")
        if is_result(event):
            self.ended = True
            self.is_error = bool(event.get("is_error"))
            self.out_of_budget = event.get("subtype") in SPENT
            self.rate_limited = self.is_error and (self.rate_limited or _is_busy(event))
            self.unavailable = self._refusal if self.is_error else ""
            self.usage = usage_of(event)


def _is_busy(event: Event) -> bool:
    """Return whether the event reports that the model is temporarily unavailable."""
    statuses = (event.get("error_status"), event.get("api_error_status"))
    return (
        bool(BUSY_STATUSES.intersection(filter(number, statuses)))
        or event.get("error") in BUSY_WORDS
    )


def _claude_limit(info: object) -> Limit:
    """Return the limit that refuses requests; events of a healthy session, as warnings, have none.

    The text of the session is not parsed: its time is local and has no date.
    """
    match info:
        case {"status": "rejected", **more}:
            window = str(more.get("rateLimitType"))
            named = window if WINDOW.fullmatch(window) else ""
            return Limit(named, amount(more.get("resetsAt")))
    return NO_LIMIT


def usage_of(result: Event) -> Usage:
    """Return the turns, tokens and cost in Claude Code's last event.

    Tokens are summed by model if possible: when the budget is used up, the total remains at 0.
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
    """Return the sum of the numbers under these keys, or None if there are none."""
    numbers = [number(count.get(key)) for count in counts for key in keys]
    known = [found for found in numbers if found is not None]
    return sum(known) if known else None


CODEX = "codex"  # the program, looked for on PATH
PROFILE = "ralphgen"  # the name of our profile of permissions
KEPT = ".ralph"  # its commands may not change this; our servers write there, outside of it
GITS = ".git"  # nor this, though its own sandbox protects it in some versions
PATIENCE = 30  # seconds for a list of servers
REQUIRED = "required MCP servers failed to initialize"
CODEX_BUSY = re.compile(
    r"\b(429 Too Many Requests|503 Service Unavailable|529)\b|rate.limit|usage limit|overloaded"
    r"|at capacity",
    re.IGNORECASE,
)
CODEX_REFUSALS = {  # parts of its errors
    "401 Unauthorized": NO_LOGIN,
    "sign in again": NO_LOGIN,
    "Quota exceeded": NO_CREDIT,
    "out of credits": NO_CREDIT,
    "spend cap": "its spend cap is reached",
    "To use Codex with your ChatGPT plan": NO_ACCESS,
}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CODEX_RESET = re.compile(
    rf"try again at (?:({'|'.join(MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th), (\d{{4}}) )?"
    r"(\d{1,2}):(\d\d)\s([AP])M"
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
    hosts = ("api.openai.com", "auth.openai.com", "chatgpt.com")
    base_urls = ("OPENAI_BASE_URL",)
    is_structured = True

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return the call that starts it; if it prints, it reads the prompt from standard input."""
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
        settings = [*_servers(session, variables)]
        if session.contained:
            command += ["--dangerously-bypass-approvals-and-sandbox"]
        else:
            settings += [*_permissions(base), *_others(session)]
        for setting in settings:
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
    """Collects the state of a session from the events of Codex."""

    def __init__(self, session: PreparedSession | None) -> None:
        super().__init__()
        self._session = session

    def take(self, line: str) -> AgentLine | None:
        """Return the parsed line, or None if it is not an event."""
        event = read_event(line)
        if event is None:
            return None
        match event.get("type"):
            case "thread.started":
                self.started = True
            case "error" | "turn.failed":
                message = _codex_message(event)
                self.rate_limited = CODEX_BUSY.search(message) is not None
                self.limit = Limit("", codex_reset(message)) if self.rate_limited else NO_LIMIT
                said = (why for part, why in CODEX_REFUSALS.items() if part in message)
                self.unavailable = "" if self.rate_limited else next(said, "")
            case "item.started" | "item.completed" | "turn.completed":
                self.rate_limited, self.limit, self.unavailable = False, NO_LIMIT, ""  # continues
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
        """Record why it did not start if a server of the session has not started."""
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


def codex_reset(message: str) -> float | None:
    """Return when the limit in a message of Codex resets: local time, without a date if today."""
    found = CODEX_RESET.search(message)
    if found is None:
        return None
    month, day, year, hour, minute, half = found.groups()
    today = time.localtime()
    date = (today.tm_year, today.tm_mon, today.tm_mday)
    if month:
        date = (int(year), MONTHS.index(month) + 1, int(day))
    hours = int(hour) % 12 + 12 * (half == "P")
    return time.mktime((*date, hours, int(minute), 0, 0, 0, -1))


def _servers(session: PreparedSession, variables: dict[str, str]) -> Iterator[str]:
    """Yield the settings of the session's servers; `variables` get the values of their headers."""
    ours = {served.kit: served.names for served in session.served}
    place = database_place(session.root)
    if place is not None:  # for the servers, but not for the agent's commands
        yield f"shell_environment_policy.exclude={toml_value([place.dsn_env])}"
    for name, entry in session_servers(session).items():
        setting: dict[str, Any] = {"required": True, "default_tools_approval_mode": "approve"}
        if "command" in entry:
            program, *arguments = (
                [entry["command"], *entry["args"], *([] if session.contained else [STRUCTURED])]
                if session.contained or name in ours
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
            if place is not None and not session.contained:
                setting["env_vars"] = [place.dsn_env]
        if "timeout" in entry:
            setting["tool_timeout_sec"] = entry["timeout"] // 1000
        yield f"mcp_servers.{name}={toml_value(setting)}"


def _permissions(base: str) -> Iterator[str]:
    """Yield the settings of a sandbox that protects the servers' files from commands."""
    kept = [KEPT, GITS, *sorted(CLIENT_FOLDERS), *sorted(CLIENT_FILES)]
    rules = {":workspace_roots": dict.fromkeys(kept, "read")}
    yield f'default_permissions="{PROFILE}"'
    yield f"permissions.{PROFILE}={toml_value({'extends': base, 'filesystem': rules})}"


def _others(session: PreparedSession) -> Iterator[str]:
    """Yield settings that disable the servers in the user's and the project's own settings."""
    program = shutil.which(CODEX)
    if program is None:
        return  # reported at its start
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
    """Yield an event as lines for the user; unknown events are left out."""
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


GEMINI = "gemini"  # the program, looked for on PATH
HOME_VARIABLE = "GEMINI_CLI_HOME"
TRUSTED_VARIABLE = "GEMINI_CLI_TRUSTED_FOLDERS_PATH"
GEMINI_SETTINGS = "settings.json"
POLICY = "ralphgen.toml"
OWN = frozenset({GEMINI_SETTINGS, "tmp", "history", "projects.json"})  # not the user's
SUFFIX = "-session"  # an entry of the same name in the project's settings would win
NO_AUTHENTICATION, TURNS_USED, UNTRUSTED = 41, 53, 55  # exit codes
GEMINI_RESET = re.compile(r"Please retry in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?")
TRUST_HINT = 'to trust it, start "gemini" in it once'
GEMINI_BUSY = re.compile(
    r"\b(429|503|529)\b|RESOURCE_EXHAUSTED|quota|rate.limit|overloaded", re.IGNORECASE
)
# Files with permissions, programs and servers for a client, as a regular expression.
FOREIGN_SETTINGS = "|".join(
    (
        r"\.claude/(?!skills/|worktrees/|CLAUDE)",
        *(f"{re.escape(name)}/" for name in sorted(CLIENT_FOLDERS - {".claude"})),
        *(f'{re.escape(name)}"' for name in sorted(CLIENT_FILES)),
        *(
            f'{re.escape(f"{folder}/{name}")}["/]'
            for folder, names in CLIENT_PARTS.items()
            for name in sorted(names)
        ),
    )
)
# Rules of its policy engine, which drops a rule with a quantifier behind a group that has one.
# `.ralph` also contains worktrees, and each of them has its own `.ralph`.
RULES = rf"""[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"[^"]*\.ralph/(?!worktrees/)'
decision = "deny"
priority = 999
denyMessage = "only the servers may change files in .ralph"

[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"(?:[^"]*[/\\]|)(?:{GIT_PART}|[gG][iI][tT]~\d+)[/\\":]'
decision = "deny"
priority = 999
denyMessage = "the files of a repository are changed by git alone"

[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"([^"]*/|)({FOREIGN_SETTINGS})'
decision = "deny"
priority = 999
denyMessage = "clients take permissions from this file"
"""


class GeminiCli(Agent):
    """Gemini CLI, the program `gemini` on PATH."""

    name = GEMINI
    title = "Gemini CLI"
    install = 'install it, for example with "npm install -g @google/gemini-cli"'
    lacks = (
        "Gemini CLI ignores the rules of [launch]: without a terminal it runs no commands",
        "Gemini CLI has a fixed system prompt: the role is added to its first prompt",
        "Gemini CLI reports neither its servers nor its cost",
    )
    variables = ("GEMINI_*", "GOOGLE_*")
    hosts = (
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
    )
    base_urls = ("GOOGLE_GEMINI_BASE_URL",)

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return the call that starts it in its own home; if it prints, it reads the prompt."""
        refuse_options(options)
        home = session.folder / GEMINI_HOME
        person = Path(os.environ.get(HOME_VARIABLE) or Path.home()) / ".gemini"
        settings = _settings(session, options, person)
        remove_inner(session.folder, GEMINI_HOME)
        try:
            folder = home / ".gemini"
            folder.mkdir(mode=0o700, parents=True)
            is_visible = person.is_dir() and not session.contained
            for path in sorted(person.iterdir()) if is_visible else ():
                if path.name not in OWN:
                    (folder / path.name).symlink_to(path)
            write_new(
                str(folder / GEMINI_SETTINGS),
                json.dumps(settings, indent=2).encode(),
                mode=OURS_ALONE,
            )
            write_new(str(folder / POLICY), RULES.encode(), mode=OURS_ALONE)
        except OSError as error:
            text = f'"{home}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error
        trusted = os.environ.get(TRUSTED_VARIABLE) or str(person / "trustedFolders.json")
        variables = {HOME_VARIABLE: str(home), TRUSTED_VARIABLE: trusted}
        if session.contained:  # nothing of the user is there for the project's settings to harm
            variables = {HOME_VARIABLE: str(home), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        command = [GEMINI, "--allowed-mcp-server-names", ",".join(settings["mcp"]["allowed"])]
        command += ["--policy", str(home / ".gemini" / POLICY)]
        if session.profile in EDITING:
            command += ["--approval-mode", "yolo" if session.contained else "auto_edit"]
        command += some("--model", options.model or session.model)
        prompt = prompt_with_system(session, options.prompt)
        if not options.printing:
            command += [*options.passed_through, *some("--prompt-interactive", prompt)]
            return AgentCall(tuple(command), "", variables)
        command += ["--output-format", "stream-json", *options.passed_through]
        return AgentCall(tuple(command), prompt, variables)

    def reader(self, _session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return GeminiReader()

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Its home, which also contains the conversation."""
        return (GEMINI_HOME,)


class GeminiReader(OutputReader):
    """Collects the state of a session from the events of Gemini CLI."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, str] = {}
        self._went_on = False
        self._begun = ""  # the model's text up to the end of a line

    def take(self, line: str) -> AgentLine | None:
        """Return the parsed line, or None if it is not an event."""
        event = read_event(line)
        if event is None:
            return None
        match event.get("type"):
            case "init":
                self.started = True
                self.model = str(event.get("model") or "")
            case "error":
                self.rate_limited = GEMINI_BUSY.search(str(event.get("message"))) is not None
            case "tool_result" | "message" if event.get("role") != "user":
                self.rate_limited, self._went_on = False, True
            case "result":
                self._end(event)
        tool = str(event.get("tool_name")) if event.get("type") == "tool_use" else ""
        return AgentLine(line, tuple(harmless_lines(self._texts(event))), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Record its exit code, which identifies some failures."""
        self.out_of_budget = code == TURNS_USED
        if code == UNTRUSTED:
            self.refusal = lambda: ProjectError(
                "Gemini CLI does not trust this directory", TRUST_HINT
            )
        elif code is None:
            self.rate_limited = not self._went_on and GEMINI_BUSY.search(complaint) is not None
        elif code and not self.out_of_budget:
            self.rate_limited = self.rate_limited or GEMINI_BUSY.search(complaint) is not None
        if code == NO_AUTHENTICATION:
            self.unavailable = NO_LOGIN
        if self.rate_limited:
            self.limit = Limit("", gemini_reset(complaint))

    def _end(self, event: Event) -> None:
        stats, error = event.get("stats"), event.get("error")
        counts = stats if isinstance(stats, dict) else {}
        self.ended = True
        self.is_error = event.get("status") != "success"
        self.rate_limited = self.is_error and GEMINI_BUSY.search(_gemini_message(error)) is not None
        models = counts.get("models")
        self.model = ", ".join(models) if isinstance(models, dict) and models else self.model
        self.usage = Usage(
            tokens_in=number(counts.get("input_tokens")),
            tokens_out=number(counts.get("output_tokens")),
        )

    def _texts(self, event: Event) -> Iterator[str]:
        """Yield an event as lines for the user; unknown events are left out."""
        if event.get("type") == "message" and event.get("role") == "assistant":
            self._begun += str(event.get("content") or "")
            *whole, self._begun = self._begun.split("\n")
            yield from filter(str.strip, whole)
            return
        begun, self._begun = self._begun, ""
        if begun.strip():
            yield begun
        match event:
            case {"type": "init", "model": model}:
                yield f"session with {model}"
            case {"type": "tool_use", "tool_name": str(name)}:
                self._calls[str(event.get("tool_id"))] = name
                yield call_line(name, event.get("parameters"))
            case {"type": "tool_result", "status": "error"}:
                name = self._calls.get(str(event.get("tool_id")), "a tool")
                yield failure_line(
                    name, str(event.get("output") or _gemini_message(event.get("error")))
                )
            case {"type": "error"}:
                yield f"failed: {event.get('message')}"
            case {"type": "result", "status": status}:
                yield f"ended: {status}"


def gemini_reset(complaint: str) -> float | None:
    """Return when the limit in the errors of Gemini CLI resets; the last one counts."""
    found = [one for one in GEMINI_RESET.finditer(complaint) if any(one.groups())]
    if not found:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found[-1].groups())
    return time.time() + hours * 3_600 + minutes * 60 + seconds


def _settings(session: PreparedSession, options: LaunchOptions, person: Path) -> dict[str, Any]:
    """Return the user's settings with the session's servers in place of the user's."""
    ours = {served.kit: list(served.names) for served in session.served}
    servers: dict[str, Any] = {}
    place = database_place(session.root)
    for name, entry in session_servers(session).items():
        own = dict(entry)
        if name in ours:
            own["includeTools"] = ours[name]
            if place is not None and not session.contained:
                own["env"] = {place.dsn_env: f"${place.dsn_env}"}  # it passes on what is named
        elif "command" in entry and not session.contained:
            own["command"], *own["args"] = start_command(session, name)
            own.pop("env", None)
        servers[f"{name}{SUFFIX}"] = {**own, "trust": True}
    found = _person_settings(person / GEMINI_SETTINGS)
    model = found.get("model")
    turns = {} if options.max_turns is None else {"maxSessionTurns": options.max_turns}
    return {
        **found,
        "mcpServers": servers,
        "mcp": {"allowed": list(servers)},
        "model": {**(model if isinstance(model, dict) else {}), **turns},
    }


def _person_settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ProjectError(f'"{path}" cannot be read', "check its permissions") from error
    found = read_event(text)
    if found is None:
        raise ProjectError(
            f'"{path}" cannot be read: it is not a JSON object', "remove its comments"
        )
    return dict(found)


def _gemini_message(error: object) -> str:
    return str(error.get("message")) if isinstance(error, dict) else ""


CONFIG, PROMPT_FILE, SYSTEM_FILE = "{config}", "{prompt_file}", "{system_file}"
USAGE_KEYS = frozenset({"turns", "cost_usd", "input_tokens", "output_tokens"})
RESET_KEY = "resets_at"  # in seconds since 1970
TEXT_KEYS = ("text", "message", "content", "result")  # of an event for the user, the first of them
TRY_LATER = 75  # the exit code of a program that could not do its work for now: EX_TEMPFAIL


class NamedAgent(Agent):
    """A program that is started without a shell, with paths in the places of its arguments."""

    converses = False

    def __init__(self, name: str, settings: AgentSettings) -> None:
        """Take its name and its settings."""
        self.name = name
        self.title = f'the agent "{name}"'
        self.install = f'see "command" of [loop.agents.{name}]'
        self.reports_cost = settings.reports_cost
        self._command = tuple(settings.command)
        self.script = "".join(self._command[1:2])
        self.lacks = tuple(_lacks(name, settings.command))

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it; the brief is in files of the session's folder."""
        refuse_options(options)
        for option, given in (("model", options.model), ("max-turns", options.max_turns)):
            if given:
                text = f'{self.title} does not support "--{option}"'
                raise UsageError(text, f"remove it, or add it to the command ({self.install})")
        has_system = any(SYSTEM_FILE in word for word in self._command)
        prompt = options.prompt if has_system else prompt_with_system(session, options.prompt)
        paths = {
            CONFIG: session.mcp_config,
            PROMPT_FILE: session.folder / PROMPT,
            SYSTEM_FILE: session.folder / SYSTEM,
        }
        try:
            data = f"{prompt}\n".encode("utf-8", "surrogateescape")
            write_new(str(paths[PROMPT_FILE]), data, mode=OURS_ALONE)
            if session.system_file is None:  # a session whose servers have no brief
                write_new(str(paths[SYSTEM_FILE]), b"", mode=OURS_ALONE)
        except OSError as error:
            text = f'"{error.filename}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error
        places = re.compile("|".join(map(re.escape, paths)))
        filled = [places.sub(lambda place: str(paths[place[0]]), word) for word in self._command]
        return AgentCall((*filled, *options.passed_through))

    @property
    def program(self) -> str:
        """The program that its command starts with."""
        return self._command[0]

    def reader(self, _session: PreparedSession | None) -> OutputReader:
        """Return what reads its output."""
        return NamedReader()


class NamedReader(OutputReader):
    """Collects the output lines of an unknown program.

    The last line may report its usage, and when a limit resets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started = True  # it never lists its servers

    def take(self, line: str) -> AgentLine | None:
        """Return the line; a line that is not a JSON object is wrapped in one for the record."""
        event = read_event(line)
        if line.strip():
            self.usage, self.limit = Usage(), NO_LIMIT
        if event is not None and RESET_KEY in event:
            self.limit = Limit("", amount(event[RESET_KEY]))
        if event is not None and USAGE_KEYS & event.keys():
            self.usage = Usage(
                turns=number(event.get("turns")),
                tokens_in=number(event.get("input_tokens")),
                tokens_out=number(event.get("output_tokens")),
                cost=amount(event.get("cost_usd")),
            )
        if event is None:
            return AgentLine(json.dumps({"type": "text", "text": line}), (harmless(line),))
        return AgentLine(line, tuple(harmless_lines(iter(_unknown_event_texts(event, line)))))

    def close(self, code: int | None, _complaint: str) -> None:
        """Record its exit code, which may report that its model is temporarily unavailable."""
        self.rate_limited = code == TRY_LATER


def _unknown_event_texts(event: Event, line: str) -> list[str]:
    """Return the text of an event of an unknown program; an event about its usage has none."""
    if not event.keys() - USAGE_KEYS - {RESET_KEY}:
        return []
    texts = [event[key] for key in TEXT_KEYS if isinstance(event.get(key), str)]
    return texts[:1] or [line]


def _lacks(name: str, command: list[str]) -> Iterator[str]:
    """Yield one sentence if the command of an agent does not take the config or the prompt."""
    files = {CONFIG: "no MCP config", PROMPT_FILE: "no prompt"}
    missing = [files[place] for place in files if not any(place in word for word in command)]
    if missing:
        use = 'it needs "ralphgen call", missing in a sandbox'
        yield f'agent "{name}" gets {" and ".join(missing)}; {use}'


KNOWN: dict[str, type[Agent]] = {one.name: one for one in (ClaudeCode, Codex, GeminiCli)}


def agents_here(config: Config) -> tuple[Agent, ...]:
    """Return the agents whose programs are on this machine, followed by those in the settings."""
    found = [find_agent(name, config) for name in (*KNOWN, *config.loop.agents)]
    return tuple({one.name: one for one in found if shutil.which(one.program)}.values())


def find_agent(name: str, config: Config) -> Agent:
    """Return the agent of this name; raises `UsageError` if there is none."""
    if name in KNOWN:
        return KNOWN[name]()
    named = config.loop.agents
    if name in named:
        return NamedAgent(name, named[name])
    hint = suggestion(name, (*KNOWN, *named), "the agents")
    raise UsageError(
        f'there is no agent "{one_line(name)}"', f"{hint}; add others in [loop.agents]"
    )
