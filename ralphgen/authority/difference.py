"""What one server lets sessions do and another does not, in sentences: gains and losses."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ralphgen.authority import Authority, AuthorityChange
from ralphgen.errors import ProjectError, plain
from ralphgen.planning.preview import supposed_session
from ralphgen.project.done import loosened_facts
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import GRANTS, OPTIONAL, REQUIRED, RULES
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


REACHES = ("own", "within", "any")  # of a bound argument; one that is not bound reaches farther
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
    for discipline in sorted({*before.removed, *after.removed}):
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
    old, new = _seen(recipe, before), _seen(recipe, after)
    if old is None and new is None:
        return
    if old is None or new is None:
        there = new if old is None else old or {}
        tools = f"with {listed(there or {})}" if there else "without tools"
        yield old is None, "", f"{'new' if old is None else 'removed'} recipe, {tools}"
        return
    yield from _rows(before.policy.targets(recipe), after.policy.targets(recipe))
    for entry in dict.fromkeys((*new, *old)):
        if entry not in old or entry not in new:
            gain = entry in new
            yield gain, entry, f"{named(entry)} {'can' if gain else 'can no longer'} be called"
            continue
        kit, _, tool = entry.partition(":")
        rules = [one.policy.bound(recipe, kit).get(tool, {}) for one in (before, after)]
        yield from _of_tool(entry, old[entry], new[entry], {*rules[0], *rules[1]})
        yield from _bound(entry, *rules)


def _of_rules(old: Collection[str], new: Collection[str]) -> Iterator[Said]:
    """Yield each pattern of tools that a recipe may never have now and might, or the reverse."""
    for pattern in sorted({*old} ^ {*new}):
        if pattern in new:
            yield False, "", f"a rule forbids tools like {named(pattern)}"
        else:
            yield True, "", f"no rule forbids tools like {named(pattern)} any more"


def _seen(recipe: str, authority: Authority) -> dict[str, Tool] | None:
    """Return the tools of a recipe's sessions by `"kit:tool"`, None where there is no such one."""
    if recipe not in authority.policy.recipes:
        return None
    seen: dict[str, Tool] = {}
    for kit, suite in authority.suites.items():
        try:
            tools = supposed_session(authority.policy, recipe, kit).tools(suite)
        except (StartError, LookupError, TypeError, AttributeError, ValueError) as error:
            text = f'the recipe "{recipe}" of the server is invalid: {error}'
            raise ProjectError(text, 'run "ralphgen check" there') from error
        seen.update({f"{kit}:{name}": tool for name, tool in tools.items()})
    return seen


def _rows(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Said]:
    for kind in sorted({*old, *new}):
        was, now = (NEEDS.get(one.get(kind, ""), len(NEEDS)) for one in (old, new))
        if now > was:
            yield True, "", f"sessions are less restricted to their own {kind}"
        elif now < was:
            yield False, "", f"sessions are more restricted to their own {kind}"


def _of_tool(entry: str, old: Tool, new: Tool, bound: Collection[str]) -> Iterator[Said]:
    """Yield what one of two tools takes; whether `bound` arguments must be given is not theirs."""
    if old.hints != new.hints:
        reads = bool(new.hints.get("readOnlyHint"))
        says = "only reads" if reads else f"declares {_json(new.hints)}"
        yield not reads, entry, f"{named(entry)} {says}"
    for name in dict.fromkeys((*new.properties, *old.properties)):
        if name not in old.properties:
            yield True, entry, f"{named(entry)} accepts {named(name)}"
        elif name not in new.properties:
            yield False, entry, f"{named(entry)} no longer accepts {named(name)}"
        else:
            where = f"{named(name)} of {named(entry)}"
            yield from _of_schema(entry, where, old.properties[name], new.properties[name])
    for name in sorted((old.properties.keys() & new.properties.keys()) - {*bound}):
        if (name in old.required) != (name in new.required):
            gain = name in old.required
            word = "is optional" if gain else "is required"
            yield gain, entry, f"{named(name)} of {named(entry)} {word}"


def _of_schema(
    entry: str, where: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Said]:
    """Yield what a schema lets through and another does not; words and defaults do not count."""
    yield from _of_values(entry, where, old.get("enum"), new.get("enum"))
    for key, more in BOUNDS.items():
        was, now = old.get(key), new.get(key)
        if was != now:
            gain = now is None or (was is not None and (now > was) == more)
            yield gain, entry, f"{where}: {key} is {_json(now)}, previously {_json(was)}"
    if isinstance(old.get("items"), dict) and isinstance(new.get("items"), dict):
        yield from _of_schema(entry, where, old["items"], new["items"])
    weighed = {"enum", "items", "description", "default", *BOUNDS}
    rest = [{key: one[key] for key in sorted(one.keys() - weighed)} for one in (old, new)]
    if rest[0] != rest[1] or ("items" in old) != ("items" in new):
        yield True, entry, f"{where} accepts values of another type"


def _of_values(
    entry: str, where: str, old: Sequence[Any] | None, new: Sequence[Any] | None
) -> Iterator[Said]:
    if old is None or new is None:
        if old is not new:
            yield (
                new is None,
                entry,
                f"{where} accepts {'any' if new is None else 'only some'} values",
            )
        return
    more = [one for one in new if one not in old]
    fewer = [one for one in old if one not in new]
    if more:
        yield True, entry, f"{where} accepts {listed(map(_json, more))}"
    if fewer:
        yield False, entry, f"{where} no longer accepts {listed(map(_json, fewer))}"


def _bound(entry: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Said]:
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        far = [_reach(one) for one in (was, now)]
        if far[0] == far[1]:
            continue
        rows = named(now) if now else "any row, not only that of the session"
        yield far[1] > far[0], entry, f"{named(name)} of {named(entry)} can name {rows}"


def _reach(rule: str | None) -> int:
    """Return how far the rule of a bound argument reaches; one that nobody knows holds nothing."""
    _, reach = RULES.get(rule or "", ("", ""))
    return REACHES.index(reach) if reach else len(REACHES)


def _of_discipline(discipline: str, before: Authority, after: Authority) -> Iterator[Said]:
    old, new = (set(_entries(one.removed.get(discipline, {}))) for one in (before, after))
    had, has = (
        {f"{kit}:{tool.name}" for kit, suite in one.suites.items() for tool in suite}
        for one in (before, after)
    )
    for entry in sorted((old - new) & has):
        yield True, entry, f"{named(entry)} is no longer removed"
    for entry in sorted((new - old) & had):
        yield False, entry, f"{named(entry)} is removed"


def _entries(by_kit: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{kit}:{tool}" for kit, tools in by_kit.items() for tool in tools)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
