"""The policy of a project: its tools by name, and the recipes, disciplines and rules on them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.planning import PROFILES, RECIPES, KitPlan, Names, PlannedTool
from ralphgen.project.model import OwnRecipe, PolicyRule, ProjectFacts, Removal
from ralphgen.runtime.policy import (
    FULL,
    GRANTS,
    OWN,
    REQUIRED,
    RULES,
    WHOLE,
    Grants,
    Policy,
    Recipe,
)

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
        """Return the (kit, tool) pairs for `"tool"` or `"kit:tool"`; none if it is unknown."""
        kit, colon, tool = entry.partition(":")
        if not colon:
            return tuple((kit, entry) for kit in self.kits_of(entry))
        return ((kit, tool),) if tool in self.tools.get(kit, ()) else ()

    def unknown(self, entry: str, origin: str) -> Problem:
        """Return the problem of an entry that means no tool."""
        names = sorted({name for tools in self.tools.values() for name in tools})
        hint = suggestion(entry.rpartition(":")[2], names, "the tools")
        return Problem(f'{origin}: no kit has a tool "{entry}"', hint)


def unknown_recipe(place: str, name: str, project: ProjectFacts) -> Problem:
    """Return the problem of a setting that gives a tool to a recipe that is not built in."""
    own = next((one for one in project.recipes if one.name == name), None)
    if own is None:
        return Problem(
            f'{place}: there is no recipe "{name}"', suggestion(name, RECIPES, "the recipes")
        )
    hints = [f'write its base "{own.base}" here'] if own.base in RECIPES else []
    hints += [f'add the tool to "allow" in {own.origin}'] if own.allow else []
    text = f'{place}: "{name}" is a custom recipe and takes its tools from its base "{own.base}"'
    return Problem(text, ", and ".join(hints) or f'remove "{name}"')


def recipe_problems(recipe: OwnRecipe, kits: Sequence[KitPlan], catalog: Catalog) -> list[Problem]:
    """Return a problem for each name in a recipe that is unknown or missing in its base."""
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
                given = _session_arguments(recipe, kits, tools[name])
                problems = _argument_problems(recipe, tools[name], names, given)
                yield from (Problem(f"{where}: {text}", hint) for text, hint in problems)


def _session_arguments(recipe: OwnRecipe, kits: Sequence[KitPlan], tool: PlannedTool) -> set[str]:
    """Return the arguments whose row is known to every session that has the tool."""
    targets = [pair for one in kits for pair in one.targets.get(recipe.base, {}).items()]
    needed = tuple(kind for kind, need in targets if need == REQUIRED)
    granting = tuple(kind for kind, need in targets if need == GRANTS)
    own = {name for name, rule in binding_rows(granting, tool).items() if RULES[rule][1] == OWN}
    return own | set(binding_rows((*recipe.bind, *needed), tool))


def about(recipe: str, kit: KitPlan) -> set[str]:
    """Return the kinds of rows that a session of a recipe can be about, and those they bring."""
    kinds = kit.targets.get(recipe, {})
    return {brought for kind in kinds for brought in BROUGHT.get(kind, (kind,))}


def binding_rows(kinds: Names, tool: PlannedTool) -> dict[str, str]:
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
    """Yield (sentence, hint) for each argument that is wrong in a list of remaining arguments.

    `given` are the arguments that a call may omit, since the session provides them.
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


def rule_problems(
    rules: Sequence[PolicyRule], recipes: Mapping[str, Recipe], catalog: Catalog
) -> Iterator[Problem]:
    """Yield a problem for each tool that breaks a rule, and for each rule without any effect.

    A rule for an unknown recipe or unknown tools is a problem, so that a typo does not look like a
    rule that holds.
    """
    for rule in rules:
        if rule.recipe not in recipes:
            text = f'{rule.origin}: there is no recipe "{rule.recipe}"'
            yield Problem(text, suggestion(rule.recipe, recipes, "the recipes"))
            continue
        for kit, names in recipes[rule.recipe].tools.items():
            has = Grants("", dict.fromkeys(names, WHOLE))
            allowed = _allowed(rule, kit, names)
            if not has <= allowed:
                for (name, _), pattern in (has & allowed).removed.items():
                    yield _broken(rule, pattern, f"{kit}:{name}")
        for pattern in rule.never:
            if not any(
                _matches(pattern, kit, name)
                for kit, names in catalog.tools.items()
                for name in names
            ):
                yield _meaningless(rule, pattern, catalog)


