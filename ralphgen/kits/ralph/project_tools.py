"""The tools of SPEC-070 on the project as a whole and on its state files."""

from ralphgen.kits.ralph.spec import PAGING, TEXT, Spec

PROJECT = (
    Spec(
        "get_project_info",
        "project",
        "READS",
        "Get the project's title, description and creation date.",
        needs=("metadata.project_title",),
        answers="info",
    ),
    Spec(
        "get_project_progress",
        "project",
        "READS",
        "Count tasks by status, in all and by feature; percent is done of actionable.",
        answers="progress",
        search_hint="how far, percent done, statistics",
    ),
)
STATE_FILES = (
    Spec(
        "append_learning",
        "state_files",
        "ADDS",
        "Append an entry to the project's learnings.txt.",
        arguments=(TEXT,),
        answers="written",
        search_hint="note a lesson for later sessions",
    ),
    Spec(
        "read_learnings",
        "state_files",
        "READS",
        "Read the newest entries of learnings.txt.",
        arguments=PAGING,
        answers="text",
    ),
    Spec(
        "append_progress",
        "state_files",
        "ADDS",
        "Append an entry to the project's progress.txt.",
        arguments=(TEXT,),
        answers="written",
        search_hint="log what was done",
    ),
    Spec(
        "read_progress",
        "state_files",
        "READS",
        "Read the newest entries of progress.txt.",
        arguments=PAGING,
        answers="text",
    ),
)
