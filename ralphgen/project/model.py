"""The facts that inspection finds: frozen values, and the JSON of `project.json`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ralphgen.errors import Problem
from ralphgen.project.queries import PreparedQuery
from ralphgen.project.root import DATABASE, DatabasePlace
from ralphgen.runtime.engine import fold

if TYPE_CHECKING:
    from pydantic import BaseModel


Names = tuple[str, ...]
Structured = Literal["auto", True, False]
"""Which answers have structured content; "auto" leaves it to the client's entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTool:
    """A custom tool: a function in a file of `.ralph/tools/`.

    `file` is the file's name, `sha256` its digest. `parameters` are name, JSON Schema as JSON text,
    and whether the parameter is required; `about` describes some of them. `returns` is the schema
    of the result as JSON text. `hints` are its declared effects, and `decorated` is true if it
    declares them itself. `origin` is file and line, for messages. The other values come from the
    config, at `place`: the `recipes` that have the tool, whether it is `interactive`, its time
    limit in `seconds`, and which arguments are bound to a row of the session.
    """

    name: str
    file: str
    sha256: str
    sentence: str
    parameters: tuple[tuple[str, str, bool], ...]
    about: tuple[tuple[str, str], ...]
    returns: str
    hints: str
    decorated: bool
    origin: str
    place: str = ""
    recipes: tuple[str, ...] = ()
    interactive: bool = True
    seconds: int = 20
    bind: tuple[tuple[str, str], ...] = ()


def own_tool_facts(tools: tuple[OwnTool, ...]) -> dict[str, dict[str, Any]]:
    """Return the tools as values of JSON."""
    return {
        tool.name: {"file": tool.file, "hints": tool.hints, "sha256": tool.sha256} for tool in tools
    }


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as the database declares it.

    `values` is the CHECK list in the schema's order, or `None` if no list is known for certain.
    `primary_key` is the position in the key, from 1; 0 outside of it. `references` is
    `"table(column)"` of a foreign key, or `None`.
    """

    name: str
    type: str
    not_null: bool = False
    default: str | None = None
    primary_key: int = 0
    references: str | None = None
    values: Names | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table with its columns, sorted by name."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables that the server works on, sorted by name; `fingerprint` is a sha256 in hex.

    `hide` names columns, as `"table.column"`, that the server must not see. With `case_sensitive`,
    the database distinguishes names by letter case. `definitions` holds, by table, the properties
    that its columns do not express, as parts of SQL; None if they are not recorded. `views` is the
    digest of the served views and the views that they read, empty without served views.
    """

    tables: tuple[Table, ...]
    fingerprint: str
    hide: Names = field(default=())
    case_sensitive: bool = False
    definitions: tuple[tuple[str, Names], ...] | None = None
    views: str = ""

    def table(self, name: str) -> Table | None:
        """Return the table of this name, hidden columns included, or None."""
        return next((table for table in self.tables if table.name == name), None)

    def folded(self, name: str) -> str:
        """Return a name as the database compares it."""
        return name if self.case_sensitive else fold(name)

    def hidden(self, table: str, column: str) -> bool:
        """Return whether the server must not know a column; ASCII letter case does not count."""
        return f"{table}.{column}".lower() in {entry.lower() for entry in self.hide}


