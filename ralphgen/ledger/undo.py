"""Undoes the changes of one session, as a new session that can be undone too."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from ralphgen.errors import MissingError, ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import proof_on
from ralphgen.ledger.backup import FOLDER as BACKUPS
from ralphgen.ledger.record import (
    ENTRY_COLUMNS,
    SESSION_IDS,
    Entry,
    Values,
    entries_of,
    key_of,
    refuse_unknown,
    same,
)
from ralphgen.ledger.tables import no_ledger, read_state
from ralphgen.project.database import module_of, open_database, opened_database
from ralphgen.project.git import ask_git
from ralphgen.project.root import project_home
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.ledger import DONE, KEPT, finish_undo, moment
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.entry_log import count_entry, rewrite_entries
from ralphgen.runtime.tasks.claims import (
    drop_merge_of,
    holder_of,
    live_claims,
    prerequisite_lists,
)
from ralphgen.runtime.tasks.comments import ACCEPTED, OPEN, SENT_BACK, WITHDRAW
from ralphgen.runtime.tasks.status import RESTORED, record_reason

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database
    from ralphgen.runtime.engine.stored_rows import StoredRows


Key = tuple[object, ...]


@dataclass(slots=True)
class RowChange:
    """A row before a session's first write (`old`), and as the session left it (`new`).

    If it existed both times, these are the columns that the session changed, else the whole row.
    `mixed` is set if another session changed the same columns in between or later; `by` is the last
    one that did, if the journal has it. `group` are the changes of this row under all its keys,
    including this one.
    """

    table: str
    key: Key
    number: int = 0  # that of its last entry
    was_there: bool = True
    is_there: bool = True
    mixed: bool = False
    by: str | None = None
    group: list["RowChange"] = field(default_factory=list, repr=False, compare=False)
    old: Values = field(default_factory=dict)
    new: Values = field(default_factory=dict)
    _added: bool = False  # whether the session made the row that there is
    _since: dict[str, int] = field(default_factory=dict)  # by column, the session's first entry

    def __post_init__(self) -> None:
        self.group.append(self)

    def take(self, entry: Entry, stamps: Collection[str], *, first: bool) -> None:
        """Take in the next entry on this row; `stamps` as in `compare`."""
        self.number = entry.number
        if first:
            self.was_there = self.is_there = entry.before is not None
        before, after = entry.before or {}, entry.after or {}
        self.mixed |= self.is_there != (entry.before is not None)
        self.mixed |= any(
            not same(self.new[column], value)
            for column, value in before.items()
            if column in self.new and column not in stamps
        )
        self._since = {**dict.fromkeys({**before, **after}, entry.number), **self._since}
        if self.was_there and not self._added:
            self.old = {**before, **self.old}
        if entry.before is None:
            self._added = True
        if entry.after is None or entry.before is None:
            self.new = {}
        self.new = {**self.new, **after}
        self.is_there = entry.after is not None

    def compare(self, others: Iterable[Entry], stamps: Collection[str]) -> None:
        """Record later writes of other sessions, even if the values are the same.

        Every change of a row writes its `stamps`, which the journal has only if they differ: once
        another session changes the row, they no longer belong to this session.
        """
        later: set[str] = set()
        is_whole = not (self.was_there and self.is_there)
        for entry in others:
            later |= {name for name, since in self._since.items() if entry.number > since}
            written = {*entry.changed_columns} - {*stamps}
            is_new = is_whole and later and written - {*self._since}  # a column added since
            if written & later or is_new:
                self.mixed, self.by = True, entry.session
        if not is_whole:
            for name in later.intersection(stamps):
                self.old.pop(name, None)
                self.new.pop(name, None)


def row_changes(
    entries: Iterable[Entry],
    others: Iterable[Entry] = (),
    stamps: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[RowChange]:
    """Return the result of one session's entries, row by row, the last one changed first.

    `others` are entries of other sessions on these rows; `stamps` are the columns, by table, that
    every change of a row writes. If others changed a row under one of its keys, they changed it
    under each.
    """
    found: dict[tuple[str, str], RowChange] = {}
    previous: Entry | None = None
    for entry in entries:
        if entry.is_line:
            continue
        name = (entry.table, entry.key)
        first = name not in found
        change = found.setdefault(name, RowChange(entry.table, key_of(entry.key)))
        change.take(entry, stamps.get(entry.table, ()), first=first)
        if previous is not None and _is_move(previous, entry):
            origin = found[previous.table, previous.key]
            group = [*{id(one): one for one in (*origin.group, *change.group)}.values()]
            for one in group:
                one.group = group
        previous = entry
    by_row: dict[tuple[str, str], list[Entry]] = {}
    for entry in others:
        by_row.setdefault((entry.table, entry.key), []).append(entry)
    for name, written in by_row.items():
        if name in found:
            found[name].compare(written, stamps.get(name[0], ()))
    for change in found.values():
        for one in change.group if change.mixed else ():
            one.mixed, one.by = True, one.by or change.by
    return sorted(found.values(), key=lambda change: -change.number)


def _is_move(gone: Entry, new: Entry) -> bool:
    """Return whether two entries of one session are a single change of a key."""
    if gone.after is not None or new.before is not None or gone.key == new.key:
        return False
    before, after, key = gone.before or {}, new.after or {}, key_of(gone.key)
    return (
        (gone.session, gone.tool, gone.table) == (new.session, new.tool, new.table)
        and before.keys() == after.keys()
        and all(same(value, after[name]) or value in key for name, value in before.items())
    )


RowOutcome = Literal["restored", "recreated", "deleted"]
CHANGED = "session {} changed it later"
FOREIGN = "it does not match the journal: another program may have changed it"
MOVED = "its key was changed, and the row with the other key is left"
GONE = "it refers to a row that no longer exists"
NAMED = "another row refers to it"
REFUSED = "the database rejects it: {}"
TOGETHER = "the work stays sent back as a whole"


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of an undo for one row: how it was `done`, or why it was left.

    `columns` are the reverted ones. In the columns that the session changed, `session` is the row
    as the session left it, and `now` its current values; each is None if the row did not exist
    then.
    """

    table: str
    key: Key
    done: RowOutcome | None
    left: str = ""
    columns: tuple[str, ...] = ()
    session: Values | None = None
    now: Values | None = None


