"""Spells what a server says of its kit in an Agent Skill: the data of `protocol/skills.py`."""

from ralphgen.planning.model import KitPlan, Module, PlannedTool, SkillPlan, Workflow
from ralphgen.spelling import Lines, Value, markdown_cell


def skill_module(kit: KitPlan, skill: SkillPlan) -> Module:
    """Return the module that holds the words of a kit's skill, and of each of its tools."""
    words = Lines(
        {
            "name": skill.name,
            "title": skill.title,
            "description": skill.description,
            "overview": Lines(skill.overview),
            "tools": Lines({tool.name: _tool(kit, tool) for tool in kit.tools}),
            "workflows": Lines([_workflow(workflow) for workflow in skill.workflows]),
        }
    )
    title = "The skill of this server, which clients read as a resource."
    values = {"title": title, "constants": [("SKILL", words)]}
    return Module(f"{kit.key}/skill.py", "constants.py.jinja", values)


def _tool(kit: KitPlan, tool: PlannedTool) -> Value:
    every = {other.name for other in kit.tools}
    said = {"purpose": markdown_cell(tool.purpose), "answer": markdown_cell(tool.answer)}
    instead = {name: markdown_cell(what) for name, what in tool.instead.items() if name in every}
    return Lines({**said, "instead": instead} if instead else said)


def _workflow(workflow: Workflow) -> Value:
    steps: list[Value] = [
        {"tool": step.tool, "given": dict(step.given), "text": step.text} for step in workflow.steps
    ]
    return Lines({"title": workflow.title, "needs": list(workflow.needs), "steps": Lines(steps)})
