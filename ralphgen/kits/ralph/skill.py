"""What the skill of the ralph kit says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, Workflow

WORKFLOWS = (
    Workflow(
        "Do a task and close it",
        (
            Step("Read the task, its comments and its dependencies.", "get_task", {"id": None}),
            Step("Read what earlier sessions learned.", "read_learnings"),
            Step("Mark it as started.", "set_task_status", {"status": "in_progress"}),
            Step("Do the work, and check it against the acceptance criteria."),
            Step("Record surprises.", "append_learning", {"text": None}),
            Step("Log the work.", "append_progress", {"text": None}),
            Step(
                "Close it when everything is done.",
                "set_task_status",
                {"status": "done", "summary": None},
            ),
        ),
        needs=("get_task", "set_task_status"),
    ),
    Workflow(
        "Stop a task that cannot continue",
        (
            Step(
                "Describe what is missing, so that others can answer.",
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
            Step("List the features.", "list_features"),
            Step(
                "Add a missing feature.",
                "create_feature",
                {"name": None, "display_name": None},
            ),
            Step("List the disciplines.", "list_disciplines"),
            Step("Look for a duplicate task.", "list_tasks", {"filter_feature": None}),
            Step(
                "Create the task with its dependencies.",
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
            Step("Read one, and the code it concerns.", "get_task", {"id": None}),
            Step("Read its feature.", "get_feature", {"name": None}),
            Step(
                "Add the pseudocode, which makes it pending.",
                "enrich_task",
                {"id": None, "pseudocode": None},
            ),
        ),
        needs=("enrich_task",),
    ),
    Workflow(
        "Review work",
        (
            Step("Find finished tasks.", "list_tasks", {"filter_status": "done"}),
            Step("Read a task, then its code.", "get_task", {"id": None}),
            Step("Record your findings.", "add_task_comment", {"task_id": None, "body": None}),
            Step("Reopen it if it falls short.", "set_task_status", {"status": "pending"}),
            Step(
                "Record lessons for the whole feature.",
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
        "Works with the project's tasks, features, disciplines, comments and learnings. Use when "
        "a task is chosen, done, reviewed, commented on or closed, when work is planned or a draft "
        "enriched, when the user asks about progress, or to save a learning for later sessions."
    ),
    overview={
        "Tasks, features and disciplines": (
            "A task belongs to a feature (a part of the project) and a discipline (an agent role). "
            "A task is ready when all its dependencies are closed. Learnings and progress are for "
            "later sessions. Everything is in the project's database: change it with the tools, "
            "never with SQL or by editing files in .ralph/."
        ),
        "How to close work": (
            "Set the status of a task when you start and when you stop. End a session with done "
            "and a summary of the changes, or with blocked and the reason. Never leave a task in "
            "progress, and never close work that you have not checked. If the session cannot set "
            "a status, list the remaining work in your last answer."
        ),
    },
    workflows=WORKFLOWS,
)
