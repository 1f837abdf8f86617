"""The servers of a session for clients that do not take its `mcp.json` as it is.

`${NAME}` and `${NAME:-default}` in the entries of a discipline's servers are replaced, as Claude
Code does it. Values that may be secret stand on no command line.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.sessions.model import PreparedSession

Entry = Mapping[str, Any]

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def session_servers(session: PreparedSession) -> dict[str, Entry]:
    """Return the entries of the session's MCP config, by name."""
    found: dict[str, Entry] = json.loads(session.mcp_config.read_bytes())["mcpServers"]
    return found


def start_command(session: PreparedSession, name: str) -> list[str]:
    """Return what starts a server of the session, with the variables of its entry."""
    return [sys.executable, "-I", "-m", __name__, str(session.mcp_config), name]


def filled(text: str) -> str:
    """Return the text with our variables in it; one that is not set and has no default stays."""

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        return os.environ.get(name, found[0] if default is None else default)

    return _VARIABLE.sub(value, text)


def main(path: str, name: str) -> None:
    """Become the server of this name in an MCP config."""
    entry = json.loads(Path(path).read_bytes())["mcpServers"][name]
    words = [filled(word) for word in (entry["command"], *entry.get("args", []))]
    variables = {key: filled(value) for key, value in entry.get("env", {}).items()}
    os.execvpe(words[0], words, {**os.environ, **variables})


if __name__ == "__main__":
    main(*sys.argv[1:])
