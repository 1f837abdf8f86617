"""Saves what a person wants of a discipline, into the database or the config, and regenerates."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ralphgen.board.edit.forms import Edit, problems_of
from ralphgen.board.edit.plan import PlannedWrite, catalog_of, plan_write, secrets_of
from ralphgen.board.requests import FieldProblem
from ralphgen.board.views.disciplines import (
    DisciplineView,
    Facts,
    discipline_of,
    is_of_same_lists,
    read_facts,
)
from ralphgen.emit import workflows
from ralphgen.emit.trust import items_of
from ralphgen.errors import Problem, ProjectError, RalphgenError, Say
from ralphgen.files import put
from ralphgen.project.approvals import keep_record
from ralphgen.project.config import FILE, config_lock
from ralphgen.project.database import ALONE, connected_database
from ralphgen.project.root import database_name
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.policy import FULL

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

State = Literal["saved", "stale", "refused"]
BOARD = "board"  # what the journal calls an edit on it
PATIENCE = 5.0  # seconds that a person waits for other writers
FOUND = "SELECT TYPE, BYTES FROM disciplines WHERE name = ?LOCK"
SAME = "SELECT COLUMN FROM disciplines WHERE name = ?"
CHANGE = "UPDATE disciplines SET COLUMNS WHERE name = ?"
SHORTEST_SECRET = 4
"""Characters; shorter values are in many a word."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of an edit: all of it is stored (`saved`), or nothing is.

    `stale` is one that was made from what is no longer there. `discipline` is what is there now,
    None where that cannot be read. `fields` are what is wrong with a refused edit, `problems` what
    else is in the way; with `saved`, they are what kept the server from being written anew.
    """

    state: State
    sentence: str
    discipline: DisciplineView | None = None
    fields: tuple[FieldProblem, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a planned write; `changed` and `refused` leave everything as it was."""

    state: Literal["stored", "changed", "refused"]
    problems: tuple[Problem, ...] = ()


class _ChangedError(Exception):
    """The discipline or the config is no longer what the write was planned from."""


def save(
    root: Path, edit: Edit, say: Say, patience: float = PATIENCE, session: str = BOARD
) -> Saved:
    """Save an edit of a discipline of the project in `root`, as a session, then regenerate.

    Columns that are there and can be written are changed in one transaction, which waits up to
    `patience` seconds for other writers; what has no column goes into the config. Where both do,
    the config is put in place last before the commit, and taken back should that fail. A column
    that the config hides is a column all the same: sessions heed it.
    """
    before = _server_digests(root, edit.discipline)
    try:
        with config_lock(root):
            saved = _saved(root, edit, patience, session)
    except RalphgenError as error:
        return Saved("refused", "nothing was saved", problems=error.problems)
    if saved.state != "saved":
        return saved
    written = _server_digests(root, edit.discipline) - before  # a person's own words
    if warning := keep_record(root, [*written]):
        say(warning)
    problems = regenerate(root, say)
    if not problems:
        return saved
    sentence = f"{saved.sentence}, but the server was not regenerated"
    return replace(saved, sentence=sentence, problems=problems)


def _server_digests(root: Path, discipline: str) -> frozenset[str]:
    """Return what stands for the discipline's servers, nothing where they cannot be read."""
    try:
        return frozenset(item.digest for item in items_of(root, discipline))
    except ProjectError:
        return frozenset()


def regenerate(root: Path, say: Say) -> tuple[Problem, ...]:
    """Write the server and make its environment as `ralphgen regen` does; return what hinders it.

    Files that were edited by hand hinder it, and stay as they are.
    """
    try:
        workflows.regenerate(root, force=False, say=say, records=False)
        workflows.install_environment(root, say=say)
    except RalphgenError as error:
        return error.problems
    return ()


def stored(planned: PlannedWrite, patience: float = PATIENCE, session: str = BOARD) -> WriteResult:
    """Write the row and the config, both or neither; wait so many seconds for other writers.

    The ledger, where there is one, says that the session did.

    No other thread opens the database meanwhile: SQLite's locks are those of the process, and end
    when any of its threads closes the file (POSIX). What a power failure can part is the config,
    which is moved into place last, and the commit that follows it at once.
    """
    try:
        with ALONE:
            _Writer(planned, session).write(patience)
    except _ChangedError:
        return WriteResult("changed")
    except ProjectError as error:
        return WriteResult("refused", error.problems)
    except (OSError, ToolError) as error:
        return WriteResult("refused", (Problem(str(error)),))
    return WriteResult("stored")


