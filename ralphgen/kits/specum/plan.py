"""The decisions of the kit specum: the same eleven tools for every project, and its texts."""

from functools import cache
from importlib import resources

from ralphgen.kits.specum.skill import SKILL
from ralphgen.kits.specum.tools import PROFILED, TOOLS, narrow
from ralphgen.planning.model import KitPlan, Module
from ralphgen.project.model import Project

KEY = "specum"
SERVER_NAME = "ralph-specum"
TITLE = "Spec-driven workflow: research, requirements, design, tasks, execution."
NOUNS = {
    "workflow": "Tools that act at once.",
    "phases": "Tools that hand out the instructions of a phase.",
}
KINDS = ("prompts", "templates")


def plan_specum(project: Project) -> KitPlan:
    """The server of the kit specum for a project."""
    settings = {"root": project.setting(KEY, "root")}
    constants = {"title": "The settings of the kit.", "constants": [("SETTINGS", settings)]}
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=TOOLS,
        server="ralphgen.kits.specum.server",
        runtime=("files",),
        constants={},
        absent={},
        profiles=PROFILED,
        narrow=narrow,
        modules=(Module(f"{KEY}/settings.py", "constants.py.jinja", constants),),
        assets=_texts(),
        workspace=(("settings", "SETTINGS"),),
        loaded_first={"task_execution": ("ralph_implement",)},
        prompts=True,
        skill=SKILL,
    )


@cache
def _texts() -> dict[str, str]:
    """By path in the emitted server, the prompts and templates that are handed out."""
    folder = resources.files("ralphgen.kits.specum").joinpath("texts")
    return {
        f"{KEY}/{kind}/{file.name}": file.read_text(encoding="utf-8")
        for kind in KINDS
        for file in sorted(folder.joinpath(kind).iterdir(), key=lambda file: file.name)
    }
