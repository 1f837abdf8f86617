"""The ways in which a server says no, and how a name fits on their line."""


class ToolError(Exception):
    """A failure that the agent can repair: its text says what is wrong and what to do next."""


class NotThereError(ToolError):
    """There is nothing of the URI, the cursor or the name that a client asked for."""


class StartError(Exception):
    """The server must not start: one line for stderr that names the mend (exit code 2)."""


def one_line(text: str) -> str:
    """The text with everything that could break or colour its line spelled as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
