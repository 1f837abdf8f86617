"""The ledger on the board: the changes, runs and sessions of a project and of a task."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from ralphgen.board.text import line, moment, paragraph
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import (
    CheckRecord,
    JournalEntry,
    SessionRecord,
    changes_counted,
    changes_of,
    every_change_counted,
    holding_sessions,
    newest_changes,
    newest_sessions,
    outcomes,
    people_counted,
    runs_counted,
    runs_of,
)
from ralphgen.ledger.tables import state_of
from ralphgen.loop.cost import cost_words, session_cost
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.runtime.tasks.status import IMPORTED, OVERRULED, RESTORED
from ralphgen.sessions.store import age_words

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
    """A column of a changed row; a text is empty for an empty or missing value."""

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
    """A run of a check; `verdict` is its result, and `ok` whether it is a proof."""

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
    """The record of a task; `known` is whether the task still exists."""

    task: int
    title: str
    known: bool
    changes: ShownPage[ChangeLine]
    runs_total: int
    runs: tuple[RunLine, ...]


def typed_task(typed: str) -> int | None:
    """Return the task id in a user's input, or None if it is not one."""
    digits = typed.strip().removeprefix("#")
    is_id = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST_ID))
    return int(digits) if is_id and int(digits) <= LARGEST_ID else None


def task_record(
    rows: Rows, is_hidden: Hidden, task: int, page: int, size: int, runs: int
) -> TaskRecord:
    """Return the record of a task: a page of its changes, and its newest runs.

    Of hidden columns only the names are shown.
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
    """Return a page of `size` rows that contains the `shown` ones."""
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
    """Return a displayed change; of hidden columns only the names are shown."""
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
    """Return the columns of one side of a change; other text is shown literally."""
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
    """Return a displayed run of a check."""
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


A_PAGE = 25
"""Sessions, and changes of a task, on a page."""
RUNS = 20
REPORTED = 10
"""Changes and runs of checks of each task in a report."""
REPORTED_SESSIONS, REPORTED_TASKS = 200, 20
LAST_CHANGED = (
    "SELECT row_key FROM (SELECT row_key, number FROM ralphgen_journal "
    "WHERE lower(table_name) = 'tasks' ORDER BY number DESC LIMIT 1000) AS newest "
    "GROUP BY row_key ORDER BY MAX(number) DESC LIMIT ?"
)
TREES = "/.ralph/worktrees/"
COMMIT = 10  # digits to show
TONES: Mapping[str | None, str] = {
    "done": "visible",
    "blocked": "narrowed",
    "skipped": "narrowed",
    "open": "narrowed",
    "failed": "removed",
    "stopped": "removed",
}
"""How an outcome is coloured; the word says the same."""
DONE = "done"
GOES_ON = "not ended"


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """The query of the record: `task` as it was typed, "" for none; pages count from 1."""

    task: str = ""
    sessions: int = 1
    changes: int = 1


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A recorded session; unknown values are empty.

    `took` is its duration, `outcome` its result. `merge` is the location of its work, if it had its
    own worktree.
    """

    session_id: str
    recipe: str
    discipline: str
    task: int | None
    title: str
    feature: str
    agent: str
    model: str
    started: str
    took: str
    outcome: str
    tone: str
    turns: int | None
    tokens: str
    cost: str
    worktree: str
    merge: str


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """The record of a project; `outcomes` counts its sessions, the most frequent first.

    These are agents' sessions, and `people` counts the others. `cost` is the sum of the reported
    costs, or empty. `tasks` are the requested ones, and `problem` is why there is none. `log` are
    the last changes if the project has no tasks.
    """

    sessions: ShownPage[RecordedSession]
    people: int
    outcomes: tuple[tuple[str, int], ...]
    cost: str
    tasks: tuple[TaskRecord, ...]
    problem: str
    log: ShownPage[ChangeLine] | None = None


def project_record(
    connection: Snapshot, schema: Schema, asked: RecordQuery
) -> ProjectRecord | None:
    """Return the record of a project, or None if its database has no ledger.

    Raises `ProjectError` if this version does not support the ledger or the database.
    """
    if state_of(connection).version is None:
        return None
    task, tasks, problem = typed_task(asked.task), tuple[TaskRecord, ...](), ""
    rows = reading_rows(connection, schema)
    if task is not None:
        tasks = (task_record(rows, schema.hidden, task, asked.changes, A_PAGE, RUNS),)
    elif asked.task:
        problem = f'"{line(asked.task)}" is not a task id'
    return _record(rows, asked.sessions, A_PAGE, tasks, problem)


