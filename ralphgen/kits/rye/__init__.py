"""The kit `rye`: five universal tools over directives, tools and knowledge."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ralphgen.kits.rye.server.formats.tools import issues_of, parse
from ralphgen.kits.rye.server.spaces import (
    FOLDERS,
    PROJECT,
    TYPES,
    Item,
    Space,
    files_of,
    items_in,
    links_before,
    read_item,
    why_no_item,
)
from ralphgen.kits.rye.server.workspace import PLACE
from ralphgen.planning import (
    BOOLEAN,
    OBJECTS,
    RECIPES,
    TEXT,
    KitPlan,
    Names,
    PlannedTool,
    SkillPlan,
    Step,
    Workflow,
    answer_of,
    choice,
    typed,
)
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.rendering import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.kit import DESTRUCTIVE, IDEMPOTENT, INTEGER, OPEN_WORLD, READ_ONLY
from ralphgen.spelling import Lines

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


NAMES = {
    "directive": ("directive", "directives"),
    "tool": ("tool", "tools"),
    "knowledge": ("knowledge entry", "knowledge entries"),
}
KEPT_OUT = ("_", ".")  # prefixes of files that are deliberately not items


def find_items(root: Path, _settings: Mapping[str, Any]) -> Finding:
    """Return the items of a project, with warnings about invalid files."""
    space = Space(PROJECT, str(root.resolve() / PLACE))
    items = {kind: [*items_in(files_of(kind, space)).values()] for kind in TYPES}
    told = [_item_facts(item) for found in items.values() for item in found]
    counts = [f"{len(found)} {NAMES[kind][len(found) != 1]}" for kind, found in items.items()]
    return Finding(
        ", ".join(counts) if told else "",
        {"items": [entry for entry, _ in told]},
        warnings=(
            *(warning for _, warning in told if warning),
            *(
                f"{PLACE if name == PLACE else f'{PLACE}/{name}'}: is a symbolic link: nothing "
                "behind it is an item"
                for name in links_before(TYPES, space)
            ),
            *(warning for kind in TYPES for warning in _no_items(kind, space, items[kind])),
        ),
    )


def _item_facts(item: Item) -> tuple[Mapping[str, Any], str]:
    """Return the facts of an item, and a warning or an empty string."""
    try:
        parsed = parse(item, read_item(item))
        description, (issues, _) = parsed.description, issues_of(item, parsed)
    except ToolError as error:
        description, issues = "", [str(error)]
    further = f" (and {len(issues) - 1} more)" if issues[1:] else ""
    path = f"{PLACE}/{FOLDERS[item.type]}/{item.id}{item.extension}"
    warning = f"{path}: {issues[0]}{further}" if issues else ""
    return {"id": item.id, "type": item.type, "description": description}, warning


def _no_items(kind: str, space: Space, items: list[Item]) -> Iterator[str]:
    """Yield a warning for each file below a type folder that is not an item."""
    top = Path(space.folder) / FOLDERS[kind]
    known = {item.path for item in items}
    for path in sorted(top.rglob("*")) if not links_before((kind,), space) else ():
        relative = path.relative_to(top)
        kept_out = any(part.startswith(KEPT_OUT) for part in relative.parts)
        if str(path) not in known and not kept_out and (path.is_symlink() or not path.is_dir()):
            why = why_no_item(kind, str(path), relative.as_posix())
            yield f"{PLACE}/{FOLDERS[kind]}/{relative.as_posix()}: is not an item: {why}"


ITEM = {"item_type": None, "item_id": None, "project_path": None}
QUERY = {"item_type": "all", "query": None, "project_path": None}
WORKFLOWS = (
    Workflow(
        "Use an existing item",
        (
            Step("Search for an item.", "search", QUERY),
            Step("Read its requirements.", "load", ITEM),
            Step("Check everything.", "execute", {**ITEM, "dry_run": True}),
            Step("Run it; if it is a directive, follow its steps.", "execute", ITEM),
        ),
        needs=("search", "execute"),
    ),
    Workflow(
        "Write an item",
        (
            Step("Check whether one exists.", "search", QUERY),
            Step(
                "Get the directive that creates one: rye/create_directive, rye/create_tool or "
                "rye/create_knowledge.",
                "execute",
                {**ITEM, "item_type": "directive", "parameters": None},
            ),
            Step("Write the file as described, below .ai/ in the project."),
            Step("Sign it; fix the reported issues, and sign again.", "sign", ITEM),
            Step("Check that it would run.", "execute", {**ITEM, "dry_run": True}),
        ),
        needs=("execute", "sign"),
    ),
    Workflow(
        "Change an item of the user or the system for this project",
        (
            Step(
                "Copy it into the project, where it shadows the original.",
                "load",
                {**ITEM, "destination": "project"},
            ),
            Step("Change the copy."),
            Step("Sign it.", "sign", ITEM),
        ),
        needs=("load", "sign"),
    ),
)
SKILL = SkillPlan(
    name="rye-items",
    title="Directives, tools and knowledge",
    description=(
        "Finds, reads, executes and signs the items below .ai/: directives (workflows to "
        "follow), tools (programs to run) and knowledge (lessons learned). Use when a workflow, "
        "a tool or an entry may exist for the current work, to run or follow one, or to write, "
        "change, copy or sign an item."
    ),
    overview={
        "Items": (
            "| type | file | result of execute |\n|---|---|---|\n| a directive | "
            ".ai/directives/…/name.md | returns steps to follow |\n| a tool | "
            ".ai/tools/…/name.py or .yaml | runs |\n| knowledge | .ai/knowledge/…/name.md | "
            "returns its text |\n\nAn id is the path below the type's folder without the "
            "extension, such as demo/greet. Items of the project take precedence over the "
            "user's, and the user's over the system's."
        ),
        "Trust": (
            "An item that is unsigned, or changed after it was signed, may be refused. Read it "
            "first: its author decides what it does. Sign only items that you have read and "
            "agree with, never to get around a refusal."
        ),
    },
    workflows=WORKFLOWS,
    variables={
        "USER_SPACE": "directory of the user's items, or its parent (with .ai)",
        "RYE_DEBUG": "set to 1, true, yes or on to log each call with its duration",
        "RYE_PORT": "ignored: the server uses standard streams and has no port",
    },
)


Word = Literal["off", "warn", "integrity", "trusted"]
WORDS = ("off", "warn", "integrity", "trusted")
HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Policies(BaseModel):
    """How far items of each type must be trusted at least when they are executed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    directive: Word = Field(default="off", description="Minimum trust for workflows.")
    tool: Word = Field(default="off", description="Minimum trust for programs.")
    knowledge: Word = Field(default="off", description="Minimum trust for knowledge.")


