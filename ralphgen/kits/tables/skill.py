"""What the skill of the kit tables says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan

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
