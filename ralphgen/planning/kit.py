"""What a kit brings: how it looks at a project and which tools it plans."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.planning.access import KitAccess
from ralphgen.planning.additions import Addition
from ralphgen.planning.model import KitPlan, Names, PolicyPlan, ToolPlan
from ralphgen.project.kit import Finding
from ralphgen.project.model import Project


@dataclass(frozen=True, slots=True)
class KitDefinition:
    """One of the systems that ralphgen emits a server for.

    `server` is what its server has for every project, with all the tools that it can have; its
    `key` is the kit's name in the config, in `.ralph/mcp/` and on the server's command line. `plan`
    returns it as one project gets it, from the facts alone.

    `settings` is the model of the config's table of the same name as the kit. `survey` takes the
    project's folder and the settings, reads what the kit needs of the project's files and returns
    it as a value of JSON; it raises `ProjectError` for what it cannot use. `find` takes the same
    and says what there would be to serve, which the server itself finds when it is asked. `setup`
    holds the files, by path below the project's folder, that `init --kit` writes where there are
    none. `access` returns what the database lets the sessions' own logins do with the kit's tables.
    `additions` plan what a project adds of its own to the server, where this kit is the first
    that is on and has any: each takes the project and the server as it is so far. With `any_schema`
    it serves any database, so that the project need not have tasks, features and disciplines.
    """

    server: KitPlan
    plan: Callable[[Project], KitPlan]
    settings: type[BaseModel] | None = None
    survey: Callable[[Path, Mapping[str, Any]], object] | None = None
    find: Callable[[Path, Mapping[str, Any]], Finding] | None = None
    setup: Mapping[str, str] = field(default_factory=dict)
    access: Callable[[Project, KitPlan, PolicyPlan], KitAccess] | None = None
    any_schema: bool = False
    additions: tuple[Callable[[Project, KitPlan], Addition], ...] = ()

    @property
    def key(self) -> str:
        """The kit's name."""
        return self.server.key

    @property
    def tools(self) -> tuple[ToolPlan, ...]:
        """All the tools that it can have."""
        return self.server.tools

    @property
    def catalog(self) -> Names:
        """The names of all the tools that it can have."""
        return tuple(tool.name for tool in self.tools)
