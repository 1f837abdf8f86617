"""The project: its progress, who may do what in it, its health, and the report on it."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.edits import ClashError, EditedProject
from ralphgen.board import disciplines as edits
from ralphgen.board.actions import EMPTY, EditField, field_text
from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.live import Board, has_tables_alone, in_thread, project_title
from ralphgen.board.matrix import matrix
from ralphgen.board.progress import read_learnings, read_pictures, read_progress, read_specs
from ralphgen.board.render import Desk, json_answer, render
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
from ralphgen.doctor import examine
from ralphgen.emit import workflows
from ralphgen.errors import Problem, RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import newest_sessions
from ralphgen.ledger.tables import state_of
from ralphgen.loop.cost import session_cost
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.root import FOLDER

TEMPLATE = "project.html.jinja"
ASSETS = Path(__file__).parent / "assets"
SHEETS = ("board.css", "project.css")
REPORTED = 200  # sessions
RELOAD, EDIT = "load the page again", "Edit the project"
KINDS = ("edited", "stale", "missing", "leftover", "unknown")
"""Of files that differ, by weight: a file of two kinds is shown as the first of them."""
Values = Mapping[str, object]
"""The values that fill the template."""
Read = Callable[[Board, Request], Values]


def project_fields(root: Path, form: Form = EMPTY) -> dict[str, EditField]:
    """Return the title and the description with what a form has typed; empty without such texts."""
    try:
        project = EditedProject(root)
    except RalphgenError:
        return {}
    return {
        name: EditField.of(name, rule, str(project.record.get(name, "")), form)
        for name, rule in project.fields.items()
    }


def save_project(board: Board, form: Form) -> ActionResult:
    """Write the edited texts of a form, unless others have changed them meanwhile."""
    try:
        project = EditedProject(board.root)
        read = {name: field_text(form, f"{WAS}{name}") for name in project.fields}
        texts = {name: field_text(form, name, text) for name, text in read.items()}
        project.record = {name: text or None for name, text in read.items()}
        wanted = {name: text or None for name, text in texts.items() if text != read[name]}
        with board.acting:
            changed = project.write(wanted)["changed"]
    except RalphgenError as error:
        stale = isinstance(error, ClashError)
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems), stale)
    return ActionResult(True, f"project: changed {', '.join(changed) or 'nothing'}")


def drift(root: Path) -> dict[str, Any]:
    """Return the difference between the server on disk and a newly generated one.

    `problems` are why it is unknown. A file has a path, a kind, and its part of the unified diff:
    an unknown file has none, and neither has a missing one if there is no server at all.
    """
    messages: list[str] = []
    found: dict[str, Any] = {"ok": False, "hint": "", "problems": (), "files": [], "warnings": []}
    try:
        checked = workflows.checked(root, say=messages.append)
    except RalphgenError as error:
        return {**found, "summary": "the project cannot be read", "problems": error.problems}
    found["warnings"] = [one.removeprefix("warning: ") for one in messages]
    different = checked.drift
    if not different:
        return {**found, "ok": True, "summary": "the server is up to date"}
    kinds = {path: kind for kind in reversed(KINDS) for path in getattr(different, kind)}
    parts = {path: different.parts.get(path, "") for path in kinds}
    summary = checked.summary()
    if MANIFEST in different.missing and not different.interrupted:
        summary = f"there is no server yet: {len(different.missing)} files would be written"
        parts |= dict.fromkeys(different.missing, "")
    files = [(path, kind, parts[path]) for path, kind in sorted(kinds.items())]
    return {**found, "summary": summary, "hint": checked.hint(), "files": files}


def regenerate(board: Board) -> ActionResult:
    """Regenerate the server and its environment."""
    messages: list[str] = []
    with board.acting:
        found = edits.regenerate(board.root, messages.append)
    if not found:
        return ActionResult(True, "the server is up to date", tuple(messages))
    is_written = any(one.startswith(f"{FOLDER}: ") for one in messages)
    rest = "was written, but its environment is not ready" if is_written else "was not written"
    return ActionResult(False, f"the server {rest}", tuple(messages), fieldless(found))


def diagnose(board: Board) -> ActionResult:
    """Run `ralphgen doctor`, and keep its findings for the page."""
    with board.acting:
        board.findings = findings = tuple(examine(Project(board.root)))
    board.note("diagnosis")
    ill = sum(bool(finding.fix) and not finding.is_warning for finding in findings)
    rest = f"{ill} of them need a fix" if ill else "no problems found"
    return ActionResult(not ill, f"{len(findings)} checks ran, {rest}")


def problems(board: Board, form: Form) -> Sequence[FieldProblem]:
    """Return why the edit of a discipline in a form cannot be saved; writes nothing."""
    edit = edits.Edit.of(form)
    try:
        discipline = read_disciplines(board.root).by_name(edit.discipline)
        if discipline is None:
            return [FieldProblem("", "this discipline no longer exists", RELOAD)]
        catalog = edits.catalog_of(board.cached("matrix", Project))
    except RalphgenError as error:
        return fieldless(error.problems)
    return [*edits.problems_of(edit, discipline, catalog)]


def save(board: Board, form: Form) -> ActionResult:
    """Save the edit of a discipline in a form, and regenerate."""
    with board.acting:
        return edits.save(board.root, edits.Edit.of(form), board.session)


def address_of(discipline: str) -> str:
    """Return the address of a discipline's form; a browser would resolve dots in a path."""
    if discipline.strip("."):
        return f"/project/disciplines/{quote(discipline, safe='')}"
    return f"/project/disciplines?name={discipline}"


