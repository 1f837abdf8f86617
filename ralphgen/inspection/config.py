"""The project's own settings: `.ralph/ralphgen.toml`."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.errors import Problem, ProjectError
from ralphgen.inspection.toml import read_toml
from ralphgen.runtime.nearest import nearest

FILE = ".ralph/ralphgen.toml"
Name = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DisciplineSettings(_Strict):
    """`[disciplines.<name>]`: what a discipline takes away from every recipe."""

    disable: list[Name] = []


class SchemaSettings(_Strict):
    """`[schema]`: columns, as `table.column`, that the server must not know."""

    hide: list[Name] = []


class Config(_Strict):
    """Every key is optional; a missing file is an empty one."""

    kits: list[Name] = ["ralph"]
    structured_output: bool = False
    disciplines: dict[str, DisciplineSettings] = {}
    db_schema: SchemaSettings = Field(default=SchemaSettings(), alias="schema")


def read_config(root: Path, kits: tuple[str, ...]) -> Config:
    """The settings of the project in `root`; `kits` are the names that ralphgen knows.

    Raises `ProjectError` with every problem and its line.
    """
    path = root / FILE
    if not path.exists():
        return Config()
    config = read_toml(path, Config, FILE)
    unknown = [kit for kit in config.kits if kit not in kits]
    if unknown:
        raise ProjectError.of([_unknown_kit(kit, kits) for kit in unknown])
    return config


def _unknown_kit(kit: str, kits: tuple[str, ...]) -> Problem:
    near = nearest(kit, kits)
    hint = f'did you mean "{near}"?' if near else f"the kits are {', '.join(kits)}"
    return Problem(f'{FILE}: "kits" names "{kit}", which is no kit', hint)