def _allowed(rule: PolicyRule, kit: str, names: Sequence[str]) -> Grants:
    """Return the tools of a kit that a rule allows; the others have their pattern as the reason."""
    patterns = {
        (name, ""): pattern
        for pattern in reversed(rule.never)
        for name in names
        if _matches(pattern, kit, name)
    }
    allowed = [name for name in names if (name, "") not in patterns]
    return Grants("", dict.fromkeys(allowed, WHOLE), patterns)


def _matches(pattern: str, kit: str, tool: str) -> bool:
    return fnmatchcase(f"{kit}:{tool}" if ":" in pattern else tool, pattern)


def _meaningless(rule: PolicyRule, pattern: str, catalog: Catalog) -> Problem:
    kit, colon, _ = pattern.partition(":")
    if colon and not any(fnmatchcase(known, kit) for known in catalog.tools):
        text = f'{rule.origin}: no kit matches "{pattern}"'
        return Problem(text, suggestion(kit, catalog.tools, "the kits"))
    unknown = catalog.unknown(pattern, rule.origin)
    return Problem(f'{rule.origin}: no tool matches "{pattern}"', unknown.hint)


def _broken(rule: PolicyRule, pattern: str, tool: str) -> Problem:
    text = (
        f'{rule.origin}: the recipe "{rule.recipe}" has "{tool}", which a rule '
        f'forbids ("{pattern}")'
    )
    if rule.recipe in PROFILES:
        hint = (
            "remove the recipe from the settings of the tool, use a custom recipe without it, "
            "or change the rule"
        )
    else:
        hint = f'remove it from "allow" in the recipe "{rule.recipe}", or change the rule'
    return Problem(text, hint)


def plan_policy(project: ProjectFacts, kits: Sequence[KitPlan], catalog: Catalog) -> Policy:
    """Return the policy of a project.

    Raises `ProjectError` with a problem for every unknown name, for every recipe that asks for more
    than its base has, since a typo must not widen the permissions of a session, and for every tool
    that a rule of the project forbids to a recipe.
    """
    removals = (*project.stored_removals, *project.configured_removals)
    problems = [
        catalog.unknown(entry, removal.origin)
        for removal in removals
        for entry in removal.entries
        if not catalog.resolved(entry)
    ]
    for recipe in project.recipes:
        problems.extend(recipe_problems(recipe, kits, catalog))
    if problems:
        raise ProjectError.of(problems)
    own = {recipe.name: recipe for recipe in project.recipes}
    recipes = {name: _recipe(name, own.get(name), kits) for name in (*PROFILES, *own)}
    if broken := [*rule_problems(project.rules, recipes, catalog)]:
        raise ProjectError.of(broken)
    return Policy(
        recipes=recipes,
        removed_tools=_removed(removals, kits, catalog),
        absent={kit.key: kit.absent for kit in kits if kit.absent},
    )


def _recipe(name: str, own: OwnRecipe | None, kits: Sequence[KitPlan]) -> Recipe:
    """Return the permissions of a recipe: a built-in one, or `own`, which restricts its base."""
    base = own.base if own is not None else name
    tools = {kit.key: _tools(base, own, kit) for kit in kits}
    found = {kind: need for kit in kits for kind, need in kit.targets.get(base, {}).items()}
    targets = found | dict.fromkeys(own.bind if own is not None else (), "required")
    return Recipe(
        tools=tools,
        base=own.base if own is not None else "",
        targets=targets,
        narrowed_arguments=_narrowed(base, own, kits),
        narrowed_values=_values(base, kits),
        bound_arguments=_bindings(tools, targets, kits),
        granted_by=_granted(base, tools, targets, kits),
        loaded_first=_loaded_first(base, tools, kits),
    )


