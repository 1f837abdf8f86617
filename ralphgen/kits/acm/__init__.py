"""The kit `acm`: process knowledge on stages, artifacts and reviews, to be read and not changed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.errors import counted
from ralphgen.kits.acm.server.artifacts import SPECS, STUBS
from ralphgen.kits.acm.server.capabilities import InventoryError, inventory
from ralphgen.kits.acm.server.orchestration import REVIEWS, STAGES, TRANSITIONS
from ralphgen.kits.acm.server.project import LEVELS, RULES
from ralphgen.kits.acm.server.workspace import (
    DOCUMENTS,
    REGISTRY,
    find_root,
    lies_elsewhere,
    trouble,
)
from ralphgen.planning import (
    RECIPES,
    KitPlan,
    PlannedTool,
    SkillPlan,
    Step,
    Workflow,
    choice,
    typed,
)
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.rendering import package_texts
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.kit import READ_ONLY

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


PLACE = ".ralph/acm/"
ITS_REGISTRY = "registry/"
PROJECT_TYPES = ("app", "workflow", "artifact")
# Every document that a tool hands out, by its place below the root.
NAMES = tuple(
    sorted(
        {
            *STAGES.values(),
            *(name for phases in REVIEWS.values() for name in phases.values()),
            *TRANSITIONS.values(),
            *SPECS.values(),
            *STUBS.values(),
            *(f"stubs/claude-md/{kind}.md" for kind in PROJECT_TYPES),
            *LEVELS.values(),
            RULES,
        }
    )
)


class CorpusFiles(Mapping[str, str]):
    """By path below the project's folder, the text of each document.

    Documents with another location on the machine that takes precedence are omitted, because the
    copy would never be read.
    """

    def __getitem__(self, path: str) -> str:
        """Return the text of a document."""
        return self._files()[path]

    def __iter__(self) -> Iterator[str]:
        """Return the paths of the documents, sorted."""
        return iter(self._files())

    def __len__(self) -> int:
        """Return how many documents there are to write."""
        return len(self._files())

    def _files(self) -> dict[str, str]:
        documents, registry = lies_elsewhere(DOCUMENTS), lies_elsewhere(REGISTRY)
        return {
            PLACE + name: text
            for name, text in corpus().items()
            if not (registry if name.startswith(ITS_REGISTRY) else documents)
        }


def corpus() -> Mapping[str, str]:
    """Return every document by its path below their root, sorted."""
    return package_texts("ralphgen.kits.acm", "corpus")


def find_documents(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the documents and capabilities for a project; missing documents are warnings."""
    try:
        folder = find_root(DOCUMENTS, str(root), settings)
    except ToolError:
        return Finding("", {})
    wrong = {name: why for name in NAMES if (why := trouble(folder, name))}
    found: list[Mapping[str, Any]] = [{"document": name} for name in NAMES if name not in wrong]
    names, warnings = _capabilities(root, settings)
    many = f"{len(names)} {'capability' if len(names) == 1 else 'capabilities'}"
    summary = f"{counted(len(found), 'document')}, {many}" if found else ""
    return Finding(
        summary,
        {"documents": found, "capabilities": [{"name": name} for name in names]},
        warnings=(*(f"{name} {why}" for name, why in wrong.items()), *warnings),
    )


