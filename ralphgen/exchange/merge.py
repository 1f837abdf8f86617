"""Merges rows from elsewhere into a project's own, by what both sides had in common."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

from ralphgen.errors import Problem, ProjectError
from ralphgen.exchange.rows import (
    NAMED_ROWS,
    SECRET,
    Key,
    Own,
    Row,
    RowKey,
    Rows,
    Value,
    encode_value,
    key_column,
    key_label,
    key_order,
    key_values,
    read_rows,
    same,
    table_order,
    unmasked,
)
from ralphgen.project.database import first_line
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.processes.secrets import MASK
from ralphgen.runtime.tasks.claims import prerequisite_lists

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

COMMENTS = "task_comments"
DEPENDENCIES = "depends_on"  # numbers of tasks
LATER = "updated"  # if both sides changed the day, the later one is kept
NAMES = {"tasks": "title"}  # tells two tasks of the same number apart
# What differs in rows that two people have made under the same number, and not by a change of one.
MADE_WITH = {
    "tasks": ("feature", "discipline", "description", "created"),
    COMMENTS: ("task_id", "author", "created"),
}
LONGEST = 40  # characters of a value in a conflict
Side = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True)
class RowEdit:
    """A change to write: a row that is added or removed, or changed columns of one."""

    kind: Literal["add", "change", "remove"]
    key: Key
    values: Row

    def __str__(self) -> str:
        """Return it as one line for people."""
        title = self.values.get("title") if self.kind == "add" else None
        named = f" {json.dumps(title, ensure_ascii=False)}" if title else ""
        columns = f": {', '.join(sorted(self.values))}" if self.kind == "change" else ""
        return f"{self.kind} {key_label(self.key)}{named}{columns}"


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The result of a merge: changes in the order of keys, and conflicts by row, as sentences.

    `differing` are rows that differ and are kept: without a common base it is unknown which side
    changed them. `notes` are further messages for users. `awaited` are the numbers of missing tasks
    that other tasks may nevertheless wait for.
    """

    changes: tuple[RowEdit, ...]
    conflicts: Mapping[Key, str] = field(default_factory=dict)
    differing: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()
    awaited: frozenset[int] = frozenset()


class _ConflictError(Exception):
    """Both sides have changed the same."""


def merge(
    base: Rows | None,
    ours: Rows,
    theirs: Rows,
    older: Sequence[Rows],
    ralphs: Collection[str],
    prefer: Side | None = None,
) -> MergedRows:
    """Return the edits that bring their changes into our rows.

    `base` are the rows that both sides had; without it, only rows that we lack are added. A new
    comment whose number is taken gets another one, unless we already have the comment. `older` are
    earlier common rows, without the rows that were made since. `ralphs` are as in `Own`. With
    `prefer`, that side decides what both have changed; only the parts that clash are affected.
    """
    changes: list[RowEdit] = []
    conflicts: dict[Key, str] = {}
    differing: list[Key] = []
    if COMMENTS in ralphs:
        theirs = _with_free_numbers(base or {}, ours, theirs, older)
    differing_keys = (key for key in {*ours, *theirs} if ours.get(key) is not theirs.get(key))
    for key in sorted(differing_keys, key=_order):
        try:
            if base is not None:
                _refuse_another_of_later(key, ours, theirs, older, ralphs)
                sides = base.get(key), ours.get(key), theirs.get(key)
                changes += _merged(key, *sides, ralphs, prefer)
            elif key not in ours:
                changes.append(RowEdit("add", key, theirs[key]))
            elif key in theirs and _differing(ours[key], theirs[key]):
                if key[0] in ralphs:
                    _refuse_another(key, ours[key], theirs[key], ralphs)
                differing.append(key)
        except _ConflictError as error:
            conflicts[key] = f"{key_label(key)}{error}"
    return MergedRows(tuple(changes), conflicts, tuple(differing))


def nearest(bases: Sequence[Rows], theirs: Rows) -> int:
    """Return the index of the base that their rows come from: the one with the fewest differences.

    A file from someone who has not seen the last import comes from an earlier base. Compared with
    the last one, it would revert the changes of a third side. The first of equal bases is chosen.
    """
    return min(range(len(bases)), key=lambda at: _distance(bases[at], theirs))


