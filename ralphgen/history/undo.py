"""Takes back what one session has done, as a session of its own that can be undone too."""

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralphgen.errors import ProjectError
from ralphgen.history.changes import Key, RowChange, row_changes
from ralphgen.history.entries import (
    COLUMNS,
    SESSIONS,
    Entry,
    Values,
    decoded,
    entries_of,
    refuse_unknown,
)
from ralphgen.history.postgresql import PostgresqlReverter, change_entry, has_entry
from ralphgen.history.revert import Reverter, RowResult
from ralphgen.kits.registry import KITS
from ralphgen.ledger.backup import FOLDER as BACKUPS
from ralphgen.ledger.opened import RowJournal, journal_of, of_postgresql, opened_database
from ralphgen.ledger.tables import no_ledger, read_state
from ralphgen.project.config import read_config
from ralphgen.project.connection import open_database
from ralphgen.project.inspect import settings_models, takes_any_schema
from ralphgen.project.root import project_home
from ralphgen.runtime.engine.claims import holder_of, live_claims
from ralphgen.runtime.engine.entries import KEPT, finish_undo
from ralphgen.runtime.engine.sqlite.journal import Journal
from ralphgen.runtime.files.entry_log import holds_entry, rewrite_entries

if TYPE_CHECKING:
    from ralphgen.runtime.engine.connection import Database

Result = TypeVar("Result")
# What every tool of ralph that changes a row writes as well, by table.
STAMPS = {"tasks": ("updated",), "task_comments": ("updated",)}
RECIPE = "manual"  # of the session that an undo is: a person's
TOOL = "undo {}"  # with the session that is undone
_ENTRIES = f"SELECT {COLUMNS} FROM ralphgen_journal WHERE session = ? ORDER BY number"
_LATER = f"SELECT {COLUMNS} FROM ralphgen_journal WHERE number > ? ORDER BY number"
_UNDOING = "SELECT DISTINCT session FROM ralphgen_journal WHERE tool = ? AND session IS NOT NULL"


