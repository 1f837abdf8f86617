"""The thirteen tools of acm. All of them read only, so every session has them."""

from ralphgen.planning.model import RECIPES, PlannedTool, choice, typed
from ralphgen.runtime.tool import READ_ONLY

NOT_YET = "Stage {value} is not yet supported. Supported stages: discover, design, develop."
PROJECT_PATH = typed("project_path", "string", "Project root path (default: this project)")
EARLY = "process, stage, workflow"
WHOLE = "the complete document"


STAGE = choice(
    "stage", ("discover", "design", "develop"), "ACM stage", required=True, refusal=NOT_YET
)
TOOLS = (
    PlannedTool(
        "get_stage",
        module="orchestration",
        hints=READ_ONLY,
        description=(
            "Get the requirements of a stage. Use when you need its phases, entry and exit "
            "criteria or outputs; to go from one stage to the next, use get_transition_prompt."
        ),
        arguments=(STAGE,),
        search_hint=EARLY,
        recipes=RECIPES,
        instruction="get_stage: requirements of a stage (discover, design, develop).",
        purpose=("read a stage's phases, entry and exit criteria, and outputs"),
        answer=WHOLE,
        instead={"get_transition_prompt": "moving from one stage to the next"},
    ),
    PlannedTool(
        "get_review_prompt",
        module="orchestration",
        hints=READ_ONLY,
        description=(
            "Get the prompt for a review of a stage. Use when you prepare an internal (Ralph Loop) "
            "or external review."
        ),
        arguments=(STAGE, choice("phase", ("internal", "external"), "Review phase", required=True)),
        search_hint="review loop",
        recipes=RECIPES,
        instruction="get_review_prompt: the prompt for an internal or external review.",
        purpose="review the work of a stage, internally or externally",
        answer="a prompt to follow or to give to a reviewer",
    ),
    PlannedTool(
        "get_transition_prompt",
        module="orchestration",
        hints=READ_ONLY,
        description=(
            "Get the prompt for the transition to the next stage. Use when a stage is complete; "
            "validate also checks the project's status, brief and design."
        ),
        arguments=(
            choice(
                "transition",
                ("discover_to_design", "design_to_develop"),
                "Stage transition",
                required=True,
            ),
            PROJECT_PATH,
            typed("validate", "boolean", "Also check the prerequisites in status.md and the brief"),
        ),
        search_hint=EARLY,
        recipes=RECIPES,
        instruction=(
            "get_transition_prompt: how to enter the next stage; validate=true checks first."
        ),
        purpose="move to the next stage, and check whether the project is ready",
        answer="the prompt, preceded by the prerequisite check if requested",
        instead={"get_stage": "the requirements of the new stage"},
    ),
    PlannedTool(
        "get_artifact_spec",
        module="artifacts",
        hints=READ_ONLY,
        description=(
            "Get the specification of an artifact. Use when you write or review one and need its "
            "sections, front matter and rules."
        ),
        arguments=(
            choice(
                "artifact",
                (
                    *("brief", "intent", "status", "readme", "context", "rules", "design"),
                    *("backlog", "folder_structure", "project_types", "stages", "review"),
                ),
                "Artifact type",
                required=True,
            ),
        ),
        recipes=RECIPES,
        instruction="get_artifact_spec: what a valid artifact looks like.",
        purpose="read the required content of a document before writing, changing or reviewing it",
        answer=WHOLE,
        instead={"get_artifact_stub": "a document template"},
    ),
    PlannedTool(
        "get_artifact_stub",
        module="artifacts",
        hints=READ_ONLY,
        description=(
            "Get a template for an artifact. Use when you start a project or write a new artifact."
        ),
        arguments=(
            choice(
                "artifact",
                ("brief", "intent", "status", "rules_constraints", "claude_md"),
                "Artifact to get the stub for",
                required=True,
            ),
            choice(
                "project_type",
                ("app", "workflow", "artifact"),
                "Stub for claude_md (default: app); ignored for other artifacts",
            ),
        ),
        search_hint="template, start a new project",
        recipes=RECIPES,
        instruction="get_artifact_stub: a template to start one.",
        purpose="start a document",
        answer="a template with placeholders",
        instead={"get_artifact_spec": "the rules"},
    ),
    PlannedTool(
        "get_project_type_guidance",
        module="project",
        hints=READ_ONLY,
        description=(
            "Get the guidance for a project type. Use when you classify a project, or during "
            "discover and design: outputs, review focus, structure."
        ),
        arguments=(
            choice("type", ("app", "workflow", "artifact"), "Project type", required=True),
            choice("scale", ("personal", "commercial"), "Project scale"),
            choice("scope", ("mvp", "full"), "Project scope"),
        ),
        recipes=RECIPES,
        instruction="get_project_type_guidance: guidance for a project type.",
        purpose="classify a project, and read the guidance for its type, scale and scope",
        answer="the section of the specification for that type, with the requested modifiers",
    ),
    PlannedTool(
        "check_project_structure",
        module="project",
        hints=READ_ONLY,
        description=(
            "Check that a project has its required directories and files. Use when you audit a "
            "project, or after you create its structure."
        ),
        arguments=(PROJECT_PATH,),
        search_hint="audit",
        recipes=RECIPES,
        instruction="check_project_structure: which folders and files are missing.",
        purpose="check whether a project's files and directories are in place",
        answer="one line per item, and how many passed",
        instead={"check_project_health": "the content of the files"},
    ),
    PlannedTool(
        "check_project_health",
        module="project",
        hints=READ_ONLY,
        description=(
            "Check files, front matter and required sections of a project. Use when you "
            "audit it or prepare a review; the meaning of the text is not checked."
        ),
        arguments=(PROJECT_PATH,),
        search_hint="audit",
        recipes=RECIPES,
        instruction="check_project_health: files, front matter, required sections.",
        purpose="check a project before a review or during an audit",
        answer="the results for files, front matter and required sections, and a summary",
    ),
    PlannedTool(
        "get_rules_spec",
        module="project",
        hints=READ_ONLY,
        description=(
            "Get the specification of .claude/rules/: categories, files, lifecycle. Use when you "
            "set up or audit a project's rules."
        ),
        recipes=RECIPES,
        instruction="get_rules_spec: content of .claude/rules/.",
        purpose="set up or audit the rules of a project",
        answer=WHOLE,
    ),
    PlannedTool(
        "get_context_spec",
        module="project",
        hints=READ_ONLY,
        description=(
            "Get the specification of CLAUDE.md files. Use when you write or audit one: required "
            "sections, and content by level."
        ),
        arguments=(choice("level", ("global", "project"), "Which CLAUDE.md", required=True),),
        recipes=RECIPES,
        instruction="get_context_spec: content of CLAUDE.md.",
        purpose="write or audit the CLAUDE.md of a user or a project",
        answer=WHOLE,
    ),
    PlannedTool(
        "query_capabilities",
        module="capabilities",
        hints=READ_ONLY,
        description=(
            "Search the capabilities registry by keyword, type or tags. Use when you need a skill, "
            "tool, agent or plugin for a task."
        ),
        arguments=(
            typed("query", "string", "Keyword in name, description or tags"),
            choice("type", ("skill", "tool", "agent", "plugin"), "Capability type"),
            typed("tags", "array", "Tags that must all match exactly", items={"type": "string"}),
        ),
        search_hint="find skills, plugins, agents",
        recipes=RECIPES,
        instruction="query_capabilities: skills, tools, agents and plugins for a task.",
        purpose="find skills, tools, agents and plugins for a task",
        answer="the capabilities that match every filter, with types, descriptions and tags",
        instead={"query_knowledge": "lessons learned, as articles"},
    ),
    PlannedTool(
        "get_capability_detail",
        module="capabilities",
        hints=READ_ONLY,
        description=(
            "Get the details of a capability by ID. Use when query_capabilities found it and you "
            "need its installation, configuration or metadata."
        ),
        arguments=(
            typed(
                "capability_id",
                "string",
                "Capability ID, for instance claude-md-management",
                required=True,
                pattern="^[a-z0-9][a-z0-9-]*$",
            ),
        ),
        recipes=RECIPES,
        instruction="get_capability_detail: all details of one.",
        purpose="read how to install and configure a capability",
        answer="its complete description",
    ),
    PlannedTool(
        "query_knowledge",
        module="knowledge",
        hints=READ_ONLY,
        description=(
            "Search the knowledge base for a word or topic. Use when you look for process "
            "learnings or design patterns."
        ),
        arguments=(typed("query", "string", "Search term, or path of an entry", required=True),),
        search_hint="lessons learned, best practice",
        recipes=RECIPES,
        instruction="query_knowledge: lessons from earlier projects.",
        purpose="find lessons learned about a topic",
        answer="matching articles with excerpts and paths; for a path, the whole article",
    ),
)
