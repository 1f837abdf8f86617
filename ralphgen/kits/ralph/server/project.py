"""The project as a whole: its title, and how far its tasks have come."""

from __future__ import annotations

from ralphgen.runtime.values.paging import MAX_CHARACTERS, fitted, shortened, size

from .tables import plain
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


@reading
def get_project_info(workspace: Workspace, _: dict[str, Any]) -> dict[str, Any]:
    """Return title, description and creation date (SPEC-070, category 5)."""
    metadata = workspace.tables.metadata
    if metadata is None:
        return {"title": UNTITLED}
    columns = metadata.chosen(INFO)
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
    tasks = workspace.tables.tasks
    # By an index on one of the two, each row would be looked up on its own: three times as slow.
    whole = f"SELECT feature, status, COUNT(*) FROM {tasks.quoted} NOT INDEXED"
    features: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for *names, count in workspace.database.rows(f"{whole} GROUP BY feature, status ORDER BY 1, 2"):
        feature, status = (str(plain(name))[:LONG_NAME] for name in names)
        statuses = features.setdefault(feature, {})
        statuses[status] = statuses.get(status, 0) + count
        overall[status] = overall.get(status, 0) + count
    answer: dict[str, Any] = fitted(_counted(overall), MAX_CHARACTERS // 2)
    room = MAX_CHARACTERS - size(answer) - 100
    by_feature: dict[str, Any] = {}
    for feature, counts in features.items():
        counted = shortened(_counted(counts), LONG_NAME, STATUSES)
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
    percent = done * 100 // actionable if actionable else 0
    counts = dict(sorted(by_status.items()))
    return {
        "total": total,
        "actionable": actionable,
        "done": done,
        "percent": percent,
        "by_status": counts,
    }
