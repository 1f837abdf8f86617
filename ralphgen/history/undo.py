"""Takes back what one session has done, as a session of its own that can be undone too."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ralphgen.errors import ProjectError
from ralphgen.history.changes import Key, RowChange, row_changes
from ralphgen.history.entries import (
    COLUMNS,
    SESSIONS,
    Entry,
    entries_of,
    refuse_unknown,
    same,
)
from ralphgen.history.revert import Reverter, RowResult
from ralphgen.kits.ralph.rows import proof_on
from ralphgen.kits.registry import KITS
from ralphgen.ledger.backup import FOLDER as BACKUPS
from ralphgen.ledger.tables import no_ledger, read_state
from ralphgen.project.config import read_config
from ralphgen.project.database import module_of, open_database, opened_database
from ralphgen.project.inspect import read_schema, settings_models, takes_any_schema
from ralphgen.project.root import project_home
from ralphgen.runtime.engine.closing import DONE
from ralphgen.runtime.engine.entries import KEPT, finish_undo
from ralphgen.runtime.files.entry_log import count_entry, rewrite_entries
from ralphgen.runtime.tasks.claims import holder_of, live_claims
from ralphgen.runtime.tasks.proof import RESTORED, record_reason

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

Result = TypeVar("Result")
Column = tuple[str, str, str]  # table, key of the row, name
State = tuple[Entry | None, frozenset[str]]  # the last entry on a column, and who wrote it
NO_STATE: State = (None, frozenset())
# What every tool of ralph that changes a row writes as well, by table.
STAMPS = {"tasks": ("updated",), "task_comments": ("updated",)}
RECIPE = "manual"  # of the session that an undo is: a person's
UNDO = "undo-"  # begins its id
TOOL = "undo {}"  # with the session that is undone
_ENTRIES = f"SELECT {COLUMNS} FROM ralphgen_journal WHERE session = ? ORDER BY number"
_LATER = f"SELECT {COLUMNS} FROM ralphgen_journal WHERE number > ? ORDER BY number"
_EQUAL_LINES = """
SELECT count(after) - count(before) FROM ralphgen_journal
WHERE table_name = ? AND row_key = '' AND coalesce(after, before) = ? AND coalesce(session, '')
"""
_OPENED = """
SELECT 1 FROM ralphgen_journal WHERE session = ? AND lower(table_name) = 'tasks'
    AND lower(before) LIKE '%"status":"done"%' AND after IS NOT NULL LIMIT 1
