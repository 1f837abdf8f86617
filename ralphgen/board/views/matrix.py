"""Who sees what: every tool of every recipe, alone or in a discipline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ralphgen.board.views.policy_cells import PolicyCell, SessionView, absent_cell, policy_cell
from ralphgen.generate.workflows import Generated
from ralphgen.kits.registry import KITS
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import KitPlan
from ralphgen.planning.preview import listed_bytes, runtime_policy, suite, supposed_session
from ralphgen.project.model import Removal
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.tool import Tool

BYTES_A_TOKEN = 3.2
CATALOG = Catalog({kit.key: kit.catalog for kit in KITS})
PURPOSES = {kit.key: {tool.name: tool.purpose for tool in kit.tools} for kit in KITS}


@dataclass(frozen=True, slots=True)
class RecipeHead:
    """A recipe with the size of what its sessions are listed, over all kits.

    `base` is the built-in recipe of one of the project's own, empty for a built-in one.
    """

    name: str
    base: str
    tools: int
    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool, with a cell for each recipe in their order."""

    tool: str
    description: str
    cells: tuple[PolicyCell, ...]


@dataclass(frozen=True, slots=True)
class KitGrid:
    """The tools that a kit has or would have, in its own order."""

    key: str
    title: str
    rows: tuple[ToolRow, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """All recipes and tools; `discipline` is the one that sessions work as, or None.

    In a recipe that is about a discipline, the chosen one is what the session is about, and not
    what it works as: there it takes nothing away.
    """

    discipline: str | None
    recipes: tuple[RecipeHead, ...]
    kits: tuple[KitGrid, ...]


def matrix(generated: Generated, discipline: str | None) -> Matrix:
    """Return the matrix for a discipline, or for sessions without one.

    Sessions are supposed to be about a row where the recipe needs one.
    """
    policy = runtime_policy(generated.plan.policy)
    suites = {kit.key: suite(generated.plan, kit) for kit in generated.plan.kits}
    views = {
        kit.key: tuple(_session_views(generated, policy, kit, suites[kit.key], discipline))
        for kit in generated.plan.kits
    }
    by_recipe = zip(*views.values(), strict=True)
    heads = tuple(_head(policy, columns) for columns in by_recipe)
    grids = tuple(_grid(kit, suites[kit.key], views[kit.key]) for kit in generated.plan.kits)
    return Matrix(discipline, heads, grids)


def _session_views(
    generated: Generated,
    policy: Policy,
    kit: KitPlan,
    tools: Sequence[Tool],
    discipline: str | None,
) -> Iterator[SessionView]:
    """Yield what a session of each recipe sees of the kit."""
    own = {recipe.name: recipe for recipe in generated.project.recipes}
    taken = tuple(_removals(generated, discipline))
    for recipe in policy.recipes:
        works_as = None if "discipline" in policy.targets(recipe) else discipline
        session = supposed_session(policy, recipe, kit.key, discipline=works_as)
        yield SessionView(
            policy=policy,
            kit=kit,
            session=session,
            tools=session.tools(tools),
            own=own.get(recipe),
            removals=() if works_as is None else taken,
            catalog=CATALOG,
        )


def _removals(generated: Generated, discipline: str | None) -> Iterator[Removal]:
    project = generated.project
    for removal in (*project.stored_removals, *project.configured_removals):
        if removal.discipline == discipline:
            yield removal


def _head(policy: Policy, views: Sequence[SessionView]) -> RecipeHead:
    """Return a recipe with what it sees of every kit."""
    name = views[0].session.recipe
    lists = [[tool.entry() for tool in view.tools.values()] for view in views]
    size = sum(listed_bytes(tools) for tools in lists)
    return RecipeHead(
        name=name,
        base=policy.recipes[name].base,
        tools=sum(len(tools) for tools in lists),
        tokens=round(size / BYTES_A_TOKEN),
        bytes=size,
    )


def _grid(kit: KitPlan, tools: Sequence[Tool], views: Sequence[SessionView]) -> KitGrid:
    whole = {tool.name: tool for tool in tools}
    known = [name for name in CATALOG.tools[kit.key] if name in whole or name in kit.absent]
    return KitGrid(kit.key, kit.title, tuple(_row(kit, name, whole, views) for name in known))


def _row(
    kit: KitPlan, name: str, whole: Mapping[str, Tool], views: Sequence[SessionView]
) -> ToolRow:
    if name in whole:
        tool = whole[name]
        return ToolRow(name, tool.description, tuple(policy_cell(view, tool) for view in views))
    purpose = PURPOSES[kit.key][name]
    cells = tuple(absent_cell(view, name) for view in views)
    return ToolRow(name, f"To {purpose}." if purpose else "", cells)
