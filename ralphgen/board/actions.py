"""The decisions of the user on tasks, each by the form of a page; the board adds no rules."""

import json
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from typing import Any

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
from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.live import in_thread
from ralphgen.board.render import Desk
from ralphgen.board.text import (
    WAS,
    ActionResult,
    FieldProblem,
    Form,
    fieldless,
    form_of,
    line,
    query_of,
    wants_json,
)
from ralphgen.emit.trust import check_items, require_trust
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.undo import undo_session
from ralphgen.loop.kept import drop_kept, kept_branches
from ralphgen.loop.revert import WorkPreview, preview, then_of, undo_work
from ralphgen.project.database import open_database
from ralphgen.project.root import FOLDER, project_place
from ralphgen.runtime.policy import FULL, NOTHING
from ralphgen.runtime.tasks.rows import decode_integers, decode_strings, plain
from ralphgen.sessions import reviews
from ralphgen.sessions.decide import Request as SessionRequest
from ralphgen.sessions.decide import RowAsRead
from ralphgen.sessions.questions import answer_question, name_of_user

NEVER = ("id", "task_id", "clear", "status")
"""Arguments without a field to edit; the status has a separate form."""
ONE_LINE = ("title", "author")
RUN_CHECKS = "run_checks"
CREATE, UPDATE, SET_STATUS, COMMENT = (
    "create_task",
    "update_task",
    "set_task_status",
    "add_task_comment",
)
LARGEST_ID = 2**63 - 1
STUCK = "blocked in_progress"  # statuses of tasks to retry or skip; agents may have left one
MOST_BACK = 100  # decisions that can be undone
MOST_NAMES = 1_000  # features that a form offers
TRIES = 5  # attempts at a change, if the same fields keep changing
PRIORITIES = ("low", "medium", "high", "critical")
UNPROVED = re.compile(r"task \d+ is not proved|checks? .* (?:has|have) not passed", re.IGNORECASE)
_UNSPEAKABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}
Row = Mapping[str, Any]
Schemas = Mapping[str, Record]
"""The input schema of each tool, by its name."""
Tell = Callable[[ActionResult], None]
Back = Callable[[], None]
"""Takes a decision back; raises `RalphgenError` if that is impossible by now."""


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


def fields_for(
    schema: Mapping[str, Any], row: Row, given: Form | None = None
) -> tuple[EditField, ...]:
    """Return the fields that a tool can set, with the values of a row or of a form.

    `schema` is the input schema of the tool. A field that the form did not change has the stored
    value.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    needed = schema.get("required", ())
    found = []
    for name, rule in properties.items():
        if name in NEVER:
            continue
        stored = spelled(row.get(stored_column(name, rule)), rule)
        choices = tuple(map(str, rule.get("enum", ())))
        field = EditField(name, _kind(name, rule, stored), stored, stored, choices, name in needed)
        if given is not None:
            read = _said(given, f"{WAS}{name}", stored)
            text = _said(given, name, read)
            field = replace(field, text=stored if text == read else text)
        found.append(field)
    return tuple(found)


def conflicts(schema: Mapping[str, Any], row: Row, given: Form) -> tuple[FieldConflict, ...]:
    """Return the fields of a form whose stored values have changed since they were read."""
    found = (
        FieldConflict(one.label, _said(given, f"{WAS}{one.name}", one.was), one.was, typed_text)
        for one in fields_for(schema, row)
        for typed_text in [_said(given, one.name, one.was)]
    )
    return tuple(one for one in found if one.now not in (one.read, one.typed))


def _said(given: Form, name: str, other: str = "") -> str:
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
    parts = re.split(r"[\s,;#]+", text) if items.get("type") == "integer" else text.split("\n")
    return [typed({"": part.strip()}, {"": items})[""] for part in parts if part.strip()]


def changes_of_form(schema: Mapping[str, Any], row: Row, given: Form) -> dict[str, Any]:
    """Return the arguments that give a row the values of a form: only the changed ones."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    changes: dict[str, Any] = {}
    emptied: list[str] = []
    for field in fields_for(schema, row):
        text = _said(given, field.name, field.text)
        if text == field.text:
            continue
        if not text.strip() and "clear" in properties and field.name != "title":
            emptied.append(field.name)
        else:
            changes[field.name] = value_of(text, properties[field.name])
    return {**changes, "clear": emptied} if emptied else changes