"""
_COUNT_ENTRIES = f"SELECT count(*) FROM {KEPT} WHERE file = ? AND entry = ?"
_ADD_ENTRY = f"INSERT INTO {KEPT} (file, entry) VALUES (?, ?)"
_DELETE_ENTRY = (  # the newest of equal ones
    f"DELETE FROM {KEPT} WHERE number = "
    f"(SELECT max(number) FROM {KEPT} WHERE file = ? AND entry = ?)"
)


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
    own = f"{UNDO}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(4).hex()}"
    stored = module_of(root, "stored_rows").StoredRows
    with _recorded(root, own, session) as (database, journal):
        database.has_tasks = has_tasks
        unproved = _proof(root, database, session) if has_tasks else None

        def work() -> Undone:
            entries = _entries_of(database, session)
            if not entries:
                refuse_unknown(session, [one for (one,) in database.rows(SESSIONS) if one != own])
            held: dict[Key, str] = {
                (task,): f"it is claimed by {holder_of(claim)}"
                for task, claim in (live_claims(database) if has_tasks else {}).items()
            }
            entries, family, others = _parted(database, session, own, entries)
            changes = row_changes(entries, others, STAMPS if has_tasks else {})
            closed = _closed(changes) if has_tasks else {}
            for task, is_deleted in closed.items():
                if not is_deleted and unproved is not None and (why := unproved(task)):
                    held.setdefault((task,), why)
            found = database.closing(
                lambda task: task in closed and (task,) not in held,
                lambda: Reverter(database, stored(database), held, has_tasks=has_tasks).revert(
                    changes
                ),
            )
            back = {row.key for row in found if row.done == "put back" and row.table == "tasks"}
            restored = [(task, DONE) for task in closed if (task,) in back]
            record_reason(database, own, RESTORED, restored, TOOL.format(session))
            rows = [row for row in found if row.table != KEPT]
            lines = [*_kept(found, changes)]
            in_files = [*_lines(root, database, entries, family)]
            lines += in_files
            if dry_run:
                raise _PreviewError(rows, lines)
            for one in in_files:
                if one.left or one.gone:
                    continue
                if database.catalog.KEEPS_ENTRIES:
                    sql = _ADD_ENTRY if one.put_back else _DELETE_ENTRY
                    database.change(sql, [one.file, one.line])
                    continue
                copy = f"{own}-{one.file}"
                _touch(project_home(root) / BACKUPS / copy)
                journal.add_undone(one.file, one.line, copy, put_back=one.put_back)
            return Undone(own, tuple(rows), tuple(lines))

        try:
            undone = database.writing(work)
        except _PreviewError as found:
            rows, lines = found.args
            return Undone(own, tuple(rows), tuple(lines))
        database.writing(lambda: _finish(root, database))
    return undone


def _closed(changes: Iterable[RowChange]) -> dict[int, bool]:
    """Return the tasks that an undo makes done, and whether each one was deleted."""
    return {
        cast("int", one.key[0]): not one.is_there
        for one in changes
        if one.table.lower() == "tasks" and len(one.key) == 1 and one.was_there
        if str(one.old.get("status")).lower() == DONE
    }


def _proof(root: Path, database: "Database", session: str) -> Callable[[int], str] | None:
    """Return what tells why a task is not proved, None if the session has opened no done one."""
    if not database.reading(lambda: database.rows(_OPENED, (session,))):
        return None
    with open_database(root) as connection:
        schema = read_schema(connection, root, KITS)
    return proof_on(root, schema, database)


def finish_undone(root: Path) -> None:
    """Bring the state files to where an undo that was stopped has left them to be brought.

    Raises `ProjectError` where they cannot be written.
    """
    with open_database(root) as connection:
        if connection.row("SELECT 1 FROM ralphgen_unfinished") is None:
            return
    with opened_database(root) as database:
        database.writing(lambda: _finish(root, database))


@contextmanager
def _recorded(root: Path, own: str, undone: str) -> Iterator[tuple["Database", Any]]:
    """The database, on which all changes are journaled, and keys ignored if possible."""
    if read_state(root).version is None:
        raise no_ledger()
    with opened_database(root) as database:
        database.keep_bytes()
        database.ignore_keys()
        tool = TOOL.format(undone)
        journal = database.journal(own, {"recipe": RECIPE}, lambda: tool, ends_with_writes=True)
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
    return entries_of(rows, nested=database.sql.TYPED)


def _parted(
    database: "Database", session: str, own: str, entries: list[Entry]
) -> tuple[list[Entry], set[str], list[Entry]]:
    """Return the entries to undo, their sessions, and later entries of others on the same rows.

    The undos of a session, and theirs, count as the session itself.
    """
    family = {session, own}
    if not entries:  # the session wrote nothing
        return [], family, []
    rows = {(entry.table, entry.key) for entry in entries}
    found = database.rows(_LATER, (min(entry.number for entry in entries),))
    later = entries_of(
        (row for row in found if (row[4], row[5]) in rows),
        nested=database.sql.TYPED,
    )
    for entry in later:
        if _undone_by(entry) in family:
            family.add(entry.session)
    mine = [entry for entry in later if entry.session in family]
    others = [entry for entry in later if entry.session not in family and not entry.is_line]
    return [entries[0], *mine], family, [*_lasting(others)]


def _lasting(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the last entry on each column, without those that an undo of their session gave back.

    After such an undo, what counts is what counted before that session first wrote the column.
    """
    counting: dict[Column, State] = {}
    before: dict[tuple[str | None, Column], State] = {}  # the session's first write
    deleted: dict[tuple[str, Column], object] = {}  # by undos, which may put a row in again
    for entry in entries:
        undone = _undone_by(entry)
        for name in entry.written:
            column = (entry.table, entry.key, name)
            mark = (entry.session, column)
            now = counting.get(column, NO_STATE)
            if mark not in before or (undone is None and entry.session not in now[1]):
                before[mark] = now
            if mark in deleted and same(deleted[mark], (entry.after or {}).get(name)):
                counting[column] = before[mark]
            elif (undone, column) in before:
                counting[column] = before[undone, column]
            else:
                counting[column] = (entry, now[1] | {entry.session})
            if undone is not None and entry.after is None:
                deleted[mark] = (entry.before or {})[name]
    names: dict[int, set[str]] = {}
    for (*_, name), (last, _) in counting.items():
        if last is not None:
            names.setdefault(last.number, set()).add(name)
    for entry in entries:
        if entry.number in names:
            before_it, after_it = (
                values and {one: values[one] for one in values if one in names[entry.number]}
                for values in (entry.before, entry.after)
            )
            yield replace(entry, before=before_it, after=after_it)


def _undone_by(entry: Entry) -> str | None:
    """Return the session that an entry's session undoes, None if that is not an undo."""
    prefix = TOOL.format("")
    is_undo = entry.session.startswith(UNDO) and entry.tool.startswith(prefix)
    return entry.tool.removeprefix(prefix) if is_undo else None


def _lines(
    root: Path, database: "Database", entries: Sequence[Entry], family: Collection[str]
) -> Iterator[LineResult]:
    """Yield what is to be done with the lines of a session, each on its own.

    Equal lines are known only by how often each session wrote them: those of others stay.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        if entry.is_line:
            values = entry.after or entry.before or {}
            counts[entry.table, str(values["line"])] += 1 if entry.after else -1
    for (file, line), count in counts.items():
        text = json.dumps({"line": line}, ensure_ascii=False)
        sql = f"{_EQUAL_LINES} NOT IN ({', '.join('?' * len(family))})"
        ((of_others,),) = database.rows(sql, (file, text, *family))
        for number in range(abs(count)):
            yield _look(root, database, file, line, count < 0, of_others + number)


def _kept(rows: Iterable[RowResult], changes: Iterable[RowChange]) -> Iterator[LineResult]:
    """Yield what came of those rows that are entries of state files."""
    values = {(one.table, one.key): {**one.old, **one.new} for one in changes}
    for row in rows:
        if row.table == KEPT:
            its = values[row.table, row.key]
            back = row.session is None
            yield LineResult(str(its.get("file")), str(its.get("entry")), back, left=row.left)


def _look(
    root: Path, database: "Database", file: str, line: str, put_back: bool, others: int
) -> LineResult:
    """Return what is to be done with a line of a state file that has so many equal `others`.

    If entries are rows, such a line is from before the project moved to this engine.
    """
    path = project_home(root) / ".ralph" / Path(file).name
    if database.catalog.KEEPS_ENTRIES:
        ((there,),) = database.rows(_COUNT_ENTRIES, [file, line])
    elif path.is_symlink():
        return LineResult(file, line, put_back, left="the file is a link")
    else:
        there = count_entry(str(path), line)
    return LineResult(file, line, put_back, gone=there > 0 if put_back else there <= others)


def _touch(path: Path) -> None:
    path.touch(mode=0o600)
