"""The routes of tasks: the list, each task's page, and the forms on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.requests import (
    ActionResult,
    Form,
    form_of,
    number_of,
    query_of,
    wants_json,
)
from ralphgen.board.sections import PageQuery, view
from ralphgen.board.stored_text import line
from ralphgen.board.tasks import query as lists
from ralphgen.board.tasks.checks import checks_of
from ralphgen.board.tasks.fields import (
    EditField,
    FieldConflict,
    conflicts,
    fields_for,
    fingerprint,
    said,
    with_more,
)
from ralphgen.board.tasks.listing import task_listing
from ralphgen.board.tasks.save import (
    COMMENT,
    CREATE,
    ENRICH,
    SET_STATUS,
    STATUS,
    UPDATE,
    Schemas,
    TaskActions,
    TaskOutcome,
)
from ralphgen.board.tasks.task import needed_tasks, stored_task, task_view
from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.task_record import LARGEST_ID
from ralphgen.board.web import pages
from ralphgen.board.web.desk import PageDesk, in_thread, json_answer
from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.kits.ralph.rows import project_rows
from ralphgen.kits.registry import KITS

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
