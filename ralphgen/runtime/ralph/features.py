"""Features: listing, reading, creating, changing and deleting them."""

from __future__ import annotations

import os

from ..errors import ToolError
from ..results import PAGE, fitted, page
from .acronyms import acronym
from .changes import Changes, refuse_blank
from .dates import today
from .feature_knowledge import add_feature_context_file, append_feature_learning, shown
from .names import name_problem, similar
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tables import Table
    from .workspace import Workspace

__all__ = [
    "add_feature_context_file",
    "append_feature_learning",
    "create_feature",
    "delete_feature",
    "get_feature",
    "list_features",
    "update_feature",
]

LISTED = ("name", "display_name", "acronym", "description")


@reading
def list_features(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """A page of features by name (SPEC-070, category 3)."""
    return listed(workspace, workspace.tables.features, LISTED, arguments, "features")


@reading
def get_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every field of a feature, its best learnings and its task counts (SPEC-070)."""
    features, tasks = workspace.tables.features, workspace.tables.tasks
    name = arguments["name"]
    workspace.known(features, name, "feature")
    columns = [column for column in features.columns if column != "learnings"]
    row = workspace.database.row(features.select(columns, "WHERE name = ?"), [name])
    record = features.decoded(columns, row or ())
    counted = f"SELECT status, COUNT(*) FROM {tasks.quoted} WHERE feature = ? GROUP BY status"
    counts = dict(workspace.database.rows(f"{counted} ORDER BY status", [name]))
    missing = [
        path
        for path in record.get("context_files", [])
        if not os.path.exists(os.path.join(workspace.root, path))
    ]
    more = {"missing_files": missing, "tasks": counts, **shown(workspace, name)}
    return fitted({**record, **{key: value for key, value in more.items() if value}})


@writing
def create_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a feature, with an acronym where none is given (SPEC-070, category 3)."""
    return created(workspace, workspace.tables.features, arguments, "feature")


@writing
def update_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a feature and no other; learnings stay (SPEC-070)."""
    return updated(workspace, workspace.tables.features, arguments, "feature")


@writing
def delete_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a feature that no task belongs to (SPEC-070, category 3)."""
    return deleted(workspace, workspace.tables.features, arguments["name"], "feature")


def listed(
    workspace: Workspace,
    table: Table,
    columns: tuple[str, ...],
    arguments: dict[str, Any],
    key: str,
) -> dict[str, Any]:
    """A page of named rows, in the order of their names."""
    limit = arguments.get("limit", PAGE)
    shown_columns = table.chosen([*columns, *table.added])
    rows = workspace.database.rows(
        table.select(shown_columns, "WHERE name > ? ORDER BY name LIMIT ?"),
        [arguments.get("cursor", ""), limit + 1],
    )
    total = workspace.database.rows(f"SELECT COUNT(*) FROM {table.quoted}")[0][0]
    records = [table.decoded(shown_columns, row) for row in rows]
    names = [record.get("name", "") for record in records]
    return page(key, records, names, limit=limit, total=total)


def created(
    workspace: Workspace, table: Table, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Add a named row; answers its name, its acronym and names that are much like it.

    Raises `ToolError` for a name that is taken or malformed, and for an acronym that is taken.
    """
    name = arguments["name"]
    refuse_blank(arguments, "display_name")
    problem = name_problem(name)
    if problem:
        raise ToolError(problem)
    names = [row[0] for row in workspace.database.rows(table.select(["name"]))]
    if name in names:
        raise ToolError(f'the {kind} "{name}" exists already: change it, or take another name')
    changes = Changes(workspace, table, arguments)
    answer: dict[str, Any] = {"name": name}
    if "acronym" in table:
        answer["acronym"] = _acronym(workspace, table, arguments)
    table.insert(workspace.database, {"created": today(), **changes.values, **answer})
    near = similar(name, names)
    return changes.answer({**answer, "similar": near} if near else answer)


def updated(
    workspace: Workspace, table: Table, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Change the given fields of a named row; answers the names of those that differ now."""
    name = arguments["name"]
    workspace.known(table, name, kind)
    refuse_blank(arguments, "display_name")
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], name)
    changes = Changes(workspace, table, arguments, key="name")
    return changes.answer({"name": name, "changed": changes.apply("name", name, stamps={})})


def deleted(workspace: Workspace, table: Table, name: str, kind: str) -> dict[str, Any]:
    """Delete a named row; raises `ToolError` while a task belongs to it."""
    workspace.known(table, name, kind)
    tasks = workspace.tables.tasks
    sql = tasks.select(["id", "title"], f"WHERE {kind} = ? ORDER BY id LIMIT 1")
    row = workspace.database.row(sql, [name])
    if row:
        raise ToolError(
            f'the {kind} "{name}" cannot be deleted: task {row[0]} "{row[1]}" belongs to it'
        )
    workspace.database.change(f"DELETE FROM {table.quoted} WHERE name = ?", [name])
    return {"deleted": name}


def _acronym(workspace: Workspace, table: Table, arguments: dict[str, Any]) -> str:
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], arguments["name"])
        return str(arguments["acronym"])
    taken = {row[0] for row in workspace.database.rows(table.select(["acronym"]))}
    return acronym(arguments["name"], arguments["display_name"], taken)


def _refuse_taken(workspace: Workspace, table: Table, wanted: str, name: str) -> None:
    sql = table.select(["name"], "WHERE acronym = ? AND name <> ?")
    row = workspace.database.row(sql, [wanted, name])
    if row:
        raise ToolError(
            f'the acronym "{wanted}" belongs to "{row[0]}": take another, or leave it out'
        )
