"""Renders the Agent Skill of each kit, and the section on the servers in `AGENTS.md`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.emit.clients import ClientEntries
from ralphgen.errors import ProjectError
from ralphgen.files import Files, seal
from ralphgen.planning.model import (
    KitPlan,
    Names,
    PlannedTool,
    ServerPlan,
    SkillPlan,
    Step,
    listed_tools,
)
from ralphgen.rendering import rendered
from ralphgen.runtime.policy import GRANTS, OPTIONAL, OWN, REQUIRED, RULES, WITHIN, Policy, Recipe
from ralphgen.runtime.protocol.calls import effect_of
from ralphgen.spelling import markdown_cell

_PLAIN = re.compile(r"[ -_a-{}~]+")  # ASCII that ends neither a code span nor a cell
MOST = 100  # rows of a table: limits the loaded text in projects with many recipes
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
    """Return the values that an argument may have, or their bounds; empty if all are legal."""
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


def differences(kit: KitPlan, tool: PlannedTool, policy: Policy) -> tuple[str, ...]:
    """Return a line of Markdown for each recipe whose version of a tool differs from the user's."""
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
    """A rendered workflow: its title, and each step as a line of Markdown."""

    title: str
    steps: Names


def told_workflows(skill: SkillPlan, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[Told, ...]:
    """Return the workflows that these input schemas support, with the names of their tools.

    A step is left out if its tool is missing or does not support a value, and an argument if the
    tool does not have it.
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
            given = [
                f"`{name}`" if value is None else f"`{name}` {code(value)}"
                for name, value in step.given.items()
                if name in rules
            ]
            called = f"`{step.tool}` with {', '.join(given)}" if given else f"`{step.tool}`"
            yield f"{called}: {step.text[0].lower()}{step.text[1:]}"


def _knows(step: Step, rules: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the argument of each value in a step accepts it."""
    return all(
        value is None or value in rules.get(name, {}).get("enum", (value,))
        for name, value in step.given.items()
    )


FILE = "AGENTS.md"
MARK = "<!-- ralphgen: "
BEGIN = f"{MARK}generated section, rewritten by ralphgen regen -->"
END = f"{MARK}up to here -->"


def render_section(plan: ServerPlan, checks: Sequence[str]) -> str:
    """Return the section with its marks; `checks` names the requirements for closing a task."""
    kits = [kit for kit in plan.kits if kit.skill is not None]
    named = codes(checks) if checks else ""
    return rendered("skills/agents_md.md.jinja", begin=BEGIN, end=END, kits=kits, checks=named)


def with_section(section: str, text: str) -> str:
    """Return the text of the file with the section, at its end if it has none yet.

    Every other byte is unchanged. Raises `ProjectError` unless the text has both marks once, in
    their order, or none.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    section = section.replace("\n", end_of_line)
    lines = text.splitlines(keepends=True)
    marks = [at for at, line in enumerate(lines) if line.strip().startswith(MARK)]
    ends = [at for at in marks if lines[at].strip() == END]
    begins = [at for at in marks if at not in ends]  # earlier versions had another text there
    if not begins and not ends:
        gap = "" if not text else end_of_line if text.endswith("\n") else 2 * end_of_line
        return text + gap + section
    if len(begins) != 1 or len(ends) != 1 or ends < begins:
        wrong = f'"{FILE}" does not have both marks of ralphgen once, the first one first'
        raise ProjectError(wrong, f'put the lines "{BEGIN}" and "{END}" right, or remove both')
    return "".join([*lines[: begins[0]], section, *lines[ends[0] + 1 :]])


SKILLS = ".claude/skills"
TEXT, GUIDE = "SKILL.md", "references/tool-guide.md"
OURS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n",
}


@dataclass(frozen=True, slots=True)
class Skill:
    """An Agent Skill: name, kit, description, and its files by path in its folder."""

    name: str
    kit: str
    description: str
    files: Files

    @property
    def folder(self) -> str:
        """Its path below the project's folder."""
        return f"{SKILLS}/{self.name}"


def render_skills(plan: ServerPlan, place: str = SKILLS) -> tuple[Skill, ...]:
    """Return the skill of every kit of the plan that has one, in the order of the kits.

    `place` is the folder that their texts name as their location. The same plan gives the same
    bytes: nothing in them names a machine or a day, and only the manifest names a version.
    """
    return tuple(
        Skill(kit.skill.name, kit.key, kit.skill.description, _files(plan, kit, kit.skill, place))
        for kit in plan.kits
        if kit.skill is not None
    )


def _files(plan: ServerPlan, kit: KitPlan, skill: SkillPlan, place: str) -> Files:
    listed = {tool["name"]: tool for tool in listed_tools(plan, "manual", kit)}
    schemas = {name: tool["inputSchema"] for name, tool in listed.items()}
    sessions, removals = session_rows(kit, plan.policy), removal_rows(kit, plan.policy)
    values: dict[str, object] = {
        "kit": kit.key,
        "skill": skill,
        "folder": f"{place}/{skill.name}",
        "tools": [_tool(plan, kit, tool, schemas[tool.name]) for tool in kit.tools],
        "workflows": told_workflows(skill, schemas),
        "sessions": sessions[:MOST],
        "removals": removals[:MOST],
        "more": max(len(sessions), len(removals)) > MOST,
        "entry": ClientEntries("claude", Path(), (kit.key,)).text.rstrip(),
    }
    texts = {
        TEXT: rendered("skills/skill.md.jinja", **values),
        GUIDE: rendered("skills/tool_guide.md.jinja", **values),
    }
    return seal({**OURS, **texts}, {"ralphgen": __version__, "kit": kit.key})


def _tool(
    plan: ServerPlan, kit: KitPlan, tool: PlannedTool, schema: Mapping[str, Any]
) -> dict[str, object]:
    """Return the data of one tool's section: its texts, arguments and the sessions that have it."""
    offered = {other.name for other in kit.tools}
    effect, effect_sentence = effect_of(tool)
    recipes = plan.policy.recipes
    seen_by = [name for name in recipes if tool.name in recipes[name].tools[kit.key]]
    needs = {name: need for name, need in tool.needs.items() if ":" in need}
    return {
        "name": tool.name,
        "description": tool.description,
        "purpose": tool.purpose,
        "answer": tool.answer,
        "instead": {name: what for name, what in tool.instead.items() if name in offered},
        "effect": effect,
        "effect_sentence": effect_sentence,
        "arguments": argument_rows(schema, needs),
        "recipes": "all" if len(seen_by) == len(recipes) else ", ".join(seen_by),
        "differences": differences(kit, tool, plan.policy),
    }
