"""How a kit takes part in inspection: its settings, and what it reads of the project's files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # commands on rows need no model of the settings
    from pydantic import BaseModel


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
