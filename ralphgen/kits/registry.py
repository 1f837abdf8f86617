"""The kits of ralphgen, in the order of their emission."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ralphgen.kits.acm import ACM
from ralphgen.kits.dela import DELA
from ralphgen.kits.ralph import RALPH
from ralphgen.kits.rye import RYE
from ralphgen.kits.specum import SPECUM
from ralphgen.kits.tables import TABLES_KIT, command_to_add, find_tables, plan_tables, table_uses
from ralphgen.planning.access import query_uses
from ralphgen.planning.additions import plan_own_tools, plan_queries
from ralphgen.planning.server import KitDefinition
from ralphgen.project.config import Config, read_config
from ralphgen.project.inspect import settings_models
from ralphgen.project.model import Finding
from ralphgen.project.toml import TomlFile

# Additions of a project to the server of its rows, in the order of their emission.
ADDITIONS = (plan_tables, plan_queries, plan_own_tools)
# Functions that return how additions use tables, for the logins of sessions.
USES = (table_uses, query_uses)


def _tables_of(kit: KitDefinition) -> Callable[[Path, Mapping[str, Any]], Finding]:
    """Return what finds the tables that the server of a kit could have tools on."""
    return lambda root, _settings: find_tables(root, kit.key)


KITS: tuple[KitDefinition, ...] = (
    replace(RALPH, additions=ADDITIONS, find=_tables_of(RALPH)),
    DELA,
    SPECUM,
    ACM,
    RYE,
    replace(TABLES_KIT, additions=ADDITIONS, find=_tables_of(TABLES_KIT)),
)
HOSTS = tuple(kit.key for kit in KITS if kit.additions)
"""The kits with row tools; a project can enable at most one of them."""


def any_database(kits: Iterable[str]) -> bool:
    """Return whether kits serve the tables of any database, and need none of ralphgen's."""
    on = set(kits)
    return any(kit.any_schema for kit in KITS if kit.key in on)


def hint_without_tools(root: Path) -> str:
    """Return the hint for a server without tools; it names a table of the database, if possible."""
    return f'add tools with "{command_to_add(root)}"'


def project_config(root: Path) -> TomlFile[Config]:
    """Return the settings of the project in `root`; raise `ProjectError` for invalid ones."""
    return read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS))


def read_settings(root: Path) -> Config:
    """Return the values of the settings of a project, as `project_config`."""
    return project_config(root).values
