"""The project's own settings: `.ralph/ralphgen.toml`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from ralphgen.errors import Problem, ProjectError
from ralphgen.inspection.toml import TomlFile, read_toml
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


def read_config(
    root: Path, kits: tuple[str, ...], settings: Mapping[str, type[BaseModel]] | None = None
) -> TomlFile[Config]:
    """The settings of the project in `root`; `kits` are the names that ralphgen knows.

    `settings` holds the models of the tables that are named after a kit. Raises `ProjectError`
    with every problem and its line.
    """
    path = root / FILE
    model = _with_tables(settings or {})
    if not os.path.lexists(path):
        return TomlFile(model(), FILE)
    config = read_toml(path, model, FILE)
    problems = [
        Problem(
            f'{config.place("kits", at)}: "kits" names "{kit}", which is no kit', _hint(kit, kits)
        )
        for at, kit in enumerate(config.values.kits)
        if kit not in kits
    ]
    if not config.values.kits:
        problems = [Problem(f'{config.place("kits")}: "kits" is empty', _hint("", kits))]
    if problems:
        raise ProjectError.of(problems)
    return config


def no_config() -> TomlFile[Config]:
    """The settings of a project without a file of them."""
    return TomlFile(Config(), FILE)


def kit_settings(config: Config, kit: str) -> dict[str, Any]:
    """The values of a kit's own table, its defaults included; none for a kit without settings."""
    table = getattr(config, kit, None)
    return table.model_dump(mode="json") if isinstance(table, BaseModel) else {}


def _with_tables(settings: Mapping[str, type[BaseModel]]) -> type[Config]:
    """The model of a config that has a table for each of the kits."""
    tables: dict[str, Any] = {kit: (model, model()) for kit, model in settings.items()}
    return create_model("Config", __base__=Config, **tables) if tables else Config


def _hint(kit: str, kits: tuple[str, ...]) -> str:
    near = nearest(kit, kits)
    return f'did you mean "{near}"?' if near else f"the kits are {', '.join(kits)}"
