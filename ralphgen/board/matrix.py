"""Who sees what: every tool of every recipe, alone or in a discipline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning.model import (
    KitPlan,
    Names,
    ServerPlan,
    entries_of,
    listed_bytes,
    supposed_session,
)
from ralphgen.planning.server import full_catalog
from ralphgen.project.model import OwnRecipe, Removal
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.kit import Tool
from ralphgen.runtime.policy import ANY, OWN, RULES, WITHIN, Policy
from ralphgen.runtime.session import ROWS, Session

BYTES_A_TOKEN = 3.2
PURPOSES = {kit.key: {tool.name: tool.purpose for tool in kit.tools} for kit in KITS}
OTHERS = {"task": "another task of its feature"}
"""By kind of row that may be named within bounds, which others those are."""
State = Literal["visible", "narrowed", "bound", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class PolicyCell:
    """One recipe and one tool.

    `visible`, `narrowed` (to fewer arguments or values) and `bound` tools (bound to the session's
    own row, maybe narrowed too) are listed to agents, with `arguments`; `removed` and `absent` ones
    are not. `sentence` explains the state, and `detail` holds further clauses.
    """

    recipe: str
    state: State
    sentence: str
    detail: Names = ()
    arguments: Names = ()


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """The tools of one kit that a session of one recipe sees, and the reasons for removals.

    `tools` are the listed tools, by name. `own` is the recipe if it is custom, and `removals` are
    those of the discipline.
    """

    policy: Policy
    kit: KitPlan
    session: Session
    tools: Mapping[str, Tool]
    own: OwnRecipe | None
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True)
class RecipeHead:
    """A recipe with the size of its sessions' tool lists, over all kits.

    `base` is the built-in recipe of a custom one, empty for a built-in one.
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

    A recipe that works on a discipline uses the chosen one as the session's subject, not as its
    role: there it removes nothing.
    """

    discipline: str | None
    recipes: tuple[RecipeHead, ...]
    kits: tuple[KitGrid, ...]


def matrix(project: Project, discipline: str | None) -> Matrix:
    """Return the matrix for a discipline, or for sessions without one.

    If a recipe requires a row, its sessions are assumed to have one.
    """
    policy = project.plan.policy
    views = {
        kit.key: tuple(_session_views(project, policy, kit, discipline))
        for kit in project.plan.kits
    }
    by_recipe = zip(*views.values(), strict=True)
    heads = tuple(_head(project.plan, policy, columns) for columns in by_recipe)
    grids = tuple(_grid(kit, views[kit.key]) for kit in project.plan.kits)
    return Matrix(discipline, heads, grids)


def _session_views(
    project: Project,
    policy: Policy,
    kit: KitPlan,
    discipline: str | None,
) -> Iterator[MatrixColumn]:
    """Yield the view of a session of each recipe on the kit."""
    own = {recipe.name: recipe for recipe in project.facts.recipes}
    removals = (*project.facts.stored_removals, *project.facts.configured_removals)
    taken = tuple(removal for removal in removals if removal.discipline == discipline)
    for recipe in policy.recipes:
        works_as = None if "discipline" in policy.targets(recipe) else discipline
        session = supposed_session(policy, recipe, kit.key, discipline=works_as)
        yield MatrixColumn(
            policy=policy,
            kit=kit,
            session=session,
            tools=session.tools(kit.tools),
            own=own.get(recipe),
            removals=() if works_as is None else taken,
        )


def _head(plan: ServerPlan, policy: Policy, views: Sequence[MatrixColumn]) -> RecipeHead:
    """Return a recipe with the size of its tools in all kits."""
    name = views[0].session.recipe
    lists = [entries_of(plan, view.kit, view.tools.values()) for view in views]
    size = sum(listed_bytes(tools) for tools in lists)
    return RecipeHead(
        name=name,
        base=policy.recipes[name].base,
        tools=sum(len(tools) for tools in lists),
        tokens=round(size / BYTES_A_TOKEN),
        bytes=size,
    )


def _grid(kit: KitPlan, views: Sequence[MatrixColumn]) -> KitGrid:
    whole = {tool.name: tool for tool in kit.tools}
    every = full_catalog(KITS, [kit]).tools[kit.key]  # in the kit's order, then the added ones
    known = [name for name in every if name in whole or name in kit.absent]
    return KitGrid(kit.key, kit.title, tuple(_row(kit, name, whole, views) for name in known))


def _row(
    kit: KitPlan, name: str, whole: Mapping[str, Tool], views: Sequence[MatrixColumn]
) -> ToolRow:
    if name in whole:
        tool = whole[name]
        cells = tuple(
            _listed(view, tool, view.tools[name]) if name in view.tools else _removed(view, name)
            for view in views
        )
        return ToolRow(name, tool.description, cells)
    purpose = PURPOSES[kit.key].get(name, "")
    absence = f"{name} is not there: {kit.absent[name]}"
    cells = tuple(_cell(view, "absent", absence) for view in views)
    return ToolRow(name, f"To {purpose}." if purpose else "", cells)


def _listed(view: MatrixColumn, whole: Tool, seen: Tool) -> PolicyCell:
    """Return the cell of a tool that the recipe has; `whole` is the tool before narrowing."""
    bound = _bound_clauses(seen)
    lost = [
        name for name in whole.properties if name not in {*seen.properties, *seen.bound_arguments}
    ]
    fewer = [
        f'"{name}" is one of {_quoted(left)}' if "enum" in schema else f'"{name}" names {shown}'
        for name, schema in seen.properties.items()
        for left in [_values(schema)]
        for shown in [f"{_quoted(left)} alone"]
        if left != _values(whole.properties[name])
    ]
    notes = (
        *_who_narrowed(view, whole, lost),
        *_open_clauses(view.policy, view.kit.key, view.session, seen),
    )
    start = f"{view.session.recipe} sees {seen.name}"
    if bound:
        alone = [f"it takes {_alone(seen)}"] if lost else []
        details = (*bound[1:], *alone, *fewer, *notes)
        return _cell(view, "bound", f"{start}, where {bound[0]}", details, seen)
    if lost:
        return _cell(view, "narrowed", f"{start} with {_alone(seen)}", (*fewer, *notes), seen)
    if fewer:
        sentence = f"{start}, where {fewer[0]}"
        return _cell(view, "narrowed", sentence, (*fewer[1:], *notes), seen)
    extent = "with all its arguments" if whole.properties else "as it is: it takes no arguments"
    return _cell(view, "visible", f"{start} {extent}", notes, seen)


def _bound_clauses(tool: Tool) -> Names:
    """Return a clause for each argument that can name none, or not all, of the other rows."""
    return tuple(
        _bound_clause(tool, argument, bound.kind, bound.reach)
        for argument, bound in tool.bound_arguments.items()
        if bound.reach != ANY or argument not in tool.properties
    )


def _open_clauses(policy: Policy, kit: str, session: Session, tool: Tool) -> Iterator[str]:
    """Yield clauses on what a bound argument leaves open, and on sessions about other rows."""
    for argument, rule in policy.bound(session.base, kit).get(tool.name, {}).items():
        kind, reach = RULES[rule]
        clause = _bound_clause(tool, argument, kind, reach)
        if argument not in tool.bound_arguments:
            yield f"in a session about a {kind}, {clause}"
        elif reach == ANY and argument in tool.properties:
            yield clause
    for kind in ROWS:
        if tool.name in policy.recipes[session.base].needs_rows(kit, [kind]):
            yield f"a session that is about no {kind} does not have it"


def _bound_clause(tool: Tool, argument: str, kind: str, reach: str) -> str:
    """Return a clause on the row that an argument names, or may name."""
    own = f"the session's own {kind}"
    if argument not in tool.properties:
        return f'"{argument}" is not an argument: it is {own}'
    words = {
        OWN: f"is {own} and no other",
        WITHIN: f"is {own} or {OTHERS.get(kind, 'one near it')}",
        ANY: f"is {own} where it is left out",
    }
    return f'"{argument}" {words[reach]}'


def _alone(seen: Tool) -> str:
    return f"{_quoted(seen.properties)} alone" if seen.properties else "no arguments"


def _values(schema: Mapping[str, Any]) -> Sequence[object]:
    """Return the allowed values of an argument or its items; empty if any value is allowed."""
    values: Sequence[object] = schema.get("enum") or schema.get("items", {}).get("enum", ())
    return values


def _who_narrowed(view: MatrixColumn, whole: Tool, lost: Sequence[str]) -> list[str]:
    """Return a clause for each cause of removed arguments, except a built-in recipe itself."""
    needed = [name for name in lost if ":" in whole.needs.get(name, "")]
    missing = [name for name in needed if not view.session.has(*whole.needs[name].split(":"))]
    needs = dict.fromkeys(whole.needs[name] for name in missing)
    clauses = [
        f"{_quoted([name for name in missing if whole.needs[name] == need])} comes with the tool "
        f'"{need}" alone'
        for need in needs
    ]
    own = view.own
    if own is None:
        return clauses
    by_policy = view.policy.recipes[own.base].narrowed_arguments
    kept = by_policy.get(f"{view.kit.key}:{whole.name}", whole.properties)
    by_base = [name for name in lost if name not in {*kept, *missing}]
    by_own = [name for name in lost if name not in {*by_base, *missing}]
    if by_base:
        clauses.append(f'its base "{own.base}" leaves {_quoted(by_base)} out')
    places = [
        own.place(f"narrow {entry}")
        for entry, _ in own.narrow
        if (view.kit.key, whole.name) in full_catalog(KITS, [view.kit]).resolved(entry)
    ]
    if by_own:
        clauses.append(f"{' and '.join(places)} leaves {_quoted(by_own)} out")
    return clauses


def _removed(view: MatrixColumn, tool: str) -> PolicyCell:
    """Return the cell of a tool that the recipe or the discipline removes."""
    start = f"{view.session.recipe} does not have {tool}"
    removed_by, spellings = _taken_by(view, tool)
    if tool not in view.policy.allowed(view.session.recipe, view.kit.key):
        besides = (f"besides, it is {removed_by}",) if removed_by else ()
        return _cell(view, "removed", f"{start}: {_left_out(view, tool)}", besides)
    sentence = (
        f"{start}, {removed_by}" if removed_by else f"{start}: {view.session.why_hidden(tool)}"
    )
    return _cell(view, "removed", sentence, spellings)


def _left_out(view: MatrixColumn, tool: str) -> str:
    """Return a clause on what leaves a tool out of the recipe."""
    own, kit = view.own, view.kit.key
    if own is None:
        return "the recipe leaves it out"
    if tool not in view.policy.allowed(own.base, kit):
        return f'its base "{own.base}" leaves it out'
    return f"{own.place(kit)} does not allow it"


def _taken_by(view: MatrixColumn, tool: str) -> tuple[str, Names]:
    """Return where the discipline removes a tool, and different spellings of it there."""
    pairs = [
        (removal.origin, entry)
        for removal in view.removals
        for entry in removal.entries
        if (view.kit.key, tool) in full_catalog(KITS, [view.kit]).resolved(entry)
    ]
    origins = dict.fromkeys(origin for origin, _ in pairs)
    words = f"taken away by {' and by '.join(origins)}" if origins else ""
    return words, tuple(f'it is spelled "{entry}" there' for _, entry in pairs if entry != tool)


def _cell(
    view: MatrixColumn,
    state: State,
    sentence: str,
    detail: Sequence[str] = (),
    seen: Tool | None = None,
) -> PolicyCell:
    """Return a cell whose words fit on a line, whatever names are in them."""
    arguments = () if seen is None else tuple(seen.properties)
    details = tuple(one_line(clause) for clause in detail)
    return PolicyCell(view.session.recipe, state, one_line(sentence), details, arguments)


def _quoted(names: Sequence[object] | Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)