def _saved(root: Path, edit: Edit, patience: float, session: str) -> Saved:
    facts = read_facts(root)
    if facts.problems:
        raise ProjectError.of(facts.problems)
    shown = one_line(edit.discipline)
    if edit.discipline not in facts.rows:
        raise ProjectError(f'the discipline "{shown}" no longer exists', "load the page again")
    before = discipline_of(facts, facts.rows[edit.discipline])
    if before.fingerprint != edit.fingerprint:
        return _stale(edit, before)
    catalog = catalog_of(root, lambda: workflows.generate(root))
    fields = problems_of(edit, before, catalog)
    if fields:
        return Saved("refused", "nothing was saved", before, fields)
    planned = plan_write(root, facts, edit)
    if not planned.values and planned.after is None:
        return Saved("saved", f'"{shown}" already has these values', before)
    done = stored(planned, patience, session)
    now = _now(root, edit.discipline)
    if done.state == "changed":
        return _stale(edit, now)
    if done.state == "refused":
        problems = tuple(_without_secrets(problem, facts, edit) for problem in done.problems)
        return Saved("refused", "nothing was saved", now, problems=problems)
    places = [database_name(root)] * bool(planned.values) + [FILE] * (planned.after is not None)
    return Saved("saved", f'saved "{shown}" in {" and ".join(places)}', now)


def _stale(edit: Edit, now: DisciplineView | None) -> Saved:
    hint = "load the page again, then edit the current values"
    if now is not None and is_of_same_lists(edit.fingerprint, now.fingerprint):
        hint = "save it again to overwrite the current values"
    problem = Problem("someone else changed the discipline after the page was loaded", hint)
    return Saved("stale", "nothing was saved", now, problems=(problem,))


def _now(root: Path, discipline: str) -> DisciplineView | None:
    """Return the discipline as it is now."""
    facts = read_facts(root)
    row = facts.rows.get(discipline)
    return None if row is None else discipline_of(facts, row)


def _without_secrets(problem: Problem, facts: Facts, edit: Edit) -> Problem:
    """Return the problem, or less of it where a trigger's sentence repeats what it was given."""
    for secret in secrets_of(facts, edit):
        spelled = (secret, one_line(secret), json.dumps(secret)[1:-1])
        if len(secret) >= SHORTEST_SECRET and any(one in problem.text for one in spelled):
            return Problem("the database refuses this; its message contains a secret")
    return Problem(one_line(problem.text), problem.hint)


class _Writer:
    """Writes what was planned; the caller holds `ALONE`."""

    def __init__(self, planned: PlannedWrite, session: str) -> None:
        self._planned = planned
        self._session = session
        self._config = Path(planned.config)
        self._is_put = False

    def write(self, patience: float) -> None:
        """Write the row and the config; raises with nothing written."""
        try:
            if not self._planned.values:
                self._put()
                return
            with connected_database(self._planned.root, patience) as database:
                facts = {"recipe": FULL}
                journal = database.journal(
                    self._session, facts, lambda: BOARD, ends_with_writes=True
                )
                database.before_writes.append(journal.begin)
                database.writing(lambda: self._both(database))
        except BaseException:
            self._put_back()
            raise

    def _both(self, database: "Database") -> None:
        """Write the row and the config in one transaction, which may run several times."""
        planned, sql_of = self._planned, database.sql
        for column, expected in planned.expected.items():
            parts = sql_of.stored_type(column), sql_of.exact(column)
            sql = FOUND.replace("LOCK", sql_of.ROW_LOCK)
            sql = sql.replace("TYPE", parts[0]).replace("BYTES", parts[1])
            found = database.rows(sql, [planned.discipline])
            if [(kind, bytes(data or b"").hex().upper()) for kind, data in found] != [expected]:
                raise _ChangedError
        columns = ", ".join(f"{column} = ?" for column in planned.values)
        change = CHANGE.replace("COLUMNS", columns)
        database.change(change, [*planned.values.values(), planned.discipline])
        for column, value in planned.values.items():
            found = database.rows(SAME.replace("COLUMN", column), [planned.discipline])
            if not all(_is_same(value, kept) for (kept,) in found):
                raise ToolError(f'the database stored a different value in "{column}"')
        self._put()

    def _put(self) -> None:
        planned = self._planned
        if planned.after is None:
            return
        if _text(self._config) != (planned.after if self._is_put else planned.before):
            raise _ChangedError
        put(self._config, planned.after)
        self._is_put = True

    def _put_back(self) -> None:
        """Let the config be as it was, unless somebody else has changed it since."""
        if not self._is_put or _text(self._config) != self._planned.after:
            return
        if self._planned.before is None:
            self._config.unlink()
        else:
            put(self._config, self._planned.before)


def _is_same(value: str, kept: object) -> bool:
    """Return whether a column keeps a text, or the same JSON spelled otherwise."""
    return value == kept or (_parsed(value) is not None and _parsed(value) == _parsed(kept))


def _parsed(kept: object) -> object:
    """Return what a column keeps of a JSON text, which jsonb spells anew; None for no JSON."""
    try:
        return json.loads(kept) if isinstance(kept, str) else None
    except ValueError:
        return None


def _text(path: Path) -> str | None:
    """Return the text of the config; None where there is no file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
