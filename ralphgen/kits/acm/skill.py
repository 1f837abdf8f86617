"""What the skill of the kit acm says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan, Step, Workflow

WORKFLOWS = (
    Workflow(
        "Start a new project",
        (
            Step("Classify it.", "get_project_type_guidance", {"type": None}),
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
            Step("See what is still missing.", "check_project_structure"),
        ),
        needs=("get_artifact_stub",),
    ),
    Workflow(
        "Prepare for a review",
        (
            Step("Put right whatever does not pass.", "check_project_health"),
            Step(
                "Follow the prompt of the internal review.",
                "get_review_prompt",
                {"stage": None, "phase": "internal"},
            ),
            Step(
                "When nothing grave is left, hand out that of the external one.",
                "get_review_prompt",
                {"stage": None, "phase": "external"},
            ),
        ),
        needs=("get_review_prompt",),
    ),
    Workflow(
        "Go from one stage to the next",
        (
            Step(
                "Have the prerequisites checked; where one is not met, fix that first.",
                "get_transition_prompt",
                {"transition": None, "validate": True},
            ),
            Step("Follow the prompt in the answer."),
            Step("Read what the new stage asks for.", "get_stage", {"stage": None}),
        ),
        needs=("get_transition_prompt",),
    ),
    Workflow(
        "Audit a project",
        (
            Step("Look for missing files and folders.", "check_project_structure"),
            Step("Look at front matter and sections.", "check_project_health"),
            Step("Read the rules for what failed.", "get_artifact_spec", {"artifact": None}),
        ),
        needs=("check_project_structure", "check_project_health"),
    ),
    Workflow(
        "Find a capability",
        (
            Step("Search by a word, a type or tags.", "query_capabilities", {"query": None}),
            Step(
                "Read how the one that fits is set up.",
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
        "reviewed, audited or taken to its next stage, when a brief, an intent, a status or a "
        "CLAUDE.md is written or judged, or when capabilities or experience are looked for."
    ),
    overview={
        "The stages": (
            "| stage | what happens | what it leaves |\n"
            "|---|---|---|\n"
            "| discover | the problem is explored, the project classified and its scope settled "
            "| intent and brief |\n"
            "| design | how it is built is decided, with options and reasons | a design |\n"
            "| develop | it is planned, built and verified against the brief "
            "| the finished work |\n\n"
            "Each stage goes from intake through the work itself to an internal and then an "
            "external review. It ends when its exit criteria are met; the step to the next one "
            "has a prompt of its own. Everything is read from documents at each call and nothing "
            "is ever written: what the answers ask for, the agent does."
        ),
    },
    workflows=WORKFLOWS,
    variables={
        "ACM_ROOT": "the folder of the documents, ahead of what the config says",
        "ACM_REGISTRY_ROOT": "the folder of the registry of capabilities",
    },
)
