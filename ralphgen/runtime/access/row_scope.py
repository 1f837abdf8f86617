"""A tie: the row that an argument of a tool names when a session is about that row."""

from __future__ import annotations

from ..errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OWN, WITHIN, ANY = "own", "within", "any"
# What a policy says of an argument: the kind of row it names, and how far it reaches.
RULES: Mapping[str, tuple[str, str]] = {
    "own task": ("task", OWN),
    "task of own feature": ("task", WITHIN),
    "any task": ("task", ANY),
    "own feature": ("feature", OWN),
    "any feature": ("feature", ANY),
    "own discipline": ("discipline", OWN),
    "any discipline": ("discipline", ANY),
}


class BoundArgument:
    """One argument that may be left out, because the session knows the row.

    `kind` is task, feature or discipline, `value` the session's own row. `reach` says which others
    the argument may name: none (`OWN`), those that the kit finds close enough (`WITHIN`), or all
    (`ANY`).
    """

    __slots__ = ("kind", "reach", "value")

    def __init__(self, kind: str, reach: str, value: int | str) -> None:
        self.kind = kind
        self.reach = reach
        self.value = value

    def refuse_another(self, argument: str, value: object) -> None:
        """Raise `ToolError` for a value that the session's own row is not, where that counts."""
        if self.reach == OWN and value != self.value:
            from ..values.arguments import shortened

            own = shortened(self.value)
            raise ToolError(
                f'argument "{argument}" is {shortened(value)}, but this session works on the '
                f"{self.kind} {own} only: leave it out"
            )


def bound_arguments(
    rules: Mapping[str, Mapping[str, str]], rows: Mapping[str, int | str | None]
) -> dict[str, dict[str, BoundArgument]]:
    """By tool and argument, the ties to the rows that a session is about.

    `rules` holds the keys of `RULES` by tool and argument, `rows` the session's row by kind.
    """
    found: dict[str, dict[str, BoundArgument]] = {}
    for tool, arguments in rules.items():
        for argument, rule in arguments.items():
            kind, reach = RULES[rule]
            value = rows.get(kind)
            if value is not None:
                found.setdefault(tool, {})[argument] = BoundArgument(kind, reach, value)
    return found


def names_own_row(rules: Mapping[str, str], kinds: Sequence[str]) -> bool:
    """Return whether an argument of a tool can name nothing but the session's own row of a kind."""
    return any(RULES[rule][1] == OWN and RULES[rule][0] in kinds for rule in rules.values())
