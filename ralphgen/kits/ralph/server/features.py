"""The tools on features: their rows, and the learnings and files that they gather."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks.rows import (
    checked_path,
    decode_list,
    decode_strings,
    encode,
    normalise,
    now_offset,
    path_warnings,
    plain,
    refuse_blank,
    refuse_unknown,
)
from ralphgen.runtime.values import fitted, shortened

from .named_rows import created, deleted, listed, updated
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .workspace import Workspace

LISTED = ("name", "display_name", "acronym", "description")
BEST_LEARNINGS = 50  # of a feature in one answer, and the number from which on we warn
MOST_FILES = 100  # context files of a feature


@reading
def list_features(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of features by name (SPEC-070, category 3)."""
    return listed(workspace, workspace.tables.features, LISTED, arguments, "features")


@reading
def get_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a feature, its best learnings and its task counts (SPEC-070)."""
    features, tasks = workspace.tables.features, workspace.tables.tasks
    name = arguments["name"]
    refuse_unknown(workspace.database, features, name, "feature")
    columns = [column for column in features.columns if column != "learnings"]
    row = workspace.database.row(features.select(columns, "WHERE name = ?"), [name])
    record = features.decoded(columns, row or ())
    counted = f"SELECT status, COUNT(*) FROM {tasks.quoted} WHERE feature = ? GROUP BY status"
    by_status = workspace.database.sql.ordered("status")
    statuses = workspace.database.rows(f"{counted} ORDER BY {by_status}", [name])
    counts = {str(plain(status)): count for status, count in statuses}
    missing = [
        path
        for path in record.get("context_files", [])
        if not os.path.exists(os.path.join(workspace.work_tree, path))
    ]
    more = {"missing_files": missing, "tasks": counts, **learnings_of(workspace, name)}
    unreadable = {**record.get("unreadable", {}), **more.get("unreadable", {})}
    more = {**more, "unreadable": unreadable}
    return fitted({**record, **{key: value for key, value in more.items() if value}})


@writing
def create_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a feature, with an acronym where none is given (SPEC-070, category 3)."""
    _refuse_too_many_files(arguments)
    return created(workspace, workspace.tables.features, arguments, "feature")


@writing
def update_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a feature and no other; learnings stay (SPEC-070)."""
    _refuse_too_many_files(arguments)
    return updated(workspace, workspace.tables.features, arguments, "feature")


@writing
def delete_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a feature that no task belongs to; names what still mentions it (SPEC-070)."""
    name = arguments["name"]
    naming = _naming(workspace, name)
    return deleted(workspace, workspace.tables.features, name, "feature", naming)


