"""The project: its progress, who may do what in it, its health, and the report on it."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.agents.edits import ClashError, EditedProject
from ralphgen.board import charts, nights
from ralphgen.board import discipline_forms as edits
from ralphgen.board.discipline_forms import (
    DisciplineForm,
    FormError,
    catalog_of,
    fields_of,
    problems_of,
)
from ralphgen.board.disciplines import is_of_same_lists, read_disciplines
from ralphgen.board.live import Board, has_tables_alone, in_thread, project_title
from ralphgen.board.matrix import matrix
from ralphgen.board.progress import (
    Progress,
    read_days,
    read_learnings,
    read_nights,
    read_progress,
    read_specs,
)
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
from ralphgen.emit.write import Drift
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
LONGEST = 20_000  # characters of a text in a form
REPORTED = 200  # sessions
RELOAD = "load the page again"
Values = dict[str, object]
"""The values that fill the template."""
Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ProjectFields:
    """The texts of the form on title and description, by field, and the stored texts behind them.

    `clashes` are the fields that others have changed to something else meanwhile.
    """

    texts: Mapping[str, str]
    was: Mapping[str, str]
    clashes: tuple[str, ...] = ()


def project_fields(root: Path, typed: Form | None = None) -> ProjectFields | None:
    """Return the form of the project in `root`, with the `typed` texts.

    None without such texts, or if one is too long for a form.
    """
    try:
        project = EditedProject(root)
    except RalphgenError:
        return None
    was = {name: str(project.record.get(name, "")) for name in project.fields}
    if max(map(len, was.values()), default=0) > LONGEST:
        return None
    if typed is None:
        return ProjectFields(was, was)
    texts = {name: (*typed.texts(name), text)[0] for name, text in was.items()}
    read = {name: (*typed.texts(f"{WAS}{name}"), text)[0] for name, text in was.items()}
    clashes = [name for name in was if was[name] not in (read[name], texts[name])]
    # A text that was not edited follows the stored one.
    texts = {name: text if text != read[name] else was[name] for name, text in texts.items()}
    return ProjectFields(texts, was, tuple(one for one in clashes if texts[one] != was[one]))


def save_project(root: Path, form: Form) -> ActionResult:
    """Write the title and the description of a form, unless others have changed them meanwhile."""
    try:
        project = EditedProject(root)
        for name in project.fields:  # a clash is one with the state that the form was made from
            project.record[name] = (*form.texts(f"{WAS}{name}"), "")[0] or None
        given = {name: form.texts(name) for name in project.fields}
        wanted = {name: texts[0] or None for name, texts in given.items() if texts}
        changed = project.write(wanted)["changed"]
    except RalphgenError as error:
        stale = isinstance(error, ClashError)
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems), stale)
    return ActionResult(True, f"project: changed {', '.join(changed) or 'nothing'}")


Kind = Literal["edited", "stale", "missing", "leftover", "unknown"]
KINDS: tuple[Kind, ...] = ("edited", "stale", "missing", "leftover", "unknown")
"""By weight: a file of two kinds is shown as the first of them."""
UP_TO_DATE = "the server is up to date"
UNREADABLE = "the project cannot be read"
WARNING = "warning: "


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file that differs from a newly generated one, with its part of the unified diff.

    An unknown file has no diff, and neither has a missing one if there is no server at all. All
    other diffs together form the whole diff.
    """

    path: str
    kind: Kind
    diff: str


@dataclass(frozen=True, slots=True)
class Drifted:
    """The result of `ralphgen check`; `problems` are why there is no other result, mostly empty."""

    ok: bool
    summary: str
    hint: str = ""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[FileDiff, ...] = ()


