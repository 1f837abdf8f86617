"""The decisions of the kit dela: the same six tools for every project, and its settings."""

from dataclasses import replace

from ralphgen.kits.dela.skill import SKILL
from ralphgen.kits.dela.tools import FURTHER, TOOLS
from ralphgen.planning.model import KitPlan, ToolPlan
from ralphgen.project.model import Project
from ralphgen.spelling import Lines

KEY = "dela"
SERVER_NAME = "dela-mcp"
TITLE = "The project's own tasks: found, started, watched and stopped."
NOUNS = {"tasks": "Tools that find and start tasks.", "jobs": "Tools on tasks that were started."}
SETTINGS = ("root", "allowlist", "max_jobs", "lines", "bytes", "ttl")
ABOUT = "The project's own tasks."


def plan_dela(project: Project) -> KitPlan:
    """Return the server of the kit dela; its tasks are found when the server is asked."""
    tools = tuple(_tool(tool, further=project.setting(KEY, "allow_args")) for tool in TOOLS)
    settings = Lines({name: project.setting(KEY, name) for name in SETTINGS})
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=tools,
        server="ralphgen.kits.dela.server",
        runtime=("files", "processes"),
        settings=settings,
        refusals="error",
        about=ABOUT,
        skill=SKILL,
    )


def _tool(tool: ToolPlan, *, further: bool) -> ToolPlan:
    """Return the tool, without what makes a task run otherwise where the project forbids that."""
    if further:
        return tool
    kept = tuple(argument for argument in tool.arguments if argument.name not in FURTHER)
    return replace(tool, arguments=kept)
