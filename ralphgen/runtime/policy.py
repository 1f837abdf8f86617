"""The permissions of sessions: grants, and the policy that was generated for a project.

Each source of permissions is one `Grants`: the schema, the recipe, the discipline, the session's
rows, the context, and others. A session has their meet, so no source can add a tool, an argument or
a value (SPEC-070, the reductive filter).
"""

from __future__ import annotations

from .errors import StartError, ToolError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    Entry = TypeVar("Entry")

FULL = "manual"  # the recipe that has every tool
ALL = "all"  # stands for every tool of a kit, in place of their names
REQUIRED, OPTIONAL, GRANTS = "required", "optional", "grants"
USER = "user"  # needed by an argument that only the user gives
WORDS = "words"  # needed by an argument that puts words in the user's name
NOTHING: Mapping[str, Any] = {}
OWN, WITHIN, ANY = "own", "within", "any"
KINDS = ("task", "feature", "discipline")  # of rows that a session can work on
REACHES = (OWN, WITHIN, ANY)  # the narrowest first
# How a policy binds an argument: the kind of row, and its reach.
RULES: Mapping[str, tuple[str, str]] = {
    "own task": ("task", OWN),
    "task of own feature": ("task", WITHIN),
    "any task": ("task", ANY),
    "own feature": ("feature", OWN),
    "any feature": ("feature", ANY),
    "own discipline": ("discipline", OWN),
    "any discipline": ("discipline", ANY),
}


class BoundArgument:
    """An argument that the session's own row fills.

    `kind` is task, feature or discipline, `value` the session's row. `reach` is how far the
    argument may go beyond it: not at all (`OWN`), to rows that the kit finds close enough
    (`WITHIN`), or to any row (`ANY`).
    """

    __slots__ = ("kind", "reach", "value")

    def __init__(self, kind: str, reach: str, value: int | str) -> None:
        self.kind = kind
        self.reach = reach
        self.value = value

    def meet(self, other: BoundArgument) -> BoundArgument | None:
        """Return the narrower of two bindings, or None if no row satisfies both."""
        if ANY not in (self.reach, other.reach) and self.value != other.value:
            return None
        closer = min(self, other, key=lambda bound: REACHES.index(bound.reach))
        return BoundArgument(self.kind, closer.reach, closer.value)

    def refuse_another(self, argument: str, value: object) -> None:
        """Raise `ToolError` unless `value` is the only row that the session may name."""
        if self.reach == OWN and value not in (self.value, str(self.value)):
            from .values import shortened

            own = shortened(self.value)
            raise ToolError(
                f'argument "{argument}" is {shortened(value)}, but this session works only on the '
                f"{self.kind} {own}: omit the argument"
            )


class Grant:
    """The part of one tool that a source leaves.

    `arguments` are the names that remain, None for all. `values` are the values that remain of an
    argument, and `rows` the rows that arguments are bound to, both by argument.
    """

    __slots__ = ("arguments", "rows", "values")

    def __init__(
        self,
        arguments: Iterable[str] | None = None,
        values: Mapping[str, Iterable[str]] = NOTHING,
        rows: Mapping[str, BoundArgument] = NOTHING,
    ) -> None:
        self.arguments = None if arguments is None else frozenset(arguments)
        self.values = {name: frozenset(remaining) for name, remaining in values.items()}
        self.rows = rows

    def __le__(self, other: Grant) -> bool:
        """Return whether the other grant allows every call that this one allows."""
        if other.arguments is not None and not (
            self.arguments is not None and self.arguments <= other.arguments
        ):
            return False
        return all(
            name in self.values and self.values[name] <= values
            for name, values in other.values.items()
            if self.allows(name)
        ) and all(
            name in self.rows and _is_within(self.rows[name], bound)
            for name, bound in other.rows.items()
            if self.allows(name) and bound.reach != ANY
        )

    def allows(self, argument: str) -> bool:
        """Return whether the argument remains."""
        return self.arguments is None or argument in self.arguments

    def meet(self, other: Grant) -> Grant | None:
        """Return the part that both leave, or None if no call satisfies both."""
        rows = {**self.rows, **other.rows}
        for name in self.rows.keys() & other.rows.keys():
            bound = self.rows[name].meet(other.rows[name])
            if bound is None:
                return None
            rows[name] = bound
        values = {**self.values, **other.values}
        for name in self.values.keys() & other.values.keys():
            values[name] = self.values[name] & other.values[name]
        arguments = self.arguments if other.arguments is None else other.arguments
        if self.arguments is not None and arguments is not None:
            arguments = self.arguments & arguments
        return Grant(arguments, values, rows)


WHOLE = Grant()


