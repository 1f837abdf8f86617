"""What one session has done to each row, told from its entries of the journal."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ralphgen.history.entries import Entry, SpelledNumber, Values, key_of

Key = tuple[object, ...]


@dataclass(slots=True)
class RowChange:
    """A row as it was before a session's first write (`old`), and as the session left it (`new`).

    Where it was there both times, these are the columns that the session changed, else the whole
    row. `mixed` says that somebody else changed the same in between.
    """

    table: str
    key: Key
    number: int = 0  # of its last entry
    was_there: bool = True
    is_there: bool = True
    mixed: bool = False
    old: Values = field(default_factory=dict)
    new: Values = field(default_factory=dict)
    _added: bool = False  # whether the session made the row that there is
    _since: dict[str, int] = field(default_factory=dict)  # by column, the session's first entry

    def take(self, entry: Entry, *, first: bool) -> None:
        """Take in the next entry on this row."""
        self.number = entry.number
        if first:
            self.was_there = self.is_there = entry.before is not None
        before, after = entry.before or {}, entry.after or {}
        self.mixed |= self.is_there != (entry.before is not None)
        self.mixed |= any(
            not same(self.new[column], value)
            for column, value in before.items()
            if column in self.new
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
        for entry in others:
            before, after = entry.before or {}, entry.after or {}
            written = [
                name
                for name in {**before, **after}
                if not (name in before and name in after and same(before[name], after[name]))
            ]
            later |= {name for name, since in self._since.items() if entry.number > since}
            self.mixed |= any(name in later and name not in stamps for name in written)
        if self.was_there and self.is_there:
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
    every change of a row writes.
    """
    found: dict[tuple[str, str], RowChange] = {}
    for entry in entries:
        if entry.is_line:
            continue
        name = (entry.table, entry.key)
        first = name not in found
        change = found.setdefault(name, RowChange(entry.table, key_of(entry.key)))
        change.take(entry, first=first)
    by_row: dict[tuple[str, str], list[Entry]] = {}
    for entry in others:
        by_row.setdefault((entry.table, entry.key), []).append(entry)
    for name, written in by_row.items():
        if name in found:
            found[name].compare(written, stamps.get(name[0], ()))
    return sorted(found.values(), key=lambda change: -change.number)


def same(one: object, other: object) -> bool:
    """Return whether two stored values are the same; 1 and 1.0 are not."""
    kinds = [float if isinstance(value, SpelledNumber) else type(value) for value in (one, other)]
    return kinds[0] is kinds[1] and one == other