def _capabilities(root: Path, settings: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """Return the names in the registry, and its problems."""
    try:
        known, _ = inventory(find_root(REGISTRY, str(root), settings))
    except ToolError:
        return [], ()
    except InventoryError as error:
        return [], (f"the inventory of the capabilities registry {error}",)
    return [capability.name for capability in known], ()


WORKFLOWS = (
    Workflow(
        "Start a new project",
        (
            Step("Classify the project.", "get_project_type_guidance", {"type": None}),
            Step("Write docs/intent.md.", "get_artifact_stub", {"artifact": "intent"}),
            Step("Write docs/brief.md.", "get_artifact_stub", {"artifact": "brief"}),
            Step("Write status.md.", "get_artifact_stub", {"artifact": "status"}),
            Step(
                "Write .claude/CLAUDE.md, from the stub of the project's type.",
                "get_artifact_stub",
                {"artifact": "claude_md", "project_type": None},
            ),
            Step(
                "Write .claude/rules/constraints.md.",
                "get_artifact_stub",
                {"artifact": "rules_constraints"},
            ),
            Step("Create docs/inbox/ and _archive/, each with a .gitkeep so that git keeps them."),
            Step("List the missing files.", "check_project_structure"),
        ),
        needs=("get_artifact_stub",),
    ),
    Workflow(
        "Prepare for a review",
        (
            Step("Fix everything that fails.", "check_project_health"),
            Step(
                "Follow the prompt for the internal review.",
                "get_review_prompt",
                {"stage": None, "phase": "internal"},
            ),
            Step(
                "When no serious findings remain, pass on the prompt for the external review.",
                "get_review_prompt",
                {"stage": None, "phase": "external"},
            ),
        ),
        needs=("get_review_prompt",),
    ),
    Workflow(
        "Move to the next stage",
        (
            Step(
                "Check the prerequisites, and fix those not met.",
                "get_transition_prompt",
                {"transition": None, "validate": True},
            ),
            Step("Follow the prompt in the answer."),
            Step("Read the requirements of the new stage.", "get_stage", {"stage": None}),
        ),
        needs=("get_transition_prompt",),
    ),
    Workflow(
        "Audit a project",
        (
            Step("Find missing files and directories.", "check_project_structure"),
            Step("Check front matter and sections.", "check_project_health"),
            Step("Read the rules for each failure.", "get_artifact_spec", {"artifact": None}),
        ),
        needs=("check_project_structure", "check_project_health"),
    ),
    Workflow(
        "Find a capability",
        (
            Step("Search by keyword, type or tags.", "query_capabilities", {"query": None}),
            Step(
                "Read the setup of the best match.",
                "get_capability_detail",
                {"capability_id": None},
            ),
        ),
        needs=("query_capabilities", "get_capability_detail"),
    ),
)
SKILL = SkillPlan(
    name="acm-workflow",
    title="Process knowledge for a project's stages",
    description=(
        "Guides a project through the stages discover, design and develop with ACM's "
        "specifications, prompts, stubs and checks. Use when a project is started, classified, "
        "reviewed, audited or moved to its next stage, when a brief, an intent, a status or a "
        "CLAUDE.md is written or reviewed, or when capabilities or lessons learned are needed."
    ),
    overview={
        "The stages": (
            "| stage | work | result |\n|---|---|---|\n| discover | explore the problem, "
            "classify the project and settle its scope | intent and brief |\n| design | decide "
            "on a solution, with options and reasons | a design |\n| develop | plan, build and "
            "verify against the brief | the finished work |\n\nEach stage goes from intake "
            "through the work to an internal and an external review. It ends when its exit "
            "criteria are met. Each transition to the next stage has a prompt. The tools read "
            "the documents at each call and write nothing: you do the work that the answers "
            "describe."
        )
    },
    workflows=WORKFLOWS,
    variables={
        "ACM_ROOT": "directory of the documents (overrides the config)",
        "ACM_REGISTRY_ROOT": "directory of the capabilities registry (overrides the config)",
    },
)


class AcmSettings(BaseModel):
    """`[acm]`: the folders of the documents and of the capabilities registry.

    Both are in the project. The user's variables ACM_ROOT and ACM_REGISTRY_ROOT go first and name
    any folder; if nothing is said, the usual places are looked at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: str = Field(default="", description="Directory of the documents.")
    registry: str = Field(default="", description="Directory of the capabilities registry.")


SERVER = KitPlan(
    key="acm",
    server_name="acm",
    version="1.0.0",
    title="Process knowledge: stages, artifacts, reviews, capabilities and lessons learned.",
    nouns={
        "orchestration": "Tools for project stages.",
        "artifacts": "Tools for project artifacts.",
        "project": "Tools for the whole project and its rules.",
        "capabilities": "Tools for the capabilities registry.",
        "knowledge": "Tools for the knowledge base.",
    },
    tools=TOOLS,
    server="ralphgen.kits.acm.server",
    about="Process knowledge for taking a project through its stages. All tools are read-only.",
    skill=SKILL,
)


def plan_acm(project: ProjectFacts) -> KitPlan:
    """Return the server of the kit acm; its documents are read when they are asked for."""
    settings = {name: project.setting(SERVER.key, name) for name in AcmSettings.model_fields}
    return replace(SERVER, settings=settings)


ACM = KitDefinition(SERVER, plan_acm, AcmSettings, find=find_documents, setup=CorpusFiles())
