"""MCP servers of disciplines, some with secrets."""

import json
from pathlib import Path
from typing import Any

from driving import create_project, made_here, query

PRIVATE = "s3cr3t"
DOCS = {"name": "docs", "command": "docs-server", "args": ["--port", "1"], "env": {"KEY": PRIVATE}}
BARE = {"name": "Bare_2-x", "command": "/opt/my tools/run"}
CONFIG = f"""
[disciplines.backend.mcp_servers.search]
command = "find it"
args = ["", "a b", "ü"]
env = {{TOKEN = "{PRIVATE}", EMPTY = ""}}

[disciplines.frontend.mcp_servers.design]
command = "design"
"""


def stored(root: Path, discipline: str, value: object) -> None:
    """Put a value into the column: text unchanged, anything else as JSON."""
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = ?", text, discipline)


def servers_project(root: Path) -> Path:
    """A project whose disciplines have servers, in the column and in the settings."""
    create_project(root, config=CONFIG)
    stored(root, "backend", [DOCS, BARE])
    return made_here(root)


def servers(config: Path) -> dict[str, Any]:
    """All servers of an MCP config, which must hold nothing else."""
    ((key, entries),) = json.loads(config.read_bytes()).items()
    assert "mcpServers" == key
    assert isinstance(entries, dict)
    return entries


REMOTE = {
    "name": "tickets",
    "type": "http",
    "url": f"https://me:{PRIVATE}@tickets.example:8443/mcp?key={PRIVATE}",
    "headers": {"Authorization": f"Bearer {PRIVATE}"},
}
EVENTS = {"name": "events", "type": "sse", "url": "http://localhost:1/sse"}
REMOTE_CONFIG = f"""
[disciplines.backend.mcp_servers.wiki]
type = "http"
url = "https://wiki.example/mcp#{PRIVATE}"
headers = {{X-Key = "{PRIVATE}", X-Other = "${{TOKEN}}"}}
"""
