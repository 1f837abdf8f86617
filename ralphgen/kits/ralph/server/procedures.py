"""How each kind of session goes about its work, in steps that name the tools they need."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# These stand for a sentence that depends on what the session is about, and on what it may set.
CHOOSE, BEGIN, CLOSE = "CHOOSE", "BEGIN", "CLOSE"


class Procedure:
    """What a kind of session is for, and its steps: each with the tools without which it falls."""

    __slots__ = ("purpose", "steps")

    def __init__(self, purpose: str, *steps: tuple[Sequence[str], str]) -> None:
        self.purpose = purpose
        self.steps = steps


PROCEDURES: Mapping[str, Procedure] = {
    "braindump": Procedure(
        "Turn raw ideas into features, disciplines and draft tasks.",
        ((), "Listen until you can say the idea back in two sentences; ask what is unclear."),
        (
            ("list_features", "list_disciplines"),
            "Read list_features and list_disciplines, so that nothing is made twice.",
        ),
        (("list_tasks",), "Look with list_tasks for tasks that say the same already."),
        (("create_feature",), "Make a feature with create_feature for each part users would name."),
        (
            ("create_discipline",),
            "Add a discipline with create_discipline only where no discipline fits the work.",
        ),
        (
            ("create_task",),
            (
                "Make tasks with create_task: one result each, how it can be checked, and what it "
                "waits for."
            ),
        ),
        ((), "End with a short list of what you made and what is still open."),
    ),
    "yap": Procedure(
        "Talk through the tasks with a person, and keep them as agreed.",
        (("list_tasks",), "Begin with list_tasks; filter it by what the person speaks of."),
        (("get_task",), "Read a task with get_task before you speak of its details."),
        (("update_task",), "Write what was agreed with update_task, field by field."),
        (("create_task",), "Make a new task with create_task where none fits."),
        ((), "Change nothing that was not agreed, and say what you changed."),
    ),
    "ramble": Procedure(
        "Talk through a feature with a person, and keep what is learned.",
        (("get_feature",), "Read the feature with get_feature."),
        (("list_tasks",), "See its tasks with list_tasks."),
        (
            ("update_feature",),
            "Keep true what it says of itself with update_feature.",
        ),
        (
            ("append_feature_learning",),
            "Keep decisions, each with its reason, with append_feature_learning.",
        ),
        (
            ("add_feature_context_file",),
            "Name the files that matter with add_feature_context_file.",
        ),
        (("create_feature",), "Where a feature splits, make the new one with create_feature."),
    ),
    "discuss": Procedure(
        "Shape a discipline, the role that agents work in, with a person.",
        (("get_discipline",), "Read the discipline with get_discipline."),
        (
            ("list_disciplines",),
            "See with list_disciplines what the others cover, so that they do not overlap.",
        ),
        ((), "Propose prompt, skills and conventions in words first, and agree on them."),
        (("update_discipline",), "Write what was agreed with update_discipline."),
    ),
    "task_execution": Procedure(
        "Do one task, completely, and close it.",
        (
            ("get_task",),
            "Read all of your task with get_task, the comments and the tasks it waits for too.",
        ),
        (("read_learnings",), "See with read_learnings what earlier sessions found out."),
        (("read_progress",), "See with read_progress what was done last."),
        (("set_task_status",), BEGIN),
        ((), "Do the work in the project's files; run its tests; meet each criterion."),
        (
            ("add_task_comment",),
            (
                "Tell with add_task_comment what a person or the next agent must know: a question, "
                "a decision, what is left."
            ),
        ),
        (
            ("add_feature_context_file",),
            "Register files that later tasks need with add_feature_context_file.",
        ),
        (("append_learning",), "Keep what would have saved you time with append_learning."),
        (("append_progress",), "Say in one entry what was done with append_progress."),
        (("set_task_status",), CLOSE),
    ),
    "opus_review": Procedure(
        "Review what was done, and decide what follows.",
        (("get_project_progress",), "Begin with get_project_progress."),
        (("list_tasks",), "Find what is done, blocked or stuck with list_tasks."),
        (
            ("get_task",),
            "Hold each done task against its criteria: get_task, then the code itself.",
        ),
        (
            ("set_task_status", "add_task_comment"),
            "Put back what does not hold with set_task_status, and say why with add_task_comment.",
        ),
        (("update_task",), "Put priorities right with update_task."),
        (("create_task",), "Make tasks with create_task for what is missing."),
        (
            ("append_feature_learning",),
            "Keep what the review taught with append_feature_learning.",
        ),
        (("append_progress",), "End with an entry by append_progress: what holds, what is next."),
    ),
    "enrichment": Procedure(
        "Turn draft tasks into tasks that an agent can do without asking.",
        (("list_tasks",), CHOOSE),
        (("get_task",), "Read the draft with get_task."),
        (("get_feature",), "Read its feature with get_feature, and the code it will touch."),
        (
            ("update_task",),
            "Write with update_task what an agent who knows nothing of it will need.",
        ),
        (
            ("create_task",),
            "Split a draft that is more than one session's work: create_task for each part.",
        ),
        (
            ("enrich_task",),
            "Give the draft its pseudocode with enrich_task, which makes it pending and closes it.",
        ),
    ),
}