@dataclass(frozen=True, slots=True)
class LineResult:
    """An entry of a state file that was taken out or `put_back`; why not, where it is `left`.

    `gone` says that there is nothing to do: it is as it was before already.
    """

    file: str
    line: str
    put_back: bool
    left: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo has come to: the id of its own session, and what came of rows and of lines."""

    session: str
    rows: tuple[RowResult, ...]
    lines: tuple[LineResult, ...]

    @property
    def left(self) -> bool:
        """Whether anything was left alone."""
        return any(row.left for row in self.rows) or any(line.left for line in self.lines)

    @property
    def changed(self) -> int:
        """How many rows and lines are as they were before."""
        lines = [one for one in self.lines if not one.left and not one.gone]
        return len(lines) + sum(one.done is not None for one in self.rows)


class _PreviewError(Exception):
    """Ends the transaction of a dry run, with what it has come to."""


def undo_session(root: Path, session: str, *, dry_run: bool = False) -> Undone:
    """Set back what a session has changed, where nobody has changed it since; return what came.

    All of it is one transaction, after which the state files follow; a stop in between is finished
    by the next command. A `dry_run` writes nothing. Raises `MissingError` for a session that is not
    on record, and `ProjectError` where there is no ledger or the database cannot be written.
    """
    config = read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS))
    has_tasks = not takes_any_schema(config, KITS)
    own = f"undo-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(4).hex()}"
    with _recorded(root, own, session) as (database, journal):

        def work() -> Undone:
            entries = _entries_of(database, session)
            if not entries:
                refuse_unknown(session, [one for (one,) in database.rows(SESSIONS) if one != own])
            held: dict[Key, str] = {
                (task,): f"it is claimed by {holder_of(claim)}"
                for task, claim in (live_claims(database) if has_tasks else {}).items()
            }
            reverter = Reverter if of_postgresql(database) is None else PostgresqlReverter
            others = _others(database, session, own, entries)
            changes = row_changes(entries, others, STAMPS if has_tasks else {})
            found = reverter(database, held, has_tasks=has_tasks).revert(changes)
            rows = [row for row in found if row.table != KEPT]
            lines = [*_kept(found, changes)]
            entries += _of_undos(database, session)
            in_files = [_look(root, database, *one) for one in _lines(entries)]
            lines += in_files
            if dry_run:
                raise _PreviewError(rows, lines)
            for one in in_files:
                if one.left or one.gone:
                    continue
                if isinstance(journal, Journal):
                    copy = f"{own}-{one.file}"
                    _touch(project_home(root) / BACKUPS / copy)
                    journal.add_undone(one.file, one.line, copy, put_back=one.put_back)
                else:
                    change_entry(database, one.file, one.line, put_back=one.put_back)
            return Undone(own, tuple(rows), tuple(lines))

        try:
            undone = database.writing(work)
        except _PreviewError as found:
            rows, lines = found.args
            return Undone(own, tuple(rows), tuple(lines))
        database.writing(lambda: _finish(root, database))
    return undone


def finish_undone(root: Path) -> None:
    """Bring the state files to where an undo that was stopped has left them to be brought.

    Raises `ProjectError` where they cannot be written.
    """
    with open_database(root) as connection:
        if connection.execute("SELECT 1 FROM ralphgen_unfinished").fetchone() is None:
            return
    with opened_database(root) as database:
        database.writing(lambda: _finish(root, database))


@contextmanager
def _recorded(root: Path, own: str, undone: str) -> Iterator[tuple["Database", RowJournal]]:
    """The database, on which all that is written is journaled; on SQLite, without foreign keys."""
    if read_state(root).version is None:
        raise no_ledger()
    with opened_database(root) as database:
        if of_postgresql(database) is None:
            database.connection.text_factory = decoded
            database.change("PRAGMA foreign_keys = OFF")
        tool = TOOL.format(undone)
        journal = journal_of(database, own, {"recipe": RECIPE}, lambda: tool, ends_with_writes=True)
        database.before_writes.append(journal.begin)
        yield database, journal


def _finish(root: Path, database: "Database") -> None:
    def rewrite(file: str, copy: str, lines: list[tuple[str, bool]]) -> None:
        path = str(project_home(root) / ".ralph" / Path(file).name)
        try:
            rewrite_entries(path, str(project_home(root) / BACKUPS / Path(copy).name), lines)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ProjectError(
                f'the rows were restored, but "{path}" cannot be written: {reason}',
                'to try again, run "ralphgen log"',
            ) from error

    finish_undo(database, rewrite)


def _entries_of(database: "Database", session: str) -> list[Entry]:
    rows = database.rows(_ENTRIES, (session,))
    return entries_of(rows, nested=of_postgresql(database) is not None)


def _of_undos(database: "Database", session: str) -> list[Entry]:
    """Return the entries of the undos of a session, and of theirs.

    A line that is like one of another session is known only by how often each has written it.
    """
    found: list[Entry] = []
    for (undo,) in database.rows(_UNDOING, (TOOL.format(session),)):
        found += [*_entries_of(database, undo), *_of_undos(database, undo)]
    return found


def _others(
    database: "Database", session: str, own: str, entries: Sequence[Entry]
) -> Iterator[Entry]:
    """Yield the entries of other sessions on the rows of a session's `entries`, since the first.

    Left out are undos of the session, and every column of a session that its own undo wrote too:
    there the row is as the session left it.
    """
    if not entries:  # the session wrote nothing
        return
    rows = {(entry.table, entry.key) for entry in entries if not entry.is_line}
    first = min(entry.number for entry in entries)
    found = [row for row in database.rows(_LATER, (first,)) if (row[4], row[5]) in rows]
    later = entries_of(found, nested=of_postgresql(database) is not None)
    family = {session, own}
    undone: dict[tuple[str, str, str], set[str]] = {}
    for entry in later:
        of = entry.tool.removeprefix(TOOL.format(""))
        if of != entry.tool and of in family:
            family.add(entry.session)
        elif of != entry.tool:
            written = {*(entry.before or ()), *(entry.after or ())}
            for by in (of, entry.session):
                undone.setdefault((by, entry.table, entry.key), set()).update(written)
    for entry in later:
        gone = undone.get((entry.session, entry.table, entry.key), set())
        before, after = (_without(values, gone) for values in (entry.before, entry.after))
        if entry.session not in family and (before or after):
            yield replace(entry, before=before, after=after)


def _without(values: Values | None, columns: Collection[str]) -> Values | None:
    return values and {name: value for name, value in values.items() if name not in columns}


def _lines(entries: Sequence[Entry]) -> Iterator[tuple[str, str, bool]]:
    """Yield what undoes the lines of a session, each on its own: file, line, whether put back."""
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        if entry.is_line:
            values = entry.after or entry.before or {}
            counts[entry.table, str(values["line"])] += 1 if entry.after else -1
    for (file, line), count in counts.items():
        for _ in range(abs(count)):
            yield file, line, count < 0


def _kept(rows: Iterable[RowResult], changes: Iterable[RowChange]) -> Iterator[LineResult]:
    """Yield what came of those rows that are entries of state files."""
    values = {(one.table, one.key): {**one.old, **one.new} for one in changes}
    for row in rows:
        if row.table == KEPT:
            its = values[row.table, row.key]
            back = row.session is None
            yield LineResult(str(its.get("file")), str(its.get("entry")), back, left=row.left)


def _look(root: Path, database: "Database", file: str, line: str, put_back: bool) -> LineResult:
    """Return what is to be done with a line of a state file.

    On PostgreSQL such a line is from before the project moved there: now it is a row.
    """
    if of_postgresql(database) is not None:
        gone = has_entry(database, file, line) == put_back
        return LineResult(file, line, put_back, gone=gone)
    path = project_home(root) / ".ralph" / Path(file).name
    if path.is_symlink():
        return LineResult(file, line, put_back, left="the file is a link")
    return LineResult(file, line, put_back, gone=holds_entry(str(path), line) == put_back)


def _touch(path: Path) -> None:
    path.touch(mode=0o600)
