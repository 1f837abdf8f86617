"""One task with all that it stands in: its fields, its feature, its discipline, and its record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from ralphgen.board.claims import Hold, holds_of, read_claims
from ralphgen.board.stored_text import line, paragraph
from ralphgen.board.tasks.listing import ListedTask, listed_tasks
from ralphgen.board.views.record import SessionLine, session_lines
from ralphgen.board.views.task_record import (
    Hidden,
    ShownPage,
    TaskRecord,
    page_number,
    page_of,
    task_record,
)
from ralphgen.kits.ralph.rows import Rows, best, decode_learnings
from ralphgen.ledger.record import sessions_of
from ralphgen.ledger.tables import state_of
from ralphgen.runtime.tasks.claims import prerequisite_lists
from ralphgen.runtime.tasks.rows import decode_strings

COMMENTS = 30
CHANGES, RUNS = 25, 20
SESSIONS = 20
LEARNINGS = 20
DEPENDENTS = 100
NEEDED = 100  # of the tasks that one waits for
AT_ONCE = 1_000
LONGEST = 50_000  # characters of a field
APART = ("id", "title", "status", "depends_on", "learnings")
"""What a row has a place of its own for."""
LAST_SAID = (
    "SELECT task_id, body FROM task_comments WHERE id IN "
    "(SELECT MAX(id) FROM task_comments WHERE AMONG GROUP BY task_id)"
)
FEATURE = ("display_name", "description", "architecture", "boundaries", "context_files")
DISCIPLINE = ("display_name", "description", "system_prompt", "skills", "conventions")


@dataclass(frozen=True, slots=True)
class ShownField:
    """A column with something in it: a text, or the items of a list."""

    name: str
    text: str
    items: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the name as people say it."""
        return self.name.replace("_", " ").capitalize()

    @property
    def is_long(self) -> bool:
        """Return whether it needs lines of its own."""
        return bool(self.items) or len(self.text) > len("2026-02-10T17:56:00Z") * 2


