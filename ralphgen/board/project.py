"""The project: its progress, who may do what in it, its health, and the report on it."""

import json
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from hashlib import sha256
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from ralphgen.agents.edits import EditedProject
from ralphgen.board import charts
from ralphgen.board import disciplines as edits
from ralphgen.board.disciplines import drift, read_disciplines
from ralphgen.board.inbox import costs_of, nights, working_sessions
from ralphgen.board.live import (
    Board,
    has_tables_alone,
    names_in,
    project_title,
    reading,
    specum_settings,
)
from ralphgen.board.matrix import matrix
from ralphgen.board.render import Act, Desk, render
from ralphgen.board.review import work_session
from ralphgen.board.text import WAS, ActionResult, EditField, Form, line, moment, natural, paragraph
from ralphgen.doctor import examine
from ralphgen.errors import Problem, ProjectError, RalphgenError, counted
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import NOT_ACTIONABLE, Rows, decode_learnings
from ralphgen.kits.specum import spec_progress
from ralphgen.ledger.record import newest_sessions
from ralphgen.ledger.tables import state_of
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import ToolError

MOST_SPECS = 200
NEWEST = 20  # learnings
MOST_CHARACTERS = 2_000_000  # of learnings; those of further features are only counted
MOST_CHANGES = 10_000  # of tasks, in the picture of their statuses
MOST_SESSIONS = 2_000  # in the picture of the nights
CHANGES = (
    "SELECT time, before, after FROM ralphgen_journal WHERE lower(table_name) = 'tasks'"
    " ORDER BY number DESC LIMIT ?"
)
COUNTED = "SELECT FEATURE, STATUS, COUNT(*) FROM tasks GROUP BY 1, 2"
FILLED = "WHERE CAST(learnings AS TEXT) NOT IN ('', '[]') ORDER BY "
LEARNING = {"text": paragraph, "reason": paragraph}
LEARNING |= dict.fromkeys(("feature", "source", "created"), line)
NEVER = datetime.min.replace(tzinfo=UTC)


def read_progress(rows: Rows) -> list[dict[str, Any]]:
    """Return the progress of all tasks, and of every feature by title.

    `is_known` is whether a feature has its own row; drafts and skipped tasks are not `actionable`.
    """
    sql = COUNTED.replace("FEATURE", rows.exactly("feature"))
    found = defaultdict[str, Counter[str]](Counter)
    for feature, status, count in rows.execute(sql.replace("STATUS", rows.exactly("status"))):
        found[line(feature)][line(status)] += count
    titles = {line(name): title for name, title in names_in(rows, "features").items()}
    names = sorted({*found, *titles}, key=lambda one: (natural(titles.get(one) or one), one))
    overall = sum(found.values(), Counter[str]())
    order = [*charts.STATUSES, *sorted(overall.keys() - {*charts.STATUSES})]
    listed = [("All tasks", True, overall)]
    listed += [(titles.get(name) or name, name in titles, found[name]) for name in names]
    return [
        {
            "title": title,
            "is_known": is_known,
            "counts": {one: counts[one] for one in order if counts[one]},
            "done": counts["done"],
            "actionable": counts.total() - sum(counts[one] for one in NOT_ACTIONABLE),
        }
        for title, is_known, counts in listed
    ]


def read_pictures(
    rows: Rows, now: Mapping[str, int], zone: tzinfo | None = None
) -> Mapping[str, charts.Picture] | None:
    """Return the pictures of a project in a time zone, None without a ledger."""
    if state_of(rows.connection).version is None:
        return None
    working = () if zone else working_sessions(rows)
    sessions = [
        one
        for one in newest_sessions(rows, MOST_SESSIONS)
        if one.agent and (one.ended if zone else one.session_id not in working)
    ]
    costs = [
        (f"{night.begin.astimezone(zone):%d %b}", costs_of(night.sessions))
        for night in reversed(nights(sessions))
    ]
    return {"burn_up": charts.burn_up(read_days(rows, now)), "nights": charts.nights(costs)}


def read_days(rows: Rows, now: Mapping[str, int]) -> dict[date, dict[str, int]]:
    """Return the tasks by status at the end of each day with a recorded change, and before all."""
    counts, days, day = Counter(now), dict[date, dict[str, int]](), None
    for time, before, after in rows.execute(CHANGES, MOST_CHANGES):
        found = moment(time)
        if found is None:
            continue
        day = found.date()
        days.setdefault(day, dict(+counts))
        for stored, number in ((before, 1), (after, -1)):
            status = _status(stored)
            if status is not None:
                counts[status] += number
    if day is not None:
        days[day - timedelta(days=1)] = dict(+counts)
    return days


def _status(stored: str | None) -> str | None:
    """Return the status in one side of a change, None if it is not among the changed columns."""
    if stored is not None and '"status"' in stored:
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            return line(json.loads(stored)["status"])
    return None