def _tools(base: str, own: OwnRecipe | None, kit: KitPlan) -> Names:
    allow = dict(own.allow) if own is not None else {}
    kept = allow.get(kit.key, ())
    return tuple(name for name in kit.allowed(base) if not allow or name in kept)


def _narrowed(base: str, own: OwnRecipe | None, kits: Sequence[KitPlan]) -> dict[str, Names]:
    """Return, by `kit:tool`, the arguments that remain of each tool that the recipe narrows."""
    found: dict[str, Names] = {}
    for kit in kits:
        for tool in kit.tools:
            if not tool.offered(base):
                continue
            left = kept = tool.remaining(base)
            narrowed = left != tool.argument_names
            for entry, names in own.narrow if own is not None else ():
                if entry in (tool.name, f"{kit.key}:{tool.name}"):
                    kept = tuple(name for name in kept if name in names)
                    narrowed = True
            if narrowed:
                found[f"{kit.key}:{tool.name}"] = kept
    return found


def _values(base: str, kits: Sequence[KitPlan]) -> dict[str, Mapping[str, Names]]:
    """Return, by `kit:tool` and argument, the values that remain."""
    return {
        f"{kit.key}:{tool.name}": kept
        for kit in kits
        for tool in kit.tools
        if tool.offered(base)
        if (kept := tool.narrowed_values.get(base))
    }


def _bindings(
    tools: Mapping[str, Names], targets: Mapping[str, str], kits: Sequence[KitPlan]
) -> dict[str, Mapping[str, str]]:
    """Return, by `kit:tool` and argument, the rows that a session may name."""
    return {
        f"{kit.key}:{tool.name}": rules
        for kit in kits
        for tool in kit.tools
        if tool.name in tools[kit.key]
        if (rules := binding_rows(tuple(targets), tool))
    }


def _granted(
    base: str, tools: Mapping[str, Names], targets: Mapping[str, str], kits: Sequence[KitPlan]
) -> dict[str, Names]:
    """Return, by `kit:tool`, the kinds of rows without which a session lacks the tool."""
    found = {
        f"{kit.key}:{tool.name}": tuple(
            kind for kind in tool.granted_by if targets.get(kind) != REQUIRED
        )
        for kit in kits
        for tool in kit.tools
        if base != FULL and tool.name in tools[kit.key]
    }
    return {entry: kinds for entry, kinds in found.items() if kinds}


def _loaded_first(
    base: str, tools: Mapping[str, Names], kits: Sequence[KitPlan]
) -> dict[str, Names]:
    """Return, by kit, the tools that an agent needs from its first turn on."""
    found = {
        kit.key: tuple(
            tool.name
            for tool in kit.tools
            if base in tool.loaded_first_in and tool.name in tools[kit.key]
        )
        for kit in kits
    }
    return {kit: names for kit, names in found.items() if names}


def _removed(
    removals: Iterable[Removal], kits: Sequence[KitPlan], catalog: Catalog
) -> dict[str, dict[str, Names]]:
    """Return, by discipline and kit, the names of the tools that the discipline removes."""
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


def override_warnings(
    removals: Iterable[Removal],
    recipes: Mapping[str, Recipe],
    kits: Sequence[KitPlan],
    catalog: Catalog,
) -> Iterator[tuple[str, str]]:
    """Yield (discipline, sentence) for each override without effect, or that hinders closing.

    An override has an effect if a kind of session other than the user's own has the tool.
    """
    closing = {(kit.key, tool.name) for kit in kits for tool in kit.tools if tool.closes}
    seen = {
        (kit, tool)
        for name, recipe in recipes.items()
        if name != FULL
        for kit, tools in recipe.tools.items()
        for tool in tools
    }
    for removal in removals:
        for entry in removal.entries:
            taken = [pair for pair in catalog.resolved(entry) if pair in seen]
            if not taken:
                text = f'"{entry}" has no effect: only the recipe "{FULL}" has it'
                yield removal.discipline, f"{removal.origin}: {text}"
            for pair in taken:
                if pair in closing:
                    text = f'"{entry}" removes a tool that sessions need to close their work'
                    yield removal.discipline, f"{removal.origin}: {text}"
