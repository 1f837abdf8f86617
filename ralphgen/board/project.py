"""A project as the board shows it: what is known of it is kept until something has changed."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from ralphgen.board.agents.watch import StreamWatch
from ralphgen.board.changes import ChangeWatch, Marks
from ralphgen.board.edit.forms import DisciplineForm, FormError, fields_of, problems_of
from ralphgen.board.edit.plan import catalog_of
from ralphgen.board.edit.save import regenerate, save
from ralphgen.board.requests import ActionResult, FieldProblem, Form, fieldless
from ralphgen.board.views.attention import Attention, what_waits
from ralphgen.board.views.disciplines import is_of_same_lists, read_disciplines
from ralphgen.board.views.drift import Drifted, drift
from ralphgen.board.views.matrix import matrix
from ralphgen.board.views.overview import project_fields, project_overview, save_project
from ralphgen.board.views.record import RecordQuery, project_record, record_of_tables
from ralphgen.board.views.sessions import read_sessions
from ralphgen.board.views.specs import read_specs
from ralphgen.board.views.status import Status, has_tables_alone, project_status, project_title
from ralphgen.doctor.examine import CheckResult, examine
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.generate.workflows import Generated, generate
from ralphgen.kits.registry import KITS
from ralphgen.project.database import open_database
from ralphgen.project.inspect import read_schema
from ralphgen.project.model import Names
from ralphgen.project.root import FOLDER
from ralphgen.sessions.processes import end_session

RELOAD = "load the page again"
BESIDES = {
    "matrix": ("disciplines", "attention"),
    "status": ("overview", "knowledge"),
    "drift": ("attention",),
    "record": ("overview", "attention"),
    "sessions": ("overview",),
}
"""By section, others that show something of it too."""
NOTHING_ASKED = RecordQuery()
Values = Mapping[str, object]
"""What a template is filled with."""


@dataclass(frozen=True, slots=True)
class PageQuery:
    """What a page shows; no discipline is an empty text.

    `record` is what it shows of sessions and a task. `typed` is the form of the discipline as it
    was sent, where it could not be saved.
    """

    discipline: str = ""
    record: RecordQuery = NOTHING_ASKED
    typed: Form | None = None


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of changes; `last` has the number of the last one by section."""

    number: int
    last: Mapping[str, int]

    def then(self, sections: Sequence[str]) -> "ChangeCounts":
        """Return the counts with one more, of these sections; the same where there are none."""
        if not sections:
            return self
        number = self.number + 1
        return ChangeCounts(number, {**self.last, **dict.fromkeys(sections, number)})


@dataclass(frozen=True, slots=True)
class ProjectHeading:
    """What every page says of a project: its title, and whether it has tables alone."""

    title: str
    tables_alone: bool = False


