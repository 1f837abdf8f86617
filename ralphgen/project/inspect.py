"""Everything that decides what is emitted, read from a project's folder."""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.files import collected, files_by_suffix
from ralphgen.project.config import (
    VERBS,
    Config,
    TableSettings,
    kit_settings,
    no_config,
    pattern_problems,
    policy_rules,
    read_config,
    unsupported,
)
from ralphgen.project.database import (
    NoConnectionError,
    Snapshot,
    nearest_database,
    open_database,
    part_for,
)
from ralphgen.project.disciplines import (
    configured_removals,
    discipline_rows,
    stored_removal,
    stored_removals,
    unknown_disciplines,
    unusable_servers,
)
from ralphgen.project.model import (
    Check,
    Column,
    DoneRules,
    Finding,
    InspectedKit,
    Names,
    OwnRecipe,
    ProjectFacts,
    Queries,
    Removal,
    Replaced,
    Schema,
    ServedTable,
    Table,
    done_facts,
    table_facts,
)
from ralphgen.project.own_tools import NO_TOOLS, read_own_tools
from ralphgen.project.queries import SECRETS, NamedSql, is_secret, read_queries
from ralphgen.project.root import (
    CONFIG,
    DATABASE,
    DATABASE_VARIABLE,
    RECIPES,
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
    definitions_of,
    recorded_parts,
    relation_names,
    schema_from_facts,
    schema_problems,
    table_names,
)
from ralphgen.project.toml import TomlFile, expecting, read_toml
from ralphgen.runtime.engine import fingerprint, fold, new_columns, only_served
from ralphgen.runtime.engine.ledger import MARKER, PREFIX
from ralphgen.runtime.values import nearest

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
    engine = import_module(f"{__package__}.queries.prepare_{config.values.database.engine}")
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


Reads = Callable[[str], Iterable[tuple[str, str]]]  # by view: tables and columns
KEY = "tables"  # of the config
READING = VERBS[:2]
TEXTS = ("TEXT", "NUMERIC", "ANY", "OPAQUE")  # types that a text search supports
# Types that an argument can have.
GIVEN = (*TEXTS, "BOOLEAN", "DECIMAL", "INTEGER", "JSON", "REAL")
INTERNAL = ("sqlite_", PREFIX)
_KINDS = "SELECT name, type FROM pragma_table_list WHERE schema = 'main'"


def names_of(config: TomlFile[Config]) -> tuple[str, ...]:
    """Return the names of the tables and views, as the config spells them."""
    return tuple(config.values.tables)


def hidden_columns(config: Config) -> tuple[str, ...]:
    """Return the hidden columns in the tables' settings, as `"table.column"`."""
    named = config.tables.items()
    return tuple(f"{table}.{column}" for table, one in named for column in one.hide)


def served_tables(
    config: TomlFile[Config], schema: Schema, connection: "Snapshot | None" = None
) -> tuple[ServedTable, ...]:
    """Return the tables and views by the names that the database has for them and their columns.

    Raises `ProjectError` for each unknown name, and for each setting that a table does not support.
    Without a `connection`, the reason for a missing table is unknown.
    """
    problems: list[Problem] = []
    found: list[ServedTable] = []
    named: dict[str, str] = {}
    by_name = {schema.folded(table.name): table for table in schema.tables}
    kinds = (
        {}
        if connection is None or connection.sql.TYPED
        else {fold(name): kind for name, kind in connection.rows(_KINDS)}
    )
    secrets = _secrets(connection, schema)
    for name, settings in sorted(config.values.tables.items()):
        where = config.place(KEY, name)
        table = schema.table(name) or by_name.get(schema.folded(name))
        reason = _unusable(schema.folded(name), kinds, table)
        if reason:
            problems.append(Problem(f"{where}: {reason[0]}", reason[1]))
        elif table is not None and table.name in named:
            text = f'{where}: "{table.name}" is configured twice, also as "{named[table.name]}"'
            problems.append(Problem(text, "merge both entries"))
        elif table is not None:
            named[table.name] = name
            wrong = [*_problems(config, name, settings, table, schema)]
            wrong += [
                Problem(
                    f'{where}: "{name}" reads "{secret}", which is hidden',
                    _hint_for_secret(name, table, secret),
                )
                for secret in secrets(table)
            ]
            problems += wrong
            if not wrong:
                found.append(_served(where, settings, table, schema))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(found, key=lambda one: one.name))


