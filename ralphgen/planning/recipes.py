"""What is wrong with a recipe of the project's own: it can only take from its base."""

from collections.abc import Collection, Iterator, Sequence

from ralphgen.errors import Problem
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import PROFILES, KitPlan, Names, ToolPlan
from ralphgen.project.model import Recipe
from ralphgen.runtime.access.row_scope import OWN, RULES
from ralphgen.runtime.policy import GRANTS, REQUIRED
from ralphgen.suggestion import suggestion

LIST = "list"  # `ralphgen session list` is a command
ONLY_TAKES = "a recipe can only take from its base"


def recipe_problems(recipe: Recipe, kits: Sequence[KitPlan], catalog: Catalog) -> list[Problem]:
    """Every name in a recipe that means nothing, and everything that its base does not have."""
    if recipe.name in (*PROFILES, LIST):
        what = "a built-in one" if recipe.name != LIST else 'what "ralphgen session list" means'
        text = f'{recipe.origin}: the recipe "{recipe.name}" is {what}'
        return [Problem(text, "rename the file")]
    if recipe.base not in PROFILES:
        text = f'{recipe.place("base")}: there is no recipe "{recipe.base}" to take from'
        return [Problem(text, suggestion(recipe.base, PROFILES, "the bases"))]
    return [*_allow_problems(recipe, kits, catalog), *_narrow_problems(recipe, kits, catalog)]


def _allow_problems(recipe: Recipe, kits: Sequence[KitPlan], catalog: Catalog) -> Iterator[Problem]:
    planned = {kit.key: kit for kit in kits}
    for kit, names in recipe.allow:
        if kit not in catalog.tools:
            hint = suggestion(kit, catalog.tools, "the kits")
            yield Problem(f'{recipe.place(kit)}: "{kit}" is no kit', hint)
            continue
        for name in names:
            where = recipe.place(f"{kit}:{name}")
            if name not in catalog.tools[kit]:
                yield catalog.unknown(f"{kit}:{name}", where)
            elif kit in planned and not _has(planned[kit], recipe.base, name):
                text = f'{where}: the base "{recipe.base}" does not have "{name}"'
                yield Problem(text, ONLY_TAKES)


def _narrow_problems(
    recipe: Recipe, kits: Sequence[KitPlan], catalog: Catalog
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
                tied = _tied(recipe, kits, planned[kit], tools[name])
                problems = _argument_problems(recipe, planned[kit], tools[name], names, tied)
                yield from (Problem(f"{where}: {text}", hint) for text, hint in problems)


def _tied(recipe: Recipe, kits: Sequence[KitPlan], kit: KitPlan, tool: ToolPlan) -> set[str]:
    """The arguments of a tool whose row every session of the recipe that sees the tool has."""
    targets = [pair for one in kits for pair in one.targets.get(recipe.base, {}).items()]
    needed = tuple(kind for kind, need in targets if need == REQUIRED)
    granting = tuple(kind for kind, need in targets if need == GRANTS)
    own = {name for name, rule in kit.bind(granting, tool).items() if RULES[rule][1] == OWN}
    return own | set(kit.bind((*recipe.bind, *needed), tool))


def _argument_problems(
    recipe: Recipe, kit: KitPlan, tool: ToolPlan, names: Names, tied: Collection[str]
) -> Iterator[tuple[str, str]]:
    """(sentence, hint) for each argument that is wrong in the list of those that remain."""
    arguments = tuple(argument.name for argument in tool.arguments)
    left = kit.narrow(recipe.base, tool)
    for name in names:
        if name not in arguments:
            hint = suggestion(name, arguments, "the arguments")
            yield f'"{tool.name}" has no argument "{name}"', hint
        elif left is not None and name not in left:
            text = f'the base "{recipe.base}" does not have "{name}" of "{tool.name}"'
            yield text, ONLY_TAKES
    for argument in tool.arguments:
        needed = argument.required and (left is None or argument.name in left)
        if needed and argument.name not in names and argument.name not in tied:
            text = f'"{tool.name}" cannot be called without "{argument.name}"'
            yield text, "keep it, or do not allow the tool"


def _has(kit: KitPlan, base: str, name: str) -> bool:
    return name in kit.profiles[base] or name in kit.absent
