"""What a plan says: which modules, tools, arguments and policy to emit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.spelling import Value

Names = tuple[str, ...]
JsonObject = dict[str, Any]


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

    `runtime` names the modules and folders below `runtime/` that only this kit needs. `constants`
    holds the lists of values that arguments refer to, by the name they are emitted under. `absent`
    maps the tools that the project has no place for to the reason. `profiles` maps each built-in
    recipe to the names of its tools. `narrow` returns the arguments that a recipe leaves of a
    tool, None for all of them.
    """

    key: str
    server_name: str
    title: str
    tools: tuple[ToolPlan, ...]
    modules: tuple[Module, ...]
    runtime: Names
    constants: Mapping[str, Names]
    absent: Mapping[str, str]
    profiles: Mapping[str, Names]
    narrow: Callable[[str, ToolPlan], Names | None]
    warnings: Names = ()


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
