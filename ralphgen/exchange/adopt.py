"""Imports the tasks of another tool into the project, each of them once."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ralphgen.errors import Problem, ProjectError, Say, plain, suggestion
from ralphgen.exchange.merge import MergedRows, RowEdit
from ralphgen.exchange.move import import_planned
from ralphgen.exchange.peers import (
    PeerRecords,
    PeerTask,
    Reader,
    read_backlog,
    read_beads,
    read_spec_kit,
    read_task_master,
)
from ralphgen.exchange.rows import Own, Row, Value, refusal_of, report_left_out
from ralphgen.project.model import Schema
from ralphgen.runtime.tasks import decode_strings, encode
from ralphgen.runtime.tasks.claims import prerequisite_lists

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
    root: Path,
    peer: str,
    path: Path,
    *,
    homes: tuple[str, str],
    dry_run: bool,
    say: Say,
    strict: bool = False,
) -> tuple[RowEdit, ...]:
    """Import the tasks in another tool's file or folder, except those imported before.

    `homes` are the feature and the discipline of the new tasks. The peer's id becomes a tag, such
    as `task-master:master/7`, which identifies the task in the next import. Unreadable records are
    left out and reported. Raises `ProjectError` if none is readable or, with `strict`, if one is
    not, and for a missing feature or discipline; nothing is changed then.
    """
    records = READERS[peer](path)
    left_out = [*map(str, records.left_out)]
    if left_out and not records.tasks:
        raise refusal_of(left_out, "fix these records, or name the format of the file with --from")
    if left_out and strict:
        raise refusal_of(left_out)
    report_left_out(left_out, say)

    def plan(own: Own) -> MergedRows:
        _refuse_unusable(own)
        _require_references(own, homes)
        return _Adoption(peer, records, homes, own).merged()

    return import_planned(root, plan, dry_run=dry_run, say=say)


class _Adoption:
    """The import of a peer's tasks into a project."""

    def __init__(self, peer: str, records: PeerRecords, homes: tuple[str, str], own: Own) -> None:
        self._peer = peer
        self._homes = homes
        self._own = own
        self._rows = {
            number: row
            for (table, number), row in own.rows.items()
            if table == "tasks" and isinstance(number, int)
        }
        beginning = f"{self._peer}:"
        self._ids = {
            tag.removeprefix(beginning): number
            for number, row in self._rows.items()
            for tag in decode_strings(row.get("tags")).values
            if tag.startswith(beginning)
        }
        self._take_promised(records.tasks)
        self._new = [task for task in records.tasks if self._ids.get(task.key) not in self._rows]
        highest = max([self._highest("tasks"), *self._ids.values()])
        # The numbers of missing tasks precede those of new ones, so that no later task gets them.
        self._missing = {*self._excluded_keys(records)}
        missing = [key for key in dict.fromkeys(self._needed_keys()) if key in self._missing]
        fresh = [*missing, *(task.key for task in self._new if task.key not in self._ids)]
        self._ids |= {key: highest + at for at, key in enumerate(fresh, start=1)}
        self._statuses = _values(own.schema, "status")
        self._priorities = _values(own.schema, "priority")
        self._notes = dict(records.notes)

    def merged(self) -> MergedRows:
        """Return the rows to add: the new tasks, and their comments."""
        changes = [
            RowEdit("add", ("tasks", self._ids[task.key]), self._row(task)) for task in self._new
        ]
        comments = [*self._comments()] if "task_comments" in self._own.tables else []
        for number, row in enumerate(comments, start=self._highest("task_comments") + 1):
            changes.append(RowEdit("add", ("task_comments", number), {"id": number, **row}))
        awaited = frozenset(self._ids[key] for key in self._missing if key in self._ids)
        return MergedRows(tuple(changes), notes=tuple(self._notes), awaited=awaited)

    def _take_promised(self, tasks: Sequence[PeerTask]) -> None:
        """Give a formerly missing task the number that earlier imports have reserved for it."""
        for task in tasks:
            row = self._rows.get(self._ids.get(task.key, 0), {})
            numbers = (prerequisite_lists([row.get("depends_on")])[0] if row else None) or []
            if len(numbers) == len(task.depends_on):
                pairs = zip(task.depends_on, numbers, strict=True)
                promised = {key: number for key, number in pairs if number not in self._rows}
                self._ids = {**promised, **self._ids}

    def _excluded_keys(self, records: PeerRecords) -> Iterator[str]:
        """Yield the keys, yet without a number, of records that were left out."""
        keys = [one.key for one in records.left_out]
        known = {*self._ids, *(task.key for task in records.tasks)}
        if not all(keys):  # such a record may be any that tasks wait for
            keys = [*self._needed_keys()]
        yield from (key for key in keys if key and key not in known)

    def _needed_keys(self) -> Iterator[str]:
        for task in self._new:
            yield from task.depends_on

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
                self._notes[
                    f'the project has no column "tasks.{name}"; its values are left out'
                ] = None
        return {name: value for name, value in row.items() if name in columns}

    def _status(self, task: PeerTask) -> str:
        if self._statuses is None or task.status in self._statuses:
            return task.status
        self._notes[f'the project has no status "{task.status}"; its tasks become pending'] = None
        return "pending"

    def _needed(self, task: PeerTask) -> Iterator[int]:
        for key in task.depends_on:
            if key in self._missing:
                said = f'"{plain(task.key)}" waits for missing task {self._ids[key]}'
                self._notes[f'{said} ("{plain(key)}" in the other tool)'] = None
            if key in self._ids:
                yield self._ids[key]
            else:
                note = f'{plain(task.key)} depends on missing "{plain(key)}": left out'
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


def _require_references(own: Own, homes: tuple[str, str]) -> None:
    """Raise `ProjectError` for a feature or a discipline that the project does not have."""
    problems = []
    for table, word, name in zip(
        ("features", "disciplines"), ("feature", "discipline"), homes, strict=True
    ):
        names = [str(key) for of, key in own.rows if of == table]
        if name not in names:
            hint = suggestion(name, names, f"the {table}", f"ralphgen {word} list")
            problems.append(Problem(f'there is no {word} "{plain(name)}"', hint))
    if problems:
        raise ProjectError.of(problems)


def _refuse_unusable(own: Own) -> None:
    """Raise `ProjectError` if the project has no place for tasks and the other tool's ids."""
    if not own.has_tasks:
        raise ProjectError(
            "the project has no tasks, features or disciplines", 'add them with "ralphgen init"'
        )
    if "tags" not in own.tables["tasks"].columns:
        raise ProjectError(
            'the import needs a visible column "tasks.tags" for the ids of the other tool',
            'add it, then run "ralphgen regen"',
        )


def _values(schema: Schema, column: str) -> tuple[str, ...] | None:
    """Return the allowed values of a column of tasks, or None if they are unknown."""
    table = schema.table("tasks")
    columns = table.columns if table is not None else ()
    return next((one.values for one in columns if one.name == column), None)