def _overview(board: Board, _: Request) -> Values:
    root = board.root
    values: dict[str, object] = {"page": "overview", "title": project_title(root, root.name)}
    if has_tables_alone(root):
        return {**values, "about": {}, "specs": None, "progress": []}
    with open_database(root) as connection:
        rows = reading_rows(connection, Project(root).schema_in(connection))
        progress = read_progress(rows)
        values |= {"progress": progress, "learnings": read_learnings(rows)}
        values |= {"pictures": read_pictures(rows, progress[0].counts)}
    return {**values, "about": project_fields(root), "specs": read_specs(root)}


def _edit(board: Board, _: Request, typed: Form = EMPTY) -> Values:
    fields = project_fields(board.root, typed)
    if not fields:
        raise HTTPException(404, "the title and description cannot be edited here")
    return {"page": "edit", "fields": fields.values()}


def _access(board: Board, request: Request) -> Values:
    names = [row.name for row in read_disciplines(board.root).rows]
    chosen = query_of(request).get("discipline", "")
    view = matrix(board.cached("matrix", Project), chosen if chosen in names else None)
    return {"page": "access", "view": view, "disciplines": names}


def _disciplines(board: Board, request: Request) -> Values:
    name = request.path_params.get("name") or query_of(request).get("name")
    if name is not None:
        return _discipline(board, request, name)
    found = read_disciplines(board.root)
    return {"page": "disciplines", "address": address_of, **found._asdict()}


def _discipline(
    board: Board,
    _: Request,
    name: str,
    typed: Form | None = None,
    found: Sequence[FieldProblem] = (),
) -> Values:
    disciplines = read_disciplines(board.root)
    view = disciplines.by_name(name)
    if view is None:
        raise HTTPException(404, "there is no such discipline")
    return {
        "page": "discipline",
        "title": line(name),
        "view": view if typed is None else edits.typed_view(view, typed),
        "typed": typed is not None,
        "problems": (*disciplines.problems, *view.problems),
        "wrong": {one.field: f"{one.text}: {one.hint}".removesuffix(": ") for one in found},
        "address": address_of,
    }


