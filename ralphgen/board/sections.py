"""The sections of pages with the functions that read them, their actions, and the report."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from markupsafe import Markup

from ralphgen.board import discipline_forms as edits
from ralphgen.board import overview
from ralphgen.board.discipline_forms import (
    DisciplineForm,
    FormError,
    catalog_of,
    fields_of,
    problems_of,
)
from ralphgen.board.disciplines import is_of_same_lists, read_disciplines
from ralphgen.board.matrix import matrix
from ralphgen.board.overview import Status, drift, project_status, read_specs, what_waits
from ralphgen.board.page import SECTIONS, html
from ralphgen.board.project import Board, has_tables_alone, project_title
from ralphgen.board.record import RecordQuery, project_record, record_of_tables, reported_record
from ralphgen.board.sessions import read_sessions
from ralphgen.board.text import ActionResult, FieldProblem, Form, fieldless
from ralphgen.doctor import examine
from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.kits.project import Project
from ralphgen.project.database import open_database
from ralphgen.project.model import Names
from ralphgen.project.root import FOLDER
from ralphgen.sessions.end import end_session

RELOAD = "load the page again"
NOTHING_ASKED = RecordQuery()
Values = Mapping[str, object]
"""The values that fill a template."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The content of a page; an empty text means no discipline.

    `record` is the query of sessions and a task. `typed` is the form of a discipline that could not
    be saved.
    """

    discipline: str = ""
    record: RecordQuery = NOTHING_ASKED
    typed: Form | None = None


def view(board: Board, section: str, query: PageQuery) -> Values:
    """Return the values that a section shows; raises `RalphgenError` if they cannot be read."""
    return VIEWS[section](board, query)


def regenerate(board: Board) -> ActionResult:
    """Regenerate the server and its environment."""
    said: list[str] = []
    with board.acting:
        problems = edits.regenerate(board.root, said.append)
    if not problems:
        return ActionResult(True, "the server is up to date", tuple(said))
    written = any(line.startswith(f"{FOLDER}: ") for line in said)
    rest = "was written, but its environment is not ready" if written else "was not written"
    message = f"the server {rest}"
    return ActionResult(False, message, tuple(said), fieldless(problems))


def diagnose(board: Board) -> ActionResult:
    """Run `ralphgen doctor`, and keep its findings for their section."""
    with board.acting:
        board.findings = findings = tuple(examine(Project(board.root)))
    board.note("diagnosis")
    ill = sum(bool(finding.fix) and not finding.is_warning for finding in findings)
    count = f"{len(findings)} checks ran"
    if ill:
        return ActionResult(False, f"{count}, {ill} of them need a fix")
    return ActionResult(True, f"{count}, no problems found")


def end(board: Board, session_id: str) -> ActionResult:
    """End a session; waits for no other action, for it writes none of the server."""
    try:
        return ActionResult(True, end_session(board.root, session_id, stops_servers=True).sentence)
    except RalphgenError as error:
        return ActionResult(False, "no session was ended", (), fieldless(error.problems))


def problems(board: Board, form: Form) -> tuple[FieldProblem, ...]:
    """Return why the edit of a form cannot be saved; writes nothing."""
    given = DisciplineForm(form)
    try:
        edit = given.edit()
        discipline = read_disciplines(board.root).named(edit.discipline)
    except FormError as error:
        return error.problems
    except ProjectError as error:
        return fieldless(error.problems)
    if discipline is None:
        return (FieldProblem("", "this discipline no longer exists", RELOAD),)
    catalog = catalog_of(_project(board))
    return tuple(map(given.shown, problems_of(edit, discipline, catalog)))


def save(board: Board, form: Form) -> ActionResult:
    """Save the edit of a form, and regenerate."""
    given, said = DisciplineForm(form), list[str]()
    try:
        edit = given.edit()
    except FormError as error:
        return ActionResult(False, "nothing was saved", (), error.problems)
    with board.acting:
        saved = edits.save(board.root, edit, said.append, session=board.session)
    problems = (*map(given.shown, saved.fields), *fieldless(saved.problems))
    is_saved, is_stale = saved.state == "saved", saved.state == "stale"
    return ActionResult(is_saved, saved.sentence, tuple(said), problems, is_stale)


def save_project(board: Board, form: Form) -> ActionResult:
    """Write the project's title and description."""
    with board.acting:
        outcome = overview.save_project(board.root, form)
    if outcome.ok:
        board.note("overview")
    return outcome


def _matrix(board: Board, query: PageQuery) -> Values:
    names = _disciplines(board)
    chosen = query.discipline if query.discipline in names else None
    return {"view": matrix(_project(board), chosen), "disciplines": names}


