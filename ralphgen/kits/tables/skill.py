"""What the skill of the kit tables says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan

SKILL = SkillPlan(
    name="project-tables",
    title="The project's tables",
    description=(
        "Reads and changes rows of the project's own database by the tools of its MCP server. "
        "Use it when the user asks about data of the project, or to add, change or delete rows."
    ),
    overview={
        "How it works": (
            "Each table has tools of its own: one that lists rows, page by page, one that reads a "
            "row by its key, and those that change rows, as far as this session has them. A "
            "refusal names what was wrong, and what there is in its place."
        ),
    },
    workflows=(),
)