def _health(board: Board, _: Request) -> Values:
    return {"page": "health", "drift": board.cached("drift", drift), "findings": board.findings}


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen; fixed addresses come before the ones with a name."""
    board = desk.board

    async def show(
        title: str, read: Read, request: Request, outcome: ActionResult | None = None
    ) -> Response:
        """Show a page, or the problems of a project that is unreadable."""

        def values() -> Values:
            try:
                return {"problems": (), **read(board, request)}
            except RalphgenError as error:
                return {"page": "problem", "problems": error.problems}

        return await desk.page(request, TEMPLATE, values, title=title, outcome=outcome)

    async def save_texts(request: Request) -> Response:
        form = await form_of(request)
        outcome = await in_thread(lambda: save_project(board, form))
        if outcome.ok or wants_json(request):
            return desk.answered(request, outcome, "/project")
        return await show(EDIT, partial(_edit, typed=form), request, outcome)

    async def save_discipline(request: Request) -> Response:
        form = await form_of(request)
        outcome, name = await in_thread(lambda: save(board, form)), form.text("discipline")
        if outcome.ok or wants_json(request):
            return desk.answered(request, outcome, address_of(name))
        read = partial(_discipline, name=name, typed=form, found=outcome.problems)
        return await show("", read, request, outcome)

    async def check(request: Request) -> Response:
        form = await form_of(request)
        return json_answer([*map(asdict, await in_thread(lambda: problems(board, form)))])

    def decides(act: Callable[[Board], ActionResult]) -> Callable[..., Any]:
        return partial(desk.decide, act=lambda _: act(board), then="/project/health")

    form = "/disciplines/{name:path}"
    gets: Mapping[str, tuple[str, Read]] = {
        "": ("Project", _overview),
        "/edit": (EDIT, _edit),
        "/access": ("Access", _access),
        "/disciplines": ("Disciplines", _disciplines),
        form: ("Disciplines", _disciplines),
        "/health": ("Health", _health),
    }
    posts: Mapping[str, Callable[..., Any]] = {
        "/edit": save_texts,
        "/check": check,
        "/disciplines": save_discipline,
        form: save_discipline,
        "/regenerate": decides(regenerate),
        "/diagnose": decides(diagnose),
    }
    return [
        *(Route(f"/project{at}", partial(show, *one), methods=["GET"]) for at, one in gets.items()),
        *(Route(f"/project{at}", post, methods=["POST"]) for at, post in posts.items()),
    ]


def report(root: Path, *, sessions: bool = False) -> str:
    """Return the report on the project in `root` as HTML, a function of the project's state.

    It does not depend on the machine, the folder or the day. With `sessions` it has the newest
    recorded sessions, too. Raises `ProjectError` if the project cannot be read.
    """
    project, found = Project(root), drift(root)
    values: dict[str, object] = {"progress": [], "pictures": None, "sessions": None}
    with open_database(root) as connection:
        if not project.serves_any_database:
            rows = reading_rows(connection, project.schema_in(connection))
            values["progress"] = progress = read_progress(rows)
            values["pictures"] = read_pictures(rows, progress[0].counts, UTC)
        if sessions:
            values["sessions"] = _reported(connection)
    found["problems"] = [
        Problem(one.text.replace(f"{root}/", ""), one.hint.replace(f"{root}/", ""))
        for one in found["problems"]
    ]
    sheet = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SHEETS)
    values |= {
        "page": "report",
        "title": project_title(root),
        "sheet": sheet,
        "digest": b64encode(sha256(sheet.encode()).digest()).decode(),
        "view": matrix(project, None),
        "drift": found,
        "found": read_disciplines(root),
    }
    return render(TEMPLATE, values, "report")


def _reported(connection: Snapshot) -> Sequence[Sequence[str]]:
    if state_of(connection).version is None:
        return ()
    return [
        (
            line(one.session_id),
            f"{line(one.recipe)}{f' #{one.task_id}' if one.task_id else ''}",
            line(one.outcome) or "not ended",
            line(one.agent),
            line(one.started),
            session_cost(one),
        )
        for one in newest_sessions(Rows(connection, {}), REPORTED)
    ]