def drift(root: Path) -> Drifted:
    """Return the difference between the server on disk and a newly generated one."""
    said: list[str] = []
    try:
        found = workflows.checked(root, say=said.append)
    except RalphgenError as error:
        return Drifted(ok=False, summary=UNREADABLE, problems=error.problems)
    warnings = tuple(line.removeprefix(WARNING) for line in said)
    if not found.drift:
        return Drifted(ok=True, summary=UP_TO_DATE, warnings=warnings)
    files, summary = tuple(_files(found.drift)), found.summary()
    count = len(found.drift.missing)
    if MANIFEST in found.drift.missing and not found.drift.interrupted:
        summary = f"there is no server yet: {count} files would be written"
        files = tuple(replace(file, diff="") if file.kind == "missing" else file for file in files)
    return Drifted(False, summary, found.hint(), (), warnings, files)


def _files(found: Drift) -> Iterator[FileDiff]:
    """Yield the files that differ by path, also unknown modules, which have no diff."""
    kinds: dict[str, Kind] = {}
    for kind in reversed(KINDS):
        kinds |= dict.fromkeys(getattr(found, kind), kind)
    for path in sorted(kinds):
        yield FileDiff(path, kinds[path], found.parts.get(path, ""))


def regenerate(board: Board) -> ActionResult:
    """Regenerate the server and its environment."""
    said: list[str] = []
    with board.acting:
        problems = edits.regenerate(board.root, said.append)
    if not problems:
        return ActionResult(True, "the server is up to date", tuple(said))
    written = any(line.startswith(f"{FOLDER}: ") for line in said)
    rest = "was written, but its environment is not ready" if written else "was not written"
    return ActionResult(False, f"the server {rest}", tuple(said), fieldless(problems))


def diagnose(board: Board) -> ActionResult:
    """Run `ralphgen doctor`, and keep its findings for the page."""
    with board.acting:
        board.findings = findings = tuple(examine(Project(board.root)))
    board.note("diagnosis")
    ill = sum(bool(finding.fix) and not finding.is_warning for finding in findings)
    count = f"{len(findings)} checks ran"
    if ill:
        return ActionResult(False, f"{count}, {ill} of them need a fix")
    return ActionResult(True, f"{count}, no problems found")


def problems(board: Board, form: Form) -> tuple[FieldProblem, ...]:
    """Return why the edit of a discipline in a form cannot be saved; writes nothing."""
    given = DisciplineForm(form)
    try:
        edit = given.edit()
        discipline = read_disciplines(board.root).named(edit.discipline)
    except FormError as error:
        return error.problems
    except RalphgenError as error:
        return fieldless(error.problems)
    if discipline is None:
        return (FieldProblem("", "this discipline no longer exists", RELOAD),)
    catalog = catalog_of(board.kept("matrix", Project))
    return tuple(map(given.shown, problems_of(edit, discipline, catalog)))


def save(board: Board, form: Form) -> ActionResult:
    """Save the edit of a discipline in a form, and regenerate."""
    given, said = DisciplineForm(form), list[str]()
    try:
        edit = given.edit()
    except FormError as error:
        return ActionResult(False, "nothing was saved", (), error.problems)
    with board.acting:
        saved = edits.save(board.root, edit, said.append, session=board.session)
    found = (*map(given.shown, saved.fields), *fieldless(saved.problems))
    is_saved, is_stale = saved.state == "saved", saved.state == "stale"
    return ActionResult(is_saved, saved.sentence, tuple(said), found, is_stale)


def address_of(discipline: str) -> str:
    """Return the address of a discipline's form; a browser would resolve dots in a path."""
    if discipline.strip("."):
        return f"/project/disciplines/{quote(discipline, safe='')}"
    return f"/project/disciplines?name={discipline}"


def _overview(root: Path) -> Values:
    alone = has_tables_alone(root)
    values: Values = {"title": project_title(root, root.name), "about": None, "specs": None}
    if alone:
        return {**values, "progress": None}
    with open_database(root) as connection:
        rows = reading_rows(connection, Project(root).schema_in(connection))
        progress = read_progress(rows)
        values |= {"progress": progress, "learnings": read_learnings(rows)}
        values |= _pictures(rows, progress)
    return {**values, "about": project_fields(root), "specs": read_specs(root)}


