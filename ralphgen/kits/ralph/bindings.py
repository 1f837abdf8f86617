"""Which rows a session of the ralph kit is about, and which arguments name them."""

from collections.abc import Mapping

from ralphgen.planning.model import Names, ToolPlan

TARGETS: Mapping[str, Mapping[str, str]] = {
    "ramble": {"feature": "optional"},
    "discuss": {"discipline": "grants"},
    "task_execution": {"task": "required"},
    "opus_review": {"feature": "optional"},
    "enrichment": {"task": "optional"},
}
# By kind of row and tool, the argument that names such a row, and how far it reaches. Any row may
# be read; notes may be left on the tasks nearby; everything else stays with the session's own.
ARGUMENTS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "task": {
        "get_task": ("id", "any task"),
        "update_task": ("id", "own task"),
        "delete_task": ("id", "own task"),
        "set_task_status": ("id", "own task"),
        "enrich_task": ("id", "own task"),
        "add_task_comment": ("task_id", "task of own feature"),
        "update_task_comment": ("task_id", "task of own feature"),
        "delete_task_comment": ("task_id", "task of own feature"),
        "append_feature_learning": ("task_id", "any task"),
    },
    "feature": {
        "create_task": ("feature", "any feature"),
        "get_feature": ("name", "any feature"),
        "update_feature": ("name", "own feature"),
        "delete_feature": ("name", "own feature"),
        "append_feature_learning": ("feature_name", "own feature"),
        "add_feature_context_file": ("feature_name", "own feature"),
    },
    "discipline": {
        "get_discipline": ("name", "any discipline"),
        "update_discipline": ("name", "own discipline"),
        "delete_discipline": ("name", "own discipline"),
    },
}
BROUGHT: Mapping[str, Names] = {"task": ("task", "feature")}
"""The kinds of rows that a session about one kind is about too: a task brings its feature."""


def bind(kinds: Names, tool: ToolPlan) -> dict[str, str]:
    """The rows that the tool's arguments may name in a session about rows of these kinds."""
    about = {brought for kind in kinds for brought in BROUGHT.get(kind, (kind,))}
    given = {argument.name for argument in tool.arguments}
    return {
        argument: rule
        for kind, tools in ARGUMENTS.items()
        if kind in about and tool.name in tools
        for argument, rule in [tools[tool.name]]
        if argument in given
    }
