"""Who sees what: every tool of every recipe, alone or in a discipline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning import KitPlan, Names, entries_of, listing_bytes, supposed_session
from ralphgen.planning.policy import Catalog
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


class PolicyCell(NamedTuple):
    """One recipe and one tool; `sentence` explains the state, and `detail` has further clauses.

    Agents see `visible` tools, `narrowed` ones with fewer arguments or values, and `bound` ones for
    the session's own row, all with `arguments`.
    """

    recipe: str
    state: State
    sentence: str
    detail: Names
    arguments: Names


class MatrixColumn(NamedTuple):
    """A session of one recipe, `own` if that is custom, on one kit, with its tools by name."""

    policy: Policy
    kit: KitPlan
    catalog: Catalog
    session: Session
    tools: Mapping[str, Tool]
    own: OwnRecipe | None
    removals: Sequence[Removal]

    def names(self, entry: str, tool: str) -> bool:
        """Return whether an entry such as "kit:tool" names a tool of the kit."""
        return (self.kit.key, tool) in self.catalog.resolved(entry)


def matrix(project: Project, discipline: str | None) -> Mapping[str, Any]:
    """Return every tool of every recipe, for a discipline or for sessions without one.

    `recipes` have the size of their tool lists, and the name of the `base` of a custom one. A row
    of a kit has a cell for each recipe. If a recipe requires a row, its sessions are assumed to
    have one. A discipline that a session is about, and does not work as, removes nothing.
    """
    plan, grids = project.plan, []
    every = [[*_columns(project, kit, discipline)] for kit in plan.kits]
    heads = []
    for views in zip(*every, strict=True):
        name = views[0].session.recipe
        lists = [entries_of(plan, view.kit, view.tools.values()) for view in views]
        size = sum(map(listing_bytes, lists))
        sizes = {"tools": sum(map(len, lists)), "tokens": round(size / BYTES_A_TOKEN)}
        heads.append({"name": name, "base": plan.policy.recipes[name].base, **sizes})
    for kit, columns in zip(plan.kits, every, strict=True):
        tools = {tool.name: tool for tool in kit.tools}
        rows = []
        for name in full_catalog(KITS, [kit]).tools[kit.key]:  # the kit's own, then added ones
            if name in tools or name in kit.absent:
                purpose = PURPOSES[kit.key].get(name, "")
                absent = f"To {purpose}." if purpose else ""
                description = tools[name].description if name in tools else absent
                cells = [_cell(view, name, tools.get(name)) for view in columns]
                rows.append({"tool": name, "description": description, "cells": cells})
        grids.append({"key": kit.key, "title": kit.title, "rows": rows})
    return {"discipline": discipline, "recipes": heads, "kits": grids}


def _columns(project: Project, kit: KitPlan, discipline: str | None) -> Iterator[MatrixColumn]:
    """Yield a session of each recipe on the kit."""
    facts, policy, catalog = project.facts, project.plan.policy, full_catalog(KITS, [kit])
    own = {recipe.name: recipe for recipe in facts.recipes}
    removals = (*facts.stored_removals, *facts.configured_removals)
    for recipe in policy.recipes:
        role = None if "discipline" in policy.targets(recipe) else discipline
        session = supposed_session(policy, recipe, kit.key, discipline=role)
        removed = [one for one in removals if role is not None and one.discipline == role]
        tools = session.tools(kit.tools)
        yield MatrixColumn(policy, kit, catalog, session, tools, own.get(recipe), removed)


def _cell(view: MatrixColumn, name: str, whole: Tool | None) -> PolicyCell:
    """Return a cell, whose words fit on a line; `whole` is the tool before narrowing."""
    seen = view.tools.get(name)
    state: State = "absent" if whole is None else "removed"
    if whole is None:
        clauses = [f"{name} is not there: {view.kit.absent[name]}"]
    elif seen is None:
        clauses = _removed(view, name)
    else:
        state, clauses = _recipe_tool_state(view, whole, seen)
    sentence, *detail = map(one_line, clauses)
    arguments = () if seen is None else tuple(seen.properties)
    return PolicyCell(view.session.recipe, state, sentence, tuple(detail), arguments)


def _recipe_tool_state(view: MatrixColumn, whole: Tool, seen: Tool) -> tuple[State, list[str]]:
    """Return the state of a tool that the recipe has, its sentence and further clauses."""
    bound = [
        _binding_clause(seen, argument, one.kind, one.reach)
        for argument, one in seen.bound_arguments.items()
        if one.reach != ANY or argument not in seen.properties
    ]
    lost = [
        name for name in whole.properties if name not in {*seen.properties, *seen.bound_arguments}
    ]
    fewer = [
        f'"{name}" is one of {_quoted(left)}'
        if "enum" in schema
        else f'"{name}" names {_quoted(left)} alone'
        for name, schema in seen.properties.items()
        for left in [_values(schema)]
        if left != _values(whole.properties[name])
    ]
    notes = [*_who_narrowed(view, whole, lost), *_open_clauses(view, seen)]
    start = f"{view.session.recipe} sees {seen.name}"
    alone = f"{_quoted(seen.properties)} alone" if seen.properties else "no arguments"
    if bound:
        takes = [f"it takes {alone}"] if lost else []
        return "bound", [f"{start}, where {bound[0]}", *bound[1:], *takes, *fewer, *notes]
    if lost:
        return "narrowed", [f"{start} with {alone}", *fewer, *notes]
    if fewer:
        return "narrowed", [f"{start}, where {fewer[0]}", *fewer[1:], *notes]
    extent = "with all its arguments" if whole.properties else "as it is: it takes no arguments"
    return "visible", [f"{start} {extent}", *notes]


def _open_clauses(view: MatrixColumn, tool: Tool) -> Iterator[str]:
    """Yield clauses on what a bound argument leaves open, and on sessions about other rows."""
    policy, base, kit = view.policy, view.session.base, view.kit.key
    for argument, rule in policy.bindings(base, kit).get(tool.name, {}).items():
        kind, reach = RULES[rule]
        clause = _binding_clause(tool, argument, kind, reach)
        if argument not in tool.bound_arguments:
            yield f"in a session about a {kind}, {clause}"
        elif reach == ANY and argument in tool.properties:
            yield clause
    for kind in ROWS:
        if tool.name in policy.recipes[base].needs_rows(kit, [kind]):
            yield f"a session that is about no {kind} does not have it"


def _binding_clause(tool: Tool, argument: str, kind: str, reach: str) -> str:
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
        own.place(f"narrow {entry}") for entry, _ in own.narrow if view.names(entry, whole.name)
    ]
    if by_own:
        clauses.append(f"{' and '.join(places)} leaves {_quoted(by_own)} out")
    return clauses


def _removed(view: MatrixColumn, tool: str) -> list[str]:
    """Return why the recipe or the discipline removes a tool: a sentence and further clauses."""
    own, kit, recipe = view.own, view.kit.key, view.session.recipe
    found = [(one.origin, entry) for one in view.removals for entry in one.entries]
    found = [(origin, entry) for origin, entry in found if view.names(entry, tool)]
    removed_by = f"taken away by {' and by '.join(dict.fromkeys(origin for origin, _ in found))}"
    start = f"{recipe} does not have {tool}"
    if tool in view.policy.allowed(recipe, kit):
        reason = f", {removed_by}" if found else f": {view.session.why_hidden(tool)}"
        spellings = (f'it is spelled "{entry}" there' for _, entry in found if entry != tool)
        return [f"{start}{reason}", *spellings]
    if own is None:
        reason = "the recipe leaves it out"
    elif tool not in view.policy.allowed(own.base, kit):
        reason = f'its base "{own.base}" leaves it out'
    else:
        reason = f"{own.place(kit)} does not allow it"
    return [f"{start}: {reason}", *([f"besides, it is {removed_by}"] if found else [])]


def _quoted(names: Sequence[object] | Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)
