"""What is on record of one task: what was changed of it, by whom, and what was proved."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ralphgen.board.stored_text import line, paragraph
from ralphgen.kits.ralph.rows import Rows
from ralphgen.ledger.record import (
    CheckRecord,
    JournalEntry,
    changes_counted,
    changes_of,
    runs_counted,
    runs_of,
)
from ralphgen.runtime.tasks.proof import IMPORTED, OVERRULED, RESTORED

Shown = TypeVar("Shown")
Hidden = Callable[[str, str], bool]
"""Returns whether the config hides a column of a table."""
HIDDEN = "(hidden)"
FILES = 20
TAIL = 4_000
LONGEST_VALUE = 300
LARGEST_ID = 2**63 - 1
WITHOUT_CHECK = {
    OVERRULED: "closed by the user without proof",
    IMPORTED: "imported as done",
    RESTORED: "restored as done by an undo",
}
"""Evidence that is the user's word."""


@dataclass(frozen=True, slots=True)
class ShownPage(Generic[Shown]):
    """Some of `total` rows; `newer` and `older` are the numbers of pages, 0 where there is none."""

    total: int
    first: int
    rows: tuple[Shown, ...]
    newer: int
    older: int


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """A column of a changed row; a text is empty where it held nothing, or was not there."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A changed row: `what` is made, changed or deleted, `where` its table and key."""

    number: int
    time: str
    session: str
    tool: str
    what: str
    where: str
    columns: tuple[ChangedColumn, ...]


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run of a check; `verdict` says how it ended, and `ok` whether that is a proof."""

    number: int
    check: str
    ok: bool
    verdict: str
    session: str
    started: str
    seconds: float
    protected: tuple[str, ...]
    watched: tuple[str, ...]
    tail: str


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What is on record of a task; `known` is whether there is such a task now."""

    task: int
    title: str
    known: bool
    changes: ShownPage[ChangeLine]
    runs_total: int
    runs: tuple[RunLine, ...]


def typed_task(typed: str) -> int | None:
    """Return the id of a task as somebody types it; None for what is none."""
    digits = typed.strip().removeprefix("#")
    is_id = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST_ID))
    return int(digits) if is_id and int(digits) <= LARGEST_ID else None


def task_record(
    rows: Rows, is_hidden: Hidden, task: int, page: int, size: int, runs: int
) -> TaskRecord:
    """Return what is on record of a task: a page of so many changes, and its newest runs.

    Of columns that are hidden only the names are told.
    """
    titles, comments = titles_of(rows, [task]), _comments_on(rows, task)
    total = changes_counted(rows, task, comments)
    number = page_number(page, total, size)
    read = changes_of(rows, task, comments, size, (number - 1) * size)
    return TaskRecord(
        task=task,
        title=titles.get(task, ""),
        known=task in titles,
        changes=page_of(number, total, size, tuple(change_line(one, is_hidden) for one in read)),
        runs_total=runs_counted(rows, task),
        runs=tuple(map(run_line, runs_of(rows, task, runs))),
    )


def page_number(asked: int, total: int, size: int) -> int:
    """Return the number of a page that there is."""
    return max(1, min(asked, -(-total // size)))


def page_of(number: int, total: int, size: int, shown: tuple[Shown, ...]) -> ShownPage[Shown]:
    """Return a page of so many rows; it holds those that are `shown`."""
    return ShownPage(
        total=total,
        first=(number - 1) * size + 1,
        rows=shown,
        newer=number - 1,
        older=number + 1 if number * size < total else 0,
    )


def titles_of(rows: Rows, tasks: Sequence[int]) -> dict[int, str]:
    """Return the titles of the tasks that there are, by id."""
    if not tasks or rows.lacks("tasks", "id", "title"):
        return {}
    read = rows.named("tasks", ["id", "title"], json.dumps(tasks))
    return {task: line(title) for task, title in read}


def _comments_on(rows: Rows, task: int) -> list[int]:
    """Return the ids of the comments on a task."""
    if rows.lacks("task_comments", "id", "task_id"):
        return []
    found = rows.read("task_comments", ["id"], "WHERE task_id = ?", task)
    return [comment for (comment,) in found if isinstance(comment, int)]


def change_line(change: JournalEntry, is_hidden: Hidden) -> ChangeLine:
    """Return a change as it is shown; of columns that are hidden only the names are told."""
    before, after = (
        {
            name: HIDDEN if is_hidden(change.table, name) else value
            for name, value in _columns(side).items()
        }
        for side in (change.before, change.after)
    )
    what = "changed"
    if change.before is None or change.after is None:
        what = "made" if change.before is None else "deleted"
    return ChangeLine(
        number=change.number,
        time=line(change.time),
        session=line(change.session),
        tool=line(change.tool),
        what=what,
        where=f"{line(change.table)} {line(change.key)}",
        columns=tuple(
            ChangedColumn(line(name), _value(before.get(name)), _value(after.get(name)))
            for name in dict.fromkeys([*before, *after])
        ),
    )


def _columns(stored: str | None) -> Mapping[str, object]:
    """Return the columns of one side of a change; what is no such JSON is shown as it is."""
    if stored is None:
        return {}
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"": stored}


def _value(value: object) -> str:
    if value is None:
        return ""
    return paragraph(value if isinstance(value, str) else json.dumps(value), LONGEST_VALUE)


def run_line(run: CheckRecord) -> RunLine:
    """Return a run of a check as it is shown."""
    protected, watched = tuple(_files(run.protected)), tuple(_files(run.watched))
    verdict = "passed" if run.exit_code == 0 else f"exit code {run.exit_code}"
    if run.exit_code is None:
        verdict = WITHOUT_CHECK.get(run.check, "stopped")
    return RunLine(
        number=run.number,
        check="" if run.check in WITHOUT_CHECK else line(run.check),
        ok=run.exit_code == 0 and not protected,
        verdict=verdict,
        session=line(run.session),
        started=line(run.started),
        seconds=run.seconds,
        protected=protected,
        watched=watched,
        tail=paragraph(run.tail, TAIL),
    )


def _files(stored: str) -> Iterator[str]:
    """Yield the names of files in a JSON list, the first of many."""
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = [stored]
    listed = found if isinstance(found, list) else [found]
    yield from (line(name) for name in listed[:FILES])
    if listed[FILES:]:
        yield f"{len(listed) - FILES} more"
