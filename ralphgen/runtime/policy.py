"""The policy that was generated for a project, and the questions that a session asks of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FULL = "manual"  # the profile that has every tool


class Policy:
    """Recipes and disciplines: every later step only takes away (SPEC-070, the reductive filter).

    `recipes` holds tool names by recipe and kit; `narrowed_arguments` the arguments that remain,
    by recipe and `"kit:tool"`; `removed_tools` names by discipline and kit; `absent` the tools
    that the project's schema has no place for, by kit, each with the reason.
    """

    __slots__ = ("_absent", "_narrowed", "_removed", "recipes")

    def __init__(
        self,
        *,
        recipes: Mapping[str, Mapping[str, Sequence[str]]],
        narrowed_arguments: Mapping[str, Mapping[str, Sequence[str]]],
        removed_tools: Mapping[str, Mapping[str, Sequence[str]]],
        absent: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.recipes = recipes
        self._narrowed = narrowed_arguments
        self._removed = removed_tools
        self._absent = absent

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return tuple(self.recipes[FULL])

    def allowed(self, recipe: str, kit: str) -> frozenset[str]:
        """The tools of a kit that a recipe leaves; a kit that it does not name has none."""
        return frozenset(self.recipes[recipe].get(kit, ()))

    def removed(self, discipline: str | None, kit: str) -> frozenset[str]:
        """The tools of a kit that a discipline takes away."""
        return frozenset(self._removed.get(discipline or "", {}).get(kit, ()))

    def narrowed(self, recipe: str, kit: str) -> dict[str, Sequence[str]]:
        """By tool, the arguments that a recipe leaves, for the tools that it narrows."""
        prefix = f"{kit}:"
        found = self._narrowed.get(recipe, {})
        return {
            key.removeprefix(prefix): keep for key, keep in found.items() if key.startswith(prefix)
        }

    def knows(self, kit: str, name: str) -> bool:
        """Whether the kit has a tool of this name, in this project's schema or in another."""
        return name in self.allowed(FULL, kit) or name in self._absent.get(kit, {})

    def reasons(self, kit: str, recipe: str, base: str, discipline: str) -> dict[str, str]:
        """For every tool of the kit, the sentence that tells why a session does not see it.

        `recipe` is what the session calls itself, `base` the profile that rules it.
        """
        allowed, removed = self.allowed(base, kit), self.removed(discipline, kit)
        reasons = dict(self._absent.get(kit, {}))
        for name in self.allowed(FULL, kit):
            if name not in allowed:
                reasons[name] = f'the recipe "{recipe}" leaves it out'
            elif name in removed:
                reasons[name] = f'the discipline "{discipline}" takes it away'
            else:
                reasons[name] = "this session's context does not enable it"
        return reasons