def after(ours: Rows, changes: tuple[RowEdit, ...]) -> Rows:
    """Return our rows after the changes."""
    rows = dict(ours)
    for change in changes:
        if change.kind == "remove":
            del rows[change.key]
        else:
            rows[change.key] = {**rows.get(change.key, {}), **change.values}
    return rows


def _merged(
    key: Key,
    base: Row | None,
    ours: Row | None,
    theirs: Row | None,
    ralphs: Collection[str],
    prefer: Side | None,
) -> Iterator[RowEdit]:
    """Yield the change of one row, if any; raises `_ConflictError`."""
    if theirs is None:
        if ours is not None and base is not None:
            if _differing(base, ours) and prefer is None:
                raise _ConflictError(" was changed here and deleted there")
            if prefer != "ours" or not _differing(base, ours):
                yield RowEdit("remove", key, {})
    elif ours is None:
        if base is None:
            yield RowEdit("add", key, theirs)
        elif _differing(base, theirs):
            if prefer is None:
                raise _ConflictError(" was deleted here and changed there")
            if prefer == "theirs":
                yield RowEdit("add", key, theirs)
    else:
        columns = _merged_columns(key, base, ours, theirs, ralphs, prefer)
        if columns:
            yield RowEdit("change", key, columns)


def _merged_columns(
    key: Key,
    base: Row | None,
    ours: Row,
    theirs: Row,
    ralphs: Collection[str],
    prefer: Side | None,
) -> dict[str, Value]:
    """Return the columns to take from their row; a column that the base lacks was null there."""
    if base is None and prefer is None:
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
        elif same(before, other) or prefer == "ours":
            continue
        elif prefer == "theirs":
            taken[column] = other
        else:
            clashing.append(
                f'"{column}" is {_preview_value(mine)} here and {_preview_value(other)} there'
            )
    if clashing:
        raise _ConflictError(f": {'; '.join(clashing)}")
    return taken


def _distance(base: Rows, theirs: Rows) -> int:
    """Return the number of differing values; a row on one side only counts with all its values."""
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
    """Raise `_ConflictError` if the same number identifies two different rows."""
    if key[0] not in ralphs:
        if named := _differing(ours, theirs):
            text = f" is a different row here and there, by {', '.join(named)}"
            raise _ConflictError(text)
        return
    column = NAMES.get(key[0], "")
    mine, other = ours.get(column), theirs.get(column)
    if not same(mine, other):
        raise _ConflictError(
            f" is a different row: {_preview_value(mine)} here, {_preview_value(other)} there"
        )


def _refuse_another_of_later(
    key: Key, ours: Rows, theirs: Rows, older: Sequence[Rows], ralphs: Collection[str]
) -> None:
    """Raise `_ConflictError` if both sides have made a row with a number that was free."""
    mine, other = ours.get(key), theirs.get(key)
    has_name = key[0] in NAMES if key[0] in ralphs else isinstance(key[1], int)
    if not has_name or mine is None or other is None:
        return
    if _is_another(key, mine, other, older, ralphs):
        _refuse_another(key, mine, other, ralphs)


def _is_another(
    key: Key, mine: Row, other: Row, older: Sequence[Rows], ralphs: Collection[str]
) -> bool:
    """Return whether both sides have made a row with a number that was free before.

    The distinguishing columns of a project's own tables are unknown: there, rows count as different
    if half of their columns differ.
    """
    if all(key in rows for rows in older):
        return False
    if key[0] in ralphs:
        told = MADE_WITH[key[0]]
        return any(not same(mine.get(column), other.get(column)) for column in told)
    given = [name for name in other if other[name] is not None or mine.get(name) is not None]
    return 2 * len(_differing(mine, other)) >= len(given) - 1  # the number itself is the same


