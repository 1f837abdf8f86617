"""The kit `rye`: its settings, its five tools and the items that it brings."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ralphgen.kits.rye.finding import find_items
from ralphgen.kits.rye.skill import SKILL
from ralphgen.kits.rye.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Project
from ralphgen.rendering.texts import package_texts
from ralphgen.spelling import Lines

Word = Literal["off", "warn", "integrity", "trusted"]
WORDS = ("off", "warn", "integrity", "trusted")
HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Policies(BaseModel):
    """How far items of each type must be trusted at least when they are executed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    directive: Word = Field(default="off", description="Minimum trust for workflows.")
    tool: Word = Field(default="off", description="Minimum trust for programs.")
    knowledge: Word = Field(default="off", description="Minimum trust for knowledge.")


def _by_type(value: object) -> object:
    """A word stands for all types."""
    if not isinstance(value, str):
        return value
    if value not in WORDS:
        known = ", ".join(f'"{word}"' for word in WORDS)
        raise PydanticCustomError("policy", "one of {known}, or a table of types", {"known": known})
    return dict.fromkeys(Policies.model_fields, value)


def _host(value: str) -> str:
    if not HOST.fullmatch(value):
        raise PydanticCustomError("host", "a host or host:port")
    return value.lower()


def _variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise PydanticCustomError("variable", "the name of an environment variable")
    return value


class RyeSettings(BaseModel):
    """`[rye]`: whether there is a tool `help`, and what the project takes from the user's policy.

    The user's own file, `rye.toml` of the user space, permits; these settings can only be stricter.
    `policy` is one word for all types of items, or a table of them. Tools that ask over HTTP may
    reach only `hosts`, unless none are named. No tool runs for longer than `max_timeout` seconds;
    of the server's environment it gets what every program needs, and the variables in `env` that
    the user permits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    help: bool = Field(default=True, description="Provide the help tool.")
    policy: Annotated[Policies, BeforeValidator(_by_type)] = Field(
        default=Policies(), description="Minimum trust of items, for all types or by type."
    )
    hosts: list[Annotated[str, AfterValidator(_host)]] = Field(
        default=[], description="Allowed HTTP hosts (default: any public host)."
    )
    max_timeout: int = Field(
        default=300, ge=1, le=3_600, description="Maximum run time of a tool in seconds."
    )
    env: list[Annotated[str, AfterValidator(_variable)]] = Field(
        default=[], description="Environment variables for tools, if the user allows them."
    )


PACKAGE = "ralphgen.kits.rye"
EMITTED = ("policy", "hosts", "max_timeout", "env")
HELP = "help"
SERVER = KitPlan(
    key="rye",
    server_name="rye",
    title="Find, read, execute and sign directives, tools and knowledge.",
    nouns={"items": "Tools for items of every type."},
    tools=TOOLS,
    server=f"{PACKAGE}.server",
    workspace=(("items", "TOOLS"),),
    refusals="object",
    about=(
        "Items are directives (workflows to follow), tools (programs) and knowledge in the .ai/ "
        "directories of the project, the user and the system; the first one with a matching id "
        "is used."
    ),
    skill=SKILL,
)


def plan_rye(project: Project) -> KitPlan:
    """Return the server of the kit rye; its items are found when the server is asked."""
    helps = project.setting(SERVER.key, HELP)
    settings = {name: project.setting(SERVER.key, name) for name in EMITTED}
    return replace(
        SERVER,
        tools=tuple(tool for tool in TOOLS if helps or tool.name != HELP),
        settings=Lines({name: _unchanging(value) for name, value in settings.items()}),
        assets={f"{SERVER.key}/system/{path}": text for path, text in system_items().items()},
        absent={} if helps else {HELP: "disabled in the config"},
    )


def system_items() -> Mapping[str, str]:
    """Return the text of each item that every project has, by its path below their space."""
    return package_texts(PACKAGE, "system")


def _unchanging(value: Any) -> Any:
    """Return a setting as it is emitted, where nothing may add to a list."""
    return tuple(value) if isinstance(value, list) else value


RYE = KitDefinition(SERVER, plan_rye, RyeSettings, find=find_items)
