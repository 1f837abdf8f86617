"""The five tools of rye: what they take, what they answer and which sessions have them."""

from collections.abc import Mapping

from ralphgen.planning.model import PROFILES, Argument, JsonObject, Names, ToolPlan

NOUN = "items"
STRING: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}
STRINGS: JsonObject = {"type": "array", "items": STRING}
OBJECTS: JsonObject = {"type": "array", "items": OBJECT}
TYPES = ("directive", "tool", "knowledge")
PROJECT_PATH = Argument(
    "project_path",
    {"type": "string", "description": "Absolute path of this project, or of a folder in it"},
    required=True,
)
ITEM_ID = Argument(
    "item_id",
    {"type": "string", "description": "Such as demo/greet; a bare name where it is the only one"},
    required=True,
)


def _choice(
    name: str, values: tuple[str, ...], description: str = "", *, required: bool = False
) -> Argument:
    """An argument that takes one of some words."""
    schema: JsonObject = {"type": "string", "enum": list(values)}
    if description:
        schema["description"] = description
    return Argument(name, schema, required=required)


def _answer(required: tuple[str, ...], **fields: JsonObject) -> JsonObject:
    """The schema of an answer, whose longest fields may be left out where it would be too long."""
    return {
        "type": "object",
        "properties": {"status": STRING, **fields},
        "required": ["status", *required],
    }


ITEM_TYPE = _choice("item_type", TYPES, required=True)
SOURCE = _choice(
    "source",
    ("project", "user", "system"),
    "Only this space; the first of them that has it if left out",
)
TOOLS = (
    ToolPlan(
        "search",
        NOUN,
        "Find directives (workflows), tools and knowledge of this project, the user and the "
        "system. An empty query lists all.",
        "READS",
        (
            _choice("item_type", (*TYPES, "all"), required=True),
            Argument(
                "query",
                {
                    "type": "string",
                    "description": 'Words; also AND, OR, NOT (capitals), ( ), "a phrase", wild*; '
                    "in one field: title:, name:, tags:, category:, description:, body:",
                },
                required=True,
            ),
            PROJECT_PATH,
            _choice("source", ("project", "user", "system", "all"), "all if left out"),
            Argument(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 100, "description": "10 if left out"},
            ),
            Argument("offset", {"type": "integer", "minimum": 0}),
            _choice("sort_by", ("score", "date", "name"), "score if left out"),
            Argument(
                "filters",
                {
                    "type": "object",
                    "description": "Metadata by name, a value or a list of them; before a value ! "
                    "means not, and >, >=, <, <= compare; date_from and date_to",
                },
            ),
            Argument(
                "fuzzy",
                {
                    "type": "object",
                    "properties": {
                        "enabled": BOOLEAN,
                        "max_distance": {"type": "integer", "minimum": 1, "maximum": 3},
                    },
                    "additionalProperties": False,
                    "description": "Also words with typing errors; {} will do",
                },
            ),
        ),
        _answer(
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
    ),
    ToolPlan(
        "load",
        NOUN,
        "Read an item: its text, what it says of itself, its parameters, and whether its "
        "signature holds.",
        "REPLACES",
        (
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            SOURCE,
            _choice("destination", ("project", "user"), "Copy it into this space"),
            Argument(
                "overwrite",
                {"type": "boolean", "description": "Replace what is there under its id"},
            ),
        ),
        _answer(
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
    ),
    ToolPlan(
        "execute",
        NOUN,
        "Execute an item: run a tool, get a directive's steps to follow, or get what knowledge "
        "says.",
        "RUNS",
        (
            ITEM_TYPE,
            ITEM_ID,
            PROJECT_PATH,
            Argument(
                "parameters",
                {"type": "object", "description": "A tool's parameters, a directive's inputs"},
            ),
            Argument(
                "dry_run", {"type": "boolean", "description": "Check everything, run nothing"}
            ),
            SOURCE,
        ),
        _answer(
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
    ),
    ToolPlan(
        "sign",
        NOUN,
        "Check an item against its format and sign it with the user's key, after it was written "
        "or changed.",
        "CHANGES",
        (
            ITEM_TYPE,
            Argument(
                "item_id",
                {"type": "string", "description": "Such as demo/greet, or a pattern: demo/*, **"},
                required=True,
            ),
            PROJECT_PATH,
            _choice("source", ("project", "user"), "project if left out"),
            Argument(
                "parameters",
                {
                    "type": "object",
                    "properties": {"location": {"type": "string", "enum": ["project", "user"]}},
                    "additionalProperties": False,
                    "description": "Another way to say source",
                },
            ),
        ),
        _answer(
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
    ),
    ToolPlan(
        "help",
        NOUN,
        "Explain these tools, and how items are written.",
        "READS",
        (
            Argument(
                "topic",
                {"type": "string", "description": "overview if left out, which names the others"},
            ),
        ),
        _answer(("topic", "content", "topics"), topic=STRING, content=STRING, topics=STRINGS),
        search_hint="how to write a directive, a tool, knowledge",
    ),
)
EVERY: Names = tuple(tool.name for tool in TOOLS)
LOOKS: Names = ("search", "load", "help")
FULL: Names = ("manual", "task_execution", "opus_review")
"""The kinds of session that have everything; all others only look."""
PROFILED: Mapping[str, Names] = {
    profile: EVERY if profile in FULL else LOOKS for profile in PROFILES
}
"""By kind of session, the names of its tools."""
COPYING: Names = ("destination", "overwrite")


def narrow(profile: str, tool: ToolPlan) -> Names | None:
    """The arguments that a kind of session keeps of a tool: who only looks copies nothing."""
    if profile in FULL or tool.name != "load":
        return None
    return tuple(argument.name for argument in tool.arguments if argument.name not in COPYING)