def record_of_tables(
    connection: Snapshot, schema: Schema, asked: RecordQuery, *, reported: bool = False
) -> ProjectRecord | None:
    """Return the same of a project without tasks: its sessions, and the log of its changes.

    A report has the first page of each.
    """
    if state_of(connection).version is None:
        return None
    rows = Rows(connection, {})
    record = _record(rows, asked.sessions, REPORTED_SESSIONS if reported else A_PAGE, (), "")
    total = every_change_counted(rows)
    number = page_number(asked.changes, total, A_PAGE)
    read = newest_changes(rows, A_PAGE, (number - 1) * A_PAGE)
    shown = tuple(change_line(one, schema.hidden) for one in read)
    return replace(record, log=page_of(number, total, A_PAGE, shown))


def reported_record(connection: Snapshot, schema: Schema) -> ProjectRecord | None:
    """Return the same for a report: newest sessions, and tasks that were changed last."""
    if state_of(connection).version is None:
        return None
    rows = reading_rows(connection, schema)
    keys = (key for (key,) in rows.execute(LAST_CHANGED, REPORTED_TASKS))
    tasks = (task for key in keys for task in [typed_task(key)] if task is not None)
    found = (task_record(rows, schema.hidden, task, 1, REPORTED, REPORTED) for task in tasks)
    return _record(rows, 1, REPORTED_SESSIONS, tuple(found), "")


def _record(
    rows: Rows, number: int, size: int, tasks: tuple[TaskRecord, ...], problem: str
) -> ProjectRecord:
    counted = outcomes(rows)
    total = sum(spent.count for spent in counted.values())
    known = [one.known for one in counted.values() if one.known is not None]
    estimated = [one.estimated for one in counted.values() if one.estimated is not None]
    unknown = sum(one.unknown for word, one in counted.items() if word is not None)
    number = page_number(number, total, size)
    read = newest_sessions(rows, size, (number - 1) * size)
    by_number = sorted(counted.items(), key=lambda one: (-one[1].count, one[0] or ""))
    return ProjectRecord(
        sessions=page_of(number, total, size, session_lines(rows, read)),
        people=people_counted(rows),
        outcomes=tuple((line(word) or GOES_ON, one.count) for word, one in by_number),
        cost=cost_words(
            sum(known) if known else None, sum(estimated) if estimated else None, unknown
        ).removeprefix("cost "),
        tasks=tasks,
        problem=problem,
    )


def session_lines(rows: Rows, records: Sequence[SessionRecord]) -> tuple[RecordedSession, ...]:
    """Return recorded sessions in their displayed form."""
    titles = titles_of(rows, [one.task_id for one in records if one.task_id is not None])
    holding = holding_sessions(rows, [one.session_id for one in records])
    return tuple(_session_line(one, titles, one.session_id in holding) for one in records)


def session_on_record(rows: Rows, record: SessionRecord) -> RecordedSession:
    """Return one recorded session in its displayed form."""
    (found,) = session_lines(rows, [record])
    return found


def _session_line(record: SessionRecord, titles: Mapping[int, str], holds: bool) -> RecordedSession:
    tokens = (record.input_tokens, record.output_tokens)
    words = [f"{count:,}" if count is not None else "?" for count in tokens]
    return RecordedSession(
        session_id=line(record.session_id),
        recipe=line(record.recipe),
        discipline=line(record.discipline),
        task=record.task_id,
        title=titles.get(record.task_id, "") if record.task_id is not None else "",
        feature=line(record.feature),
        agent=line(record.agent),
        model=line(record.model),
        started=line(record.started),
        took=_took(moment(record.started), moment(record.ended)),
        outcome=line(record.outcome) or GOES_ON,
        tone=TONES.get(record.outcome, ""),
        turns=record.turns,
        tokens=" / ".join(words) if tokens != (None, None) else "",
        cost=session_cost(record),
        worktree=_tree(record.worktree),
        merge=_merge(record, holds),
    )


def _took(started: datetime | None, ended: datetime | None) -> str:
    if started is None or ended is None or ended < started:
        return ""
    return age_words((ended - started).total_seconds())


def _tree(path: str | None) -> str:
    """Return a worktree in a form for any project: below its folder, or by its name."""
    inside = (path or "").rpartition(TREES)[2]
    return line(f"{TREES[1:]}{inside}" if TREES in (path or "") else inside.rpartition("/")[2])


def _merge(record: SessionRecord, holds: bool) -> str:
    """Return the location of a session's work, if the session had its own worktree.

    While that is not merged, it has a claim or is in the merge queue.
    """
    if record.merged:
        return f"merged as {line(record.merged[:COMMIT])}"
    if not record.worktree or record.outcome != DONE:
        return ""
    return "merge pending" if holds else "not merged"