def _secrets(connection: "Snapshot | None", schema: Schema) -> Callable[[Table], Iterable[str]]:
    """Return a function that yields the columns of a table or view that tools may not show."""
    views: list[Reads] = []  # made for the first table

    def hidden_columns(table: Table) -> Iterator[str]:
        for column in table.columns:
            is_one = (fold(table.name), fold(column.name)) in SECRETS
            if is_one and not schema.hidden(table.name, column.name):
                yield f"{table.name}.{column.name}"
        if connection is not None:
            if not views:
                part = part_for(connection, "ralphgen.project.queries.prepare")
                views.append(part.view_reads(connection.connection, schema.hidden, schema.hide))
            yield from _secrets_in_view(views[0], schema, table.name)

    return hidden_columns


def _hint_for_secret(name: str, table: Table, secret: str) -> str:
    """Return how tools do not show a column of a table, or one that a view reads."""
    if column := next((c.name for c in table.columns if f"{table.name}.{c.name}" == secret), ""):
        return f"add hide = [{json.dumps(column)}] below [{KEY}.{name}]"
    return f"create the view without it, or remove [{KEY}.{name}] from {CONFIG}"


def _secrets_in_view(reads: Reads, schema: Schema, name: str) -> Iterator[str]:
    """Yield, as "table.column", the columns a view reads that tools may not show.

    Raises the errors of `reads`. The names of the view's own columns do not count: they are hidden
    like those of a table.
    """
    for table, column in sorted(reads(name)):
        own = schema.folded(table) == schema.folded(name)
        if not own and is_secret(table, column, schema.hidden):
            yield f"{table}.{column}" if column else table


def _unusable(name: str, kinds: Mapping[str, str], table: Table | None) -> tuple[str, str] | None:
    """Return why a table cannot be served, with a hint."""
    kind = kinds.get(name, "")
    if name.startswith(INTERNAL):
        return f'"{name}" is an internal table of the database or ralphgen', "remove it"
    if kind in ("virtual", "shadow"):
        what = "a virtual table" if kind == "virtual" else "the storage of a virtual table"
        return (
            f'"{name}" is {what}, which cannot be served',
            "create a view of it, and serve the view",
        )
    if table is None and kind == "view":
        return f'the view "{name}" reads a missing table or column', "recreate the view"
    if table is None:
        usable = [one for one, sort in kinds.items() if sort in ("table", "view")]
        known = [one for one in usable if not one.startswith(INTERNAL)]
        hint = f"if it is new, migrate this database first; {suggestion(name, known, 'the tables')}"
        return f'the database has no table "{name}"', hint
    return None


def key_of(table: Table) -> Names:
    """Return the columns of the primary key in its order, empty without one."""
    columns = sorted((one.primary_key, one.name) for one in table.columns if one.primary_key)
    return tuple(name for _, name in columns)


def possible(table: Table, key: Collection[str] = ()) -> Names:
    """Return the tools that a table supports; `key` identifies the rows of one without a key."""
    if key_of(table):
        can_be_given = all(one.type in GIVEN for one in table.columns if one.primary_key)
        return VERBS if can_be_given else VERBS[:1]
    return READING if key else VERBS[:1]


def _problems(
    config: TomlFile[Config], name: str, settings: TableSettings, table: Table, schema: Schema
) -> Iterator[Problem]:
    """Yield the problems with the settings of an existing table."""
    stated = {schema.folded(column) for column in settings.hide}
    unseen = (one.name for one in table.columns if schema.hidden(table.name, one.name))
    hidden = stated | {schema.folded(column) for column in unseen}
    columns = {schema.folded(column.name): column for column in table.columns}
    for keys, column in settings.columns:
        where, found = config.place(KEY, name, *keys), columns.get(schema.folded(column))
        if found is None:
            hint = suggestion(column, (one.name for one in table.columns), "the columns")
            yield Problem(f'{where}: "{table.name}" has no column "{column}"', hint)
        elif keys[0] != "hide" and schema.folded(column) in hidden:
            yield Problem(f'{where}: "{column}" is hidden', "remove it here or from hide")
        elif reason := _unfit(str(keys[0]), found):
            yield Problem(f'{where}: "{column}" {reason}', f"remove it from {keys[0]}")
    where = config.place(KEY, name)
    for column in key_of(table):
        if schema.folded(column) in hidden - stated:
            text = f'{where}: "{column}" identifies the rows, but is hidden'
            yield Problem(text, "remove it from [schema] hide")
    if settings.key and key_of(table):
        where = config.place(KEY, name, "key")
        yield Problem(f'{where}: "{table.name}" has a primary key', 'remove "key"')
    yield from _verb_problems(config, name, settings, table)


