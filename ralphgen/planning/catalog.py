"""Every name of a tool that there can be: what names in overrides and recipes are held against."""

from collections.abc import Mapping
from dataclasses import dataclass

from ralphgen.errors import Problem
from ralphgen.planning.model import Names
from ralphgen.suggestion import suggestion


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every tool name that each kit can have, whether it is on or not."""

    tools: Mapping[str, Names]

    def kits_of(self, name: str) -> tuple[str, ...]:
        """The kits that have a tool of this name."""
        return tuple(kit for kit, names in self.tools.items() if name in names)

    def resolved(self, entry: str) -> tuple[tuple[str, str], ...]:
        """The (kit, tool) pairs that `"tool"` or `"kit:tool"` means; none where unknown."""
        kit, colon, tool = entry.partition(":")
        if not colon:
            return tuple((kit, entry) for kit in self.kits_of(entry))
        return ((kit, tool),) if tool in self.tools.get(kit, ()) else ()

    def unknown(self, entry: str, origin: str) -> Problem:
        """The problem of an entry that means no tool."""
        names = sorted({name for tools in self.tools.values() for name in tools})
        hint = suggestion(entry.rpartition(":")[2], names, "the tools")
        return Problem(f'{origin}: no kit has a tool "{entry}"', hint)