class Board:
    """What the board knows of the project in `root`; every method may be called in any thread."""

    def __init__(self, root: Path) -> None:
        """Start with nothing read."""
        self.root = root
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._session = f"board-{moment}-{secrets.token_hex(4)}"  # that of a person, until it ends
        self._changes = ChangeWatch(root)
        self._streams = StreamWatch(root)
        self._noting = Lock()
        self._marks: Marks | None = None
        self._counts = ChangeCounts(1, {})
        self._generating = Lock()
        self._generated: tuple[int, Generated] | None = None
        self._comparing = Lock()
        self._drifted: tuple[int, Drifted] | None = None
        self._acting = Lock()
        self._findings: tuple[CheckResult, ...] | None = None

    def heading(self) -> ProjectHeading:
        """Return how the project is called; as its folder where its title cannot be read."""
        alone, name = has_tables_alone(self.root), self.root.name
        try:
            return ProjectHeading(project_title(self.root, name), alone)
        except RalphgenError:
            return ProjectHeading(name, alone)

    def listening(self) -> AbstractContextManager[None]:
        """Within the block, `check` finds sooner what was written, where the database tells of it.

        It is for one caller at a time.
        """
        return self._changes.listening()

    def check(self) -> None:
        """Note which sections have changed since the last check."""
        with self._noting:
            before, self._marks = self._marks, self._changes.marks()
            if before is not None:
                self._counts = self._counts.then(_differing(before, self._marks))
            self._counts = self._counts.then(self._streams.changed())

    def follow(self, session_id: str) -> None:
        """Note from now on when a session goes on: a page shows it."""
        self._streams.follow(session_id)

    def changed_since(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of the last change, and the sections changed after `number`."""
        counts = self._counts
        return counts.number, tuple(name for name, last in counts.last.items() if last > number)

    def view(self, section: str, query: PageQuery) -> Values:
        """Return the values that a section shows; raises `RalphgenError` where it cannot."""
        views: Mapping[str, Callable[[PageQuery], Values]] = {
            "overview": lambda query: {
                "view": project_overview(self.root, self._status_view()),
                "about": project_fields(self.root, query.typed),
            },
            "attention": lambda _: {"view": self._attention()},
            "specs": lambda _: {"view": read_specs(self.root)},
            "knowledge": lambda _: {"view": self._status_view()},
            "matrix": self._matrix,
            "status": lambda _: {"view": self._status_view()},
            "record": self._record,
            "drift": lambda _: {"view": drift(self.root)},
            "disciplines": self._disciplines_view,
            "sessions": lambda _: {"view": read_sessions(self.root)},
            "diagnosis": lambda _: {"view": self._findings},
        }
        return views[section](query)

    def regenerate(self) -> ActionResult:
        """Write the server anew and make its environment."""
        said: list[str] = []
        with self._acting:
            problems = regenerate(self.root, said.append)
        if not problems:
            return ActionResult(True, "the server is up to date", tuple(said))
        written = any(line.startswith(f"{FOLDER}: ") for line in said)
        rest = "was written, but its environment is not ready" if written else "was not written"
        message = f"the server {rest}"
        return ActionResult(False, message, tuple(said), fieldless(problems))

    def diagnose(self) -> ActionResult:
        """Run `ralphgen doctor`, and keep its findings for their section."""
        with self._acting:
            self._findings = tuple(examine(self.root))
        with self._noting:
            self._counts = self._counts.then(("diagnosis",))
        ill = sum(bool(finding.fix) and not finding.is_warning for finding in self._findings)
        count = f"{len(self._findings)} checks ran"
        if ill:
            return ActionResult(False, f"{count}, {ill} of them need a fix")
        return ActionResult(True, f"{count}, no problems found")

    def end(self, session_id: str) -> ActionResult:
        """End a session; waits for no other action, for it writes none of the server."""
        try:
            return ActionResult(True, end_session(self.root, session_id).sentence)
        except RalphgenError as error:
            return ActionResult(False, "no session was ended", (), fieldless(error.problems))

    def problems(self, form: Form) -> tuple[FieldProblem, ...]:
        """Return why the edit of a form cannot be saved; writes nothing."""
        given = DisciplineForm(form)
        try:
            edit = given.edit()
            discipline = read_disciplines(self.root).named(edit.discipline)
        except FormError as error:
            return error.problems
        except ProjectError as error:
            return fieldless(error.problems)
        if discipline is None:
            return (FieldProblem("", "this discipline no longer exists", RELOAD),)
        catalog = catalog_of(self.root, self._as_generated)
        return tuple(map(given.shown, problems_of(edit, discipline, catalog)))

    def save(self, form: Form) -> ActionResult:
        """Save the edit of a form, and regenerate."""
        given, said = DisciplineForm(form), list[str]()
        try:
            edit = given.edit()
        except FormError as error:
            return ActionResult(False, "nothing was saved", (), error.problems)
        with self._acting:
            saved = save(self.root, edit, said.append, session=self._session)
        problems = (*map(given.shown, saved.fields), *fieldless(saved.problems))
        is_saved, is_stale = saved.state == "saved", saved.state == "stale"
        return ActionResult(is_saved, saved.sentence, tuple(said), problems, is_stale)

    def save_project(self, form: Form) -> ActionResult:
        """Write the project's title and description."""
        with self._acting:
            outcome = save_project(self.root, form)
        with self._noting:
            self._counts = self._counts.then(("overview",) if outcome.ok else ())
        return outcome

    def _matrix(self, query: PageQuery) -> Values:
        names = self._disciplines()
        chosen = query.discipline if query.discipline in names else None
        return {"view": matrix(self._as_generated(), chosen), "disciplines": names}

    def _status_view(self) -> Status | None:
        """Return how the project stands; None where it has no tasks at all."""
        if has_tables_alone(self.root):
            return None
        with open_database(self.root) as connection:
            schema = read_schema(connection, self.root, KITS)
            return project_status(connection, schema, self.root)

    def _attention(self) -> Attention:
        """Return what waits for a person; the server is compared anew where something changed."""
        with self._comparing:
            number = self._counts.last.get("drift", 0)
            if self._drifted is None or self._drifted[0] != number:
                self._drifted = number, drift(self.root)
            found = self._drifted[1]
        return what_waits(self.root, found, has_tasks=not has_tables_alone(self.root))

    def _record(self, query: PageQuery) -> Values:
        with open_database(self.root) as connection:
            schema = read_schema(connection, self.root, KITS)
            read = record_of_tables if has_tables_alone(self.root) else project_record
            return {"view": read(connection, schema, query.record), "query": query}

    def _disciplines_view(self, query: PageQuery) -> Values:
        found = read_disciplines(self.root)
        chosen, typed = found.named(query.discipline), query.typed
        fields = None
        if chosen is not None and typed is None:
            fields = fields_of(chosen)
        elif chosen is not None and typed is not None:
            fields = DisciplineForm(typed).fields(chosen)
            # What was typed is about what was seen: its positions may mean other servers by now.
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
            "left_out": has_tables_alone(self.root),
        }

    def _disciplines(self) -> Names:
        """Return the names of the disciplines; none where the database cannot be read."""
        try:
            return tuple(row.name for row in read_disciplines(self.root).rows)
        except ProjectError:
            return ()

    def _as_generated(self) -> Generated:
        """Generate the project in memory, or return the last result if nothing has changed."""
        with self._generating:
            number = self._counts.last.get("matrix", 0)
            if self._generated is None or self._generated[0] != number:
                self._generated = number, generate(self.root)
            return self._generated[1]


def _differing(before: Marks, after: Marks) -> tuple[str, ...]:
    """Return the sections that differ, and those that show something of them."""
    found = [name for name in Marks._fields if getattr(before, name) != getattr(after, name)]
    return tuple(dict.fromkeys(one for name in found for one in (name, *BESIDES.get(name, ()))))
