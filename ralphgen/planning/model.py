"""What a plan says: which modules, tools, arguments and policy to emit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ralphgen.project.model import Structured
from ralphgen.runtime.policy import FULL, Policy
from ralphgen.spelling import Construction, Value

Names = tuple[str, ...]
Values = tuple[str, ...] | tuple[int, ...]
"""The allowed values of a column."""
JsonObject = dict[str, Any]
TEXT: JsonObject = {}  # in an answer, where agents read each byte of a schema in every turn
LIST: JsonObject = {"type": "array"}
STRING: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}
STRINGS: JsonObject = {"type": "array", "items": STRING}
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

Hints = Literal["READ_ONLY", "NON_DESTRUCTIVE", "IDEMPOTENT", "DESTRUCTIVE", "OPEN_WORLD"]
"""The hints of a tool for clients: names of constants in `runtime/tool.py`."""


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
    """The Agent Skill of a kit, as far as no schema holds it: words that name no tool of their own.

    `description` is in the third person and says what the skill does and when to use it: all that
    an agent sees before it is loaded. `overview` holds Markdown by heading. What is said of a tool
    stands in its `ToolPlan`. `variables` are those that the server heeds in its environment, with a
    sentence each.
    """

    name: str
    title: str
    description: str
    overview: Mapping[str, str]
    workflows: tuple[Workflow, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: its JSON Schema, spelled out or by name, and whether it must be.

    `needs` is the tool, as `"kit:tool"`, that a session must have to be offered the argument.
    `refusal` is what is said of a wrong value, `{value}` in it, where the usual words will not do.
    """

    name: str
    schema: Value
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


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What makes the function of a tool that is not the kit's own: a function, of some data.

    `module` is the emitted one that has the function, such as `"runtime.tables.tools"`, and `data`
    the name of a constant of `KitPlan.data`.
    """

    function: str
    module: str
    data: str

    @property
    def name(self) -> str:
        """The dotted name of the function."""
        return f"{self.module}.{self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlan:
    """One tool: everything that is known of it but what it does.

    What clients are given: `name`, `description`, `arguments`, `hints`, `search_hint` (words that a
    client may search for besides the name) and `returns` (the JSON Schema of the answer, only for a
    list or a row).
    `module` is the module of the kit's `server/` that holds the function of the tool's name, unless
    `run` says what makes that function; and `writes_by` names the arguments without which the tool
    only reads, where there are such ones.

    Which sessions have it: those of `recipes`, those of "interactive" where it only reads, unless
    it is not `interactive`, and those of "manual" always. `loaded_first` names the recipes whose
    agents need it from their first turn on, and `closes` says that sessions close their work with
    it. Only sessions of "manual" and of the recipes that `reserved` names for an argument are
    offered that argument, and one that names no recipe is the user's alone: of these, `signed` name
    those that put words in the user's name, which no client does; `narrowed` holds, by
    recipe, the arguments that remain, and `narrowed_values`, by recipe and argument, the values
    that remain. `bound` says of an argument which rows it may name in a session that is about such
    a row, in the words of `runtime/policy.py`; `granted_by` are the kinds of rows without any of
    which only a person has the tool, since it would write what belongs to any.

    What agents are told: the server's instructions hold `instruction` and, behind those of all
    tools, `advice`. What several tools share is said once, with the names of those that the session
    has for `{tools}`; neither may name another tool, which the session might lack. In the skill,
    `purpose` goes on after "use it to", `answer` after "it returns", and `instead` holds, by
    another tool of the kit, what that one is for.
    """

    name: str = field(kw_only=False)
    module: str
    hints: Hints
    description: str
    arguments: tuple[Argument, ...] = ()
    returns: JsonObject = field(default_factory=dict)
    search_hint: str = ""
    writes_by: Names = ()
    run: ToolRun | None = None
    recipes: Names = ()
    interactive: bool = True
    loaded_first: Names = ()
    closes: bool = False
    reserved: Mapping[str, Names] = field(default_factory=dict)
    signed: Names = ()
    narrowed: Mapping[str, Names] = field(default_factory=dict)
    narrowed_values: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)
    granted_by: Names = ()
    instruction: str = ""
    advice: str = ""
    purpose: str = ""
    answer: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads(self) -> bool:
        """Whether the tool changes nothing."""
        return self.hints == "READ_ONLY"

    @property
    def argument_names(self) -> Names:
        """The names of the arguments, in order."""
        return tuple(argument.name for argument in self.arguments)

    @property
    def personal(self) -> Names:
        """The arguments that only the user gives: a session of an agent has none of them."""
        return tuple(name for name in self.argument_names if self.reserved.get(name, RECIPES) == ())

    def offered(self, profile: str) -> bool:
        """Return whether sessions of a profile have the tool."""
        if profile == INTERACTIVE:
            kept = self.remaining(profile)
            only_reads = bool(self.writes_by) and not {*self.writes_by} & {*kept}
            return self.interactive and (self.reads or only_reads)
        return profile == FULL or profile in self.recipes

    def remaining(self, profile: str) -> Names:
        """Return the names of the arguments that sessions of a profile are offered, in order."""
        kept = self.narrowed.get(profile, self.argument_names)
        withheld = {
            name
            for name, recipes in self.reserved.items()
            if profile != FULL and profile not in recipes
        }
        return tuple(name for name in self.argument_names if name in kept and name not in withheld)


@dataclass(frozen=True, slots=True)
class Module:
    """One emitted file: `path` below `.ralph/mcp/`, the template and what it is filled with."""

    path: str
    template: str
    values: JsonObject


@dataclass(frozen=True, slots=True)
class HttpUse:
    """What a kit leaves out over HTTP, where the server's files are not those of the agent.

    `withheld` names tools; `withheld_values` holds, by tool and argument, the values that a session
    about a task may not give there.
    """

    withheld: Names = ()
    withheld_values: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KitPlan:
    """One server: its tools, its emitted modules and what a session of it is about.

    Tools stand in the module of their noun; `nouns` gives each of those its title. `server` is the
    package that is copied to `runtime/<key>/`. `settings` is emitted as `SETTINGS` in
    `<key>/settings.py`, `modules` are emitted besides, and `assets` are texts copied as they are,
    by path. `libraries` are packages, such as `ralphgen.kits.tables.server`, of which the modules
    that tools run are copied to `runtime/tables/`. The kit's workspace is opened with the settings,
    if there are any, and with the constants in `workspace`, as (module, constant). `constants`
    holds the lists of values that arguments refer to, by the name they are emitted under, and
    `data` what `ToolRun` names: by constant, the module and the call of what it has. `absent` maps
    the tools that the project has no place for to the reason.

    `targets` says, by profile, which kinds of rows (task, feature, discipline) a session is about
    and how much it needs one: none starts without a `"required"` one; an `"optional"` one may be
    named; and `"grants"` lets a session start without one, which then lacks the tools that may
    change nothing but such a row (those with an argument bound to the session's `own` one).
    `about` opens the server's instructions, before what its tools say; it is empty where the server
    has a module `instructions` that writes them.
    `refusals` says how wrong arguments are answered: as a `"result"` that the agent reads, as an
    `"error"` of the protocol, or, like all failures, as an `"object"` of JSON. `logs_refusals`
    writes one log line for each refused call. `version` is the version of the server, if that is
    not ralphgen's. `skill` is what
    agents are told of the kit beyond its schemas. `proves` says that it holds tasks to the checks
    of the project, and `has_database` that its workspace works on the database. `prompts`,
    `resources` and `services` say whether the kit's server has such a module; of the tables in
    `row_resources`, each the module of its tools and its constant there, rows are resources too.
    `brief` says whether `prompts` has a function of this name, which makes
    what agents are told when a session begins; `connected` says that its `workspace` has such a
    function, for when a client is there. `http` says how the kit is served over HTTP; it is None
    for one that works on the project's files, and so stays on their machine. `warnings` are
    sentences for people.
    """

    key: str
    server_name: str
    title: str
    nouns: Mapping[str, str]
    tools: tuple[ToolPlan, ...]
    server: str
    settings: Value = None
    modules: tuple[Module, ...] = ()
    assets: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[tuple[str, str], ...] = ()
    constants: Mapping[str, Values] = field(default_factory=dict)
    data: Mapping[str, tuple[str, Construction]] = field(default_factory=dict)
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
    prompts: bool = False
    brief: bool = False
    connected: bool = False
    resources: bool = False
    row_resources: tuple[tuple[str, str], ...] = ()
    services: bool = False
    http: HttpUse | None = None
    warnings: Names = ()

    def allowed(self, profile: str) -> Names:
        """Return the names of the tools that sessions of a profile have, in order."""
        return tuple(tool.name for tool in self.tools if tool.offered(profile))

    @property
    def answers(self) -> JsonObject:
        """The JSON Schemas of answers, by tool."""
        return {tool.name: tool.returns for tool in self.tools if tool.returns}

    def members(self, noun: str) -> tuple[ToolPlan, ...]:
        """Return the tools that stand in the module of a noun, in order."""
        return tuple(tool for tool in self.tools if tool.module == noun)

    @property
    def emitted_nouns(self) -> Names:
        """The nouns that have tools in this project, in order."""
        return tuple(noun for noun in self.nouns if self.members(noun))


@dataclass(frozen=True, slots=True)
class Wording:
    """The project's own words for a tool or an argument: their bytes, and of those they replace."""

    entry: str
    before: int
    after: int

    @property
    def told(self) -> str:
        """What a person is told of it."""
        sizes = f"your own description ({self.after:,} bytes)"
        return f'"{self.entry}": {sizes} replaces that of ralphgen ({self.before:,} bytes)'


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Everything that is emitted; `facts` are the inspected ones, as JSON.

    `http` holds how the project is served over HTTP, None where it is not.
    `warnings` are for people; `overrides` are those of them that speak of a discipline, with it.
    `wordings` are what the project says of tools in its own words.
    `engine` is the database's, of whose rooms in `ralphgen/runtime/` one is emitted. `tables` are
    those that servers work on besides the usual ones, and views; `reads` are the columns that named
    queries read, by table.
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
