"""The decisions of the user on tasks, each by the form of a page; the board adds no rules."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from threading import Lock, Thread
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents import calls
from ralphgen.board.live import Board, names_in
from ralphgen.board.render import Act, Desk, attempt
from ralphgen.board.text import WAS, ActionResult, EditField, Form, Rule, form_of, line
from ralphgen.emit.trust import require_trust, run_check_items
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.record import FINISHED
from ralphgen.ledger.undo import undo_session
from ralphgen.loop.kept import branches_of_kept_work, drop_kept_work
from ralphgen.loop.revert import preview, take_out, then_of, undo_work
from ralphgen.project.database import open_database
from ralphgen.project.root import project_place
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.policy import FULL, NOTHING
from ralphgen.runtime.tasks import decode_integers, decode_strings, plain
from ralphgen.sessions import reviews
from ralphgen.sessions.decide import Request as SessionRequest
from ralphgen.sessions.decide import RowAsRead
from ralphgen.sessions.questions import answer_question, name_of_user

Row = Mapping[str, Any]
Values = Mapping[str, object]
STUCK = "blocked in_progress"  # agents may have left a task in progress
MOVES = {  # by decision: the statuses that it is for, the new one, and words for the result
    "keep": ("draft", "pending", "kept"),
    "dismiss": ("draft", "skipped", "dismissed"),
    "resolve": ("blocked", "pending", "is ready: an agent will resolve the conflict"),
    "retry": (STUCK, "pending", "can be taken again"),
    "skip": (STUCK, "skipped", "skipped"),
}
DECISIONS = ("accept", *MOVES)  # on one task or several
FORMS = ("send-back", "undo", "status", "comments")
DIALOG = "dialog.html.jinja"
PRIORITIES = ("low", "medium", "high", "critical")
NAMED = {"feature": "features", "discipline": "disciplines"}  # columns, with tables of their names
SIGNS = {"#": "feature", "@": "discipline", "!": "priority"}  # in the line of a new task
APART = ("id", "task_id", "clear", "status")  # arguments without a field to edit
CREATE, UPDATE, SET_STATUS = "create_task", "update_task", "set_task_status"
COMMENT, RUN_CHECKS = "add_task_comment", "run_checks"
LARGEST_ID = 2**63 - 1
MOST_NAMES = 1_000  # features that a form offers
UNPROVED = re.compile(r"task \d+ is not proved|checks? .* (?:has|have) not passed", re.IGNORECASE)
_UNSPEAKABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


def edit_fields(schema: Rule, row: Row, form: Form) -> tuple[EditField, ...]:
    """Return the fields that a tool can set, by its input schema."""
    return tuple(
        EditField(name, rule, stored, needed=name in schema.get("required", ())).typed(form)
        for name, rule in schema.get("properties", {}).items()
        if name not in APART
        for stored in [as_text(row.get(calls.stored_column(name, rule)), rule)]
    )


def changes_of(schema: Rule, fields: Sequence[EditField]) -> calls.Record:
    """Return the arguments that give a row the typed values: only the changed ones."""
    changed = [one for one in fields if one.text != one.was]
    can_clear = "clear" in schema.get("properties", {})
    emptied = [
        one.name for one in changed if can_clear and one.name != "title" and not one.text.strip()
    ]
    values = {one.name: value_of(one.text, one.rule) for one in changed if one.name not in emptied}
    return {**values, "clear": emptied} if emptied else values


def as_text(value: object, rule: Rule) -> str:
    """Return a stored value in the format of a form: a list has one item per line, or is JSON."""
    text = "" if value is None else str(plain(value))
    if rule.get("type") == "array":
        has_ids = _has_ids(rule)
        found = decode_integers(value) if has_ids else decode_strings(value)
        items = list(map(str, found.values))
        if found.readable:
            text = (", " if has_ids else "\n").join(items)
        if not has_ids and items and (text.startswith("[") or text.split("\n") != _parts(text)):
            text = json.dumps(items, ensure_ascii=False)
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSPEAKABLE)


def value_of(text: str, rule: Rule) -> object:
    """Return the value of a typed text; the tool reports a value of the wrong type."""
    if rule.get("type") != "array" or text.lstrip().startswith("["):
        return calls.typed({"": text}, {"": rule})[""]
    parts = re.split(r"[\s,;#]+", text) if _has_ids(rule) else _parts(text)
    return [calls.typed({"": part}, {"": rule.get("items", {})})[""] for part in parts if part]


def _parts(text: str) -> list[str]:
    return [part for one in text.split("\n") if (part := one.strip())]


def _has_ids(rule: Rule) -> bool:
    return bool(rule.get("items", {}).get("type") == "integer")


def stored_task(rows: Rows, task: int) -> dict[str, Any] | None:
    """Return a stored task without hidden columns, or None if there is none."""
    columns = [*rows.tables["tasks"].columns]
    found = rows.read("tasks", columns, "WHERE id = ?", task)
    return dict(zip(columns, found[0], strict=True)) if found else None


class TaskActions:
    """Changes tasks of the project of a board, in any thread; a refusal is a `RalphgenError`.

    The tools of its server change fields, with the user's rights, and the ledger records it.
    Results of long work go to `tell`.
    """

    def __init__(self, board: Board, tell: Callable[[ActionResult], None]) -> None:
        """Start with no decision to undo."""
        self.root = board.root
        self._board, self._tell = board, tell
        self._undos: dict[str, Callable[[], object]] = {}
        self._job: tuple[int, Callable[[], bool]] = 0, lambda: False  # a task, and if it runs
        self._starts = Lock()

    def schema(self, tool: str) -> Rule:
        """Return the input schema of a tool, empty if it is missing; a server is asked once."""

        def tool_schemas(_: Path) -> Mapping[str, calls.Record]:
            with self._tools(UPDATE) as (tools, _session):
                return tools.tools()

        return self._board.cached("drift", tool_schemas).get(tool, {})

    def row(self, task: int) -> Row:
        """Return a task's stored values; empty without a task, which the tool then reports."""
        with Project(self.root).task_rows() as (rows, _):
            return stored_task(rows, task) or {}

    def decide(
        self, kind: str, tasks: Sequence[int], note: str = "", words: str = ""
    ) -> ActionResult:
        """Accept the work on tasks, or move them to another status; all or none."""
        names = f"#{tasks[0]}" if len(tasks) == 1 else f"{len(tasks)} tasks"
        if kind == "accept":
            session, new = reviews.accept(self.root, tasks)
            if not new:
                return ActionResult(True, f"{names} was accepted before")
            return self._decided(f"{names} accepted", session)
        old, status, text = MOVES[kind]
        session = reviews.set_statuses(self.root, tasks, kind, (old, status), note)
        return self._decided(f"{names} {words or text}", session)

    def keep(self, task: int, form: Form) -> ActionResult:
        """Make a draft a task, with the priority, feature and discipline of a form."""
        edited = self.edit(task, form)
        if not edited.ok:
            return edited
        done = self.decide("keep", [task], words="kept as a task")
        sessions = filter(None, (done.undo, edited.undo))  # both sessions are one decision
        return self._decided(done.message, *sessions)

    def send_back(self, task: int, form: Form) -> ActionResult:
        """Send finished work back with a note, or begin to take its code out first."""
        note = form.text("note")
        if not form.texts("code"):
            session = reviews.send_back(self.root, task, note)
            return self._decided(f"#{task} sent back with your note", session)
        reviews.refuse_note(note)
        session = self._finished_by(task, form)

        def revert() -> ActionResult:
            commit = take_out(self.root, task, session, note, say=_ignore_message)
            code = f"the code is reverted as {commit[:7]}" if commit else "its code was out already"
            return ActionResult(True, f"#{task} sent back; {code}")

        self._begin(task, revert, "the work was not sent back")
        said = f"#{task}: taking the code out; its checks run first"
        return ActionResult(True, said, then=f"/tasks/{task}")  # nothing is decided yet

    def answer(self, task: int, form: Form) -> ActionResult:
        """Answer the open question of a task with an option or a text."""
        text = form.last("option") or form.last("answer").strip()
        number = form.last("question")
        answer_question(self.root, task, text, int(number) if number.isdecimal() else None)
        return ActionResult(True, f"#{task} answered; agents can take it again")

    def drop(self, task: int, _: Form) -> ActionResult:
        """Delete the kept work on a task; a comment keeps its commit, and the task starts again."""
        found = branches_of_kept_work(self.root, task)
        if not found:
            raise ProjectError(f"there is no kept work on task {task}")
        name, commit = next(iter(found.items()))
        command = f"git branch {shlex.quote(name)} {commit}"
        note = f"The kept work was dropped. To get it back: {command}"
        reviews.set_statuses(self.root, [task], "drop", ("blocked", "pending"), note)
        drop_kept_work(self.root, task)
        return ActionResult(True, f"#{task}: the work was dropped", (f"to get it back: {command}",))

    def move(self, task: int, form: Form) -> ActionResult:
        """Put a task at a place among the ready ones; without one, it gets its usual place."""
        place = form.last("place")
        if place and not re.fullmatch("[1-9][0-9]{0,8}", place):
            raise ProjectError("the place must be a whole number of at least 1")
        before = reviews.order_of(self.root)
        ready = reviews.move_task(self.root, task, int(place) if place else None)
        number = f"is number {ready.index(task) + 1} in the order" if task in ready else ""
        token = f"move-{token_hex(4)}"
        self._undos[token] = lambda: reviews.set_order(self.root, before)
        text = f"#{task} {number or 'keeps its place until it is ready'}"
        return ActionResult(True, text, undo=token)

    def undo(self, token: str) -> ActionResult:
        """Undo a decision of this board, named by its session."""
        if token not in self._undos:
            raise ProjectError(
                "this board has no such decision to undo",
                f'"ralphgen undo {line(token)}" undoes a session',
            )
        self._undos[token]()
        self._undos.pop(token, None)
        return ActionResult(True, "Undone")

    def create(self, form: Form) -> ActionResult:
        """Add the task of a form, or of a line such as `title #feature @discipline !high`."""
        given = {name: form.last(name) for name in form.names}
        if is_line := "line" in given:
            given = self._values_of_line(form.text("line"))
        with self._tools(CREATE) as (tools, _):
            rules = tools.properties(CREATE)
            values = {
                name: value_of(given[name], rule)
                for name, rule in rules.items()
                if given.get(name, "").strip()
            }
            answer = tools.ask(CREATE, **values)
        text = f"#{answer['id']} added"
        if is_line:
            return ActionResult(True, f"{text}: {line(answer['status'])}")
        return ActionResult(True, text, then=f"/tasks/{answer['id']}")

    def form(self, kind: str, task: int, typed_in: Form) -> Values:
        """Return the values of a form on a task; raises `HTTPException` if there is none."""
        if kind == "new":
            names, found = self._names(), edit_fields(self.schema(CREATE), {}, typed_in)
            fields = (
                replace(one, rule={**one.rule, "enum": known})
                if (known := names.get(one.name))
                else one
                for one in found
            )
            return {"fields": sorted(fields, key=lambda one: (one.name != "title", not one.needed))}
        row = self.row(task)
        if not row:
            raise HTTPException(404, f"there is no task {task}")
        values: dict[str, object] = {"title": f"#{task} {line(row.get('title'))}", "work": None}
        if kind == "edit":
            values["fields"] = edit_fields(self.schema(UPDATE), row, typed_in)
        elif kind == "undo":
            values["work"] = preview(self.root, self._finished_by(task))
        elif kind == "send-back":
            with suppress(RalphgenError, ToolError):  # such as finished by no session on record
                values["work"] = preview(self.root, self._finished_by(task))
        elif kind == "status":
            rules = self.schema(SET_STATUS).get("properties", {})
            checks, own = read_settings(self.root).done.checks, row.get("discipline")
            applied = [one for one in checks if not one.disciplines or own in one.disciplines]
            values["status"] = line(row.get("status"))
            values["statuses"] = rules.get("status", {}).get("enum", ())
            values["checks"] = [one.name for one in applied]
        return values

    def _names(self) -> Mapping[str, Sequence[str]]:
        """Return the features and disciplines that a task can have."""
        with Project(self.root).task_rows() as (rows, _):
            return {
                column: [*names_in(rows, table)][:MOST_NAMES] for column, table in NAMED.items()
            }

    def _values_of_line(self, text: str) -> dict[str, str]:
        """Return the fields of a new task; the only feature or discipline needs no mark."""
        names = self._names()
        found = {field: known[0] for field, known in names.items() if len(known) == 1}
        names = {**names, "priority": PRIORITIES}
        words = []
        for word in text.split():
            field, name = SIGNS.get(word[0], ""), word[1:].casefold()
            if not field or not name or name.isdecimal():
                words.append(word)
                continue
            near = [one for one in names[field] if one.casefold().startswith(name)]
            exact = [one for one in near if one.casefold() == name] or near
            if len(exact) != 1:
                known = ", ".join((near or names[field])[:8])
                raise ProjectError(f'"{line(word)}" names none of: {known}')
            found[field] = exact[0]
        if not words:
            raise ProjectError("the title must not be blank")
        missing = [sign + field for sign, field in SIGNS.items() if field not in found]
        if missing := [one for one in missing if one != "!priority"]:
            raise ProjectError(f"add {' and '.join(missing)} to the line")
        return {**found, "title": " ".join(words)}

    def edit(self, task: int, form: Form) -> ActionResult:
        """Change the fields that differ; change nothing if there are conflicts."""
        schema, row = self.schema(UPDATE), self.row(task)
        fields = edit_fields(schema, row, form)
        if found := [one for one in fields if one.has_conflict]:
            names = ", ".join(one.label.lower() for one in found)
            return _overtaken(f"changed the {names}; nothing was saved", map(_conflict, found))
        changes = changes_of(schema, fields)
        if not changes:
            return ActionResult(True, f"#{task}: nothing to change")
        columns = {calls.stored_column(one.name, one.rule) for one in fields if one.text != one.was}
        try:
            with self._tools(UPDATE, task, row, columns) as (tools, session):
                answer = tools.ask(UPDATE, id=task, **changes)
        except calls.RefusalError:
            if self.row(task) == row:
                raise
            return self.edit(task, form)  # the row has changed since it was read
        named = ", ".join(answer.get("changed", ())) or "nothing"
        return self._decided(f"#{task}: changed {named}", session)

    def set_status(self, task: int, form: Form) -> ActionResult:
        """Set a task's status, if it is still the one that was read."""
        row = self.row(task)
        now, new = line(row.get("status")), form.text("status")
        words = {name: form.last(name).strip() for name in ("reason", "summary", "because")}
        force = bool(form.texts("force") or words["because"])
        later = now
        try:
            if form.last(f"{WAS}status", now) == now:
                with self._tools(SET_STATUS, task, row, {"status"}) as (tools, session):
                    answer = tools.set_status(task, new, words, force=force)
                done = self._decided(
                    f"#{task}: {line(answer['old'])} → {line(answer['new'])}", session
                )
                lines = [f"warning: {one}" for one in answer.get("warnings", ())]
                lines += map(str, answer.get("told", ()))
                return replace(done, lines=tuple(map(line, lines)))
        except calls.RefusalError as error:
            if new == "done" and any(UNPROVED.search(one.text) for one in error.problems):
                ask = f"/tasks/{task}/status?to=done"
                return ActionResult(False, "Not proved yet", (), error.problems, dialog=ask)
            later = line(self.row(task).get("status"))
            if later == now:
                raise
        return _overtaken(f"set the status to {later}; nothing was changed")

    def comment(self, task: int, form: Form) -> ActionResult:
        """Add a comment to a task, signed by the user."""
        with self._tools(COMMENT) as (tools, _):
            tools.comment(task, form.text("body"), author=name_of_user(self.root))
        return ActionResult(True, f"Comment added to #{task}")

    def undo_work(self, task: int, form: Form) -> ActionResult:
        """Begin to undo the work on a task: the checks may take long."""
        session, code = self._finished_by(task, form), bool(form.texts("code"))
        if (refused := preview(self.root, session, code=code).refusal) is not None:
            raise ProjectError(refused.text, refused.hint)
        then = then_of(self.root, form.text("then"))

        def undo() -> ActionResult:
            done = undo_work(self.root, session, code=code, then=then, say=_ignore_message)
            reverted = f"; the code is reverted as {done.revert[:7]}" if done.revert else ""
            lines = (f'"ralphgen undo {done.rows.session}" brings the rows back',)
            text = f"#{task} undone{reverted}; it is {done.status or 'gone'}"
            return ActionResult(True, text, lines)

        self._begin(task, undo, "the work was not undone")
        return ActionResult(True, f"#{task}: undoing the work; its checks run first")

    def check(self, task: int, _: Form) -> ActionResult:
        """Begin to run the checks of a task, and close it if they pass."""
        done = read_settings(self.root).done
        require_trust(self.root, run_check_items(done, self.root), lambda _shown: False)

        def check() -> ActionResult:
            with self._tools(RUN_CHECKS) as (tools, _session):
                answer = tools.ask(RUN_CHECKS, task=task)
            if answer["passed"]:
                return self.set_status(task, Form((("status", "done"),)))
            failed = ", ".join(line(one["name"]) for one in answer["checks"] if one["exit_code"])
            text = f"#{task} is not closed: {failed or 'not every check'} failed"
            more = tuple(line(answer[key], 500) for key in ("not_proved", "note") if key in answer)
            return ActionResult(False, text, more)

        self._begin(task, check, "its checks did not run")
        return ActionResult(True, f"#{task}: its checks run; it is closed if they pass")

    def _begin(self, task: int, work: Callable[[], ActionResult], failed: str) -> None:
        """Do long work on a task in a thread; refuse more than one at a time."""
        job = Thread(target=lambda: self._tell(attempt(work, f"#{task}: {failed}")), daemon=True)
        with self._starts:
            if self._job[1]():
                raise ProjectError("checks of this board run already", "wait until they have ended")
            job.start()
            self._job = task, job.is_alive

    def is_checking(self, task: int) -> bool:
        """Return whether checks of this board run for a task, also those of an undo."""
        return self._job[0] == task and self._job[1]()

    def _finished_by(self, task: int, form: Form | None = None) -> str:
        """Return the session that finished a task, which must be the one in a form."""
        with open_database(self.root) as connection:
            row = connection.row(FINISHED, [task])
        if row is None:
            raise ProjectError(f"no session on record has finished task {task}")
        if form is not None and form.text("session") != row[0]:
            raise ProjectError(f"another session has finished task {task} since: look at it first")
        return str(row[0])

    def _decided(self, message: str, *sessions: str) -> ActionResult:
        """Return the result of a decision; Z undoes its sessions, which are the newest first."""

        def undo() -> None:
            for session in sessions:
                if left := [one.left for one in undo_session(self.root, session).rows if one.left]:
                    raise ProjectError(f"the decision was not undone in full: {left[0]}")

        self._undos[sessions[0]] = undo
        return ActionResult(True, message, undo=sessions[0])

    @contextmanager
    def _tools(
        self, tool: str, task: int = 0, row: Row = NOTHING, columns: Iterable[str] = ()
    ) -> Iterator[tuple[calls.RowTools, str]]:
        """Yield the tools and their session; they write nothing once `columns` are not as read."""
        read = {name: plain(row[name]) for name in columns if name in row}
        request = SessionRequest(FULL, as_read=RowAsRead("task", task, read) if read else None)
        place = project_place(self.root)
        with calls.open_server(
            place, calls.KIT, tool, request, trust_edited=False, say=_ignore_message, apart=True
        ) as server:
            yield calls.RowTools(server), server.session


