"""The project as a whole: title, how far its tasks are, and the entries of its two state files."""

from __future__ import annotations

from ralphgen.runtime.tasks import plain
from ralphgen.runtime.values import MAX_CHARACTERS, PAGE, fitted, shorten_record, size

from .workspace import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace

UNTITLED = "Untitled Project"
INFO = ("project_title", "project_description", "project_created")
LONG_NAME = 100  # characters of a feature's or a status's name
STATUSES = 50  # of one feature
NOT_ACTIONABLE = ("draft", "skipped")
LEARNINGS = "learnings.txt"
PROGRESS = "progress.txt"


@reading
def get_project_info(workspace: Workspace, _: dict[str, Any]) -> dict[str, Any]:
    """Return title, description and creation date (SPEC-070, category 5)."""
    metadata = workspace.tables.metadata
    if metadata is None:
        return {"title": UNTITLED}
    columns = metadata.available_columns(INFO)
    row = workspace.database.row(metadata.select(columns, "ORDER BY id LIMIT 1"))
    record = metadata.decoded(columns, row) if row else {}
    named = {name.removeprefix("project_"): value for name, value in record.items()}
    return fitted({"title": UNTITLED, **named})


@reading
def get_project_progress(workspace: Workspace, _: dict[str, Any]) -> dict[str, Any]:
    """Return tasks by status, in all and by feature (SPEC-070, category 5).

    `actionable` counts all but drafts and skipped ones; `percent` is the whole part of what is
    done of those.
    """
    tasks, own = workspace.tables.tasks, workspace.database.sql
    # By an index on one of the two, each row would be looked up on its own: three times as slow.
    whole = f"SELECT feature, status, COUNT(*) FROM {tasks.quoted} {own.UNINDEXED}"
    order = f"ORDER BY {own.ordered('feature')}, {own.ordered('status')}"
    features: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for *names, count in workspace.database.rows(f"{whole} GROUP BY feature, status {order}"):
        feature, status = (str(plain(name))[:LONG_NAME] for name in names)
        statuses = features.setdefault(feature, {})
        statuses[status] = statuses.get(status, 0) + count
        overall[status] = overall.get(status, 0) + count
    answer: dict[str, Any] = fitted(_counted(overall), MAX_CHARACTERS // 2)
    room = MAX_CHARACTERS - size(answer) - 100
    by_feature: dict[str, Any] = {}
    for feature, counts in features.items():
        counted = shorten_record(_counted(counts), LONG_NAME, STATUSES)
        room -= size({feature: counted})
        if room < 0:
            answer["features_left_out"] = len(features) - len(by_feature)
            break
        by_feature[feature] = counted
    return {**answer, "by_feature": by_feature}


def _counted(by_status: dict[str, int]) -> dict[str, Any]:
    total = sum(by_status.values())
    actionable = total - sum(by_status.get(status, 0) for status in NOT_ACTIONABLE)
    done = by_status.get("done", 0)
    return {
        "total": total,
        "actionable": actionable,
        "done": done,
        "percent": done * 100 // actionable if actionable else 0,
        "by_status": dict(sorted(by_status.items())),
    }


def append_learning(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add an entry to `learnings.txt`, unless it is there (SPEC-070, category 6)."""
    written = _append(workspace, LEARNINGS, arguments, "append_learning", once=True)
    return written if written["bytes_written"] else {**written, "already_there": True}


def append_progress(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add an entry to `progress.txt` (SPEC-070, category 6)."""
    return _append(workspace, PROGRESS, arguments, "append_progress")


def read_learnings(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the newest entries of `learnings.txt` (SPEC-070, category 6)."""
    return _read(workspace, LEARNINGS, arguments)


def read_progress(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the newest entries of `progress.txt` (SPEC-070, category 6)."""
    return _read(workspace, PROGRESS, arguments)


def _append(
    workspace: Workspace, name: str, arguments: dict[str, Any], tool: str, *, once: bool = False
) -> dict[str, Any]:
    from ralphgen.runtime.files.entry_log import entry_of

    session = workspace.session
    task = f"#{session.task}" if session.task is not None else ""
    tag = " ".join(word for word in (session.recipe, task, session.discipline) if word)
    entry = entry_of(tag, arguments["text"])
    append_entry = workspace.database.entries.append_entry
    return {"bytes_written": append_entry(workspace, name, entry, tool, once=once)}


def _read(workspace: Workspace, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    limit, cursor = arguments.get("limit", PAGE), arguments.get("cursor")
    page = workspace.database.entries.read_page(workspace, name, limit, cursor)
    answer = {"text": page.text, "entries": page.entries, "total": page.total}
    return {**answer, "next_cursor": page.next_cursor} if page.next_cursor else answer
