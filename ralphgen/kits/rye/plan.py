"""The decisions of the kit rye: its five tools, its settings and the items that it brings."""

from typing import Any

from ralphgen.kits.rye.skill import SKILL
from ralphgen.kits.rye.system_items import system_items
from ralphgen.kits.rye.tools import PROFILED, TOOLS, narrow
from ralphgen.planning.model import KitPlan, Module, Names
from ralphgen.project.model import Project
from ralphgen.spelling import Lines

KEY = "rye"
SERVER_NAME = "rye"
TITLE = "Directives, tools and knowledge: found, read, carried out and signed."
NOUNS = {"items": "Tools on items of every type."}
SETTINGS = ("policy", "hosts", "max_timeout", "env")
HELP = "help"
NO_HELP = "the config switches it off"


def plan_rye(project: Project) -> KitPlan:
    """The server of the kit rye for a project; its items are found when the server is asked."""
    helps = project.setting(KEY, HELP)
    tools = tuple(tool for tool in TOOLS if helps or tool.name != HELP)
    names = {tool.name for tool in tools}
    settings = Lines({name: _unchanging(project.setting(KEY, name)) for name in SETTINGS})
    constants = {"title": "The settings of the kit.", "constants": [("SETTINGS", settings)]}
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=tools,
        server="ralphgen.kits.rye.server",
        runtime=("files", "processes"),
        constants={},
        absent={} if helps else {HELP: NO_HELP},
        profiles={profile: _kept(kept, names) for profile, kept in PROFILED.items()},
        narrow=narrow,
        modules=(Module(f"{KEY}/settings.py", "constants.py.jinja", constants),),
        assets={f"{KEY}/system/{path}": text for path, text in system_items().items()},
        workspace=(("settings", "SETTINGS"), ("items", "TOOLS")),
        loaded_first=dict.fromkeys(("task_execution", "opus_review"), ("search", "execute")),
        refusals="object",
        skill=SKILL,
    )


def _unchanging(value: Any) -> Any:
    """A setting as it is emitted, where nothing may add to a list."""
    return tuple(value) if isinstance(value, list) else value


def _kept(names: Names, there: set[str]) -> Names:
    return tuple(name for name in names if name in there)