class Reverter:
    """Undoes changes of rows, on a connection that keeps bytes and ignores keys if it can.

    The caller is in a transaction of `database.writing`. `held` are the tasks that are left, with
    the reason; unless the project `has_tasks`, a table of that name is like any other.
    """

    def __init__(
        self, database: "Database", rows: "StoredRows", held: Mapping[Key, str], *, has_tasks: bool
    ) -> None:
        self._database = database
        self._rows = rows
        self._has_tasks = has_tasks
        self._held = held

    def revert(self, changes: Sequence[RowChange], *, is_whole: bool = False) -> list[RowResult]:
        """Revert changes if possible, and return the result for each row that had changed.

        A row is left if it conflicts with another one, or refers to a deleted one; the others are
        then tried again without it, or left too if the revert `is_whole`. Triggers of the app do
        not run, because their changes are in the journal too.
        """
        looks = [self._look(change) for change in changes]
        found = {(look.table, look.key): look for look in looks if look is not None}
        tables = {change.table for change in changes}
        self._database.change("SAVEPOINT whole")
        self._rows.without_triggers(tables, lambda: self._set_all_back(changes, found))
        if is_whole and any(one.left for one in found.values()):
            self._database.change("ROLLBACK TO whole")
            found = {
                name: replace(one, done=None, left=one.left or TOGETHER)
                for name, one in found.items()
            }
        self._database.change("RELEASE whole")
        return [*found.values()]

    def _set_all_back(
        self, changes: Sequence[RowChange], found: dict[tuple[str, Key], RowResult]
    ) -> None:
        """Revert all changes; leave those that fail, with the reason in `found`."""
        broken, vain = {*self._database.broken_keys()}, {*self._in_vain()}
        self._database.change("SAVEPOINT reverted")
        while True:
            for change in changes:
                names = [(one.table, one.key) for one in change.group]
                if any(name in found and found[name].left for name in names):
                    for name in names:
                        if name in found and not found[name].left:
                            found[name] = replace(found[name], done=None, left=MOVED)
            done = {name for name, result in found.items() if result.done is not None}
            wanted = [one for one in changes if (one.table, one.key) in done]
            refused = (
                self._apply(wanted)
                or self._in_the_way(wanted, broken)
                or self._waiting(wanted, vain)
            )
            if not refused:
                break
            self._database.change("ROLLBACK TO reverted")
            for name, why in refused.items():
                found[name] = replace(found[name], done=None, left=why)
        self._database.change("RELEASE reverted")

    def _look(self, change: RowChange) -> RowResult | None:
        """Return the planned action for a row, or None if it already has its old values."""
        columns = tuple(change.new if change.is_there else change.old)
        table = self._rows.tables.get(change.table)
        if (
            table is None
            or len(table.key) != len(change.key)
            or not {*change.old, *change.new} <= {*table.columns}
        ):
            left = "the columns of its table have changed"
            return RowResult(
                change.table, change.key, None, left, columns, _remaining_values(change)
            )
        rows = self._rows.read(change.table, change.key)
        now = rows[0] if rows else None
        current = None if now is None else {name: now[name] for name in change.new or now}
        if len(rows) > 1:
            left = "several rows have the same key"
            return RowResult(
                change.table, change.key, None, left, columns, _remaining_values(change), current
            )
        if _is(now, change.old if change.was_there else None):
            return None
        left = self._held.get(change.key, "") if change.table.lower() == "tasks" else ""
        if change.mixed or not _is(now, change.new if change.is_there else None):
            left = left or (FOREIGN if change.by is None else CHANGED.format(change.by))
        if left:
            return RowResult(
                change.table, change.key, None, left, columns, _remaining_values(change), current
            )
        done: RowOutcome = "restored" if change.is_there else "recreated"
        return RowResult(
            change.table,
            change.key,
            done if change.was_there else "deleted",
            columns=columns,
            session=_remaining_values(change),
            now=current,
        )

    def _apply(self, changes: Sequence[RowChange]) -> dict[tuple[str, Key], str]:
        """Revert rows; return those that the database refuses, with the reason.

        A row may conflict with another one until that one is reverted too.
        """
        waiting = list(changes)
        while waiting:
            refused: dict[tuple[str, Key], str] = {}
            for change in waiting:
                if why := self._refusal(change):
                    refused[change.table, change.key] = why
            if len(refused) == len(waiting):
                return {} if self._swap(waiting) else refused
            waiting = [one for one in waiting if (one.table, one.key) in refused]
        return {}

    def _refusal(self, change: RowChange) -> str:
        """Undo the change of a row; return why the database refuses that, empty if it does not."""
        if self._is_named(change, None if not change.was_there else change.new):
            return NAMED
        error = self._attempt(lambda: self._set_back(change))
        if error is None:
            return ""
        return GONE if self._rows.is_orphan(error) else REFUSED.format(str(error).splitlines()[0])

    def _is_named(self, change: RowChange, columns: Values | None) -> bool:
        """Return whether another row refers to these columns of a row that exists now."""
        return change.is_there and self._rows.is_referenced(change.table, change.key, columns)

    def _attempt(self, work: Callable[[], None]) -> Exception | None:
        """Do `work`; if the database refuses it, return the error and change nothing."""
        refused = None
        self._database.change("SAVEPOINT attempt")
        try:
            work()
        except self._database.refusals as error:
            refused = error
            self._database.change("ROLLBACK TO attempt")
        self._database.change("RELEASE attempt")
        return refused

    def _set_back(self, change: RowChange) -> None:
        if not change.was_there:
            self._rows.delete(change.table, change.key)
        elif change.is_there:
            old = {name: change.old[name] for name in change.new}
            self._rows.update(change.table, change.key, old)
        else:
            self._insert(change, change.old)

    def _insert(self, change: RowChange, row: Values) -> None:
        key = self._rows.tables[change.table].key
        self._rows.insert(change.table, {**dict(zip(key, change.key, strict=True)), **row})

    def _swap(self, changes: Sequence[RowChange]) -> bool:
        """Undo changes that block each other: delete all rows, then insert; return success."""
        if len(changes) == 1 or any(self._is_named(change, None) for change in changes):
            return False
        rows = [
            (change, {**now, **change.old})
            for change in changes
            for now in self._rows.read(change.table, change.key)
        ]

        def work() -> None:
            for change in changes:
                self._rows.delete(change.table, change.key)
            for change, row in rows:
                if change.was_there:
                    self._insert(change, row)

        return self._attempt(work) is None

    def _in_the_way(
        self, changes: Sequence[RowChange], before: set[tuple[Any, ...]]
    ) -> dict[tuple[str, Key], str]:
        """Return the reverted rows that have broken a foreign key, with the reason."""
        refused: dict[tuple[str, Key], str] = {}
        for broken in {*self._database.broken_keys()} - before:
            child, number, parent, _ = broken
            own = self._numbered(child, None, number)
            children = [
                one
                for one in changes
                if one.table == child and one.was_there and (not own or one.key in own)
            ]
            named = self._reference_values(broken)
            parents = [
                one
                for one in changes
                if one.table.lower() == parent.lower()
                and (named is None or named.items() <= one.new.items())
            ]
            refused |= {(one.table, one.key): GONE for one in children}
            if not children:
                refused |= {(one.table, one.key): NAMED for one in parents}
            if not children and not parents:
                refused |= {(one.table, one.key): NAMED for one in changes}
        return refused

    def _in_vain(self) -> Iterator[tuple[int, int]]:
        """Yield each task that depends on a missing one, and the number of that one."""
        table = self._rows.tables.get("tasks") if self._has_tasks else None
        if table is None or not {"id", "depends_on"} <= {*table.columns}:
            return
        found = dict(self._database.rows("SELECT id, depends_on FROM tasks"))
        for task, needed in zip(found, prerequisite_lists([*found.values()]), strict=True):
            yield from ((task, one) for one in needed or () if one not in found)

    def _waiting(
        self, changes: Sequence[RowChange], before: set[tuple[int, int]]
    ) -> dict[tuple[str, Key], str]:
        """Return the tasks that wait for a missing one, or that others miss, with the reason."""
        refused: dict[tuple[str, Key], str] = {}
        own = {one.key: one.was_there for one in changes if one.table == "tasks"}
        for task, missing in {*self._in_vain()} - before:
            if own.get((task,)):
                refused["tasks", (task,)] = GONE
            elif (missing,) in own:
                refused["tasks", (missing,)] = NAMED
        return refused

    def _numbered(self, name: str, columns: Sequence[str] | None, number: int | None) -> list[Key]:
        """Return columns of the row of a number, or its key; nothing if rows have no numbers."""
        table = self._rows.tables.get(name)
        if number is None or table is None or table.number is None:
            return []
        names = ", ".join(map(quoted, columns or table.key))
        sql = f"SELECT {names} FROM {quoted(name)} WHERE {table.number} = ?"
        return self._database.rows(sql, (number,))

    def _reference_values(self, broken: tuple[Any, ...]) -> Values | None:
        """Return the values with which a row refers to a missing one, or None if unknown."""
        child, number, _, which = broken
        _, pairs = self._database.catalog.parents(self._database, child)[which]
        rows = self._numbered(child, [own for own, _ in pairs], number)
        if not rows or not all(theirs for _, theirs in pairs):
            return None
        return dict(zip((theirs for _, theirs in pairs), rows[0], strict=True))


