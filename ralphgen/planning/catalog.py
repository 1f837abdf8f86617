"""Every name of a tool that there can be, and what is wrong with recipes that name others."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralphgen.errors import Problem
from ralphgen.planning.model import PROFILES, KitPlan, Names, PlannedTool
from ralphgen.project.model import OwnRecipe
from ralphgen.runtime.policy import GRANTS, OWN, REQUIRED, RULES
from ralphgen.suggestion import suggestion

ONLY_TAKES = "a recipe can only restrict its base"
BROUGHT: Mapping[str, Names] = {"task": ("task", "feature")}
"""The kinds of rows that a session about one kind is about too: a task brings its feature."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every tool name that each kit can have, whether it is on or not."""

    tools: Mapping[str, Names]

    def kits_of(self, name: str) -> tuple[str, ...]:
        """Return the kits that have a tool of this name."""
        return tuple(kit for kit, names in self.tools.items() if name in names)

    def resolved(self, entry: str) -> tuple[tuple[str, str], ...]:
        """Return the (kit, tool) pairs that `"tool"` or `"kit:tool"` means; none where unknown."""
        kit, colon, tool = entry.partition(":")
        if not colon:
            return tuple((kit, entry) for kit in self.kits_of(entry))
        return ((kit, tool),) if tool in self.tools.get(kit, ()) else ()

    def unknown(self, entry: str, origin: str) -> Problem:
        """Return the problem of an entry that means no tool."""
        names = sorted({name for tools in self.tools.values() for name in tools})
        hint = suggestion(entry.rpartition(":")[2], names, "the tools")
        return Problem(f'{origin}: no kit has a tool "{entry}"', hint)


def recipe_problems(recipe: OwnRecipe, kits: Sequence[KitPlan], catalog: Catalog) -> list[Problem]:
    """Return a problem for each name in a recipe that means nothing or that its base lacks."""
    if recipe.name in PROFILES:
        text = f'{recipe.origin}: the recipe "{recipe.name}" is built in'
        return [Problem(text, "rename the file")]
    if recipe.base not in PROFILES:
        text = f'{recipe.place("base")}: there is no base "{recipe.base}"'
        return [Problem(text, suggestion(recipe.base, PROFILES, "the bases"))]
    return [*_allow_problems(recipe, kits, catalog), *_narrow_problems(recipe, kits, catalog)]


def _allow_problems(
    recipe: OwnRecipe, kits: Sequence[KitPlan], catalog: Catalog
) -> Iterator[Problem]:
    planned = {kit.key: kit for kit in kits}
    for kit, names in recipe.allow:
        if kit not in catalog.tools:
            hint = suggestion(kit, catalog.tools, "the kits")
            yield Problem(f'{recipe.place(kit)}: there is no kit "{kit}"', hint)
            continue
        for name in names:
            where = recipe.place(f"{kit}:{name}")
            if name not in catalog.tools[kit]:
                yield catalog.unknown(f"{kit}:{name}", where)
            elif kit in planned and not _has(planned[kit], recipe.base, name):
                text = f'{where}: the base "{recipe.base}" does not have "{name}"'
                yield Problem(text, ONLY_TAKES)


def _narrow_problems(
    recipe: OwnRecipe, kits: Sequence[KitPlan], catalog: Catalog
) -> Iterator[Problem]:
    planned = {kit.key: kit for kit in kits}
    for entry, names in recipe.narrow:
        where = recipe.place(f"narrow {entry}")
        pairs = catalog.resolved(entry)
        if not pairs:
            yield catalog.unknown(entry, where)
        for kit, name in pairs:
            tools = {tool.name: tool for tool in planned[kit].tools} if kit in planned else {}
            if name in tools and not _has(planned[kit], recipe.base, name):
                text = f'{where}: the base "{recipe.base}" does not have "{name}"'
                yield Problem(text, ONLY_TAKES)
            elif name in tools:
                given = _given_by_session(recipe, kits, tools[name])
                problems = _argument_problems(recipe, tools[name], names, given)
                yield from (Problem(f"{where}: {text}", hint) for text, hint in problems)


def _given_by_session(recipe: OwnRecipe, kits: Sequence[KitPlan], tool: PlannedTool) -> set[str]:
    """Return the arguments whose row every session of the recipe that has the tool knows."""
    targets = [pair for one in kits for pair in one.targets.get(recipe.base, {}).items()]
    needed = tuple(kind for kind, need in targets if need == REQUIRED)
    granting = tuple(kind for kind, need in targets if need == GRANTS)
    own = {name for name, rule in bound_rows(granting, tool).items() if RULES[rule][1] == OWN}
    return own | set(bound_rows((*recipe.bind, *needed), tool))


def about(recipe: str, kit: KitPlan) -> set[str]:
    """Return the kinds of rows that a session of a recipe can be about, and those they bring."""
    kinds = kit.targets.get(recipe, {})
    return {brought for kind in kinds for brought in BROUGHT.get(kind, (kind,))}


def bound_rows(kinds: Names, tool: PlannedTool) -> dict[str, str]:
    """Return, by argument, the rows it may name in a session about rows of these kinds.

    The values are keys of `RULES`; arguments come in the order of the kinds there.
    """
    about = {brought for kind in kinds for brought in BROUGHT.get(kind, (kind,))}
    return {
        name: rule
        for rule, (kind, _) in RULES.items()
        if kind in about
        for name, bound in tool.bound.items()
        if bound == rule and name in tool.argument_names
    }


def _argument_problems(
    recipe: OwnRecipe, tool: PlannedTool, names: Names, given: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (sentence, hint) for each argument that is wrong in the list of those that remain.

    `given` are those that a call may leave out, since the session knows them.
    """
    left = tool.remaining(recipe.base)
    for name in names:
        if name not in tool.argument_names:
            hint = suggestion(name, tool.argument_names, "the arguments")
            yield f'"{tool.name}" has no argument "{name}"', hint
        elif name not in left:
            text = f'the base "{recipe.base}" does not have "{name}" of "{tool.name}"'
            yield text, ONLY_TAKES
    for name in tool.required:
        if name in left and name not in names and name not in given:
            text = f'"{tool.name}" cannot be called without "{name}"'
            yield text, "keep it, or do not allow the tool"


def _has(kit: KitPlan, base: str, name: str) -> bool:
    return name in kit.allowed(base) or name in kit.absent
