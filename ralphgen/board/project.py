"""A project as the board shows it: what is known of it is kept until something has moved."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ralphgen.board.edit.discipline_forms import PersonaForm, fields_of
from ralphgen.board.edit.edits import FormError, problems_of
from ralphgen.board.edit.save import save
from ralphgen.board.outcomes import FieldProblem, Outcome
from ralphgen.board.requests import Form
from ralphgen.board.views import drift, open_sessions
from ralphgen.board.views.changes import Changes, Marks
from ralphgen.board.views.disciplines import personas
from ralphgen.board.views.matrix import matrix
from ralphgen.board.views.project_title import project_title
from ralphgen.board.views.status import standing
from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.generate.workflows import Generated, generate
from ralphgen.kits.registry import KITS
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE, read_schema
from ralphgen.project.model import Names
from ralphgen.project.root import FOLDER

if TYPE_CHECKING:
    from ralphgen.doctor.examine import CheckResult

RELOAD = "load the page again"
Values = Mapping[str, object]
"""What a template is filled with."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is asked to show; no discipline is an empty text.

    `typed` is the form of the discipline as it was sent, where it could not be saved.
    """

    discipline: str = ""
    typed: Form | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        """What a query asks for."""
        return cls(query.get("discipline", ""))


@dataclass(frozen=True, slots=True)
class Moves:
    """How often something has moved: `number` counts, and `last` has it by section."""

    number: int
    last: Mapping[str, int]

    def then(self, sections: Sequence[str]) -> "Moves":
        """The moves with one more, of these sections; the same where there are none."""
        if not sections:
            return self
        number = self.number + 1
        return Moves(number, {**self.last, **dict.fromkeys(sections, number)})


class Board:
    """What the board knows of the project in `root`; every method may be called in any thread."""

    def __init__(self, root: Path) -> None:
        """Reads nothing yet."""
        self.root = root
        self._changes = Changes(root)
        self._noting = Lock()
        self._marks: Marks | None = None
        self._moves = Moves(1, {})
        self._generating = Lock()
        self._generated: tuple[int, Generated] | None = None
        self._acting = Lock()
        self._findings: tuple[CheckResult, ...] | None = None

    def title(self) -> str:
        """What the project calls itself; the name of its folder where that cannot be read."""
        try:
            return project_title(self.root, self._as_generated().project.schema)
        except RalphgenError:
            return self.root.name

    def look(self) -> None:
        """Note which sections have moved since the last look."""
        with self._noting:
            before, self._marks = self._marks, self._changes.moved()
            if before is not None:
                self._moves = self._moves.then(_moved(before, self._marks))

    def moved_since(self, number: int) -> tuple[int, tuple[str, ...]]:
        """The number of the last move, and the sections that have moved after `number`."""
        moves = self._moves
        return moves.number, tuple(name for name, last in moves.last.items() if last > number)

    def view(self, section: str, asked: Asked) -> Values:
        """What a section shows; raises `RalphgenError` where it cannot be said."""
        views: Mapping[str, Callable[[Asked], Values]] = {
            "matrix": self._matrix,
            "standing": self._standing,
            "drift": lambda _: {"view": drift.drift(self.root)},
            "personas": self._personas,
            "sessions": lambda _: {"view": open_sessions.open_sessions(self.root)},
            "diagnosis": lambda _: {"view": self._findings},
        }
        return views[section](asked)

    def regenerate(self) -> Outcome:
        """Write the server anew and make its environment."""
        said: list[str] = []
        with self._acting:
            problems = drift.regenerate(self.root, said.append)
        if not problems:
            return Outcome(True, "the server is as the project is now", tuple(said))
        written = any(line.startswith(f"{FOLDER}: ") for line in said)
        rest = "is written, but its environment is not ready" if written else "was not written"
        message = f"the server {rest}"
        return Outcome(False, message, tuple(said), _fieldless(problems))

    def diagnose(self) -> Outcome:
        """Look everything over, and keep what was found for its section."""
        with self._acting:
            self._findings = tuple(drift.diagnosis(self.root))
        with self._noting:
            self._moves = self._moves.then(("diagnosis",))
        ill = sum(bool(finding.fix) for finding in self._findings)
        count = f"{len(self._findings)} things were looked at"
        if ill:
            return Outcome(False, f"{count}, of which {ill} must be mended")
        return Outcome(True, f"{count}, and all is well")

    def end(self, session_id: str) -> Outcome:
        """End a session; waits for no other action, for it writes none of the server."""
        try:
            return Outcome(True, open_sessions.end(self.root, session_id).sentence)
        except RalphgenError as error:
            return Outcome(False, "no session was ended", (), _fieldless(error.problems))

    def problems(self, form: Form) -> tuple[FieldProblem, ...]:
        """What keeps the edit of a form from being saved; writes nothing."""
        given = PersonaForm(form)
        try:
            edit = given.edit()
            persona = personas(self.root).named(edit.discipline)
        except FormError as error:
            return error.problems
        except ProjectError as error:
            return _fieldless(error.problems)
        if persona is None:
            return (FieldProblem("", "there is no such discipline any more", RELOAD),)
        return tuple(map(given.shown, problems_of(edit, persona)))

    def save(self, form: Form) -> Outcome:
        """Save the edit of a form, and regenerate."""
        given, said = PersonaForm(form), list[str]()
        try:
            edit = given.edit()
        except FormError as error:
            return Outcome(False, "nothing was saved", (), error.problems)
        with self._acting:
            saved = save(self.root, edit, said.append)
        problems = (*map(given.shown, saved.fields), *_fieldless(saved.problems))
        return Outcome(saved.state == "saved", saved.sentence, tuple(said), problems)

    def _matrix(self, asked: Asked) -> Values:
        names = self._disciplines()
        chosen = asked.discipline if asked.discipline in names else None
        return {"view": matrix(self._as_generated(), chosen), "disciplines": names}

    def _standing(self, _: Asked) -> Values:
        with open_without_trace(self.root / DATABASE) as connection:
            schema = read_schema(connection, self.root, KITS)
            return {"view": standing(connection, schema, self.root)}

    def _personas(self, asked: Asked) -> Values:
        found = personas(self.root)
        chosen, typed = found.named(asked.discipline), asked.typed
        fields = None
        if chosen is not None and typed is None:
            fields = fields_of(chosen)
        elif chosen is not None and typed is not None:
            fields = PersonaForm(typed).fields()
            # What was typed is about what was seen: its positions mean other servers by now.
            chosen = replace(chosen, fingerprint=typed.text("fingerprint"))
        names = tuple(persona.name for persona in found.disciplines)
        problems = (*found.problems, *(chosen.problems if chosen is not None else ()))
        return {"view": chosen, "fields": fields, "disciplines": names, "problems": problems}

    def _disciplines(self) -> Names:
        """The names of the disciplines; none where the database cannot be read."""
        try:
            return tuple(persona.name for persona in personas(self.root).disciplines)
        except ProjectError:
            return ()

    def _as_generated(self) -> Generated:
        """What the project comes to now, kept until what it follows from has moved."""
        with self._generating:
            number = self._moves.last.get("matrix", 0)
            if self._generated is None or self._generated[0] != number:
                self._generated = number, generate(self.root)
            return self._generated[1]


def _moved(before: Marks, after: Marks) -> tuple[str, ...]:
    """The sections that differ; disciplines stand where the matrix finds them."""
    found = [name for name in Marks._fields if getattr(before, name) != getattr(after, name)]
    return (*found, *(["personas"] if "matrix" in found else []))


def _fieldless(problems: Iterable[Problem]) -> tuple[FieldProblem, ...]:
    return tuple(FieldProblem("", problem.text, problem.hint) for problem in problems)
