"""Everything that decides what is emitted, read from a project's folder."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.config import Config, kit_settings, no_config, read_config
from ralphgen.project.database import open_without_trace
from ralphgen.project.disciplines import (
    configured_removals,
    stored_removal,
    stored_removals,
    unknown_disciplines,
)
from ralphgen.project.kit import Finding, InspectedKit
from ralphgen.project.model import Project, Recipe, Removal, Schema
from ralphgen.project.recipes import read_recipes
from ralphgen.project.root import is_missing
from ralphgen.project.schema import Facts, missing_required_columns, schema_from_facts, table_names
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.sqlite.schema import read_tables

DATABASE = ".ralph/db/ralph.db"
FACTS = ".ralph/mcp/project.json"
NO_DATABASE = f"there is no {DATABASE} here: its facts are taken from {FACTS}"


def inspect_project(root: Path, kits: Sequence[InspectedKit]) -> Project:
    """Return the facts of the project in `root`; `kits` are all that ralphgen has.

    Where the database is not there (a fresh clone), its facts come from the committed
    `project.json`, and a warning says so. Raises `ProjectError` with everything that cannot be
    used, in the config, the recipes and the database.
    """
    problems: list[Problem] = []
    config, facts = no_config(), None
    recipes: tuple[Recipe, ...] = ()
    with _collected(problems):
        config = read_config(root, tuple(kit.key for kit in kits), settings_models(kits))
    on = [kit for kit in kits if kit.key in config.values.kits]
    settings = {kit.key: kit_settings(config.values, kit.key) for kit in on}
    surveys: list[tuple[str, str]] = []
    with _collected(problems):
        recipes = read_recipes(root)
    with _collected(problems):
        facts = _database_facts(root, config)
    for kit in on:
        with _collected(problems):
            if kit.survey is not None:
                surveys.append((kit.key, _json(kit.survey(root, settings[kit.key]))))
    if facts is None or problems:
        raise ProjectError.of(problems)
    schema, stored, warnings = facts
    return Project(
        kits=tuple(kit.key for kit in on),
        structured_output=config.values.structured_output,
        schema=schema,
        stored_removals=stored,
        configured_removals=configured_removals(config),
        recipes=recipes,
        settings=tuple((key, _json(values)) for key, values in settings.items() if values),
        surveys=tuple(surveys),
        warnings=tuple(warnings),
    )


def read_schema(connection: sqlite3.Connection, root: Path, kits: Sequence[InspectedKit]) -> Schema:
    """Return the schema of a project's database, whatever else is wrong with the project.

    Raises `ProjectError` where the config, which hides columns, or the schema cannot be used.
    """
    config = read_config(root, tuple(kit.key for kit in kits), settings_models(kits))
    connection.text_factory = _lenient
    return _served_schema(connection, config)


def found_by_kits(root: Path, project: Project, kits: Sequence[InspectedKit]) -> dict[str, Finding]:
    """Return, by kit, whether on or off, what it would have to serve in the project in `root`."""
    return {
        kit.key: kit.find(root, _settings(project, kit)) for kit in kits if kit.find is not None
    }


def _settings(project: Project, kit: InspectedKit) -> dict[str, Any]:
    """Return the settings of a kit; its own defaults where it is off."""
    known = dict(project.settings).get(kit.key)
    if known is not None:
        values: dict[str, Any] = json.loads(known)
        return values
    return kit.settings().model_dump(mode="json") if kit.settings is not None else {}


def settings_models(kits: Sequence[InspectedKit]) -> dict[str, type[BaseModel]]:
    """Return the models of the config's tables that are named after a kit."""
    return {kit.key: kit.settings for kit in kits if kit.settings is not None}


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@contextmanager
def _collected(problems: list[Problem]) -> Iterator[None]:
    """Collect the problems of what is tried inside, so that all of them are shown together."""
    try:
        yield
    except ProjectError as error:
        problems.extend(error.problems)


def _database_facts(
    root: Path, config: TomlFile[Config]
) -> tuple[Schema, tuple[Removal, ...], list[str]]:
    if is_missing(root / DATABASE) and not is_missing(root / FACTS):
        return (*_committed_facts(root, config), [NO_DATABASE])
    with open_without_trace(root / DATABASE) as connection:
        connection.text_factory = _lenient
        schema = _served_schema(connection, config)
        warnings = unknown_disciplines(connection, config)
        return schema, stored_removals(connection, schema), warnings


def _served_schema(connection: sqlite3.Connection, config: TomlFile[Config]) -> Schema:
    schema = _schema(read_tables(connection), config)
    _refuse_incomplete(connection, schema)
    return schema


def _lenient(text: bytes) -> str:
    """Return stored text with U+FFFD for bytes that are no UTF-8, which end no inspection."""
    return text.decode(errors="replace")


def _schema(tables: Facts, config: TomlFile[Config]) -> Schema:
    """Return the schema without what the config hides; its problems name the line of the config."""
    try:
        return schema_from_facts(tables, config.values.db_schema.hide)
    except ProjectError as error:
        where = config.place("schema", "hide")
        placed = [Problem(f"{where}: {problem.text}", problem.hint) for problem in error.problems]
        raise ProjectError.of(placed) from error


def _refuse_incomplete(connection: sqlite3.Connection, schema: Schema) -> None:
    """Raise `ProjectError`, naming what is missing, for a schema that cannot be served."""
    missing = missing_required_columns(schema, table_names(connection))
    if missing:
        raise ProjectError(
            f"{DATABASE} is not a schema that ralphgen can serve: {'; '.join(missing)}",
            "a server needs tasks(id, feature, discipline, title, status), features(name) and "
            "disciplines(name)",
        )


def _committed_facts(root: Path, config: TomlFile[Config]) -> tuple[Schema, tuple[Removal, ...]]:
    try:
        facts = json.loads((root / FACTS).read_text(encoding="utf-8"))
        schema = _schema(facts["schema"], config)
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