def _with_free_numbers(base: Rows, ours: Rows, theirs: Rows, older: Sequence[Rows]) -> Rows:
    """Return their rows, with unused numbers for new comments."""
    if not any(
        key[0] == COMMENTS and ours.get(key, row) is not row and _differing(ours[key], row)
        for key, row in theirs.items()
    ):
        return theirs
    taken = [key[1] for key in (*ours, *theirs) if key[0] == COMMENTS and isinstance(key[1], int)]
    highest = max(taken, default=0)
    known = {_comment_text(row) for key, row in ours.items() if key[0] == COMMENTS}
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
        if _comment_text(row) not in known:
            highest += 1
            rows[COMMENTS, highest] = {**row, "id": highest}
    return rows


def _comment_text(comment: Row) -> str:
    """Return all of a comment but its number."""
    return repr(sorted((name, value) for name, value in comment.items() if name != "id"))


def _order(key: Key) -> tuple[tuple[int, str], list[tuple[int, Value]]]:
    return table_order(key[0]), key_order(key[1])


def _preview_value(value: Value) -> str:
    text = "a blob" if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


REFERENCES = (
    ("tasks", "feature", "features"),
    ("tasks", "discipline", "disciplines"),
    ("task_comments", "task_id", "tasks"),
    ("task_comments", "discipline", "disciplines"),
)
"""The table, column and referenced table of each reference."""


def references(own: Own, key: Key, row: Row) -> Iterator[tuple[str, Key]]:
    """Yield the columns of a row that refer to rows by their key, with these keys."""
    places = dict(own.tables[key[0]].references)
    if own.has_tasks:
        loose = ((column, parent) for table, column, parent in REFERENCES if table == key[0])
        for column, parent in loose:
            places.setdefault(column, (parent, key_column(parent)))
    for column, (parent, named) in places.items():
        value = row.get(column)
        if value is not None and parent in own.tables and (named,) == own.tables[parent].key:
            yield column, (parent, value)
    if key[0] == "tasks" and own.has_tasks and row.get(DEPENDENCIES) not in (None, "[]"):
        needed = prerequisite_lists([row[DEPENDENCIES]])[0] or []
        yield from ((DEPENDENCIES, ("tasks", one)) for one in needed)


@dataclass(frozen=True, slots=True)
class Dangling:
    """A row that names a missing row, with the sentence on it.

    With `is_bound` the column has a foreign key, so the database refuses the row.
    """

    key: Key
    text: str
    is_bound: bool


def dangling(own: Own, rows: Rows, known: Rows, before: Rows | None = None) -> Iterator[Dangling]:
    """Yield the rows that name a row which is not in `known`.

    A name that is missing for rows of `before` already is not counted.
    """
    places = {
        (table.name, column): (place, True)
        for table in own.tables.values()
        for column, place in table.references.items()
        if place[0] in own.tables and place[1] in own.tables[place[0]].columns
    }
    for table, column, parent in REFERENCES if own.has_tasks else ():
        places.setdefault((table, column), ((parent, key_column(parent)), False))
    sides = [_by_table(side) for side in (rows, known, before or {})]
    for (table, column), ((parent, named), is_bound) in places.items():
        there, here = ({*_values(side, parent, named).values()} for side in sides[1:])
        missed = {*_values(sides[2], table, column).values()} - here
        is_ralphs = parent in own.ralphs and named == key_column(parent)
        loosely = set() if is_ralphs else {*map(_loosely, there)}
        for key, value in _values(sides[0], table, column).items():
            if value in there or value in missed or _loosely(value) in loosely:
                continue
            name = (
                _name_in_parent(parent, value) if is_ralphs else f'the row "{value!s}" of {parent}'
            )
            yield Dangling(key, f"{key_label(key)} names {name}, which does not exist", is_bound)


def _by_table(rows: Rows) -> dict[str, dict[Key, Row]]:
    found: dict[str, dict[Key, Row]] = {}
    for key, row in rows.items():
        found.setdefault(key[0], {})[key] = row
    return found


def _values(rows: Mapping[str, Rows], table: str, column: str) -> dict[Key, Value]:
    """Return the non-null values of a column."""
    found = {key: row.get(column) for key, row in rows.get(table, {}).items()}
    return {key: value for key, value in found.items() if value is not None}


