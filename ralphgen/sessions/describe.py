"""Describes a session: all that a prompt builder needs as JSON, and a summary for people."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from ralphgen.planning.model import Names
from ralphgen.planning.preview import listed_bytes
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.model import CLAUDE, PreparedSession, Served


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
