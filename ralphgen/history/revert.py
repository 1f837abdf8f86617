"""Sets rows back to what they were before a session, in one transaction, and leaves the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ralphgen.history.changes import Key, RowChange
from ralphgen.history.entries import Values, same
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.tasks.readiness import prerequisite_lists

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database
    from ralphgen.runtime.engine.stored_rows import StoredRows

Done = Literal["set back", "put back", "removed"]
CHANGED = "session {} changed it later"
FOREIGN = "it does not match the journal: another program may have changed it"
MOVED = "its key was changed, and the row with the other key is left"
GONE = "it refers to a row that no longer exists"
NAMED = "another row refers to it"
REFUSED = "the database rejects it: {}"


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

    def revert(self, changes: Sequence[RowChange]) -> list[RowResult]:
        """Set back what can be, and return what came of each row that is not as it was before.

        A row that stands in another's way, or names one that is gone, is left: all is done anew
        without it. Triggers of the app do not run: what they did is in the journal too.
        """
        looks = [self._look(change) for change in changes]
        found = {(look.table, look.key): look for look in looks if look is not None}
        tables = {change.table for change in changes}
        self._rows.without_triggers(tables, lambda: self._set_all_back(changes, found))
        return [*found.values()]

    def _set_all_back(
        self, changes: Sequence[RowChange], found: dict[tuple[str, Key], RowResult]
    ) -> None:
        """Set back what is to be; what cannot be is left, and `found` says why."""
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
        """Return what is to be done with a row, None where it is as it was before."""
        columns = tuple(change.new if change.is_there else change.old)
        table = self._rows.tables.get(change.table)
        if (
            table is None
            or len(table.key) != len(change.key)
            or not {*change.old, *change.new} <= {*table.columns}
        ):
            left = "the columns of its table have changed"
            return RowResult(change.table, change.key, None, left, columns, _new(change))
        rows = self._rows.read(change.table, change.key)
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
        """Do `work`; return the error by which the database refuses it, and nothing is changed."""
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
        """Undo changes that are in each other's way: delete all rows, then insert; whether."""
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
        """Return the rows that were set back and have broken a foreign key, with the reason."""
        refused: dict[tuple[str, Key], str] = {}
        for broken in {*self._database.broken_keys()} - before:
            child, number, parent, _ = broken
            own = self._numbered(child, None, number)
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
        table = self._rows.tables.get("tasks") if self._has_tasks else None
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

    def _numbered(self, name: str, columns: Sequence[str] | None, number: int | None) -> list[Key]:
        """Return columns of the row of a number, or its key; nothing if rows have no numbers."""
        table = self._rows.tables.get(name)
        if number is None or table is None or table.number is None:
            return []
        names = ", ".join(map(quoted, columns or table.key))
        sql = f"SELECT {names} FROM {quoted(name)} WHERE {table.number} = ?"
        return self._database.rows(sql, (number,))

    def _named(self, broken: tuple[Any, ...]) -> Values | None:
        """Return the values by which a row refers to a missing one, or None if unknown."""
        child, number, _, which = broken
        _, pairs = self._database.catalog.parents(self._database, child)[which]
        rows = self._numbered(child, [own for own, _ in pairs], number)
        if not rows or not all(theirs for _, theirs in pairs):
            return None
        return dict(zip((theirs for _, theirs in pairs), rows[0], strict=True))


def _new(change: RowChange) -> Values | None:
    return change.new if change.is_there else None


def _is(now: Values | None, row: Values | None) -> bool:
    """Return whether a row is there or not as another is, and the same in the latter's columns."""
    if now is None or row is None:
        return now is row
    return all(same(now[column], value) for column, value in row.items())