def _pictures(rows: Rows, progress: Progress, zone: tzinfo | None = None) -> Values:
    """Return the pictures of a project; None without a ledger, or without anything to show.

    In a given time zone, they are the same on every machine.
    """
    if state_of(rows.connection).version is None:
        return {"pictures": None}
    days = read_days(rows, {one.status: one.count for one in progress.overall.shares})
    working = None if zone else nights.working_sessions(rows)
    costs = [(f"{at.astimezone(zone):%d %b}", spent) for at, spent in read_nights(rows, working)]
    pictures = {"burn_up": charts.burn_up(days) if days else None}
    return {"pictures": {**pictures, "nights": charts.nights(costs) if costs else None}}


def _access(board: Board, chosen: str) -> Values:
    names = tuple(row.name for row in read_disciplines(board.root).rows)
    discipline = chosen if chosen in names else None
    return {"view": matrix(board.kept("matrix", Project), discipline), "disciplines": names}


def _list(root: Path) -> Values:
    found = read_disciplines(root)
    return {"rows": found.rows, "problems": found.problems, "address": address_of}


def _discipline(
    root: Path, name: str, typed: Form | None = None, found: Sequence[FieldProblem] = ()
) -> Values:
    listed = read_disciplines(root)
    view = listed.named(name)
    if view is None:
        raise HTTPException(404, "there is no such discipline")
    fields = fields_of(view)
    if typed is not None:
        fields = DisciplineForm(typed).fields(view)
        # The input refers to the displayed state: its positions may mean other servers by now.
        sent = typed.text("fingerprint")
        if not is_of_same_lists(sent, view.fingerprint):
            view = replace(view, fingerprint=sent)
    return {
        "view": view,
        "fields": fields,
        "typed": typed is not None,
        "problems": (*listed.problems, *view.problems),
        "wrong": {one.field: f"{one.text}: {one.hint}".removesuffix(": ") for one in found},
        "address": address_of,
    }


def _health(board: Board) -> Values:
    return {"drift": board.kept("drift", drift), "findings": board.findings}


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""
    return ProjectPages(desk).routes()


