"""Which kind of session has what of a kit, in the words of its skill, from the policy alone."""

from collections.abc import Iterator, Mapping

from ralphgen.planning.model import KitPlan, PolicyPlan, RecipePlan, ToolPlan
from ralphgen.runtime.access.row_scope import OWN, RULES, WITHIN
from ralphgen.runtime.policy import GRANTS, OPTIONAL, REQUIRED
from ralphgen.skills.arguments import codes
from ralphgen.spelling import markdown_cell

MOST = 100  # rows of a table: what is loaded stays short however many recipes a project has
_ABOUT = {REQUIRED: "a {}", OPTIONAL: "a {}, if one is named", GRANTS: "a {}, else it has less"}

Rows = tuple[tuple[str, ...], ...]
"""The cells of a table, in Markdown."""


def session_rows(kit: KitPlan, policy: PolicyPlan) -> Rows:
    """By recipe: its name, its base where it is one of the project's own, its rows, its tools."""
    names = tuple(tool.name for tool in kit.tools)
    return tuple(
        (
            markdown_cell(name),
            f"`{recipe.base}`" if recipe.base else "",
            "; ".join(_ABOUT[need].format(kind) for kind, need in recipe.targets.items()),
            "all" if recipe.tools[kit.key] == names else codes(recipe.tools[kit.key]) or "none",
        )
        for name, recipe in policy.recipes.items()
    )


def removal_rows(kit: KitPlan, policy: PolicyPlan) -> Rows:
    """By discipline that takes tools of the kit away: its name and their names."""
    return tuple(
        (markdown_cell(discipline), codes(removed[kit.key]))
        for discipline, removed in policy.removed.items()
        if kit.key in removed
    )


def differences(kit: KitPlan, tool: ToolPlan, policy: PolicyPlan) -> tuple[str, ...]:
    """A line of Markdown for each recipe that has a tool otherwise than a person has it."""
    lines = []
    for name, recipe in policy.recipes.items():
        if tool.name in recipe.tools[kit.key]:
            said = "; ".join(_differences(f"{kit.key}:{tool.name}", recipe))
            if said:
                lines.append(f"In {markdown_cell(name)}: {said}.")
    return tuple(lines)


def _differences(entry: str, recipe: RecipePlan) -> Iterator[str]:
    if entry in recipe.narrowed_arguments:
        kept = codes(recipe.narrowed_arguments[entry])
        yield f"takes {kept} only" if kept else "takes no arguments"
    values: Mapping[str, tuple[str, ...]] = recipe.narrowed_values.get(entry, {})
    for argument, left in values.items():
        yield f"`{argument}` is one of {codes(left)}"
    for argument, rule in recipe.bound_arguments.get(entry, {}).items():
        kind, reach = RULES[rule]
        other = {OWN: ", and no other", WITHIN: ", or another of its feature"}.get(reach, "")
        where = "" if recipe.targets.get(kind) == REQUIRED else f" where it has a {kind}"
        yield f"`{argument}` is the session's own {kind} if left out{other}{where}"