def _by_type(value: object) -> object:
    """A word stands for all types."""
    if not isinstance(value, str):
        return value
    if value not in WORDS:
        known = ", ".join(f'"{word}"' for word in WORDS)
        raise PydanticCustomError("policy", "one of {known}, or a table of types", {"known": known})
    return dict.fromkeys(Policies.model_fields, value)


def _host(value: str) -> str:
    if not HOST.fullmatch(value):
        raise PydanticCustomError("host", "a host or host:port")
    return value.lower()


def _variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise PydanticCustomError("variable", "the name of an environment variable")
    return value


class RyeSettings(BaseModel):
    """`[rye]`: whether there is a tool `help`, and what the project takes from the user's policy.

    The user's own file, `rye.toml` of the user space, permits; these settings can only be stricter.
    `policy` is one word for all types of items, or a table of them. Tools that ask over HTTP may
    reach only `hosts`, unless none are named. No tool runs for longer than `max_timeout` seconds;
    of the server's environment it gets what every program needs, and the variables in `env` that
    the user permits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    help: bool = Field(default=True, description="Provide the help tool.")
    policy: Annotated[Policies, BeforeValidator(_by_type)] = Field(
        default=Policies(), description="Minimum trust of items, for all types or by type."
    )
    hosts: list[Annotated[str, AfterValidator(_host)]] = Field(
        default=[], description="Allowed HTTP hosts (default: any public host)."
    )
    max_timeout: int = Field(
        default=300, ge=1, le=3_600, description="Maximum run time of a tool in seconds."
    )
    env: list[Annotated[str, AfterValidator(_variable)]] = Field(
        default=[], description="Environment variables for tools, if the user allows them."
    )


PACKAGE = "ralphgen.kits.rye"
EMITTED = ("policy", "hosts", "max_timeout", "env")
HELP = "help"
SERVER = KitPlan(
    key="rye",
    server_name="rye",
    title="Find, read, execute and sign directives, tools and knowledge.",
    nouns={"items": "Tools for items of every type."},
    tools=TOOLS,
    server=f"{PACKAGE}.server",
    workspace=(("items", "TOOLS"),),
    refusals="object",
    about=(
        "Items are directives (workflows to follow), tools (programs) and knowledge in the .ai/ "
        "directories of the project, the user and the system; the first one with a matching id "
        "is used."
    ),
    skill=SKILL,
)


def plan_rye(project: ProjectFacts) -> KitPlan:
    """Return the server of the kit rye; its items are found when the server is asked."""
    helps = project.setting(SERVER.key, HELP)
    settings = {name: project.setting(SERVER.key, name) for name in EMITTED}
    return replace(
        SERVER,
        tools=tuple(tool for tool in TOOLS if helps or tool.name != HELP),
        settings=Lines(
            {
                # Nothing may add to a list of an emitted server.
                name: tuple(value) if isinstance(value, list) else value
                for name, value in settings.items()
            }
        ),
        assets={f"{SERVER.key}/system/{path}": text for path, text in system_items().items()},
        absent={} if helps else {HELP: "disabled in the config"},
    )


def system_items() -> Mapping[str, str]:
    """Return the text of each item that every project has, by its path below their space."""
    return package_texts(PACKAGE, "system")


RYE = KitDefinition(SERVER, plan_rye, RyeSettings, find=find_items)
