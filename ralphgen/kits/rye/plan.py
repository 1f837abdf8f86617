"""The decisions of the kit rye: its five tools, its settings and the items that it brings."""

from collections.abc import Mapping
from typing import Any

from ralphgen.kits.rye.skill import SKILL
from ralphgen.kits.rye.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.project.model import Project
from ralphgen.rendering.texts import package_texts
from ralphgen.spelling import Lines

KEY = "rye"
SERVER_NAME = "rye"
TITLE = "Directives, tools and knowledge: found, read, carried out and signed."
NOUNS = {"items": "Tools on items of every type."}
PACKAGE = "ralphgen.kits.rye"
SETTINGS = ("policy", "hosts", "max_timeout", "env")
HELP = "help"
NO_HELP = "the config switches it off"
ABOUT = (
    "Items are directives (workflows to follow), tools (programs) and knowledge, below .ai/ in the "
    "project, with the user and in the system; the first of them that has an id is meant."
)


def plan_rye(project: Project) -> KitPlan:
    """Return the server of the kit rye; its items are found when the server is asked."""
    helps = project.setting(KEY, HELP)
    tools = tuple(tool for tool in TOOLS if helps or tool.name != HELP)
    settings = Lines({name: _unchanging(project.setting(KEY, name)) for name in SETTINGS})
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=tools,
        server=f"{PACKAGE}.server",
        runtime=("files", "processes"),
        settings=settings,
        assets={f"{KEY}/system/{path}": text for path, text in system_items().items()},
        workspace=(("items", "TOOLS"),),
        absent={} if helps else {HELP: NO_HELP},
        refusals="object",
        about=ABOUT,
        skill=SKILL,
    )


def system_items() -> Mapping[str, str]:
    """Return the text of each item that every project has, by its path below their space."""
    return package_texts(PACKAGE, "system")


def _unchanging(value: Any) -> Any:
    """Return a setting as it is emitted, where nothing may add to a list."""
    return tuple(value) if isinstance(value, list) else value
