"""The decisions of the kit dela: the same six tools for every project, and its settings."""

from dataclasses import replace

from ralphgen.kits.dela.skill import SKILL
from ralphgen.kits.dela.tools import FURTHER, PROFILED, TOOLS
from ralphgen.planning.model import KitPlan, Module, ToolPlan
from ralphgen.project.model import Project
from ralphgen.spelling import Lines

KEY = "dela"
SERVER_NAME = "dela-mcp"
TITLE = "The project's own tasks: found, started, watched and stopped."
NOUNS = {"tasks": "Tools that find and start tasks.", "jobs": "Tools on tasks that were started."}
SETTINGS = ("root", "allowlist", "max_jobs", "lines", "bytes", "ttl")


def plan_dela(project: Project) -> KitPlan:
    """The server of the kit dela for a project; its tasks are found when the server is asked."""
    tools = tuple(_tool(tool, further=project.setting(KEY, "allow_args")) for tool in TOOLS)
    settings = Lines({name: project.setting(KEY, name) for name in SETTINGS})
    constants = {"title": "The settings of the kit.", "constants": [("SETTINGS", settings)]}
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=tools,
        server="ralphgen.kits.dela.server",
        runtime=("files", "processes"),
        constants={},
        absent={},
        profiles=PROFILED,
        modules=(Module(f"{KEY}/settings.py", "constants.py.jinja", constants),),
        workspace=(("settings", "SETTINGS"),),
        loaded_first=dict.fromkeys(("task_execution", "opus_review"), ("list_tasks", "task_start")),
        refusals="error",
        skill=SKILL,
    )


def _tool(tool: ToolPlan, *, further: bool) -> ToolPlan:
    """The tool, without what makes a task run otherwise where the project does not want that."""
    if further:
        return tool
    kept = tuple(argument for argument in tool.arguments if argument.name not in FURTHER)
    return replace(tool, arguments=kept)
