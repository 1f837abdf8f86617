"""Prepares the named queries of a project on the database that it has, or on what is recorded."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.project.config import Config
from ralphgen.project.model import Queries, Schema
from ralphgen.project.queries.files import NamedSql, read_queries
from ralphgen.project.toml import TomlFile

if TYPE_CHECKING:
    from ralphgen.project.database import Snapshot

TAKEN = ("seconds", "rows")


def prepared_queries(
    root: Path,
    config: TomlFile[Config],
    schema: Schema,
    connection: "Snapshot | None",
    recorded: Mapping[str, Any],
) -> Queries | None:
    """Return the named queries of the project in `root`, or None if it has no queries.

    `connection` is to its database. If it is None, `recorded` (the member "queries" of
    `project.json`) describes the tables. Raises `ProjectError` with every problem, each with its
    file and line.
    """
    place = config.values.database.place
    found = read_queries(root, sqlite=place is None)
    problems = [*_setting_problems(config, found)]
    if problems:
        raise ProjectError.of(problems)
    if not found:
        return None

    def hidden(table: str, column: str) -> bool:
        return schema.hidden(table, column)

    opened = None if connection is None else connection.connection
    engine = import_module(f"{__package__}.prepare_{config.values.database.engine}")
    done = engine.prepare(found, opened, recorded, hidden, place)
    settings = config.values.queries
    return Queries(
        done.queries,
        json.dumps(done.facts),
        json.dumps(settings.model_dump(mode="json"), sort_keys=True),
    )


def _setting_problems(config: TomlFile[Config], found: tuple[NamedSql, ...]) -> list[Problem]:
    """Return the problems of the settings for single queries, and of their names."""
    queries = {query.name: query for query in found}
    problems = [
        Problem(
            f'{query.place}: "{name}" is a key of [queries] and cannot name a query', "rename it"
        )
        for name, query in queries.items()
        if name in TAKEN
    ]
    for name, said in config.values.queries.by_name.items():
        if name not in queries:
            text = f'{config.place("queries", name)}: there is no query "{name}"'
            problems.append(Problem(text, suggestion(name, queries, "the query files")))
            continue
        parameters = [token.text[1:] for token in queries[name].used]
        for parameter in said.bind:
            if parameter not in parameters:
                where = config.place("queries", name, "bind")
                text = f'{where}: query "{name}" has no parameter ":{parameter}"'
                problems.append(Problem(text, suggestion(parameter, parameters, "its parameters")))
    return problems
