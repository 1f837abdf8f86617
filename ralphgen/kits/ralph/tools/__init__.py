"""The tools of SPEC-070 in their order, a module a noun."""

from ralphgen.kits.ralph.tools import comments, disciplines, features, project, tasks

TOOLS = (
    *tasks.TOOLS,
    *comments.TOOLS,
    *features.TOOLS,
    *disciplines.TOOLS,
    *project.TOOLS,
)
