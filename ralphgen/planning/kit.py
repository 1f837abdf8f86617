"""What a kit brings: how it looks at a project and which tools it plans."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

from ralphgen.planning.model import KitPlan, Names, ToolPlan
from ralphgen.project.kit import Finding
from ralphgen.project.model import Project


def _relative(path: str) -> str:
    """Return a place below the project's folder, so that a config serves wherever that lies."""
    if path.startswith(("/", "\\", "~")) or "\0" in path or path[1:2] == ":":
        raise ValueError("a path relative to the project's folder")
    return path


RelativePath = Annotated[str, AfterValidator(_relative)]
"""The setting of a kit that names a folder of the project."""


@dataclass(frozen=True, slots=True)
class Kit:
    """One of the systems that ralphgen emits a server for.

    `key` is its name in the config, in `.ralph/mcp/` and on the server's command line; `tools` are
    all that it can have. `plan` makes the kit's decisions for a project from the facts alone.

    `settings` is the model of the config's table of the same name as the kit. `survey` takes the
    project's folder and the settings, reads what the kit needs of the project's files and returns
    it as a value of JSON; it raises `ProjectError` for what it cannot use. `find` takes the same
    and says what there would be to serve, which the server itself finds when it is asked. `setup`
    holds the files, by path below the project's folder, that `init --kit` writes where there are
    none.
    """

    key: str
    tools: tuple[ToolPlan, ...]
    plan: Callable[[Project], KitPlan]
    settings: type[BaseModel] | None = None
    survey: Callable[[Path, Mapping[str, Any]], object] | None = None
    find: Callable[[Path, Mapping[str, Any]], Finding] | None = None
    setup: Mapping[str, str] = field(default_factory=dict)

    @property
    def catalog(self) -> Names:
        """The names of all the tools that it can have."""
        return tuple(tool.name for tool in self.tools)