def given_values(schema: Mapping[str, Any], given: Form) -> dict[str, Any]:
    """Return the arguments that a form fills in; an empty field is left out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    texts = {name: _said(given, name) for name in properties}
    return {name: value_of(text, properties[name]) for name, text in texts.items() if text.strip()}


def stored_task(rows: Rows, task: int) -> dict[str, Any] | None:
    """Return a stored task without hidden columns, or None if there is none."""
    columns = [*rows.tables["tasks"].columns]
    found = rows.read("tasks", columns, "WHERE id = ?", task)
    return dict(zip(columns, found[0], strict=True)) if found else None


class TaskActions:
    """Changes tasks of the project in `root`, one change after the other, in any thread.

    Fields are changed by the tools of its server, with the user's rights: the tools' rules and
    refusals apply, and the ledger records the user's session. All methods raise `RalphgenError`
    for a refusal.
    """

    def __init__(self, root: Path) -> None:
        """Start with no schemas, and no decision to undo."""
        self.root = root
        self._acting = Lock()
        self._asking = Lock()
        self._known: tuple[object, Schemas] = (None, {})
        self._back: OrderedDict[str, Back] = OrderedDict()
        self._jobs: dict[int, Thread] = {}

    def schemas(self) -> Schemas:
        """Return the input schemas of the current server, which is queried once."""
        with self._asking:
            written = self._written()
            if self._known[0] != written:
                with self._tools(UPDATE) as (tools, _):
                    self._known = written, tools.tools()
            return self._known[1]

    def properties(self, tool: str) -> Mapping[str, Any]:
        """Return the arguments of a tool, with their schemas; empty if it is missing."""
        found: Mapping[str, Any] = self.schemas().get(tool, {}).get("properties", {})
        return found

    def _written(self) -> int:
        """Return the time when the server was written, 0 if there is none."""
        try:
            return (self.root / FOLDER / MANIFEST).stat().st_mtime_ns
        except OSError:
            return 0

    def row(self, task: int) -> Row:
        """Return a task's stored values; empty without a task, which the tool then reports."""
        with Project(self.root).task_rows() as (rows, _):
            return stored_task(rows, task) or {}

    def accept(self, tasks: Sequence[int]) -> ActionResult:
        """Accept the finished work on tasks, all or none."""
        with self._acting:
            session, new = reviews.accept(self.root, tasks)
        if not new:
            return ActionResult(True, f"{_named(tasks)} was accepted before")
        return self._decided(f"{_named(tasks)} accepted", session)

    def send_back(self, task: int, note: str) -> ActionResult:
        """Send finished work back with a note."""
        with self._acting:
            session = reviews.send_back(self.root, task, note)
        return self._decided(f"#{task} sent back with your note", session)

    def answer(self, task: int, form: Form) -> ActionResult:
        """Answer the open question of a task with an option or a text."""
        text = _said(form, "option") or _said(form, "answer").strip()
        number = _said(form, "question")
        with self._acting:
            answer_question(self.root, task, text, int(number) if number.isdecimal() else None)
        return ActionResult(True, f"#{task} answered; agents can take it again")

    def move_status(
        self,
        tasks: Sequence[int],
        kind: str,
        statuses: tuple[str, str],
        message: str,
        note: str = "",
    ) -> ActionResult:
        """Move tasks from one status to another, all or none."""
        with self._acting:
            session = reviews.set_statuses(self.root, tasks, kind, statuses, note)
        return self._decided(f"{_named(tasks)} {message}", session)

    def drop(self, task: int) -> ActionResult:
        """Delete the kept work on a task; a comment keeps its commit, and the task starts anew."""
        found = kept_branches(self.root, task)
        if not found:
            raise ProjectError(f"there is no kept work on task {task}")
        name, commit = next(iter(found.items()))
        command = f"git branch {shlex.quote(name)} {commit}"
        with self._acting:
            note = f"The kept work was dropped. To get it back: {command}"
            reviews.set_statuses(self.root, [task], "drop", ("blocked", "pending"), note)
            drop_kept(self.root, task)
        return ActionResult(True, f"#{task}: the work was dropped", (f"to get it back: {command}",))

    def keep(self, task: int, form: Form) -> ActionResult:
        """Make a draft a task, with the priority, feature and discipline of a form."""
        schema, row = self.schemas().get(UPDATE, {}), self.row(task)
        changes = changes_of_form(schema, row, form)
        edited = ""
        if changes:
            with self._acting, self._tools(UPDATE) as (tools, edited):
                tools.ask(UPDATE, id=task, **changes)
        done = self.move_status([task], "keep", ("draft", "pending"), "kept as a task")
        if edited:  # both sessions are one decision
            self._remember(done.undo, lambda: self._undo(done.undo, edited))
        return done

    def move(self, task: int, place: int | None) -> ActionResult:
        """Put a task at a place among the ready ones; None returns it to the usual order."""
        with self._acting:
            before = reviews.order_of(self.root)
            ready = reviews.move_task(self.root, task, place)
        token = f"move-{len(self._back)}-{task}-{sha256(repr(before).encode()).hexdigest()[:8]}"
        self._remember(token, lambda: reviews.set_order(self.root, before))
        if task in ready:
            text = f"#{task} is number {ready.index(task) + 1} in the order"
        else:
            text = f"#{task} keeps its place until it is ready"
        return ActionResult(True, text, undo=token)

    def take_back(self, token: str) -> ActionResult:
        """Undo a decision of this board, named by its session."""
        back = self._back.get(token)
        if back is None:
            raise ProjectError(
                "this board has no such decision to undo",
                f'"ralphgen undo {line(token)}" undoes a session',
            )
        with self._acting:
            back()
        self._back.pop(token, None)
        return ActionResult(True, "Undone")

    def create(self, form: Form) -> ActionResult:
        """Add the task that a form describes."""
        with self._acting, self._tools(CREATE) as (tools, _):
            answer = tools.ask(CREATE, **given_values(tools.tools()[CREATE], form))
        return ActionResult(True, f"#{answer['id']} added", then=f"/tasks/{answer['id']}")

    def create_quickly(self, text: str) -> ActionResult:
        """Add the task of a line, such as `title #feature @discipline !high`."""
        with Project(self.root).task_rows() as (rows, _):
            features = [name for (name,) in rows.read("features", ["name"], "ORDER BY name")]
        names = {
            "#": features,
            "@": [row.name for row in read_disciplines(self.root).rows],
            "!": [*PRIORITIES],
        }
        words, marked = _marked(text, names)
        given = {
            "title": words,
            "feature": marked.get("#", features[0] if len(features) == 1 else ""),
            "discipline": marked.get("@", names["@"][0] if len(names["@"]) == 1 else ""),
            "priority": marked.get("!", ""),
        }
        missing = [f"{sign}{name}" for sign, name in (("#", "feature"), ("@", "discipline"))]
        lacking = [one for one in missing if not given[one[1:]]]
        if lacking:
            raise ProjectError(f"add {' and '.join(lacking)} to the line")
        with self._acting, self._tools(CREATE) as (tools, _):
            known = tools.tools()[CREATE].get("properties", {})
            fields = {name: value for name, value in given.items() if value and name in known}
            answer = tools.ask(CREATE, **fields)
        return ActionResult(True, f"#{answer['id']} added: {line(answer['status'])}")

    def edit(self, task: int, form: Form) -> ActionResult:
        """Change the fields that differ; change nothing if there are conflicts.

        It is tried again if the row changes before the tool runs.
        """
        schema, row = self.schemas().get(UPDATE, {}), self.row(task)
        for _ in range(TRIES):
            if found := conflicts(schema, row, form):
                return _conflicting(found)
            changes = changes_of_form(schema, row, form)
            if not changes:
                return ActionResult(True, f"#{task}: nothing to change")
            read = _columns_read(schema, row, form)
            try:
                with self._acting, self._tools(UPDATE, task, read) as (tools, session):
                    answer = tools.ask(UPDATE, id=task, **changes)
            except RefusalError:
                before, row = row, self.row(task)
                if row == before:
                    raise
                continue
            named = ", ".join(answer.get("changed", ())) or "nothing"
            return self._decided(f"#{task}: changed {named}", session)
        raise ProjectError(f"task {task} keeps changing: load the page again")

    def set_status(self, task: int, form: Form) -> ActionResult:
        """Set a task's status, if it is still the one that was read."""
        row = self.row(task)
        now, new = line(row.get("status")), form.text("status")
        read = _said(form, f"{WAS}status", now)
        if read != now:
            return _overtaken(now)
        words = {name: _said(form, name).strip() for name in ("reason", "summary", "because")}
        known = {name: plain(row[name]) for name in ("status",) if name in row}
        try:
            with self._acting, self._tools(SET_STATUS, task, known) as (tools, session):
                force = bool(form.texts("force")) or bool(words["because"])
                answer = tools.set_status(task, new, words, force=force)
        except RefusalError as error:
            if new == "done" and any(UNPROVED.search(one.text) for one in error.problems):
                shown = tuple(FieldProblem("", one.text) for one in error.problems)
                ask = f"/tasks/{task}/status?to=done"
                return ActionResult(False, "Not proved yet", (), shown, dialog=ask)
            later = line(self.row(task).get("status"))
            if later == now:
                raise
            return _overtaken(later)
        lines = [f"warning: {one}" for one in answer.get("warnings", ())]
        lines += map(str, answer.get("told", ()))
        done = self._decided(f"#{task}: {line(answer['old'])} → {line(answer['new'])}", session)
        return replace(done, lines=tuple(map(line, lines)))

    def comment(self, task: int, form: Form) -> ActionResult:
        """Add a comment to a task, signed by the user."""
        with self._acting, self._tools(COMMENT) as (tools, _):
            tools.comment(task, form.text("body"), author=name_of_user(self.root))
        return ActionResult(True, f"Comment added to #{task}")

    def preview(self, task: int) -> WorkPreview:
        """Return what undoing the work on a task would revert and keep."""
        return preview(self.root, self._finished_by(task))

    def undo_work(self, task: int, form: Form, tell: Tell) -> ActionResult:
        """Begin to undo the work on a task: the checks may take long; `tell` gets the result."""
        session, then = form.text("session"), form.text("then")
        if session != self._finished_by(task):
            raise ProjectError(f"another session has finished task {task} since: look at it first")
        code = bool(form.texts("code"))
        found = preview(self.root, session, code=code)
        if found.refusal is not None:
            raise ProjectError(found.refusal.text, found.refusal.hint)
        self._begin(task, partial(self._undo_work, task, session, then, tell, code=code))
        return ActionResult(True, f"#{task}: undoing the work; its checks run first")

    def check(self, task: int, tell: Tell) -> ActionResult:
        """Begin to run the checks of a task, and close it if they pass; `tell` gets the result."""
        require_trust(self.root, check_items(read_settings(self.root).done), lambda _shown: False)
        self._begin(task, partial(self._check, task, tell))
        return ActionResult(True, f"#{task}: its checks run; it is closed if they pass")

    def _begin(self, task: int, work: Callable[[], None]) -> None:
        """Do long work on a task in a thread; refuse more than one at a time."""
        if any(job.is_alive() for job in self._jobs.values()):
            raise ProjectError("checks of this board run already", "wait until they have ended")
        self._jobs = {task: Thread(target=work, daemon=True)}
        self._jobs[task].start()

    def _check(self, task: int, tell: Tell) -> None:
        try:
            with self._tools(RUN_CHECKS) as (tools, _):
                answer = tools.ask(RUN_CHECKS, task=task)
            if answer["passed"]:
                tell(self.set_status(task, Form((("status", "done"),))))
                return
        except RalphgenError as error:
            problems = fieldless(error.problems)
            tell(ActionResult(False, f"#{task}: its checks did not run", (), problems))
            return
        failed = ", ".join(line(one["name"]) for one in answer["checks"] if one["exit_code"])
        text = f"#{task} is not closed: {failed or 'not every check'} failed"
        told = tuple(line(answer[key], 500) for key in ("not_proved", "note") if key in answer)
        tell(ActionResult(False, text, told))

    def is_checking(self, task: int) -> bool:
        """Return whether checks of this board run for a task, also those of an undo."""
        return task in self._jobs and self._jobs[task].is_alive()

    def _undo_work(self, task: int, session: str, then: str, tell: Tell, *, code: bool) -> None:
        try:
            status = then_of(self.root, then)
            done = undo_work(self.root, session, code=code, then=status, say=_unsaid)
        except RalphgenError as error:
            problems = fieldless(error.problems)
            tell(ActionResult(False, f"#{task}: the work was not undone", (), problems))
            return
        reverted = f"; the code is reverted as {done.revert[:7]}" if done.revert else ""
        lines = (f'"ralphgen undo {done.rows.session}" brings the rows back',)
        tell(ActionResult(True, f"#{task} undone{reverted}; it is {done.status or 'gone'}", lines))

    def _finished_by(self, task: int) -> str:
        """Return the session that finished a task last."""
        with open_database(self.root) as connection:
            row = connection.row(reviews.FINISHED, [task])
        if row is None:
            raise ProjectError(f"no session on record has finished task {task}")
        return str(row[0])

    def _decided(self, message: str, session: str) -> ActionResult:
        self._remember(session, lambda: self._undo(session))
        return ActionResult(True, message, undo=session)

    def _remember(self, token: str, back: Back) -> None:
        self._back[token] = back
        if len(self._back) > MOST_BACK:
            self._back.popitem(last=False)

    def _undo(self, *sessions: str) -> None:
        for session in sessions:
            undone = undo_session(self.root, session)
            left = [one.left for one in undone.rows if one.left]
            if left:
                raise ProjectError(f"the decision was not undone in full: {left[0]}")

    @contextmanager
    def _tools(
        self, tool: str, task: int = 0, read: Mapping[str, object] = NOTHING
    ) -> Iterator[tuple[RowTools, str]]:
        """Yield the tools and their session; they write nothing once a task is not as `read`."""
        request = SessionRequest(FULL, as_read=RowAsRead("task", task, read) if read else None)
        place = project_place(self.root)
        with open_server(
            place, KIT, tool, request, trust_edited=False, say=_unsaid, apart=True
        ) as server:
            yield RowTools(server), server.session


