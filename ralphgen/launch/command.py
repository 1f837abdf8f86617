"""The command line of Claude Code for a session."""

import re
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import UsageError
from ralphgen.kits.registry import KITS
from ralphgen.project.config import read_config
from ralphgen.project.inspect import settings_models
from ralphgen.sessions.model import CLAUDE, PreparedSession

PRINTING = frozenset({"task_execution", "opus_review", "enrichment"})  # done without a person
EDITING = frozenset({"task_execution"})  # of no use if it may not write files
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
    "Edit(.ralph/specum/**)",  # what later sessions are told to do
    "Edit(.ralph/ralphgen.toml)",
)
LONGEST_ARGUMENT = 100_000  # bytes; Linux takes 131,071

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """The project's settings: rules of what is allowed besides, and a mode of permission or ""."""

    allow: tuple[str, ...] = ()
    permission_mode: str = ""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What a person asks for; `passed_through` goes to Claude Code as it is."""

    prompt: str
    printing: bool
    model: str = ""
    max_turns: int | None = None
    passed_through: tuple[str, ...] = ()


def launch_settings(root: Path) -> LaunchSettings:
    """Return what the config says of launching; raises `ProjectError` where it cannot be read."""
    config = read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS))
    return LaunchSettings(
        tuple(config.values.launch.allow), config.values.launch.permission_mode or ""
    )


def default_command(session: PreparedSession, root: Path) -> tuple[str, ...]:
    """Return the command line that starts Claude Code in a session, with the recipe's own prompt.

    Where it is to print, it reads the prompt from standard input.
    """
    options = LaunchOptions(prompt=session.prompt, printing=prints(session.profile))
    return launch_command(session, launch_settings(root), options)


def prints(profile: str) -> bool:
    """Return whether sessions of the profile run without a person and a terminal."""
    return profile in PRINTING


def tool_name(server: str, tool: str = "") -> str:
    """Return what Claude Code calls a tool of a server, or without a tool the whole server.

    It spells with an underscore what a model's API does not take in a name.
    """
    parts = ("mcp", server, tool) if tool else ("mcp", server)
    return "__".join(_UNNAMEABLE.sub("_", part) for part in parts)


def launch_command(
    session: PreparedSession, settings: LaunchSettings, options: LaunchOptions
) -> tuple[str, ...]:
    """Return every argument of Claude Code, from its name on.

    A session that prints reads its prompt from standard input, where it has no limit and no
    process list shows it. In a conversation the prompt is the last argument, behind `--`. What is
    passed through comes behind our own options: Claude Code adds up lists of tools and of servers,
    and of any other option the last one counts. Lists are not the last of ours, because they would
    swallow a word that follows. Raises `UsageError` for what cannot be started.
    """
    _refuse(options)
    mode = settings.permission_mode or (EDIT_MODE if session.profile in EDITING else "")
    turns = "" if options.max_turns is None else str(options.max_turns)
    command = [CLAUDE]
    if options.printing:
        command += ["-p", "--output-format", "stream-json", "--verbose"]
    command += _some("--allowedTools", *allowed_tools(session), *settings.allow)
    command += _some("--disallowedTools", *DENIED)
    command += ["--mcp-config", str(session.mcp_config), "--strict-mcp-config"]
    command += _some("--permission-mode", mode)
    command += _some("--model", options.model)
    command += _some("--max-turns", turns)
    command += options.passed_through
    if not options.printing:
        command += _some("--", options.prompt)
    return tuple(command)


def allowed_tools(session: PreparedSession) -> tuple[str, ...]:
    """Return the enabled tools of our servers, and the discipline's own servers as a whole."""
    ours = [tool_name(served.kit, name) for served in session.served for name in served.names]
    return (*ours, *(tool_name(server) for server in session.other_servers))


def _some(option: str, *values: str) -> list[str]:
    """Return the option with its values, or nothing where there is none."""
    found = [value for value in values if value]
    return [option, *found] if found else []


def _refuse(options: LaunchOptions) -> None:
    if options.printing:
        if not options.prompt.strip():
            raise UsageError("a session without a terminal needs a prompt", 'add one, or "-"')
        return
    if options.max_turns is not None:
        raise UsageError('"--max-turns" is for a session without a terminal', 'add "--print"')
    if "\0" in options.prompt:
        raise UsageError("a prompt on the command line cannot hold a NUL", "leave it out")
    size = len(options.prompt.encode(errors="surrogateescape"))
    if size > LONGEST_ARGUMENT:
        raise UsageError(
            f"the prompt has {size:,} bytes, but a command line takes {LONGEST_ARGUMENT:,}",
            'put it in a file that the agent reads, or add "--print"',
        )
