"""The tools on disciplines."""

from ralphgen.kits.ralph.table_tool import ACRONYM, CHANGED, DELETED, ON_LISTS, PAGING, TableTool
from ralphgen.planning.model import Argument
from ralphgen.spelling import Name

NAME = Argument("name", Name("STRING"), required=True)
FIELDS = ("acronym", "description", "system_prompt", "skills", "conventions")

TOOLS = (
    TableTool(
        "list_disciplines",
        module="disciplines",
        hints="READ_ONLY",
        description="List disciplines.",
        arguments=PAGING,
        answer_shape="disciplines",
        recipes=("braindump", "yap", "discuss", "enrichment"),
        instruction="disciplines: {tools}",
        advice=ON_LISTS,
        purpose="see who can be given a task",
        answer="a page of disciplines",
    ),
    TableTool(
        "get_discipline",
        module="disciplines",
        hints="READ_ONLY",
        description="Get all of a discipline: prompt, skills, conventions, MCP servers.",
        arguments=(NAME,),
        answer_shape="discipline",
        recipes=("braindump", "discuss"),
        loaded_first=("discuss",),
        bound={"name": "any discipline"},
        instruction="disciplines: {tools}",
        purpose="read what a discipline is told and what it knows",
        answer="prompt, skills and conventions",
    ),
    TableTool(
        "create_discipline",
        module="disciplines",
        hints="NON_DESTRUCTIVE",
        description="Create a discipline.",
        notes=(ACRONYM,),
        table="disciplines",
        fields=("name", "display_name", "icon", "color", *FIELDS),
        required=("name", "display_name", "icon", "color"),
        added=True,
        creates=True,
        recipes=("braindump",),
        instruction="disciplines: {tools}",
        purpose="add a kind of worker that tasks can be given to",
        answer="the row",
    ),
    TableTool(
        "update_discipline",
        module="disciplines",
        hints="IDEMPOTENT",
        description="Change the given fields of a discipline.",
        table="disciplines",
        arguments=(NAME,),
        fields=("display_name", "icon", "color", *FIELDS),
        added=True,
        clears=True,
        recipes=("discuss",),
        loaded_first=("discuss",),
        bound={"name": "own discipline"},
        instruction="disciplines: {tools}",
        purpose="sharpen what a discipline is told; fields that are not given stay as they are",
        answer=CHANGED,
    ),
    TableTool(
        "delete_discipline",
        module="disciplines",
        hints="DESTRUCTIVE",
        description="Delete a discipline that has no tasks.",
        arguments=(NAME,),
        bound={"name": "own discipline"},
        instruction="disciplines: {tools}",
        purpose="remove a discipline without tasks",
        answer=DELETED,
    ),
)
