"""The command line of Claude Code for a session."""

import re

from ralphgen.launch.agent import EDITING, LaunchOptions, prints, refuse_options, some
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
SETTINGS = (
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
    return (*DENIED, *SETTINGS, *below, *DENIED_EVERYWHERE)


def allowed_tools(session: PreparedSession) -> tuple[str, ...]:
    """Return the enabled tools of our servers, and the discipline's own servers as a whole."""
    ours = [tool_name(served.kit, name) for served in session.served for name in served.names]
    return (*ours, *(tool_name(server) for server in session.other_servers))
