"""The five tools of rye."""

from ralphgen.planning.model import (
    BOOLEAN,
    OBJECTS,
    RECIPES,
    TEXT,
    Names,
    PlannedTool,
    answer_of,
    choice,
    typed,
)
from ralphgen.runtime.tool import DESTRUCTIVE, IDEMPOTENT, INTEGER, OPEN_WORLD, READ_ONLY

NOUN = "items"
WORKING: Names = ("task_execution", "opus_review")
"""The recipes whose sessions execute, copy and sign items; all others only look."""
ITEM_TYPES = ("directive", "tool", "knowledge")
PROJECT_PATH = typed(
    "project_path", "string", "Absolute path of this project or a directory in it", required=True
)
ON_PATHS = "project_path is always the absolute path of this project or a directory in it."
ITEM_ID = typed("item_id", "string", "Such as demo/greet; a bare name if unique", required=True)


ITEM_TYPE = choice("item_type", ITEM_TYPES, required=True)
SOURCE = choice(
    "source",
    ("project", "user", "system"),
    "Only this space (default: the first that has it)",
)
TOOLS = (
    PlannedTool(
        "search",
        module=NOUN,
        hints=READ_ONLY,
        description=(
            "Find directives (workflows), tools and knowledge of this project, the user and the "
            "system. An empty query lists all."
        ),
        arguments=(
            choice("item_type", (*ITEM_TYPES, "all"), required=True),
            typed(
                "query",
                "string",
                'Words; also AND, OR, NOT (capitals), ( ), "a phrase", wild*; '
                "in one field: title:, name:, tags:, category:, description:, body:",
                required=True,
            ),
            PROJECT_PATH,
            choice("source", ("project", "user", "system", "all"), "default: all"),
            typed("limit", "integer", "default: 10", minimum=1, maximum=100),
            typed("offset", "integer", minimum=0),
            choice("sort_by", ("score", "date", "name"), "default: score"),
            typed(
                "filters",
                "object",
                "Metadata by name: a value or a list; prefix ! negates, and >, >=, <, <= "
                "compare; also date_from and date_to",
            ),
            typed(
                "fuzzy",
                "object",
                "Also misspelled words; {} is enough",
                properties={
                    "enabled": BOOLEAN,
                    "max_distance": {"type": "integer", "minimum": 1, "maximum": 3},
                },
                additionalProperties=False,
            ),
        ),
        returns=answer_of(
            status=TEXT,
            results=OBJECTS,
            total=INTEGER,
            query=TEXT,
            search_type=TEXT,
            item_type=TEXT,
            source=TEXT,
            limit=INTEGER,
            offset=INTEGER,
            next_offset=INTEGER,
        ),
        search_hint="find workflows, tools, knowledge, items",
        recipes=RECIPES,
        loaded_first_in=WORKING,
        instruction="search finds items; look for one before you do work by hand.",
        advice=ON_PATHS,
        purpose="find an existing item before doing the work by hand",
        answer=("ids with types, spaces, descriptions and scores, best first, and the total"),
        instead={"load": "the text of a result"},
    ),
    PlannedTool(
        "load",
        module=NOUN,
        hints=DESTRUCTIVE,
        description=(
            "Read an item: its text, metadata and parameters, and whether its signature is valid."
        ),
        arguments=(
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            SOURCE,
            choice("destination", ("project", "user"), "Copy it to this space"),
            typed("overwrite", "boolean", "Replace an existing item with this id"),
        ),
        search_hint="read a workflow, a tool, knowledge",
        writes_by=("destination",),
        recipes=RECIPES,
        reserved={"destination": WORKING, "overwrite": WORKING},
        instruction="load reads one, with its parameters and signature state.",
        advice=ON_PATHS,
        purpose="read an item and its parameters, or check its signature",
        answer="its text, metadata, path and signature state",
        instead={"execute": "running it"},
    ),
    PlannedTool(
        "execute",
        module=NOUN,
        hints=OPEN_WORLD,
        description=(
            "Execute an item: run a tool, get a directive's steps to follow, or read knowledge."
        ),
        arguments=(
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            typed("parameters", "object", "A tool's parameters, a directive's inputs"),
            typed("dry_run", "boolean", "Check everything, run nothing"),
            SOURCE,
        ),
        search_hint="run a tool, follow a workflow",
        recipes=WORKING,
        loaded_first_in=WORKING,
        instruction=(
            "execute runs a tool, or returns a directive to follow, or knowledge; dry_run=true "
            "only checks."
        ),
        advice=ON_PATHS,
        purpose="run a tool, get a directive with its inputs filled in, or get knowledge",
        answer=("a tool's output, a directive's steps to follow, or the knowledge"),
        instead={"load": "reading it first"},
    ),
    PlannedTool(
        "sign",
        module=NOUN,
        hints=IDEMPOTENT,
        description=(
            "Check a new or changed item against its format and sign it with the user's key."
        ),
        arguments=(
            ITEM_TYPE,
            typed(
                "item_id", "string", "Such as demo/greet, or a pattern: demo/*, **", required=True
            ),
            PROJECT_PATH,
            choice("source", ("project", "user"), "default: project"),
            typed(
                "parameters",
                "object",
                "Alternative to source",
                properties={"location": {"type": "string", "enum": ["project", "user"]}},
                additionalProperties=False,
            ),
        ),
        search_hint="validate an item, signature",
        recipes=WORKING,
        instruction="sign checks and signs a new or changed item.",
        advice=ON_PATHS,
        purpose="check and sign new or changed items",
        answer="the signature, or the issues to fix; for a pattern, both lists",
    ),
    PlannedTool(
        "help",
        module=NOUN,
        hints=READ_ONLY,
        description="Explain these tools and the item formats.",
        arguments=(typed("topic", "string", "default: overview, which lists the topics"),),
        search_hint="how to write a directive, a tool, knowledge",
        recipes=RECIPES,
        instruction="help explains the tools and the formats of items.",
        purpose="look up a tool or a format",
        answer="the text of a topic, and the list of topics",
    ),
)
