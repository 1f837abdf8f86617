"""What a kit brings: how it looks at a project and which tools it plans."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.model import Project
from ralphgen.planning.model import KitPlan, Names


@dataclass(frozen=True, slots=True)
class Kit:
    """One of the systems that ralphgen emits a server for.

    `key` is its name in the config, in `.ralph/mcp/` and on the server's command line; `catalog`
    holds the name of every tool that it can have.
    `survey` reads what the kit needs of the project's files and returns it as JSON text, "" for
    nothing; it raises `ProjectError` for what it cannot use. `plan` makes the kit's decisions from
    the facts alone.
    """

    key: str
    catalog: Names
    survey: Callable[[Path], str]
    plan: Callable[[Project], KitPlan]
