"""Who may use what: recipes, disciplines and the kits' own lists become one policy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ralphgen.errors import Problem, ProjectError
from ralphgen.model import Project, Recipe, Removal
from ralphgen.planning.model import PROFILES, KitPlan, Names, PolicyPlan
from ralphgen.runtime.nearest import nearest


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
        near = nearest(entry.rpartition(":")[2], names)
        hint = f'did you mean "{near}"?' if near else f"the tools are {', '.join(names)}"
        return Problem(f'{origin}: no kit has a tool "{entry}"', hint)


def plan_policy(project: Project, kits: Sequence[KitPlan], catalog: Catalog) -> PolicyPlan:
    """The policy of a project.

    Raises `ProjectError` with a problem for every name that means nothing and for every recipe
    that asks for more than its base has: a typo must not widen what a session may do.
    """
    removals = (*project.stored_removals, *project.configured_removals)
    problems = [
        catalog.unknown(entry, removal.origin)
        for removal in removals
        for entry in removal.entries
        if not catalog.resolved(entry)
    ]
    built_in = PROFILES
    for recipe in project.recipes:
        problems.extend(_recipe_problems(recipe, built_in, kits, catalog))
    if problems:
        raise ProjectError.of(problems)
    bases = {name: name for name in built_in} | {
        recipe.name: recipe.base for recipe in project.recipes
    }
    return PolicyPlan(
        recipes=_recipes(project.recipes, built_in, kits),
        narrowed={name: found for name, base in bases.items() if (found := _narrowed(base, kits))},
        removed=_removed(removals, kits, catalog),
        absent={kit.key: kit.absent for kit in kits if kit.absent},
    )


def _recipes(
    recipes: Iterable[Recipe], built_in: Names, kits: Sequence[KitPlan]
) -> dict[str, dict[str, Names]]:
    planned = {name: {kit.key: kit.profiles[name] for kit in kits} for name in built_in}
    for recipe in recipes:
        allow = dict(recipe.allow)
        planned[recipe.name] = {
            kit: tuple(name for name in names if not allow or name in allow.get(kit, ()))
            for kit, names in planned[recipe.base].items()
        }
    return planned


def _narrowed(base: str, kits: Sequence[KitPlan]) -> dict[str, Names]:
    """By `kit:tool`, the arguments that remain, for the tools that the recipe narrows."""
    return {
        f"{kit.key}:{tool.name}": kept
        for kit in kits
        for tool in kit.tools
        if tool.name in kit.profiles[base]
        if (kept := kit.narrow(base, tool)) is not None
    }


def _removed(
    removals: Iterable[Removal], kits: Sequence[KitPlan], catalog: Catalog
) -> dict[str, dict[str, Names]]:
    """By discipline and kit, the names of tools that there are and that it takes away."""
    removed: dict[str, dict[str, Names]] = {}
    for removal in sorted(removals, key=lambda removal: removal.discipline):
        pairs = {pair for entry in removal.entries for pair in catalog.resolved(entry)}
        for kit in kits:
            before = removed.get(removal.discipline, {}).get(kit.key, ())
            names = tuple(
                tool.name
                for tool in kit.tools
                if (kit.key, tool.name) in pairs or tool.name in before
            )
            if names:
                removed.setdefault(removal.discipline, {})[kit.key] = names
    return removed


def _recipe_problems(
    recipe: Recipe, built_in: Names, kits: Sequence[KitPlan], catalog: Catalog
) -> list[Problem]:
    where = recipe.origin
    if recipe.name in built_in:
        return [
            Problem(f'{where}: the recipe "{recipe.name}" is a built-in one', "rename the file")
        ]
    if recipe.base not in built_in:
        near = nearest(recipe.base, built_in)
        hint = f'did you mean "{near}"?' if near else f"the bases are {', '.join(built_in)}"
        text = f'{recipe.place("base")}: there is no recipe "{recipe.base}" to take from'
        return [Problem(text, hint)]
    problems: list[Problem] = []
    planned = {kit.key: kit for kit in kits}
    for kit, names in recipe.allow:
        if kit not in catalog.tools:
            known = ", ".join(catalog.tools)
            text = f'{recipe.place(kit)}: "{kit}" is no kit'
            problems.append(Problem(text, f"the kits are {known}"))
            continue
        for name in names:
            where = recipe.place(f"{kit}:{name}")
            if name not in catalog.tools[kit]:
                problems.append(catalog.unknown(f"{kit}:{name}", where))
            elif kit in planned and not _has(planned[kit], recipe.base, name):
                text = f'{where}: the base "{recipe.base}" does not have "{name}"'
                problems.append(Problem(text, "a recipe can only take from its base"))
    return problems


def _has(kit: KitPlan, base: str, name: str) -> bool:
    return name in kit.profiles[base] or name in kit.absent
