"""Everything that decides what is emitted, read from a project's folder."""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected
from ralphgen.project.config import Config, kit_settings, no_config, policy_rules, read_config
from ralphgen.project.database import (
    NoConnectionError,
    Snapshot,
    nearest_database,
    open_database,
    part_for,
)
from ralphgen.project.definitions import definitions_of, recorded_parts
from ralphgen.project.discipline_servers import unusable_servers
from ralphgen.project.disciplines import (
    configured_removals,
    stored_removal,
    stored_removals,
    unknown_disciplines,
)
from ralphgen.project.done import done_problems, done_rules, done_warnings, ledger_problem
from ralphgen.project.kit import Finding, InspectedKit
from ralphgen.project.model import (
    Names,
    OwnRecipe,
    Project,
    Queries,
    Removal,
    Replaced,
    Schema,
    ServedTable,
    table_facts,
)
from ralphgen.project.own_tools import NO_TOOLS, read_own_tools
from ralphgen.project.patterns import pattern_problems
from ralphgen.project.queries.files import is_secret
from ralphgen.project.queries.prepare import prepared_queries
from ralphgen.project.recipes import read_recipes
from ralphgen.project.root import (
    CONFIG,
    DATABASE,
    DATABASE_VARIABLE,
    DatabasePlace,
    OutsideDatabaseError,
    database_name,
    database_path,
    has_database,
    is_missing,
    place_name,
    project_home,
)
from ralphgen.project.schema import (
    REQUIRED_COLUMNS,
    Facts,
    missing_required_columns,
    relation_names,
    schema_from_facts,
    table_names,
)
from ralphgen.project.served_tables import hidden_columns, names_of, served_tables
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.engine.schema import fingerprint, fold, new_columns, only_served

_Tables = tuple[ServedTable, ...]
_DatabaseFacts = tuple[
    Schema, _Tables, Queries | None, tuple[Removal, ...], list[str], tuple[Problem, ...]
]

FACTS = ".ralph/mcp/project.json"


class MissingDatabaseError(ProjectError):
    """The file of the database does not exist."""


class IncompleteSchemaError(ProjectError):
    """The database lacks tables or columns that tasks need."""


def inspect_project(root: Path, kits: Sequence[InspectedKit]) -> Project:
    """Return the facts of the project in `root`; `kits` are all that ralphgen has.

    Where the database is not there (a fresh clone), its facts come from the committed
    `project.json`, if they are of the database that the config names, and a warning says so. Raises
    `ProjectError` with everything that cannot be used, in the config, the recipes and the database.
    """
    problems: list[Problem] = []
    config, is_read, facts = no_config(), False, None
    recipes: tuple[OwnRecipe, ...] = ()
    own_tools = NO_TOOLS
    with collected(problems):
        config = read_config(root, tuple(kit.key for kit in kits), settings_models(kits))
        is_read = True
        problems.extend((*done_problems(config), *pattern_problems(config)))
    on = [kit for kit in kits if kit.key in config.values.kits]
    settings = {kit.key: kit_settings(config.values, kit.key) for kit in on}
    with collected(problems):
        recipes = read_recipes(root)
    with collected(problems):
        own_tools = read_own_tools(root, config)
    unsure = () if is_read else (MissingDatabaseError, IncompleteSchemaError)
    with collected(problems), suppress(*unsure):  # the settings decide what is missing
        facts = _database_facts(root, config, kits)
    surveys = _surveys(root, on, settings, problems)
    if facts is not None:
        problems.extend(ledger_problem(config, facts[0]))
    if facts is None or problems:
        raise ProjectError.of(problems)
    schema, tables, queries, stored, warnings, unusable = facts
    return Project(
        kits=tuple(kit.key for kit in on),
        structured_output=config.values.structured_output,
        schema=schema,
        stored_removals=stored,
        configured_removals=configured_removals(config),
        recipes=recipes,
        rules=policy_rules(config.values.policy, config.place),
        replaced=_replaced(config),
        tables=tables,
        own_tools=own_tools,
        done=done_rules(config.values),
        queries=queries,
        database=config.values.database.path or "",
        place=config.values.database.place,
        http=_http_facts(config.values),
        variables=_variables(config.values),
        settings=tuple((key, _json(values)) for key, values in settings.items() if values),
        surveys=surveys,
        warnings=tuple(warnings),
        unusable_servers=unusable,
    )


