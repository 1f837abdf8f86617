"""The policy that was generated for a project, and the questions that a session asks of it."""

from __future__ import annotations

from .access.row_scope import names_own_row
from .errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    Kept = TypeVar("Kept")

FULL = "manual"  # the profile that has every tool
REQUIRED, OPTIONAL, GRANTS = "required", "optional", "grants"
NOTHING: Mapping[str, Any] = {}


class Recipe:
    """What a kind of session leaves.

    `tools` are names by kit. `base` is the built-in profile of a recipe of the project's own.
    `targets` are the kinds of rows that a session is about, each `"required"`, `"optional"`, or
    `"grants"` where the tools tied to such a row are hidden without one. By `"kit:tool"`:
    `narrowed_arguments` are the arguments that remain, `narrowed_values` the values that remain of
    an argument, `bound_arguments` the rows that an argument may name (see `tie.RULES`).
    `loaded_first` are the tools, by kit, that an agent cannot do without.
    """

    __slots__ = ("base", "bound", "first", "narrowed", "targets", "tools", "values")

    def __init__(
        self,
        *,
        tools: Mapping[str, Sequence[str]],
        base: str = "",
        targets: Mapping[str, str] = NOTHING,
        narrowed_arguments: Mapping[str, Sequence[str]] = NOTHING,
        narrowed_values: Mapping[str, Mapping[str, Sequence[str]]] = NOTHING,
        bound_arguments: Mapping[str, Mapping[str, str]] = NOTHING,
        loaded_first: Mapping[str, Sequence[str]] = NOTHING,
    ) -> None:
        self.tools = tools
        self.base = base
        self.targets = targets
        self.narrowed = narrowed_arguments
        self.values = narrowed_values
        self.bound = bound_arguments
        self.first = loaded_first


class Policy:
    """Recipes and disciplines: every later step only takes away (SPEC-070, the reductive filter).

    `removed_tools` holds names by discipline and kit; `absent` the tools that the project's schema
    has no place for, by kit, each with the reason.
    """

    __slots__ = ("_absent", "_removed", "recipes")

    def __init__(
        self,
        *,
        recipes: Mapping[str, Recipe],
        removed_tools: Mapping[str, Mapping[str, Sequence[str]]],
        absent: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.recipes = recipes
        self._removed = removed_tools
        self._absent = absent

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return tuple(self.recipes[FULL].tools)

    def profile(self, recipe: str) -> str:
        """Return the built-in kind of session that a recipe comes from."""
        return self.recipes[recipe].base or recipe

    def targets(self, recipe: str) -> Mapping[str, str]:
        """The kinds of rows that a session of the recipe is about, with how much it needs one."""
        return self.recipes[recipe].targets

    def allowed(self, recipe: str, kit: str) -> frozenset[str]:
        """Return the tools of a kit that a recipe leaves; a kit that it does not name has none."""
        return frozenset(self.recipes[recipe].tools.get(kit, ()))

    def removed(self, discipline: str | None, kit: str) -> frozenset[str]:
        """Return the tools of a kit that a discipline takes away."""
        taken = {} if discipline is None else self._removed.get(discipline, {})
        return frozenset(taken.get(kit, ()))

    def ungranted(self, recipe: str, kit: str, kinds: Sequence[str]) -> frozenset[str]:
        """Return the tools of a kit that a session lacks as long as it is about none of `kinds`."""
        granting = [kind for kind in kinds if self.targets(recipe).get(kind) == GRANTS]
        rules = self.bound(recipe, kit)
        return frozenset(tool for tool in rules if names_own_row(rules[tool], granting))

    def narrowed(self, recipe: str, kit: str) -> dict[str, Sequence[str]]:
        """By tool, the arguments that a recipe leaves, for the tools that it narrows."""
        return _of_kit(self.recipes[recipe].narrowed, kit)

    def values(self, recipe: str, kit: str) -> dict[str, Mapping[str, Sequence[str]]]:
        """By tool and argument, the values that a recipe leaves."""
        return _of_kit(self.recipes[recipe].values, kit)

    def bound(self, recipe: str, kit: str) -> dict[str, Mapping[str, str]]:
        """By tool and argument, the rows that a session of the recipe may name."""
        return _of_kit(self.recipes[recipe].bound, kit)

    def loaded_first(self, recipe: str, kit: str) -> frozenset[str]:
        """Return the tools of a kit that an agent needs from its first turn on."""
        return frozenset(self.recipes[recipe].first.get(kit, ()))

    def knows(self, kit: str, name: str) -> bool:
        """Whether the kit has a tool of this name, in this project's schema or in another."""
        return name in self.allowed(FULL, kit) or name in self._absent.get(kit, {})

    def reasons(self, kit: str, recipe: str, base: str, discipline: str | None) -> dict[str, str]:
        """For every tool of the kit, the sentence that tells why a session does not see it.

        `recipe` is what the session calls itself, `base` the recipe that rules it.
        """
        allowed, removed = self.allowed(base, kit), self.removed(discipline, kit)
        reasons = dict(self._absent.get(kit, {}))
        for name in self.allowed(FULL, kit):
            if name not in allowed:
                reasons[name] = f'the recipe "{recipe}" leaves it out'
            elif name in removed:
                reasons[name] = f'the discipline "{one_line(discipline or "")}" takes it away'
            else:
                reasons[name] = "this session's context does not enable it"
        return reasons


def _of_kit(found: Mapping[str, Kept], kit: str) -> dict[str, Kept]:
    """Return what stands under `"kit:tool"`, by tool."""
    prefix = f"{kit}:"
    return {key.removeprefix(prefix): kept for key, kept in found.items() if key.startswith(prefix)}
