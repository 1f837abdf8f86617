"""Which tools each kind of session keeps, as SPEC-070 allows them; what it does not list is off."""

from collections.abc import Mapping

from ralphgen.planning.model import Names, ToolPlan, Values

ALLOWED: Mapping[str, Names] = {
    "braindump": (
        "create_feature",
        "create_discipline",
        "create_task",
        "list_features",
        "list_disciplines",
        "list_tasks",
        "get_feature",
        "get_discipline",
        "get_project_info",
    ),
    "yap": (
        "list_tasks",
        "get_task",
        "create_task",
        "update_task",
        "list_features",
        "list_disciplines",
        "set_task_status",
        "get_project_info",
    ),
    "ramble": (
        "list_features",
        "get_feature",
        "create_feature",
        "update_feature",
        "append_feature_learning",
        "add_feature_context_file",
        "list_tasks",
        "get_project_info",
    ),
    "discuss": (
        "list_disciplines",
        "get_discipline",
        "update_discipline",
        "get_project_info",
    ),
    "task_execution": (
        "get_task",
        "set_task_status",
        "add_task_comment",
        "append_learning",
        "append_progress",
        "add_feature_context_file",
        "read_learnings",
        "read_progress",
        "get_project_info",
    ),
    "opus_review": (
        "list_tasks",
        "get_task",
        "set_task_status",
        "update_task",
        "create_task",
        "add_task_comment",
        "list_features",
        "get_feature",
        "update_feature",
        "append_feature_learning",
        "append_learning",
        "append_progress",
        "read_learnings",
        "read_progress",
        "get_project_info",
        "get_project_progress",
    ),
    "enrichment": (
        "list_tasks",
        "get_task",
        "enrich_task",
        "update_task",
        "create_task",
        "list_features",
        "get_feature",
        "list_disciplines",
        "get_project_info",
    ),
}
# Who writes a comment or a learning is not for an agent to say, only for a person.
WITHHELD: Mapping[str, Names] = {
    "add_task_comment": ("author", "discipline"),
    "append_feature_learning": ("source",),
}


# What an agent may make of its own task; drafts and skipped ones are for others to decide on.
STATUSES = ("in_progress", "done", "blocked", "pending")
LOADED_FIRST: Mapping[str, Names] = {
    "braindump": ("create_feature", "create_task"),
    "yap": ("list_tasks", "update_task"),
    "ramble": ("get_feature", "update_feature"),
    "discuss": ("get_discipline", "update_discipline"),
    "task_execution": ("get_task", "set_task_status", "add_task_comment"),
    "opus_review": ("list_tasks", "get_task", "set_task_status"),
    "enrichment": ("get_task", "enrich_task"),
}
"""The few tools that a kind of session cannot do without, so that no client has to search them."""
CLOSING = ("set_task_status", "enrich_task")


def profiles(tools: tuple[ToolPlan, ...], statuses: Values) -> dict[str, Names]:
    """By kind of session, the names of its tools that there are, in the order of the suite."""
    kept = {
        recipe: tuple(
            tool.name
            for tool in tools
            if tool.name in allowed and narrow_values(statuses, recipe, tool) != {"status": ()}
        )
        for recipe, allowed in ALLOWED.items()
    }
    return {
        **kept,
        "interactive": tuple(tool.name for tool in tools if tool.reads),
        "manual": tuple(tool.name for tool in tools),
    }


def narrow(recipe: str, tool: ToolPlan) -> Names | None:
    """The arguments that a kind of session keeps of a tool; None for all of them."""
    names = tuple(argument.name for argument in tool.arguments)
    if recipe == "opus_review" and tool.name == "update_task":
        return tuple(name for name in names if name in ("id", "priority", "description"))
    withheld = WITHHELD.get(tool.name, ())
    if recipe == "manual" or not set(withheld) & set(names):
        return None
    return tuple(name for name in names if name not in withheld)


def narrow_values(statuses: Values, recipe: str, tool: ToolPlan) -> dict[str, Names]:
    """The values that a kind of session keeps of a tool's arguments; `statuses` are the project's.

    Where the project knows none of those that an agent may set, nothing of the tool is left.
    """
    if recipe == "task_execution" and tool.name == "set_task_status":
        return {"status": tuple(status for status in STATUSES if status in statuses)}
    return {}