def _status(board: Board) -> Status | None:
    """Return the project's status, or None if it has no tasks at all."""
    if has_tables_alone(board.root):
        return None
    with open_database(board.root) as connection:
        schema = Project(board.root).schema_in(connection)
        return project_status(connection, schema, board.root)


def _attention(board: Board, _: PageQuery) -> Values:
    has_tasks = not has_tables_alone(board.root)
    return {"view": what_waits(board.root, board.kept("drift", drift), has_tasks=has_tasks)}


def _record(board: Board, query: PageQuery) -> Values:
    with open_database(board.root) as connection:
        schema = Project(board.root).schema_in(connection)
        read = record_of_tables if has_tables_alone(board.root) else project_record
        return {"view": read(connection, schema, query.record), "query": query}


def _disciplines_view(board: Board, query: PageQuery) -> Values:
    found = read_disciplines(board.root)
    chosen, typed = found.named(query.discipline), query.typed
    fields = None
    if chosen is not None and typed is None:
        fields = fields_of(chosen)
    elif chosen is not None and typed is not None:
        fields = DisciplineForm(typed).fields(chosen)
        # The input refers to the displayed state: its positions may mean other servers by now.
        sent = typed.text("fingerprint")
        if not is_of_same_lists(sent, chosen.fingerprint):
            chosen = replace(chosen, fingerprint=sent)
    names = tuple(row.name for row in found.rows)
    problems = (*found.problems, *(chosen.problems if chosen is not None else ()))
    return {
        "view": chosen,
        "fields": fields,
        "disciplines": names,
        "problems": problems,
        "left_out": has_tables_alone(board.root),
    }


def _disciplines(board: Board) -> Names:
    """Return the names of the disciplines; none if the database is unreadable."""
    try:
        return tuple(row.name for row in read_disciplines(board.root).rows)
    except ProjectError:
        return ()


def _project(board: Board) -> Project:
    """Return the project, inspected once per change of the server's inputs."""
    return board.kept("matrix", Project)


def _overview(board: Board, query: PageQuery) -> Values:
    found = overview.project_overview(board.root, _status(board))
    return {"view": found, "about": overview.project_fields(board.root, query.typed)}


VIEWS: Mapping[str, Callable[[Board, PageQuery], Values]] = {
    "overview": _overview,
    "attention": _attention,
    "specs": lambda board, _: {"view": read_specs(board.root)},
    "knowledge": lambda board, _: {"view": _status(board)},
    "matrix": _matrix,
    "status": lambda board, _: {"view": _status(board)},
    "record": _record,
    "drift": lambda board, _: {"view": drift(board.root)},
    "disciplines": _disciplines_view,
    "sessions": lambda board, _: {"view": read_sessions(board.root)},
    "diagnosis": lambda board, _: {"view": board.findings},
}
"""The function that reads each section."""


SHEET = Path(__file__).parent / "assets" / "board.css"
LEFT_OUT = ("attention", "overview", "knowledge", "specs", "diagnosis")
"""What depends on the machine alone, and what is told elsewhere in a report."""
OF_TASKS = ("status", "disciplines")
"""What a project without tasks, features and disciplines has nothing of."""
NO_DAY = date.min
"""With it nothing has an age: a report is the same on every day."""


def report(root: Path, *, sessions: bool = False) -> str:
    """Return the report on the project in `root` as HTML, a function of the project's state.

    It does not depend on the machine, the folder or the day, except for the parts that `sessions`
    adds: recorded and local sessions, with ids and times, and the current claims. Raises
    `ProjectError` if the project cannot be read.
    """
    project = Project(root)
    schema, alone = project.schema, project.serves_any_database
    with open_database(root) as connection:
        status = (
            None if alone else project_status(connection, schema, root, NO_DAY, claims=sessions)
        )
        if not sessions:
            record = None
        elif alone:
            record = record_of_tables(connection, schema, RecordQuery(), reported=True)
        else:
            record = reported_record(connection, schema)
    left_out = {*LEFT_OUT, *(OF_TASKS if alone else [])}
    left_out |= {*(["record"] if record is None else []), *([] if sessions else ["sessions"])}
    sheet = SHEET.read_text(encoding="utf-8")
    found = drift(root)
    problems = (
        Problem(problem.text.replace(f"{root}/", ""), problem.hint.replace(f"{root}/", ""))
        for problem in found.problems
    )
    filled = html(
        "report.html.jinja",
        linked=False,
        title=project_title(root),
        sections=[(name, title) for name, title in SECTIONS.items() if name not in left_out],
        sheet=Markup(sheet),
        digest=b64encode(sha256(sheet.encode()).digest()).decode(),
        matrix=matrix(project, None),
        status=status,
        record=record,
        drift=replace(found, problems=tuple(problems)),
        disciplines=read_disciplines(root),
        sessions=sorted(read_sessions(root), key=attrgetter("session_id")) if sessions else (),
    )
    return str(filled)