def _surveys(
    root: Path,
    kits: Sequence[InspectedKit],
    settings: Mapping[str, Mapping[str, Any]],
    problems: list[Problem],
) -> tuple[tuple[str, str], ...]:
    """Return what kits find in the project's files, as JSON text by kit; add what is wrong."""
    surveys: list[tuple[str, str]] = []
    for kit in kits:
        with collected(problems):
            if kit.survey is not None:
                surveys.append((kit.key, _json(kit.survey(root, settings[kit.key]))))
    return tuple(surveys)


def read_schema(connection: Snapshot, root: Path, kits: Sequence[InspectedKit]) -> Schema:
    """Return the schema of a project's database, whatever else is wrong with the project.

    Raises `ProjectError` where the config, which hides columns, or the schema cannot be used.
    """
    config = read_config(root, tuple(kit.key for kit in kits), settings_models(kits))
    return _served_schema(connection, config, kits)


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


def without_new_columns(root: Path, project: Project) -> tuple[Project, Names]:
    """Return the project as its server was generated for it, and what is left out, as columns.

    These are new columns, as `"table.column"`, that a row may go without. Where anything else
    differs the project is returned as it is: its server refuses to start.
    """
    schema = project.schema
    found = table_facts(schema.tables)
    try:
        facts = json.loads((root / FACTS).read_text(encoding="utf-8"))
        built_for, definitions = facts["schema"], recorded_parts(facts)
        schema = replace(schema, definitions=definitions)  # no server depends on them
        new = new_columns(built_for, found, schema.hide)
        left = fingerprint(found, (*schema.hide, *new))
        if left != fingerprint(built_for, schema.hide):
            return project, ()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return project, ()
    tables = tuple(
        replace(
            table,
            columns=tuple(one for one in table.columns if f"{table.name}.{one.name}" not in new),
        )
        for table in schema.tables
    )
    served = replace(schema, tables=tables, fingerprint=left)
    return replace(project, schema=served), tuple(new)


def takes_any_schema(config: TomlFile[Config], kits: Sequence[InspectedKit]) -> bool:
    """Return whether the project's database may be without tasks, features and disciplines."""
    hosts = [kit for kit in kits if kit.key in config.values.kits and kit.additions]
    return bool(hosts) and hosts[0].any_schema


def settings_models(kits: Sequence[InspectedKit]) -> dict[str, type[BaseModel]]:
    """Return the models of the config's tables that are named after a kit."""
    return {kit.key: kit.settings for kit in kits if kit.settings is not None}


def _replaced(config: TomlFile[Config]) -> tuple[Replaced, ...]:
    """Return the words of the config for tools, sorted."""
    return tuple(
        Replaced(entry, text, config.place("describe", entry))
        for entry, text in sorted(config.values.describe.items())
    )


def _variables(config: Config) -> tuple[str, ...] | None:
    """Return the variables that the config lists, sorted, None if it has no list."""
    names = config.environment.variables
    return None if names is None else tuple(sorted({*names}))


def _http_facts(config: Config) -> str:
    """Return the table `[http]` as JSON text, empty where there is none."""
    return "" if config.http is None else _json(config.http.model_dump(mode="json"))


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _database_facts(
    root: Path, config: TomlFile[Config], kits: Sequence[InspectedKit]
) -> _DatabaseFacts:
    """Return the schema, its tables with tools of their own, and what its disciplines take away.

    Behind that come warnings, and which servers of disciplines are unusable.
    """
    any_schema = takes_any_schema(config, kits)
    try:
        if not has_database(root):
            raise missing_database(root, any_schema=any_schema)
        return _found_facts(root, config, kits)
    except (MissingDatabaseError, NoConnectionError, OutsideDatabaseError) as error:
        is_outside = isinstance(error, OutsideDatabaseError)
        has_same_tables = is_outside and not any_schema and not is_missing(root / FACTS)
        if not (has_same_tables or is_recorded(root, config.values)):
            raise
        problem = error.problems[0]
        hint = f"; {problem.hint}" if is_outside else ""
        warning = f"{problem.text}; using the schema recorded in {FACTS}{hint}"
        return (*_committed_facts(root, config, kits), [warning], ())


