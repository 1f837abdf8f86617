"""What one session has done to each row, told from its entries of the journal."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ralphgen.history.entries import Entry, Values, key_of, same

Key = tuple[object, ...]


@dataclass(slots=True)
class RowChange:
    """A row as it was before a session's first write (`old`), and as the session left it (`new`).

    Where it was there both times, these are the columns that the session changed, else the whole
    row. `mixed` says that somebody else changed the same in between or later, and `by` is the
    session that did so last, if the journal has one. `group` are the changes of this row under all
    its keys, this one included.
    """

    table: str
    key: Key
    number: int = 0  # of its last entry
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
        """Note what other sessions wrote after this one, even if the values are the same.

        Every change of a row writes its `stamps`, which the journal has only if they differ: once
        another session changed the row, they are not the session's any more.
        """
        later: set[str] = set()
        is_whole = not (self.was_there and self.is_there)
        for entry in others:
            later |= {name for name, since in self._since.items() if entry.number > since}
            written = {*entry.written} - {*stamps}
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
