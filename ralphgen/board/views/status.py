"""How the project stands: progress, what can be done now, what holds it up, and what was said."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path

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
from ralphgen.board.views.progress import Progress, progress
from ralphgen.board.views.recent import (
    Comments,
    Learnings,
    Notes,
    recent_comments,
    recent_learnings,
    recent_notes,
)
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.project.model import Schema

LISTED = 50
HOLDING_UP = 20
CIRCLES = 10
CIRCLE_IDS = 20


@dataclass(frozen=True, slots=True)
class TaskList:
    """The first tasks of a kind, and how many there are of it."""

    total: int
    tasks: tuple[TaskLine, ...]

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return self.total - len(self.tasks)


@dataclass(frozen=True, slots=True)
class Circle:
    """Tasks that wait for each other and so for ever: the first ids, and how many they are."""

    total: int
    ids: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """How the project stands at one moment.

    `ready` are pending tasks that wait for nothing, by priority and by how many wait for them;
    `blocked` those that are blocked by their status or by words; `in_progress` those that are
    worked on, the longest untouched first; `holding_up` those for which most others wait. `adrift`
    wait for tasks that do not exist, and `unreadable` cannot be told what for. `circles_total`
    counts all circles. `lacks` says what the database has no column for.
    """

    open_total: int
    states: tuple[tuple[str, int], ...]
    progress: Progress
    ready: TaskList
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


def standing(
    connection: sqlite3.Connection, schema: Schema, root: Path, today: date | None = None
) -> Standing:
    """How the project in `root` stands; ages are counted to `today`, the day in UTC by itself.

    However many rows there are, the lists are short and say how much they leave out. Raises
    `ProjectError` where the database is not the project's any more, and what `sqlite3` raises.
    """
    with reading_rows(connection, schema) as rows:
        read = read_tasks(rows)
        tasks = open_tasks(rows, read)
        kinds, most = _kinds(rows, tasks), tasks.waiting.most(NODES)
        drawn, left_out = drawn_tasks(tasks.waiting, most)
        shown = chain(drawn, most[:HOLDING_UP], *(places[:LISTED] for places in kinds.values()))
        lines = task_lines(rows, tasks, shown, today or datetime.now(UTC).date())
        lists = {
            kind: TaskList(len(places), tuple(lines[task] for task in places[:LISTED]))
            for kind, places in kinds.items()
        }
        circles = tasks.waiting.circles
        return Standing(
            open_total=len(tasks.ids),
            states=tuple(sorted(Counter(tasks.states).items())),
            progress=progress(rows, read.counts),
            **lists,
            holding_up=tuple(lines[task] for task in most[:HOLDING_UP]),
            circles=tuple(_circle(tasks, circle) for circle in circles[:CIRCLES]),
            circles_total=len(circles),
            graph=graph(tasks.waiting, {task: lines[task] for task in drawn}, left_out),
            comments=recent_comments(rows),
            learnings=recent_learnings(rows),
            notes=recent_notes(root),
            lacks=tasks.lacks,
        )


def _kinds(rows: Rows, tasks: OpenTasks) -> dict[str, list[int]]:
    """By the name of a list, the tasks that belong to it, by their places and in its order."""
    held_up = tasks.waiting.held_up
    return {
        "ready": sorted(
            tasks.of(READY), key=lambda task: (tasks.urgencies[task], -held_up(task), task)
        ),
        "in_progress": last_changed(rows, tasks, IN_PROGRESS),
        "blocked": sorted(tasks.of(BLOCKED), key=lambda task: (-held_up(task), task)),
        "adrift": sorted(tasks.missing),
        "unreadable": list(tasks.unreadable),
    }


def _circle(tasks: OpenTasks, circle: Sequence[int]) -> Circle:
    ids = tuple(shown_id(tasks.ids[task]) for task in circle[:CIRCLE_IDS])
    return Circle(len(circle), ids)
