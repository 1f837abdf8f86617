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
    """One argument of a tool: its JSON Schema, spelled out or by name, and whether it must be."""

    name: str
    schema: Value
    required: bool = False


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """One tool: the module that it stands in, and the function of the same name that runs it.

    `hints` is one of READS, ADDS, CHANGES and DELETES. `returns` is the JSON Schema of the
    answer's fields.
    """

    name: str
    module: str
    description: str
    hints: str
    arguments: tuple[Argument, ...]
    returns: JsonObject

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


@dataclass(frozen=True, slots=True)
class KitPlan:
    """One server: its tools, its emitted modules and what each kind of session leaves of it.

    Tools stand in the module of their noun; `nouns` gives each of those its title. `modules` are
    emitted besides, and `assets` are texts copied as they are, by path. `workspace` names the
    constants, as (module, constant), that the kit's workspace is opened with. `runtime` names the
    modules and folders below `runtime/` that this kit needs beyond the core's. `constants` holds
    the lists of values that arguments refer to, by the name they are emitted under. `absent` maps
    the tools that the project has no place for to the reason. `profiles` maps each of `PROFILES`
    to the names of its tools. `narrow` returns the arguments that a profile leaves of a tool, None
    for all of them. `refusals` says how wrong arguments are answered: as a `"result"` that the
    agent reads, or as an `"error"` of the protocol.
    """

    key: str
    server_name: str
    title: str
    nouns: Mapping[str, str]
    tools: tuple[ToolPlan, ...]
    runtime: Names
    constants: Mapping[str, Values]
    absent: Mapping[str, str]
    profiles: Mapping[str, Names]
    narrow: Callable[[str, ToolPlan], Names | None]
    modules: tuple[Module, ...] = ()
    assets: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[tuple[str, str], ...] = ()
    refusals: Literal["result", "error"] = "result"
    warnings: Names = ()

    def members(self, noun: str) -> tuple[ToolPlan, ...]:
        """The tools that stand in the module of a noun, in order."""
        return tuple(tool for tool in self.tools if tool.module == noun)

    @property
    def emitted_nouns(self) -> Names:
        """The nouns that have tools in this project, in order."""
        return tuple(noun for noun in self.nouns if self.members(noun))


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """Who may use what: every mapping as it is emitted (see `runtime/policy.py`)."""

    recipes: Mapping[str, Mapping[str, Names]]
    narrowed: Mapping[str, Mapping[str, Names]]
    removed: Mapping[str, Mapping[str, Names]]
    absent: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """Everything that is emitted; `facts` are the inspected ones, as JSON."""

    kits: tuple[KitPlan, ...]
    policy: PolicyPlan
    structured_output: bool
    schema_fingerprint: str
    hide: Names
    facts: JsonObject
    warnings: Names
