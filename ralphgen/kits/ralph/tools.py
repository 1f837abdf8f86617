"""The tools of SPEC-070 in their order: each with its sentence, its arguments and its needs."""

from ralphgen.kits.ralph.columns import PREFIXES
from ralphgen.kits.ralph.project_tools import PROJECT, STATE_FILES
from ralphgen.kits.ralph.spec import PAGING, TEXT, Spec
from ralphgen.planning.model import Argument
from ralphgen.spelling import Name, Value

ID = Argument("id", Name("INTEGER"), required=True)
TASK_ID = Argument("task_id", Name("INTEGER"), required=True)
COMMENT_ID = Argument("comment_id", Name("INTEGER"), required=True)
NAME = Argument("name", Name("STRING"), required=True)
FEATURE_NAME = Argument("feature_name", Name("STRING"), required=True)
STATUS: Value = {"type": "string", "enum": Name(f"{PREFIXES['tasks']}_STATUS")}
SOURCE: Value = {"type": "string", "enum": ["auto", "agent", "human"]}

TASK_FIELDS = (
    "description",
    "priority",
    "acceptance_criteria",
    "depends_on",
    "tags",
    "context_files",
    "output_artifacts",
    "hints",
    "estimated_turns",
)
FEATURE_FIELDS = (
    "description",
    "acronym",
    "knowledge_paths",
    "context_files",
    "architecture",
    "boundaries",
    "dependencies",
)
DISCIPLINE_FIELDS = ("acronym", "description", "system_prompt", "skills", "conventions")
ACRONYM = ("acronym", "its acronym is made where none is given")
COMMENT = ("task_comments.id", "task_comments.task_id", "task_comments.body")

