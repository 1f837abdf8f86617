"""Everything that decides what is emitted, read from a project's folder."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.inspection.config import Config, read_config
from ralphgen.inspection.database import open_without_trace
from ralphgen.inspection.disciplines import (
    configured_removals,
    stored_removal,
    stored_removals,
    unknown_disciplines,
)
from ralphgen.inspection.recipes import read_recipes
from ralphgen.inspection.schema import missing_heart, schema_from_facts
from ralphgen.kits.kit import Kit
from ralphgen.model import Project, Removal, Schema
from ralphgen.runtime.schema import read_tables

DATABASE = ".ralph/db/ralph.db"
FACTS = ".ralph/mcp/project.json"
NO_DATABASE = f"there is no {DATABASE} here: its facts are taken from {FACTS}"


def inspect_project(root: Path, kits: Sequence[Kit]) -> Project:
    """The facts of the project in `root`; `kits` are all that ralphgen has.

    Where the database is not there (a fresh clone), its facts come from the committed
    `project.json`, and a warning says so. Raises `ProjectError` for what cannot be used.
    """
    config = read_config(root, tuple(kit.key for kit in kits))
    schema, stored, warnings = _database_facts(root, config)
    return Project(
        kits=tuple(kit.key for kit in kits if kit.key in config.kits),
        structured_output=config.structured_output,
        schema=schema,
        stored_removals=stored,
        configured_removals=configured_removals(config),
        recipes=read_recipes(root),
        surveys=tuple((kit.key, kit.survey(root)) for kit in kits if kit.key in config.kits),
        warnings=tuple(warnings),
    )


def _database_facts(root: Path, config: Config) -> tuple[Schema, tuple[Removal, ...], list[str]]:
    hide = tuple(config.db_schema.hide)
    if not (root / DATABASE).exists() and (root / FACTS).is_file():
        return (*_baked_facts(root, hide), [NO_DATABASE])
    with open_without_trace(root / DATABASE) as connection:
        schema = schema_from_facts(read_tables(connection), hide)
        _refuse_without_heart(connection, schema)
        warnings = unknown_disciplines(connection, config)
        return schema, stored_removals(connection, schema), warnings


def _refuse_without_heart(connection: sqlite3.Connection, schema: Schema) -> None:
    """Raise `ProjectError`, naming what is missing, for a schema that cannot be served."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    missing = missing_heart(schema, [name for (name,) in names])
    if missing:
        raise ProjectError(
            f"{DATABASE} is not a schema that ralphgen can serve: {'; '.join(missing)}",
            "a server needs tasks(id, feature, discipline, title, status), features(name) and "
            "disciplines(name)",
        )


def _baked_facts(root: Path, hide: tuple[str, ...]) -> tuple[Schema, tuple[Removal, ...]]:
    try:
        facts = json.loads((root / FACTS).read_text(encoding="utf-8"))
        schema = schema_from_facts(facts["schema"], hide)
        removals = tuple(
            stored_removal(name, tuple(names))
            for name, names in sorted(facts["disciplines"].items())
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProjectError(
            f"{FACTS} cannot be read ({error}), and there is no {DATABASE}",
            'run "ralphgen regen" where the database is',
        ) from error
    return schema, removals
