"""The ways in which a server says no, and how a name fits on their line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class ToolError(Exception):
    """A failure that the agent can repair: its text says what is wrong and what to do next."""


class CodedError(ToolError):
    """A failure with a code of the kit's own, and facts about it as a JSON object.

    What a kit makes of them is its `refusals`.
    """

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


class NotThereError(ToolError):
    """There is nothing of the URI, the cursor or the name that a client asked for."""


class RefusedError(Exception):
    """An answer that is an error of the protocol: `code`, `message` and, for some, `data`."""

    def __init__(
        self, code: int, message: str, data: Mapping[str, Any] | str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class DeferToSdkError(Exception):
    """A call would wait for others longer than it may now; nothing was done for it."""


class StartError(Exception):
    """The server must not start: one line for stderr that names the fix (exit code 2)."""


def one_line(text: str) -> str:
    """Return the text with everything that could break or colour its line spelled as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
