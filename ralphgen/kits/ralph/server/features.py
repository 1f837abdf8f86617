"""Features: listing, reading, creating, changing and deleting them."""

from __future__ import annotations

import os

from ralphgen.runtime.values.paging import fitted

from .feature_knowledge import (
    add_feature_context_file,
    append_feature_learning,
    refuse_too_many_files,
    shown,
)
from .json_columns import decode_strings
from .named_rows import created, deleted, listed, updated
from .tables import plain
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    statuses = workspace.database.rows(f"{counted} ORDER BY status", [name])
    counts = {str(plain(status)): count for status, count in statuses}
    missing = [
        path
        for path in record.get("context_files", [])
        if not os.path.exists(os.path.join(workspace.root, path))
    ]
    more = {"missing_files": missing, "tasks": counts, **shown(workspace, name)}
    unreadable = {**record.get("unreadable", {}), **more.get("unreadable", {})}
    more = {**more, "unreadable": unreadable}
    return fitted({**record, **{key: value for key, value in more.items() if value}})


@writing
def create_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a feature, with an acronym where none is given (SPEC-070, category 3)."""
    refuse_too_many_files(arguments)
    return created(workspace, workspace.tables.features, arguments, "feature")


@writing
def update_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a feature and no other; learnings stay (SPEC-070)."""
    refuse_too_many_files(arguments)
    return updated(workspace, workspace.tables.features, arguments, "feature")


@writing
def delete_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a feature that no task belongs to; names what still mentions it (SPEC-070)."""
    features, name = workspace.tables.features, arguments["name"]
    workspace.known(features, name, "feature")
    return deleted(workspace, features, name, "feature", _mentions(workspace, name))


def _mentions(workspace: Workspace, name: str) -> list[str]:
    """The other features that list this one among their dependencies."""
    features = workspace.tables.features
    if "dependencies" not in features:
        return []
    rows = workspace.database.rows(features.select(["name", "dependencies"], "ORDER BY name"))
    return [
        f'"dependencies" of the feature "{plain(other)}"'
        for other, stored in rows
        if other != name and name in decode_strings(stored).values
    ]
