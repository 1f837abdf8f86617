"""Renders the Agent Skill of each kit: its text, its tool guide and its manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.clients.forms import ClientEntries
from ralphgen.files import Files, seal
from ralphgen.planning.model import KitPlan, ServerPlan, SkillPlan, ToolPlan
from ralphgen.planning.preview import listed_tools
from ralphgen.rendering.templates import rendered
from ralphgen.runtime.protocol.skills import EFFECTS
from ralphgen.skills.sections import (
    MOST,
    argument_rows,
    codes,
    differences,
    removal_rows,
    session_rows,
    told_workflows,
)

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
        """Where it lies, below the project's folder."""
        return f"{SKILLS}/{self.name}"


def render_skills(plan: ServerPlan, place: str = SKILLS) -> tuple[Skill, ...]:
    """Return the skill of every kit of the plan that has one, in the order of the kits.

    `place` is the folder that their texts say they lie in. The same plan gives the same bytes:
    nothing in them names a machine or a day, and only the manifest names a version.
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
        TEXT: rendered("skill.md.jinja", **values),
        GUIDE: rendered("tool_guide.md.jinja", **values),
    }
    return seal({**OURS, **texts}, {"ralphgen": __version__, "kit": kit.key})


def _tool(
    plan: ServerPlan, kit: KitPlan, tool: ToolPlan, schema: Mapping[str, Any]
) -> dict[str, object]:
    """Return what is written of one tool: its words, arguments and the sessions that have it."""
    offered = {other.name for other in kit.tools}
    effect, effect_sentence = EFFECTS[tool.hints]
    if tool.writes_by:
        named = codes(tool.writes_by)
        effect = f"{effect} with {named}"
        effect_sentence = f"Without {named} it changes nothing. {effect_sentence}"
    recipes = plan.policy.recipes
    seen_by = [name for name in recipes if tool.name in recipes[name].tools[kit.key]]
    needs = {argument.name: argument.needs for argument in tool.arguments}
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