@dataclass(frozen=True, slots=True)
class TaskComment:
    """A comment; a text is empty where nothing is known."""

    id: int | str
    author: str
    discipline: str
    priority: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class KnownRow:
    """What is known of the task's feature, or of its discipline; without a row there are none."""

    name: str
    fields: tuple[ShownField, ...]
    learnings: tuple[str, ...] = ()
    more_learnings: int = 0


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its page shows it.

    `row` is what is stored, by column. `needed` are the ids that it waits for; of the first of them
    `dependencies` are those that are tasks, and `outcomes` the last comment on each, which is its
    summary where it was done.
    Of the tasks that wait for it the first are `dependents`; `more` says whether there are others.
    `record` is None where the database has no ledger.
    """

    task: ListedTask
    row: Mapping[str, Any]
    fields: tuple[ShownField, ...]
    hold: Hold | None
    needed: tuple[int, ...]
    dependencies: Mapping[int, ListedTask]
    outcomes: Mapping[int, str]
    unreadable: str
    dependents: tuple[ListedTask, ...]
    more: bool
    comments: ShownPage[TaskComment] | None
    feature: KnownRow
    discipline: KnownRow
    record: TaskRecord | None
    sessions: tuple[SessionLine, ...]


@dataclass(frozen=True, slots=True)
class NeededTask:
    """A task that another waits for, None where there is none of this id.

    `outcome` is the last comment on it. `earlier` are the ids in an order that has it one place
    earlier, if it is not the first, and `without` those of the others; both are as a form sends
    them.
    """

    id: int
    task: ListedTask | None
    outcome: str
    earlier: str
    without: str


def needed_tasks(view: TaskView) -> tuple[NeededTask, ...]:
    """Return the first tasks that a task waits for, in their order."""
    ids = [*view.needed[:NEEDED]]
    return tuple(
        NeededTask(
            id=one,
            task=view.dependencies.get(one),
            outcome=view.outcomes.get(one, ""),
            earlier=_joined([*ids[: at - 1], one, ids[at - 1], *ids[at + 1 :]]) if at else "",
            without=_joined([*ids[:at], *ids[at + 1 :]]),
        )
        for at, one in enumerate(ids)
    )


def _joined(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def stored_task(rows: Rows, task: int) -> dict[str, Any] | None:
    """Return a task as it is stored, without what the config hides; None where there is none."""
    columns = [*rows.tables["tasks"].columns]
    found = rows.read("tasks", columns, "WHERE id = ?", task)
    return dict(zip(columns, found[0], strict=True)) if found else None


def task_view(
    rows: Rows, is_hidden: Hidden, task: int, comments: int, changes: int
) -> TaskView | None:
    """Return a task with pages of its comments and changes; None where there is none."""
    row = stored_task(rows, task)
    if row is None:
        return None
    (needed,) = prerequisite_lists([row.get("depends_on")])
    ids = tuple(dict.fromkeys(needed or ()))
    first = ids[:NEEDED]
    dependents = _dependents(rows, task)
    near = {one.id: one for one in listed_tasks(rows, [task, *first, *dependents])}
    recorded = state_of(rows.connection).version is not None
    sessions = sessions_of(rows, task, SESSIONS) if recorded else []
    return TaskView(
        task=near[task],
        row=row,
        fields=shown_fields(row),
        hold=holds_of(read_claims(rows), anywhere=False).get(task) if near[task].holder else None,
        needed=ids,
        dependencies={one: near[one] for one in first if one in near},
        outcomes=_outcomes(rows, first),
        unreadable=line(row.get("depends_on")) if needed is None else "",
        dependents=tuple(near[one] for one in dependents[:DEPENDENTS] if one in near),
        more=len(dependents) > DEPENDENTS,
        comments=_comments(rows, task, comments),
        feature=_feature(rows, row["feature"]),
        discipline=_known(rows, "disciplines", row["discipline"], DISCIPLINE),
        record=task_record(rows, is_hidden, task, changes, CHANGES, RUNS) if recorded else None,
        sessions=session_lines(rows, sessions) if sessions else (),
    )


def shown_fields(row: Mapping[str, Any]) -> tuple[ShownField, ...]:
    """Return the columns of a row that hold something."""
    found = (_field(name, value) for name, value in row.items() if name not in APART)
    return tuple(field for field in found if field.text or field.items)


def _field(name: str, value: object) -> ShownField:
    if isinstance(value, str) and value.lstrip().startswith("["):
        decoded = decode_strings(value)
        if decoded.readable:
            return ShownField(name, "", tuple(paragraph(one, LONGEST) for one in decoded.values))
    if isinstance(value, list | dict):
        value = dumps(value, ensure_ascii=False)
    return ShownField(name, paragraph(value, LONGEST))


def _dependents(rows: Rows, task: int) -> list[int]:
    """Return the first tasks that name this one in `depends_on`, one more than are shown."""
    found: list[int] = []
    if rows.lacks("tasks", "depends_on"):
        return found
    rest = f"WHERE id > ? AND {rows.connection.sql.holds('depends_on')} ORDER BY id LIMIT ?"
    last, is_over = -(2**62), False
    while not is_over and len(found) <= DEPENDENTS:
        read = rows.read("tasks", ["id", "depends_on"], rest, last, f"%{task}%", AT_ONCE)
        lists = prerequisite_lists([stored for _, stored in read])
        both = zip(read, lists, strict=True)
        found += [one for (one, _), needed in both if task in (needed or ()) and one != task]
        is_over = len(read) < AT_ONCE
        last = read[-1][0] if read else last
    return found[: DEPENDENTS + 1]


def _outcomes(rows: Rows, ids: Sequence[int]) -> dict[int, str]:
    """Return the last comment on each of some tasks that has one."""
    if not ids or rows.lacks("task_comments", "id", "task_id", "body"):
        return {}
    sql = LAST_SAID.replace("AMONG", rows.connection.sql.among("task_id"))
    return {task: paragraph(body) for task, body in rows.execute(sql, dumps([*ids]))}


def _comments(rows: Rows, task: int, page: int) -> ShownPage[TaskComment] | None:
    """Return a page of the comments on a task, the newest first; None without such a table."""
    if rows.lacks("task_comments", "id", "task_id", "body"):
        return None
    optional = ("author", "discipline", "priority", "created")
    columns = ["id", "body", *rows.chosen("task_comments", *optional)]
    ((total,),) = rows.execute("SELECT COUNT(*) FROM task_comments WHERE task_id = ?", task)
    number = page_number(page, total, COMMENTS)
    rest = "WHERE task_id = ? ORDER BY id DESC LIMIT ? OFFSET ?"
    read = rows.read("task_comments", columns, rest, task, COMMENTS, (number - 1) * COMMENTS)
    found = [dict(zip(columns, row, strict=True)) for row in read]
    shown = tuple(
        TaskComment(
            id=line(one["id"]),
            body=paragraph(one["body"], LONGEST),
            **{name: line(one.get(name)) for name in optional},
        )
        for one in found
    )
    return page_of(number, total, COMMENTS, shown)


def _feature(rows: Rows, name: object) -> KnownRow:
    """Return what is known of a feature, with what was learned on it, the best first."""
    known = _known(rows, "features", name, FEATURE)
    if rows.lacks("features", "learnings"):
        return known
    found = rows.read("features", ["learnings"], f"WHERE {rows.exactly('name')} = ?", name)
    decoded = decode_learnings(found[0][0] if found else None)
    learned = best(decoded.values, LEARNINGS) if decoded.readable else []
    texts = tuple(paragraph(one.get("text")) for one in learned)
    left = len(decoded.values) - len(texts)
    return KnownRow(known.name, known.fields, texts, max(0, left))


def _known(rows: Rows, table: str, name: object, wanted: Sequence[str]) -> KnownRow:
    if rows.lacks(table, "name"):
        return KnownRow(line(name), ())
    columns = rows.chosen(table, *wanted)
    rest = f"WHERE {rows.exactly('name')} = ?"
    read = rows.read(table, ["name", *columns], rest, name)
    row = dict(zip(columns, read[0][1:], strict=True)) if read else {}
    return KnownRow(line(name), shown_fields(row))