def read_learnings(rows: Rows) -> Mapping[str, Any]:
    """Return the newest learnings of all features, their number, and why there are none.

    `unreadable` names the features with an invalid list, `not_looked_at` counts those beyond the
    limit.
    """
    lacks = rows.lacks("features", "learnings")
    found: list[tuple[datetime, int, Mapping[str, Any]]] = []
    unreadable, left, skipped = list[str](), MOST_CHARACTERS, 0
    rest = FILLED + rows.exactly("name")
    for name, stored in () if lacks else rows.read("features", ["name", "learnings"], rest):
        left -= len(str(stored))
        skipped += left < 0
        decoded = decode_learnings(stored if left >= 0 else "")
        if not decoded.readable:
            unreadable.append(line(name))
        for at, one in enumerate(decoded.values):
            found.append((moment(one.get("created")) or NEVER, at, {"feature": name, **one}))
    newest = nlargest(NEWEST, found, key=itemgetter(0, 1))
    return {
        "total": len(found),
        "newest": [
            {name: text_of(one.get(name)) for name, text_of in LEARNING.items()}
            for *_, one in newest
        ],
        "unreadable": unreadable[:NEWEST],
        "not_looked_at": skipped,
        "lacks": lacks,
    }


def read_specs(root: Path) -> Mapping[str, Any] | None:
    """Return the first specs by name, and the number of all; None if the kit is off."""
    settings = specum_settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return {"total": 0, "rows": (), "problem": line(error)}
    shown = [replace(row, problem=line(row.problem)) for row in found[:MOST_SPECS]]
    return {"total": len(found), "rows": shown, "problem": ""}


TEMPLATE = "project.html.jinja"
ASSETS = Path(__file__).parent / "assets"
SHEETS = ("board.css", "project.css")
REPORTED = 200  # sessions
RELOAD = "load the page again"
Values = Mapping[str, object]
"""The values that fill the template."""


def project_fields(root: Path, form: Form) -> dict[str, EditField]:
    """Return the title and the description with what a form has typed; empty without such texts."""
    try:
        project = EditedProject(root)
    except RalphgenError:
        return {}
    return {
        name: EditField(name, rule, str(project.record.get(name, ""))).typed(form)
        for name, rule in project.fields.items()
    }


def save_project(board: Board, form: Form) -> ActionResult:
    """Write the edited texts of a form, unless others have changed them meanwhile."""
    project = EditedProject(board.root)
    fields = [
        EditField(name, rule, form.last(f"{WAS}{name}")).typed(form)
        for name, rule in project.fields.items()
    ]
    project.record = {one.name: one.was or None for one in fields}
    wanted = {one.name: one.text or None for one in fields if one.text != one.was}
    with board.acting:
        changed = project.write(wanted)["changed"]
    return ActionResult(True, f"project: changed {', '.join(changed) or 'nothing'}")


def regenerate(board: Board, _: Form) -> ActionResult:
    """Regenerate the server and its environment."""
    messages: list[str] = []
    with board.acting:
        found = edits.regenerate(board.root, messages.append)
    if not found:
        return ActionResult(True, "the server is up to date", tuple(messages))
    is_written = any(one.startswith(f"{FOLDER}: ") for one in messages)
    rest = "was written, but its environment is not ready" if is_written else "was not written"
    return ActionResult(False, f"the server {rest}", tuple(messages), found)


def diagnose(board: Board, _: Form) -> ActionResult:
    """Run `ralphgen doctor`, and keep its findings for the page."""
    with board.acting:
        board.findings = findings = tuple(examine(Project(board.root)))
    board.note("diagnosis")
    ill = sum(bool(finding.fix) and not finding.is_warning for finding in findings)
    rest = f"{ill} of them need a fix" if ill else "no problems found"
    return ActionResult(not ill, f"{len(findings)} checks ran, {rest}")


def check(board: Board, form: Form) -> ActionResult:
    """Report why the edit of a discipline in a form cannot be saved; write nothing."""
    edit = edits.Edit.of(form)
    discipline = read_disciplines(board.root).by_name(edit.discipline)
    if discipline is None:
        raise ProjectError("this discipline no longer exists", RELOAD)
    catalog = edits.catalog_of(board.cached("matrix", Project))
    found = tuple(edits.problems_of(edit, discipline, catalog))
    return ActionResult(True, counted(len(found), "problem"), problems=found)


def save(board: Board, form: Form) -> ActionResult:
    """Save the edit of a discipline in a form, and regenerate."""
    with board.acting:
        outcome = edits.save(board.root, edits.Edit.of(form), board.session)
    return replace(outcome, then=address_of(form.text("discipline")))


def address_of(discipline: str) -> str:
    """Return the address of a discipline's form; a browser would resolve dots in a path."""
    if discipline.strip("."):
        return f"/project/disciplines/{quote(discipline, safe='')}"
    return f"/project/disciplines?name={discipline}"


