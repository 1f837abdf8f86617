"""What a session is for the commands that make, describe and start one."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.planning.model import Names
from ralphgen.planning.preview import listed_bytes
from ralphgen.runtime.errors import one_line

CLAUDE = "claude"  # the program, looked for on PATH


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks for; empty where nothing was said."""

    recipe: str
    task: int | None = None
    feature: str = ""
    discipline: str = ""
    kits: Names = ()


@dataclass(frozen=True, slots=True)
class Served:
    """One server of a session, as it describes itself.

    `command` starts it. `tools` are the entries of its `tools/list`; `prompt` is the text of the
    recipe's own prompt with nothing filled in, empty where there is none.
    """

    kit: str
    command: Names
    tools: tuple[dict[str, Any], ...]
    instructions: str
    prompt: str

    @property
    def names(self) -> Names:
        """The names of its tools, in order."""
        return tuple(tool["name"] for tool in self.tools)


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session whose files are written and whose servers have said that they would start.

    `recipe` is what it calls itself and `profile` the built-in kind of session that it comes from.
    `folder` holds `context` and `mcp_config`; `sha256` is the context's. `discipline` is the
    discipline, `target` the discipline that the session is about. `other_servers` are the names of
    the discipline's own MCP servers.
    """

    root: Path
    session_id: str
    recipe: str
    profile: str
    folder: Path
    context: Path
    mcp_config: Path
    sha256: str
    task: int | None
    feature: str | None
    discipline: str | None
    target: str | None
    served: tuple[Served, ...]
    other_servers: Names
    warnings: Names

    @property
    def prompt(self) -> str:
        """The recipe's own prompt, empty where none of the servers has one."""
        return next((served.prompt for served in self.served if served.prompt), "")


def session_facts(session: PreparedSession, argv: Names) -> dict[str, object]:
    """Return the session for other programs; `argv` is the command line of a client in it."""
    return {
        "session_id": session.session_id,
        "recipe": session.recipe,
        "profile": session.profile,
        "task_id": session.task,
        "feature": session.feature,
        "discipline": session.discipline,
        "target_discipline": session.target,
        "folder": str(session.folder),
        "context": str(session.context),
        "sha256": session.sha256,
        "mcp_config": str(session.mcp_config),
        "kits": {served.kit: _kit_facts(served) for served in session.served},
        "mcp_servers": list(session.other_servers),
        "warnings": list(session.warnings),
        "argv": list(argv),
    }


def session_summary(session: PreparedSession) -> Iterator[str]:
    """Yield what a person sees."""
    rows = (
        ("task", session.task),
        ("feature", session.feature),
        ("discipline", session.discipline),
        ("target discipline", session.target),
    )
    about = "".join(f", {kind} {one_line(str(row))}" for kind, row in rows if row is not None)
    yield f"session {session.session_id}{about}"
    for served in session.served:
        size = listed_bytes(list(served.tools))
        yield f"{served.kit}: {len(served.tools)} tools, {size:,} bytes"
    if session.other_servers:
        yield f"the discipline's own servers: {', '.join(session.other_servers)}"
    yield f"start it: {start_command(session.mcp_config)}"


def start_command(mcp_config: Path) -> str:
    """Return what a person types to start Claude Code in a session."""
    return shlex.join((CLAUDE, "--strict-mcp-config", "--mcp-config", str(mcp_config)))


def _kit_facts(served: Served) -> dict[str, object]:
    tools = [{"name": tool["name"], "bytes": listed_bytes([tool]) - 2} for tool in served.tools]
    return {
        "tools": tools,
        "bytes": listed_bytes(list(served.tools)),
        "instructions": served.instructions,
        "prompt": served.prompt,
        "command": list(served.command),
    }
