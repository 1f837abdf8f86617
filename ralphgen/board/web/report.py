"""The board's sections without anything to do, as one file that says the same on every machine."""

from base64 import b64encode
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path

from markupsafe import Markup

from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.drift import Drifted, drift
from ralphgen.board.views.matrix import matrix
from ralphgen.board.views.sessions import read_sessions
from ralphgen.board.views.status import project_status, project_title
from ralphgen.board.web.pages import SECTIONS, html
from ralphgen.errors import Problem
from ralphgen.generate.workflows import generate
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE

SHEET = Path(__file__).parents[1] / "assets" / "board.css"
LEFT_OUT = ("diagnosis",)
"""What depends on the machine alone."""
NO_DAY = date.min
"""With it nothing has an age: a report is the same on every day."""


def report(root: Path) -> str:
    """Return the report on the project in `root` as HTML, a function of the project's state.

    Nothing in it depends on the machine, the folder or the day: of sessions there is no age.
    Raises `ProjectError` where the project cannot be read.
    """
    generated = generate(root)
    with open_without_trace(root / DATABASE) as connection:
        status = project_status(connection, generated.project.schema, root, NO_DAY)
    sheet = SHEET.read_text(encoding="utf-8")
    filled = html(
        "report.html.jinja",
        title=project_title(root, generated.project.schema),
        sections=[(name, title) for name, title in SECTIONS.items() if name not in LEFT_OUT],
        sheet=Markup(sheet),
        digest=b64encode(sha256(sheet.encode()).digest()).decode(),
        matrix=matrix(generated, None),
        status=status,
        drift=_anywhere(drift(root), root),
        disciplines=read_disciplines(root),
        sessions=sorted(read_sessions(root), key=lambda row: row.session_id),
    )
    return str(filled)


def _anywhere(found: Drifted, root: Path) -> Drifted:
    """Return the same with paths below the project's folder, wherever that is."""
    problems = (
        Problem(problem.text.replace(f"{root}/", ""), problem.hint.replace(f"{root}/", ""))
        for problem in found.problems
    )
    return replace(found, problems=tuple(problems))
