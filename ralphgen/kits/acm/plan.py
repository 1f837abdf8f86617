"""The decisions of the kit acm: the same thirteen tools for every project and every session."""

from ralphgen.kits.acm.skill import SKILL
from ralphgen.kits.acm.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.project.model import Project

KEY = "acm"
SERVER_NAME = "acm"
TITLE = "Process knowledge: stages, artifacts, reviews, capabilities and what was learned."
NOUNS = {
    "orchestration": "Tools on the stages of a project.",
    "artifacts": "Tools on what a project writes down.",
    "project": "Tools on a project as a whole.",
    "governance": "Tools on rules and context files.",
    "capabilities": "Tools on the registry of capabilities.",
    "knowledge": "Tools on the knowledge base.",
}
ABOUT = "Process knowledge: how a project goes through its stages. Every tool only reads."


def plan_acm(project: Project) -> KitPlan:
    """Return the server of the kit acm; its documents are read when they are asked for."""
    settings = {name: project.setting(KEY, name) for name in ("root", "registry")}
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=TOOLS,
        server="ralphgen.kits.acm.server",
        runtime=("files",),
        settings=settings,
        about=ABOUT,
        skill=SKILL,
    )
