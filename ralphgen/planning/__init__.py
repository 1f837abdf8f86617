"""The model of a plan: the modules, tools, arguments and policy to emit, and its `tools/list`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ralphgen.project.model import Structured
from ralphgen.runtime.kit import Tool
from ralphgen.runtime.policy import FULL, OPTIONAL, USER, WORDS, Policy
from ralphgen.runtime.protocol.answers import add_schemas
from ralphgen.runtime.session import BY_COMMAND, ROWS, Session
from ralphgen.spelling import Construction, Value

Names = tuple[str, ...]
Values = tuple[str, ...] | tuple[int, ...]
"""The allowed values of a column."""
JsonObject = dict[str, Any]
TEXT: JsonObject = {}  # in an answer; short, because agents read every schema in each turn
LIST: JsonObject = {"type": "array"}
BOOLEAN: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}
OBJECTS: JsonObject = {"type": "array", "items": OBJECT}

RECIPES: Names = (
    "braindump",
    "yap",
    "ramble",
    "discuss",
    "task_execution",
    "opus_review",
    "enrichment",
)
"""The recipes of SPEC-070; each tool names the recipes that have it."""
INTERACTIVE = "interactive"
PROFILES: Names = (*RECIPES, INTERACTIVE, FULL)
"""All recipes: those of SPEC-070, the read-only default of clients, and the full set of tools."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a workflow: a sentence, and the tool that is called for it, if any.

    `given` holds the arguments that the step is about: by name the value, or None for any.
    """

    text: str
    tool: str = ""
    given: Mapping[str, str | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A sequence of calls with a title; without the tools in `needs` it makes no sense."""

    title: str
    steps: tuple[Step, ...]
    needs: Names = ()