def _columns_read(schema: Mapping[str, Any], row: Row, given: Form) -> dict[str, object]:
    """Return the values of a row in the columns of a form's fields, for `RowAsRead`."""
    names = {name.removeprefix(WAS) for name in given.names}.difference(NEVER)
    properties: Mapping[str, Any] = schema.get("properties", {})
    columns = (stored_column(name, properties[name]) for name in properties if name in names)
    return {column: plain(row[column]) for column in columns if column in row}


def _conflicting(found: Sequence[FieldConflict]) -> ActionResult:
    """Return the result of an edit that comes second, with the values of both."""
    names = ", ".join(one.label.lower() for one in found)
    lines = tuple(
        f'{one.label}: it was "{line(one.read)}", it is "{line(one.now)}", '
        f'you typed "{line(one.typed)}"'
        for one in found
    )
    text = f"Somebody else has changed the {names}; nothing was saved"
    return ActionResult(False, text, lines, stale=True)


def _overtaken(status: str) -> ActionResult:
    """Return the result of a status that comes second."""
    text = f"Somebody else has set the status to {status}; nothing was changed"
    return ActionResult(False, text, stale=True)


def _marked(text: str, names: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, str]]:
    """Return a line without its marked words, and the marked names by their sign.

    Raises `ProjectError` for an unknown name; a sign before no name is part of the title.
    """
    marked: dict[str, str] = {}
    words = []
    for word in text.split():
        sign, name = word[0], word[1:]
        if sign not in names or not name or name.isdecimal():
            words.append(word)
            continue
        found = [one for one in names[sign] if one.casefold().startswith(name.casefold())]
        exact = [one for one in found if one.casefold() == name.casefold()]
        if len(exact or found) != 1:
            near = ", ".join((found or [*names[sign]])[:8])
            raise ProjectError(f'"{line(word)}" names none of: {near}')
        marked[sign] = (exact or found)[0]
    if not words:
        raise ProjectError("the title must not be blank")
    return " ".join(words), marked


