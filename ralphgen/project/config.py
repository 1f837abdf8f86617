"""The project's own settings: `.ralph/ralphgen.toml`."""

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.toml import TomlFile, read_toml
from ralphgen.suggestion import suggestion

FILE = ".ralph/ralphgen.toml"
SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what Claude Code's `mcp__<name>` may hold
Name = Annotated[str, Field(min_length=1)]
PermissionMode = Literal[
    "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class McpServer(_Strict):
    """An MCP server that a discipline brings along: a command that speaks over its streams."""

    command: Annotated[str, Field(pattern=r"\S")]
    args: list[str] = []
    env: dict[str, str] = {}


class NamedMcpServer(McpServer):
    """One as it stands in a discipline's column `mcp_servers`."""

    name: Name


class DisciplineSettings(_Strict):
    """`[disciplines.<name>]`: what a discipline takes away, and which servers it brings along."""

    disable: list[Name] = []
    mcp_servers: dict[str, McpServer] = {}


class LaunchConfig(_Strict):
    """`[launch]`: what Claude Code may do besides the session's own tools."""

    allow: list[Name] = []
    permission_mode: PermissionMode | None = None


class SchemaSettings(_Strict):
    """`[schema]`: columns, as `table.column`, that the server must not know."""

    hide: list[Name] = []


class Config(_Strict):
    """Every key is optional; a missing file is an empty one."""

    kits: list[Name] = ["ralph"]
    structured_output: bool = False
    disciplines: dict[str, DisciplineSettings] = {}
    launch: LaunchConfig = LaunchConfig()
    db_schema: SchemaSettings = Field(default=SchemaSettings(), alias="schema")


def read_config(
    root: Path, kits: tuple[str, ...], settings: Mapping[str, type[BaseModel]] | None = None
) -> TomlFile[Config]:
    """Return the settings of the project in `root`; `kits` are the names that ralphgen knows.

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
            f'{config.place("kits", at)}: "kits" names "{kit}", which is no kit',
            suggestion(kit, kits, "the kits"),
        )
        for at, kit in enumerate(config.values.kits)
        if kit not in kits
    ]
    for discipline, named in config.values.disciplines.items():
        for name in named.mcp_servers:
            if problem := server_name_problem(name, kits):
                where = config.place("disciplines", discipline, "mcp_servers", name)
                problems.append(Problem(f"{where}: {problem}", "rename it"))
    if not config.values.kits:
        problems = [
            Problem(f'{config.place("kits")}: "kits" is empty', suggestion("", kits, "the kits"))
        ]
    if problems:
        raise ProjectError.of(problems)
    return config


def server_name_problem(name: str, reserved: Collection[str]) -> str:
    """Return what is wrong with the name of an MCP server that a discipline brings along."""
    if name in reserved:
        return f'the MCP server "{name}" bears the name of one of the project\'s own'
    if not SERVER_NAME.fullmatch(name):
        return f"the MCP server {json.dumps(name)} needs a name of letters, digits, - and _"
    return ""


def no_config() -> TomlFile[Config]:
    """Return the settings of a project without a file of them."""
    return TomlFile(Config(), FILE)


def kit_settings(config: Config, kit: str) -> dict[str, Any]:
    """Return the values of a kit's own table with its defaults, empty where it has no settings."""
    table = getattr(config, kit, None)
    return table.model_dump(mode="json") if isinstance(table, BaseModel) else {}


def _with_tables(settings: Mapping[str, type[BaseModel]]) -> type[Config]:
    """Return the model of a config that has a table for each of the kits."""
    tables: dict[str, Any] = {kit: (model, model()) for kit, model in settings.items()}
    return create_model("Config", __base__=Config, **tables) if tables else Config
