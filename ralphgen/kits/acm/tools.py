"""The thirteen tools of acm: what they take. All of them read only, so every session has them."""

from collections.abc import Mapping

from ralphgen.planning.model import PROFILES, Argument, JsonObject, Names, ToolPlan

NOT_YET = "Stage {value} is not yet supported. Supported stages: discover, design, develop."
PROJECT_PATH = Argument(
    "project_path",
    {"type": "string", "description": "Project root path; this project if left out"},
)
EARLY = "process, stage, workflow"


def _choice(
    name: str,
    values: tuple[str, ...],
    description: str,
    *,
    required: bool = True,
    refusal: str = "",
) -> Argument:
    """An argument that takes one of some words."""
    schema: JsonObject = {"type": "string", "enum": list(values), "description": description}
    return Argument(name, schema, required=required, refusal=refusal)


def _reads(
    name: str, module: str, description: str, *arguments: Argument, search_hint: str = ""
) -> ToolPlan:
    """A tool that changes nothing, as all of them."""
    return ToolPlan(name, module, description, "READS", arguments, {}, search_hint)


STAGE = _choice("stage", ("discover", "design", "develop"), "ACM stage", refusal=NOT_YET)
TOOLS = (
    _reads(
        "get_stage",
        "orchestration",
        "Get what a stage asks for: phases, entry and exit criteria, outputs. "
        "For going from one stage to the next, use get_transition_prompt.",
        STAGE,
        search_hint=EARLY,
    ),
    _reads(
        "get_review_prompt",
        "orchestration",
        "Get the prompt for a review of a stage, internal (Ralph Loop) or external, ready to use.",
        STAGE,
        _choice("phase", ("internal", "external"), "Review phase"),
        search_hint="review loop",
    ),
    _reads(
        "get_transition_prompt",
        "orchestration",
        "Get guidance for going from one stage to the next; "
        "with validate, also whether the project's status and brief allow it.",
        _choice("transition", ("discover_to_design", "design_to_develop"), "Stage transition"),
        PROJECT_PATH,
        Argument(
            "validate",
            {
                "type": "boolean",
                "description": "Also check the prerequisites in status.md and the brief",
            },
        ),
        search_hint=EARLY,
    ),
    _reads(
        "get_artifact_spec",
        "artifacts",
        "Get the specification of an artifact: sections, front matter and rules of a valid one.",
        _choice(
            "artifact",
            (
                *("brief", "intent", "status", "readme", "context", "rules", "design", "backlog"),
                *("folder_structure", "project_types", "stages", "review"),
            ),
            "Artifact type",
        ),
    ),
    _reads(
        "get_artifact_stub",
        "artifacts",
        "Get a template with places to fill in, to begin a new project or artifact with.",
        _choice(
            "artifact",
            ("brief", "intent", "status", "rules_constraints", "claude_md"),
            "Artifact to get the stub for",
        ),
        _choice(
            "project_type",
            ("app", "workflow", "artifact"),
            "Selects the stub of claude_md, app if left out; ignored for the others",
            required=False,
        ),
        search_hint="template, start a new project",
    ),
    _reads(
        "get_project_type_guidance",
        "project",
        "Get what a type of project needs: outputs, focus of its reviews, structure.",
        _choice("type", ("app", "workflow", "artifact"), "Project type"),
        _choice("scale", ("personal", "commercial"), "Project scale", required=False),
        _choice("scope", ("mvp", "full"), "Project scope", required=False),
    ),
    _reads(
        "check_project_structure",
        "project",
        "Check that a project has its required folders and files.",
        PROJECT_PATH,
        search_hint="audit",
    ),
    _reads(
        "check_project_health",
        "project",
        "Check files, front matter and required sections of a project's key artifacts. "
        "What the text means is not looked at.",
        PROJECT_PATH,
        search_hint="audit",
    ),
    _reads(
        "get_rules_spec",
        "governance",
        "Get the specification of a project's .claude/rules/: categories, files and lifecycle.",
    ),
    _reads(
        "get_context_spec",
        "governance",
        "Get the specification of CLAUDE.md files: sections, and what belongs on which level.",
        _choice("level", ("global", "project"), "Which CLAUDE.md"),
    ),
    _reads(
        "query_capabilities",
        "capabilities",
        "Search the registry of skills, tools, agents and plugins by keyword, type or tags.",
        Argument(
            "query",
            {"type": "string", "description": "Keyword in name, description or tags"},
        ),
        _choice("type", ("skill", "tool", "agent", "plugin"), "Capability type", required=False),
        Argument(
            "tags",
            {
                "type": "array",
                "items": {"type": "string"},
                "description": "Tags that must all be there, exactly as they are spelled",
            },
        ),
        search_hint="find skills, plugins, agents",
    ),
    _reads(
        "get_capability_detail",
        "capabilities",
        "Get everything on a capability that query_capabilities found: metadata, installation.",
        Argument(
            "capability_id",
            {
                "type": "string",
                "pattern": "^[a-z0-9][a-z0-9-]*$",
                "description": "Capability ID, for instance claude-md-management",
            },
            required=True,
        ),
    ),
    _reads(
        "query_knowledge",
        "knowledge",
        "Search the knowledge base for a word or topic: learnings on process, design patterns.",
        Argument("query", {"type": "string", "description": "Search term or topic"}, required=True),
        search_hint="lessons learned, best practice",
    ),
)
EVERY: Names = tuple(tool.name for tool in TOOLS)
PROFILED: Mapping[str, Names] = dict.fromkeys(PROFILES, EVERY)
"""By kind of session, the names of its tools."""
