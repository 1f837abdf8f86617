"""Sets rows back to what they were before a session, in one transaction, and leaves the others."""

import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from ralphgen.history.changes import Key, RowChange
from ralphgen.history.entries import Values, same
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.sqlite.journal import watched_tables
from ralphgen.runtime.engine.sqlite.triggers import WatchedTable
from ralphgen.runtime.tasks.readiness import prerequisite_lists

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

Done = Literal["set back", "put back", "removed"]
CHANGED = "session {} changed it later"
FOREIGN = "it does not match the journal: another program may have changed it"
MOVED = "its key was changed, and the row with the other key is left"
GONE = "it refers to a row that no longer exists"
NAMED = "another row refers to it"
REFUSED = "the database rejects it: {}"
_TRIGGERS = "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' ORDER BY rowid"
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RowResult:
    """What came of one row: how it was `done`, or why it was left.

    `columns` are those that were set back. `session` is the row as the session left it, and `now`
    as it is, in the columns that the session changed; None where it is not there.
    """

    table: str
    key: Key
    done: Done | None
    left: str = ""
    columns: tuple[str, ...] = ()
    session: Values | None = None
    now: Values | None = None


class Reverter:
    """Sets rows back on a connection that reads text with `entries.decoded`.

    Foreign keys must be off: rows are set back one by one, and looked at when all are. The caller
    is in a transaction of `database.writing`. `held` are the tasks that are left, with the reason;
    unless the project `has_tasks`, a table of that name is like any other.
    """

    def __init__(self, database: "Database", held: Mapping[Key, str], *, has_tasks: bool) -> None:
        self._database = database
        self._has_tasks = has_tasks
        self._held = held
        self._tables = {table.name: table for table in self._watched()}

    def revert(self, changes: Sequence[RowChange]) -> list[RowResult]:
        """Set back what can be, and return what came of each row that is not as it was before.

        A row that stands in another's way, or names one that is gone, is left: all is done anew
        without it. Triggers of the app do not run: what they did is in the journal too.
        """
        looks = [self._look(change) for change in changes]
        found = {(look.table, look.key): look for look in looks if look is not None}
        with self._without_triggers({change.table for change in changes}):
            self._set_all_back(changes, found)
        return [*found.values()]

    def _set_all_back(
        self, changes: Sequence[RowChange], found: dict[tuple[str, Key], RowResult]
    ) -> None:
        """Set back what is to be; what cannot be is left, and `found` says why."""
        broken, vain = {*self._broken_keys()}, {*self._in_vain()}
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

    def _watched(self) -> Sequence[WatchedTable]:
        """Return the tables whose rows are on record."""
        return watched_tables(cast("Any", self._database))

    @contextmanager
    def _without_triggers(self, _tables: Collection[str]) -> Iterator[None]:
        """Keep the triggers of the app from running in the block."""
        triggers = self._database.rows(_TRIGGERS)
        for name, _ in triggers:
            self._database.change(f"DROP TRIGGER main.{quoted(name)}")
        yield
        for _, sql in triggers:
            self._database.change(sql)

    def _look(self, change: RowChange) -> RowResult | None:
        """Return what is to be done with a row, None where it is as it was before."""
        columns = tuple(change.new if change.is_there else change.old)
        table = self._tables.get(change.table)
        if (
            table is None
            or len(table.key) != len(change.key)
            or not {*change.old, *change.new} <= {*table.columns}
        ):
            left = "the columns of its table have changed"
            return RowResult(change.table, change.key, None, left, columns, _new(change))
        rows = self._rows(table, change.key)
        now = rows[0] if rows else None
        current = None if now is None else {name: now[name] for name in change.new or now}
        if len(rows) > 1:
            left = "several rows have the same key"
            return RowResult(change.table, change.key, None, left, columns, _new(change), current)
        if _is(now, change.old if change.was_there else None):
            return None
        left = self._held.get(change.key, "") if change.table.lower() == "tasks" else ""
        if change.mixed or not _is(now, change.new if change.is_there else None):
            left = left or (FOREIGN if change.by is None else CHANGED.format(change.by))
        if left:
            return RowResult(change.table, change.key, None, left, columns, _new(change), current)
        done: Done = "set back" if change.is_there else "put back"
        return RowResult(
            change.table,
            change.key,
            done if change.was_there else "removed",
            columns=columns,
            session=_new(change),
            now=current,
        )

    def _apply(self, changes: Sequence[RowChange]) -> dict[tuple[str, Key], str]:
        """Set rows back; return those that the database refuses, with the reason.

        One may stand in the way of the next until it is set back itself.
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
        """Set a row back; return why the database refuses it, empty where it does not."""
        try:
            self._set_back(change)
        except sqlite3.IntegrityError as error:
            return REFUSED.format(error)
        return ""

    def _set_back(self, change: RowChange) -> None:
        table = self._tables[change.table]
        where, key = _where(table, change.key)
        if not change.was_there:
            self._database.change(f"DELETE FROM {quoted(table.name)} WHERE {where}", key)
        elif change.is_there:
            settings = ", ".join(f"{quoted(one)} = {_place(change.old[one])}" for one in change.new)
            values = [_bound(change.old[one]) for one in change.new]
            # Stronger than what a UNIQUE says of conflicts: REPLACE would take a row of others.
            sql = f"UPDATE OR ABORT {quoted(table.name)} SET {settings} WHERE {where}"
            self._database.change(sql, [*values, *key])
        else:
            self._insert(table, change.key, change.old)

    def _insert(self, table: WatchedTable, key: Key, row: Values) -> None:
        numbered = {} if table.key[0] in row else dict(zip(table.key, key, strict=True))
        whole = {**numbered, **row}
        names, places = ", ".join(map(quoted, whole)), ", ".join(map(_place, whole.values()))
        sql = f"INSERT OR ABORT INTO {quoted(table.name)} ({names}) VALUES ({places})"
        self._database.change(sql, [*map(_bound, whole.values())])

    def _swap(self, changes: Sequence[RowChange]) -> bool:
        """Set back rows that stand in each other's way: take all out, then put them in; whether."""
        if len(changes) == 1:
            return False
        self._database.change("SAVEPOINT swapped")
        rows = []
        for change in changes:
            table = self._tables[change.table]
            where, key = _where(table, change.key)
            rows += [
                (table, change, {**now, **change.old}) for now in self._rows(table, change.key)
            ]
            self._database.change(f"DELETE FROM {quoted(table.name)} WHERE {where}", key)
        try:
            for table, change, row in rows:
                if change.was_there:
                    self._insert(table, change.key, row)
        except sqlite3.IntegrityError:
            self._database.change("ROLLBACK TO swapped")
            return False
        finally:
            self._database.change("RELEASE swapped")
        return True

    def _rows(self, table: WatchedTable, key: Key) -> list[Values]:
        """Return the rows of a key, one as a rule."""
        where, values = _where(table, key)
        names = ", ".join(map(quoted, table.columns))
        sql = f"SELECT {names} FROM {quoted(table.name)} WHERE {where}"
        found = self._database.rows(sql, values)
        return [dict(zip(table.columns, row, strict=True)) for row in found]

    def _broken_keys(self) -> Iterator[tuple[Any, ...]]:
        """Yield what names a row that is not there: table, number of the row, parent, which key."""
        for table in self._tables:
            # A key that leads to columns which are no key is an error, and binds nobody.
            with suppress(sqlite3.OperationalError):
                yield from self._database.rows(f"PRAGMA main.foreign_key_check({quoted(table)})")

    def _in_the_way(
        self, changes: Sequence[RowChange], before: set[tuple[Any, ...]]
    ) -> dict[tuple[str, Key], str]:
        """Return the rows that were set back and have broken a foreign key, with the reason."""
        refused: dict[tuple[str, Key], str] = {}
        for broken in {*self._broken_keys()} - before:
            child, number, parent, _ = broken
            own = self._numbered(child, self._tables[child].key, number)
            children = [
                one
                for one in changes
                if one.table == child and one.was_there and (not own or one.key in own)
            ]
            named = self._named(broken)
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
        """Yield each task that waits for one that is not there, and the number of that one."""
        table = self._tables.get("tasks") if self._has_tasks else None
        if table is None or not {"id", "depends_on"} <= {*table.columns}:
            return
        found = dict(self._database.rows("SELECT id, depends_on FROM tasks"))
        for task, needed in zip(found, prerequisite_lists([*found.values()]), strict=True):
            yield from ((task, one) for one in needed or () if one not in found)

    def _waiting(
        self, changes: Sequence[RowChange], before: set[tuple[int, int]]
    ) -> dict[tuple[str, Key], str]:
        """Return the tasks that now wait in vain, or that others wait for, with the reason."""
        refused: dict[tuple[str, Key], str] = {}
        own = {one.key: one.was_there for one in changes if one.table == "tasks"}
        for task, missing in {*self._in_vain()} - before:
            if own.get((task,)):
                refused["tasks", (task,)] = GONE
            elif (missing,) in own:
                refused["tasks", (missing,)] = NAMED
        return refused

    def _numbered(self, name: str, columns: Iterable[str], number: int | None) -> list[Key]:
        """Return these columns of the row of a number; nothing where rows go by none."""
        table = self._tables[name]
        if number is None or table.number is None:
            return []
        names = ", ".join(map(quoted, columns))
        sql = f"SELECT {names} FROM {quoted(name)} WHERE {table.number} = ?"
        return self._database.rows(sql, (number,))

    def _named(self, broken: tuple[Any, ...]) -> Values | None:
        """Return the values by which a row names one that is not there; None where nobody knows."""
        child, number, parent, which = broken
        primary = {table.name.lower(): table.key for table in self._tables.values()}
        keys = self._database.rows(f"PRAGMA main.foreign_key_list({quoted(child)})")
        pairs = [
            (here, there, place)
            for which_one, place, _, here, there, *_ in keys
            if which_one == which
        ]
        rows = self._numbered(child, [here for here, *_ in pairs], number)
        own = primary.get(parent.lower(), ())
        if not rows or not all(there or place < len(own) for _, there, place in pairs):
            return None
        return dict(zip((there or own[place] for _, there, place in pairs), rows[0], strict=True))


def _new(change: RowChange) -> Values | None:
    return change.new if change.is_there else None


def _is(now: Values | None, row: Values | None) -> bool:
    """Return whether a row is there or not as another is, and the same in the latter's columns."""
    if now is None or row is None:
        return now is row
    return all(same(now[column], value) for column, value in row.items())


def _where(table: WatchedTable, key: Key) -> tuple[str, list[object]]:
    """Return the condition that finds a row, with its values."""
    names = zip(table.key, key, strict=True)
    parts = [f"{quoted(name)} COLLATE BINARY IS {_place(value)}" for name, value in names]
    return " AND ".join(parts), [*map(_bound, key)]


def _place(value: object) -> str:
    return "CAST(? AS TEXT)" if isinstance(value, str) and _SURROGATES.search(value) else "?"


def _bound(value: object) -> object:
    """Return a value to bind: text that is no UTF-8 as its bytes."""
    if isinstance(value, str) and _SURROGATES.search(value):
        return value.encode("utf-8", "surrogateescape")
    return value
