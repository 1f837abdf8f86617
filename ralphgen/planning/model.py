"""What a plan says: which modules, tools, arguments and policy to emit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ralphgen.spelling import Value

Names = tuple[str, ...]
Values = tuple[str, ...] | tuple[int, ...]
"""What a column may hold."""
JsonObject = dict[str, Any]

PROFILES: Names = (
    "braindump",
    "yap",
    "ramble",
    "discuss",
    "task_execution",
    "opus_review",
    "enrichment",
    "interactive",
    "manual",
)
"""The kinds of session that every kit has an answer for: the seven recipes of SPEC-070, what a
client sees that names none, and what a person sees who asks for everything."""


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


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """One tool: the module that it stands in, and the function of the same name that runs it.

    `hints` is one of READS, ADDS, CHANGES, DELETES, REPLACES and RUNS. `returns` is the JSON Schema
    of the answer's fields. `search_hint` holds words that a client may search for besides the name.
    `writes_by` names the arguments without which the tool only reads, where there are such ones.
    """

    name: str
    module: str
    description: str
    hints: str
    arguments: tuple[Argument, ...]
    returns: JsonObject
    search_hint: str = ""
    writes_by: Names = ()

    @property
    def reads(self) -> bool:
        """Whether the tool changes nothing."""
        return self.hints == "READS"


@dataclass(frozen=True, slots=True)
class Module:
    """One emitted file: `path` below `.ralph/mcp/`, the template and what it is filled with."""

    path: str
    template: str
    values: JsonObject


def _everything_kept(_profile: str, _tool: ToolPlan) -> Names | None:
    return None


def _nothing_narrowed(_profile: str, _tool: ToolPlan) -> Mapping[str, Names]:
    return {}


def _nothing_bound(_kinds: Names, _tool: ToolPlan) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What a skill says of a tool besides its schema.

    `task` is what it is for, as "use it to ..." goes on; `returns` what comes back. `rather` holds,
    by another tool of the kit, what that one is for instead.
    """

    task: str
    returns: str
    rather: Mapping[str, str] = field(default_factory=dict)


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
    an agent sees before it is loaded. `overview` holds Markdown by heading. `uses` has an entry for
    every tool that the kit can have; what a project does not have is left out of the skill.
    `variables` are those that the server heeds in its environment, with a sentence each.
    """

    name: str
    title: str
    description: str
    overview: Mapping[str, str]
    uses: Mapping[str, ToolUse]
    workflows: tuple[Workflow, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KitPlan:
    """One server: its tools, its emitted modules and what each kind of session leaves of it.

    Tools stand in the module of their noun; `nouns` gives each of those its title. `modules` are
    emitted besides, and `assets` are texts copied as they are, by path. `workspace` names the
    constants, as (module, constant), that the kit's workspace is opened with. `server` is the
    package that is copied to `runtime/<key>/`, empty where `assets` hold it; `runtime` names the
    rooms of `ralphgen/runtime/` that it needs beyond those that every server has. `constants` holds
    the lists of values that arguments refer to, by the name they are emitted under. `absent` maps
    the tools that the project has no place for to the reason. `profiles` maps each of `PROFILES`
    to the names of its tools. `narrow` returns the arguments that a profile leaves of a tool, None
    for all of them, and `narrow_values` the values that remain of arguments.

    `targets` says, by profile, which kinds of rows (task, feature, discipline) a session is about,
    each `"required"`, `"optional"`, or `"grants"` where the tools tied to such a row are hidden
    without one; `bind` takes such kinds and returns which row an argument of a tool may name, in
    the words of `runtime/access/row_scope.py`. `loaded_first` are the tools, by profile, that an
    agent needs from its first turn on, `closing` those with which sessions close their work.
    `prompts`, `resources` and `services` say whether the kit's server has such a module. `refusals`
    says how wrong arguments are answered: as a `"result"` that the agent reads, as an `"error"` of
    the protocol, or, like all failures, as an `"object"` of JSON. `skill` is what agents are told
    of the kit beyond its schemas.
    """

    key: str
    server_name: str
    title: str
    nouns: Mapping[str, str]
    tools: tuple[ToolPlan, ...]
    server: str
    runtime: Names
    constants: Mapping[str, Values]
    absent: Mapping[str, str]
    profiles: Mapping[str, Names]
    narrow: Callable[[str, ToolPlan], Names | None] = _everything_kept
    narrow_values: Callable[[str, ToolPlan], Mapping[str, Names]] = _nothing_narrowed
    targets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    bind: Callable[[Names, ToolPlan], Mapping[str, str]] = _nothing_bound
    loaded_first: Mapping[str, Names] = field(default_factory=dict)
    closing: Names = ()
    prompts: bool = False
    resources: bool = False
    services: bool = False
    modules: tuple[Module, ...] = ()
    assets: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[tuple[str, str], ...] = ()
    refusals: Literal["result", "error", "object"] = "result"
    skill: SkillPlan | None = None
    warnings: Names = ()

    def members(self, noun: str) -> tuple[ToolPlan, ...]:
        """The tools that stand in the module of a noun, in order."""
        return tuple(tool for tool in self.tools if tool.module == noun)

    @property
    def emitted_nouns(self) -> Names:
        """The nouns that have tools in this project, in order."""
        return tuple(noun for noun in self.nouns if self.members(noun))


@dataclass(frozen=True, slots=True)
class RecipePlan:
    """What a kind of session leaves: every mapping as it is emitted (see `runtime/policy.py`)."""

    tools: Mapping[str, Names]
    base: str
    targets: Mapping[str, str]
    narrowed_arguments: Mapping[str, Names]
    narrowed_values: Mapping[str, Mapping[str, Names]]
    bound_arguments: Mapping[str, Mapping[str, str]]
    loaded_first: Mapping[str, Names]


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """Who may use what: recipes by name, and what disciplines and the schema take away."""

    recipes: Mapping[str, RecipePlan]
    removed: Mapping[str, Mapping[str, Names]]
    absent: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Everything that is emitted; `facts` are the inspected ones, as JSON.

    `warnings` are for people; `overrides` are those of them that speak of a discipline, with it.
    """

    kits: tuple[KitPlan, ...]
    policy: PolicyPlan
    structured_output: bool
    schema_fingerprint: str
    hide: Names
    facts: JsonObject
    warnings: Names
    overrides: tuple[tuple[str, str], ...] = ()
