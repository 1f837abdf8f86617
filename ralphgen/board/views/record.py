"""Who did what: the sessions on record, and what was changed and proved of a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ralphgen.board.stored_text import line, moment
from ralphgen.board.views.task_record import (
    ChangeLine,
    ShownPage,
    TaskRecord,
    change_line,
    page_number,
    page_of,
    task_record,
    titles_of,
    typed_task,
)
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import (
    SessionRecord,
    every_change_counted,
    holding_sessions,
    newest_changes,
    newest_sessions,
    outcomes,
    people_counted,
)
from ralphgen.ledger.tables import state_of
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.sessions.store import age_words

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
COMMIT = 10  # of its digits
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
    """What is asked of the record: `task` as it was typed, "" for none; pages count from 1."""

    task: str = ""
    sessions: int = 1
    changes: int = 1


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session on record; a text is empty where nothing is known.

    `took` says how long, `outcome` how it ended. `merge` says where its work is, if it had a work
    tree of its own.
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
    """What is on record of a project; `outcomes` counts its sessions, the most frequent first.

    Those are agents' sessions, and `people` counts the others. `cost` is that of all that say so,
    empty where none does. `tasks` are those asked for, and `problem` says why there is none. `log`
    is what was changed last where the project has no tasks to ask for.
    """

    sessions: ShownPage[SessionLine]
    people: int
    outcomes: tuple[tuple[str, int], ...]
    cost: str
    tasks: tuple[TaskRecord, ...]
    problem: str
    log: ShownPage[ChangeLine] | None = None


def project_record(
    connection: Snapshot, schema: Schema, asked: RecordQuery
) -> ProjectRecord | None:
    """Return what is on record of a project; None where its database has no ledger.

    Raises `ProjectError` where the ledger, or the database, is not one that this version knows.
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
    total = sum(count for count, _ in counted.values())
    costs = [cost for _, cost in counted.values() if cost is not None]
    number = page_number(number, total, size)
    read = newest_sessions(rows, size, (number - 1) * size)
    by_number = sorted(counted.items(), key=lambda one: (-one[1][0], one[0] or ""))
    return ProjectRecord(
        sessions=page_of(number, total, size, session_lines(rows, read)),
        people=people_counted(rows),
        outcomes=tuple((line(word) or GOES_ON, count) for word, (count, _) in by_number),
        cost=f"${sum(costs):,.2f}" if costs else "",
        tasks=tasks,
        problem=problem,
    )


def session_lines(rows: Rows, records: Sequence[SessionRecord]) -> tuple[SessionLine, ...]:
    """Return sessions on record as they are shown."""
    titles = titles_of(rows, [one.task_id for one in records if one.task_id is not None])
    holding = holding_sessions(rows, [one.session_id for one in records])
    return tuple(_session_line(one, titles, one.session_id in holding) for one in records)


def session_on_record(rows: Rows, record: SessionRecord) -> SessionLine:
    """Return one session on record as it is shown."""
    (found,) = session_lines(rows, [record])
    return found


def _session_line(record: SessionRecord, titles: Mapping[int, str], holds: bool) -> SessionLine:
    tokens = (record.input_tokens, record.output_tokens)
    words = [f"{count:,}" if count is not None else "?" for count in tokens]
    return SessionLine(
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
        cost="" if record.cost_usd is None else f"${record.cost_usd:,.4f}",
        worktree=_tree(record.worktree),
        merge=_merge(record, holds),
    )


def _took(started: datetime | None, ended: datetime | None) -> str:
    if started is None or ended is None or ended < started:
        return ""
    return age_words((ended - started).total_seconds())


def _tree(path: str | None) -> str:
    """Return a work tree as it is seen from any project: below its folder, or by its name."""
    inside = (path or "").rpartition(TREES)[2]
    return line(f"{TREES[1:]}{inside}" if TREES in (path or "") else inside.rpartition("/")[2])


def _merge(record: SessionRecord, holds: bool) -> str:
    """Return where the work of a session is, which had a work tree of its own.

    As long as its merge is pending, it holds its task.
    """
    if record.merged:
        return f"merged as {line(record.merged[:COMMIT])}"
    if not record.worktree or record.outcome != DONE:
        return ""
    return "merge pending" if holds else "not merged"