def _loosely(value: Value) -> Value:
    """Return a value as a database may compare it: of numbers, and of letters in any case."""
    try:
        return value if isinstance(value, bytes) else str(float(value or 0))
    except ValueError:
        return str(value).casefold()


def broken_references(
    sides: Sequence[Rows], rows: Rows, awaited: Collection[int] = ()
) -> list[str]:
    """Return a sentence for each name that rows refer to and that is gone or missing.

    A row that was already missing on one of the two sides before the merge is ignored, and so are
    tasks whose number is in `awaited`.
    """
    absent = [*_dangling_references(rows)]
    before = (
        {missing for side in sides for missing, _ in _dangling_references(side)}
        if absent
        else set()
    )
    before |= {("tasks", number) for number in awaited}
    found: dict[tuple[str, Value], list[Key]] = {}
    for missing, key in absent:
        if missing not in before:
            found.setdefault(missing, []).append(key)
    return [
        f"{_name_in_parent(parent, value)} is missing, but {key_label(keys[0])}"
        f"{f' and {len(keys) - 1} more' if len(keys) > 1 else ''} {_needs(keys)} it"
        for (parent, value), keys in found.items()
    ]


def unreadable_lists(sides: Sequence[Rows], rows: Rows) -> list[str]:
    """Return a sentence for each task whose `depends_on` no tool could read, on neither side."""
    ids = [
        key
        for key, row in rows.items()
        if key[0] == "tasks"
        and all(row.get("depends_on") != side.get(key, {}).get("depends_on") for side in sides)
    ]
    needed = prerequisite_lists([rows[key].get("depends_on") for key in ids])
    return [
        f'"depends_on" of {key_label(key)} is not a list of ids'
        for key, found in zip(ids, needed, strict=True)
        if found is None
    ]


def circle(sides: Sequence[Rows], rows: Rows) -> str:
    """Return the sentence on tasks that wait for each other; empty if a side has such too."""
    found = _circle(rows)
    if not found or any(map(_circle, sides)):
        return ""
    return f"tasks would wait for each other: {' → '.join(map(str, found))}"


def _circle(rows: Rows) -> list[RowKey]:
    try:
        TopologicalSorter(_dependencies(rows)).prepare()
    except CycleError as error:
        found: list[RowKey] = error.args[1]
        return found
    return []


def _dependencies(rows: Rows) -> dict[RowKey, list[int]]:
    """Return the tasks that each task waits for; none if its list is unreadable."""
    tasks = {key[1]: row.get("depends_on") for key, row in rows.items() if key[0] == "tasks"}
    needed = prerequisite_lists([*tasks.values()])
    return {task: ids or [] for task, ids in zip(tasks, needed, strict=True)}


def _needs(keys: list[Key]) -> str:
    return "needs" if len(keys) == 1 else "need"


def _name_in_parent(parent: str, value: Value) -> str:
    word = {"tasks": "task", "features": "feature", "disciplines": "discipline"}[parent]
    return f"{word} {value!r}" if parent == "tasks" else f'the {word} "{value!s}"'


def _dangling_references(rows: Rows) -> Iterator[tuple[tuple[str, Value], Key]]:
    by_table = _by_table(rows)
    known: Mapping[str, set[RowKey]] = {
        parent: {key for _, key in by_table.get(parent, ())} for _, _, parent in REFERENCES
    }
    for table, column, parent in REFERENCES:
        for key, row in by_table.get(table, {}).items():
            value = row.get(column)
            if value is not None and value not in known[parent]:
                yield (parent, value), key
    for task, needed in _dependencies(rows).items():
        for one in dict.fromkeys(needed):
            if ("tasks", one) not in rows:
                yield ("tasks", one), ("tasks", task)


SETTLE = "nothing was changed; fix this on one side, then run the command again"
LEFT_OUT = "a trigger or an ON CONFLICT clause discarded it"
_SERVERS = "SELECT mcp_servers FROM disciplines WHERE name = ?"
_Broken = tuple[Any, ...]  # of a foreign key: table, number of the row, parent, which key


