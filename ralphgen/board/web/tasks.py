"""The routes of tasks: the list, each task's page, and the forms on them."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.calls import KIT, Record, RefusalError, RowTools, open_server
from ralphgen.board.requests import (
    ActionResult,
    FieldProblem,
    Form,
    fieldless,
    form_of,
    number_of,
    query_of,
    wants_json,
)
from ralphgen.board.sections import PageQuery, view
from ralphgen.board.stored_text import line
from ralphgen.board.tasks import query as lists
from ralphgen.board.tasks.fields import (
    EditField,
    FieldConflict,
    changes_of_form,
    columns_read,
    conflicts,
    fields_for,
    fingerprint,
    given_values,
    said,
    with_more,
)
from ralphgen.board.tasks.listing import task_listing
from ralphgen.board.tasks.task import needed_tasks, stored_task, task_view
from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.task_record import LARGEST_ID
from ralphgen.board.web import pages
from ralphgen.board.web.desk import PageDesk, in_thread, json_answer
from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.ralph.rows import project_rows
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.project.root import FOLDER, project_place
from ralphgen.runtime.policy import FULL, NOTHING
from ralphgen.runtime.tasks.rows import plain
from ralphgen.sessions.decide import Request as SessionRequest
from ralphgen.sessions.decide import RowAsRead

if TYPE_CHECKING:
    from ralphgen.project.config import CheckSettings

CREATE, UPDATE, ENRICH, SET_STATUS, COMMENT = (
    "create_task",
    "update_task",
    "enrich_task",
    "set_task_status",
    "add_task_comment",
)
STATUS = "Status"  # what the field is called
FREED = 10  # ids of tasks that are named after a change
TRIES = 5  # of a change, while others change the same all the time
Row = Mapping[str, Any]
Schemas = Mapping[str, Record]
"""The input schema of each tool, by its name."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of a change; `task` is the one it was about, None where none was made.

    `conflicts` are the fields that somebody else has changed meanwhile; nothing was written then.
    """

    result: ActionResult
    task: int | None = None
    conflicts: tuple[FieldConflict, ...] = ()

    @property
    def status(self) -> int:
        """Return the status of an answer that is no success."""
        return 409 if self.conflicts else 422


class TaskActions:
    """Changes tasks of the project in `root`, one change after the other, in any thread.

    Each is made by the tools of its server, as a person: by their rules, with their refusals, and
    on record as theirs.
    """

    def __init__(self, root: Path) -> None:
        """Start with nothing asked."""
        self._root = root
        self._acting = Lock()
        self._asking = Lock()
        self._known: tuple[object, Schemas] = (None, {})

    def schemas(self) -> Schemas:
        """Return the input schemas of the server as it is written, which is asked for them once.

        Raises `RalphgenError` where it does not start.
        """
        with self._asking:
            written = self._written()
            if self._known[0] != written:
                with self._tools(UPDATE) as tools:
                    self._known = written, tools.tools()
            return self._known[1]

    def _written(self) -> int:
        """Return when the server was written, 0 where there is none."""
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
        """Change what differs from what is stored; nothing where somebody else was first."""
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
        """Give a draft what a form says, which makes it pending."""

        def act(schema: Record, row: Row) -> TaskOutcome:
            if found := conflicts(schema, row, form):
                return _conflicting(task, found)
            given = given_values(schema, form)
            with self._tools(ENRICH, task, columns_read(schema, row, form)) as tools:
                answer = tools.ask(ENRICH, **{**given, "id": task})
            return TaskOutcome(_done(f"task {task} is {line(answer['status'])}", answer), task)

        return self._change(ENRICH, task, "the draft is unchanged", act)

    def set_status(self, task: int, form: Form) -> TaskOutcome:
        """Set a task's status, where it is still the one that was read."""

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

    def _row(self, task: int) -> Row:
        """Return a task as it is stored now; nothing where there is none, as the tool says."""
        with project_rows(self._root, KITS) as (rows, _):
            return stored_task(rows, task) or {}

    def _change(
        self, tool: str, task: int, otherwise: str, act: Callable[[Record, Row], TaskOutcome]
    ) -> TaskOutcome:
        """Return what came of a change that is made of a task as it is stored.

        `act` is given the tool's input schema and the row. It is called again where somebody else
        has changed the row before the tool could: what is there by then is another conflict.
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
        """Return what came of an action; the others of this board wait for it."""
        try:
            with self._acting:
                return act()
        except RefusalError as error:  # whose hints are for a command line
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
    """Say nothing: what a command would say besides is said where the board was started."""


def _text(form: Form, name: str) -> str:
    """Return what stands in a field; empty where the form does not have it."""
    return (*form.texts(name)[-1:], "")[0].strip()


def _done(message: str, answer: Mapping[str, Any]) -> ActionResult:
    """Return the result of a change, with what the tool says besides."""
    lines = [f"warning: {one}" for one in answer.get("warnings", ())]
    lines += map(str, answer.get("told", ()))
    free = [str(one) for one in answer.get("unblocked", ())]
    if free:
        more = f", and {len(free) - FREED} more" if len(free) > FREED else ""
        lines.append(f"nothing keeps {', '.join(free[:FREED])}{more} any longer")
    return ActionResult(True, message, tuple(map(line, lines)))


def checks_of(root: Path, discipline: str) -> tuple[tuple[str, str], ...]:
    """Return the checks for tasks of a discipline: the name of each, and what it runs.

    Raises `ProjectError` where the config cannot be read.
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
    """What a task's page shows besides the task: pages of comments and changes, and a sent form.

    `opened` says that the form to edit it is open, `typed` what was sent and not saved.
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
    ]


class TaskPages:
    """The pages of tasks, and what their forms do."""

    def __init__(self, desk: PageDesk) -> None:
        """Serve the tasks of the desk's project."""
        self._desk = desk
        self._root = desk.board.root
        self._actions = TaskActions(self._root)

    async def listing(self, request: Request) -> Response:
        """Answer the list of tasks; without a filter, with how they stand below it."""
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
        """Answer the form for a new task; what its address names stands in it already."""
        fields = query_of(request)
        given = Form(tuple((name, text) for name, text in fields.items() if name != "notice"))
        return await self._new_page(given, fields.get("notice", ""), 200)

    async def create(self, request: Request) -> Response:
        """Add a task, or show the form again with what was typed."""
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

    async def _done(
        self, request: Request, act: Callable[[int, Form], TaskOutcome], place: str
    ) -> Response:
        """Answer an action on a task; what was typed stays in its form where it was refused."""
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
            with project_rows(self._root, KITS) as (rows, _):
                return stored_task(rows, task) is not None
        except ProjectError:  # the page says why
            return True

    def _list(self, asked: lists.TaskQuery) -> Markup:
        with project_rows(self._root, KITS) as (rows, _):
            view = task_listing(rows, asked)
        return pages.html(
            "task_list.html.jinja", view=view, asked=asked, states=lists.STATES, sorts=lists.SORTS
        )

    def _task(self, asked: TaskAsked) -> Markup:
        with project_rows(self._root, KITS) as (rows, schema):
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
            checks=checks_of(self._root, str(view.row["discipline"])),
            problems=problems,
            query=None,
        )

    def _new(self, form: Form) -> Markup:
        schemas, problems = self._schemas()
        with project_rows(self._root, KITS) as (rows, _):
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
    """Return what others have changed, where a form was refused for that, as it is by now.

    What the page shows is what its form says was read: nothing that came in between is lost.
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
    """Return the task that an address names; refuses what no database can hold."""
    task: int = request.path_params["task"]
    if task > LARGEST_ID:
        raise HTTPException(404, "there is no such task")
    return task
