"""A task's page, its forms, and the routes of tasks."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from json import dumps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.calls import (
    KIT,
    Record,
    RefusalError,
    RowTools,
    open_server,
    stored_column,
    typed,
)
from ralphgen.board import page as pages
from ralphgen.board import tasks as lists
from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.page import PageDesk, in_thread, json_answer
from ralphgen.board.project import Hold, holds_of, read_claims
from ralphgen.board.record import (
    LARGEST_ID,
    Hidden,
    RecordedSession,
    ShownPage,
    TaskRecord,
    page_number,
    page_of,
    session_lines,
    task_record,
)
from ralphgen.board.sections import PageQuery, view
from ralphgen.board.tasks import ListedTask, listed_tasks, task_listing
from ralphgen.board.text import (
    ActionResult,
    FieldProblem,
    Form,
    fieldless,
    form_of,
    line,
    number_of,
    paragraph,
    query_of,
    wants_json,
)
from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, best, decode_learnings
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.record import sessions_of
from ralphgen.ledger.tables import state_of
from ralphgen.project.root import FOLDER, project_place
from ralphgen.runtime.policy import FULL, NOTHING
from ralphgen.runtime.tasks.claims import prerequisite_lists
from ralphgen.runtime.tasks.rows import decode_integers, decode_strings, plain
from ralphgen.sessions.decide import Request as SessionRequest
from ralphgen.sessions.decide import RowAsRead
from ralphgen.sessions.questions import OpenQuestion, answer_question, open_questions

if TYPE_CHECKING:
    from ralphgen.project.config import CheckSettings

WAS, MORE = "was.", ".more"
"""The prefix of a field with the value that a form read, and the suffix of one with additions."""
NEVER = ("id", "task_id", "clear", "status")
"""Arguments without a field to edit; the status has a separate form."""
ONE_LINE = ("title", "author")
_UNSPEAKABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of a form: `text` is its content, and `was` the stored value.

    `kind` is line, text, list, ids, number, choice or flag; `choices` are the values of a choice,
    and a `needed` field must not be empty.
    """

    name: str
    kind: str
    text: str = ""
    was: str = ""
    choices: tuple[str, ...] = ()
    needed: bool = False

    @property
    def label(self) -> str:
        """Return the name as people say it."""
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field with a conflicting change: the values as read, as stored now, and as typed."""

    label: str
    read: str
    now: str
    typed: str

    @property
    def both(self) -> bool:
        """Return whether the user changed it too, so that one of the two changes is lost."""
        return self.typed != self.read


def fields_for(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form | None = None
) -> tuple[EditField, ...]:
    """Return the fields that a tool can set, with the values of a row or of a form.

    `schema` is the input schema of the tool.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    needed = schema.get("required", ())
    found = []
    for name, rule in properties.items():
        if name in NEVER:
            continue
        stored = spelled(row.get(stored_column(name, rule)), rule)
        field = EditField(name, _kind(name, rule, stored), stored, stored, needed=name in needed)
        field = replace(field, choices=tuple(map(str, rule.get("enum", ()))))
        found.append(field if given is None else _as_typed(field, given))
    return tuple(found)


def _as_typed(field: EditField, given: Form) -> EditField:
    """Return a field with the value in a form; an unedited field gets the stored value."""
    read = _said(given, f"{WAS}{field.name}", field.was)
    text = _said(given, field.name, read)
    return replace(field, text=field.was if text == read else text)