def _overview(board: Board, *_: object) -> Values:
    root = board.root
    values: dict[str, object] = {"page": "overview", "title": project_title(root, root.name)}
    if has_tables_alone(root):
        return {**values, "about": {}, "specs": None, "progress": []}
    with Project(root).task_rows() as (rows, _schema):
        progress = read_progress(rows)
        values |= {"progress": progress, "learnings": read_learnings(rows)}
        values |= {"pictures": read_pictures(rows, progress[0]["counts"])}
    return {**values, "about": project_fields(root, Form()), "specs": read_specs(root)}


def _edit(board: Board, _: Request, form: Form | None, _outcome: object) -> Values:
    fields = project_fields(board.root, form or Form())
    if not fields:
        raise HTTPException(404, "the title and description cannot be edited here")
    return {"page": "edit", "fields": fields.values()}


def _access(board: Board, request: Request, *_: object) -> Values:
    names = [row.name for row in read_disciplines(board.root).rows]
    chosen = request.state.query.get("discipline", "")
    view = matrix(board.cached("matrix", Project), chosen if chosen in names else None)
    return {"page": "access", "view": view, "disciplines": names}


def _disciplines(
    board: Board, request: Request, form: Form | None, outcome: ActionResult | None
) -> Values:
    """Return all disciplines, or the one of an address or of a refused form."""
    found, wrong = read_disciplines(board.root), outcome.problems if outcome else ()
    name = request.path_params.get("name") or request.state.query.get("name")
    name = name if form is None else form.text("discipline")
    if name is None:
        return {"page": "disciplines", "address": address_of, **found._asdict()}
    view = found.by_name(name)
    if view is None:
        raise HTTPException(404, "there is no such discipline")
    return {
        "page": "discipline",
        "title": line(name),
        "view": view if form is None else edits.typed_view(view, form),
        "typed": form is not None,
        "problems": (*found.problems, *view.problems),
        "wrong": {one.field: f"{one.text}: {one.hint}".removesuffix(": ") for one in wrong},
        "address": address_of,
    }


def _health(board: Board, *_: object) -> Values:
    return {"page": "health", "drift": board.cached("drift", drift), "findings": board.findings}


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen; fixed addresses come before the ones with a name."""
    board, place, health = desk.board, "/project/disciplines", "/project/health"

    def reads(read: Callable[..., Values]) -> Callable[..., Values]:
        """Return a reader that shows the problems of a project that is unreadable."""

        def values(
            request: Request, form: Form | None = None, outcome: ActionResult | None = None
        ) -> Values:
            try:
                return {"problems": (), **read(board, request, form, outcome)}
            except RalphgenError as error:
                return {"page": "problem", "problems": error.problems}

        return values

    def does(act: Callable[[Board, Form], ActionResult]) -> Act:
        return lambda _, form: act(board, form)

    edit = TEMPLATE, "Edit the project", does(save_project), "/project", reads(_edit)
    discipline = TEMPLATE, "Disciplines", does(save), place, reads(_disciplines)
    return [
        desk.screen("/project", TEMPLATE, "Project", reads(_overview)),
        desk.form("/project/edit", *edit),
        desk.screen("/project/access", TEMPLATE, "Access", reads(_access)),
        desk.form(place, *discipline),
        desk.form(f"{place}/{{name:path}}", *discipline),
        desk.screen(health, TEMPLATE, "Health", reads(_health)),
        desk.decision("/project/check", does(check), place),
        desk.decision("/project/regenerate", does(regenerate), health),
        desk.decision("/project/diagnose", does(diagnose), health),
    ]


def report(root: Path, *, sessions: bool = False) -> str:
    """Return the report on the project in `root` as HTML, with the newest `sessions` if asked.

    It depends only on the project's state. Raises `ProjectError` if the project cannot be read.
    """
    project, found = Project(root), drift(root)
    values: dict[str, object] = {"progress": [], "pictures": None, "sessions": None}
    with reading(root) as (rows, schema):
        if rows.tables:
            values["progress"] = progress = read_progress(rows)
            values["pictures"] = read_pictures(rows, progress[0]["counts"], UTC)
        recorded = newest_sessions(rows, REPORTED) if rows.has_ledger else ()
        if sessions:
            values["sessions"] = [*map(work_session, recorded)]
    found["problems"] = [
        Problem(one.text.replace(f"{root}/", ""), one.hint.replace(f"{root}/", ""))
        for one in found["problems"]
    ]
    disciplines = read_disciplines(root)
    visible = tuple(row.without(partial(schema.hidden, "disciplines")) for row in disciplines.rows)
    sheet = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SHEETS)
    values |= {
        "page": "report",
        "title": project_title(root),
        "sheet": sheet,
        "digest": b64encode(sha256(sheet.encode()).digest()).decode(),
        "view": matrix(project, None),
        "drift": found,
        "found": disciplines._replace(rows=visible),
    }
    return render(TEMPLATE, values, "report")
