"""`[tables.<name>]`: what the config says of a table or a view that tools are made of."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

VERBS = ("list", "get", "create", "update", "delete")

Verb = Literal["list", "get", "create", "update", "delete"]
Name = Annotated[str, Field(min_length=1)]
Noun = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,49}$")]
Sentence = Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]*$", max_length=500)]


class TableSettings(BaseModel):
    """`[tables.<name>]`: the tools on a table or a view, and who has them.

    `noun` stands in their names. `filter` and `search` are columns that `list` takes, `hide` those
    that nobody sees, `key` those that tell the rows of a view. `recipes` says by recipe which tools
    it has; `bind` by column which row of the session it is; `describe` has a sentence by column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    noun: Noun | None = None
    tools: Annotated[list[Verb], Field(min_length=1)] | None = None
    filter: list[Name] = []
    search: list[Name] = []
    hide: list[Name] = []
    key: list[Name] = []
    interactive: bool = True
    recipes: dict[Name, list[Verb]] = {}
    bind: dict[Name, Literal["task", "feature", "discipline"]] = {}
    describe: dict[Name, Sentence] = {}

    @property
    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Each column that is named, behind the keys under which it stands."""
        for setting in ("filter", "search", "hide", "key"):
            for at, column in enumerate(getattr(self, setting)):
                yield (setting, at), column
        for setting in ("bind", "describe"):
            yield from (((setting, column), column) for column in getattr(self, setting))
