"""Sections of a skill, as far as a project has them: arguments, sessions and workflows."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ralphgen.planning.model import KitPlan, Names, SkillPlan, Step, ToolPlan
from ralphgen.runtime.policy import GRANTS, OPTIONAL, OWN, REQUIRED, RULES, WITHIN, Policy, Recipe
from ralphgen.spelling import markdown_cell

_PLAIN = re.compile(r"[ -_a-{}~]+")  # ASCII that ends neither a code span nor a cell
MOST = 100  # rows of a table: what is loaded stays short however many recipes a project has
_ABOUT = {REQUIRED: "a {}", OPTIONAL: "a {}, if one is named", GRANTS: "a {}, else it has less"}


def argument_rows(
    schema: Mapping[str, Any], needs: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """Return a row of Markdown cells for each property of an input schema, in its order.

    `needs` holds, by argument, the tool as `"kit:tool"` without which it is not offered.
    """
    required = schema.get("required", ())
    return tuple(
        {
            "name": code(name),
            "type": _type(rule),
            "must": "yes" if name in required else "",
            "values": _values(rule),
            "text": _text(rule, needs.get(name, "")),
        }
        for name, rule in schema.get("properties", {}).items()
    )


def code(value: object) -> str:
    """Return a name or value of JSON as code in a cell.

    One with odd characters as quoted plain text.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    if _PLAIN.fullmatch(text) and text == text.strip():
        return f"`{text}`"
    return markdown_cell(json.dumps(text, ensure_ascii=False))


def codes(values: Iterable[object]) -> str:
    """Return names or values of JSON as code, with commas."""
    return ", ".join(map(code, values))


def _type(rule: Mapping[str, Any]) -> str:
    kinds = rule.get("type", "any")
    if kinds == "array" and "items" in rule:
        return f"array of {_type(rule['items'])}"
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _values(rule: Mapping[str, Any]) -> str:
    """Return the values that an argument may have, or their bounds; empty where all are legal."""
    rule = rule.get("items", rule)
    if "enum" in rule:
        return codes(rule["enum"])
    bounds = {"minimum": "at least", "maximum": "at most", "pattern": "like"}
    said = [f"{words} {code(rule[bound])}" for bound, words in bounds.items() if bound in rule]
    return ", ".join(said)


def _text(rule: Mapping[str, Any], need: str) -> str:
    text = markdown_cell(str(rule.get("description", "")))
    if not need:
        return text
    kit, _, tool = need.partition(":")
    return f"{text} (if the session has {code(tool)} of {code(kit)})".strip()


Rows = tuple[tuple[str, ...], ...]
"""The cells of a table, in Markdown."""


def session_rows(kit: KitPlan, policy: Policy) -> Rows:
    """Return, by recipe, its name, its base if it is the project's own, its rows, its tools."""
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


def removal_rows(kit: KitPlan, policy: Policy) -> Rows:
    """Return, by discipline that takes tools of the kit away, its name and their names."""
    return tuple(
        (markdown_cell(discipline), codes(removed[kit.key]))
        for discipline, removed in policy.removed_tools.items()
        if kit.key in removed
    )


def differences(kit: KitPlan, tool: ToolPlan, policy: Policy) -> tuple[str, ...]:
    """Return a line of Markdown for each recipe that has a tool otherwise than a person has it."""
    lines = []
    for name, recipe in policy.recipes.items():
        if tool.name in recipe.tools[kit.key]:
            said = "; ".join(_differences(f"{kit.key}:{tool.name}", recipe))
            if said:
                lines.append(f"In {markdown_cell(name)}: {said}.")
    return tuple(lines)


def _differences(entry: str, recipe: Recipe) -> Iterator[str]:
    if entry in recipe.narrowed_arguments:
        kept = codes(recipe.narrowed_arguments[entry])
        yield f"takes {kept} only" if kept else "takes no arguments"
    values: Mapping[str, Sequence[str]] = recipe.narrowed_values.get(entry, {})
    for argument, left in values.items():
        yield f"`{argument}` is one of {codes(left)}"
    for kind in recipe.granted_by.get(entry, ()):
        yield f"only a session about a {kind} has it"
    for argument, rule in recipe.bound_arguments.get(entry, {}).items():
        kind, reach = RULES[rule]
        other = {OWN: ", and no other", WITHIN: ", or another of its feature"}.get(reach, "")
        where = "" if recipe.targets.get(kind) == REQUIRED else f" if it has a {kind}"
        yield f"`{argument}` is the session's own {kind} if left out{other}{where}"


@dataclass(frozen=True, slots=True)
class Told:
    """One workflow as it is written: its title, and each step as a line of Markdown."""

    title: str
    steps: Names


def told_workflows(skill: SkillPlan, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[Told, ...]:
    """Return the workflows that make sense with these input schemas, by the names of their tools.

    A step is left out where its tool is not there or does not know a value, and an argument where
    the tool does not have it.
    """
    found = []
    for workflow in skill.workflows:
        steps = tuple(_told(workflow.steps, schemas))
        if steps and all(need in schemas for need in workflow.needs):
            found.append(Told(workflow.title, steps))
    return tuple(found)


def _told(steps: Iterable[Step], schemas: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        rules = schemas.get(step.tool, {}).get("properties", {})
        if not step.tool:
            yield step.text
        elif step.tool in schemas and _knows(step, rules):
            given = [_given(name, value) for name, value in step.given.items() if name in rules]
            called = f"`{step.tool}` with {', '.join(given)}" if given else f"`{step.tool}`"
            yield f"{called}: {step.text[0].lower()}{step.text[1:]}"


def _knows(step: Step, rules: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether every value of a step is one that its argument may have."""
    return all(
        value is None or value in rules.get(name, {}).get("enum", (value,))
        for name, value in step.given.items()
    )


def _given(name: str, value: str | bool | None) -> str:
    return f"`{name}`" if value is None else f"`{name}` {code(value)}"
