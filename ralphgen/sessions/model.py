"""What a session is for the commands that make, show and start one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

Names = tuple[str, ...]

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
