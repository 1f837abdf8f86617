"""What a person changes of tasks on the board: by the tools of the project's own server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from ralphgen.board.requests import ActionResult, FieldProblem, Form, fieldless
from ralphgen.board.stored_text import line
from ralphgen.board.tasks.fields import (
    FieldConflict,
    changes_of_form,
    columns_read,
    conflicts,
    given_values,
    with_more,
)
from ralphgen.board.tasks.task import stored_task
from ralphgen.calls.caller import open_server
from ralphgen.calls.connection import KIT
from ralphgen.calls.rows import Record, RefusalError, RowTools
from ralphgen.errors import RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.ralph.rows import project_rows
from ralphgen.kits.registry import KITS
from ralphgen.project.root import FOLDER, project_place
from ralphgen.runtime.policy import FULL, NOTHING
from ralphgen.runtime.tasks.rows import plain
from ralphgen.sessions.decide import Request, RowAsRead

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
        request = Request(FULL, as_read=RowAsRead("task", task, read) if read else None)
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
