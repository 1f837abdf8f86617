"""What a recipe makes of a tool: one state, and the sentence that explains it to a person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import KitPlan, Names
from ralphgen.project.model import Recipe, Removal
from ralphgen.runtime.access.row_scope import ANY, OWN, RULES, WITHIN
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import GRANTS, Policy
from ralphgen.runtime.session import Session
from ralphgen.runtime.tool import Tool

OTHERS = {"task": "another task of its feature"}
"""By kind of row that may be named within bounds, which others those are."""

State = Literal["visible", "narrowed", "bound", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class PolicyCell:
    """One recipe and one tool.

    `visible`, `narrowed` (to fewer arguments or values) and `bound` (to the session's own row, and
    maybe narrowed too) are listed to agents, with `arguments`; `removed` and `absent` are not.
    `sentence` explains it, and `detail` holds what else there is to say, each a clause.
    """

    recipe: str
    state: State
    sentence: str
    detail: Names = ()
    arguments: Names = ()


@dataclass(frozen=True, slots=True)
class SessionView:
    """What a session of one recipe sees of one kit, and what took the rest away.

    `tools` are those that it is listed, by name. `own` is the recipe where it is one of the
    project's, and `removals` are those of the discipline.
    """

    policy: Policy
    kit: KitPlan
    session: Session
    tools: Mapping[str, Tool]
    own: Recipe | None
    removals: tuple[Removal, ...]
    catalog: Catalog

    @property
    def recipe(self) -> str:
        """Return the recipe's name."""
        return self.session.recipe


def policy_cell(view: SessionView, whole: Tool) -> PolicyCell:
    """Return the cell of a tool that the project has; `whole` is the tool before narrowing."""
    seen = view.tools.get(whole.name)
    return _removed(view, whole.name) if seen is None else _listed(view, whole, seen)


def absent_cell(view: SessionView, tool: str) -> PolicyCell:
    """Return the cell of a tool that the project has no place for."""
    return _cell(view, "absent", f"{tool} is not there: {view.kit.absent[tool]}")


def _listed(view: SessionView, whole: Tool, seen: Tool) -> PolicyCell:
    bound = _bound_clauses(seen)
    lost = [
        name for name in whole.properties if name not in {*seen.properties, *seen.bound_arguments}
    ]
    fewer = _fewer_values(whole, seen)
    notes = (
        *_who_narrowed(view, whole, lost),
        *_open_clauses(view.policy, view.kit.key, view.session, seen),
    )
    start = f"{view.recipe} sees {seen.name}"
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
    for kind, need in policy.targets(session.base).items():
        if need == GRANTS and tool.name in policy.ungranted(session.base, kit, [kind]):
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


def _fewer_values(whole: Tool, seen: Tool) -> list[str]:
    """Return a clause for each argument of which some values are taken away."""
    return [
        f'"{name}" is one of {_quoted(left)}' if "enum" in schema else f'"{name}" names {shown}'
        for name, schema in seen.properties.items()
        for left in [_values(schema)]
        for shown in [f"{_quoted(left)} alone"]
        if left != _values(whole.properties[name])
    ]


def _values(schema: Mapping[str, Any]) -> Sequence[object]:
    """Return the allowed values of an argument or its items; empty where any is."""
    values: Sequence[object] = schema.get("enum") or schema.get("items", {}).get("enum", ())
    return values


def _who_narrowed(view: SessionView, whole: Tool, lost: Sequence[str]) -> list[str]:
    """Return a clause for each that took arguments away, except a built-in recipe itself."""
    missing = [name for name in lost if _lacks_need(view, whole, name)]
    needs = dict.fromkeys(whole.needs[name] for name in missing)
    clauses = [
        f"{_quoted([name for name in missing if whole.needs[name] == need])} comes with the tool "
        f'"{need}" alone'
        for need in needs
    ]
    own = view.own
    if own is None:
        return clauses
    kept = view.policy.narrowed(own.base, view.kit.key).get(whole.name, whole.properties)
    by_base = [name for name in lost if name not in {*kept, *missing}]
    by_own = [name for name in lost if name not in {*by_base, *missing}]
    if by_base:
        clauses.append(f'its base "{own.base}" leaves {_quoted(by_base)} out')
    places = [
        own.place(f"narrow {entry}")
        for entry, _ in own.narrow
        if (view.kit.key, whole.name) in view.catalog.resolved(entry)
    ]
    if by_own:
        clauses.append(f"{' and '.join(places)} leaves {_quoted(by_own)} out")
    return clauses


def _lacks_need(view: SessionView, whole: Tool, argument: str) -> bool:
    need = whole.needs.get(argument)
    return need is not None and not view.session.grants(*need.split(":"))


def _removed(view: SessionView, tool: str) -> PolicyCell:
    """Return the cell of a tool that the recipe or the discipline takes away."""
    start = f"{view.recipe} does not have {tool}"
    removed_by, spellings = _removals(view, tool)
    if tool not in view.policy.allowed(view.recipe, view.kit.key):
        besides = (f"besides, it is {removed_by}",) if removed_by else ()
        return _cell(view, "removed", f"{start}: {_left_out(view, tool)}", besides)
    sentence = (
        f"{start}, {removed_by}" if removed_by else f"{start}: {view.session.why_hidden(tool)}"
    )
    return _cell(view, "removed", sentence, spellings)


def _left_out(view: SessionView, tool: str) -> str:
    """Return a clause on what leaves a tool out of the recipe."""
    own, kit = view.own, view.kit.key
    if own is None:
        return "the recipe leaves it out"
    if tool not in view.policy.allowed(own.base, kit):
        return f'its base "{own.base}" leaves it out'
    return f"{own.place(kit)} does not allow it"


def _removals(view: SessionView, tool: str) -> tuple[str, Names]:
    """Return where the discipline takes a tool away, and how it is spelled there if otherwise."""
    pairs = [
        (removal.origin, entry)
        for removal in view.removals
        for entry in removal.entries
        if (view.kit.key, tool) in view.catalog.resolved(entry)
    ]
    origins = dict.fromkeys(origin for origin, _ in pairs)
    words = f"taken away by {' and by '.join(origins)}" if origins else ""
    return words, tuple(f'it is spelled "{entry}" there' for _, entry in pairs if entry != tool)


def _cell(
    view: SessionView,
    state: State,
    sentence: str,
    detail: Sequence[str] = (),
    seen: Tool | None = None,
) -> PolicyCell:
    """Return a cell whose words fit on a line, whatever names are in them."""
    arguments = () if seen is None else tuple(seen.properties)
    details = tuple(one_line(clause) for clause in detail)
    return PolicyCell(view.recipe, state, one_line(sentence), details, arguments)


def _quoted(names: Sequence[object] | Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)
