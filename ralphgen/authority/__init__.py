"""What sessions may do: read from emitted files, of a commit or of the disk, and compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ralphgen.runtime.policy import Policy
from ralphgen.runtime.tool import Tool


@dataclass(frozen=True, slots=True)
class Authority:
    """What one emitted server lets sessions do, for each recipe and discipline.

    `suites` are the tools of each kit before a session narrows them. `runs` has, by `"kit:tool"`,
    the definition of a query, function or table that the project wrote itself. `done` are the rules
    by which a task is done, or None. `settings` are those of each kit, and `shown` the columns, by
    table, that sessions can read. `rules` are, by recipe, the patterns of forbidden tools.
    """

    policy: Policy
    suites: Mapping[str, Sequence[Tool]] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    done: Mapping[str, Any] | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)


NOTHING = Authority(Policy(recipes={}, removed_tools={}, absent={}))
"""That of a project without a server."""


@dataclass(frozen=True, slots=True)
class AuthorityChange:
    """One thing that sessions may do now and could not, a `gain`, or the other way round.

    `tool` is `"kit:tool"`, empty where it is about none. `recipes` and `disciplines` are those
    whose sessions it is about, both empty where it is about all.
    """

    gain: bool
    tool: str
    text: str
    recipes: tuple[str, ...] = ()
    disciplines: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "gain": self.gain,
            "tool": self.tool or None,
            "text": self.text,
            "recipes": list(self.recipes),
            "disciplines": list(self.disciplines),
        }
