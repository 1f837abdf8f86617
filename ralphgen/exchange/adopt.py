"""Makes tasks of the project of those of another tool, each of them once."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ralphgen.errors import Problem, ProjectError, Say, plain
from ralphgen.exchange.merge import MergedRows, RowEdit
from ralphgen.exchange.move import import_planned
from ralphgen.exchange.own import Own
from ralphgen.exchange.peers.backlog import read_backlog
from ralphgen.exchange.peers.beads import read_beads
from ralphgen.exchange.peers.model import PeerTask, Reader
from ralphgen.exchange.peers.spec_kit import read_spec_kit
from ralphgen.exchange.peers.task_master import read_task_master
from ralphgen.exchange.tables import Row, Value
from ralphgen.kits.ralph.rows import decode_strings, encode
from ralphgen.project.model import Schema
from ralphgen.suggestion import suggestion

READERS: Mapping[str, Reader] = {
    "task-master": read_task_master,
    "beads": read_beads,
    "backlog": read_backlog,
    "spec-kit": read_spec_kit,
}
DAYS = ("created", "updated", "completed")
TEXTS = ("description", "priority", "hints", "blocked_by", *DAYS)
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
LISTS = ("acceptance_criteria", "context_files")


def import_tasks(
    root: Path, peer: str, path: Path, *, homes: tuple[str, str], dry_run: bool, say: Say
) -> tuple[RowEdit, ...]:
    """Make tasks of those in another tool's file or folder, but of those that were made before.

    `homes` are the feature and the discipline that they belong to. The peer's id becomes a tag,
    `task-master:master/7`, by which a task is known the next time. Raises `ProjectError` where a
    file, a name or a dependency is not as it must be; nothing is changed then.
    """
    tasks = READERS[peer](path)

    def plan(own: Own) -> MergedRows:
        _refuse_unusable(tasks, own, path)
        _refuse_missing(own, homes)
        return _Adoption(peer, tasks, homes, own).merged()

    return import_planned(root, plan, dry_run=dry_run, say=say)


class _Adoption:
    """What becomes of a peer's tasks in a project as it is."""

    def __init__(
        self, peer: str, tasks: Sequence[PeerTask], homes: tuple[str, str], own: Own
    ) -> None:
        self._peer = peer
        self._tasks = tasks
        self._homes = homes
        self._own = own
        self._ids = self._known()
        self._new = [task for task in tasks if task.key not in self._ids]
        highest = self._highest("tasks")
        self._ids |= {task.key: highest + at for at, task in enumerate(self._new, start=1)}
        self._statuses = _values(own.schema, "status")
        self._priorities = _values(own.schema, "priority")
        self._notes: dict[str, None] = {}

    def merged(self) -> MergedRows:
        """Return the rows to add: the tasks that are new, and what was said of them."""
        changes = [
            RowEdit("add", ("tasks", self._ids[task.key]), self._row(task)) for task in self._new
        ]
        comments = [*self._comments()] if "task_comments" in self._own.tables else []
        for number, row in enumerate(comments, start=self._highest("task_comments") + 1):
            changes.append(RowEdit("add", ("task_comments", number), {"id": number, **row}))
        return MergedRows(tuple(changes), notes=tuple(self._notes))

    def _known(self) -> dict[str, int]:
        """Return the tasks that were made of the peer's before, by its ids."""
        beginning = f"{self._peer}:"
        return {
            tag.removeprefix(beginning): number
            for (table, number), row in self._own.rows.items()
            if table == "tasks" and isinstance(number, int)
            for tag in decode_strings(row.get("tags")).values
            if tag.startswith(beginning)
        }

    def _highest(self, table: str) -> int:
        numbers = [key[1] for key in self._own.rows if key[0] == table and isinstance(key[1], int)]
        return max(numbers, default=0)

    def _row(self, task: PeerTask) -> Row:
        feature, discipline = self._homes
        tags = [*task.tags, f"{self._peer}:{task.key}"]
        row: dict[str, Value] = {
            "id": self._ids[task.key],
            "feature": feature,
            "discipline": discipline,
            "title": " ".join(task.title.split()),
            "status": self._status(task),
            "tags": encode(tags),
            "depends_on": encode([*self._needed(task)]),
        }
        row |= {name: encode(getattr(task, name)) for name in LISTS if getattr(task, name)}
        row |= {name: getattr(task, name) for name in TEXTS if getattr(task, name)}
        for name in DAYS:
            if not re.fullmatch(_DAY, str(row.get(name, ""))):
                row.pop(name, None)
        row.setdefault("created", time.strftime("%Y-%m-%d", time.gmtime()))
        if self._priorities and row.get("priority") not in self._priorities:
            row.pop("priority", None)
        columns = self._own.tables["tasks"].columns
        for name in row:
            if name not in columns and row[name] != "[]":
                self._notes[f'the project has no column "tasks.{name}": it is left out'] = None
        return {name: value for name, value in row.items() if name in columns}

    def _status(self, task: PeerTask) -> str:
        if self._statuses is None or task.status in self._statuses:
            return task.status
        self._notes[f'the project has no status "{task.status}": such tasks are pending'] = None
        return "pending"

    def _needed(self, task: PeerTask) -> Iterator[int]:
        for key in task.depends_on:
            if key in self._ids:
                yield self._ids[key]
            else:
                note = f'{plain(task.key)} depends on "{plain(key)}", which is not there: left out'
                self._notes[note] = None

    def _comments(self) -> Iterator[Row]:
        columns = self._own.tables["task_comments"].columns
        for task in self._new:
            for comment in task.comments:
                row: dict[str, Value] = {
                    "task_id": self._ids[task.key],
                    "author": plain(comment.author) or self._peer,
                    "body": comment.body,
                    "created": comment.created or None,
                }
                yield {name: value for name, value in row.items() if name in columns}


def _refuse_missing(own: Own, homes: tuple[str, str]) -> None:
    """Raise `ProjectError` for a feature or a discipline that the project does not have."""
    problems = []
    for table, word, name in zip(
        ("features", "disciplines"), ("feature", "discipline"), homes, strict=True
    ):
        names = [str(key) for of, key in own.rows if of == table]
        if name not in names:
            hint = suggestion(name, names, f"the {table}")
            problems.append(Problem(f'there is no {word} "{plain(name)}"', hint))
    if problems:
        raise ProjectError.of(problems)


def _refuse_unusable(tasks: Sequence[PeerTask], own: Own, path: Path) -> None:
    """Raise `ProjectError` for tasks that have no title, and where their ids cannot be kept."""
    if not own.has_tasks:
        raise ProjectError("the project has no tasks, features and disciplines", "make them first")
    if "tags" not in own.tables["tasks"].columns:
        raise ProjectError(
            'the project has no visible column "tasks.tags", where the other tool\'s ids are kept',
            "add it, and run ralphgen regen",
        )
    untitled = [task.key for task in tasks if not task.title.strip()]
    if untitled:
        raise ProjectError.of(
            [Problem(f'{path}: "{key}" has no title', "give it one there") for key in untitled[:20]]
        )


def _values(schema: Schema, column: str) -> tuple[str, ...] | None:
    """Return the values that a column of tasks may have, None where it is not said."""
    table = schema.table("tasks")
    columns = table.columns if table is not None else ()
    return next((one.values for one in columns if one.name == column), None)
