"""Sessions of kits whose answers are texts."""

from typing import Any


class TextAnswers:
    """Requests of a session to a kit whose answers are texts."""

    def ask(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether a call failed, and its text."""
        raise NotImplementedError

    def says(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that must be no failure."""
        failed, text = self.ask(tool, **arguments)
        assert not failed, text
        return text

    def refuses(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that must be a failure."""
        failed, text = self.ask(tool, **arguments)
        assert failed, text
        return text
