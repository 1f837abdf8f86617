"""What a kit is: one MCP server with its name, its tools and the workspace they run in."""

from __future__ import annotations

from .tool import instruction_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from .prompt import Prompt
    from .session import Session
    from .tool import Tool

    class Workspace(Protocol):
        """What the tools of a kit share while the server lives."""

        def close(self) -> None:
            """Let go of everything; called on every way in which the server ends."""

        def fast_path_deadline(self, seconds: float | None) -> None:
            """From now on, raise `DeferToSdkError` where a call would wait for others any longer.

            None takes that back: a call waits as long as the kit sees fit.
            """

    class Resources(Protocol):
        """What a kit lets clients read besides its tools; `Any` is the kit's workspace.

        Every method raises `NotThereError` for what is not there, `ToolError` for what it cannot
        do now.
        """

        @property
        def templates(self) -> Sequence[Mapping[str, str]]:
            """The entries of `resources/templates/list`."""

        def listed(self, workspace: Any, cursor: str | None) -> tuple[list[dict[str, str]], str]:
            """A page of `resources/list`, and the cursor of the next one, empty at the end."""

        def read(self, workspace: Any, uri: str) -> tuple[str, str]:
            """Return the media type and the text of a resource."""

        def completed(
            self, workspace: Any, template: str | None, argument: str, value: str
        ) -> list[str]:
            """Return the values that begin like `value`, for a variable of a template.

            Where `template` is None, it is for an argument of a prompt.
            """

        def watched(self, folder: str, workspace: Any) -> Any:
            """Return a workspace of its own, for another thread, that sees what all others write.

            `folder` is the emitted server's; closing `workspace` closes this one too.
            """

        def moved(self, workspace: Any) -> object:
            """Return a value that differs after any write that could change a resource; cheap."""


NOTHING: Mapping[str, Any] = {}


class Kit:
    """One server.

    `server_name` is what it calls itself in the protocol. `open_workspace` takes the folder of
    the emitted server and the session, and raises `StartError` when the server must not start.
    `instructions` takes the session and the tools that it leaves visible, and so does `prompts`.
    `services` are what other kits may ask of it, each a function of (workspace, arguments) like
    that of a tool. `refusals` says how wrong arguments are answered: as a `"result"` that the agent
    reads, or as an `"error"` of the protocol; with `"object"` every failure is a result that holds
    a JSON object, with the code and the facts of a `CodedError`.
    """

    __slots__ = (
        "instructions",
        "open_workspace",
        "prompts",
        "refusals",
        "resources",
        "server_name",
        "services",
        "tools",
    )

    def __init__(
        self,
        server_name: str,
        *,
        tools: Sequence[Tool],
        open_workspace: Callable[[str, Session], Any],
        instructions: Callable[[Session, Sequence[Tool]], str],
        prompts: Callable[[Session, Sequence[Tool]], Sequence[Prompt]] | None = None,
        resources: Resources | None = None,
        services: Mapping[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = NOTHING,
        refusals: str = "result",
    ) -> None:
        self.server_name = server_name
        self.tools = tools
        self.open_workspace = open_workspace
        self.instructions = instructions
        self.prompts = prompts
        self.resources = resources
        self.services = services
        self.refusals = refusals


def standard_instructions(about: str) -> Callable[[Session, Sequence[Tool]], str]:
    """Return the `instructions` of a kit: what it is about, then what its visible tools say."""

    def instructions(_session: Session, tools: Sequence[Tool]) -> str:
        if not tools:
            return f"{about} This session has no tools here."
        return "\n".join([about, *instruction_lines(tools)])

    return instructions