class Grants:
    """The tools of a kit that a source leaves, each with its `Grant`.

    `reason` states why the source removed a tool or an argument, if `removed` does not. `removed`
    has the reason for each removal so far, by tool and argument; the argument is "" for a tool.
    """

    __slots__ = ("reason", "removed", "tools")

    def __init__(
        self,
        reason: str,
        tools: Mapping[str, Grant],
        removed: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        self.reason = reason
        self.tools = tools
        self.removed = removed or {}

    def __and__(self, other: Grants) -> Grants:
        """Return their meet; a tool that the other source does not name is removed."""
        removed = {**self.removed}
        tools = {}
        for name, grant in self.tools.items():
            further = other.tools.get(name)
            both = grant if further is WHOLE else further and grant.meet(further)
            if both is None:
                removed[name, ""] = other.removed.get((name, ""), other.reason)
                continue
            tools[name] = both
            if both.arguments is not None and both is not grant:
                for argument in (grant.arguments or frozenset()) - both.arguments:
                    removed[name, argument] = other.removed.get((name, argument), other.reason)
        return Grants(self.reason, tools, removed)

    def __le__(self, other: Grants) -> bool:
        """Return whether the other source allows every call that this one allows."""
        return all(
            name in other.tools and grant <= other.tools[name] for name, grant in self.tools.items()
        )

    def without(self, names: Iterable[str], reason: str) -> Grants:
        """Return the same grants without some tools."""
        lost = {*names}
        return self & Grants(reason, {name: WHOLE for name in self.tools if name not in lost})


class Recipe:
    """The tools and arguments of a kind of session.

    `tools` are names by kit, or `ALL` until the policy has named them. `base` is the built-in
    recipe of a recipe of the project. `targets` are the kinds of rows that a session works on, each
    `"required"`, `"optional"`, or `"grants"` if the tools bound to such a row are hidden without
    one. By `"kit:tool"`: `narrowed_arguments` are the arguments that remain, `narrowed_values` the
    values that remain of an argument, `bound_arguments` the rows that an argument may name (see
    `RULES`), and `granted_by` the kinds of rows that grant the tool; any one of them is enough.
    `loaded_first` are the tools, by kit, that clients load immediately.
    """

    __slots__ = (
        "base",
        "bound_arguments",
        "granted_by",
        "loaded_first",
        "narrowed_arguments",
        "narrowed_values",
        "targets",
        "tools",
    )

    def __init__(
        self,
        *,
        tools: Mapping[str, Sequence[str]],
        base: str = "",
        targets: Mapping[str, str] = NOTHING,
        narrowed_arguments: Mapping[str, Sequence[str]] = NOTHING,
        narrowed_values: Mapping[str, Mapping[str, Sequence[str]]] = NOTHING,
        bound_arguments: Mapping[str, Mapping[str, str]] = NOTHING,
        granted_by: Mapping[str, Sequence[str]] = NOTHING,
        loaded_first: Mapping[str, Sequence[str]] = NOTHING,
    ) -> None:
        self.tools = tools
        self.base = base
        self.targets = targets
        self.narrowed_arguments = narrowed_arguments
        self.narrowed_values = narrowed_values
        self.bound_arguments = bound_arguments
        self.granted_by = granted_by
        self.loaded_first = loaded_first

    def grants(self, kit: str, rows: Mapping[str, int | str | None], reason: str) -> Grants:
        """Return the tools of a kit that the recipe leaves, bound to `rows`, by kind."""
        tools = {}
        for name in self.tools.get(kit, ()):
            key = f"{kit}:{name}"
            bound = {
                argument: BoundArgument(*RULES[rule], value)
                for argument, rule in self.bound_arguments.get(key, NOTHING).items()
                if (value := rows.get(RULES[rule][0])) is not None
            }
            narrowed, values = (
                self.narrowed_arguments.get(key),
                self.narrowed_values.get(key, NOTHING),
            )
            is_whole = narrowed is None and not values and not bound
            tools[name] = WHOLE if is_whole else Grant(narrowed, values, bound)
        return Grants(reason, tools)

    def needs_rows(self, kit: str, kinds: Sequence[str]) -> dict[str, str]:
        """Return why a session that works on no row of these kinds lacks tools, by tool."""
        granting = [kind for kind in kinds if self.targets.get(kind) == GRANTS]
        start = "it needs a session that is about"
        reasons = {
            tool: f"{start} one row, and this one is about none"
            for tool, rules in _of_kit(self.bound_arguments, kit).items()
            if names_own_row(rules, granting)
        }
        for tool, needed in _of_kit(self.granted_by, kit).items():
            if {*needed} & {*kinds}:
                reasons[tool] = f"{start} a {' and a '.join(needed)}, and this one is about none"
        return reasons


class Policy:
    """The recipes and disciplines of a project.

    `removed_tools` has names by discipline and kit; `absent` the tools without a place in the
    project's schema, by kit, each with the reason.
    """

    def __init__(
        self,
        *,
        recipes: Mapping[str, Recipe],
        removed_tools: Mapping[str, Mapping[str, Sequence[str]]],
        absent: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.recipes = recipes
        self.removed_tools = removed_tools
        self.absent = absent

    def name_tools(self, every: Mapping[str, Sequence[str]]) -> None:
        """Put the names of a kit's tools, which `every` has by kit, in place of `ALL`.

        Raises `StartError` for any other word in place of names, and if `every` has none.
        """
        for name, recipe in self.recipes.items():
            if any(isinstance(names, str) for names in recipe.tools.values()):
                recipe.tools = {
                    kit: _tool_names(f'the recipe "{name}"', kit, names, every)
                    for kit, names in recipe.tools.items()
                }

    @property
    def every_tool(self) -> Mapping[str, Sequence[str]]:
        """The tools that the project has, by kit."""
        return self.recipes[FULL].tools

    @property
    def kits(self) -> tuple[str, ...]:
        """The enabled kits of the project."""
        return tuple(self.every_tool)

    @property
    def disciplines(self) -> tuple[str, ...]:
        """The disciplines that remove tools."""
        return tuple(self.removed_tools)

    def profile(self, recipe: str) -> str:
        """Return the built-in recipe that a recipe is based on."""
        return self.recipes[recipe].base or recipe

    def targets(self, recipe: str) -> Mapping[str, str]:
        """Return the kinds of rows that a session works on, and how much it needs one."""
        return self.recipes[recipe].targets

    def sources(
        self,
        recipe: str,
        kit: str,
        *,
        discipline: str | None = None,
        rows: Mapping[str, int | str | None] = NOTHING,
        name: str = "",
    ) -> Iterator[Grants]:
        """Yield the grants of the schema, the recipe, its base, the discipline and the rows.

        `rows` has the session's row by kind, and `name` is the name of the recipe in reasons, if
        the session has another one.
        """
        every = dict.fromkeys(self.every_tool.get(kit, ()), WHOLE)
        absent = self.absent.get(kit, {})
        yield Grants("", every, {(tool, ""): reason for tool, reason in absent.items()})
        reason = f'the recipe "{name or recipe}" does not include it'
        for ruling in dict.fromkeys((self.profile(recipe), recipe)):
            yield self.recipes[ruling].grants(kit, rows, reason)
        removed = {} if discipline is None else self.removed_tools.get(discipline, {})
        reason = f'the discipline "{one_line(discipline or "")}" removes it'
        if kit in removed:
            yield _all_but(every, dict.fromkeys(removed[kit], reason))
        missing = [kind for kind in KINDS if rows.get(kind) is None]
        if lost := self.recipes[recipe].needs_rows(kit, missing):
            yield _all_but(every, lost)

    def allowed(self, recipe: str, kit: str) -> frozenset[str]:
        """Return the tools of a kit that a recipe includes."""
        return frozenset(self.recipes[recipe].tools.get(kit, ()))

    def bindings(self, recipe: str, kit: str) -> dict[str, Mapping[str, str]]:
        """Return, by tool and argument, the rows that a session of the recipe may name."""
        return _of_kit(self.recipes[recipe].bound_arguments, kit)

    def loaded_first(self, recipe: str, kit: str) -> frozenset[str]:
        """Return the tools of a kit that clients load immediately."""
        return frozenset(self.recipes[recipe].loaded_first.get(kit, ()))

    def knows(self, kit: str, name: str) -> bool:
        """Return whether the kit has a tool of this name, in this schema or in another."""
        return name in self.every_tool.get(kit, ()) or name in self.absent.get(kit, {})


def _is_within(bound: BoundArgument, other: BoundArgument) -> bool:
    """Return whether a binding allows only rows that the other one allows."""
    closer = REACHES.index(bound.reach) <= REACHES.index(other.reach)
    return closer and bound.value == other.value


def _all_but(tools: Mapping[str, Grant], reasons: Mapping[str, str]) -> Grants:
    """Return grants without some tools, each with its reason."""
    remaining = {name: grant for name, grant in tools.items() if name not in reasons}
    return Grants("", remaining, {(name, ""): reason for name, reason in reasons.items()})


def _tool_names(
    recipe: str, kit: str, names: Sequence[str], every: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    """Return the names of the tools of a kit that a recipe has; raises `StartError`."""
    if not isinstance(names, str):
        return names
    if names != ALL:
        raise StartError(f'{recipe} has "{one_line(names)}" instead of a list of tools of "{kit}"')
    known = every.get(kit) if isinstance(every, dict) else None
    if not isinstance(known, list | tuple) or not all(isinstance(name, str) for name in known):
        raise StartError(f'{recipe} has all tools of "{kit}", but the manifest does not list them')
    return known


def _of_kit(found: Mapping[str, Entry], kit: str) -> dict[str, Entry]:
    """Return the entries of a kit, whose keys are `"kit:tool"`, by tool."""
    prefix = f"{kit}:"
    return {
        key.removeprefix(prefix): entry for key, entry in found.items() if key.startswith(prefix)
    }


def names_own_row(rules: Mapping[str, str], kinds: Sequence[str]) -> bool:
    """Return whether an argument of a tool can only name the session's own row of these kinds."""
    return any(RULES[rule][1] == OWN and RULES[rule][0] in kinds for rule in rules.values())
