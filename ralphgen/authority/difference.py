"""What one server lets sessions do and another does not, in sentences: gains and losses."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ralphgen.authority import Authority, AuthorityChange
from ralphgen.errors import ProjectError, plain
from ralphgen.planning.preview import EXAMPLES, supposed_session
from ralphgen.project.inspect import loosened_facts
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import GRANTS, OPTIONAL, REACHES, REQUIRED, RULES, Grant, Grants
from ralphgen.runtime.tool import Tool

MOST = 20  # names of a list, before the rest is counted


def named(name: str) -> str:
    """Return a name as code in Markdown, where nothing in it is more than text."""
    text = plain(name) or " "
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (ticks + 1)
    return f"{fence} {text} {fence}" if ticks else f"{fence}{text}{fence}"


def listed(names: Iterable[str]) -> str:
    """Return names as a list in a sentence, of which the first `MOST` are said."""
    every = [*names]
    shown = ", ".join(map(named, every[:MOST]))
    return f"{shown} and {len(every) - MOST} more" if len(every) > MOST else shown


def markdown(found: Sequence[AuthorityChange], reference: str) -> str:
    """Return the changes since a commit as a comment on a change: gains first, a line each."""
    lines = [f"## Permissions of agents, compared with {named(reference)}", ""]
    if not found:
        return "\n".join([*lines, "No session can do more or less than before.", ""])
    for title, gain in (("More than before", True), ("Less than before", False)):
        of_kind = [one for one in found if one.gain is gain]
        if of_kind:
            lines += [f"### {title}", "", *map(_line, of_kind), ""]
    return "\n".join(lines)


def _line(change: AuthorityChange) -> str:
    who = [f"{listed(change.recipes)}: "] if change.recipes else []
    who += [f"discipline {listed(change.disciplines)}: "] if change.disciplines else []
    return f"- {''.join(who)}{change.text}"


NEEDS = {REQUIRED: 0, GRANTS: 1, OPTIONAL: 2}  # of rows; none at all is the loosest
# What bounds a value: whether more of it lets more through.
BOUNDS = {"maximum": True, "maxLength": True, "maxItems": True, "minimum": False}
NO_RULES: Mapping[str, Any] = {"checks": [], "protect": [], "watch": []}
Said = tuple[bool, str, str]
"""Whether it is a gain, the tool as `"kit:tool"`, and the sentence."""


def changes(before: Authority, after: Authority) -> list[AuthorityChange]:
    """Return what sessions may do after and not before, then the other way round.

    What cannot be weighed, such as another text of a query, is a gain. The same sentence about
    several recipes or disciplines is one change.
    """
    by_recipe: dict[Said, list[str]] = {}
    every = (*after.policy.recipes, *before.policy.recipes, *before.rules, *after.rules)
    for recipe in dict.fromkeys(every):
        ruled = _of_rules(before.rules.get(recipe, ()), after.rules.get(recipe, ()))
        for said in (*_of_recipe(recipe, before, after), *ruled):
            by_recipe.setdefault(said, []).append(recipe)
    by_discipline: dict[Said, list[str]] = {}
    for discipline in sorted({*before.policy.removed_tools, *after.policy.removed_tools}):
        for said in _of_discipline(discipline, before, after):
            by_discipline.setdefault(said, []).append(discipline)
    found = [AuthorityChange(*said, recipes=tuple(who)) for said, who in by_recipe.items()]
    found += [AuthorityChange(*said, disciplines=tuple(who)) for said, who in by_discipline.items()]
    loose = loosened_facts(before.done or {}, after.done or NO_RULES)
    found += [
        AuthorityChange(gain=True, tool="", text=f"proof of done: {named(one)}") for one in loose
    ]
    of_all = (*_settings(before, after), *_shown(before.shown, after.shown))
    found += [AuthorityChange(gain, "", text) for gain, text in of_all]
    weighed = {one.tool for one in found if one.gain}
    for tool in before.runs.keys() & after.runs.keys() - weighed:
        if before.runs[tool] != after.runs[tool]:
            text = f"the implementation of {named(tool)} has changed"
            found.append(AuthorityChange(gain=True, tool=tool, text=text))
    return sorted(found, key=lambda one: (not one.gain, one.tool == "", one.tool, one.text))


def _settings(before: Authority, after: Authority) -> Iterator[tuple[bool, str]]:
    """Yield each setting of a kit that differs, which nobody can weigh: it may let more through."""
    for kit in sorted(before.suites.keys() & after.suites.keys()):
        old, new = (one.settings.get(kit, {}) for one in (before, after))
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                was, now = (named(_json(one.get(key))) for one in (old, new))
                text = f"setting {named(key)} of kit {named(kit)} is {now}, previously"
                yield True, f"{text} {was}"


def _shown(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]
) -> Iterator[tuple[bool, str]]:
    for table in sorted(old.keys() & new.keys()):
        more, fewer = {*new[table]} - {*old[table]}, {*old[table]} - {*new[table]}
        if more:
            yield True, f"rows of {named(table)} include {listed(sorted(more))}"
        if fewer:
            yield False, f"rows of {named(table)} no longer include {listed(sorted(fewer))}"


def _of_recipe(recipe: str, before: Authority, after: Authority) -> Iterator[Said]:
    """Yield the differences between the grants of two recipes, or that one of them is missing."""
    old, new = _granted(recipe, before), _granted(recipe, after)
    if old is None or new is None:
        there = new or old
        if there is not None:
            tools = f"with {listed(there[0].tools)}" if there[0].tools else "without tools"
            yield old is None, "", f"{'new' if old is None else 'removed'} recipe, {tools}"
        return
    yield from _rows(before.policy.targets(recipe), after.policy.targets(recipe))
    (has, tools_after), (had, tools_before) = new, old
    for entry in dict.fromkeys((*has.tools, *had.tools)):
        if entry in had.tools and entry in has.tools:
            yield from _of_grant(entry, had.tools[entry], has.tools[entry])
            yield from _of_tool(entry, tools_before[entry], tools_after[entry])
        else:
            gain = entry in has.tools
            yield gain, entry, f"{named(entry)} {'can' if gain else 'can no longer'} be called"


def _of_rules(old: Collection[str], new: Collection[str]) -> Iterator[Said]:
    """Yield each pattern of tools that a recipe may never have now and might, or the reverse."""
    for pattern in sorted({*old} ^ {*new}):
        if pattern in new:
            yield False, "", f"a rule forbids tools like {named(pattern)}"
        else:
            yield True, "", f"no rule forbids tools like {named(pattern)} any more"


def _granted(recipe: str, authority: Authority) -> tuple[Grants, dict[str, Tool]] | None:
    """Return the grants of sessions about all kinds of rows, and their tools, by `"kit:tool"`.

    The values of a grant include those of the schema. Returns None without such a recipe.
    """
    if recipe not in authority.policy.recipes:
        return None
    grants: dict[str, Grant] = {}
    tools: dict[str, Tool] = {}
    for kit, suite in authority.suites.items():
        try:
            session = supposed_session(authority.policy, recipe, kit, rows=EXAMPLES)
            schemas = Grants("", {tool.name: _values(tool) for tool in suite})
            granted = session.explained(suite) & schemas
            for tool in suite:
                if (grant := granted.tools.get(tool.name)) is not None:
                    grants[f"{kit}:{tool.name}"] = grant
                    tools[f"{kit}:{tool.name}"] = tool.tailored(grant, loaded_first=False)
        except (StartError, LookupError, TypeError, AttributeError, ValueError) as error:
            text = f'the recipe "{recipe}" of the server is invalid: {error}'
            raise ProjectError(text, 'run "ralphgen check" there') from error
    return Grants("", grants), tools


def _values(tool: Tool) -> Grant:
    rules = tool.properties.items()
    return Grant(values={name: rule["enum"] for name, rule in rules if "enum" in rule})


def _rows(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Said]:
    for kind in sorted({*old, *new}):
        was, now = (NEEDS.get(one.get(kind, ""), len(NEEDS)) for one in (old, new))
        if now > was:
            yield True, "", f"sessions are less restricted to their own {kind}"
        elif now < was:
            yield False, "", f"sessions are more restricted to their own {kind}"


def _of_grant(entry: str, old: Grant, new: Grant) -> Iterator[Said]:
    """Yield the arguments, values and rows that one of two grants allows and the other does not."""
    had, has = old.arguments or frozenset(), new.arguments or frozenset()
    for name in sorted(had ^ has):
        accepts = "accepts" if name in has else "no longer accepts"
        yield name in has, entry, f"{named(entry)} {accepts} {named(name)}"
    for name in sorted(had & has):
        where = f"{named(name)} of {named(entry)}"
        yield from _of_values(entry, where, old.values.get(name), new.values.get(name))
    for name in sorted({*old.rows, *new.rows}):
        was, now = old.rows.get(name), new.rows.get(name)
        if was is not None and now is not None and (was.kind, was.reach) == (now.kind, now.reach):
            continue
        far = [len(REACHES) if one is None else REACHES.index(one.reach) for one in (was, now)]
        rows = "any row, not only that of the session"
        if now is not None:
            rows = named(next(rule for rule in RULES if RULES[rule] == (now.kind, now.reach)))
        yield far[1] >= far[0], entry, f"{named(name)} of {named(entry)} can name {rows}"


def _of_tool(entry: str, old: Tool, new: Tool) -> Iterator[Said]:
    """Yield the differences between two tools that are not in their grants."""
    if old.hints != new.hints:
        reads = bool(new.hints.get("readOnlyHint"))
        says = "only reads" if reads else f"declares {_json(new.hints)}"
        yield not reads, entry, f"{named(entry)} {says}"
    for name in sorted(old.properties.keys() & new.properties.keys()):
        where = f"{named(name)} of {named(entry)}"
        yield from _of_schema(entry, where, old.properties[name], new.properties[name])
        is_bound = name in old.bound_arguments or name in new.bound_arguments
        if not is_bound and (name in old.required) != (name in new.required):
            gain = name in old.required
            yield gain, entry, f"{where} {'is optional' if gain else 'is required'}"


def _of_schema(
    entry: str, where: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Said]:
    """Yield the values that one of two schemas allows, but for a list; texts do not count."""
    for key, more in BOUNDS.items():
        was, now = old.get(key), new.get(key)
        if was != now:
            gain = now is None or (was is not None and (now > was) == more)
            yield gain, entry, f"{where}: {key} is {_json(now)}, previously {_json(was)}"
    was, now = old.get("items"), new.get("items")
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _of_values(entry, where, was.get("enum"), now.get("enum"))
        yield from _of_schema(entry, where, was, now)
    weighed = {"enum", "items", "description", "default", *BOUNDS}
    rest = [{key: one[key] for key in sorted(one.keys() - weighed)} for one in (old, new)]
    if rest[0] != rest[1] or ("items" in old) != ("items" in new):
        yield True, entry, f"{where} accepts values of another type"


def _of_values(
    entry: str, where: str, old: Collection[Any] | None, new: Collection[Any] | None
) -> Iterator[Said]:
    if old is None or new is None:
        if old is not new:
            allowed = "any" if new is None else "only some"
            yield new is None, entry, f"{where} accepts {allowed} values"
        return
    if more := sorted(_json(one) for one in new if one not in old):
        yield True, entry, f"{where} accepts {listed(more)}"
    if fewer := sorted(_json(one) for one in old if one not in new):
        yield False, entry, f"{where} no longer accepts {listed(fewer)}"


def _of_discipline(discipline: str, before: Authority, after: Authority) -> Iterator[Said]:
    old, new = (
        {f"{kit}:{tool}" for kit, tools in removed.items() for tool in tools}
        for one in (before, after)
        for removed in [one.policy.removed_tools.get(discipline, {})]
    )
    had, has = (
        {f"{kit}:{tool.name}" for kit, suite in one.suites.items() for tool in suite}
        for one in (before, after)
    )
    for entry in sorted((old - new) & has):
        yield True, entry, f"{named(entry)} is no longer removed"
    for entry in sorted((new - old) & had):
        yield False, entry, f"{named(entry)} is removed"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