def _unfit(setting: str, column: Column) -> str:
    """Return why a setting does not support a column; empty if it does."""
    if setting == "search" and column.type not in TEXTS:
        return "does not contain text"
    if setting == "hide" and column.primary_key:
        return "identifies the rows"
    if setting in ("filter", "key", "bind") and column.type not in GIVEN:
        return "has a type that arguments do not support"
    return ""


def _verb_problems(
    config: TomlFile[Config], name: str, settings: TableSettings, table: Table
) -> Iterator[Problem]:
    """Yield a problem for each tool that there cannot be."""
    can = possible(table, settings.key)
    lacks = "a primary key of an unsupported type" if key_of(table) else "no primary key"
    for setting, verbs in (("tools", settings.tools or ()), *settings.recipes.items()):
        keys = (setting,) if setting == "tools" else ("recipes", setting)
        for at, verb in enumerate(verbs):
            if verb not in can:
                where = config.place(KEY, name, *keys, at)
                text = f'{where}: "{table.name}" has {lacks}, so "{verb}" is not possible'
                yield Problem(text, f"possible: {', '.join(can)}")


def _served(where: str, settings: TableSettings, table: Table, schema: Schema) -> ServedTable:
    named = {schema.folded(column.name): column.name for column in table.columns}

    def spellings(columns: Iterable[str]) -> Names:
        return tuple(dict.fromkeys(named[schema.folded(column)] for column in columns))

    can = possible(table, settings.key)
    return ServedTable(
        name=table.name,
        origin=where,
        noun=settings.noun or "",
        plural=settings.plural or "",
        tools=tuple(verb for verb in can if verb in (settings.tools or can)),
        filter=spellings(settings.filter),
        search=spellings(settings.search),
        key=key_of(table) or spellings(settings.key),
        interactive=settings.interactive,
        recipes=tuple((name, tuple(verbs)) for name, verbs in sorted(settings.recipes.items())),
        bind=tuple((spellings([one])[0], kind) for one, kind in sorted(settings.bind.items())),
        describe=tuple(
            (spellings([one])[0], text) for one, text in sorted(settings.describe.items())
        ),
    )


SUFFIX = ".toml"
KINDS = ("task", "feature", "discipline")
LONGEST_DESCRIPTION = 200  # characters
LONGEST_PROMPT = 40_000
Name = Annotated[str, Field(min_length=1)]


Description = Annotated[
    str,
    expecting(
        f"one line of at most {LONGEST_DESCRIPTION} characters",
        lambda text: text.strip() and text.isprintable() and len(text) <= LONGEST_DESCRIPTION,
    ),
]
Prompt = Annotated[
    str,
    expecting(
        f"a non-blank string of at most {LONGEST_PROMPT:,} characters",
        lambda text: text.strip() and len(text) <= LONGEST_PROMPT,
    ),
]
ModelName = Annotated[  # a client could parse a leading "-" as an option
    str,
    expecting(
        'a model name without spaces or a leading "-"',
        lambda text: re.fullmatch(r"[^\s-]\S*", text) and text.isprintable(),
    ),
]


