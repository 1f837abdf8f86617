"""The two ways in which a server says no."""


class ToolError(Exception):
    """A failure that the agent can repair: its text says what is wrong and what to do next."""


class StartError(Exception):
    """The server must not start: one line for stderr that names the mend (exit code 2)."""
