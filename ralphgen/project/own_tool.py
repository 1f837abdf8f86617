"""A tool of the project's own: what its file says of it, and what the config says."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.project.config_values import Name


class OwnToolSettings(BaseModel):
    """`[own_tools.NAME]`: recipes that have the tool besides the ones that everything is in.

    A tool that only reads is in `interactive`, unless that is false; `manual` has them all. It may
    run for so many `seconds`. `bind` names, by argument, the kind of row that is the session's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    recipes: list[Name] = []
    interactive: bool = True
    seconds: Annotated[int, Field(ge=1, le=3_600)] = 20
    bind: dict[Name, Literal["task", "feature", "discipline"]] = {}


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
