"""What the skill of the kit acm says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, Workflow

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
        ),
    },
    workflows=WORKFLOWS,
    variables={
        "ACM_ROOT": "directory of the documents (overrides the config)",
        "ACM_REGISTRY_ROOT": "directory of the capabilities registry (overrides the config)",
    },
)
