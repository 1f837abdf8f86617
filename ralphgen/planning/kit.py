"""What a kit brings: how it looks at a project and which tools it plans."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.model import Project
from ralphgen.planning.model import KitPlan, Names


@dataclass(frozen=True, slots=True)
class Kit:
    """One of the systems that ralphgen emits a server for.

    `key` is its name in the config, in `.ralph/mcp/` and on the server's command line; `catalog`
    holds the name of every tool that it can have. `plan` makes the kit's decisions from the facts
    alone.

    `settings` is the model of the config's table of the same name as the kit. `survey` takes the
    project's folder and the settings, reads what the kit needs of the project's files and returns
    it as a value of JSON; it raises `ProjectError` for what it cannot use. `setup` holds the files,
    by path below the project's folder, that `init --kit` lays down where there are none.
    """

    key: str
    catalog: Names
    plan: Callable[[Project], KitPlan]
    settings: type[BaseModel] | None = None
    survey: Callable[[Path, Mapping[str, Any]], object] | None = None
    setup: Mapping[str, str] = field(default_factory=dict)
