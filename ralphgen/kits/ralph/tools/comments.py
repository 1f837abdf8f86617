"""The tools on the comments of tasks."""

from ralphgen.kits.ralph.table_tool import CHANGED, DELETED, TableTool
from ralphgen.planning.model import Argument
from ralphgen.spelling import Name

TASK_ID = Argument("task_id", Name("INTEGER"), required=True)
COMMENT_ID = Argument("comment_id", Name("INTEGER"), required=True)
COMMENT = ("task_comments.id", "task_comments.task_id", "task_comments.body")

TOOLS = (
    TableTool(
        "add_task_comment",
        module="comments",
        hints="NON_DESTRUCTIVE",
        description="Add a comment to a task.",
        table="task_comments",
        arguments=(TASK_ID,),
        fields=("author", "body", "discipline", "priority"),
        required=("author", "body"),
        added=True,
        creates=True,
        needs=COMMENT,
        search_hint="ask a question, report a problem, leave a note",
        recipes=("task_execution", "opus_review"),
        loaded_first=("task_execution",),
        reserved={"author": (), "discipline": ()},
        bound={"task_id": "task of own feature"},
        instruction="comments: {tools}",
        purpose="leave a question, a finding or a note where the task is",
        answer="the comment with its id",
        instead={"append_learning": "what later sessions should know of any task"},
    ),
    TableTool(
        "update_task_comment",
        module="comments",
        hints="IDEMPOTENT",
        description="Replace the text of a comment.",
        table="task_comments",
        arguments=(TASK_ID, COMMENT_ID),
        fields=("body",),
        required=("body",),
        needs=COMMENT,
        bound={"task_id": "task of own feature"},
        instruction="comments: {tools}",
        purpose="correct a comment",
        answer=CHANGED,
    ),
    TableTool(
        "delete_task_comment",
        module="comments",
        hints="DESTRUCTIVE",
        description="Delete a comment.",
        arguments=(TASK_ID, COMMENT_ID),
        needs=COMMENT,
        bound={"task_id": "task of own feature"},
        instruction="comments: {tools}",
        purpose="remove a comment",
        answer=DELETED,
    ),
)