class EditWriter:
    """Writes edits of a project's rows within a transaction that writes.

    `masked` are the names of disciplines with unknown secrets. `rows` are the rows afterwards.
    """

    def __init__(self, database: "Database", own: Own) -> None:
        """Write to `database`, whose rows are `own`."""
        self.rows = own.rows
        self.masked: dict[str, None] = {}
        self._database = database
        self._own = own

    def write(self, edits: Sequence[RowEdit]) -> None:
        """Write the edits.

        An edit that the database refuses is retried after the others, since a unique value may
        become free. Raises `ToolError` for edits that remain refused. Raises `ProjectError` if rows
        that no edit removes would be deleted, or if rows would refer to deleted ones.
        """
        database, own = self._database, self._own
        before = {*database.broken_keys()}
        database.change(database.sql.DEFER_KEYS)
        pending = in_order(edits, own)
        while pending:
            refused = [(edit, error) for edit in pending if (error := self._tried(edit))]
            is_stuck = len(refused) == len(pending)
            pending = self._loosened(refused) if is_stuck else [edit for edit, _ in refused]
        for name in dict.fromkeys(edit.key[0] for edit in edits if edit.kind == "add"):
            table = self._own.tables[name]
            if [table.kinds[column] for column in table.key] == ["INTEGER"]:
                self._database.continue_numbers(name, table.key[0])
        self._refuse_loss(edits)
        broken = sorted({*self._database.broken_keys()} - {*before}, key=repr)
        _refuse(
            [f'{self._preview_value(one)} refers to a missing row of "{one[2]}"' for one in broken]
        )

    def _tried(self, edit: RowEdit) -> Exception | None:
        """Write an edit; return why the database refuses it."""
        database, is_typed = self._database, self._own.is_typed
        if is_typed:
            database.change("SAVEPOINT ralphgen_edit")
        try:
            written = self._write(edit)
        except database.refusals as error:
            if is_typed:
                database.change("ROLLBACK TO SAVEPOINT ralphgen_edit")
            elif not database.connection.in_transaction:  # a constraint ON CONFLICT ROLLBACK
                raise _refusal(edit, error) from error
            return error
        if is_typed:
            database.change("RELEASE SAVEPOINT ralphgen_edit")
        if written or edit.kind == "remove":
            return None
        # To be changed it may be a new row that is not there yet.
        return LookupError(LEFT_OUT if edit.kind == "add" else "the row does not exist")

    def _write(self, edit: RowEdit) -> int:
        """Write an edit; return how many rows that has changed."""
        name, key = edit.key
        table, values = self._own.tables[name], dict(edit.values)
        of, column = SECRET
        if name == of and column in values:
            found = self._database.row(_SERVERS, [key])
            values[column] = unmasked(found[0] if found else None, values[column])
            if MASK in str(values[column]):
                self.masked[str(key)] = None
        known = dict(zip(table.key, key_values(key), strict=True))
        if self._own.is_typed:
            values, known = (
                {one: encode_value(table.kinds[one], one, value) for one, value in row.items()}
                for row in (values, known)
            )
        where = " AND ".join(f"{quoted(one)} = ?" for one in known)
        named = ", ".join(map(quoted, values))
        if edit.kind == "add":
            given = self._database.sql.GIVEN_NUMBER
            marks = ", ".join("?" * len(values))
            sql = f"INSERT INTO {quoted(name)} ({named}){given} VALUES ({marks})"
            return self._database.change(sql, [*values.values()])
        if edit.kind == "change":
            marks = ", ".join(f"{quoted(one)} = ?" for one in values)
            sql = f"UPDATE {quoted(name)} SET {marks} WHERE {where}"
            return self._database.change(sql, [*values.values(), *known.values()])
        return self._database.change(f"DELETE FROM {quoted(name)} WHERE {where}", [*known.values()])

    def _loosened(self, refused: Sequence[tuple[RowEdit, Exception]]) -> list[RowEdit]:
        """Return the edits with the references of new rows removed, and added again at the end.

        This allows rows that refer to each other. Raises `ToolError` if it does not help.
        """
        edits: list[RowEdit] = []
        later: list[RowEdit] = []
        for edit, _ in refused:
            table = self._own.tables[edit.key[0]]
            names = {
                column: value
                for column, value in edit.values.items()
                if column in table.references and column in table.optional and value is not None
            }
            if edit.kind == "add" and names:
                alone = {one: value for one, value in edit.values.items() if one not in names}
                edits.append(replace(edit, values=alone))
                later.append(RowEdit("change", edit.key, names))
            else:
                edits.append(edit)
        if not later:
            edit, error = refused[0]
            raise _refusal(edit, error) from error
        return [*edits, *later]

    def _refuse_loss(self, edits: Sequence[RowEdit]) -> None:
        """Raise `ProjectError` if rows or references have disappeared without an edit."""
        own, edited = self._own, {edit.key for edit in edits}
        self.rows = now = own.ordered(read_rows(self._database, own.tables))
        problems = []
        for key in after(own.rows, tuple(edits)):
            before = own.rows.get(key, {})
            if before and key not in now:
                problems.append(f"{key_label(key)} would be deleted by a cascade")
            elif before and key not in edited:
                problems += [
                    f'"{column}" of {key_label(key)} would be changed by a cascade'
                    for column in own.tables[key[0]].references
                    if not same(before[column], now[key][column])
                ]
        _refuse(problems)

    def _preview_value(self, broken: _Broken) -> str:
        name, number, *_ = broken
        table = self._own.tables.get(name)
        if table is None or number is None:
            return f'a row of "{name}"'
        columns = ", ".join(map(quoted, table.key))
        sql = f"SELECT {columns} FROM {quoted(name)} WHERE _rowid_ = ?"
        found = self._database.row(sql, [number])
        key = None if found is None else table.key_of(dict(zip(table.key, found, strict=True)))
        return f'a row of "{name}"' if key is None else key_label((name, key))


