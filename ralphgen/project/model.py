"""The facts that inspection finds: frozen values, and the JSON of `project.json`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ralphgen.errors import Problem
from ralphgen.project.queries.files import PreparedQuery
from ralphgen.project.root import DATABASE, DatabasePlace
from ralphgen.runtime.engine.schema import fold

if TYPE_CHECKING:
    from pydantic import BaseModel


Names = tuple[str, ...]
Structured = Literal["auto", True, False]
"""Which answers have structured content; "auto" leaves it to the client's entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTool:
    """A tool of the project's own: a function in a file of `.ralph/tools/`.

    `file` is the name there, `sha256` that of its bytes. `parameters` are name, JSON Schema as
    JSON text and whether it must be given; `about` what is said of some. `returns` is the schema of
    the answer as JSON text, `hints` what it declares to clients, and `decorated` whether it says so
    itself. `origin` is file and line, for messages. The config says the rest, at `place`: the
    `recipes` that have it, whether it is `interactive`, for how many `seconds` it may run, and by
    argument the kind of row that is the session's own.
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

    `values` is the CHECK list in the schema's order, `None` where none is known for certain.
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

    `hide` names columns, as `"table.column"`, that the server must not know. With `case_sensitive`
    the database tells names apart by their letter case. `definitions` is, by table, what its
    columns do not say of it, as parts of SQL; None where nobody has recorded it. `views` is the
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
    """What a discipline takes away: entries are `"tool"` or `"kit:tool"`.

    `origin` says where it stands, for messages.
    """

    discipline: str
    entries: Names
    origin: str


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Tools that sessions of a recipe may never have: patterns of `"tool"` or `"kit:tool"`.

    `origin` says where it stands, for messages.
    """

    recipe: str
    never: Names
    origin: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """Words of the project's own for a tool or an argument.

    `entry` is `"tool"` or `"kit:tool"`, with `".argument"` behind it for one. `origin` says where
    it stands, for messages.
    """

    entry: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class OwnRecipe:
    """A kind of session of the project's own, from a file in `.ralph/recipes/`.

    `allow` holds, for each kit that it names, the tools it keeps of its base's; a kit that it does
    not name keeps none, and where it names no kit all keep all. `narrow` holds, by `"tool"` or
    `"kit:tool"`, the arguments that it keeps, and `bind` the kinds of rows (task, feature,
    discipline) without which it cannot run. `description` says in a sentence what it is for,
    `prompt` what its agents do, in place of the steps of its base, and `model` names the model that
    they use; each is empty where the file says nothing. `origin` is the file, for messages;
    `places` says where in it stand `"base"`, `"bind"`, each `"kit"` and each `"kit:tool"` of
    `allow`, and each `"narrow tool"`.
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
        """Return where something stands, as `path:line`, or the file where that is not known."""
        return dict(self.places).get(what, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTable:
    """A table or a view that tools are made of, as its settings say.

    `noun` is empty where its name is. `tools` are words of `list`, `get`, `create`, `update`,
    `delete`, and `recipes` those of them that each recipe has. `key` are the columns that tell its
    rows. `bind` holds, by column, the kind of row of a session that it is, and `describe` sentences
    by column. `origin` says where the settings stand, for messages.
    """

    name: str
    origin: str
    noun: str = ""
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
    """What proves that a task is done: checks, and globs of files that sessions may not change.

    `watch` are globs of files of which it is told that a session has changed them.
    """

    checks: tuple[Check, ...]
    protect: Names
    watch: Names


@dataclass(frozen=True, slots=True)
class Queries:
    """The project's named queries, sorted by name.

    As JSON text: `facts` are what their tables are, and `settings` the table `[queries]`.
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

    `stored_removals` stand in the database, `configured_removals` in the config; both and
    `recipes` are sorted by name, and so are the `rules` on them. `replaced` are its own words for
    tools, sorted, `tables` those that further tools are made of, `own_tools` the tools of its own,
    and `queries` its named queries, if it has any. `settings` holds, by kit, its table of the
    config, and `surveys` what the kit found in the project's files, both as JSON text. `done` is
    what proves that a task is done, None where nothing has to. `http` is the table `[http]` as JSON
    text, empty where the project is not served over HTTP. `database` is where the config says that
    the database is, from the project's folder; empty for the usual place. `place` is where on a
    database server it is, if it is there. `variables` are those that programs get besides a
    standard set, None if they get all. `warnings` are for people, and so is `unusable_servers`,
    which says why sessions of some disciplines cannot start; nothing emitted depends on them.
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
    def database_named(self) -> str:
        """What servers are told of where the database is."""
        return self.place.named if self.place is not None else self.database or DATABASE

    def setting(self, kit: str, name: str) -> Any:
        """Return the value of a kit's setting: the config's, or the kit's own default."""
        return json.loads(dict(self.settings)[kit])[name]

    def survey(self, kit: str) -> Any:
        """Return what a kit found in the project's files, as a value of JSON."""
        return json.loads(dict(self.surveys)[kit])


def project_facts(project: ProjectFacts) -> dict[str, Any]:
    """Return the facts of a project; a clone without the database is checked against them."""
    definitions = project.schema.definitions
    return {
        "config": {
            **({"database": project.database} if project.database else {}),
            **({project.engine: asdict(project.place)} if project.place else {}),
            **({"describe": _words(project.replaced)} if project.replaced else {}),
            "disciplines": _listed(project.configured_removals),
            **_environment_facts(project.variables),
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
        "disciplines": _listed(project.stored_removals),
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


def _environment_facts(variables: Names | None) -> dict[str, Any]:
    return {} if variables is None else {"environment": {"variables": list(variables)}}


def _table_settings(tables: tuple[ServedTable, ...]) -> dict[str, Any]:
    """Return what is said of each table, by its name, without what nothing is said of."""
    found = {table.name: asdict(table) for table in tables}
    for said in found.values():
        del said["name"], said["origin"]
        said |= {key: dict(said[key]) for key in ("recipes", "bind", "describe")}
    return {
        name: {key: value for key, value in said.items() if value not in ((), {}, "")}
        for name, said in found.items()
    }


def done_facts(rules: DoneRules) -> dict[str, Any]:
    """Return the rules as values of JSON; of a check, what is said of it alone."""
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


def _listed(removals: tuple[Removal, ...]) -> Mapping[str, list[str]]:
    found: dict[str, set[str]] = {}
    for removal in removals:
        found.setdefault(removal.discipline, set()).update(removal.entries)
    return {discipline: sorted(entries) for discipline, entries in found.items()}


def _words(replaced: tuple[Replaced, ...]) -> Mapping[str, str]:
    return {one.entry: one.text for one in replaced}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a kit would have to serve in a project, for people; nothing emitted depends on it.

    `summary` says it in a few words, empty where there is nothing. `details` are its facts, by kind
    a list of objects with the same keys. `warnings` name what cannot be used.
    """

    summary: str
    details: Mapping[str, list[Mapping[str, Any]]]
    warnings: tuple[str, ...] = ()


class InspectedKit(Protocol):
    """What inspection asks of a kit; `KitDefinition` says what each member means."""

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
        """What a project adds to it, where it is the first that is on and takes any."""

    @property
    def survey(self) -> Callable[[Path, Mapping[str, Any]], object] | None:
        """Reads what the kit needs of the project's files."""

    @property
    def find(self) -> Callable[[Path, Mapping[str, Any]], Finding] | None:
        """Says what there would be to serve."""
