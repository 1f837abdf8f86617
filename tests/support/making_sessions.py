"""Sessions as `ralphgen session` makes them: its answers, and clients on what it wrote."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from command_line import ralphgen
from driving import Driver, Era, context_for, on_context, quiet, server_command
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from ralphgen.sessions.create import create_session
from ralphgen.sessions.model import PreparedSession, Request


def made(root: Path, recipe: str, *options: str) -> dict[str, Any]:
    """What `ralphgen session … --json` says."""
    done = ralphgen("session", recipe, *options, "--json", "--project", root)
    assert 0 == done.returncode, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def opened(root: Path, recipe: str, **request: Any) -> PreparedSession:
    """The same without a process of its own."""
    return create_session(root, Request(recipe, **request), say=quiet)


def described(command: Sequence[str]) -> dict[str, Any]:
    """What the session sees that a server's command line starts."""
    done = subprocess.run(
        [*command, "--describe"], input="", capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def seen(root: Path, recipe: str, **facts: object) -> dict[str, Any]:
    """What a session of the recipe sees; `facts` replace keys of its context."""
    context = context_for(root, recipe, **facts)
    return described(server_command(root, "ralph", *on_context(context)))


@contextmanager
def client_of(mcp_config: str | Path, kit: str = "ralph", *, era: Era = "auto") -> Iterator[Driver]:
    """The SDK's client on a server of an MCP config, started as the config says."""
    entry = json.loads(Path(mcp_config).read_text(encoding="utf-8"))["mcpServers"][kit]
    assert {"command", "args"} == set(entry)
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], cwd="/")
    with start_blocking_portal() as portal:
        session = Client(stdio_client(parameters), mode=era)
        with portal.wrap_async_context_manager(session) as client:
            yield Driver(client, portal)