def _remaining_values(change: RowChange) -> Values | None:
    return change.new if change.is_there else None


def _is(now: Values | None, row: Values | None) -> bool:
    """Return whether a row is there or not as another is, and the same in the latter's columns."""
    if now is None or row is None:
        return now is row
    return all(same(now[column], value) for column, value in row.items())


Result = TypeVar("Result")
Column = tuple[str, str, str]  # table, key of the row, name
State = tuple[Entry | None, frozenset[str]]  # the last entry on a column, and who wrote it
NO_STATE: State = (None, frozenset())
# Columns that every changing tool of ralph also writes, by table.
STAMPS = {"tasks": ("updated",), "task_comments": ("updated",)}
UNDO_RECIPE = "manual"  # of an undo's session, which belongs to the user
UNDO_PREFIX = "undo-"  # begins its id
UNDO_TOOL = "undo {}"  # with the session that is undone
_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM ralphgen_journal WHERE session = ? ORDER BY number"
_LATER = f"SELECT {ENTRY_COLUMNS} FROM ralphgen_journal WHERE number > ? ORDER BY number"
_EQUAL_LINES = """
SELECT count(after) - count(before) FROM ralphgen_journal
WHERE table_name = ? AND row_key = '' AND coalesce(after, before) = ? AND coalesce(session, '')
"""
_OPENED = """
SELECT 1 FROM ralphgen_journal WHERE session = ? AND lower(table_name) = 'tasks'
    AND lower(before) LIKE '%"status":"done"%' AND after IS NOT NULL LIMIT 1
"""
_ENDED_QUESTIONS = "SELECT number, task_id FROM ralphgen_questions WHERE by = ? ORDER BY number"
_REOPEN = "UPDATE ralphgen_questions SET answered = NULL, answer = NULL, by = NULL WHERE number = ?"
_REVIEWS = "SELECT 1 FROM ralphgen_reviews WHERE by = ? LIMIT 1"
_DELETE_REVIEWS = "DELETE FROM ralphgen_reviews WHERE by = ?"
_SENT_BACK = f"SELECT reverts FROM ralphgen_reviews WHERE by = ? AND verdict = '{SENT_BACK}'"
_ACCEPTED = (
    f"SELECT task_id FROM ralphgen_reviews WHERE by = ? AND verdict = '{ACCEPTED}' "
    "AND task_id IS NOT NULL ORDER BY number"
)
_COUNT_ENTRIES = f"SELECT count(*) FROM {KEPT} WHERE file = ? AND entry = ?"
_ADD_ENTRY = f"INSERT INTO {KEPT} (file, entry) VALUES (?, ?)"
_DELETE_ENTRY = (  # the newest of equal ones
    f"DELETE FROM {KEPT} WHERE number = "
    f"(SELECT max(number) FROM {KEPT} WHERE file = ? AND entry = ?)"
)


