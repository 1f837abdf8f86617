"""How the project stands: progress, tasks that can be done, tasks that wait, newest notes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from ralphgen.board.claims import Hold, keeps_claims
from ralphgen.board.stored_text import line, natural
from ralphgen.board.views.graph import NODES, Graph, drawn_tasks, graph
from ralphgen.board.views.open_tasks import (
    BLOCKED,
    IN_PROGRESS,
    READY,
    OpenTasks,
    TaskLine,
    last_changed,
    open_tasks,
    read_tasks,
    shown_id,
    task_lines,
)
from ralphgen.board.views.recent import (
    Comments,
    Learnings,
    Notes,
    recent_comments,
    recent_learnings,
    recent_notes,
)
from ralphgen.kits.ralph.rows import NOT_ACTIONABLE, Rows, reading_rows
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.runtime.tasks.rows import STATUSES

LISTED = 50
HOLDING_UP = 20
CIRCLES = 10
CIRCLE_IDS = 20
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


@dataclass(frozen=True, slots=True)
class TaskList:
    """The first tasks of a kind, and how many there are of it."""

    total: int
    tasks: tuple[TaskLine, ...]

    @property
    def left_out(self) -> int:
        """Return the number of those not shown."""
        return self.total - len(self.tasks)


@dataclass(frozen=True, slots=True)
class Circle:
    """Tasks that wait for each other and so for ever: the first ids, and how many they are."""

    total: int
    ids: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """How the project stands at one moment.

    `ready` are pending tasks that wait for nothing and that nobody holds, by priority and by how
    many wait for them; `held` those that a session holds, `stale` those that one has left in
    progress, and `claims` whether the database tells. `blocked` are those that are blocked by their
    status or by words; `in_progress` those that are worked on, the longest untouched first;
    `holding_up` those for which most others wait. `adrift` wait for tasks that do not exist, and
    `unreadable` cannot be told what for. Of many open tasks only the first, `looked_at` of
    `open_total`, are told of in all this; the progress is that of all. `circles_total` counts all
    circles. `lacks` says what the database has no column for.
    """

    open_total: int
    looked_at: int
    states: tuple[tuple[str, int], ...]
    progress: Progress
    claims: bool
    ready: TaskList
    held: TaskList
    stale: TaskList
    in_progress: TaskList
    blocked: TaskList
    holding_up: tuple[TaskLine, ...]
    adrift: TaskList
    unreadable: TaskList
    circles: tuple[Circle, ...]
    circles_total: int
    graph: Graph
    comments: Comments
    learnings: Learnings
    notes: tuple[Notes, ...]
    lacks: str


def project_status(
    connection: Snapshot,
    schema: Schema,
    root: Path,
    today: date | None = None,
    *,
    claims: bool = True,
) -> Status:
    """Return the status of the project in `root`; ages count to `today`, by default that of UTC.

    With a day of its own, claims are judged by their leases alone; without `claims` there are none,
    and so it says the same at every moment.
    However many rows there are, the lists are short and say how much they leave out. Raises
    `ProjectError` where the database is not the project's any more.
    """
    rows = reading_rows(connection, schema)
    read = read_tasks(rows)
    tasks = open_tasks(rows, read, anywhere=today is not None)
    if not claims:
        tasks = replace(tasks, holds={})
    kinds, most = _kinds(rows, tasks), tasks.waiting.most(NODES)
    drawn, left_out = drawn_tasks(tasks.waiting, most)
    shown = chain(drawn, most[:HOLDING_UP], *(places[:LISTED] for places in kinds.values()))
    lines = task_lines(rows, tasks, shown, today or datetime.now(UTC).date())
    lists = {
        kind: TaskList(len(places), tuple(lines[task] for task in places[:LISTED]))
        for kind, places in kinds.items()
    }
    circles = tasks.waiting.circles
    return Status(
        open_total=read.open_total,
        looked_at=len(tasks.ids),
        states=tuple(sorted(Counter(tasks.states).items())),
        progress=_progress(rows, read.counts),
        claims=claims and keeps_claims(rows.connection),
        **lists,
        holding_up=tuple(lines[task] for task in most[:HOLDING_UP]),
        circles=tuple(
            Circle(len(circle), tuple(shown_id(tasks.ids[one]) for one in circle[:CIRCLE_IDS]))
            for circle in circles[:CIRCLES]
        ),
        circles_total=len(circles),
        graph=graph(tasks.waiting, {task: lines[task] for task in drawn}, left_out),
        comments=recent_comments(rows),
        learnings=recent_learnings(rows),
        notes=recent_notes(root, rows),
        lacks=tasks.lacks,
    )


def _kinds(rows: Rows, tasks: OpenTasks) -> dict[str, list[int]]:
    """Return the tasks of each list by its name, as places in its order."""
    held_up = tasks.waiting.held_up
    holds = _holds(tasks)
    held = [task for task, hold in holds.items() if hold.live]
    ready = {*tasks.of(READY)}.difference(held)
    return {
        "ready": sorted(ready, key=lambda task: (tasks.urgencies[task], -held_up(task), task)),
        "held": held,
        "stale": [task for task, hold in holds.items() if not hold.live],
        "in_progress": last_changed(rows, tasks, IN_PROGRESS),
        "blocked": sorted(tasks.of(BLOCKED), key=lambda task: (-held_up(task), task)),
        "adrift": sorted(tasks.missing),
        "unreadable": list(tasks.unreadable),
    }


def _holds(tasks: OpenTasks) -> dict[int, Hold]:
    """Return the claims that say something of a task, by its place."""
    claimed = [task for task, one in enumerate(tasks.ids) if one in tasks.holds]
    return {task: hold for task in claimed for hold in [tasks.hold(task)] if hold is not None}


def _progress(rows: Rows, counts: Mapping[tuple[Any, Any], int]) -> Progress:
    """Return the progress of every feature, those without tasks too, by the names that people see.

    `counts` are tasks by feature and status, as they are stored.
    """
    by_feature: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for (feature, stored), count in counts.items():
        tasks, status = by_feature.setdefault(line(feature), {}), line(stored)
        tasks[status] = tasks.get(status, 0) + count
        overall[status] = overall.get(status, 0) + count
    columns = ["name", *rows.chosen("features", "display_name")]
    shown = {line(row[0]): line(row[-1]).strip() for row in rows.read("features", columns)}
    names = {name: display_name or name for name, display_name in shown.items()}
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


def _statuses(overall: Mapping[str, int]) -> tuple[str, ...]:
    """Return the statuses in use: the known ones in their order, then others by name."""
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