def _named(tasks: Sequence[int]) -> str:
    return f"#{tasks[0]}" if len(tasks) == 1 else f"{len(tasks)} tasks"


def _unsaid(_: str) -> None:
    """Ignore a command's messages, which would go to the terminal of the board."""


class TaskRoutes:
    """The responses at the addresses of decisions."""

    def __init__(self, desk: Desk) -> None:
        """Act on the tasks of the desk's project."""
        self._desk = desk
        self._root = desk.root
        self.actions = TaskActions(desk.root)

    def decision(
        self, act: Callable[[int, Form], ActionResult], then: str = "/"
    ) -> Callable[[Request], Any]:
        """Return the response to a decision on one task; a plain form leads to `then` next."""

        async def post(request: Request) -> Response:
            task = _task(request)
            return await self._desk.decide(request, partial(act, task), then.format(task=task))

        return post

    def several(self, act: Callable[[list[int]], ActionResult]) -> Callable[[Request], Any]:
        """Return the response to a decision on the tasks that a form names."""

        async def post(request: Request) -> Response:
            return await self._desk.decide(request, lambda form: act(_ids(form)), "/")

        return post

    async def undo_decision(self, request: Request) -> Response:
        """Undo a decision of this board."""
        token = request.path_params["token"]
        return await self._desk.decide(request, lambda _: self.actions.take_back(token), "/")

    def dialog(self, kind: str) -> Callable[[Request], Any]:
        """Return the response with a form on a task."""

        async def show(request: Request) -> Response:
            task = _task(request)
            return await self._form(request, kind, task)

        return show

    async def _form(
        self,
        request: Request,
        kind: str,
        task: int,
        outcome: ActionResult | None = None,
        typed_form: Form | None = None,
    ) -> Response:
        def read() -> Mapping[str, object]:
            row = self.actions.row(task)
            if not row:
                raise HTTPException(404, f"there is no task {task}")
            fields: tuple[EditField, ...] = ()
            statuses: tuple[str, ...] = ()
            if kind == "edit":
                fields = fields_for(self.actions.schemas().get(UPDATE, {}), row, typed_form)
            if kind == "status":
                rule = self.actions.properties(SET_STATUS).get("status", {})
                statuses = tuple(map(str, rule.get("enum", ())))
            return {
                "kind": kind,
                "task": task,
                "title": f"#{task} {line(row.get('title'))}",
                "status": line(row.get("status")),
                "statuses": statuses,
                "to": query_of(request).get("to", ""),
                "fields": fields,
                "work": self.actions.preview(task) if kind == "undo" else None,
                "checks": checks_of(self._root, str(row.get("discipline"))),
                "typed": {} if typed_form is None else _texts(typed_form),
            }

        return await self._desk.page(
            request, "dialog.html.jinja", read, title=f"Task {task}", outcome=outcome
        )

    async def edit(self, request: Request) -> Response:
        """Save the form of a task; after a conflict, show both values and what is typed."""
        task, form = _task(request), await form_of(request)

        def act() -> ActionResult:
            try:
                return self.actions.edit(task, form)
            except RalphgenError as error:
                return ActionResult(False, "Nothing was saved", (), fieldless(error.problems))

        outcome = await in_thread(act)
        if outcome.ok or wants_json(request):
            return self._desk.answered(request, outcome, f"/tasks/{task}")
        return await self._form(request, "edit", task, outcome, form)

    async def new(self, request: Request, outcome: ActionResult | None = None) -> Response:
        """Show the form for a new task."""
        return await self._new(request, outcome, None)

    async def _new(
        self, request: Request, outcome: ActionResult | None, typed_form: Form | None
    ) -> Response:
        def read() -> Mapping[str, object]:
            with Project(self._root).task_rows() as (rows, _):
                stored = rows.read("features", ["name"], "ORDER BY name LIMIT ?", MOST_NAMES)
            names = {
                "feature": tuple(name for (name,) in stored if isinstance(name, str)),
                "discipline": tuple(row.name for row in read_disciplines(self._root).rows),
            }
            given = typed_form or Form(tuple(query_of(request).items()))
            fields = [
                replace(
                    one,
                    text=_said(given, one.name),
                    choices=names.get(one.name, one.choices),
                    kind="choice" if names.get(one.name, one.choices) else one.kind,
                )
                for one in fields_for(self.actions.schemas().get(CREATE, {}), {})
            ]
            fields.sort(key=lambda one: (one.name != "title", not one.needed))
            return {"kind": "new", "task": 0, "fields": tuple(fields)}

        return await self._desk.page(
            request, "dialog.html.jinja", read, title="New task", outcome=outcome
        )

    async def create(self, request: Request) -> Response:
        """Add a task, from a line or from a form; a refused form keeps what is typed."""
        form = await form_of(request)

        def act() -> ActionResult:
            try:
                if form.texts("line"):
                    return self.actions.create_quickly(form.text("line"))
                return self.actions.create(form)
            except RalphgenError as error:
                return ActionResult(False, "No task was added", (), fieldless(error.problems))

        outcome = await in_thread(act)
        if outcome.ok or wants_json(request) or form.texts("line"):
            return self._desk.answered(request, outcome, outcome.then or "/tasks")
        return await self._new(request, outcome, form)


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of all decisions on tasks."""
    own = TaskRoutes(desk)
    does = own.actions
    desk.board.is_checking = does.is_checking

    def moved(kind: str, old: str, new: str, text: str) -> Callable[[list[int]], ActionResult]:
        return lambda tasks: does.move_status(tasks, kind, (old, new), text)

    def retry(task: int, form: Form) -> ActionResult:
        note = _said(form, "note")
        return does.move_status([task], "retry", (STUCK, "pending"), "can be taken again", note)

    def resolve(task: int, _: Form) -> ActionResult:
        text = "is ready: an agent will resolve the conflict"
        return does.move_status([task], "resolve", ("blocked", "pending"), text)

    def skip(task: int, _: Form) -> ActionResult:
        return does.move_status([task], "skip", (STUCK, "skipped"), "skipped")

    keep_all = moved("keep", "draft", "pending", "kept")
    dismiss_all = moved("dismiss", "draft", "skipped", "dismissed")
    one: Mapping[str, Callable[[int, Form], ActionResult]] = {
        "accept": lambda task, _: does.accept([task]),
        "send-back": lambda task, form: does.send_back(task, form.text("note")),
        "undo": lambda task, form: does.undo_work(task, form, desk.tell),
        "answer": does.answer,
        "resolve": resolve,
        "drop": lambda task, _: does.drop(task),
        "retry": retry,
        "skip": skip,
        "keep": does.keep,
        "dismiss": lambda task, _: dismiss_all([task]),
    }
    stays: Mapping[str, Callable[[int, Form], ActionResult]] = {
        "status": does.set_status,
        "comments": does.comment,
        "check": lambda task, _: does.check(task, desk.tell),
        "move": lambda task, form: does.move(task, _place(form)),
    }
    many: Mapping[str, Callable[[list[int]], ActionResult]] = {
        "accept": does.accept,
        "keep": keep_all,
        "dismiss": dismiss_all,
        "retry": moved("retry", STUCK, "pending", "can be taken again"),
        "skip": moved("skip", STUCK, "skipped", "skipped"),
    }
    return [
        Route("/tasks", own.create, methods=["POST"]),
        Route("/tasks/new", own.new, methods=["GET"]),
        Route("/decisions/{token}/undo", own.undo_decision, methods=["POST"]),
        Route("/tasks/{task:int}/edit", own.edit, methods=["POST"]),
        *(
            Route(f"/tasks/{{task:int}}/{kind}", own.dialog(kind), methods=["GET"])
            for kind in ("send-back", "undo", "status", "edit", "comments")
        ),
        *(
            Route(f"/tasks/{{task:int}}/{name}", own.decision(act), methods=["POST"])
            for name, act in one.items()
        ),
        *(
            Route(
                f"/tasks/{{task:int}}/{name}",
                own.decision(act, "/tasks" if name == "move" else "/tasks/{task}"),
                methods=["POST"],
            )
            for name, act in stays.items()
        ),
        *(
            Route(f"/inbox/{name}", own.several(act), methods=["POST"])
            for name, act in many.items()
        ),
    ]


def checks_of(root: Path, discipline: str) -> tuple[tuple[str, str], ...]:
    """Return the checks for tasks of a discipline: the name and the command of each."""
    return tuple(
        (check.name, shlex.join(check.run) if check.run else f"the task {check.dela} of dela")
        for check in read_settings(root).done.checks
        if not check.disciplines or discipline in check.disciplines
    )


def _texts(form: Form) -> Mapping[str, str]:
    return {name: _said(form, name) for name in form.names}


def _task(request: Request) -> int:
    """Return the task that an address names; refuses ids that no database can store."""
    task: int = request.path_params["task"]
    if task > LARGEST_ID:
        raise HTTPException(404, "there is no such task")
    return task


def _ids(form: Form) -> list[int]:
    """Return the tasks that a form names, at least one."""
    found = [int(one) for one in form.texts("id") if re.fullmatch("[0-9]{1,18}", one)]
    if not found:
        raise ProjectError("no task is selected")
    return [*dict.fromkeys(found)]


def _place(form: Form) -> int | None:
    """Return the place that a form gives a task; None for its usual one."""
    text = _said(form, "place")
    if text and not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ProjectError("the place must be a whole number of at least 1")
    return int(text) if text else None
