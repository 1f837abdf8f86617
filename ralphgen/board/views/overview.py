"""What a person looks at first: what runs, what waits for them, what is ready, and today's cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ralphgen.agents.edits import ClashError, EditedProject
from ralphgen.board.requests import WAS, ActionResult, Form, fieldless
from ralphgen.board.stored_text import line
from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.drift import Drifted
from ralphgen.board.views.sessions import SessionRow, read_sessions
from ralphgen.board.views.status import Status
from ralphgen.errors import RalphgenError
from ralphgen.kits.ralph.rows import Rows
from ralphgen.ledger.record import spent_since
from ralphgen.ledger.tables import state_of
from ralphgen.loop.trees import unmerged
from ralphgen.project.database import open_database
from ralphgen.runtime.errors import one_line

MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """A task that is done in a work tree, and not yet in the base branch."""

    task: int
    session: str
    worktree: str


@dataclass(frozen=True, slots=True)
class Attention:
    """What waits for a person.

    `drift` is the sentence on a server that is out of date, else empty. `merges` are the first of
    `merges_total`; `disciplines` are the first of `disciplines_total` with a value that no session
    can read, by name and what is wrong with it, and `config` says what is wrong with the config.
    """

    drift: str
    merges: tuple[PendingMerge, ...]
    merges_total: int
    disciplines: tuple[tuple[str, str], ...]
    disciplines_total: int
    config: tuple[str, ...]

    @property
    def total(self) -> int:
        """Return how many things wait."""
        return self.merges_total + self.disciplines_total + len(self.config) + bool(self.drift)


def what_waits(root: Path, drifted: Drifted, *, has_tasks: bool) -> Attention:
    """Return what waits for a person in the project in `root`, whose server differs as given.

    Raises `ProjectError` where the database cannot be read.
    """
    found = read_disciplines(root)
    merges = unmerged(root) if has_tasks else ()
    unreadable = [row for row in found.rows if row.problems]
    return Attention(
        drift="" if drifted.ok else line(drifted.summary),
        merges=tuple(
            PendingMerge(one.task, line(one.session_id), one_line(one.worktree.name))
            for one in merges[:MOST_WAITING]
        ),
        merges_total=len(merges),
        disciplines=tuple(
            (row.name, "; ".join(problem.text for problem in row.problems))
            for row in unreadable[:MOST_WAITING]
        ),
        disciplines_total=len(unreadable),
        config=tuple(problem.text for problem in found.problems),
    )


LONGEST = 20_000  # characters of a text in a form


@dataclass(frozen=True, slots=True)
class Overview:
    """The work at one moment; `status` is None where the project has no tasks.

    `running` are the sessions with a server that runs. `begun` counts the agents' sessions on
    record that began today, in UTC, and `cost` is what those cost of which it is known; both are
    empty without a ledger.
    """

    status: Status | None
    running: tuple[SessionRow, ...]
    begun: int | None
    cost: str


@dataclass(frozen=True, slots=True)
class ProjectFields:
    """The texts of the form on title and description, by field, and those that it was made from.

    `fingerprint` differs if one of the stored texts does.
    """

    texts: Mapping[str, str]
    was: Mapping[str, str]
    fingerprint: str
    is_open: bool = False


def project_fields(root: Path, typed: Form | None) -> ProjectFields | None:
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
    texts = was
    if typed is not None:
        texts = {name: (*typed.texts(name), text)[0] for name, text in was.items()}
    fingerprint = sha256(json.dumps(was).encode()).hexdigest()
    return ProjectFields(texts, was, fingerprint, typed is not None)


def save_project(root: Path, form: Form) -> ActionResult:
    """Write the title and the description of a form, unless others have changed them meanwhile."""
    try:
        project = EditedProject(root)
        for name in project.fields:  # a clash is one with the state that the form was made from
            project.record[name] = (*form.texts(f"{WAS}{name}"), "")[0] or None
        given = {name: form.texts(name) for name in project.fields}
        wanted = {name: texts[0] or None for name, texts in given.items() if texts}
        changed = project.write(wanted)["changed"]
    except ClashError as error:
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems), True)
    except RalphgenError as error:
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems))
    return ActionResult(True, f"project: changed {', '.join(changed) or 'nothing'}")


def project_overview(root: Path, status: Status | None) -> Overview:
    """Return the overview of the project in `root`, which stands as `status` says.

    Raises `ProjectError` where the database or the folder of sessions cannot be read.
    """
    running = tuple(row for row in read_sessions(root) if row.running)
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return Overview(status, running, None, "")
        today = datetime.now(UTC).date().isoformat()
        begun, cost = spent_since(Rows(connection, {}), today)
    return Overview(status, running, begun, "" if cost is None else f"${cost:,.2f}")