TASKS = (
    Spec(
        "list_tasks",
        "tasks",
        "READS",
        "List tasks by id with status, priority, feature, discipline and whether they are ready.",
        arguments=(
            Argument("filter_status", STATUS),
            Argument("filter_feature", Name("STRING")),
            Argument("filter_discipline", Name("STRING")),
            *PAGING,
        ),
        answers="tasks",
    ),
    Spec(
        "get_task",
        "tasks",
        "READS",
        "Get all of a task: fields, dependencies, dependents and newest comments.",
        arguments=(ID,),
        answers="task",
    ),
    Spec(
        "create_task",
        "tasks",
        "ADDS",
        "Create a task in an existing feature and discipline.",
        table="tasks",
        fields=("feature", "discipline", "title", "status", *TASK_FIELDS),
        required=("feature", "discipline", "title"),
        added=True,
        creates=True,
    ),
    Spec(
        "update_task",
        "tasks",
        "CHANGES",
        "Change the given fields of a task.",
        table="tasks",
        arguments=(ID,),
        fields=("title", *TASK_FIELDS),
        added=True,
        clears=True,
    ),
    Spec(
        "delete_task",
        "tasks",
        "DELETES",
        "Delete a task that no other depends on.",
        arguments=(ID,),
        guards=("tasks.depends_on",),
    ),
    Spec(
        "set_task_status",
        "tasks",
        "ADDS",
        "Set a task's status.",
        table="tasks",
        arguments=(ID, Argument("status", STATUS, required=True)),
        fields=("reason", "summary"),
        search_hint="start, finish, close, block or skip a task",
    ),
    Spec(
        "enrich_task",
        "tasks",
        "CHANGES",
        "Give a draft its pseudocode and make it pending.",
        table="tasks",
        arguments=(ID, Argument("pseudocode", Name("STRING"), required=True)),
        fields=("acceptance_criteria", "context_files"),
        needs=("tasks.pseudocode",),
        statuses=("draft", "pending"),
        search_hint="pseudocode plan for a draft",
    ),
)
COMMENTS = (
    Spec(
        "add_task_comment",
        "comments",
        "ADDS",
        "Add a comment to a task.",
        table="task_comments",
        arguments=(TASK_ID,),
        fields=("author", "body", "discipline", "priority"),
        required=("author", "body"),
        added=True,
        needs=COMMENT,
        creates=True,
        search_hint="ask a question, report a problem, leave a note",
    ),
    Spec(
        "update_task_comment",
        "comments",
        "CHANGES",
        "Replace the text of a comment.",
        table="task_comments",
        arguments=(TASK_ID, COMMENT_ID),
        fields=("body",),
        required=("body",),
        needs=COMMENT,
    ),
    Spec(
        "delete_task_comment",
        "comments",
        "DELETES",
        "Delete a comment.",
        arguments=(TASK_ID, COMMENT_ID),
        needs=COMMENT,
    ),
)
FEATURES = (
    Spec(
        "list_features",
        "features",
        "READS",
        "List features with their descriptions.",
        arguments=PAGING,
        answers="features",
    ),
    Spec(
        "get_feature",
        "features",
        "READS",
        "Get all that is known of a feature, and its task counts.",
        arguments=(NAME,),
        answers="feature",
    ),
    Spec(
        "create_feature",
        "features",
        "ADDS",
        "Create a feature.",
        table="features",
        fields=("name", "display_name", *FEATURE_FIELDS),
        required=("name", "display_name"),
        added=True,
        creates=True,
        notes=(ACRONYM,),
    ),
    Spec(
        "update_feature",
        "features",
        "CHANGES",
        "Change the given fields of a feature.",
        table="features",
        arguments=(NAME,),
        fields=("display_name", *FEATURE_FIELDS),
        added=True,
        clears=True,
        notes=(("learnings", "its learnings stay"),),
    ),
    Spec(
        "delete_feature",
        "features",
        "DELETES",
        "Delete a feature that has no tasks.",
        arguments=(NAME,),
    ),
    Spec(
        "append_feature_learning",
        "features",
        "ADDS",
        "Add a learning to a feature; one that says the same is counted, not repeated.",
        arguments=(
            FEATURE_NAME,
            TEXT,
            Argument("source", SOURCE),
            Argument("reason", Name("STRING")),
            Argument("task_id", Name("INTEGER")),
        ),
        needs=("features.learnings",),
        search_hint="record a decision, its reason, a convention",
    ),
    Spec(
        "add_feature_context_file",
        "features",
        "CHANGES",
        "Register a file of the project, by relative path, on a feature.",
        arguments=(FEATURE_NAME, Argument("file_path", Name("STRING"), required=True)),
        needs=("features.context_files",),
    ),
)
DISCIPLINES = (
    Spec(
        "list_disciplines",
        "disciplines",
        "READS",
        "List disciplines.",
        arguments=PAGING,
        answers="disciplines",
    ),
    Spec(
        "get_discipline",
        "disciplines",
        "READS",
        "Get all of a discipline: prompt, skills, conventions, MCP servers.",
        arguments=(NAME,),
        answers="discipline",
    ),
    Spec(
        "create_discipline",
        "disciplines",
        "ADDS",
        "Create a discipline.",
        table="disciplines",
        fields=("name", "display_name", "icon", "color", *DISCIPLINE_FIELDS),
        required=("name", "display_name", "icon", "color"),
        added=True,
        creates=True,
        notes=(ACRONYM,),
    ),
    Spec(
        "update_discipline",
        "disciplines",
        "CHANGES",
        "Change the given fields of a discipline.",
        table="disciplines",
        arguments=(NAME,),
        fields=("display_name", "icon", "color", *DISCIPLINE_FIELDS),
        added=True,
        clears=True,
    ),
    Spec(
        "delete_discipline",
        "disciplines",
        "DELETES",
        "Delete a discipline that has no tasks.",
        arguments=(NAME,),
    ),
)
SPECS = (*TASKS, *COMMENTS, *FEATURES, *DISCIPLINES, *PROJECT, *STATE_FILES)
