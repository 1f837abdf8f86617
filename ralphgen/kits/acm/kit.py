"""The kit `acm`: its settings, and the same thirteen tools for every project and every session."""

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.kits.acm.finding import CorpusFiles, find_documents
from ralphgen.kits.acm.skill import SKILL
from ralphgen.kits.acm.tools import TOOLS
from ralphgen.planning.model import KitPlan
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Project


class AcmSettings(BaseModel):
    """`[acm]`: the folders of the documents and of the capabilities registry.

    Both are in the project. The user's variables ACM_ROOT and ACM_REGISTRY_ROOT go first and name
    any folder; if nothing is said, the usual places are looked at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: str = Field(default="", description="Directory of the documents.")
    registry: str = Field(default="", description="Directory of the capabilities registry.")


SERVER = KitPlan(
    key="acm",
    server_name="acm",
    version="1.0.0",
    title="Process knowledge: stages, artifacts, reviews, capabilities and lessons learned.",
    nouns={
        "orchestration": "Tools for project stages.",
        "artifacts": "Tools for project artifacts.",
        "project": "Tools for the whole project and its rules.",
        "capabilities": "Tools for the capabilities registry.",
        "knowledge": "Tools for the knowledge base.",
    },
    tools=TOOLS,
    server="ralphgen.kits.acm.server",
    about="Process knowledge for taking a project through its stages. All tools are read-only.",
    skill=SKILL,
)


def plan_acm(project: Project) -> KitPlan:
    """Return the server of the kit acm; its documents are read when they are asked for."""
    settings = {name: project.setting(SERVER.key, name) for name in AcmSettings.model_fields}
    return replace(SERVER, settings=settings)


ACM = KitDefinition(SERVER, plan_acm, AcmSettings, find=find_documents, setup=CorpusFiles())