@writing
def append_feature_learning(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a learning, or count one more hit of the same (SPEC-070, category 3).

    Answers `outcome` (added, duplicate, conflict), the older learning that it met, and the count.
    Raises `ToolError` where the stored list cannot be read: it would be lost.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    refuse_unknown(workspace.database, features, name, "feature")
    refuse_blank(arguments, "text", "reason")
    from .learnings import append, decode  # a server that is just asked for its lists needs none

    text = _exact(workspace, "learnings", name)
    stored = decode(text)
    if not stored.readable:
        raise ToolError(_unreadable("learnings", name))
    outcome = append(
        stored.values,
        arguments["text"],
        source=arguments.get("source", "agent"),
        reason=arguments.get("reason"),
        task_id=arguments.get("task_id"),
        now=now_offset(),
    )
    values = {"learnings": _rewritten(text, stored.values, outcome.learnings)}
    features.update(workspace.database, "name", name, values)
    answer: dict[str, Any] = {"outcome": outcome.kind, "count": len(outcome.learnings)}
    if outcome.stored is not None:
        answer.update(stored=outcome.stored, given=outcome.text, hit_count=outcome.hit_count)
    warnings, task = list(outcome.warnings), arguments.get("task_id")
    sql = workspace.tables.tasks.select(["id"], "WHERE id = ?")
    if task is not None and workspace.database.row(sql, [task]) is None:
        warnings.append(f"there is no task {task}")
    if answer["count"] >= BEST_LEARNINGS:
        warnings.append(
            f"{answer['count']} learnings are many: readers see the best {BEST_LEARNINGS}"
        )
    return {**answer, "warnings": warnings} if warnings else answer


@writing
def add_feature_context_file(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Register a file on a feature, once (SPEC-070, category 3).

    Raises `ToolError` for a path outside the project, at 100 files, and where the stored list
    cannot be read.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    refuse_unknown(workspace.database, features, name, "feature")
    path = checked_path(arguments["file_path"], "file_path")
    stored = decode_strings(_exact(workspace, "context_files", name))
    if not stored.readable:
        raise ToolError(_unreadable("context_files", name))
    files = list(stored.values)
    added = path not in {normalise(file) for file in files}
    if added and len(files) >= MOST_FILES:
        raise ToolError(
            f"the feature {shortened(name)} has {len(files)} context files, the "
            f"maximum is {MOST_FILES}"
        )
    if added:
        values = {"context_files": encode([*files, path])}
        features.update(workspace.database, "name", name, values)
    answer = {"added": added, "path": path, "count": len(files) + added, "limit": MOST_FILES}
    warnings = path_warnings(workspace.work_tree, path)
    return {**answer, "warnings": warnings} if warnings else answer


def learnings_of(workspace: Workspace, name: str, most: int = BEST_LEARNINGS) -> dict[str, Any]:
    """Return the best learnings of a feature and how many there are; as stored where unreadable."""
    features = workspace.tables.features
    if "learnings" not in features:
        return {}
    from .learnings import best, decode

    rows = workspace.database.rows(features.select(["learnings"], "WHERE name = ?"), [name])
    stored = decode(rows[0][0])
    if not stored.readable:
        return {"unreadable": {"learnings": plain(rows[0][0])}}
    return {"learnings": best(stored.values, most), "learnings_total": len(stored.values)}


def mentions(workspace: Workspace, task: int) -> list[str]:
    """Return the features that have a learning from this task."""
    features = workspace.tables.features
    if "learnings" not in features:
        return []
    from .learnings import decode

    by_name = workspace.database.sql.ordered("name")
    sql = features.select(
        ["name", "learnings"], f"WHERE CAST(learnings AS TEXT) LIKE ? ORDER BY {by_name}"
    )
    return [
        f'a learning of the feature "{plain(name)}"'
        for name, text in workspace.database.rows(sql, [f"%task_id%{task}%"])
        if any(learning.get("task_id") == task for learning in decode(text).values)
    ]


def _naming(workspace: Workspace, name: str) -> list[str]:
    """Return the other features that list this one among their dependencies."""
    features = workspace.tables.features
    if "dependencies" not in features:
        return []
    by_name = workspace.database.sql.ordered("name")
    rows = workspace.database.rows(features.select(["name", "dependencies"], f"ORDER BY {by_name}"))
    return [
        f'"dependencies" of the feature "{plain(other)}"'
        for other, stored in rows
        if other != name and name in decode_strings(stored).values
    ]


def _refuse_too_many_files(arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for a list of context files that is longer than there can be."""
    count = len(arguments.get("context_files", ()))
    if count > MOST_FILES:
        raise ToolError(f'"context_files" has {count} files, the maximum is {MOST_FILES}')


def _exact(workspace: Workspace, column: str, name: str) -> str | None:
    """Return a column's exact text; raises `ToolError` where its bytes are no UTF-8."""
    table = workspace.tables.features.quoted
    sql = f"SELECT {workspace.database.sql.exact(column)} FROM {table} WHERE name = ?"
    raw = workspace.database.rows(sql, [name])[0][0]
    try:
        return None if raw is None else str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(_unreadable(column, name)) from error


def _unreadable(column: str, name: str) -> str:
    return (
        f'"{column}" of the feature {shortened(name)} is not a list, and adding to it would '
        "lose its content: ask the user to fix it"
    )


def _rewritten(text: object, read: Sequence[object], kept: Sequence[object]) -> str:
    """Return the list to store; learnings that stay the same also keep their spelling."""
    written = decode_list(text).values
    before = [
        old if new is same else new for old, same, new in zip(written, read, kept, strict=False)
    ]
    return encode([*before, *kept[len(before) :]])
