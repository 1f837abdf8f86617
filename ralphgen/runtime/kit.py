"""What a kit is: one MCP server with its name, its tools and the workspace they run in."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from .session import Session
    from .tool import Tool

    class Workspace(Protocol):
        """What the tools of a kit share while the server lives."""

        def close(self) -> None:
            """Let go of everything; called on every way in which the server ends."""


class Kit:
    """One server.

    `server_name` is what it calls itself in the protocol. `open_workspace` takes the folder of
    the emitted server and the session, and raises `StartError` when the server must not start.
    `instructions` takes the session and the tools that it leaves visible. `refusals` says how
    wrong arguments are answered: as a `"result"` that the agent reads, or as an `"error"` of the
    protocol.
    """

    __slots__ = ("instructions", "open_workspace", "refusals", "server_name", "tools")

    def __init__(
        self,
        server_name: str,
        *,
        tools: Sequence[Tool],
        open_workspace: Callable[[str, Session], Any],
        instructions: Callable[[Session, Sequence[Tool]], str],
        refusals: str = "result",
    ) -> None:
        self.server_name = server_name
        self.tools = tools
        self.open_workspace = open_workspace
        self.instructions = instructions
        self.refusals = refusals
