"""A tool of the project's own, as its file and the settings describe it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTool:
    """A tool of the project's own: a function in a file of `.ralph/tools/`.

    `file` is the name there, `sha256` that of its bytes. `parameters` are name, JSON Schema as
    JSON text and whether it must be given; `about` what is said of some. `returns` is the schema of
    the answer as JSON text, `hints` what it declares to clients, and `decorated` whether it says so
    itself. `origin` is file and line, for messages. The config says the rest, at `place`: the
    `recipes` that have it, whether it is `interactive`, for how many `seconds` it may run, and by
    argument the kind of row that is the session's own.
    """

    name: str
    file: str
    sha256: str
    sentence: str
    parameters: tuple[tuple[str, str, bool], ...]
    about: tuple[tuple[str, str], ...]
    returns: str
    hints: str
    decorated: bool
    origin: str
    place: str = ""
    recipes: tuple[str, ...] = ()
    interactive: bool = True
    seconds: int = 20
    bind: tuple[tuple[str, str], ...] = ()


def own_tool_facts(tools: tuple[OwnTool, ...]) -> dict[str, dict[str, Any]]:
    """Return the tools as values of JSON."""
    return {
        tool.name: {"file": tool.file, "hints": tool.hints, "sha256": tool.sha256} for tool in tools
    }
