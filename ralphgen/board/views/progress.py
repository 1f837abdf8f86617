"""How far the project has come: tasks by feature and by status."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.board.views.stored_text import line, natural
from ralphgen.kits.ralph.rows import NOT_ACTIONABLE, STATUSES, Rows

FEATURES = 200
STATUS_NAMES = 30
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by status: `by_status` has a number for each of the statuses of the whole progress.

    `actionable` are all but drafts and skipped ones, and `percent` is the whole part of what is
    done of those.
    """

    total: int
    actionable: int
    done: int
    percent: int
    by_status: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeatureProgress:
    """A feature and its tasks; `known` is whether it has a row of its own."""

    name: str
    display_name: str
    known: bool
    counts: Counts


@dataclass(frozen=True, slots=True)
class Progress:
    """The tasks of all features; `statuses` are the columns, the known ones in their usual order.

    Where there are too many features, the first are shown and `features_left_out` counts the rest;
    of too many statuses, the rarest are one, `"others"`.
    """

    statuses: tuple[str, ...]
    overall: Counts
    features: tuple[FeatureProgress, ...]
    features_left_out: int


def progress(rows: Rows, counts: Mapping[tuple[Any, Any], int]) -> Progress:
    """The progress of every feature, those without tasks too, by the names that people see.

    `counts` are tasks by feature and status, as they are stored.
    """
    by_feature: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for (feature, stored), count in counts.items():
        tasks, status = by_feature.setdefault(line(feature), {}), line(stored)
        tasks[status] = tasks.get(status, 0) + count
        overall[status] = overall.get(status, 0) + count
    names = _display_names(rows)
    statuses = _statuses(overall)
    listed = sorted(
        {*by_feature, *names}, key=lambda name: (natural(names.get(name) or name), name)
    )
    features = tuple(
        FeatureProgress(
            name=name,
            display_name=names.get(name, name),
            known=name in names,
            counts=_counts(by_feature.get(name, {}), statuses),
        )
        for name in listed[:FEATURES]
    )
    left_out = max(0, len(listed) - FEATURES)
    return Progress(statuses, _counts(overall, statuses), features, left_out)


def _display_names(rows: Rows) -> dict[str, str]:
    columns = ["name", *rows.chosen("features", "display_name")]
    found = {line(row[0]): line(row[-1]) for row in rows.read("features", columns)}
    return {name: shown.strip() or name for name, shown in found.items()}


def _statuses(overall: Mapping[str, int]) -> tuple[str, ...]:
    """Those that there are: the known ones in their order, then others by name."""
    known = [status for status in STATUSES if status in overall]
    others = sorted(set(overall) - {*known}, key=lambda status: (-overall[status], status))
    if len(others) > STATUS_NAMES:
        return (*known, *sorted(others[:STATUS_NAMES]), OTHERS)
    return (*known, *sorted(others))


def _counts(by_status: Mapping[str, int], statuses: tuple[str, ...]) -> Counts:
    total, done = sum(by_status.values()), by_status.get("done", 0)
    actionable = total - sum(by_status.get(status, 0) for status in NOT_ACTIONABLE)
    counted = [by_status.get(status, 0) for status in statuses]
    if statuses and statuses[-1] == OTHERS:
        counted[-1] = total - sum(counted[:-1])
    percent = done * 100 // actionable if actionable else 0
    return Counts(total, actionable, done, percent, tuple(counted))