class RecipeFile(BaseModel):
    """A recipe: its `base`, and by kit the tools of the base that it keeps.

    `narrow` has the arguments that it keeps of a tool, `bind` the rows that a session needs.
    `description` is a sentence for users and agents, `prompt` replaces the steps of the base, and
    `model` is the default of `launch`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    base: Name
    allow: dict[str, list[Name]] = {}
    narrow: dict[str, list[Name]] = {}
    bind: list[Literal["task", "feature", "discipline"]] = []
    description: Description | None = None
    prompt: Prompt | None = None
    model: ModelName | None = None


def read_recipes(root: Path) -> tuple[OwnRecipe, ...]:
    """Return the recipes of the project in `root`, by name, which is the file's without `.toml`.

    Raises `ProjectError` with every problem of every file.
    """
    recipes: list[OwnRecipe] = []
    problems: list[Problem] = []
    for name in files_by_suffix(root, RECIPES, SUFFIX):
        path = root / RECIPES / os.fsdecode(name.encode())
        with collected(problems):
            file = read_toml(path, RecipeFile, f"{RECIPES}/{name}")
            recipes.append(_recipe(name.removesuffix(SUFFIX), file))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(recipes, key=lambda recipe: recipe.name))


def _recipe(name: str, file: TomlFile[RecipeFile]) -> OwnRecipe:
    places = {"base": file.place("base")}
    allowed = sorted(file.values.allow.items())
    for kit, tools in allowed:
        places[kit] = file.place("allow", kit)
        places |= {f"{kit}:{tool}": file.place("allow", kit, at) for at, tool in enumerate(tools)}
    allow = tuple((kit, tuple(sorted(set(tools)))) for kit, tools in allowed)
    narrow = tuple((tool, tuple(names)) for tool, names in sorted(file.values.narrow.items()))
    places |= {f"narrow {tool}": file.place("narrow", tool) for tool, _ in narrow}
    if file.values.bind:
        places["bind"] = file.place("bind")
    return OwnRecipe(
        name,
        file.values.base,
        allow,
        file.shown,
        narrow=narrow,
        bind=tuple(kind for kind in KINDS if kind in file.values.bind),
        description=file.values.description or "",
        prompt=file.values.prompt or "",
        model=file.values.model or "",
        places=tuple(places.items()),
    )


WATCHED = (
    "**/__tests__/**",
    "**/spec/**",
    "**/test/**",
    "**/tests/**",
    "**/*.spec.*",
    "**/*.test.*",
    "**/*_test.*",
    "**/test_*.py",
    "**/conftest.py",
    "**/.gitignore",
    "**/Cargo.toml",
    "**/Makefile",
    "**/Taskfile.yml",
    "**/go.mod",
    "**/go.sum",
    "**/justfile",
    "**/package.json",
    "**/package-lock.json",
    "**/pnpm-lock.yaml",
    "**/pyproject.toml",
    "**/setup.cfg",
    "**/tox.ini",
    "**/*.lock",
)
"""What `watch` is where the config does not say: tests, and what defines a check's command."""
NOTHING = DoneRules((), (), ())


def done_rules(config: Config) -> DoneRules | None:
    """Return the config's requirements for closing a task; None without a check."""
    done = config.done
    if not done.checks:
        return None
    checks = tuple(
        Check(one.name, tuple(one.run or ()), one.dela or "", one.timeout, tuple(one.disciplines))
        for one in done.checks
    )
    watch = WATCHED if done.watch is None else tuple(done.watch)
    return DoneRules(checks, tuple(done.protect), watch)


def done_problems(config: TomlFile[Config]) -> list[Problem]:
    """Return the problems of the checks, each with its line."""
    problems: list[Problem] = []
    names: set[str] = set()
    for at, check in enumerate(config.values.done.checks):
        where = f'{config.place("done", "checks", at)}: check "{check.name}"'
        if check.name in names:
            problems.append(Problem(f"{where} is defined twice", "give each check a unique name"))
        names.add(check.name)
        if (check.run is None) == (check.dela is None):
            found = 'neither "run" nor' if check.run is None else 'both "run" and'
            problems.append(
                Problem(
                    f'{where} has {found} "dela"',
                    'set either run = ["program", "argument"] or dela = "task"',
                )
            )
        if check.run is not None and not (check.run and check.run[0].strip()):
            problems.append(
                Problem(f'{where} has an empty "run"', 'set run = ["program", "argument"]')
            )
    return problems


def ledger_problem(config: TomlFile[Config], schema: Schema) -> list[Problem]:
    """Return a problem if evidence cannot be stored because the ledger's tables are missing."""
    if not config.values.done.checks or schema.table(MARKER) is not None:
        return []
    where = config.place("done", "checks")
    text = f"{where}: checks need the ledger, which stores their evidence"
    return [Problem(text, 'run "ralphgen db ledger on"')]


