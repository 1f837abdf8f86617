"""Failures of requests and sessions that a usual start does not raise."""

from __future__ import annotations

from .errors import StartError, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CodedError(ToolError):
    """A failure with a kit-specific code, and facts about it as a JSON object.

    The kit's `refusals` determines how both are answered.
    """

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


class AskError(ToolError):
    """The call needs the user's answer to `question`; it is repeated with that answer.

    The text is the refusal if the user cannot be asked; it is empty if the call continues without.
    """

    def __init__(self, refusal: str, question: Any) -> None:
        super().__init__(refusal)
        self.question = question


class NotThereError(ToolError):
    """There is nothing of the URI, the cursor or the name that a client asked for."""


class ContextError(StartError):
    """The subject of a session is not in this project: only another session can start."""