@dataclass(frozen=True, slots=True)
class LineResult:
    """An entry of a state file that was removed or `put_back`; `left` is why it was not.

    `gone` means that there was nothing to do: the file is already in the old state.
    """

    file: str
    line: str
    put_back: bool
    left: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo: the id of its session, and the results for rows and lines.

    `accepted` are the tasks whose work is no longer accepted.
    """

    session: str
    rows: tuple[RowResult, ...]
    lines: tuple[LineResult, ...]
    accepted: tuple[int, ...] = ()

    @property
    def has_remainder(self) -> bool:
        """Whether any row or line was left."""
        return any(row.left for row in self.rows) or any(line.left for line in self.lines)

    @property
    def changed(self) -> int:
        """The number of rows, lines and acceptances that were reverted."""
        lines = [one for one in self.lines if not one.left and not one.gone]
        rows = [one for one in self.rows if one.done is not None]
        return len(lines) + len(rows) + len(self.accepted)


class _PreviewError(Exception):
    """Ends the transaction of a dry run, with its result."""


def undo_session(
    root: Path,
    session: str,
    *,
    dry_run: bool = False,
    also: Callable[["Database", str], None] | None = None,
) -> Undone:
    """Revert a session's changes unless they were changed again since; return the results.

    All of it is one transaction, and the state files follow; the next command finishes an
    interrupted undo. Work that was sent back becomes done as a whole or not at all, and without
    proof if its code is still merged. `also` writes more in that transaction: it receives the
    database and the id of the undo's session. A `dry_run` writes nothing. Raises `MissingError` for
    a session that is not on record, and `ProjectError` if there is no ledger or the database cannot
    be written.
    """
    has_tasks = not Project(root).serves_any_database
    own = f"{UNDO_PREFIX}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(4).hex()}"
    stored = module_of(root, "stored_rows").StoredRows
    with _recorded(root, own, session) as (database, journal):
        database.has_tasks = has_tasks
        unproved = _proof(root, database, session) if has_tasks else None

        def work() -> Undone:
            entries = _entries_of(database, session)
            if not entries and database.row(_REVIEWS, [session]) is None:
                _refuse_unknown(root, database, session, own)
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
            reverter = Reverter(database, stored(database), held, has_tasks=has_tasks)
            is_whole = has_tasks and database.row(_SENT_BACK, [session]) is not None
            found = database.closing(
                lambda task: task in closed and (task,) not in held,
                lambda: reverter.revert(changes, is_whole=is_whole),
            )
            back = {row.key for row in found if row.done == "recreated" and row.table == "tasks"}
            restored = [(task, DONE) for task in closed if (task,) in back]
            record_reason(database, own, RESTORED, restored, UNDO_TOOL.format(session))
            rows = [row for row in found if row.table != KEPT]
            lines = [*_entry_results(found, changes)]
            in_files = [*_line_results(root, database, entries, family)]
            lines += in_files
            accepted = [task for (task,) in database.rows(_ACCEPTED, [session])]
            if dry_run:
                raise _PreviewError(rows, lines, accepted)
            if has_tasks and not (is_whole and any(row.left for row in rows)):
                _undo_decisions(database, own, session, rows)
            if also is not None:
                also(database, own)
            for one in in_files:
                if one.left or one.gone:
                    continue
                if database.catalog.KEEPS_ENTRIES:
                    sql = _ADD_ENTRY if one.put_back else _DELETE_ENTRY
                    database.change(sql, [one.file, one.line])
                    continue
                copy = f"{own}-{one.file}"
                (project_home(root) / BACKUPS / copy).touch(mode=0o600)
                journal.add_undone(one.file, one.line, copy, put_back=one.put_back)
            return Undone(own, tuple(rows), tuple(lines), tuple(accepted))

        try:
            undone = database.writing(work)
        except _PreviewError as found:
            rows, lines, accepted = found.args
            return Undone(own, tuple(rows), tuple(lines), tuple(accepted))
        database.writing(lambda: _finish(root, database))
    return undone


def _refuse_unknown(root: Path, database: "Database", session: str, own: str) -> None:
    """Raise `MissingError` for an unknown session; a trailer in git names one of another clone."""
    known = [one for (one,) in database.rows(SESSION_IDS) if one != own]
    if session not in known:
        words = ("log", "--all", "-1", "--format=%h", "--extended-regexp")
        grep = f"--grep=^Ralphgen-Session: {re.escape(session)}$"
        if commit := (ask_git(root, [*words, grep]) or b"").decode().strip():
            text = f'session "{one_line(session)}" ran in another clone, which merged {commit}'
            raise MissingError(text, "undo it there")
    refuse_unknown(session, known)


def _undo_decisions(
    database: "Database", own: str, session: str, rows: Iterable[RowResult]
) -> None:
    """Undo what a session asked, answered and decided, and drop its work from the queue."""
    _undo_questions(database, own, session)
    database.change(_DELETE_REVIEWS, [session])
    for row in rows:
        if row.table.lower() == "tasks" and "status" in row.columns:
            why = f'session "{session}" was undone'
            drop_merge_of(database, cast("int", row.key[0]), why)


def _undo_questions(database: "Database", own: str, session: str) -> None:
    """Withdraw the open question of an undone session, and reopen those that it had ended."""
    database.change(f"{WITHDRAW} session = ?", [moment(), own, session])
    for number, task in database.rows(_ENDED_QUESTIONS, [session]):
        blocked = database.row("SELECT 1 FROM tasks WHERE id = ? AND status = 'blocked'", [task])
        if blocked is not None and database.row(OPEN, [task]) is None:
            database.change(_REOPEN, [number])


def _closed(changes: Iterable[RowChange]) -> dict[int, bool]:
    """Return the tasks that an undo makes done, and whether each one was deleted."""
    return {
        cast("int", one.key[0]): not one.is_there
        for one in changes
        if one.table.lower() == "tasks" and len(one.key) == 1 and one.was_there
        if str(one.old.get("status")).lower() == DONE
    }


def _proof(root: Path, database: "Database", session: str) -> Callable[[int], str] | None:
    """Return a function that tells why a task is not proved.

    Returns None unless the session changed a task that was done. A verdict of the user that left
    the code on its branch counts as no change.
    """
    if not database.reading(lambda: database.rows(_OPENED, (session,))):
        return None
    if database.reading(lambda: database.rows(_SENT_BACK, (session,))) == [(None,)]:
        return None
    return proof_on(root, Project(root).schema, database)


def finish_undone(root: Path) -> None:
    """Apply the remaining changes to state files after an interrupted undo.

    Raises `ProjectError` if the files cannot be written.
    """
    with open_database(root) as connection:
        if connection.row("SELECT 1 FROM ralphgen_unfinished") is None:
            return
    with opened_database(root) as database:
        database.writing(lambda: _finish(root, database))


@contextmanager
def _recorded(root: Path, own: str, undone: str) -> Iterator[tuple["Database", Any]]:
    """The database, with all changes journaled, and keys ignored if possible."""
    if read_state(root).version is None:
        raise no_ledger()
    with opened_database(root) as database:
        database.keep_bytes()
        database.ignore_keys()
        tool = UNDO_TOOL.format(undone)
        journal = database.journal(
            own, {"recipe": UNDO_RECIPE}, lambda: tool, ends_with_writes=True
        )
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
    """Yield the last entry on each column, without those that an undo of their session reverted.

    After such an undo, the state from before that session's first write of the column counts.
    """
    counting: dict[Column, State] = {}
    before: dict[tuple[str | None, Column], State] = {}  # the session's first write
    deleted: dict[tuple[str, Column], object] = {}  # by undos, which may put a row in again
    for entry in entries:
        undone = _undone_by(entry)
        for name in entry.changed_columns:
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
    prefix = UNDO_TOOL.format("")
    is_undo = entry.session.startswith(UNDO_PREFIX) and entry.tool.startswith(prefix)
    return entry.tool.removeprefix(prefix) if is_undo else None


def _line_results(
    root: Path, database: "Database", entries: Sequence[Entry], family: Collection[str]
) -> Iterator[LineResult]:
    """Yield the planned action for each line of a session.

    Equal lines are identified only by how often each session wrote them: those of others remain.
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
            yield _line_result(root, database, file, line, count < 0, of_others + number)


def _entry_results(rows: Iterable[RowResult], changes: Iterable[RowChange]) -> Iterator[LineResult]:
    """Yield the results of the rows that are entries of state files."""
    values = {(one.table, one.key): {**one.old, **one.new} for one in changes}
    for row in rows:
        if row.table == KEPT:
            its = values[row.table, row.key]
            back = row.session is None
            yield LineResult(str(its.get("file")), str(its.get("entry")), back, left=row.left)


def _line_result(
    root: Path, database: "Database", file: str, line: str, put_back: bool, others: int
) -> LineResult:
    """Return the planned action for a line of a state file that has `others` equal lines.

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
