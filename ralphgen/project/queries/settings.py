"""The config's table of the named queries."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.project.config_values import Name
from ralphgen.runtime.engine.queries import ROWS, SECONDS

KINDS = ("task", "feature", "discipline")
"""The rows of a session that a parameter can be bound to."""


class QuerySettings(BaseModel):
    """`[queries.<name>]`: who has a query, and which parameters are the session's own rows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    recipes: list[Name] = []
    interactive: bool = True
    bind: dict[Name, Annotated[str, Field(pattern=f"^({'|'.join(KINDS)})$")]] = {}


class QueriesSettings(BaseModel):
    """`[queries]`: how long a query may take and how many rows a page of it has, and each query."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, QuerySettings]

    seconds: Annotated[int, Field(ge=1, le=600)] = SECONDS
    rows: Annotated[int, Field(ge=1, le=10_000)] = ROWS

    @classmethod
    def usual(cls) -> "QueriesSettings":
        """Return what holds where the config says nothing."""
        return cls.model_validate({})

    @property
    def by_name(self) -> dict[str, QuerySettings]:
        """What is said of single queries, by name."""
        return self.__pydantic_extra__