def in_order(edits: Sequence[RowEdit], own: Own) -> list[RowEdit]:
    """Return the edits in an order that adds rows after their parents and removes them before."""
    kept = [edit for edit in edits if edit.kind != "remove"]
    gone = {edit.key: own.rows[edit.key] for edit in edits if edit.kind == "remove"}
    added = {edit.key: edit.values for edit in kept if edit.kind == "add"}
    by_key = {edit.key: edit for edit in edits}
    changed = [edit for edit in kept if edit.kind == "change"]
    return [
        *(by_key[key] for key in _parents_first(added, own)),
        *changed,
        *(by_key[key] for key in reversed(_parents_first(gone, own))),
    ]


def _parents_first(rows: Rows, own: Own) -> list[Key]:
    """Return the keys of rows, each after those it refers to; in a cycle, in any order."""
    wanted = {place for table in own.tables.values() for place in table.references.values()}
    known: dict[tuple[str, str, Value], list[Key]] = {}
    for key, row in rows.items():
        for column in row:
            if (key[0], column) in wanted:
                known.setdefault((key[0], column, row[column]), []).append(key)
    ahead: dict[Key, list[Key]] = {
        key: [
            parent
            for column, place in own.tables[key[0]].references.items()
            for parent in known.get((*place, row.get(column)), ())
            if parent != key
        ]
        for key, row in rows.items()
    }
    sorter = TopologicalSorter(ahead)
    with suppress(CycleError):
        sorter.prepare()
    found: dict[Key, None] = {}
    while ready := sorter.get_ready():
        found.update(dict.fromkeys(ready))
        sorter.done(*ready)
    return [*found, *(key for key in rows if key not in found)]


def _refusal(edit: RowEdit, error: Exception) -> ToolError:
    said = first_line(error)
    detail = str(getattr(getattr(error, "diag", None), "message_detail", None) or "")
    more = f": {detail}" if detail.startswith("Key ") else ""  # else it is the whole row
    return ToolError(f"{key_label(edit.key)}: rejected by the database: {said}{more}")


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        *others, last = problems[:NAMED_ROWS]
        raise ProjectError.of([*map(Problem, others), Problem(last, SETTLE)])
