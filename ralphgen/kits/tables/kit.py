"""The kit `tables`: serves a database that has no tasks, features and disciplines."""

from dataclasses import replace

from ralphgen.planning.model import HttpUse, KitPlan, SkillPlan
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import ProjectFacts
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.spelling import Lines

SKILL = SkillPlan(
    name="project-tables",
    title="The project's tables",
    description=(
        "Reads and changes rows of the project's database with the tools of its MCP server. Use "
        "it when the user asks about project data, or to add, change or delete rows."
    ),
    overview={
        "How it works": (
            "Each table has its own tools: one lists rows in pages, one reads a row by its key, "
            "and others change rows if this session has them. An error names the problem and the "
            "valid values."
        ),
    },
    workflows=(),
)


SERVER = KitPlan(
    key="tables",
    server_name="project-tables",
    title="The project's tables.",
    nouns={},
    tools=(),
    server="ralphgen.kits.tables.server",
    has_database=True,
    about="The project's tables.",
    connected=True,
    http=HttpUse(),
    skill=SKILL,
)


def plan_server_of_tables(project: ProjectFacts) -> KitPlan:
    """Return the server; the project's own tools are added later."""
    place = project.database_named
    ledger = project.schema.table(MARKER) is not None
    warnings: tuple[str, ...] = ()
    if not project.tables:
        warnings = ('no tools are generated: add tables with "ralphgen tools add NAME"',)
    settings = Lines({"database": place, "ledger": ledger})
    return replace(SERVER, settings=settings, warnings=warnings)


TABLES_KIT = KitDefinition(SERVER, plan_server_of_tables, any_schema=True)
