"""The decisions of the kit specum: the same eleven tools for every project, and its texts."""

from ralphgen.kits.specum.skill import SKILL
from ralphgen.kits.specum.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.project.model import Project
from ralphgen.rendering.texts import package_texts

KEY = "specum"
SERVER_NAME = "ralph-specum"
TITLE = "Spec-driven workflow: research, requirements, design, tasks, execution."
NOUNS = {
    "workflow": "Tools that act at once.",
    "phases": "Tools that hand out the instructions of a phase.",
}
PACKAGE = "ralphgen.kits.specum"


def plan_specum(project: Project) -> KitPlan:
    """Return the server of the kit specum; its specs are read when they are asked for."""
    settings = {"root": project.setting(KEY, "root")}
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=TOOLS,
        server=f"{PACKAGE}.server",
        runtime=("files",),
        settings=settings,
        assets={f"{KEY}/{path}": text for path, text in package_texts(PACKAGE, "texts").items()},
        prompts=True,
        skill=SKILL,
    )