@dataclass(frozen=True, slots=True)
class SkillPlan:
    """The Agent Skill of a kit, except for the parts from schemas and `PlannedTool`.

    `description` is in the third person and explains what the skill does and when to use it; an
    agent sees nothing else before it loads the skill. `overview` holds Markdown by heading.
    `variables` are the environment variables of the server, with a sentence each.
    """

    name: str
    title: str
    description: str
    overview: Mapping[str, str]
    workflows: tuple[Workflow, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: its JSON Schema, and whether it is required.

    `needs` is the tool, as `"kit:tool"`, that a session must have to be offered the argument.
    `refusal` is a special message for a wrong value, with `{value}` as its placeholder.
    """

    name: str
    schema: JsonObject
    required: bool = False
    needs: str = ""
    refusal: str = ""


def choice(
    name: str, values: Names, description: str = "", *, required: bool = False, refusal: str = ""
) -> Argument:
    """Return an argument that takes one of some words."""
    schema: JsonObject = {"type": "string", "enum": list(values)}
    if description:
        schema["description"] = description
    return Argument(name, schema, required=required, refusal=refusal)


def typed(
    name: str,
    kind: str,
    description: str = "",
    *,
    required: bool = False,
    needs: str = "",
    **rules: Any,
) -> Argument:
    """Return an argument of a type of JSON; `rules` are further members of its schema."""
    schema: JsonObject = {"type": kind, **rules}
    if description:
        schema["description"] = description
    return Argument(name, schema, required=required, needs=needs)


def answer_of(**fields: JsonObject) -> JsonObject:
    """Return the schema of an answer with these fields."""
    return {"type": "object", "properties": fields}


class Constant(list[Any]):
    """The allowed values of a column, emitted as a constant that schemas refer to by its name."""

    def __init__(self, name: str, values: Values) -> None:
        super().__init__(values)
        self.name = name


@dataclass(frozen=True, slots=True)
class ToolData:
    """The `data` of a tool: a constant `name` of its module, with the value of `call`.

    `module` is the emitted module of the names in the call, such as `"runtime.rows.table"`.
    """

    name: str
    module: str
    call: Construction


@dataclass(kw_only=True)
class PlannedTool(Tool):
    """A tool of a plan: a `Tool`, the sessions that have it, and its words in the skill.

    `properties`, `required`, `needs` and `refusals` follow from `arguments`, `reserved` and
    `signed`. `module` is the emitted module of the kit that lists the tool. Without `run`, the
    function has the tool's name and is in the module of this name in the kit's `server/`.
    `returns` is the JSON Schema of the answer, for a list or a row.

    Sessions of `recipes` have the tool, "manual" always, and "interactive" if the tool only reads
    there and is `interactive`. `loaded_first_in` names the recipes whose agents need it in their
    first turn. Sessions close their work with a tool that `closes`. `reserved` names, by argument,
    the only recipes that have it besides "manual"; without a recipe it is the user's. Of these,
    the `signed` are the user's own words, which no client writes. `narrowed_arguments`
    are the remaining ones by recipe, and `narrowed_values` the remaining values by recipe and
    argument. `bound` has, by argument, the rows that it can name (see `runtime/policy.py`).
    Sessions without a row of each kind of `granted_by` lack the tool.

    In the skill, `purpose` completes "use it to", `answer` completes "it returns", and `instead`
    has the purposes of other tools of the kit. `instruction` and `advice` cannot name other tools:
    a session may lack them.
    """

    name: str = field(kw_only=False)
    description: str
    hints: Mapping[str, bool]
    module: str
    arguments: tuple[Argument, ...] = ()
    returns: JsonObject = field(default_factory=dict)
    search_hint: str = ""
    writes_by: Sequence[str] = ()
    run: str = ""
    data: ToolData | None = None
    recipes: Names = ()
    interactive: bool = True
    loaded_first_in: Names = ()
    closes: bool = False
    reserved: Mapping[str, Names] = field(default_factory=dict)
    signed: Names = ()
    narrowed_arguments: Mapping[str, Names] = field(default_factory=dict)
    narrowed_values: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)
    granted_by: Names = ()
    instruction: str = ""
    advice: str = ""
    purpose: str = ""
    answer: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loaded_first, self.bound_arguments = False, {}
        self.properties = {one.name: one.schema for one in self.arguments}
        self.required = [one.name for one in self.arguments if one.required]
        self.refusals = {one.name: one.refusal for one in self.arguments if one.refusal}
        self.needs = {
            one.name: one.needs or (WORDS if one.name in self.signed else USER)
            for one in self.arguments
            if one.needs or self.reserved.get(one.name, RECIPES) == ()
        }

    @property
    def reads(self) -> bool:
        """True if the tool only reads."""
        return self.hints.get("readOnlyHint", False)

    @property
    def argument_names(self) -> Names:
        """The names of the arguments, in order."""
        return tuple(self.properties)

    @property
    def constants(self) -> dict[str, Constant]:
        """The lists of values in the schemas that are emitted as constants, by name."""
        rules: list[Any] = [*self.properties.values()]
        lists = []
        while rules:
            rule = rules.pop()
            if isinstance(rule, Constant):
                lists.append(rule)
            elif isinstance(rule, dict):
                rules += rule.values()
        return {one.name: one for one in lists}

    def offered(self, profile: str) -> bool:
        """Return whether sessions of a profile have the tool."""
        if profile == INTERACTIVE:
            kept = self.remaining(profile)
            only_reads = bool(self.writes_by) and not {*self.writes_by} & {*kept}
            return self.interactive and (self.reads or only_reads)
        return profile == FULL or profile in self.recipes

    def remaining(self, profile: str) -> Names:
        """Return the names of the arguments that sessions of a profile are offered, in order."""
        kept = self.narrowed_arguments.get(profile, self.argument_names)
        withheld = {
            name
            for name, recipes in self.reserved.items()
            if profile != FULL and profile not in recipes
        }
        return tuple(name for name in self.argument_names if name in kept and name not in withheld)


@dataclass(frozen=True, slots=True)
class Module:
    """One emitted file: `path` below `.ralph/mcp/`, the template and its values."""

    path: str
    template: str
    values: JsonObject


@dataclass(frozen=True, slots=True)
class HttpUse:
    """Restrictions of a kit over HTTP, if the server and the agent do not share files.

    `withheld` names tools; `withheld_values` holds, by tool and argument, the values that a session
    about a task may not give there.
    """

    withheld: Names = ()
    withheld_values: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KitPlan:
    """One server: its tools, its emitted modules and the rows that a session can be about.

    The tools of a noun share a module; `nouns` gives each of them its title. `server` is the
    package that is copied to `runtime/<key>/`. `settings` is emitted as `SETTINGS` in
    `<key>/settings.py`, `modules` are further emitted files, and `assets` are texts, by path, that
    are copied without changes. `libraries` are packages, such as `ralphgen.kits.tables.server`,
    whose modules are copied to `runtime/tables/` if tools run them. The kit's workspace is opened
    with the settings, if there are any, and with the constants in `workspace`, as (module,
    constant). `absent` has the reason, by tool, for each tool without a place in the project.

    `targets` has the kinds of rows (task, feature, discipline) that a session can be about, by
    profile. A `"required"` row must be named, an `"optional"` one can be. A session can start
    without a `"grants"` row; it then lacks the tools that change only such a row (with an argument
    bound to the session's `own` row). `about` starts the server's instructions; it is empty if the
    server has a module `instructions`. `refusals` is the form of an answer to wrong arguments: a
    `"result"` for the agent, an `"error"` of the protocol, or, for all failures, an `"object"` of
    JSON. `logs_refusals` writes one log line for each refused call. `version` is the server's
    version, if it is not ralphgen's. `skill` is the kit's Agent Skill. `proves` is whether its
    tasks need the project's checks, `has_database` whether its workspace uses the database.
    `prompts` and `services` are the modules of the kit's server with the function `prompts` and the
    constant `SERVICES`, and `resources` is whether it has a module of this name. The rows of the
    tables in `row_resources` (module of the tools, constant there) are resources, too. `brief` is
    whether the module of `prompts` has a function of this name, for the brief of a session;
    `connected` is whether `workspace` has such a function, for a new client. `http` is how the kit
    works over HTTP; it is None if the kit needs the project's files, and so their machine.
    `warnings` are sentences for the user.
    """

    key: str
    server_name: str
    title: str
    nouns: Mapping[str, str]
    tools: tuple[PlannedTool, ...]
    server: str
    settings: Value = None
    modules: tuple[Module, ...] = ()
    assets: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[tuple[str, str], ...] = ()
    libraries: Names = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refusals: Literal["result", "error", "object"] = "result"
    logs_refusals: bool = False
    version: str = ""
    about: str = ""
    skill: SkillPlan | None = None
    proves: bool = False
    has_database: bool = False
    prompts: str = ""
    brief: bool = False
    connected: bool = False
    resources: bool = False
    row_resources: tuple[tuple[str, str], ...] = ()
    services: str = ""
    http: HttpUse | None = None
    warnings: Names = ()

    def __post_init__(self) -> None:
        for tool in self.tools:
            tool.run = tool.run or f"runtime.{self.key}.{tool.module}.{tool.name}"

    def allowed(self, profile: str) -> Names:
        """Return the names of the tools that sessions of a profile have, in order."""
        return tuple(tool.name for tool in self.tools if tool.offered(profile))

    @property
    def answers(self) -> JsonObject:
        """The JSON Schemas of answers, by tool."""
        return {tool.name: tool.returns for tool in self.tools if tool.returns}

    def members(self, noun: str) -> tuple[PlannedTool, ...]:
        """Return the tools in the module of a noun, in order."""
        return tuple(tool for tool in self.tools if tool.module == noun)

    @property
    def emitted_nouns(self) -> Names:
        """The nouns that have tools in this project, in order."""
        return tuple(noun for noun in self.nouns if self.members(noun))


@dataclass(frozen=True, slots=True)
class Wording:
    """A project's description of a tool or argument: the sizes of the old and new text in bytes."""

    entry: str
    before: int
    after: int

    @property
    def description_message(self) -> str:
        """A message for the user about the new description."""
        sizes = f"your own description ({self.after:,} bytes)"
        return f'"{self.entry}": {sizes} replaces that of ralphgen ({self.before:,} bytes)'


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Everything that is emitted; `facts` are the inspected facts, as JSON.

    `http` holds how the project is served over HTTP, or None if it is not. `warnings` are for the
    user; `overrides` are the warnings about a discipline, as (discipline, warning). `wordings` are
    the project's own descriptions of tools. `engine` is the database engine, whose package in
    `ralphgen/runtime/` is emitted. `tables` are the further tables and views that servers work on;
    `reads` are the columns that named queries read, by table.
    """

    kits: tuple[KitPlan, ...]
    policy: Policy
    structured_output: Structured
    schema_fingerprint: str
    hide: Names
    facts: JsonObject
    warnings: Names
    overrides: tuple[tuple[str, str], ...] = ()
    wordings: tuple[Wording, ...] = ()
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    engine: str = "sqlite"
    tables: Names = ()
    http: JsonObject | None = None
    views: str = ""


MOST_BYTES = 25_000  # of a list of tools, which an agent reads in each turn
# Example rows for sessions about a row, if only the size of the answer matters.
EXAMPLES: Mapping[str, int | str] = {"task": 1, "feature": "name", "discipline": "name"}


def session_tools(
    plan: ServerPlan,
    recipe: str,
    kit: KitPlan,
    *,
    discipline: str | None = None,
    rows: Mapping[str, int | str] | None = None,
) -> list[dict[str, Any]]:
    """Return the tools of a kit as a session of the recipe receives them, in order.

    `discipline` is the agent's, and `rows` the rows of the session, by kind. The default for `rows`
    is made-up rows for the kinds that the recipe needs.
    """
    session = supposed_session(plan.policy, recipe, kit.key, discipline=discipline, rows=rows)
    return entries_of(plan, kit, session.tools(kit.tools).values())


def entries_of(plan: ServerPlan, kit: KitPlan, tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return tools as `tools/list` shows them to a client that does not ask for schemas."""
    entries = [tool.entry() for tool in tools]
    if plan.structured_output is True:
        add_schemas(entries, kit.answers)
    return entries


def supposed_session(
    policy: Policy,
    recipe: str,
    kit: str,
    *,
    discipline: str | None = None,
    rows: Mapping[str, int | str] | None = None,
) -> Session:
    """Return a session of the recipe without a context (see `session_tools`).

    A session with every tool is the user's own.
    """
    about = needed_rows(policy, recipe) if rows is None else rows
    facts = {
        "session_id": "",
        "recipe": recipe,
        "discipline": discipline,
        **{key: about.get(kind) for kind, key in ROWS.items()},
        **({"user": BY_COMMAND} if policy.profile(recipe) == FULL else {}),
    }
    return Session(kit, facts, recipe, policy, None)


def listing_bytes(tools: list[dict[str, Any]]) -> int:
    """Return the bytes of the tools in the answer to `tools/list`, as compact JSON."""
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())


def long_lists(plan: ServerPlan) -> list[str]:
    """Return a sentence for each kit whose list of tools is long in a recipe, with the bytes."""
    found = []
    for kit in plan.kits:
        sizes = {
            recipe: listing_bytes(session_tools(plan, recipe, kit))
            for recipe in plan.policy.recipes
        }
        long = [f"{recipe} ({size:,})" for recipe, size in sizes.items() if size > MOST_BYTES]
        if long:
            found.append(
                f'the tools of server "{kit.key}" take more than {MOST_BYTES:,} bytes in '
                f"{', '.join(long)}: agents read them in every turn, so remove "
                "unneeded tools"
            )
    return found


def needed_rows(policy: Policy, recipe: str) -> dict[str, int | str]:
    """Return made-up rows of the kinds without which a session of the recipe could do less."""
    kinds = [kind for kind, need in policy.targets(recipe).items() if need != OPTIONAL]
    brought = ["feature"] if "task" in kinds else []
    granting = [kind for one in policy.recipes[recipe].granted_by.values() for kind in one]
    return {kind: EXAMPLES[kind] for kind in (*kinds, *brought, *granting)}