def done_warnings(connection: Snapshot, config: TomlFile[Config]) -> list[str]:
    """Return warnings on disciplines that the database does not have, and on useless keys."""
    done = config.values.done
    if not done.checks and (done.protect or done.watch):
        where = config.place("done")
        return [f"{where}: [done] has no effect without [[done.checks]]"]
    names = [name for (name,) in discipline_rows(connection)]
    warnings: list[str] = []
    for at, check in enumerate(done.checks):
        for name in check.disciplines:
            if name not in names:
                near = nearest(name, names)
                hint = f'; did you mean "{near}"?' if near else ""
                where = config.place("done", "checks", at, "disciplines")
                text = f'{where}: check "{check.name}" names the unknown discipline "{name}"'
                warnings.append(f"{text}{hint}")
    return warnings


def loosened(before: Mapping[str, Any], after: DoneRules | None) -> list[str]:
    """Return, in words, what `before`, the facts of earlier rules, asked for and `after` does not.

    Facts that cannot be read asked for nothing.
    """
    return loosened_facts(before, done_facts(after or NOTHING))


def loosened_facts(before: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Compare two sets of rules that are both given as facts (see `loosened`)."""
    try:
        earlier = {check["name"]: check for check in before["checks"]}
        protected = [str(one).removeprefix("./") for one in before["protect"]]
    except (LookupError, TypeError):
        return []
    checks = {check["name"]: check for check in facts["checks"]}
    found: list[str] = []
    for name, old in earlier.items():
        new = checks.get(name)
        if new is None:
            found.append(f'check "{name}" would be removed')
            continue
        if any(old.get(key) != new.get(key) for key in ("run", "dela")):
            found.append(f'check "{name}" would change')
        if new.get("disciplines") and not {*old.get("disciplines", ["*"])} <= {*new["disciplines"]}:
            found.append(f'check "{name}" would apply to fewer disciplines')
    found += [
        f'"{one}" would no longer be protected'
        for one in protected
        if one not in facts["protect"] and unsupported(one) is None
    ]
    return found


_Tables = tuple[ServedTable, ...]
_DatabaseFacts = tuple[
    Schema, _Tables, Queries | None, tuple[Removal, ...], list[str], tuple[Problem, ...]
]

FACTS = ".ralph/mcp/project.json"
NOT_RECORDED: Facts = {}


class MissingDatabaseError(ProjectError):
    """The file of the database does not exist."""


class IncompleteSchemaError(ProjectError):
    """The database lacks tables or columns that tasks need."""


def inspect_project(
    root: Path, kits: Sequence[InspectedKit], *, with_ledger: bool = False
) -> ProjectFacts:
    """Return the facts of the project in `root`; `kits` are all available kits.

    With `with_ledger`, a database counts as having the ledger that the committed server has.
    Without a database (in a fresh clone), its facts come from the committed `project.json`, if they
    describe the database that the config names; a warning reports this. Raises `ProjectError` with
    every problem in the config, the recipes and the database.
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
        ledger = _recorded_ledger(root) if with_ledger else {}
        facts = _database_facts(root, config, kits, ledger)
    surveys = _surveys(root, on, settings, problems)
    if facts is not None:
        problems.extend(ledger_problem(config, facts[0]))
    if facts is None or problems:
        raise ProjectError.of(problems)
    schema, tables, queries, stored, warnings, unusable = facts
    names, http = config.values.environment.variables, config.values.http
    work = {"lease": config.values.claims.lease, "attempts": config.values.loop.attempts}
    return ProjectFacts(
        kits=tuple(kit.key for kit in on),
        structured_output=config.values.structured_output,
        schema=schema,
        stored_removals=stored,
        configured_removals=configured_removals(config),
        recipes=recipes,
        rules=policy_rules(config.values.policy, config.place),
        replaced=tuple(
            Replaced(entry, text, config.place("describe", entry))
            for entry, text in sorted(config.values.describe.items())
        ),
        tables=tables,
        own_tools=own_tools,
        done=done_rules(config.values),
        queries=queries,
        database=config.values.database.path or "",
        place=config.values.database.place,
        http="" if http is None else _json(http.model_dump(mode="json") | work),
        variables=None if names is None else tuple(sorted({*names})),
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
    """Return the kits' findings in the project's files, as JSON by kit; collect the problems."""
    surveys: list[tuple[str, str]] = []
    for kit in kits:
        with collected(problems):
            if kit.survey is not None:
                surveys.append((kit.key, _json(kit.survey(root, settings[kit.key]))))
    return tuple(surveys)


def kit_findings(
    root: Path, project: ProjectFacts, kits: Sequence[InspectedKit]
) -> dict[str, Finding]:
    """Return what each kit, on or off, could serve in the project in `root`."""
    known = {key: json.loads(values) for key, values in project.settings}
    found = {}
    for kit in kits:
        if kit.find is not None:
            usual = {} if kit.settings is None else kit.settings().model_dump(mode="json")
            found[kit.key] = kit.find(root, known.get(kit.key, usual))
    return found


def without_new_columns(root: Path, project: ProjectFacts) -> tuple[ProjectFacts, Names]:
    """Return the project as its server was generated for it, and the columns that this leaves out.

    These are new optional columns, as `"table.column"`. If anything else differs, the project is
    returned unchanged, and its server refuses to start.
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


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _recorded_ledger(root: Path) -> Facts:
    """Return the table that marks a ledger, as the committed server has it, or nothing."""
    try:
        recorded: Facts = json.loads((root / FACTS).read_text(encoding="utf-8"))["schema"]
        return {MARKER: recorded[MARKER]} if MARKER in recorded else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _database_facts(
    root: Path, config: TomlFile[Config], kits: Sequence[InspectedKit], ledger: Facts
) -> _DatabaseFacts:
    """Return the schema, the tables with generated tools, and the removals of disciplines.

    They are followed by warnings, and by the unusable servers of disciplines.
    """
    any_schema = takes_any_schema(config, kits)
    try:
        if not has_database(root):
            raise no_database_error(root, any_schema=any_schema)
        return _inspect_database(root, config, kits, ledger)
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
        return True  # reported by code that needs the facts
    except OSError:
        return False
    return bool(named == (config.database.path or "", config.database.place))


def no_database_error(root: Path, *, any_schema: bool) -> MissingDatabaseError:
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


def _inspect_database(
    root: Path, config: TomlFile[Config], kits: Sequence[InspectedKit], ledger: Facts
) -> _DatabaseFacts:
    with open_database(root) as connection:
        schema = served_schema(connection, config, kits, ledger)
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


def served_schema(
    connection: Snapshot,
    config: TomlFile[Config],
    kits: Sequence[InspectedKit],
    ledger: Facts = NOT_RECORDED,
) -> Schema:
    """Return the tables that the servers work on, as far as the config names them.

    `ledger` is the table of a ledger, for a database without one.
    """
    named = names_of(config)
    elsewhere = _columns_elsewhere(connection, config)
    if takes_any_schema(config, kits):
        facts: Facts = only_served(connection.tables(named, own=(MARKER,)), named)
        facts = {**ledger, **facts}
        schema = _schema(facts, config, elsewhere, required={})
    else:
        facts = {**ledger, **connection.tables(named)}
        schema = _schema(facts, config, elsewhere)
        database = config.values.database
        name = place_name(database.place) or database.path or DATABASE
        _refuse_incomplete(connection, schema, name)
    part = part_for(connection, "ralphgen.project.queries.prepare")
    problems = [
        Problem(
            f'{config.place("schema", "hide")}: "{table}.{column}" is computed from '
            f'"{table}.{source}", which is hidden',
            f'add "{table}.{column}" to hide under [schema]',
        )
        for table, column, source in part.computed_columns(connection)
        if is_secret(table, source, schema.hidden) and not is_secret(table, column, schema.hidden)
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
    """Return the schema without hidden columns; its problems name the line of the config."""
    hidden = (*config.values.db_schema.hide, *_existing_hidden_columns(tables, config))
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


def _existing_hidden_columns(tables: Facts, config: TomlFile[Config]) -> Iterator[str]:
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
    """Raise `ProjectError` with the missing parts if a schema cannot be served."""
    missing = schema_problems(schema, table_names(connection))
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
