"""The policy that was generated for a project, and the questions that a session asks of it."""

from __future__ import annotations

from .errors import StartError, ToolError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    Kept = TypeVar("Kept")

FULL = "manual"  # the profile that has every tool
ALL = "all"  # stands for every tool of a kit, in place of their names
REQUIRED, OPTIONAL, GRANTS = "required", "optional", "grants"
USER = "user"  # needed by an argument that only the user gives
WORDS = "words"  # needed by an argument that puts words in the user's name
NOTHING: Mapping[str, Any] = {}
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


class Recipe:
    """What a kind of session leaves.

    `tools` are names by kit, or `ALL` until the policy has named them. `base` is the built-in
    profile of a recipe of the project's own.
    `targets` are the kinds of rows that a session is about, each `"required"`, `"optional"`, or
    `"grants"` where the tools bound to such a row are hidden without one. By `"kit:tool"`:
    `narrowed_arguments` are the arguments that remain, `narrowed_values` the values that remain of
    an argument, `bound_arguments` the rows that an argument may name (see `RULES`), and
    `granted_by` the kinds of rows without any of which a session lacks the tool.
    `loaded_first` are the tools, by kit, that an agent cannot do without.
    """

    __slots__ = ("base", "bound", "first", "granted", "narrowed", "targets", "tools", "values")

    def __init__(
        self,
        *,
        tools: Mapping[str, Sequence[str]],
        base: str = "",
        targets: Mapping[str, str] = NOTHING,
        narrowed_arguments: Mapping[str, Sequence[str]] = NOTHING,
        narrowed_values: Mapping[str, Mapping[str, Sequence[str]]] = NOTHING,
        bound_arguments: Mapping[str, Mapping[str, str]] = NOTHING,
        granted_by: Mapping[str, Sequence[str]] = NOTHING,
        loaded_first: Mapping[str, Sequence[str]] = NOTHING,
    ) -> None:
        self.tools = tools
        self.base = base
        self.targets = targets
        self.narrowed = narrowed_arguments
        self.values = narrowed_values
        self.bound = bound_arguments
        self.granted = granted_by
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

    def name_tools(self, every: Mapping[str, Sequence[str]]) -> None:
        """Put the names of a kit's tools, which `every` has by kit, where a recipe says `ALL`.

        Raises `StartError` for any other word in the place of names, and where there are none.
        """
        for name, recipe in self.recipes.items():
            if any(isinstance(names, str) for names in recipe.tools.values()):
                recipe.tools = {
                    kit: _named(f'the recipe "{name}"', kit, names, every)
                    for kit, names in recipe.tools.items()
                }

    @property
    def every_tool(self) -> Mapping[str, Sequence[str]]:
        """The tools that the project has, by kit."""
        return self.recipes[FULL].tools

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return tuple(self.every_tool)

    def profile(self, recipe: str) -> str:
        """Return the built-in kind of session that a recipe comes from."""
        return self.recipes[recipe].base or recipe

    def targets(self, recipe: str) -> Mapping[str, str]:
        """Return the kinds of rows that a session is about, with how much it needs one."""
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
        found = {tool for tool in rules if names_own_row(rules[tool], granting)}
        granted = _of_kit(self.recipes[recipe].granted, kit)
        return frozenset(found.union(tool for tool in granted if {*granted[tool]} & {*kinds}))

    def granting(self, recipe: str, kit: str, tool: str) -> str:
        """Return the kinds of rows that a session of the recipe needs for a tool, in words."""
        return " and a ".join(self.recipes[recipe].granted.get(f"{kit}:{tool}", ()))

    def narrowed(self, recipe: str, kit: str) -> dict[str, Sequence[str]]:
        """Return, by tool, the arguments that a recipe leaves, for the tools that it narrows."""
        return _of_kit(self.recipes[recipe].narrowed, kit)

    def values(self, recipe: str, kit: str) -> dict[str, Mapping[str, Sequence[str]]]:
        """Return, by tool and argument, the values that a recipe leaves."""
        return _of_kit(self.recipes[recipe].values, kit)

    def bound(self, recipe: str, kit: str) -> dict[str, Mapping[str, str]]:
        """Return, by tool and argument, the rows that a session of the recipe may name."""
        return _of_kit(self.recipes[recipe].bound, kit)

    def loaded_first(self, recipe: str, kit: str) -> frozenset[str]:
        """Return the tools of a kit that an agent needs from its first turn on."""
        return frozenset(self.recipes[recipe].first.get(kit, ()))

    def knows(self, kit: str, name: str) -> bool:
        """Return whether the kit has a tool of this name, in this schema or in another."""
        return name in self.allowed(FULL, kit) or name in self._absent.get(kit, {})

    def reasons(self, kit: str, recipe: str, base: str, discipline: str | None) -> dict[str, str]:
        """Return, for every tool of the kit, the sentence that tells why a session does not see it.

        `recipe` is what the session calls itself, `base` the recipe that rules it.
        """
        allowed, removed = self.allowed(base, kit), self.removed(discipline, kit)
        reasons = dict(self._absent.get(kit, {}))
        for name in self.allowed(FULL, kit):
            if name not in allowed:
                reasons[name] = f'the recipe "{recipe}" does not include it'
            elif name in removed:
                reasons[name] = f'the discipline "{one_line(discipline or "")}" removes it'
            else:
                reasons[name] = "this session's context does not enable it"
        return reasons


def _named(
    recipe: str, kit: str, names: Sequence[str], every: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    """Return the names of the tools of a kit that a recipe has; raises `StartError`."""
    if not isinstance(names, str):
        return names
    if names != ALL:
        raise StartError(f'{recipe} has "{one_line(names)}" instead of a list of tools of "{kit}"')
    known = every.get(kit) if isinstance(every, dict) else None
    if not isinstance(known, list | tuple) or not all(isinstance(name, str) for name in known):
        raise StartError(f'{recipe} has all tools of "{kit}", but the manifest does not list them')
    return known


def _of_kit(found: Mapping[str, Kept], kit: str) -> dict[str, Kept]:
    """Return what stands under `"kit:tool"`, by tool."""
    prefix = f"{kit}:"
    return {key.removeprefix(prefix): kept for key, kept in found.items() if key.startswith(prefix)}


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
        if self.reach == OWN and value not in (self.value, str(self.value)):
            from .values.arguments import shortened

            own = shortened(self.value)
            raise ToolError(
                f'argument "{argument}" is {shortened(value)}, but this session works only on the '
                f"{self.kind} {own}: omit the argument"
            )


def bound_arguments(
    rules: Mapping[str, Mapping[str, str]], rows: Mapping[str, int | str | None]
) -> dict[str, dict[str, BoundArgument]]:
    """Return, by tool and argument, what binds it to the rows that a session is about.

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
