"""What the database and the config hold of the disciplines' MCP servers and disabled tools."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ralphgen.errors import Problem, ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.project import disciplines
from ralphgen.project.config import (
    Config,
    DisciplineSettings,
    NamedMcpServer,
    no_config,
    read_config,
)
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE, settings_models
from ralphgen.project.model import Names
from ralphgen.project.toml import TomlFile
from ralphgen.sessions import discipline_servers

Home = Literal["database", "config"]

RESERVED = tuple(kit.key for kit in KITS)
"""Names that no server of a discipline may bear."""
OTHER: Mapping[Home, Home] = {"database": "config", "config": "database"}
COLUMNS = (discipline_servers.COLUMN, disciplines.COLUMN)
SHOWN = ("display_name", "color")
NAMES = "SELECT CAST(name AS BLOB) FROM disciplines WHERE typeof(name) = 'text' ORDER BY name"
VALUES = (
    "SELECT CAST(name AS BLOB), typeof(COLUMN), CAST(COLUMN AS BLOB) FROM disciplines "
    "WHERE typeof(name) = 'text' ORDER BY name"
)
TABLE = "SELECT name, hidden FROM pragma_table_xinfo('disciplines')"
GENERATED = (2, 3)
"""How SQLite marks columns that nobody can write."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value as the database holds it: its SQLite type and its bytes, in the file's encoding."""

    type: str
    data: bytes = field(repr=False)
    encoding: str

    @property
    def value(self) -> str | bytes | None:
        """Return the value as sessions read it; a number is what stands for it."""
        if self.type == "null":
            return None
        return self.data if self.type == "blob" else self.data.decode(self.encoding, "replace")


@dataclass(frozen=True, slots=True)
class Listed:
    """What one of the two places lists of a discipline; None where that cannot be read."""

    servers: tuple[NamedMcpServer, ...] | None = field(default=(), repr=False)
    disabled: Names | None = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A discipline of the database; `columns` has those of `COLUMNS` and `SHOWN` that there are."""

    name: str
    columns: Mapping[str, Stored]

    def listed(self) -> tuple[Listed, tuple[Problem, ...]]:
        """Return the servers and disabled tools of its columns, and why one cannot be read."""
        found: list[NamedMcpServer] | None = []
        problems: list[Problem] = []
        values = {column: stored.value for column, stored in self.columns.items()}
        try:
            text = values.get(discipline_servers.COLUMN)
            found = [server for _, server in discipline_servers.stored_servers(self.name, text)]
        except ProjectError as error:
            found = None
            problems += error.problems
        entries = disciplines.stored_entries(values.get(disciplines.COLUMN))
        if entries is None:
            problems.append(disciplines.unreadable_override(self.name))
        return Listed(None if found is None else tuple(found), entries), tuple(problems)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything at once: `rows` by name, and the config, empty where `problems` say why.

    `homes` says, by column, where an edit goes: into the column where it is there and can be
    written, else into the config. That the config hides a column from the server changes nothing:
    sessions heed it.
    """

    rows: Mapping[str, Row]
    homes: Mapping[str, Home]
    config: TomlFile[Config] = field(repr=False)
    problems: tuple[Problem, ...]

    def settings(self, discipline: str) -> DisciplineSettings:
        """Return the config's settings of a discipline."""
        return self.config.values.disciplines.get(discipline, DisciplineSettings())

    def configured(self, discipline: str) -> Listed:
        """Return the servers and disabled tools that the config lists."""
        settings = self.settings(discipline)
        named = (
            NamedMcpServer(name=name, command=one.command, args=one.args, env=one.env)
            for name, one in settings.mcp_servers.items()
        )
        return Listed(tuple(named), tuple(settings.disable))


def read_facts(root: Path, connection: sqlite3.Connection | None = None) -> Facts:
    """Return the facts of the project in `root`, by a connection that is open or without a trace.

    Raises `ProjectError` where the database cannot be read.
    """
    config, problems = no_config(), tuple[Problem, ...]()
    try:
        config = read_config(root, RESERVED, settings_models(KITS))
    except ProjectError as error:
        problems = error.problems
    try:
        if connection is not None:
            return _facts(connection, config, problems)
        with open_without_trace(root / DATABASE) as own:
            return _facts(own, config, problems)
    except sqlite3.Error as error:
        raise ProjectError(
            f"{DATABASE} cannot be read: {error}", 'run "ralphgen doctor"'
        ) from error


def _facts(
    connection: sqlite3.Connection, config: TomlFile[Config], problems: tuple[Problem, ...]
) -> Facts:
    ((encoding,),) = connection.execute("PRAGMA encoding").fetchall()
    there = dict(connection.execute(TABLE).fetchall())
    # A session looks for its servers under this very spelling, for overrides under any.
    lowered = {name.lower(): hidden for name, hidden in there.items()}
    found = {
        discipline_servers.COLUMN: there.get(discipline_servers.COLUMN),
        disciplines.COLUMN: lowered.get(disciplines.COLUMN),
        **{column: lowered.get(column) for column in SHOWN},
    }
    names = [name.decode(encoding, "replace") for (name,) in connection.execute(NAMES)]
    columns: dict[str, dict[str, Stored]] = {name: {} for name in names}
    for column, hidden in found.items():
        if hidden is None:
            continue
        for name, kind, data in connection.execute(VALUES.replace("COLUMN", column)):
            stored = Stored(kind, bytes(data or b""), encoding)
            columns.setdefault(name.decode(encoding, "replace"), {})[column] = stored
    homes: dict[str, Home] = {
        column: "config" if found[column] in {None, *GENERATED} else "database"
        for column in COLUMNS
    }
    return Facts({name: Row(name, columns[name]) for name in columns}, homes, config, problems)
