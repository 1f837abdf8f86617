"""What the skill of the ralph kit says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan, Step, Workflow

WORKFLOWS = (
    Workflow(
        "Carry a task out and close it",
        (
            Step("Read the task, its comments and what it depends on.", "get_task", {"id": None}),
            Step("Read what earlier sessions found out.", "read_learnings"),
            Step("Say that it has begun.", "set_task_status", {"status": "in_progress"}),
            Step("Do the work, and check it against the acceptance criteria."),
            Step("Keep what was surprising.", "append_learning", {"text": None}),
            Step("Log what was done.", "append_progress", {"text": None}),
            Step(
                "Close it, once everything is done.",
                "set_task_status",
                {"status": "done", "summary": None},
            ),
        ),
        needs=("get_task", "set_task_status"),
    ),
    Workflow(
        "Stop where a task cannot go on",
        (
            Step(
                "Say what is missing, so that somebody else can answer.",
                "add_task_comment",
                {"task_id": None, "body": None},
            ),
            Step(
                "Close it as blocked, with the reason.",
                "set_task_status",
                {"status": "blocked", "reason": None},
            ),
        ),
        needs=("set_task_status",),
    ),
    Workflow(
        "Plan new work",
        (
            Step("See which features there are.", "list_features"),
            Step(
                "Add the one that is missing.",
                "create_feature",
                {"name": None, "display_name": None},
            ),
            Step("See which disciplines there are.", "list_disciplines"),
            Step("Look for a task that says the same.", "list_tasks", {"filter_feature": None}),
            Step(
                "Create the task, with what it depends on.",
                "create_task",
                {"feature": None, "discipline": None, "title": None, "depends_on": None},
            ),
        ),
        needs=("create_task",),
    ),
    Workflow(
        "Enrich a draft",
        (
            Step("Find the drafts.", "list_tasks", {"filter_status": "draft"}),
            Step("Read one, and the code that it is about.", "get_task", {"id": None}),
            Step("Read what is known of its feature.", "get_feature", {"name": None}),
            Step(
                "Give it its pseudocode; it is pending then.",
                "enrich_task",
                {"id": None, "pseudocode": None},
            ),
        ),
        needs=("enrich_task",),
    ),
    Workflow(
        "Review work",
        (
            Step("Find what was done.", "list_tasks", {"filter_status": "done"}),
            Step("Read a task, then look at the work itself.", "get_task", {"id": None}),
            Step("Write down what you found.", "add_task_comment", {"task_id": None, "body": None}),
            Step("Open it again where it falls short.", "set_task_status", {"status": "pending"}),
            Step(
                "Keep what holds for the whole feature.",
                "append_feature_learning",
                {"feature_name": None, "text": None},
            ),
        ),
        needs=("list_tasks", "set_task_status"),
    ),
)
SKILL = SkillPlan(
    name="ralph-project",
    title="The project's tasks, features and disciplines",
    description=(
        "Works with the project's own record of tasks, features, disciplines, comments and "
        "learnings. Use when a task is to be picked, carried out, reviewed, commented on or "
        "closed, when work is planned or a draft enriched, when somebody asks how far the project "
        "is, or when something learned should be kept for later sessions."
    ),
    overview={
        "How the project is kept": (
            "A task belongs to a feature, which is a part of the project, and to a discipline, "
            "which is the kind of worker that it is for. A task is ready when nothing that it "
            "depends on is still open. Learnings and progress are kept for the sessions that "
            "come later. All of it is in the project's database: change it through the tools, "
            "never with SQL and never by editing files in .ralph/."
        ),
        "How to close work": (
            "The status of a task is what others see of it, so set it when work begins and when "
            "it ends. A session ends by setting the status that its work has come to, with a "
            "summary of what was changed, or the reason why it cannot go on. Never leave a task "
            "as if somebody were working on it, and call nothing finished that was not checked. "
            "Where the session has no tool to set a status, say in the last answer what is left."
        ),
    },
    workflows=WORKFLOWS,
)
