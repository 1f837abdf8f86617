"""The five tools of rye."""

from ralphgen.planning.model import (
    BOOLEAN,
    INTEGER,
    OBJECT,
    OBJECTS,
    RECIPES,
    STRING,
    STRINGS,
    JsonObject,
    Names,
    ToolPlan,
    choice,
    typed,
)

NOUN = "items"
WORKING: Names = ("task_execution", "opus_review")
"""The recipes whose sessions execute, copy and sign items; all others only look."""
TYPES = ("directive", "tool", "knowledge")
PROJECT_PATH = typed(
    "project_path", "string", "Absolute path of this project, or of a folder in it", required=True
)
ON_PATHS = (
    "project_path is always the absolute path of the project that this server belongs to, or of a "
    "folder in it."
)
ITEM_ID = typed(
    "item_id", "string", "Such as demo/greet; a bare name where it is the only one", required=True
)


def _answer(required: tuple[str, ...], **fields: JsonObject) -> JsonObject:
    """Return the schema of an answer, the longest fields of which may have been cut."""
    return {
        "type": "object",
        "properties": {"status": STRING, **fields},
        "required": ["status", *required],
    }


ITEM_TYPE = choice("item_type", TYPES, required=True)
SOURCE = choice(
    "source",
    ("project", "user", "system"),
    "Only this space; the first of them that has it if left out",
)
TOOLS = (
    ToolPlan(
        "search",
        module=NOUN,
        hints="READ_ONLY",
        description=(
            "Find directives (workflows), tools and knowledge of this project, the user and the "
            "system. An empty query lists all."
        ),
        arguments=(
            choice("item_type", (*TYPES, "all"), required=True),
            typed(
                "query",
                "string",
                'Words; also AND, OR, NOT (capitals), ( ), "a phrase", wild*; '
                "in one field: title:, name:, tags:, category:, description:, body:",
                required=True,
            ),
            PROJECT_PATH,
            choice("source", ("project", "user", "system", "all"), "all if left out"),
            typed("limit", "integer", "10 if left out", minimum=1, maximum=100),
            typed("offset", "integer", minimum=0),
            choice("sort_by", ("score", "date", "name"), "score if left out"),
            typed(
                "filters",
                "object",
                "Metadata by name, a value or a list of them; before a value ! "
                "means not, and >, >=, <, <= compare; date_from and date_to",
            ),
            typed(
                "fuzzy",
                "object",
                "Also words with typing errors; {} will do",
                properties={
                    "enabled": BOOLEAN,
                    "max_distance": {"type": "integer", "minimum": 1, "maximum": 3},
                },
                additionalProperties=False,
            ),
        ),
        returns=_answer(
            ("total", "search_type", "item_type", "source", "limit", "offset"),
            results=OBJECTS,
            total=INTEGER,
            query=STRING,
            search_type=STRING,
            item_type=STRING,
            source=STRING,
            limit=INTEGER,
            offset=INTEGER,
            next_offset=INTEGER,
            warnings=STRINGS,
            cut=STRINGS,
        ),
        search_hint="find workflows, tools, knowledge, what is there",
        recipes=RECIPES,
        loaded_first=WORKING,
        instruction="search finds items; look for one before you do by hand what it may do.",
        advice=ON_PATHS,
        purpose="find out whether there is an item for the work at hand, before it is done by hand",
        answer=(
            "ids with types, spaces, descriptions and scores, the best first, and how many there "
            "are"
        ),
        instead={"load": "the text of one that was found"},
    ),
    ToolPlan(
        "load",
        module=NOUN,
        hints="DESTRUCTIVE",
        description=(
            "Read an item: its text, what it says of itself, its parameters, and whether its "
            "signature holds."
        ),
        arguments=(
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            SOURCE,
            choice("destination", ("project", "user"), "Copy it into this space"),
            typed("overwrite", "boolean", "Replace what is there under its id"),
        ),
        returns=_answer(
            ("item_type", "item_id", "source"),
            content=STRING,
            metadata=OBJECT,
            path=STRING,
            source=STRING,
            item_type=STRING,
            item_id=STRING,
            signature=OBJECT,
            shadows=STRINGS,
            shadowed_by=STRING,
            copied_to=STRING,
            destination_path=STRING,
            resign_recommended=BOOLEAN,
            noop=STRING,
            warnings=STRINGS,
            cut=STRINGS,
            total_characters=INTEGER,
        ),
        search_hint="read a workflow, a tool, knowledge",
        writes_by=("destination",),
        recipes=RECIPES,
        reserved={"destination": WORKING, "overwrite": WORKING},
        instruction="load reads one, with its parameters and the state of its signature.",
        advice=ON_PATHS,
        purpose="read an item and its parameters, or see whether its signature holds",
        answer="its text, its metadata, its path and the state of its signature",
        instead={"execute": "what it does"},
    ),
    ToolPlan(
        "execute",
        module=NOUN,
        hints="OPEN_WORLD",
        description=(
            "Execute an item: run a tool, get a directive's steps to follow, or get what knowledge "
            "says."
        ),
        arguments=(
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            typed("parameters", "object", "A tool's parameters, a directive's inputs"),
            typed("dry_run", "boolean", "Check everything, run nothing"),
            SOURCE,
        ),
        returns=_answer(
            ("type", "item_id", "metadata"),
            type=STRING,
            item_id=STRING,
            source=STRING,
            data={},
            instructions=STRING,
            message=STRING,
            parameters=OBJECT,
            validated_pairs=INTEGER,
            resolved=OBJECT,
            chain=OBJECTS,
            metadata=OBJECT,
            cut=STRINGS,
        ),
        search_hint="run a tool, follow a workflow",
        recipes=WORKING,
        loaded_first=WORKING,
        instruction=(
            "execute runs a tool, or returns a directive for you to follow, or knowledge; "
            "dry_run=true only checks."
        ),
        advice=ON_PATHS,
        purpose="run a tool, get a directive with its inputs filled in, or get knowledge",
        answer=(
            "what a tool printed or returned, the steps of a directive to follow, or the knowledge"
        ),
        instead={"load": "a look at it first"},
    ),
    ToolPlan(
        "sign",
        module=NOUN,
        hints="IDEMPOTENT",
        description=(
            "Check an item against its format and sign it with the user's key, after it was "
            "written or changed."
        ),
        arguments=(
            ITEM_TYPE,
            typed(
                "item_id", "string", "Such as demo/greet, or a pattern: demo/*, **", required=True
            ),
            PROJECT_PATH,
            choice("source", ("project", "user"), "project if left out"),
            typed(
                "parameters",
                "object",
                "Another way to say source",
                properties={"location": {"type": "string", "enum": ["project", "user"]}},
                additionalProperties=False,
            ),
        ),
        returns=_answer(
            (),
            item_id=STRING,
            item_type=STRING,
            path=STRING,
            signature=STRING,
            signature_info=OBJECT,
            timestamp=STRING,
            location=STRING,
            unchanged=BOOLEAN,
            signed=STRINGS,
            failed=OBJECTS,
            total=INTEGER,
            summary=STRING,
            warnings=STRINGS,
            cut=STRINGS,
        ),
        search_hint="validate an item, signature",
        recipes=WORKING,
        instruction="sign checks and signs an item after it was written or changed.",
        advice=ON_PATHS,
        purpose="check and sign items that were written or changed",
        answer="the signature, or what has to be fixed first; for a pattern, both lists",
    ),
    ToolPlan(
        "help",
        module=NOUN,
        hints="READ_ONLY",
        description="Explain these tools, and how items are written.",
        arguments=(typed("topic", "string", "overview if left out, which names the others"),),
        returns=_answer(
            ("topic", "content", "topics"), topic=STRING, content=STRING, topics=STRINGS
        ),
        search_hint="how to write a directive, a tool, knowledge",
        recipes=RECIPES,
        instruction="help explains the tools and the formats of items.",
        purpose="look up a tool or a format",
        answer="the text on a topic, and all topics",
    ),
)