@dataclass(frozen=True, slots=True)
class Removal:
    """The tools that a discipline removes: entries are `"tool"` or `"kit:tool"`.

    `origin` is its location, for messages.
    """

    discipline: str
    entries: Names
    origin: str


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Tools that sessions of a recipe may never have: patterns of `"tool"` or `"kit:tool"`.

    `origin` is its location, for messages.
    """

    recipe: str
    never: Names
    origin: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A project's description of a tool or an argument, which replaces the default.

    `entry` is `"tool"` or `"kit:tool"`, followed by `".argument"` for an argument. `origin` is its
    location, for messages.
    """

    entry: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class OwnRecipe:
    """A custom recipe, from a file in `.ralph/recipes/`.

    `allow` maps each named kit to the tools kept of its base's. A kit that is not named keeps none;
    if no kit is named, all kits keep all tools. `narrow` maps `"tool"` or `"kit:tool"` to the
    arguments that it keeps, and `bind` lists the rows (task, feature, discipline) that a session
    requires. `description` is its purpose in one sentence, `prompt` the instructions that replace
    the steps of its base, and `model` the default model; each may be empty. `origin` is the file,
    for messages; `places` are the locations of `"base"`, `"bind"`, each `"kit"` and each
    `"kit:tool"` of `allow`, and each `"narrow tool"`.
    """

    name: str
    base: str
    allow: tuple[tuple[str, Names], ...]
    origin: str
    narrow: tuple[tuple[str, Names], ...] = ()
    bind: Names = ()
    description: str = ""
    prompt: str = ""
    model: str = ""
    places: tuple[tuple[str, str], ...] = ()

    def place(self, what: str) -> str:
        """Return the location of a key as `path:line`, or the file if the line is unknown."""
        return dict(self.places).get(what, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTable:
    """A table or a view with generated tools, according to its settings.

    `noun` and `plural` are empty if they follow from the table's name. `tools` are some of `list`,
    `get`, `create`, `update` and `delete`, and `recipes` the subset for each recipe. `key` are the
    columns that identify its rows. `bind` maps columns to the kind of a session's row, and
    `describe` maps columns to sentences. `origin` is the location of the settings, for messages.
    """

    name: str
    origin: str
    noun: str = ""
    plural: str = ""
    tools: Names = ()
    filter: Names = ()
    search: Names = ()
    key: Names = ()
    interactive: bool = True
    recipes: tuple[tuple[str, Names], ...] = ()
    bind: tuple[tuple[str, str], ...] = ()
    describe: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A command that has to end well before a task is done.

    It is `run`, an argument list, or `dela`, a task of that kit, and has `timeout` seconds. Without
    `disciplines` it is for tasks of all of them.
    """

    name: str
    run: Names
    dela: str
    timeout: int
    disciplines: Names


@dataclass(frozen=True, slots=True)
class DoneRules:
    """The proof that a task is done: checks, and globs of files that sessions may not change.

    `watch` are globs of files whose changes are reported.
    """

    checks: tuple[Check, ...]
    protect: Names
    watch: Names


@dataclass(frozen=True, slots=True)
class Queries:
    """The project's named queries, sorted by name.

    As JSON text: `facts` describe their tables, and `settings` is the table `[queries]`.
    """

    prepared: tuple[PreparedQuery, ...]
    facts: str
    settings: str

    @property
    def reads(self) -> dict[str, list[str]]:
        """The columns that queries read, by table, all sorted."""
        found: dict[str, set[str]] = {}
        for query in self.prepared:
            for table, columns in query.reads.items():
                found.setdefault(table, set()).update(columns)
        return {table: sorted(found[table]) for table in sorted(found)}


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """Everything that decides what is emitted.

    `stored_removals` come from the database, `configured_removals` from the config. Both, `recipes`
    and `rules` are sorted by name. `replaced` are its descriptions of tools, sorted; `tables` the
    tables with generated tools; `own_tools` its custom tools; and `queries` its named queries, if
    it has any. By kit and as JSON text, `settings` holds the kit's table of the config, and
    `surveys` its findings in the project's files. `done` is the proof that closes a task, or None
    if no proof is needed. `http` is the table `[http]` as JSON text, empty if the project is not
    served over HTTP. `database` is the configured path of the database, relative to the project's
    folder; empty for the default. `place` is its location on a database server, if it is on one.
    `variables` are passed to programs in addition to a standard set; None passes all. Nothing
    emitted depends on the `warnings` for the user, or on `unusable_servers`, the reasons why
    sessions of some disciplines cannot start.
    """

    kits: Names
    structured_output: Structured
    schema: Schema
    stored_removals: tuple[Removal, ...] = ()
    configured_removals: tuple[Removal, ...] = ()
    recipes: tuple[OwnRecipe, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    tables: tuple[ServedTable, ...] = ()
    own_tools: tuple[OwnTool, ...] = ()
    done: DoneRules | None = None
    queries: Queries | None = None
    settings: tuple[tuple[str, str], ...] = ()
    surveys: tuple[tuple[str, str], ...] = ()
    database: str = ""
    place: DatabasePlace | None = None
    http: str = ""
    variables: Names | None = None
    warnings: Names = ()
    unusable_servers: tuple[Problem, ...] = ()

    @property
    def engine(self) -> str:
        """The engine of the database: the name of its package in `runtime/engine/`."""
        return "sqlite" if self.place is None else self.place.engine

    @property
    def database_location(self) -> str:
        """The location of the database, in the form that servers receive."""
        return self.place.server_location if self.place is not None else self.database or DATABASE

    def setting(self, kit: str, name: str) -> Any:
        """Return the value of a kit's setting: the config's, or the kit's own default."""
        return json.loads(dict(self.settings)[kit])[name]

    def survey(self, kit: str) -> Any:
        """Return a kit's findings in the project's files, as a JSON value."""
        return json.loads(dict(self.surveys)[kit])


def project_facts(project: ProjectFacts) -> dict[str, Any]:
    """Return the facts of a project; a clone without the database is checked against them."""
    definitions, names = project.schema.definitions, project.variables
    words = {one.entry: one.text for one in project.replaced}
    return {
        "config": {
            **({"database": project.database} if project.database else {}),
            **({project.engine: asdict(project.place)} if project.place else {}),
            **({"describe": words} if words else {}),
            "disciplines": _removal_names(project.configured_removals),
            **({"environment": {"variables": [*names]}} if names is not None else {}),
            **({"done": done_facts(project.done)} if project.done is not None else {}),
            "hide": list(project.schema.hide),
            **({"http": json.loads(project.http)} if project.http else {}),
            "kits": list(project.kits),
            **({"queries": json.loads(project.queries.settings)} if project.queries else {}),
            **({"rules": {r.recipe: [*r.never] for r in project.rules}} if project.rules else {}),
            "settings": {kit: json.loads(values) for kit, values in project.settings},
            "structured_output": project.structured_output,
            **({"tables": _table_settings(project.tables)} if project.tables else {}),
        },
        **({} if definitions is None else {"definitions": {t: [*p] for t, p in definitions}}),
        "disciplines": _removal_names(project.stored_removals),
        **({"own_tools": own_tool_facts(project.own_tools)} if project.own_tools else {}),
        **({"queries": json.loads(project.queries.facts)} if project.queries else {}),
        "recipes": {
            recipe.name: {
                "base": recipe.base,
                "allow": dict(recipe.allow),
                "narrow": dict(recipe.narrow),
                "bind": list(recipe.bind),
            }
            for recipe in project.recipes
        },
        "schema": table_facts(project.schema.tables),
        **({"views": project.schema.views} if project.schema.views else {}),
        "surveys": {kit: json.loads(facts) for kit, facts in project.surveys},
    }


def _table_settings(tables: tuple[ServedTable, ...]) -> dict[str, Any]:
    """Return the settings of each table, by its name, without empty settings."""
    found = {table.name: asdict(table) for table in tables}
    for said in found.values():
        del said["name"], said["origin"]
        said |= {key: dict(said[key]) for key in ("recipes", "bind", "describe")}
    return {
        name: {key: value for key, value in said.items() if value not in ((), {}, "")}
        for name, said in found.items()
    }


def done_facts(rules: DoneRules) -> dict[str, Any]:
    """Return the rules as JSON values; only the defined settings of a check are included."""
    return {
        "checks": [
            {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}
            for check in rules.checks
            if (said := {key: value for key, value in asdict(check).items() if value})
        ],
        "protect": list(rules.protect),
        "watch": list(rules.watch),
    }


def table_facts(tables: tuple[Table, ...]) -> dict[str, list[dict[str, Any]]]:
    """Return the tables as `read_tables` of the runtime gives them."""
    return {
        table.name: [
            {
                "name": column.name,
                "type": column.type,
                "not_null": column.not_null,
                "default": column.default,
                "primary_key": column.primary_key,
                "references": column.references,
                "values": None if column.values is None else list(column.values),
                "generated": column.generated,
            }
            for column in table.columns
        ]
        for table in tables
    }


def _removal_names(removals: tuple[Removal, ...]) -> Mapping[str, list[str]]:
    found: dict[str, set[str]] = {}
    for removal in removals:
        found.setdefault(removal.discipline, set()).update(removal.entries)
    return {discipline: sorted(entries) for discipline, entries in found.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a kit could serve in a project, as information for users; nothing emitted depends on it.

    `summary` is a short description, empty if there is nothing to serve. `details` maps kinds to
    lists of objects with the same keys. `warnings` name the items that cannot be used, and `hint`
    is the next command.
    """

    summary: str
    details: Mapping[str, list[Mapping[str, Any]]]
    warnings: tuple[str, ...] = ()
    hint: str = ""


class InspectedKit(Protocol):
    """The part of a kit that inspection uses; `KitDefinition` documents each member."""

    @property
    def key(self) -> str:
        """The kit's name in the config."""

    @property
    def settings(self) -> "type[BaseModel] | None":
        """The model of the config's table of that name."""

    @property
    def any_schema(self) -> bool:
        """Whether it serves any database, so that the others may have nothing to serve in it."""

    @property
    def additions(self) -> tuple[Callable[..., object], ...]:
        """A project's additions to it, if it is the first enabled kit that accepts any."""

    @property
    def survey(self) -> Callable[[Path, Mapping[str, Any]], object] | None:
        """Reads the kit's input from the project's files."""

    @property
    def find(self) -> Callable[[Path, Mapping[str, Any]], Finding] | None:
        """Reports what the kit could serve."""
