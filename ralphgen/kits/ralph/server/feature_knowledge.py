"""What a feature gathers over time: learnings, and files that are worth reading."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened

from .changes import checked_path, path_warnings, refuse_blank
from .dates import now_offset
from .json_columns import decode_list, decode_strings, encode
from .paths import normalise
from .tables import plain
from .workspace import writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .workspace import Workspace

SHOWN = 50  # learnings of a feature in one answer, and the number from which on we warn
FILES = 100  # context files of a feature


@writing
def append_feature_learning(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a learning, or count one more hit of the same (SPEC-070, category 3).

    Answers `outcome` (added, duplicate, conflict), the older learning that it met, and the count.
    Raises `ToolError` where the stored list cannot be read: it would be lost.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    workspace.known(features, name, "feature")
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
    warnings = [*outcome.warnings, *_missing_task(workspace, arguments.get("task_id"))]
    return {**answer, **_warnings(warnings, answer["count"])}


@writing
def add_feature_context_file(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Register a file on a feature, once (SPEC-070, category 3).

    Raises `ToolError` for a path outside the project, at 100 files, and where the stored list
    cannot be read.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    workspace.known(features, name, "feature")
    path = checked_path(arguments["file_path"], "file_path")
    stored = decode_strings(_exact(workspace, "context_files", name))
    if not stored.readable:
        raise ToolError(_unreadable("context_files", name))
    files = list(stored.values)
    added = path not in {normalise(file) for file in files}
    if added and len(files) >= FILES:
        raise ToolError(
            f"the feature {shortened(name)} has {len(files)} context files, and {FILES} are the "
            "most there can be"
        )
    if added:
        values = {"context_files": encode([*files, path])}
        features.update(workspace.database, "name", name, values)
    answer = {"added": added, "path": path, "count": len(files) + added, "limit": FILES}
    warnings = path_warnings(workspace, path)
    return {**answer, "warnings": warnings} if warnings else answer


def refuse_too_many_files(arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for a list of context files that is longer than there can be."""
    count = len(arguments.get("context_files", ()))
    if count > FILES:
        raise ToolError(f'"context_files" has {count} files, and {FILES} are the most there can be')


def shown(workspace: Workspace, name: str) -> dict[str, Any]:
    """The best learnings of a feature and how many there are; as stored where unreadable."""
    features = workspace.tables.features
    if "learnings" not in features:
        return {}
    from .learnings import best, decode

    rows = workspace.database.rows(features.select(["learnings"], "WHERE name = ?"), [name])
    stored = decode(rows[0][0])
    if not stored.readable:
        return {"unreadable": {"learnings": plain(rows[0][0])}}
    return {"learnings": best(stored.values, SHOWN), "learnings_total": len(stored.values)}


def mentions(workspace: Workspace, task: int) -> list[str]:
    """The features that have a learning from this task."""
    features = workspace.tables.features
    if "learnings" not in features:
        return []
    from .learnings import decode

    sql = features.select(["name", "learnings"], "WHERE learnings LIKE ? ORDER BY name")
    return [
        f'a learning of the feature "{plain(name)}"'
        for name, text in workspace.database.rows(sql, [f"%task_id%{task}%"])
        if any(learning.get("task_id") == task for learning in decode(text).values)
    ]


def _exact(workspace: Workspace, column: str, name: str) -> str | None:
    """A column's text, to be written back; raises `ToolError` where its bytes are no UTF-8."""
    table = workspace.tables.features.quoted
    sql = f"SELECT CAST({column} AS BLOB) FROM {table} WHERE name = ?"
    raw = workspace.database.rows(sql, [name])[0][0]
    try:
        return None if raw is None else str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(_unreadable(column, name)) from error


def _unreadable(column: str, name: str) -> str:
    return (
        f'"{column}" of the feature {shortened(name)} cannot be read as a list, and adding to it '
        "would lose what is there: a person has to mend it first"
    )


def _rewritten(text: object, read: Sequence[object], kept: Sequence[object]) -> str:
    """The list to store: those learnings that stay as they are, also as they were written."""
    written = decode_list(text).values
    before = [
        old if new is same else new for old, same, new in zip(written, read, kept, strict=False)
    ]
    return encode([*before, *kept[len(before) :]])


def _missing_task(workspace: Workspace, task: int | None) -> list[str]:
    sql = workspace.tables.tasks.select(["id"], "WHERE id = ?")
    gone = task is not None and workspace.database.row(sql, [task]) is None
    return [f"there is no task {task}"] if gone else []


def _warnings(warnings: list[str], count: int) -> dict[str, Any]:
    if count >= SHOWN:
        warnings = [*warnings, f"{count} learnings are many: readers see the best {SHOWN}"]
    return {"warnings": warnings} if warnings else {}
