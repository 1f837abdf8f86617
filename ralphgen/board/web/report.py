"""The report on a project: its sections in one HTML file, without actions."""

from base64 import b64encode
from dataclasses import replace
from datetime import date
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from markupsafe import Markup

from ralphgen.board.project import project_title
from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.drift import Drifted, drift
from ralphgen.board.views.matrix import matrix
from ralphgen.board.views.record import RecordQuery, record_of_tables, reported_record
from ralphgen.board.views.sessions import read_sessions
from ralphgen.board.views.status import project_status
from ralphgen.board.web.pages import SECTIONS, html
from ralphgen.emit.scaffold import serves_any_database
from ralphgen.emit.workflows import generate
from ralphgen.errors import Problem
from ralphgen.project.database import open_database

SHEET = Path(__file__).parents[1] / "assets" / "board.css"
LEFT_OUT = ("attention", "overview", "knowledge", "specs", "diagnosis")
"""What depends on the machine alone, and what is told elsewhere in a report."""
OF_TASKS = ("status", "disciplines")
"""What a project without tasks, features and disciplines has nothing of."""
NO_DAY = date.min
"""With it nothing has an age: a report is the same on every day."""


def report(root: Path, *, sessions: bool = False) -> str:
    """Return the report on the project in `root` as HTML, a function of the project's state.

    Nothing in it depends on the machine, the folder or the day, but for what `sessions` adds: those
    on record and those of this machine, with ids and times, and the claims as of now.
    Raises `ProjectError` where the project cannot be read.
    """
    generated = generate(root)
    schema = generated.project.schema
    alone = serves_any_database(root)
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
    filled = html(
        "report.html.jinja",
        linked=False,
        title=project_title(root),
        sections=[(name, title) for name, title in SECTIONS.items() if name not in left_out],
        sheet=Markup(sheet),
        digest=b64encode(sha256(sheet.encode()).digest()).decode(),
        matrix=matrix(generated, None),
        status=status,
        record=record,
        drift=_anywhere(drift(root), root),
        disciplines=read_disciplines(root),
        sessions=sorted(read_sessions(root), key=attrgetter("session_id")) if sessions else (),
    )
    return str(filled)


def _anywhere(found: Drifted, root: Path) -> Drifted:
    """Return the same with paths below the project's folder, wherever that is."""
    problems = (
        Problem(problem.text.replace(f"{root}/", ""), problem.hint.replace(f"{root}/", ""))
        for problem in found.problems
    )
    return replace(found, problems=tuple(problems))
