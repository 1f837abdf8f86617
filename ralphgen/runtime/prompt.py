"""A prompt of a kit, which a client shows to its user."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


class Prompt:
    """One prompt of a server.

    `arguments` maps the name of each argument to its description; all are optional. `text` takes
    the workspace and the given arguments, all of them strings, and returns the text for the agent.
    It raises `ToolError` for an invalid argument.
    """

    __slots__ = ("arguments", "description", "name", "text")

    def __init__(
        self,
        name: str,
        description: str,
        *,
        arguments: Mapping[str, str],
        text: Callable[[Any, Mapping[str, str]], str],
    ) -> None:
        self.name = name
        self.description = description
        self.arguments = arguments
        self.text = text

    def entry(self) -> dict[str, Any]:
        """Return the prompt as `prompts/list` shows it."""
        arguments: Sequence[dict[str, Any]] = [
            {"name": name, "description": description, "required": False}
            for name, description in self.arguments.items()
        ]
        return {"name": self.name, "description": self.description, "arguments": arguments}