class ProjectPages:
    """Answers the requests of the project's pages."""

    def __init__(self, desk: Desk) -> None:
        """Read nothing."""
        self._desk = desk
        self._board = desk.board
        self._root = desk.root

    def routes(self) -> Sequence[Route]:
        """Return the routes; those with a fixed address come before those with a name."""
        gets: Mapping[str, Answer] = {
            "": self._show_overview,
            "/edit": self._show_edit,
            "/access": self._show_access,
            "/disciplines": self._show_disciplines,
            "/disciplines/{name:path}": self._show_disciplines,
            "/health": self._show_health,
        }
        posts: Mapping[str, Answer] = {
            "/edit": self._save_project,
            "/check": self._check,
            "/disciplines": self._save,
            "/disciplines/{name:path}": self._save,
            "/regenerate": partial(self._decide, regenerate),
            "/diagnose": partial(self._decide, diagnose),
        }
        return [
            Route(f"/project{path}", end, methods=[method])
            for method, ends in (("GET", gets), ("POST", posts))
            for path, end in ends.items()
        ]

    async def _page(
        self,
        request: Request,
        page: str,
        title: str,
        read: Callable[[], Values],
        outcome: ActionResult | None = None,
    ) -> Response:
        """Return a page of this screen; it shows the problems of a project that is unreadable."""

        def values() -> Values:
            shared: Values = {"page": page, "problems": ()}
            try:
                return shared | read()
            except RalphgenError as error:
                return {**shared, "page": "problem", "problems": error.problems}

        return await self._desk.page(request, TEMPLATE, values, title=title, outcome=outcome)

    async def _show_overview(self, request: Request) -> Response:
        return await self._page(request, "overview", "Project", lambda: _overview(self._root))

    async def _show_edit(self, request: Request) -> Response:
        return await self._edit(request)

    async def _edit(
        self, request: Request, typed: Form | None = None, outcome: ActionResult | None = None
    ) -> Response:
        def read() -> Values:
            about = project_fields(self._root, typed)
            if about is None:
                raise HTTPException(404, "the title and description cannot be edited here")
            return {"about": about}

        return await self._page(request, "edit", "Edit the project", read, outcome)

    async def _save_project(self, request: Request) -> Response:
        form = await form_of(request)

        def act() -> ActionResult:
            with self._board.acting:
                return save_project(self._root, form)

        outcome = await in_thread(act)
        if outcome.ok or wants_json(request):
            return self._desk.answered(request, outcome, "/project")
        return await self._edit(request, form, outcome)

    async def _show_access(self, request: Request) -> Response:
        chosen = query_of(request).get("discipline", "")
        return await self._page(request, "access", "Access", lambda: _access(self._board, chosen))

    async def _show_disciplines(self, request: Request) -> Response:
        query = query_of(request)
        name = request.path_params.get("name") or query.get("name")
        if name is None:
            return await self._page(
                request, "disciplines", "Disciplines", lambda: _list(self._root)
            )
        return await self._form(request, name)

    async def _form(
        self,
        request: Request,
        name: str,
        typed: Form | None = None,
        outcome: ActionResult | None = None,
    ) -> Response:
        found = () if outcome is None else outcome.problems
        read = partial(_discipline, self._root, name, typed, found)
        return await self._page(request, "discipline", line(name), read, outcome)

    async def _save(self, request: Request) -> Response:
        form = await form_of(request)
        outcome = await in_thread(lambda: save(self._board, form))
        name = form.text("discipline")
        if outcome.ok or wants_json(request):
            return self._desk.answered(request, outcome, address_of(name))
        return await self._form(request, name, form, outcome)

    async def _check(self, request: Request) -> Response:
        form = await form_of(request)
        found = await in_thread(lambda: problems(self._board, form))
        return json_answer(
            [{"field": one.field, "text": one.text, "hint": one.hint} for one in found]
        )

    async def _show_health(self, request: Request) -> Response:
        return await self._page(request, "health", "Health", lambda: _health(self._board))

    async def _decide(self, act: Callable[[Board], ActionResult], request: Request) -> Response:
        return await self._desk.decide(request, lambda _: act(self._board), "/project/health")


@dataclass(frozen=True, slots=True)
class ReportedSession:
    """A recorded session; unknown values are empty."""

    name: str
    about: str
    outcome: str
    agent: str
    started: str
    cost: str


def report(root: Path, *, sessions: bool = False) -> str:
    """Return the report on the project in `root` as HTML, a function of the project's state.

    It does not depend on the machine, the folder or the day. With `sessions` it has the newest
    recorded sessions and the cost of the nights, too. Raises `ProjectError` if the project cannot
    be read.
    """
    project = Project(root)
    values: Values = {"progress": None, "pictures": None, "sessions": None}
    with open_database(root) as connection:
        if not project.serves_any_database:
            rows = reading_rows(connection, project.schema_in(connection))
            values["progress"] = progress = read_progress(rows)
            values |= _pictures(rows, progress, UTC)
        if sessions:
            values["sessions"] = _reported(connection)
    found = drift(root)
    there = (
        Problem(one.text.replace(f"{root}/", ""), one.hint.replace(f"{root}/", ""))
        for one in found.problems
    )
    sheet = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SHEETS)
    values |= {
        "title": project_title(root),
        "sheet": sheet,
        "digest": b64encode(sha256(sheet.encode()).digest()).decode(),
        "view": matrix(project, None),
        "drift": replace(found, problems=tuple(there)),
        "found": read_disciplines(root),
    }
    return render(TEMPLATE, values, "report")


def _reported(connection: Snapshot) -> tuple[ReportedSession, ...]:
    if state_of(connection).version is None:
        return ()
    return tuple(
        ReportedSession(
            name=line(one.session_id),
            about=" ".join([line(one.recipe), f"#{one.task_id}" if one.task_id else ""]).strip(),
            outcome=line(one.outcome) or "not ended",
            agent=line(one.agent),
            started=line(one.started),
            cost=session_cost(one),
        )
        for one in newest_sessions(Rows(connection, {}), REPORTED)
    )
