"""The tools on tasks and on their comments."""

from functools import partial

from ralphgen.kits.ralph.table_tool import CHANGED, DELETED, ON_LISTS, PAGING, TableTool
from ralphgen.planning.model import BOOLEAN, Argument
from ralphgen.runtime.tasks.rows import STATUSES
from ralphgen.runtime.tool import (
    DESTRUCTIVE,
    IDEMPOTENT,
    INTEGER,
    NON_DESTRUCTIVE,
    READ_ONLY,
    STRING,
)

ID = Argument("id", INTEGER, required=True)
STATUS = {"type": "string", "enum": [*STATUSES]}  # until a plan takes those of the project
AGENTS_STATUSES = ("in_progress", "done", "blocked", "pending")
"""What an agent may make of its own task; drafts and skipped ones are for others to decide on."""
FIELDS = (
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
TASK_ID = Argument("task_id", INTEGER, required=True)
COMMENT_ID = Argument("comment_id", INTEGER, required=True)
COMMENT = ("task_comments.id", "task_comments.task_id", "task_comments.body")
# The tools on a noun, and how instructions name them.
_task_tool = partial(TableTool, module="tasks", instruction="tasks: {tools}")
_comment_tool = partial(TableTool, module="tasks", instruction="comments: {tools}")

TASK_TOOLS = (
    _task_tool(
        "list_tasks",
        hints=READ_ONLY,
        description=(
            "List tasks by id with status, priority, feature, discipline and whether they are "
            "ready."
        ),
        arguments=(
            Argument("filter_status", STATUS),
            Argument("filter_feature", STRING),
            Argument("filter_discipline", STRING),
            Argument("filter_ready", BOOLEAN),
            *PAGING,
        ),
        answer_shape="tasks",
        recipes=("braindump", "yap", "ramble", "opus_review", "enrichment"),
        loaded_first_in=("yap", "opus_review"),
        advice=ON_LISTS,
        purpose="find tasks by status, feature, discipline or readiness",
        answer="a page of tasks, with a cursor if there are more",
        instead={"get_task": "one whole task"},
    ),
    _task_tool(
        "get_task",
        hints=READ_ONLY,
        description="Get a task: fields, dependencies, dependents and newest comments.",
        arguments=(ID,),
        answer_shape="task",
        recipes=("yap", "task_execution", "opus_review", "enrichment"),
        loaded_first_in=("task_execution", "opus_review", "enrichment"),
        bound={"id": "any task"},
        purpose="read a task before you work on it or change it",
        answer="every field, dependencies, dependents and the newest comments",
    ),
    _task_tool(
        "create_task",
        hints=NON_DESTRUCTIVE,
        description="Create a task in an existing feature and discipline.",
        table="tasks",
        fields=("feature", "discipline", "title", "status", *FIELDS),
        required_fields=("feature", "discipline", "title"),
        added=True,
        creates=True,
        recipes=("braindump", "yap", "opus_review", "enrichment"),
        loaded_first_in=("braindump",),
        bound={"feature": "any feature"},
        purpose="record new work in a feature and a discipline",
        answer="the new task with its id",
        instead={"update_task": "an existing task"},
    ),
    _task_tool(
        "update_task",
        hints=IDEMPOTENT,
        description="Change fields of a task.",
        table="tasks",
        arguments=(ID,),
        fields=("title", *FIELDS),
        added=True,
        clears=True,
        recipes=("yap", "opus_review", "enrichment"),
        loaded_first_in=("yap",),
        narrowed_arguments={"opus_review": ("id", "priority", "description")},
        bound={"id": "own task"},
        purpose="correct a task; omitted fields are unchanged",
        answer=CHANGED,
        instead={"set_task_status": "its status"},
    ),
    _task_tool(
        "delete_task",
        hints=DESTRUCTIVE,
        description="Delete a task that no other task depends on.",
        arguments=(ID,),
        guards=("tasks.depends_on",),
        bound={"id": "own task"},
        purpose="remove a task that was a mistake",
        answer=DELETED,
        instead={"set_task_status": "skipped work"},
    ),
    _task_tool(
        "set_task_status",
        hints=NON_DESTRUCTIVE,
        description="Set a task's status.",
        table="tasks",
        arguments=(ID, Argument("status", STATUS, required=True)),
        fields=("reason", "summary"),
        search_hint="start, finish, close, block or skip a task",
        recipes=("yap", "task_execution", "opus_review"),
        loaded_first_in=("task_execution", "opus_review"),
        closes=True,
        narrowed_values={"task_execution": {"status": AGENTS_STATUSES}},
        bound={"id": "own task"},
        instruction="task status: {tools}",
        purpose="start, close or block a task",
        answer="the old and new status, and the tasks that are now ready",
    ),
    _task_tool(
        "enrich_task",
        hints=IDEMPOTENT,
        description="Add pseudocode to a draft and make it pending.",
        table="tasks",
        arguments=(ID, Argument("pseudocode", STRING, required=True)),
        fields=("acceptance_criteria", "context_files"),
        columns=("tasks.pseudocode",),
        statuses=("draft", "pending"),
        search_hint="pseudocode plan for a draft",
        recipes=("enrichment",),
        loaded_first_in=("enrichment",),
        closes=True,
        bound={"id": "own task"},
        advice="Close a draft with enrich_task, which makes it pending.",
        purpose="turn a draft into a task that is ready to do",
        answer=CHANGED,
    ),
)
COMMENT_TOOLS = (
    _comment_tool(
        "add_task_comment",
        hints=NON_DESTRUCTIVE,
        description="Add a comment to a task.",
        table="task_comments",
        arguments=(TASK_ID,),
        fields=("author", "body", "discipline", "priority"),
        required_fields=("author", "body"),
        added=True,
        creates=True,
        columns=COMMENT,
        search_hint="ask a question, report a problem, leave a note",
        recipes=("task_execution", "opus_review"),
        loaded_first_in=("task_execution",),
        reserved={"author": (), "discipline": ()},
        signed=("author", "discipline"),
        bound={"task_id": "task of own feature"},
        purpose="leave a question, finding or note on a task",
        answer="the comment with its id",
        instead={"append_learning": "advice for all later sessions"},
    ),
    _comment_tool(
        "update_task_comment",
        hints=IDEMPOTENT,
        description="Replace the text of a comment.",
        table="task_comments",
        arguments=(TASK_ID, COMMENT_ID),
        fields=("body",),
        required_fields=("body",),
        columns=COMMENT,
        bound={"task_id": "task of own feature"},
        purpose="correct a comment",
        answer=CHANGED,
    ),
    _comment_tool(
        "delete_task_comment",
        hints=DESTRUCTIVE,
        description="Delete a comment.",
        arguments=(TASK_ID, COMMENT_ID),
        columns=COMMENT,
        bound={"task_id": "task of own feature"},
        purpose="remove a comment",
        answer=DELETED,
    ),
)