def is_recorded(root: Path, config: Config) -> bool:
    """Return whether the committed facts are of the database that the settings name."""
    try:
        recorded = json.loads((root / FACTS).read_text(encoding="utf-8"))["config"]
        place = recorded.get(DatabasePlace.engine)
        named = recorded.get("database", ""), place and DatabasePlace(**place)
    except (ValueError, LookupError, TypeError, AttributeError):
        return True  # whatever needs the facts reports that
    except OSError:
        return False
    return bool(named == (config.database.path or "", config.database.place))


def missing_database(root: Path, *, any_schema: bool) -> MissingDatabaseError:
    """Return the error for a missing file; its hint names the nearest database of the project.

    `any_schema` is for a project that serves the tables of an app: `init` creates no such database.
    """
    name = database_name(root)
    near = nearest_database(project_home(root), name)
    if os.environ.get(DATABASE_VARIABLE):
        hint = f"set {DATABASE_VARIABLE} to the absolute path of a database"
    elif any_schema and is_missing(root / CONFIG):
        first = "" if near else "create your database first; "
        lines = f'kits = ["tables"]\n  [database]\n  path = {json.dumps(near or "app.db")}'
        hint = f'{first}write these lines to {CONFIG}, then run "ralphgen init":\n  {lines}'
    elif near:
        hint = f"set path = {json.dumps(near)} below [database] in {CONFIG}"
    elif any_schema:
        hint = f"create it with your app, or set path below [database] in {CONFIG} to its file"
    else:
        hint = 'create it with "ralphgen init", then review "ralphgen trust"'
    return MissingDatabaseError(f"no database at {name}", hint)


def _found_facts(
    root: Path, config: TomlFile[Config], kits: Sequence[InspectedKit]
) -> _DatabaseFacts:
    with open_database(root) as connection:
        schema = _served_schema(connection, config, kits)
        tables = served_tables(config, schema, connection)
        queries = prepared_queries(root, config, schema, connection, {})
        if takes_any_schema(config, kits):
            return schema, tables, queries, (), [], ()
        warnings = [
            *unknown_disciplines(connection, config),
            *done_warnings(connection, config),
        ]
        keys = tuple(kit.key for kit in kits)
        unusable = tuple(unusable_servers(connection, schema, config.values, keys))
        return schema, tables, queries, stored_removals(connection, schema), warnings, unusable


def _served_schema(
    connection: Snapshot, config: TomlFile[Config], kits: Sequence[InspectedKit]
) -> Schema:
    """Return the tables that the servers work on, as far as they are known to the config."""
    named = names_of(config)
    elsewhere = _columns_elsewhere(connection, config)
    if takes_any_schema(config, kits):
        facts: Facts = only_served(connection.tables(named, own=(MARKER,)), named)
        schema = _schema(facts, config, elsewhere, required={})
    else:
        facts = connection.tables(named)
        schema = _schema(facts, config, elsewhere)
        database = config.values.database
        name = place_name(database.place) or database.path or DATABASE
        _refuse_incomplete(connection, schema, name)
    problems = [
        Problem(
            f'{config.place("schema", "hide")}: "{column}" is computed from "{source}", which is '
            "hidden",
            f'add "{column}" to hide under [schema]',
        )
        for column, source in _computed_from_hidden(connection, schema)
    ]
    if problems:
        raise ProjectError.of(problems)
    return replace(
        schema,
        definitions=definitions_of(connection, facts),
        views=connection.views_digest(named),
    )