def _ignore_message(_: str) -> None:
    """Ignore a command's messages, which would go to the terminal of the board."""


def _conflict(one: EditField) -> str:
    """Return the values of both in a field that somebody else has changed."""
    was, now, typed = line(one.read), line(one.was), line(one.text)
    return f'{one.label}: it was "{was}", it is "{now}", you typed "{typed}"'


def _overtaken(text: str, lines: Iterable[str] = ()) -> ActionResult:
    """Return the result of a change that comes second."""
    return ActionResult(False, f"Someone else has {text}", tuple(lines), stale=True)


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of all decisions on tasks, and of their forms."""
    actions = TaskActions(desk.board, desk.tell)
    desk.board.is_checking = actions.is_checking

    def on_task(act: Callable[[int, Form], ActionResult]) -> Act:
        return lambda request, form: act(_task(request), form)

    def on_one(kind: str) -> Act:
        return on_task(lambda task, form: actions.decide(kind, [task], form.last("note")))

    def on_several(kind: str, _: Request, form: Form) -> ActionResult:
        tasks = [int(one) for one in form.texts("id") if re.fullmatch("[0-9]{1,18}", one)]
        if not tasks:
            raise ProjectError("no task is selected")
        return actions.decide(kind, [*dict.fromkeys(tasks)])

    def read(kind: str, request: Request, form: Form | None = None, _: object = None) -> Values:
        task, query = _task(request), request.state.query
        typed_in = form or Form(query.items() if kind == "new" else ())
        shared = {"kind": kind, "task": task, "to": query.get("to", "")}
        return {**shared, **actions.form(kind, task, typed_in)}

    def create(_: Request, form: Form) -> ActionResult:
        return actions.create(form)

    async def add(request: Request) -> Response:
        """Add a task by its form, or by a line, which has no page."""
        route = line_route if (await form_of(request)).texts("line") else new
        return cast("Response", await route.endpoint(request))

    on, page, title = "/tasks/{task:int}/", "/tasks/{task}", "Task {task}"
    new = desk.form("/tasks/new", DIALOG, "New task", create, "/tasks", partial(read, "new"))
    line_route = desk.decision("/tasks", create, "/tasks")
    acts: Mapping[str, tuple[Act, str]] = {
        **{f"/inbox/{kind}": (partial(on_several, kind), "/") for kind in DECISIONS},
        **{on + kind: (on_one(kind), "/") for kind in DECISIONS},
        f"{on}keep": (on_task(actions.keep), "/"),
        f"{on}send-back": (on_task(actions.send_back), "/"),
        f"{on}undo": (on_task(actions.undo_work), "/"),
        f"{on}answer": (on_task(actions.answer), "/"),
        f"{on}drop": (on_task(actions.drop), "/"),
        f"{on}status": (on_task(actions.set_status), page),
        f"{on}comments": (on_task(actions.comment), page),
        f"{on}check": (on_task(actions.check), page),
        f"{on}move": (on_task(actions.move), "/tasks"),
        "/decisions/{token}/undo": (lambda r, _: actions.undo(r.path_params["token"]), "/"),
    }
    return [
        Route("/tasks", add, methods=["POST"]),
        new,
        desk.form(f"{on}edit", DIALOG, title, on_task(actions.edit), page, partial(read, "edit")),
        *(desk.screen(on + kind, DIALOG, title, partial(read, kind)) for kind in FORMS),
        *(desk.decision(path, *act) for path, act in acts.items()),
    ]


def _task(request: Request) -> int:
    """Return the task that an address names, or 0; refuses ids that no database stores."""
    task: int = request.path_params.get("task", 0)
    if task > LARGEST_ID:
        raise HTTPException(404, "there is no such task")
    return task
