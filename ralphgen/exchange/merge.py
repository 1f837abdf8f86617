"""Merges rows from elsewhere into a project's own, by what both sides had in common."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ralphgen.exchange.lines import shown_key
from ralphgen.exchange.rows import Rows, same
from ralphgen.exchange.tables import Key, Row, Value, key_order, table_order

COMMENTS = "task_comments"
LATER = "updated"  # of two different days, the later one is kept
NAMES = {"tasks": "title"}  # of a task of the same number, what tells it from another one
# What differs in rows that two people have made under the same number, and not by a change of one.
MADE_WITH = {
    "tasks": ("feature", "discipline", "description", "created"),
    COMMENTS: ("task_id", "author", "created"),
}
LONGEST = 40  # characters of a value in a conflict


@dataclass(frozen=True, slots=True)
class RowEdit:
    """What is written: a row that is added or removed, or columns of one that are changed."""

    kind: Literal["add", "change", "remove"]
    key: Key
    values: Row

    def __str__(self) -> str:
        """Return it as one line for people."""
        title = self.values.get("title") if self.kind == "add" else None
        named = f" {json.dumps(title, ensure_ascii=False)}" if title else ""
        columns = f": {', '.join(sorted(self.values))}" if self.kind == "change" else ""
        return f"{self.kind} {shown_key(self.key)}{named}{columns}"


@dataclass(frozen=True, slots=True)
class MergedRows:
    """What a merge comes to: changes in the order of keys, or conflicts, as sentences.

    `differing` are rows that differ and stay as they are: without a common past, nobody can say
    which side has changed them. `notes` are what else people should know. `awaited` are the numbers
    of missing tasks for which tasks wait all the same.
    """

    changes: tuple[RowEdit, ...]
    conflicts: tuple[str, ...] = ()
    differing: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()
    awaited: frozenset[int] = frozenset()


class _ConflictError(Exception):
    """Both sides have changed the same."""


def merge(
    base: Rows | None, ours: Rows, theirs: Rows, older: Sequence[Rows], ralphs: Collection[str]
) -> MergedRows:
    """Return what has to be done to our rows, so that what they have changed is there too.

    `base` are the rows that both sides had; without it, only rows that we do not have are added. A
    new comment whose number is taken gets another one, unless it is there already. `older` are what
    both sides had before, without the rows that were made since. `ralphs` are as in `Own`.
    """
    changes: list[RowEdit] = []
    conflicts: list[str] = []
    differing: list[Key] = []
    if COMMENTS in ralphs:
        theirs = _with_free_numbers(base or {}, ours, theirs, older)
    for key in sorted({*ours, *theirs}, key=_order):
        try:
            if base is not None:
                _refuse_another_of_later(key, ours, theirs, older, ralphs)
                changes += _merged(key, base.get(key), ours.get(key), theirs.get(key), ralphs)
            elif key not in ours:
                changes.append(RowEdit("add", key, theirs[key]))
            elif key in theirs and _differing(ours[key], theirs[key]):
                if key[0] in ralphs:
                    _refuse_another(key, ours[key], theirs[key], ralphs)
                differing.append(key)
        except _ConflictError as error:
            conflicts.append(f"{shown_key(key)}{error}")
    return MergedRows(tuple(changes), tuple(conflicts), tuple(differing))


def nearest(bases: Sequence[Rows], theirs: Rows) -> int:
    """Return which of the bases their rows come from: the one from which they differ least.

    A file of somebody who has not seen the last import comes from an earlier one: held against the
    last, it would take back what a third one has changed. Of two that are as near, it is the first.
    """
    return min(range(len(bases)), key=lambda at: _distance(bases[at], theirs))


def after(ours: Rows, changes: tuple[RowEdit, ...]) -> Rows:
    """Return our rows as they are once the changes are made."""
    rows = dict(ours)
    for change in changes:
        if change.kind == "remove":
            del rows[change.key]
        else:
            rows[change.key] = {**rows.get(change.key, {}), **change.values}
    return rows


def _merged(
    key: Key, base: Row | None, ours: Row | None, theirs: Row | None, ralphs: Collection[str]
) -> Iterator[RowEdit]:
    """Yield the change of one row, if any; raises `_ConflictError`."""
    if theirs is None:
        if ours is not None and base is not None:
            if _differing(base, ours):
                raise _ConflictError(" was changed here and deleted there")
            yield RowEdit("remove", key, {})
    elif ours is None:
        if base is None:
            yield RowEdit("add", key, theirs)
        elif _differing(base, theirs):
            raise _ConflictError(" was deleted here and changed there")
    else:
        columns = _merged_columns(key, base, ours, theirs, ralphs)
        if columns:
            yield RowEdit("change", key, columns)


def _merged_columns(
    key: Key, base: Row | None, ours: Row, theirs: Row, ralphs: Collection[str]
) -> dict[str, Value]:
    """Return what we take over; a column that the common past did not have was null there."""
    if base is None:
        _refuse_another(key, ours, theirs, ralphs)
    taken: dict[str, Value] = {}
    clashing: list[str] = []
    for column in _differing(ours, theirs):
        mine, other = ours.get(column), theirs[column]
        before = (base or {}).get(column)
        if same(before, mine):
            taken[column] = other
        elif column == LATER and isinstance(mine, str) and isinstance(other, str):
            taken.update({column: other} if other > mine else {})
        elif not same(before, other):
            clashing.append(f'"{column}" is {_shown(mine)} here and {_shown(other)} there')
    if clashing:
        raise _ConflictError(f": {'; '.join(clashing)}")
    return taken


def _distance(base: Rows, theirs: Rows) -> int:
    """Return in how many values rows differ; one that is on one side only counts with all of it."""
    return sum(
        len(_differing(base[key], theirs[key]))
        if key in base and key in theirs
        else len(base.get(key) or theirs.get(key) or ())
        for key in {*base, *theirs}
    )


def _differing(one: Row, other: Row) -> list[str]:
    """Return the columns of the other row whose values differ, sorted."""
    return sorted(name for name, value in other.items() if not same(one.get(name), value))


def _refuse_another(key: Key, ours: Row, theirs: Row, ralphs: Collection[str]) -> None:
    """Raise `_ConflictError` where the same number was given to two different rows."""
    if key[0] not in ralphs:
        if named := _differing(ours, theirs):
            text = f" is a different row here and there, by {', '.join(named)}"
            raise _ConflictError(text)
        return
    column = NAMES.get(key[0], "")
    mine, other = ours.get(column), theirs.get(column)
    if not same(mine, other):
        raise _ConflictError(f" is a different row: {_shown(mine)} here, {_shown(other)} there")


def _refuse_another_of_later(
    key: Key, ours: Rows, theirs: Rows, older: Sequence[Rows], ralphs: Collection[str]
) -> None:
    """Raise `_ConflictError` where both sides have made a row under a number that was free."""
    mine, other = ours.get(key), theirs.get(key)
    has_name = key[0] in NAMES if key[0] in ralphs else isinstance(key[1], int)
    if not has_name or mine is None or other is None:
        return
    if _is_another(key, mine, other, older, ralphs):
        _refuse_another(key, mine, other, ralphs)


def _is_another(
    key: Key, mine: Row, other: Row, older: Sequence[Rows], ralphs: Collection[str]
) -> bool:
    """Return whether two people have made rows under a number that was free before.

    Of a table of the project's own nobody knows which columns tell: it is half of them then.
    """
    if all(key in rows for rows in older):
        return False
    if key[0] in ralphs:
        told = MADE_WITH[key[0]]
        return any(not same(mine.get(column), other.get(column)) for column in told)
    given = [name for name in other if other[name] is not None or mine.get(name) is not None]
    return 2 * len(_differing(mine, other)) >= len(given) - 1  # the number itself is the same


def _with_free_numbers(base: Rows, ours: Rows, theirs: Rows, older: Sequence[Rows]) -> Rows:
    """Return their rows, in which new comments have numbers that no other comment has."""
    taken = [key[1] for key in (*ours, *theirs) if key[0] == COMMENTS and isinstance(key[1], int)]
    highest = max(taken, default=0)
    known = {_said(row) for key, row in ours.items() if key[0] == COMMENTS}
    rows: dict[Key, Row] = {}
    for key in sorted(theirs, key=_order):
        row, mine = theirs[key], ours.get(key)
        if (
            key[0] != COMMENTS
            or mine is None
            or (key in base and not _is_another(key, mine, row, older, (COMMENTS,)))
            or not _differing(mine, row)
        ):
            rows[key] = row
            continue
        rows[key] = mine
        if _said(row) not in known:
            highest += 1
            rows[COMMENTS, highest] = {**row, "id": highest}
    return rows


def _said(comment: Row) -> str:
    """Return all of a comment but its number."""
    return repr(sorted((name, value) for name, value in comment.items() if name != "id"))


def _order(key: Key) -> tuple[tuple[int, str], list[tuple[int, Value]]]:
    return table_order(key[0]), key_order(key[1])


def _shown(value: Value) -> str:
    text = "a blob" if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
