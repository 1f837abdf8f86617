"""Plans the tools that a project has written itself."""

import json

from ralphgen.errors import Problem, ProjectError
from ralphgen.planning.model import RECIPES, Argument, KitPlan, Names, PlannedTool, ToolData
from ralphgen.planning.server import Addition
from ralphgen.project.model import OwnTool, Project
from ralphgen.project.own_tools import FOLDER
from ralphgen.runtime import tool as runtime_tool
from ralphgen.spelling import Construction
from ralphgen.suggestion import suggestion

OWN_TOOLS = "own_tools"
MODULE = "runtime.own_tools"
ABOUT_OWN_TOOLS = (
    "Some tools are custom functions of the project. Their authors wrote the descriptions and the "
    "error messages. A call is stopped at its time limit."
)
OWN_TOOLS_USED_FOR = "Use it also for the project's custom tools."


def plan_own_tools(project: Project, _host: KitPlan) -> Addition:
    """Return the tools of `.ralph/tools` as they are added to a server.

    Raises `ProjectError` for recipes that ralphgen does not bring.
    """
    if not project.own_tools:
        return Addition()
    problems = [
        Problem(
            f'{tool.place}: there is no recipe "{name}" for "{tool.name}"',
            suggestion(name, RECIPES, "the recipes"),
        )
        for tool in project.own_tools
        for name in tool.recipes
        if name not in RECIPES
    ]
    if problems:
        raise ProjectError.of(problems)
    return Addition(
        nouns={OWN_TOOLS: f"The project's own tools, from {FOLDER}."},
        tools=tuple(_own_tool(tool, project.schema.hide) for tool in project.own_tools),
        overview={"Custom tools of the project": ABOUT_OWN_TOOLS},
        used_for=OWN_TOOLS_USED_FOR,
        origins={tool.name: tool.origin for tool in project.own_tools},
    )


def _own_tool(tool: OwnTool, hide: Names) -> PlannedTool:
    about = dict(tool.about)
    function = Construction(
        "OwnFunction",
        (tool.name, tool.file, tool.sha256),
        {
            "seconds": tool.seconds,
            **({"reads": True} if tool.hints == "READ_ONLY" else {}),
            **({"hide": hide} if hide else {}),
            **({"answers": schema} if (schema := json.loads(tool.returns)) else {}),
        },
    )
    return PlannedTool(
        tool.name,
        module=OWN_TOOLS,
        hints=getattr(runtime_tool, tool.hints),
        description=tool.sentence,
        arguments=tuple(
            Argument(
                name,
                json.loads(schema) | ({"description": about[name]} if name in about else {}),
                required=required,
            )
            for name, schema, required in tool.parameters
        ),
        run=f"{MODULE}.own_tool",
        data=ToolData(f"OWN_{tool.name.upper()}", MODULE, function),
        recipes=tool.recipes,
        interactive=tool.interactive,
        bound={name: f"own {row}" for name, row in tool.bind},
        granted_by=()
        if tool.hints == "READ_ONLY"
        else tuple(dict.fromkeys(dict(tool.bind).values())),
        instruction="custom tools: {tools}",
        purpose=f"run a function of the project: {tool.sentence}",
        answer="the result of the function",
    )
