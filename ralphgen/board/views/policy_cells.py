"""What a recipe makes of a tool: one state, and the sentence that explains it to a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ralphgen.board.views.bound_rows import bound_clauses, loose_clauses
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import KitPlan, Names
from ralphgen.project.model import Recipe, Removal
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.session import Session
from ralphgen.runtime.tool import Tool

State = Literal["visible", "narrowed", "bound", "removed", "absent"]


@dataclass(frozen=True, slots=True)
class Cell:
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
class Sight:
    """What a session of one recipe sees of one kit, and what took the rest away.

    `tools` are those that it is listed, by name. `own` is the recipe where it is one of the
    project's, and `removals` are those of the persona.
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
        """The recipe's name."""
        return self.session.recipe


def cell(sight: Sight, whole: Tool) -> Cell:
    """The cell of a tool that the project has; `whole` is the tool before anything narrows it."""
    seen = sight.tools.get(whole.name)
    return _removed(sight, whole.name) if seen is None else _listed(sight, whole, seen)


def absent_cell(sight: Sight, tool: str) -> Cell:
    """The cell of a tool that the project has no place for."""
    return _cell(sight, "absent", f"{tool} is not there: {sight.kit.absent[tool]}")


def _listed(sight: Sight, whole: Tool, seen: Tool) -> Cell:
    bound = bound_clauses(seen)
    lost = [name for name in whole.properties if name not in {*seen.properties, *seen.ties}]
    fewer = _fewer_values(whole, seen)
    notes = (
        *_who_narrowed(sight, whole, lost),
        *loose_clauses(sight.policy, sight.kit.key, sight.session, seen),
    )
    start = f"{sight.recipe} sees {seen.name}"
    if bound:
        alone = [f"it takes {_alone(seen)}"] if lost else []
        details = (*bound[1:], *alone, *fewer, *notes)
        return _cell(sight, "bound", f"{start}, where {bound[0]}", details, seen)
    if lost:
        return _cell(sight, "narrowed", f"{start} with {_alone(seen)}", (*fewer, *notes), seen)
    if fewer:
        sentence = f"{start}, where {fewer[0]}"
        return _cell(sight, "narrowed", sentence, (*fewer[1:], *notes), seen)
    extent = "with all its arguments" if whole.properties else "as it is: it takes no arguments"
    return _cell(sight, "visible", f"{start} {extent}", notes, seen)


def _alone(seen: Tool) -> str:
    return f"{_quoted(seen.properties)} alone" if seen.properties else "no arguments"


def _fewer_values(whole: Tool, seen: Tool) -> list[str]:
    """A clause for each argument of which some values are taken away."""
    return [
        f'"{name}" is one of {_quoted(left)}' if "enum" in schema else f'"{name}" names {shown}'
        for name, schema in seen.properties.items()
        for left in [_values(schema)]
        for shown in [f"{_quoted(left)} alone"]
        if left != _values(whole.properties[name])
    ]


def _values(schema: Mapping[str, Any]) -> Sequence[object]:
    """What an argument, or an item of it, may be; empty where that is anything."""
    values: Sequence[object] = schema.get("enum") or schema.get("items", {}).get("enum", ())
    return values


def _who_narrowed(sight: Sight, whole: Tool, lost: Sequence[str]) -> list[str]:
    """A clause for each of those that took arguments away, but for a built-in recipe itself."""
    missing = [name for name in lost if _lacks_need(sight, whole, name)]
    needs = dict.fromkeys(whole.needs[name] for name in missing)
    clauses = [
        f"{_quoted([name for name in missing if whole.needs[name] == need])} comes with the tool "
        f'"{need}" alone'
        for need in needs
    ]
    own = sight.own
    if own is None:
        return clauses
    kept = sight.policy.narrowed(own.base, sight.kit.key).get(whole.name, whole.properties)
    by_base = [name for name in lost if name not in {*kept, *missing}]
    by_own = [name for name in lost if name not in {*by_base, *missing}]
    if by_base:
        clauses.append(f'its base "{own.base}" leaves {_quoted(by_base)} out')
    places = [
        own.place(f"narrow {entry}") for entry, _ in own.narrow if _means(sight, entry, whole)
    ]
    if by_own:
        clauses.append(f"{' and '.join(places)} leaves {_quoted(by_own)} out")
    return clauses


def _lacks_need(sight: Sight, whole: Tool, argument: str) -> bool:
    need = whole.needs.get(argument)
    return need is not None and not sight.session.grants(*need.split(":"))


def _means(sight: Sight, entry: str, tool: Tool) -> bool:
    return (sight.kit.key, tool.name) in sight.catalog.resolved(entry)


def _removed(sight: Sight, tool: str) -> Cell:
    """The cell of a tool that the recipe or the persona takes away."""
    start = f"{sight.recipe} does not have {tool}"
    takers, spellings = _takers(sight, tool)
    if tool not in sight.policy.allowed(sight.recipe, sight.kit.key):
        besides = (f"besides, it is {takers}",) if takers else ()
        return _cell(sight, "removed", f"{start}: {_left_out(sight, tool)}", besides)
    sentence = f"{start}, {takers}" if takers else f"{start}: {sight.session.why_hidden(tool)}"
    return _cell(sight, "removed", sentence, spellings)


def _left_out(sight: Sight, tool: str) -> str:
    """How the recipe leaves a tool out."""
    own, kit = sight.own, sight.kit.key
    if own is None:
        return "the recipe leaves it out"
    if tool not in sight.policy.allowed(own.base, kit):
        return f'its base "{own.base}" leaves it out'
    return f"{own.place(kit)} does not allow it"


def _takers(sight: Sight, tool: str) -> tuple[str, Names]:
    """Where the persona takes a tool away, in words, and how it is spelled there if otherwise."""
    pairs = [
        (removal.origin, entry)
        for removal in sight.removals
        for entry in removal.entries
        if (sight.kit.key, tool) in sight.catalog.resolved(entry)
    ]
    origins = dict.fromkeys(origin for origin, _ in pairs)
    words = f"taken away by {' and by '.join(origins)}" if origins else ""
    return words, tuple(f'it is spelled "{entry}" there' for _, entry in pairs if entry != tool)


def _cell(
    sight: Sight, state: State, sentence: str, detail: Sequence[str] = (), seen: Tool | None = None
) -> Cell:
    """A cell whose words fit on a line, whatever names are in them."""
    arguments = () if seen is None else tuple(seen.properties)
    told = tuple(one_line(clause) for clause in detail)
    return Cell(sight.recipe, state, one_line(sentence), told, arguments)


def _quoted(names: Sequence[object] | Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)