def _columns_elsewhere(connection: Snapshot, config: TomlFile[Config]) -> set[str]:
    """Return, as "table.column" in small letters, the columns of all tables that `hide` names."""
    hidden = {fold(entry.partition(".")[0]) for entry in config.values.db_schema.hide}
    named = [name for name in relation_names(connection) if fold(name) in hidden]
    found = connection.tables(named) if named else {}
    return {fold(f"{table}.{one['name']}") for table, columns in found.items() for one in columns}


def _schema(
    tables: Facts,
    config: TomlFile[Config],
    elsewhere: Collection[str] | None = None,
    *,
    required: Mapping[str, Collection[str]] = REQUIRED_COLUMNS,
) -> Schema:
    """Return the schema without what the config hides; its problems name the line of the config."""
    hidden = (*config.values.db_schema.hide, *_known_hidden(tables, config))
    try:
        case_sensitive = config.values.database.place is not None
        return schema_from_facts(
            tables,
            hidden,
            case_sensitive=case_sensitive,
            elsewhere=elsewhere,
            required=required,
        )
    except ProjectError as error:
        where = config.place("schema", "hide")
        placed = [Problem(f"{where}: {problem.text}", problem.hint) for problem in error.problems]
        raise ProjectError.of(placed) from error


def _known_hidden(tables: Facts, config: TomlFile[Config]) -> Iterator[str]:
    """Yield the columns that the settings of a table hide, and that there are."""
    known = {
        fold(f"{table}.{column['name']}"): f"{table}.{column['name']}"
        for table, columns in tables.items()
        for column in columns
    }
    for entry in hidden_columns(config.values):
        if fold(entry) in known:
            yield known[fold(entry)]


def refuse_other_schemas(root: Path, place: DatabasePlace | None) -> None:
    """Raise `ProjectError` if there is a database whose schema cannot be served.

    `place` is where on a server the rows are. A database without any table of a project is not
    refused: `init` may add them.
    """
    if place is None and is_missing(database_path(root)):
        return
    with open_database(root, place) as connection:
        schema = schema_from_facts(connection.tables())
        if schema.tables:
            _refuse_incomplete(connection, schema, place_name(place) or database_name(root))


def _refuse_incomplete(connection: Snapshot, schema: Schema, name: str) -> None:
    """Raise `ProjectError`, naming what is missing, for a schema that cannot be served."""
    missing = missing_required_columns(schema, table_names(connection))
    if not missing:
        return
    tables = f'generate tools for your tables only: kits = ["tables"] in {CONFIG}'
    if not schema.tables:
        text = f"{name} has no tasks, features and disciplines tables"
        raise IncompleteSchemaError(text, f'add them with "ralphgen init", or {tables}')
    raise IncompleteSchemaError(
        f"{name} cannot hold tasks: {'; '.join(missing)}",
        f"add what is missing, keep tasks in .ralph/db/ralph.db (remove [database]), or {tables}",
    )


def _committed_facts(
    root: Path, config: TomlFile[Config], kits: Sequence[InspectedKit]
) -> tuple[Schema, _Tables, Queries | None, tuple[Removal, ...]]:
    try:
        facts = json.loads((root / FACTS).read_text(encoding="utf-8"))
        required = {} if takes_any_schema(config, kits) else REQUIRED_COLUMNS
        schema = _schema(facts["schema"], config, required=required)
        schema = replace(
            schema, definitions=recorded_parts(facts), views=str(facts.get("views", ""))
        )
        removals = tuple(
            stored_removal(name, tuple(names))
            for name, names in sorted(facts["disciplines"].items())
        )
        queries = prepared_queries(root, config, schema, None, facts.get("queries", {}))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProjectError(
            f"{FACTS} cannot be read ({error}), and there is no database at {database_name(root)}",
            'run "ralphgen regen" in a checkout that has the database',
        ) from error
    return schema, served_tables(config, schema), queries, removals


def _computed_from_hidden(connection: Snapshot, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield each visible generated column and a hidden column it needs, as "table.column"."""
    part = part_for(connection, "ralphgen.project.queries.prepare")
    for table, column, source in part.computed_columns(connection):
        shown = not is_secret(table, column, schema.hidden)
        if shown and is_secret(table, source, schema.hidden):
            yield f"{table}.{column}", f"{table}.{source}"
