"""What other kits may ask of the project's tasks: to take some over, and how they stand."""

from __future__ import annotations

from ..errors import ToolError
from .dates import today
from .dependencies import MET
from .json_columns import decode_strings
from .task_changes import refuse_unknown_homes
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace

KEY = "spec-task"  # begins the tag that says which task of its source a task is


@writing
def import_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make a task of each of `tasks`, once: one that bears its two tags already is kept.

    `feature` and `discipline` are where they belong, `source` is the tag of where they come from.
    Each has a `key`, a `title`, a `description`, `acceptance_criteria`, whether it is `done`, and
    in `after` the keys of those that it waits for. Answers the pairs of key and id that were
    `created` and `kept`. Raises `ToolError`, and makes none, where a home or a column is missing.
    """
    tasks = workspace.tables.tasks
    refuse_unknown_homes(workspace, arguments)
    there = _imported(workspace, arguments["source"])
    ids = {key: task for key, (task, _) in there.items()}
    (highest,) = workspace.database.rows(f"SELECT COALESCE(MAX(id), 0) FROM {tasks.quoted}")[0]
    created: list[list[Any]] = []
    for item in arguments["tasks"]:
        if item["key"] in ids:
            continue
        highest += 1
        ids[item["key"]] = highest
        created.append([item["key"], highest])
        needed = [ids[key] for key in item["after"] if key in ids]
        values = {
            "feature": arguments["feature"],
            "discipline": arguments["discipline"],
            "title": item["title"],
            "description": item["description"],
            "acceptance_criteria": item["acceptance_criteria"],
            "depends_on": needed,
            "tags": [arguments["source"], f"{KEY}:{item['key']}"],
        }
        state = {"status": "done", "completed": today()} if item["done"] else {"status": "pending"}
        stamps = {"id": highest, **state, "created": today(), "provenance": "agent"}
        tasks.insert(workspace.database, {**tasks.values(values), **stamps})
    kept = [[key, task] for key, (task, _) in there.items()]
    return {"created": created, "kept": kept}


@reading
def statuses(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """By key, whether a task that was imported from `source` needs no more work."""
    if "tags" not in workspace.tables.tasks:
        return {}
    found = _imported(workspace, arguments["source"])
    return {key: status in MET for key, (_, status) in found.items()}


def _imported(workspace: Workspace, source: str) -> dict[str, tuple[int, str]]:
    """By key, the id and the status of each task that bears the tags of a source."""
    tasks = workspace.tables.tasks
    if "tags" not in tasks:
        raise ToolError(
            'tasks cannot be imported: the project\'s tasks have no column "tags", by which they '
            "would be known again"
        )
    sql = tasks.select(["id", "status", "tags"], "WHERE instr(tags, ?) ORDER BY id DESC")
    found: dict[str, tuple[int, str]] = {}
    for task, status, stored in workspace.database.rows(sql, [source]):
        tags = decode_strings(stored).values
        if source in tags:
            keys = [tag.removeprefix(f"{KEY}:") for tag in tags if tag.startswith(f"{KEY}:")]
            found.update(dict.fromkeys(keys, (task, status)))
    return dict(sorted(found.items(), key=_by_id))


def _by_id(entry: tuple[str, tuple[int, str]]) -> int:
    return entry[1][0]


SERVICES = {"import_tasks": import_tasks, "statuses": statuses}