def conflicts(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> tuple[FieldConflict, ...]:
    """Return the fields of a form whose stored values have changed since they were read.

    Fields that the user changed too come first.
    """
    found = (
        FieldConflict(
            field.label, _said(given, f"{WAS}{field.name}", field.was), field.was, typed_text
        )
        for field in fields_for(schema, row)
        for typed_text in [_said(given, field.name, field.was)]
    )
    changed = (one for one in found if one.now not in (one.read, one.typed))
    return tuple(sorted(changed, key=lambda one: not one.both))


def columns_read(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> dict[str, object]:
    """Return the values of a row in the columns of a form's fields, for `RowAsRead`."""
    names = {name.removeprefix(WAS) for name in given.names}.difference(NEVER)
    properties: Mapping[str, Any] = schema.get("properties", {})
    columns = (stored_column(name, properties[name]) for name in properties if name in names)
    return {column: plain(row[column]) for column in columns if column in row}


def fingerprint(fields: Sequence[EditField]) -> str:
    """Return a digest of the stored values of the fields."""
    return sha256(repr([(field.name, field.was) for field in fields]).encode()).hexdigest()[:16]


def said(given: Form | None) -> Mapping[str, str]:
    """Return the value sent in each field, by its name; empty without a form."""
    return {} if given is None else {name: given.texts(name)[-1] for name in given.names}


def with_more(given: Form) -> Form:
    """Return a form with the values to add inserted into their fields."""
    pairs = [(name, text) for name in given.names for text in given.texts(name)]
    more = {name: _said(given, f"{name}{MORE}", "") for name in given.names}
    return Form(
        tuple((name, f"{text}, {more[name]}" if more[name] else text) for name, text in pairs)
    )


def _said(given: Form, name: str, other: str) -> str:
    """Return the value of a field in a form, or else the other text."""
    return (*given.texts(name)[-1:], other)[0]


def _kind(name: str, rule: Mapping[str, Any], stored: str) -> str:
    if rule.get("enum"):
        return "choice"
    kind = rule.get("type")
    if kind == "array":
        return "ids" if rule.get("items", {}).get("type") == "integer" else "list"
    if kind in ("integer", "number"):
        return "number"
    if kind == "boolean":
        return "flag"
    return "line" if name in ONE_LINE and "\n" not in stored else "text"


def spelled(value: object, rule: Mapping[str, Any]) -> str:
    """Return a stored value in the format of a form; an unreadable list is unchanged.

    A list has one item per line, or is JSON if an item could be misread.
    """
    text = "" if value is None else str(plain(value))
    if rule.get("type") == "array":
        of_ids = rule.get("items", {}).get("type") == "integer"
        found = decode_integers(value) if of_ids else decode_strings(value)
        if found.readable:
            items = list(map(str, found.values))
            fits = all(item == item.strip() and item and "\n" not in item for item in items)
            text = (", " if of_ids else "\n").join(items)
            if not of_ids and (not fits or text.startswith("[")):
                text = json.dumps(items, ensure_ascii=False) if items else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSPEAKABLE)


def value_of(text: str, rule: Mapping[str, Any]) -> object:
    """Return the value of a typed text; the tool reports a value of the wrong type."""
    if rule.get("type") != "array" or text.lstrip().startswith("["):
        return typed({"": text}, {"": rule})[""]
    items: Mapping[str, Any] = rule.get("items", {})
    of_ids = items.get("type") == "integer"
    parts = re.split(r"[\s,;#]+", text) if of_ids else text.split("\n")
    return [typed({"": part.strip()}, {"": items})[""] for part in parts if part.strip()]


def changes_of_form(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> dict[str, Any]:
    """Return the arguments that give a row the values of a form: only the changed ones."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    changes: dict[str, Any] = {}
    emptied: list[str] = []
    for field in fields_for(schema, row):
        texts = given.texts(field.name)
        if not texts or texts[-1] == field.text:
            continue
        text = texts[-1]
        if not text.strip() and "clear" in properties and field.name != "title":
            emptied.append(field.name)
        else:
            changes[field.name] = value_of(text, properties[field.name])
    return {**changes, "clear": emptied} if emptied else changes


def given_values(schema: Mapping[str, Any], given: Form) -> dict[str, Any]:
    """Return the arguments that a form fills in; an empty field is left out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    texts = {name: given.texts(name)[-1] for name in properties if given.texts(name)}
    return {name: value_of(text, properties[name]) for name, text in texts.items() if text.strip()}


COMMENTS = 30
CHANGES, RUNS = 25, 20
SESSIONS = 20
LEARNINGS = 20
DEPENDENTS = 100
NEEDED = 100  # dependencies to show
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
        """Return whether it needs separate lines."""
        return bool(self.items) or len(self.text) > len("2026-02-10T17:56:00Z") * 2


@dataclass(frozen=True, slots=True)
class TaskComment:
    """A comment; unknown values are empty."""

    id: int | str
    author: str
    discipline: str
    priority: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The fields of the task's feature, or of its discipline; empty without a row."""

    name: str
    fields: tuple[ShownField, ...]
    learnings: tuple[str, ...] = ()
    more_learnings: int = 0


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its page shows it.

    `row` holds the stored values, by column. `needed` are the ids that it waits for. Of the first
    of them, `dependencies` are the existing tasks, and `outcomes` the last comment on each, which
    is the summary of a done task. `dependents` are the first tasks that wait for it; `more` is set
    if there are others. `record` is None if the database has no ledger.
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
    sessions: tuple[RecordedSession, ...]


@dataclass(frozen=True, slots=True)
class NeededTask:
    """A task that another waits for; the task is None if the id is unknown.

    `outcome` is the last comment on it. `earlier` are the ids in an order that has it one place
    earlier, if it is not the first, and `without` those of the others; both are in the format of a
    form.
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
    """Return a stored task without hidden columns, or None if there is none."""
    columns = [*rows.tables["tasks"].columns]
    found = rows.read("tasks", columns, "WHERE id = ?", task)
    return dict(zip(columns, found[0], strict=True)) if found else None


def task_view(
    rows: Rows, is_hidden: Hidden, task: int, comments: int, changes: int
) -> TaskView | None:
    """Return a task with pages of its comments and changes, or None if there is none."""
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
    """Return the fields of a feature, with its learnings, the best first."""
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


CREATE, UPDATE, ENRICH, SET_STATUS, COMMENT = (
    "create_task",
    "update_task",
    "enrich_task",
    "set_task_status",
    "add_task_comment",
)
STATUS = "Status"  # the label of the field
FREED = 10  # ids of tasks to list after a change
TRIES = 5  # attempts at a change, if the same fields keep changing
Row = Mapping[str, Any]
Schemas = Mapping[str, Record]
"""The input schema of each tool, by its name."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a change; `task` is the changed task, or None without one.

    `conflicts` are the fields that were changed elsewhere meanwhile; nothing was written then.
    """

    result: ActionResult
    task: int | None = None
    conflicts: tuple[FieldConflict, ...] = ()

    @property
    def status(self) -> int:
        """Return the HTTP status of an answer for a failure."""
        return 409 if self.conflicts else 422


class TaskActions:
    """Changes tasks of the project in `root`, one change after the other, in any thread.

    Changes are made by the tools of its server, with the user's rights: the tools' rules and
    refusals apply, and the ledger records the user's session.
    """

    def __init__(self, root: Path) -> None:
        """Start with nothing asked."""
        self._root = root
        self._acting = Lock()
        self._asking = Lock()
        self._known: tuple[object, Schemas] = (None, {})

    def schemas(self) -> Schemas:
        """Return the input schemas of the current server, which is queried once.

        Raises `RalphgenError` if it does not start.
        """
        with self._asking:
            written = self._written()
            if self._known[0] != written:
                with self._tools(UPDATE) as tools:
                    self._known = written, tools.tools()
            return self._known[1]

    def _written(self) -> int:
        """Return the time when the server was written, 0 if there is none."""
        try:
            return (self._root / FOLDER / MANIFEST).stat().st_mtime_ns
        except OSError:
            return 0

    def create(self, form: Form) -> TaskOutcome:
        """Add the task that a form describes."""

        def act() -> TaskOutcome:
            with self._tools(CREATE) as tools:
                answer = tools.ask(CREATE, **given_values(tools.tools()[CREATE], form))
            said = f"task {answer['id']} is {line(answer['status'])}"
            return TaskOutcome(_done(said, answer), answer["id"])

        return self._outcome(None, "no task was created", act)

    def edit(self, task: int, form: Form) -> TaskOutcome:
        """Change the fields that differ; change nothing if there are conflicts."""
        given = with_more(form)

        def act(schema: Record, row: Row) -> TaskOutcome:
            if found := conflicts(schema, row, given):
                return _conflicting(task, found)
            changes = changes_of_form(schema, row, given)
            if not changes:
                return TaskOutcome(ActionResult(True, f"task {task}: nothing to change"), task)
            with self._tools(UPDATE, task, columns_read(schema, row, given)) as tools:
                answer = tools.ask(UPDATE, id=task, **changes)
            named = ", ".join(answer.get("changed", ())) or "nothing"
            return TaskOutcome(_done(f"task {task}: changed {named}", answer), task)

        return self._change(UPDATE, task, "nothing was saved", act)

    def enrich(self, task: int, form: Form) -> TaskOutcome:
        """Set the values of a draft from a form, which makes it pending."""

        def act(schema: Record, row: Row) -> TaskOutcome:
            if found := conflicts(schema, row, form):
                return _conflicting(task, found)
            given = given_values(schema, form)
            with self._tools(ENRICH, task, columns_read(schema, row, form)) as tools:
                answer = tools.ask(ENRICH, **{**given, "id": task})
            return TaskOutcome(_done(f"task {task} is {line(answer['status'])}", answer), task)

        return self._change(ENRICH, task, "the draft is unchanged", act)

    def set_status(self, task: int, form: Form) -> TaskOutcome:
        """Set a task's status, if it is still the one that was read."""

        def act(_: Record, row: Row) -> TaskOutcome:
            now, new = line(row.get("status")), form.text("status")
            (read,) = form.texts("was.status")[-1:] or (now,)
            if read != now:
                text = f"nothing was changed: someone else has set the status to {now}"
                conflict = FieldConflict(STATUS, read, now, new)
                return TaskOutcome(ActionResult(False, text), task, (conflict,))
            words = {name: _text(form, name) for name in ("reason", "summary", "because")}
            read_so = {name: plain(row[name]) for name in ("status",) if name in row}
            with self._tools(SET_STATUS, task, read_so) as tools:
                answer = tools.set_status(task, new, words, force=bool(form.texts("force")))
            said = f"task {task}: {line(answer['old'])} → {line(answer['new'])}"
            return TaskOutcome(_done(said, answer), task)

        return self._change(SET_STATUS, task, "the status was not changed", act)

    def comment(self, task: int, form: Form) -> TaskOutcome:
        """Add a comment to a task."""

        def act() -> TaskOutcome:
            body, author = form.text("body"), _text(form, "author")
            with self._tools(COMMENT) as tools:
                answer = tools.comment(task, body, author=author, priority=_text(form, "priority"))
            return TaskOutcome(_done(f"added the comment to task {task}", answer), task)

        return self._outcome(task, "no comment was added", act)

    def answer(self, task: int, form: Form) -> TaskOutcome:
        """Answer the open question of a task with an option or a text."""

        def act() -> TaskOutcome:
            text = _text(form, "option") or _text(form, "answer")
            number = answer_question(self._root, task, text, number_of(_text(form, "question")))
            return TaskOutcome(ActionResult(True, f"task {task}: answered question {number}"), task)

        return self._outcome(task, "no answer was stored", act)

    def _row(self, task: int) -> Row:
        """Return a task's stored values; empty without a task, which the tool then reports."""
        with Project(self._root).task_rows() as (rows, _):
            return stored_task(rows, task) or {}

    def _change(
        self, tool: str, task: int, otherwise: str, act: Callable[[Record, Row], TaskOutcome]
    ) -> TaskOutcome:
        """Return the result of a change that is based on a task's stored values.

        `act` receives the tool's input schema and the row. It is called again if the row changed
        before the tool ran: the new values are then another conflict.
        """

        def tried() -> TaskOutcome:
            schema, row = self.schemas().get(tool, {}), self._row(task)
            for _ in range(TRIES):
                try:
                    return act(schema, row)
                except RefusalError:
                    before, row = row, self._row(task)
                    if row == before:
                        raise
            return act(schema, row)

        return self._outcome(task, otherwise, tried)

    def _outcome(
        self, task: int | None, otherwise: str, act: Callable[[], TaskOutcome]
    ) -> TaskOutcome:
        """Return the result of an action; other actions of this board wait for it."""
        try:
            with self._acting:
                return act()
        except RefusalError as error:  # its hints are for a command line
            problems = (FieldProblem("", one.text) for one in error.problems)
            return TaskOutcome(ActionResult(False, otherwise, (), tuple(problems)), task)
        except RalphgenError as error:
            return TaskOutcome(ActionResult(False, otherwise, (), fieldless(error.problems)), task)

    @contextmanager
    def _tools(
        self, tool: str, task: int = 0, read: Mapping[str, object] = NOTHING
    ) -> Iterator[RowTools]:
        """Yield the tools; they write nothing once a task is not as it was `read`, by column."""
        place = project_place(self._root)
        request = SessionRequest(FULL, as_read=RowAsRead("task", task, read) if read else None)
        with open_server(
            place, KIT, tool, request, trust_edited=False, say=_unsaid, apart=True
        ) as server:
            yield RowTools(server)


def _conflicting(task: int, found: tuple[FieldConflict, ...]) -> TaskOutcome:
    """Return the outcome of an edit that comes second."""
    named = [one for one in found if one.both] or found
    names = ", ".join(f'"{one.label}"' for one in named)
    text = f"nothing was saved: someone else has changed {names}"
    return TaskOutcome(ActionResult(False, text), task, found)


def _unsaid(_: str) -> None:
    """Ignore a command's messages, which would go to the terminal of the board."""


def _text(form: Form, name: str) -> str:
    """Return the value of a field; empty if the form does not have it."""
    return (*form.texts(name)[-1:], "")[0].strip()


def _done(message: str, answer: Mapping[str, Any]) -> ActionResult:
    """Return the result of a change, with the tool's messages."""
    lines = [f"warning: {one}" for one in answer.get("warnings", ())]
    lines += map(str, answer.get("told", ()))
    free = [str(one) for one in answer.get("unblocked", ())]
    if free:
        more = f", and {len(free) - FREED} more" if len(free) > FREED else ""
        lines.append(f"nothing keeps {', '.join(free[:FREED])}{more} any longer")
    return ActionResult(True, message, tuple(map(line, lines)))


def checks_of(root: Path, discipline: str) -> tuple[tuple[str, str], ...]:
    """Return the checks for tasks of a discipline: the name and the command of each.

    Raises `ProjectError` if the config cannot be read.
    """
    config = read_settings(root)
    found: list[CheckSettings] = config.done.checks
    return tuple(
        (check.name, shlex.join(check.run) if check.run else f"the task {check.dela} of dela")
        for check in found
        if not check.disciplines or discipline in check.disciplines
    )


MOST_NAMES = 1_000
"""Features that a form offers."""


@dataclass(frozen=True)
class TaskAsked:
    """The content of a task's page besides the task: pages of comments and changes, and a form.

    `opened` is set if the edit form is open, `typed` are the values that were not saved.
    """

    task: int
    comments: int = 1
    changes: int = 1
    opened: bool = False
    typed: Form | None = None
    outcome: TaskOutcome | None = None


def task_routes(desk: PageDesk) -> Sequence[Route]:
    """Return the routes of tasks."""
    area = TaskPages(desk)
    return [
        Route("/tasks", area.listing),
        Route("/tasks/new", area.new, methods=["GET"]),
        Route("/tasks/new", area.create, methods=["POST"]),
        Route("/tasks/{task:int}", area.task),
        Route("/tasks/{task:int}/edit", partial(area.task, opened=True), methods=["GET"]),
        Route("/tasks/{task:int}/edit", area.edit, methods=["POST"]),
        Route("/tasks/{task:int}/enrich", area.enrich, methods=["POST"]),
        Route("/tasks/{task:int}/status", area.set_status, methods=["POST"]),
        Route("/tasks/{task:int}/comments", area.comment, methods=["POST"]),
        Route("/tasks/{task:int}/answer", area.answer, methods=["POST"]),
    ]


class TaskPages:
    """The pages of tasks, and the actions of their forms."""

    def __init__(self, desk: PageDesk) -> None:
        """Serve the tasks of the desk's project."""
        self._desk = desk
        self._root = desk.board.root
        self._actions = TaskActions(self._root)

    async def listing(self, request: Request) -> Response:
        """Answer the list of tasks; without a filter, the status follows below."""
        fields = query_of(request)
        asked = lists.task_query(fields)
        sections: dict[str, Callable[[], Markup]] = {"tasks": partial(self._list, asked)}
        if asked.is_plain() and not asked.view and fields.get("only") != "tasks":
            board = self._desk.board
            sections["status"] = lambda: pages.section("status", view(board, "status", PageQuery()))
        place = pages.BoardPlace("/tasks", "Tasks")
        return await self._desk.page(place, sections, asked, fields.get("notice", ""))

    async def task(self, request: Request, *, opened: bool = False) -> Response:
        """Answer the page of a task."""
        fields = query_of(request)
        comments, changes = (number_of(fields.get(name, "")) for name in ("comments", "changes"))
        asked = TaskAsked(_task(request), comments, changes, opened=opened)
        return await self._task_page(asked, fields.get("notice", ""))

    async def new(self, request: Request) -> Response:
        """Answer the form for a new task, with the values in its address."""
        fields = query_of(request)
        given = Form(tuple((name, text) for name, text in fields.items() if name != "notice"))
        return await self._new_page(given, fields.get("notice", ""), 200)

    async def create(self, request: Request) -> Response:
        """Add a task, or show the form again with the typed values."""
        form = await form_of(request)
        outcome = await in_thread(partial(self._actions.create, form))
        if outcome.task is None and not wants_json(request):
            return await self._new_page(form, outcome.result, outcome.status)
        return self._answered(request, outcome, "")

    async def edit(self, request: Request) -> Response:
        """Change fields of a task."""
        return await self._done(request, self._actions.edit, "")

    async def enrich(self, request: Request) -> Response:
        """Make a draft ready."""
        return await self._done(request, self._actions.enrich, "")

    async def set_status(self, request: Request) -> Response:
        """Set the status of a task."""
        return await self._done(request, self._actions.set_status, "")

    async def comment(self, request: Request) -> Response:
        """Add a comment to a task."""
        return await self._done(request, self._actions.comment, "#comments")

    async def answer(self, request: Request) -> Response:
        """Answer the open question of a task."""
        return await self._done(request, self._actions.answer, "")

    async def _done(
        self, request: Request, act: Callable[[int, Form], TaskOutcome], place: str
    ) -> Response:
        """Answer an action on a task; after a refusal, its form keeps the typed values."""
        task, form = _task(request), await form_of(request)
        outcome = await in_thread(partial(act, task, form))
        if outcome.result.ok or wants_json(request):
            return self._answered(request, outcome, place)
        edits = act == self._actions.edit
        typed = with_more(form) if edits else form
        asked = TaskAsked(task, opened=edits, typed=typed, outcome=outcome)
        return await self._task_page(asked, outcome.result, outcome.status)

    def _answered(self, request: Request, outcome: TaskOutcome, place: str) -> Response:
        if wants_json(request):
            found = {**asdict(outcome.result), "task": outcome.task}
            found["conflicts"] = [{**asdict(one), "both": one.both} for one in outcome.conflicts]
            return json_answer(found, 200 if outcome.result.ok else outcome.status)
        return self._desk.answered(request, outcome.result, f"/tasks/{outcome.task}{place}")

    async def _task_page(
        self, asked: TaskAsked, outcome: ActionResult | str, status: int = 200
    ) -> Response:
        if not await in_thread(partial(self._is_there, asked.task)):
            raise HTTPException(404, f"there is no task {asked.task}")
        place = pages.BoardPlace(f"/tasks/{asked.task}", f"Task {asked.task}")
        drawing = partial(self._task, asked)
        return await self._desk.page(place, {"task": drawing}, asked, outcome, status)

    async def _new_page(self, form: Form, outcome: ActionResult | str, status: int) -> Response:
        place = pages.BoardPlace("/tasks/new", "New task")
        drawing = partial(self._new, form)
        return await self._desk.page(place, {"new-task": drawing}, form, outcome, status)

    def _is_there(self, task: int) -> bool:
        try:
            with Project(self._root).task_rows() as (rows, _):
                return stored_task(rows, task) is not None
        except ProjectError:  # the page shows the reason
            return True

    def _list(self, asked: lists.TaskQuery) -> Markup:
        with Project(self._root).task_rows() as (rows, _):
            view = task_listing(rows, asked)
        return pages.html(
            "task_list.html.jinja", view=view, asked=asked, states=lists.STATES, sorts=lists.SORTS
        )

    def _task(self, asked: TaskAsked) -> Markup:
        with Project(self._root).task_rows() as (rows, schema):
            view = task_view(rows, schema.hidden, asked.task, asked.comments, asked.changes)
        if view is None:
            raise ProjectError(f"task {asked.task} no longer exists", '"/tasks" lists them')
        schemas, problems = self._schemas()
        fields = fields_for(
            schemas.get(UPDATE, {}), view.row, asked.typed if asked.opened else None
        )
        return pages.html(
            "task_page.html.jinja",
            view=view,
            asked=asked,
            conflicts=_conflicts(schemas, view.row, asked),
            fields=fields,
            fingerprint=fingerprint(fields),
            ordered=(ordered := needed_tasks(view)),
            more_needed=len(view.needed) - len(ordered),
            has_needs=any(one.name == "depends_on" for one in fields),
            enriched=_enriched(schemas, view.row, asked.typed),
            moves=_properties(schemas, SET_STATUS),
            says=_properties(schemas, COMMENT),
            said={} if asked.opened else said(asked.typed),
            questions=_questions(self._root, asked.task),
            checks=checks_of(self._root, str(view.row["discipline"])),
            problems=problems,
            query=None,
        )

    def _new(self, form: Form) -> Markup:
        schemas, problems = self._schemas()
        with Project(self._root).task_rows() as (rows, _):
            read = rows.read("features", ["name"], "ORDER BY name LIMIT ?", MOST_NAMES)
        names = {
            "feature": tuple(name for (name,) in read if isinstance(name, str)),
            "discipline": tuple(row.name for row in read_disciplines(self._root).rows),
        }
        fields = [
            replace(_prefilled(field, form), choices=names.get(field.name, field.choices))
            for field in (
                *fields_for(schemas.get(CREATE, {}), {}),
                *_first_statuses(_properties(schemas, CREATE)),
            )
        ]
        kinds = [replace(one, kind="choice") if one.choices else one for one in fields]
        ordered = sorted(kinds, key=lambda one: (one.name != "title", not one.needed))
        return pages.html(
            "task_new.html.jinja",
            fields=ordered,
            has_features=bool(names["feature"]),
            problems=problems,
        )

    def _schemas(self) -> tuple[Schemas, Sequence[Problem]]:
        """Return the schemas of the tools, or why nothing can be changed here."""
        try:
            return self._actions.schemas(), ()
        except RalphgenError as error:
            return {}, error.problems


def _conflicts(
    schemas: Schemas, row: Mapping[str, object], asked: TaskAsked
) -> tuple[FieldConflict, ...]:
    """Return the current conflicting changes, if a form was refused for such.

    The displayed values become the values that the next form was based on: no change in between is
    lost.
    """
    if asked.outcome is None or asked.typed is None or not asked.outcome.conflicts:
        return ()
    schema = schemas.get(UPDATE if asked.opened else ENRICH, {})
    known = [one for one in asked.outcome.conflicts if one.label == STATUS]
    found = conflicts(schema, row, asked.typed)
    return (*(replace(one, now=line(row["status"])) for one in known), *found)


def _enriched(
    schemas: Schemas, row: Mapping[str, object], typed: Form | None
) -> tuple[EditField, ...]:
    """Return the fields that make a draft ready; none for any other task."""
    return fields_for(schemas.get(ENRICH, {}), row, typed) if row["status"] == "draft" else ()


def _questions(root: Path, task: int) -> list[OpenQuestion]:
    """Return the open question of a task; empty without a ledger that has questions."""
    with suppress(ProjectError):
        return [one for one in open_questions(root) if one.task == task]
    return []


def _prefilled(field: EditField, form: Form) -> EditField:
    return replace(field, text=(*form.texts(field.name)[-1:], "")[0])


def _first_statuses(properties: Mapping[str, Any]) -> tuple[EditField, ...]:
    """Return the field for the status that a new task begins with."""
    choices = tuple(map(str, properties.get("status", {}).get("enum", ())))
    return (EditField("status", "choice", choices=choices),) if choices else ()


def _properties(schemas: Schemas, tool: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schemas.get(tool, {}).get("properties", {})
    return found


def _task(request: Request) -> int:
    """Return the task that an address names; refuses ids that no database can store."""
    task: int = request.path_params["task"]
    if task > LARGEST_ID:
        raise HTTPException(404, "there is no such task")
    return task
