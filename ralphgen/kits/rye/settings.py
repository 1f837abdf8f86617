"""The kit's own table of the config."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Word = Literal["off", "warn", "integrity", "trusted"]
WORDS = ("off", "warn", "integrity", "trusted")
HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Policies(BaseModel):
    """How far items of each type are trusted when they are executed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    directive: Word = "warn"
    tool: Word = "integrity"
    knowledge: Word = "warn"


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
        raise PydanticCustomError("host", "a host, or a host and its port, as host:port")
    return value.lower()


def _variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise PydanticCustomError("variable", "the name of an environment variable")
    return value


class RyeSettings(BaseModel):
    """`[rye]`: whether there is a tool `help`, whom items are trusted by, and what they may reach.

    `policy` is one word for all types of items, or a table of them. Tools that ask over HTTP may
    reach only `hosts`; where none are named, all that are public. No tool runs for longer than
    `max_timeout` seconds; of the server's environment it gets what every program needs, and the
    variables in `env`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    help: bool = True
    policy: Annotated[Policies, BeforeValidator(_by_type)] = Policies()
    hosts: list[Annotated[str, AfterValidator(_host)]] = []
    max_timeout: int = Field(default=300, ge=1, le=3_600)
    env: list[Annotated[str, AfterValidator(_variable)]] = []
