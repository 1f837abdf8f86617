"""What the skill of the ralph kit says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, ToolUse, Workflow

CHANGED = "the row as it is now"
DELETED = "what was deleted, or what stands against it"
USES = {
    "list_tasks": ToolUse(
        "find tasks by status, feature or discipline, and those that are ready",
        "a page of tasks, and a cursor where there are more",
        {"get_task": "all of one task"},
    ),
    "get_task": ToolUse(
        "read a task before working on it or changing it",
        "every field, dependencies, dependents and the newest comments",
    ),
    "create_task": ToolUse(
        "write down work that has a feature and a discipline",
        "the new task with its id",
        {"update_task": "a task that is there already"},
    ),
    "update_task": ToolUse(
        "correct a task; fields that are not given stay as they are",
        CHANGED,
        {"set_task_status": "its status"},
    ),
    "delete_task": ToolUse(
        "remove a task that was a mistake", DELETED, {"set_task_status": "work that is not wanted"}
    ),
    "set_task_status": ToolUse(
        "begin a task, close it, or say that it is blocked",
        "the old and the new status, and the tasks that can begin now",
    ),
    "enrich_task": ToolUse("turn a draft into a task that can be carried out", CHANGED),
    "add_task_comment": ToolUse(
        "leave a question, a finding or a note where the task is",
        "the comment with its id",
        {"append_learning": "what later sessions should know of any task"},
    ),
    "update_task_comment": ToolUse("correct a comment", CHANGED),
    "delete_task_comment": ToolUse("remove a comment", DELETED),
    "list_features": ToolUse("see what the project is made of", "a page of features"),
    "get_feature": ToolUse(
        "read a feature before a task of it is planned or carried out",
        "every field, its learnings, and its tasks counted by status",
    ),
    "create_feature": ToolUse("add a part of the project that tasks can belong to", "the feature"),
    "update_feature": ToolUse(
        "correct a feature; fields that are not given stay as they are",
        CHANGED,
        {"append_feature_learning": "what was learned about it"},
    ),
    "delete_feature": ToolUse("remove a feature without tasks", DELETED),
    "append_feature_learning": ToolUse(
        "keep a decision or a convention with the feature that it is about",
        "whether it was added or was known before",
        {"append_learning": "what is about the project as a whole"},
    ),
    "add_feature_context_file": ToolUse(
        "note a file that whoever works on the feature has to read", "the feature's files"
    ),
    "list_disciplines": ToolUse("see who can be given a task", "a page of disciplines"),
    "get_discipline": ToolUse(
        "read what a discipline is told and what it knows", "prompt, skills and conventions"
    ),
    "create_discipline": ToolUse("add a kind of worker that tasks can be given to", "the row"),
    "update_discipline": ToolUse(
        "sharpen what a discipline is told; fields that are not given stay as they are", CHANGED
    ),
    "delete_discipline": ToolUse("remove a discipline without tasks", DELETED),
    "get_project_info": ToolUse("learn what the project is", "title, description, creation date"),
    "get_project_progress": ToolUse(
        "say how far the project is",
        "tasks counted by status, in all and by feature",
        {"read_progress": "what was done, in words"},
    ),
    "append_learning": ToolUse(
        "tell later sessions what this one had to find out", "the line that was written"
    ),
    "read_learnings": ToolUse("learn what earlier sessions found out", "the newest entries"),
    "append_progress": ToolUse("log what was done", "the line that was written"),
    "read_progress": ToolUse("learn what earlier sessions did", "the newest entries"),
}
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
    uses=USES,
    workflows=WORKFLOWS,
)
